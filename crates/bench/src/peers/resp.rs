//! As much of the Redis protocol as locks need.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    Number(i64),
    Nothing,
    Many(Vec<Reply>),
}

/// A connection to a Redis server.
pub(super) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn ask(&mut self, command: &[&str]) -> anyhow::Result<Reply> {
        self.say(command).await?;
        self.hear().await
    }

    pub(super) async fn say(&mut self, command: &[&str]) -> anyhow::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len());
        for word in command {
            write!(bytes, "${}\r\n{word}\r\n", word.len())?;
        }
        Ok(self.0.write_all(bytes.as_bytes()).await?)
    }

    pub(super) async fn hear(&mut self) -> anyhow::Result<Reply> {
        let line = self.line().await?;
        let Some((kind, rest)) = line.split_at_checked(1) else { bail!("an empty reply") };
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => bail!("Redis says: {rest}"),
            ":" => Reply::Number(rest.parse()?),
            "$" if rest == "-1" => Reply::Nothing,
            "$" => self.text(rest.parse()?).await?,
            "*" => {
                let mut many = Vec::new();
                for _ in 0..rest.parse::<usize>()? {
                    many.push(Box::pin(self.hear()).await?);
                }
                Reply::Many(many)
            }
            _ => bail!("a reply that is not of Redis: {line}"),
        })
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            bail!("Redis has closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }

    async fn text(&mut self, length: usize) -> anyhow::Result<Reply> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).await?;
        bytes.truncate(length);
        Ok(Reply::Text(String::from_utf8(bytes).context("a reply that is no text")?))
    }
}

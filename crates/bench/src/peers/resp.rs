//! A minimal client of the Redis protocol (RESP).

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A reply of a Redis server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RespReply {
    Text(String),
    Number(i64),
    Nothing,
    Many(Vec<RespReply>),
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
    pub(super) async fn ask(&mut self, command: &[&str]) -> anyhow::Result<RespReply> {
        self.send(command).await?;
        self.receive().await
    }

    pub(super) async fn send(&mut self, command: &[&str]) -> anyhow::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len());
        for word in command {
            write!(bytes, "${}\r\n{word}\r\n", word.len())?;
        }
        Ok(self.0.write_all(bytes.as_bytes()).await?)
    }

    pub(super) async fn receive(&mut self) -> anyhow::Result<RespReply> {
        let line = self.line().await?;
        let Some((kind, rest)) = line.split_at_checked(1) else { bail!("an empty reply") };
        Ok(match kind {
            "+" => RespReply::Text(rest.to_owned()),
            "-" => bail!("Redis says: {rest}"),
            ":" => RespReply::Number(rest.parse()?),
            "$" if rest == "-1" => RespReply::Nothing,
            "$" => self.text(rest.parse()?).await?,
            "*" => {
                let mut many = Vec::new();
                for _ in 0..rest.parse::<usize>()? {
                    many.push(Box::pin(self.receive()).await?);
                }
                RespReply::Many(many)
            }
            _ => bail!("a reply that is not of the Redis protocol: {line}"),
        })
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            bail!("Redis has closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }

    async fn text(&mut self, length: usize) -> anyhow::Result<RespReply> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes).await?;
        bytes.truncate(length);
        Ok(RespReply::Text(String::from_utf8(bytes).context("a reply is not UTF-8")?))
    }
}

//! A minimal ZooKeeper client for its lock recipe: frames with a length and big-endian fields.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The error numbers that the lock recipe expects.
pub(super) const NO_NODE: i32 = -101;
pub(super) const NODE_EXISTS: i32 = -110;

/// Largest frame that is accepted, in bytes.
const MAX_BYTES: usize = 16 << 20;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const CHILDREN: i32 = 8;

/// The number of a frame that reports an event of a watch, instead of an answer.
const WATCH: i32 = -1;

/// How a node is created.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    Persistent = 0,
    EphemeralSequential = 3,
}

/// A session with a ZooKeeper server.
pub(super) struct ZooKeeperSession {
    stream: BufReader<TcpStream>,
    last: i32,
    /// The paths of the nodes whose watches have fired.
    news: Vec<String>,
}

impl ZooKeeperSession {
    pub(super) async fn open(address: SocketAddr, expiry: Duration) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut session = ZooKeeperSession { stream: BufReader::new(stream), last: 0, news: Vec::new() };
        let mut hello = Frame::default();
        hello.int(0).long(0).int(i32::try_from(expiry.as_millis())?).long(0).bytes(&[0; 16]).byte(0);
        session.send(hello).await?;
        let frame = session.frame().await?;
        let mut welcome = Fields(&frame);
        welcome.int()?;
        if welcome.int()? <= 0 {
            bail!("ZooKeeper refuses the session");
        }
        Ok(session)
    }

    /// Creates a node. Returns its name, or the number of the error.
    pub(super) async fn create(&mut self, path: &str, mode: Mode) -> anyhow::Result<Result<String, i32>> {
        let mut body = Frame::default();
        // Access control: everything is allowed to everyone.
        body.bytes(path.as_bytes())
            .bytes(b"")
            .int(1)
            .int(31)
            .bytes(b"world")
            .bytes(b"anyone")
            .int(mode as i32);
        match self.ask(CREATE, body).await? {
            Ok(answer) => Fields(&answer).text().map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(super) async fn delete(&mut self, path: &str) -> anyhow::Result<()> {
        let mut body = Frame::default();
        body.bytes(path.as_bytes()).int(-1);
        match self.ask(DELETE, body).await? {
            Ok(_) => Ok(()),
            Err(error) => bail!("ZooKeeper does not delete {path}: error {error}"),
        }
    }

    /// Returns whether a node exists. If it does, its deletion will be reported.
    pub(super) async fn watch(&mut self, path: &str) -> anyhow::Result<bool> {
        let mut body = Frame::default();
        body.bytes(path.as_bytes()).byte(1);
        match self.ask(EXISTS, body).await? {
            Ok(_) => Ok(true),
            Err(NO_NODE) => Ok(false),
            Err(error) => bail!("ZooKeeper does not look at {path}: error {error}"),
        }
    }

    pub(super) async fn children(&mut self, path: &str) -> anyhow::Result<Vec<String>> {
        let mut body = Frame::default();
        body.bytes(path.as_bytes()).byte(0);
        match self.ask(CHILDREN, body).await? {
            Ok(answer) => {
                let mut fields = Fields(&answer);
                let count = fields.int()?;
                (0..count).map(|_| fields.text()).collect()
            }
            Err(error) => bail!("ZooKeeper does not list {path}: error {error}"),
        }
    }

    /// Waits until the watch of a node has fired.
    pub(super) async fn until_news(&mut self, path: &str) -> anyhow::Result<()> {
        loop {
            if let Some(at) = self.news.iter().position(|of| of == path) {
                self.news.swap_remove(at);
                return Ok(());
            }
            let frame = self.frame().await?;
            self.note(&frame)?;
        }
    }

    async fn ask(&mut self, kind: i32, body: Frame) -> anyhow::Result<Result<Vec<u8>, i32>> {
        self.last += 1;
        let mut request = Frame::default();
        request.int(self.last).int(kind).0.extend(body.0);
        self.send(request).await?;
        loop {
            let frame = self.frame().await?;
            let mut head = Fields(&frame);
            let (of, _, error) = (head.int()?, head.long()?, head.int()?);
            if of == self.last {
                return Ok(if error == 0 { Ok(head.0.to_vec()) } else { Err(error) });
            }
            self.note(&frame)?;
        }
    }

    /// Remembers the event if the frame is one of a watch.
    fn note(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let mut fields = Fields(frame);
        let (of, ..) = (fields.int()?, fields.long()?, fields.int()?);
        if of == WATCH {
            let (_, _, path) = (fields.int()?, fields.int()?, fields.text()?);
            self.news.push(path);
        }
        Ok(())
    }

    async fn send(&mut self, frame: Frame) -> anyhow::Result<()> {
        let mut bytes = u32::try_from(frame.0.len())?.to_be_bytes().to_vec();
        bytes.extend(frame.0);
        Ok(self.stream.write_all(&bytes).await?)
    }

    async fn frame(&mut self) -> anyhow::Result<Vec<u8>> {
        let length = usize::try_from(self.stream.read_u32().await?)?;
        if length > MAX_BYTES {
            bail!("an answer of {length} bytes: the server is not ZooKeeper");
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }
}

/// Writes the fields of a frame.
#[derive(Default)]
struct Frame(Vec<u8>);

impl Frame {
    fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.0.extend(bytes);
        self
    }
}

/// Reads the fields of a frame.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn int(&mut self) -> anyhow::Result<i32> {
        self.part().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> anyhow::Result<i64> {
        self.part().map(i64::from_be_bytes)
    }

    fn text(&mut self) -> anyhow::Result<String> {
        let length = usize::try_from(self.int()?).context("a text in the answer has a negative length")?;
        let (text, rest) = self.0.split_at_checked(length).context("the answer ends early")?;
        self.0 = rest;
        Ok(String::from_utf8(text.to_vec())?)
    }

    fn part<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk().context("the answer ends early")?;
        self.0 = rest;
        Ok(*part)
    }
}

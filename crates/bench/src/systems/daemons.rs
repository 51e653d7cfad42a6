//! Three sites as processes of their own. Clients connect to the Unix sockets of the sites.
//!
//! The clients do their own I/O, on the runtime of the measurement: a client of the library has a thread that reads, and passing each
//! message on from it would be measured, too. What the messages mean is the library's [`OpenRequests`]; its cost, one entry in a map, is
//! far below a microsecond, and it allocates nothing once the map has its first node.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use meshlock_client::{OpenRequests, RequestState};
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_wire::clients::{Tag, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::node_processes::{NodeProcesses, SITES};
use crate::peers::{Server, until_ready};
use crate::system::{Kill, LockClient, System};

/// Three processes `meshlock node`.
pub(crate) struct Daemons(NodeProcesses);

impl Daemons {
    pub(crate) async fn start(program: &Path) -> anyhow::Result<Self> {
        let mut nodes = NodeProcesses::start(program)?;
        for socket in &nodes.sockets {
            until_ready(&mut nodes.sites, || async {
                let mut client = SocketClient::connect(socket).await?;
                // A lock is granted only once the site is a member of the cluster.
                client.acquire("ready").await?;
                client.release().await
            })
            .await?;
        }
        Ok(Daemons(nodes))
    }
}

impl System for Daemons {
    type Client = SocketClient;

    async fn connect(&self, number: usize, _expiry: Duration) -> anyhow::Result<Self::Client> {
        SocketClient::connect(&self.0.sockets[number % SITES]).await
    }

    fn processes(&self) -> Vec<u32> {
        self.0.ids()
    }

    /// The holder is a command under `meshlock run`, as users have it.
    async fn hold(&self, lock: &'static str) -> anyhow::Result<Kill> {
        let NodeProcesses { program, sockets, directory, .. } = &self.0;
        let started = directory.path().join(format!("{lock}.started"));
        let mut command = Command::new(program);
        command.arg("run").arg(lock).arg("--socket").arg(&sockets[0]).args(["--", "sh", "-c"]);
        // The command writes its process id once it holds the lock.
        command.arg("echo $$ > \"$0.new\" && mv \"$0.new\" \"$0\" && exec sleep 600").arg(&started);
        command.stdin(Stdio::null());
        let mut run = Server::start(command, directory.path(), lock)?;
        let start = Instant::now();
        while !started.exists() {
            if start.elapsed() > Duration::from_secs(20) {
                bail!("`meshlock run` does not get a free lock");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let group =
            std::fs::read_to_string(&started)?.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
        let group = group.context("the command did not write its process id")?;
        Ok(Box::new(move || {
            // Kills both, as when a terminal is closed or a container is killed. The command may be gone already.
            run.kill();
            let _ = rustix::process::kill_process(group, rustix::process::Signal::KILL);
        }))
    }

    fn kill_first(&mut self) -> bool {
        self.0.sites[0].kill();
        true
    }
}

/// A client of one site, over its socket.
pub(crate) struct SocketClient {
    stream: UnixStream,
    received: Vec<u8>,
    /// The last request.
    tag: Tag,
    requests: OpenRequests,
}

impl SocketClient {
    async fn connect(path: &std::path::Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        let mut client =
            SocketClient { stream, received: Vec::new(), tag: 0, requests: OpenRequests::default() };
        client.send(&ToNode::Hello { version: VERSIONS.1, who: "bench".parse()? }).await?;
        let answer = client.receive().await?;
        if !matches!(answer, ToClient::Welcome { .. }) {
            bail!("the node answers a greeting with {answer:?}");
        }
        Ok(client)
    }

    async fn send(&mut self, message: &ToNode) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        Ok(self.stream.write_all(&bytes).await?)
    }

    async fn receive(&mut self) -> anyhow::Result<ToClient> {
        loop {
            if let Some((message, length)) = take_to_client(&self.received)? {
                self.received.drain(..length);
                return Ok(message);
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                bail!("the node has closed the connection");
            }
        }
    }
}

impl LockClient for SocketClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        self.tag += 1;
        let (tag, lock): (Tag, LockName) = (self.tag, lock.parse()?);
        self.requests.open(tag);
        self.send(&ToNode::Acquire { tag, lock, wait: Wait::Forever, permits: None }).await?;
        loop {
            let message = self.receive().await?;
            // The node is on this machine and has the same clock.
            self.requests.on_message(message, |time| time);
            match self.requests.state(tag) {
                Some(RequestState::Waiting) => {}
                Some(RequestState::Held { fence, .. }) => return Ok(Some(*fence)),
                other => bail!("the node does not grant the lock: {other:?}"),
            }
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.requests.forget(self.tag);
        self.send(&ToNode::Release(self.tag)).await
    }
}

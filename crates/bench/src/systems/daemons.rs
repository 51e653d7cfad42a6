//! Three sites as processes of their own, `meshlock node`; clients come over each site's Unix socket.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use meshlock_cluster::names::LockName;
use meshlock_cluster::table::Wait;
use meshlock_wire::clients::{Tag, ToClient, ToNode, VERSIONS, put_to_node, take_to_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::output::free_addresses;
use crate::peers::{Server, until_ready};
use crate::system::{Client, Kill, System};

const SITES: usize = 3;

/// Three processes.
pub(crate) struct Daemons {
    program: PathBuf,
    sites: Vec<Server>,
    sockets: Vec<PathBuf>,
    directory: tempfile::TempDir,
}

impl Daemons {
    pub(crate) async fn start(program: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let name = |number: usize| format!("site-{}", number + 1);
        let addresses = free_addresses(SITES)?;
        let join: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(number, address)| format!("{}={address}", name(number)))
            .collect();
        let sockets: Vec<PathBuf> =
            (0..SITES).map(|number| directory.path().join(format!("{}.sock", name(number)))).collect();
        let mut sites = Vec::new();
        for (number, socket) in sockets.iter().enumerate() {
            let mut command = Command::new(program);
            command.args(["node", "--plain", "--site", &name(number), "--data", &format!("data-{number}")]);
            command.arg("--socket").arg(socket).arg("--join").args(&join);
            sites.push(Server::start(command, directory.path(), &name(number))?);
        }
        for socket in &sockets {
            until_ready(&mut sites, || async {
                let mut client = SocketClient::connect(socket).await?;
                // A lock of its own is granted only once the site takes part.
                client.acquire("ready").await?;
                client.release().await
            })
            .await?;
        }
        Ok(Daemons { program: program.to_owned(), sites, sockets, directory })
    }
}

impl System for Daemons {
    type Client = SocketClient;

    async fn connect(&self, number: usize, _expiry: Duration) -> anyhow::Result<Self::Client> {
        SocketClient::connect(&self.sockets[number % SITES]).await
    }

    fn processes(&self) -> Vec<u32> {
        self.sites.iter().map(Server::id).collect()
    }

    /// A command under `meshlock run`, as a user has it.
    async fn hold(&self, lock: &'static str) -> anyhow::Result<Kill> {
        let started = self.directory.path().join(format!("{lock}.started"));
        let mut command = Command::new(&self.program);
        command.arg("run").arg(lock).arg("--socket").arg(&self.sockets[0]).args(["--", "sh", "-c"]);
        // The number of the command's process, said once it holds the lock.
        command.arg("echo $$ > \"$0.new\" && mv \"$0.new\" \"$0\" && exec sleep 600").arg(&started);
        command.stdin(Stdio::null());
        let mut run = Server::start(command, self.directory.path(), lock)?;
        let start = Instant::now();
        while !started.exists() {
            if start.elapsed() > Duration::from_secs(20) {
                bail!("`meshlock run` does not get a free lock");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let group =
            std::fs::read_to_string(&started)?.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
        let group = group.context("the command does not say its number")?;
        Ok(Box::new(move || {
            // Both of them, as when a terminal's last process dies or a container is killed. The command may be gone already.
            run.kill();
            let _ = rustix::process::kill_process(group, rustix::process::Signal::KILL);
        }))
    }

    fn kill_first(&mut self) -> bool {
        self.sites[0].kill();
        true
    }
}

/// A client of one site, over its socket.
pub(crate) struct SocketClient {
    stream: UnixStream,
    heard: Vec<u8>,
    tag: Tag,
}

impl SocketClient {
    pub(crate) async fn connect(path: &std::path::Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        let mut client = SocketClient { stream, heard: Vec::new(), tag: 0 };
        client.say(&ToNode::Hello { version: VERSIONS.1, who: "bench".parse()? }).await?;
        let answer = client.hear().await?;
        if !matches!(answer, ToClient::Welcome { .. }) {
            bail!("the node answers a greeting with {answer:?}");
        }
        Ok(client)
    }

    async fn say(&mut self, message: &ToNode) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        Ok(self.stream.write_all(&bytes).await?)
    }

    async fn hear(&mut self) -> anyhow::Result<ToClient> {
        loop {
            if let Some((message, length)) = take_to_client(&self.heard)? {
                self.heard.drain(..length);
                return Ok(message);
            }
            if self.stream.read_buf(&mut self.heard).await? == 0 {
                bail!("the node has closed the connection");
            }
        }
    }
}

impl Client for SocketClient {
    async fn acquire(&mut self, lock: &str) -> anyhow::Result<Option<i64>> {
        self.tag += 1;
        let (lock, wanted): (LockName, Tag) = (lock.parse()?, self.tag);
        let request = ToNode::Acquire { tag: wanted, lock, wait: Wait::Forever, permits: None };
        self.say(&request).await?;
        loop {
            let heard = self.hear().await?;
            if let ToClient::Refused { why, .. } = &heard {
                bail!("the node refuses: {why}");
            }
            // Others are of requests before this one, and of the lease.
            if let ToClient::Granted { tag, fence, .. } = heard
                && tag == wanted
            {
                return Ok(Some(fence));
            }
        }
    }

    async fn release(&mut self) -> anyhow::Result<()> {
        self.say(&ToNode::Release(self.tag)).await
    }
}

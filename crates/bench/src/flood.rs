//! Measures a client over a network while others open connections to every port of its site and say nothing.
//!
//! The flood takes every place that the ports have for connections that have not identified themselves, from several networks, and opens
//! new ones at a fixed pace. The client is measured twice, before the flood and during it: what it waits for a lock, connected, and what it
//! takes to connect and get one.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use meshlock_cluster::table::Wait;
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS};

use crate::output::{InvalidArgument, free_addresses};
use crate::peers::{Server, until_ready};
use crate::report::{Goal, GoalRow, Reference};
use crate::socket::BlockingClient;
use crate::statistics::quantile;

/// Networks of 256 addresses that the flood comes from, and its connections from each to each port: more than a port has places.
const NETWORKS: u8 = 5;
const FROM_EACH: usize = 260;

/// New connections of the flood in each millisecond, over all ports. For each the oldest one is closed.
const OPENED_EACH_MS: usize = 1;

/// Descriptors that the flood takes in this process, and the node in its own.
const DESCRIPTORS: u64 = 8192;

/// How long the client waits between two requests, so that the tail is that of single requests.
const PAUSE: Duration = Duration::from_micros(200);

/// The limit of a flooded client's time, as a multiple of what it takes otherwise.
const MAX_RATIO: f64 = 5.0;

/// Measures a client of a site that runs as a process of its own.
pub(super) async fn measure(program: &Path, times: usize) -> anyhow::Result<Vec<GoalRow>> {
    allow_descriptors()?;
    let directory = tempfile::tempdir()?;
    let addresses = free_addresses(3)?;
    let mut command = Command::new(program);
    command.args(["node", "--plain", "--site", "flooded", "--data", "data", "--socket", "node.sock"]);
    command.args(["--join", &format!("flooded={}", addresses[0])]);
    command.args(["--clients", &addresses[1], "--api", &addresses[2]]);
    let mut sites = [Server::start(command, directory.path(), "flooded")?];
    let ports = addresses.iter().map(|address| address.parse()).collect::<Result<Vec<SocketAddr>, _>>()?;
    let clients = ports[1];
    until_ready(&mut sites, || async move { connect(clients)?.enter(1).map(drop) }).await?;
    let measured = tokio::task::spawn_blocking(move || {
        let idle = Figures::measure(clients, times)?;
        let flood = Flood::start(ports)?;
        let flooded = Figures::measure(clients, times);
        flood.stop()?;
        anyhow::Ok((idle, flooded?))
    });
    let (idle, flooded) = measured.await??;
    let row = |what: &str, ours: f64, value: f64| GoalRow {
        what: format!("{what}, p99, while every port is flooded"),
        unit: "µs",
        ours,
        reference: Some(Reference { what: "the same without a flood".to_owned(), value }),
        goal: Some(Goal::RatioAtMost(MAX_RATIO)),
    };
    Ok(vec![
        row("release and acquire over TCP", flooded.entry, idle.entry),
        row("connect over TCP and acquire", flooded.connection, idle.connection),
    ])
}

/// Raises the number of descriptors that this process and its children may have.
fn allow_descriptors() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < DESCRIPTORS) {
        let raised = Rlimit { current: Some(DESCRIPTORS), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|error| {
            InvalidArgument::new(format!("--only flood needs {DESCRIPTORS} descriptors (ulimit -n): {error}"))
        })?;
    }
    Ok(())
}

/// What a client takes in the slowest of a hundred cases, in microseconds.
struct Figures {
    entry: f64,
    connection: f64,
}

impl Figures {
    fn measure(clients: SocketAddr, times: usize) -> anyhow::Result<Self> {
        let mut client = connect(clients)?;
        let entries = (1..=u64::try_from(times)?).map(|tag| timed(|| client.enter(tag)));
        let entry = p99(entries.collect::<anyhow::Result<_>>()?);
        let connections = (0..times / 10).map(|_| timed(|| connect(clients)?.enter(1)));
        let connection = p99(connections.collect::<anyhow::Result<_>>()?);
        Ok(Figures { entry, connection })
    }
}

fn timed(act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    std::thread::park_timeout(PAUSE);
    let start = Instant::now();
    act()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Returns the smallest figure that 99 of 100 do not exceed.
fn p99(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    quantile(&figures, 990)
}

fn connect(clients: SocketAddr) -> anyhow::Result<BlockingClient<TcpStream>> {
    let stream = TcpStream::connect(clients)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut client = BlockingClient::new(stream);
    client.send(&[ToNode::Hello { version: VERSIONS.1, who: "bench".parse()? }])?;
    let answer = client.receive()?;
    anyhow::ensure!(
        matches!(answer, ToClient::Welcome { .. }),
        "the node answers a greeting with {answer:?}"
    );
    Ok(client)
}

impl BlockingClient<TcpStream> {
    /// Acquires and releases a lock.
    fn enter(&mut self, tag: u64) -> anyhow::Result<()> {
        self.requests.open(tag);
        self.send(&[ToNode::Acquire { tag, lock: "flooded".parse()?, wait: Wait::Forever, permits: None }])?;
        self.wait_for(tag)?;
        self.requests.forget(tag);
        self.send(&[ToNode::Release(tag)])
    }
}

/// A thread that keeps many silent connections open.
struct Flood {
    /// Dropped when it has to stop.
    stop: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Flood {
    /// Starts the flood, and waits until all of its connections were opened once.
    fn start(ports: Vec<SocketAddr>) -> anyhow::Result<Self> {
        let all = usize::from(NETWORKS) * FROM_EACH * ports.len();
        let mut opened = (0..).map(move |nth: usize| {
            let last = u8::try_from(nth / 15 % 250).unwrap_or_default();
            let network = u8::try_from(nth / 3 % usize::from(NETWORKS)).unwrap_or_default();
            connect_from(Ipv4Addr::new(127, 201, network, last + 1), ports[nth % ports.len()])
        });
        let mut open = opened.by_ref().take(all).collect::<io::Result<VecDeque<TcpStream>>>()?;
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                for connection in opened.by_ref().take(OPENED_EACH_MS) {
                    open.push_back(connection?);
                    open.pop_front();
                }
            }
            Ok(())
        });
        Ok(Flood { stop, thread })
    }

    fn stop(self) -> anyhow::Result<()> {
        drop(self.stop);
        let ended = self.thread.join().ok().context("the flood's thread has failed")?;
        ended.context("the flood cannot open more connections")
    }
}

fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

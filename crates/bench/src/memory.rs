//! Measures the memory of many idle locks, and of many held ones.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use meshlock::Cluster;
use meshlock_cluster::table::Wait;
use meshlock_wire::clients::{MAX_OPEN, ToClient, ToNode, VERSIONS};
use tokio::task::JoinSet;

use super::output::free_addresses;
use super::peers::{Server, until_ready};
use super::socket::BlockingClient;

const SITES: usize = 3;

/// How many clients use the locks at once.
const CLIENTS: usize = 48;

/// Returns the memory of this process for each lock that a site keeps, in bytes, after three sites have used that many locks once.
pub(super) async fn bytes_per_idle_lock(locks: usize) -> anyhow::Result<f64> {
    let cluster = Cluster::local_with(SITES, |_, builder| builder.max_locks((2 * locks).max(1_000_000)))?;
    cluster.ready().await;
    let before = resident_bytes(std::process::id())?;
    let mut running = JoinSet::new();
    for client in 0..CLIENTS {
        let node = cluster[client % SITES].clone();
        running.spawn(async move {
            for number in (client..locks).step_by(CLIENTS) {
                drop(node.lock(&format!("backup/host-{number:06}")).await?);
                tokio::task::consume_budget().await;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    let after = resident_bytes(std::process::id())?;
    let kept: usize =
        cluster.nodes().iter().map(|node| node.front().node().look(|node| node.table().counts().locks)).sum();
    anyhow::ensure!(kept >= locks, "{locks} locks were used, but all sites together keep only {kept}");
    Ok(after.saturating_sub(before) as f64 / kept as f64)
}

/// Returns the memory of the process of a node for each lock that its clients hold, in bytes. They are a few, connected to its socket,
/// and hold as many locks as one may.
pub(super) async fn bytes_per_held_lock(program: &Path, locks: usize) -> anyhow::Result<f64> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command.args(["node", "--plain", "--site", "held", "--data", "data", "--socket", "node.sock"]);
    command.args(["--join", &format!("held={}", free_addresses(1)?[0])]);
    let mut sites = [Server::start(command, directory.path(), "held")?];
    let socket = directory.path().join("node.sock");
    let path = socket.clone();
    until_ready(&mut sites, || async { hold(&path, 0..1).map(drop) }).await?;
    let process = sites[0].id();
    let held = tokio::task::spawn_blocking(move || {
        let before = resident_bytes(process)?;
        let starts = (0..locks).step_by(MAX_OPEN);
        let clients: Vec<_> = starts
            .map(|start| hold(&socket, start..(start + MAX_OPEN).min(locks)))
            .collect::<anyhow::Result<_>>()?;
        let after = resident_bytes(process)?;
        drop(clients);
        anyhow::Ok(after.saturating_sub(before) as f64 / locks as f64)
    });
    held.await?
}

/// Connects a client that holds these locks.
fn hold(socket: &Path, numbers: std::ops::Range<usize>) -> anyhow::Result<BlockingClient<UnixStream>> {
    let mut client = BlockingClient::new(UnixStream::connect(socket)?);
    client.send(&[ToNode::Hello { version: VERSIONS.1, who: "bench".parse()? }])?;
    anyhow::ensure!(matches!(client.receive()?, ToClient::Welcome { .. }), "the node answers a greeting");
    for number in numbers {
        let (tag, lock) = (number as u64 + 1, format!("backup/host-{number:06}").parse()?);
        client.requests.open(tag);
        client.send(&[ToNode::Acquire { tag, lock, wait: Wait::Forever, permits: None }])?;
        client.wait_for(tag)?;
    }
    Ok(client)
}

/// Returns the resident memory of a process in bytes.
pub(super) fn resident_bytes(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no resident memory")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

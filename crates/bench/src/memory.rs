//! Measures the memory of many idle locks.

use anyhow::Context;
use meshlock::Cluster;
use tokio::task::JoinSet;

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

/// Returns the resident memory of a process in bytes.
pub(super) fn resident_bytes(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no resident memory")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

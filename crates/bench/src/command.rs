//! Measures what it takes to run a command under a lock: `meshlock run x -- true` with a running node, beside `flock x true` and, where
//! etcd is measured, `etcdctl lock x true`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;

use super::peers::{Server, etcd::Etcd, until_ready};
use super::report::{Goal, GoalRow, Reference};
use super::statistics::median;

/// A command that is measured.
struct Timed {
    command: Command,
    millis: Vec<f64>,
}

impl Timed {
    fn new(command: Command) -> Self {
        Timed { command, millis: Vec::new() }
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        let status = self.command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        let millis = start.elapsed().as_secs_f64() * 1e3;
        let program = self.command.get_program().to_string_lossy().into_owned();
        let status = status.with_context(|| format!("cannot start {program}"))?;
        anyhow::ensure!(status.success(), "{program} has failed ({status})");
        self.millis.push(millis);
        Ok(())
    }
}

/// Returns the rows of the goals, from the medians of so many runs of each command, one after the other in turn.
pub(super) async fn measure(program: &Path, with_etcd: bool, times: usize) -> anyhow::Result<Vec<GoalRow>> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("site.sock");
    let mut node = Command::new(program);
    node.args(["node", "--site", "site", "--data", "data", "--socket"]).arg(&socket);
    let mut servers = [Server::start(node, directory.path(), "site")?];
    let mut ours = Command::new(program);
    ours.args(["run", "bench", "--socket"]).arg(&socket).args(["--", "true"]);
    let mut ours = Timed::new(ours);
    until_ready(&mut servers, || {
        let is_there = socket.exists();
        std::future::ready(if is_there { ours.run() } else { Err(anyhow::anyhow!("it has no socket yet")) })
    })
    .await?;
    ours.millis.clear();
    let mut flock = Command::new("flock");
    flock.arg(directory.path().join("file")).arg("true");
    let mut beside = vec![("flock FILE true", Goal::RatioAtMost(2.5), Timed::new(flock))];
    let etcd = if with_etcd { Some(Etcd::start().await?) } else { None };
    if let Some(etcd) = &etcd {
        let mut lock = Command::new("etcdctl");
        lock.env("ETCDCTL_API", "3").arg("--endpoints").arg(etcd.address().to_string());
        lock.args(["lock", "bench", "true"]);
        beside.push(("etcdctl lock NAME true", Goal::RatioAtMost(1.0), Timed::new(lock)));
    }
    for _ in 0..times {
        ours.run()?;
        beside.iter_mut().try_for_each(|(_, _, timed)| timed.run())?;
    }
    let ours = median(ours.millis);
    let row = |(what, goal, timed): (&str, Goal, Timed)| GoalRow {
        what: "meshlock run NAME -- true, median, with a running node".to_owned(),
        unit: "ms",
        ours,
        reference: Some(Reference { what: what.to_owned(), value: median(timed.millis) }),
        goal: Some(goal),
    };
    Ok(beside.into_iter().map(row).collect())
}

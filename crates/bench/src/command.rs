//! Measures what it takes to run a command under a lock: `meshlock run x -- true` with a running node, beside `flock x true` and, where
//! etcd is measured, `etcdctl lock x true`.
//!
//! The goals are for `meshlock` as packages install it, with the launcher under that name. The program with all commands, as it is
//! built, is measured beside it.

use std::fs;
use std::path::{Path, PathBuf};
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
    let run = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["run", "bench", "--socket"]).arg(&socket).args(["--", "true"]);
        Timed::new(command)
    };
    let (mut ours, mut without) = match install(program, &directory.path().join("package"))? {
        Some(installed) => (run(&installed), Some(run(program))),
        None => (run(program), None),
    };
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
        without.as_mut().map_or(Ok(()), Timed::run)?;
        beside.iter_mut().try_for_each(|(_, _, timed)| timed.run())?;
    }
    let (ours, without) = (median(ours.millis), without.map(|timed| median(timed.millis)));
    let mut rows = Vec::new();
    for (what, goal, timed) in beside {
        let beside = median(timed.millis);
        let row = |how: &str, ours: f64, goal: Option<Goal>| GoalRow {
            what: format!("meshlock run NAME -- true, median, with a running node{how}"),
            unit: "ms",
            ours,
            reference: Some(Reference { what: what.to_owned(), value: beside }),
            goal,
        };
        rows.push(row("", ours, Some(goal)));
        rows.extend(without.map(|without| row(", without the launcher", without, None)));
    }
    Ok(rows)
}

/// The programs as they are built, and as a package installs them (`package.metadata.deb` in `crates/cli/Cargo.toml`).
const PACKAGE: [(&str, &str); 3] = [
    ("meshlock-launcher", "meshlock"),
    ("meshlock", "meshlock-full"),
    ("meshlock-supervisor", "meshlock-supervisor"),
];

/// Installs the programs that were built beside `program` in a new directory, as a package does, and returns the path of `meshlock` there.
/// `None` if there is no launcher beside it: it is of an earlier version, or installed already.
fn install(program: &Path, into: &Path) -> anyhow::Result<Option<PathBuf>> {
    if !program.with_file_name(PACKAGE[0].0).exists() {
        return Ok(None);
    }
    fs::create_dir(into)?;
    for (built, installed) in PACKAGE {
        let built = program.with_file_name(built);
        fs::copy(&built, into.join(installed)).with_context(|| built.display().to_string())?;
    }
    Ok(Some(into.join("meshlock")))
}

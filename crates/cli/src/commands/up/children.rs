//! The processes of a local cluster: started together, watched, and stopped by their process ids.

use std::fs::File;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::files::{LocalClusterFiles, LocalSite};
use crate::output::{CommandOutcome, Printable};

/// How long the sites may take to be ready.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How long the sites may take to leave before they are killed: longer than a node's own limits.
const STOP_WITHIN: Duration = Duration::from_secs(12);

/// All sites of a local cluster.
pub(super) struct Children(Vec<Running>);

struct Running {
    name: String,
    log: String,
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Children {
    pub(super) fn start(files: &LocalClusterFiles) -> anyhow::Result<Self> {
        files.sites.iter().map(Running::start).collect::<anyhow::Result<_>>().map(Children)
    }

    /// Waits until every site has printed that it is ready, and prints these lines.
    pub(super) async fn until_ready(&mut self, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
        let ready = async {
            for running in &mut self.0 {
                match running.said.next_line().await? {
                    Some(line) => writeln!(out, "{line}")?,
                    None => return Err(running.died().await),
                }
                out.flush()?;
            }
            Ok(CommandOutcome::Done)
        };
        tokio::select! {
            ready = timeout(READY_WITHIN, ready) => ready.context("not all sites were ready in time; their logs say why")?,
            told = told_to_stop() => told.map(|()| CommandOutcome::Unfinished),
        }
    }

    /// Waits until this process is told to stop. A site that ends before that is reported, and the others continue.
    pub(super) async fn until_told(&mut self) -> anyhow::Result<CommandOutcome> {
        let told = told_to_stop();
        tokio::pin!(told);
        let mut outcome = CommandOutcome::Done;
        loop {
            let watching = self.0.iter_mut().map(|running| Box::pin(running.child.wait()));
            let any = first_of(watching.collect());
            tokio::select! {
                told = &mut told => return told.map(|()| outcome),
                at = any => {
                    let mut gone = self.0.remove(at);
                    let died = format!("{:#}", gone.died().await);
                    eprintln!("meshlock: {}; the other sites continue without it", Printable(died));
                    outcome = CommandOutcome::Refuted;
                    if self.0.is_empty() {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Stops all sites: lets them leave, and kills those that take too long.
    pub(super) async fn stop(&mut self) {
        for running in &self.0 {
            running.signal(Signal::TERM);
        }
        let all = async {
            for running in &mut self.0 {
                let _ = running.child.wait().await;
            }
        };
        if timeout(STOP_WITHIN, all).await.is_err() {
            for running in &mut self.0 {
                let _ = running.child.kill().await;
            }
        }
    }
}

/// Returns the index of the future that completes first.
async fn first_of<T>(mut waiting: Vec<std::pin::Pin<Box<impl Future<Output = T>>>>) -> usize {
    std::future::poll_fn(|context| {
        let ended = waiting.iter_mut().position(|one| one.as_mut().poll(context).is_ready());
        ended.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
    })
    .await
}

/// Waits for Ctrl-C or SIGTERM.
async fn told_to_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

impl Running {
    fn start(site: &LocalSite) -> anyhow::Result<Self> {
        let log = File::options().create(true).append(true).open(&site.log);
        let log = log.with_context(|| format!("{}: cannot be written", site.log.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("node").arg("--config").arg(&site.config);
        // A process group of its own: Ctrl-C on the terminal reaches only this process, which then stops its sites.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start a site")?;
        let said = child.stdout.take().context("a site has no output")?;
        let said = BufReader::new(said).lines();
        Ok(Running { name: site.name.to_string(), log: site.log.display().to_string(), child, said })
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            // The site may have ended by itself.
            let _ = kill_process(id, signal);
        }
    }

    /// Returns the error that says how the site ended, with the last line of its log.
    async fn died(&mut self) -> anyhow::Error {
        let status =
            self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().last().unwrap_or("(its log is empty)");
        anyhow::anyhow!("{} has ended ({status}): {last}; its log: {}", self.name, self.log)
    }
}

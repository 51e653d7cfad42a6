//! Runs a node from its start to its end.

use std::io::Write;
use std::time::{Duration, Instant};

use meshlock::{Node, StartError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::repeats::{Repeats, WINDOW};
use super::{Reload, service_manager};
use crate::output::CommandOutcome;
use crate::settings::file::ConfigSource;
use crate::settings::{NodeSettings, located};

/// The log warns if the site has not become a member after this time.
const COMPLAIN_AFTER: Duration = Duration::from_secs(5);

const FAILED: &str = "the node has panicked, which is a bug: please report what was logged before this";

/// Runs a node until it is told to stop.
pub(super) fn run(
    settings: NodeSettings,
    source: &ConfigSource,
    reload: &Reload,
    repeats: &Repeats,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    meshlock_system::raise_max_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut signals, changes) = {
        let _within = runtime.enter();
        (Signals::new()?, signal(SignalKind::hangup())?)
    };
    let shutdown_grace = settings.shutdown_grace;
    let node = start(settings, source)?;
    let _reloading = runtime.spawn(reload_on(changes, node.clone(), reload.clone()));
    let _counting = runtime.spawn(report_repeats(repeats.clone()));
    let outcome = runtime.block_on(async {
        tokio::select! {
            number = signals.next() => return stop(&node, shutdown_grace, number, &mut signals).await,
            () = node.failed() => anyhow::bail!(FAILED),
            () = until_ready(&node) => announce(&node, out)?,
        }
        tokio::select! {
            number = signals.next() => stop(&node, shutdown_grace, number, &mut signals).await,
            () = node.failed() => anyhow::bail!(FAILED),
        }
    });
    node.flush_audit_log();
    outcome
}

fn start(settings: NodeSettings, source: &ConfigSource) -> anyhow::Result<Node> {
    let node = settings.node.start().map_err(|error| {
        if let StartError::Setting { .. } = error {
            located(source, error)
        } else if let StartError::Join { why, .. } = error {
            super::NoCluster(why).into()
        } else if let StartError::System(_) = error {
            error.into()
        } else {
            super::refused(error)
        }
    })?;
    tracing::info!(
        site = node.site(),
        listen = ?node.listen_address(),
        data = %settings.data.display(),
        socket = %settings.socket.display(),
        api = ?node.api_address(),
        clients = ?node.clients_address(),
        "started"
    );
    Ok(node)
}

/// On each SIGHUP, reads the access rules, the tokens, the list of the revoked and the certificates again, and reopens the audit log.
async fn reload_on(mut signal: Signal, node: Node, reload: Reload) {
    while signal.recv().await.is_some() {
        node.reopen_audit_log();
        let (said, source) = match reload.read() {
            Ok(Some(said)) => said,
            Ok(None) => continue,
            Err(error) => {
                tracing::error!(%error, "the access rules and tokens stay as they were, and so do the certificates");
                continue;
            }
        };
        // One that cannot be used does not keep the other from being used.
        match Reload::access(&said, &source, &node) {
            Ok(()) => tracing::info!("read the access rules and tokens again"),
            Err(error) => tracing::error!(%error, "the access rules and tokens stay as they were"),
        }
        // What is used from now on is in the log by then.
        if let Err(error) = Reload::certificates(&said, &node) {
            meshlock_host::log_refusal(&error);
        }
    }
}

/// Writes at intervals how often lines of the log were repeated.
async fn report_repeats(repeats: Repeats) {
    let mut interval = tokio::time::interval(WINDOW / 3);
    loop {
        interval.tick().await;
        repeats.report(Some(Instant::now()));
    }
}

async fn until_ready(node: &Node) {
    let mut waiting = std::pin::pin!(node.ready());
    if timeout(COMPLAIN_AFTER, waiting.as_mut()).await.is_err() {
        let (sites, unreached) = (node.founding_sites(), node.unreached_sites());
        let tried: Vec<String> =
            unreached.into_iter().map(|(site, tried)| format!("{site} at {tried}")).collect();
        tracing::warn!(
            ?sites,
            tried = tried.join("; "),
            "not yet a member of the cluster: more than half of the voters must be reachable"
        );
        waiting.await;
    }
}

/// Prints the line that says that this site has become a member.
fn announce(node: &Node, out: &mut dyn Write) -> anyhow::Result<()> {
    let view = node.view();
    let network = node.clients_address().map(|address| format!(" and {address}")).unwrap_or_default();
    let api = node.api_address().map(|address| format!("; API: {address}")).unwrap_or_default();
    let socket = node.socket().map(|socket| socket.display().to_string()).unwrap_or_default();
    let (epoch, members) = (view.epoch, view.members.join(", "));
    writeln!(out, "{} is ready: view {epoch} with {members}; clients: {socket}{network}{api}", node.site())?;
    out.flush()?;
    service_manager::tell("READY=1");
    Ok(())
}

/// Leaves the cluster, in bounded time.
async fn stop(
    node: &Node,
    grace: Duration,
    number: i32,
    signals: &mut Signals,
) -> anyhow::Result<CommandOutcome> {
    tracing::info!(signal = number, "leaving the cluster");
    service_manager::tell("STOPPING=1");
    let left = tokio::select! {
        left = node.shut_down(grace) => left,
        number = signals.next() => {
            tracing::warn!("told to stop twice: ending at once; the other sites wait until the lease of this site is over");
            std::process::exit(128 + number);
        }
    };
    if left {
        tracing::info!("left the cluster");
    } else if node.view().members == [node.site()] {
        tracing::info!("stopped as the last member: too few voters are reachable to agree that it has left");
    } else {
        tracing::warn!("could not leave in time: the other sites wait until the lease of this site is over");
    }
    Ok(CommandOutcome::Done)
}

/// The signals that tell a node to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal and returns its number.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

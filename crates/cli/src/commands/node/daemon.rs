//! A node from its start to its end.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::node::{Answer, Call, Node};
use meshlock_cluster::time::Span;
use meshlock_host::door::{self, Serving};
use meshlock_host::gate::{Audit, Gate};
use meshlock_host::{Engine, Listener, Setup, StartError, listen};
use meshlock_service as service;
use meshlock_system::now;
use meshlock_tls::Security;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Reload, refused, service_manager};
use crate::output::Outcome;
use crate::settings::Settings;

/// How often it is looked whether the node takes part yet; not any more once it does.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After so long without taking part the log says so.
const COMPLAIN_AFTER: Duration = Duration::from_secs(5);

/// How long the cluster may take to agree that a site without holders has left.
const AGREE_WITHIN: Duration = Duration::from_secs(3);

const FAILED: &str = "the node has panicked, which is a bug: please report what was logged before this";

/// Runs a node until it is told to stop.
pub(super) fn run(settings: Settings, reload: &Reload, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut signals, changes) = {
        let _within = runtime.enter();
        (Signals::new()?, signal(SignalKind::hangup())?)
    };
    let daemon = Daemon::start(settings)?;
    let gate = daemon.gate.clone();
    let _hearing = runtime.spawn(hear_of_changes(changes, gate.clone(), reload.clone()));
    let outcome = runtime.block_on(async {
        tokio::select! {
            number = signals.next() => return daemon.stop(number, &mut signals).await,
            () = daemon.until_failed() => anyhow::bail!(FAILED),
            () = daemon.until_ready() => daemon.announce(out)?,
        }
        tokio::select! {
            number = signals.next() => daemon.stop(number, &mut signals).await,
            () = daemon.until_failed() => anyhow::bail!(FAILED),
        }
    });
    gate.audit().flush();
    outcome
}

/// Reads the rules and tokens anew whenever that is asked for (SIGHUP), and opens the audit log anew.
async fn hear_of_changes(mut signal: Signal, gate: Arc<Gate>, reload: Reload) {
    while signal.recv().await.is_some() {
        gate.audit().reopen();
        match reload.policy() {
            Ok(Some(policy)) => {
                gate.replace(policy);
                tracing::info!("has read the access rules and tokens anew");
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "the access rules and tokens stay as they were"),
        }
    }
}

/// A running node and what it serves.
struct Daemon {
    /// Before the node: it gives back what clients hold through it.
    api: Option<service::Serving>,
    engine: Engine,
    serving: Vec<Serving>,
    /// Where clients of other machines reach it.
    clients: Option<SocketAddr>,
    /// Who may do what.
    gate: Arc<Gate>,
    settings: Settings,
}

impl Daemon {
    fn start(settings: Settings) -> anyhow::Result<Self> {
        let mut setup = Setup::new(settings.config.clone());
        setup.config.seed = fastrand::u64(..);
        setup.listen =
            settings.listen.as_ref().map(|address| listen(address.as_str())).transpose().map_err(refused)?;
        setup.addresses = settings.addresses.clone();
        setup.security = settings.security.clone();
        setup.data = Some(settings.data.clone());
        if matches!(setup.security, Security::Plain) && setup.listen.is_some() {
            tracing::warn!(
                "TLS is off: whoever reaches this port can say that it is any site of the cluster"
            );
        }
        let clients = settings.clients.as_ref().map(|address| listen(address.as_str()));
        let clients = clients.transpose().map_err(refused)?;
        let engine = Engine::start(setup).map_err(|error| match error {
            StartError::Threads(_) => error.into(),
            StartError::Config(_) | StartError::Store(_) | StartError::Founding(_) => refused(error),
        })?;
        let gate = open_gate(&settings)?;
        let listener = door::listen(&settings.socket).map_err(refused)?;
        let mut serving = vec![door::serve(&engine, listener, gate.clone(), |_| {})];
        let at = clients.as_ref().map(TcpListener::local_addr).transpose()?;
        if let Some(clients) = clients {
            let security = settings.security.clone();
            let (silence, gate) = (settings.session_ttl, gate.clone());
            serving.push(door::serve_network(&engine, clients, security, silence, gate)?);
        }
        let api = settings
            .api
            .as_ref()
            .map(|address| serve_api(&engine, &settings, &gate, address.as_str()))
            .transpose()?;
        tracing::info!(
            site = %settings.config.site,
            cluster = %settings.config.cluster,
            listen = ?engine.listening(),
            data = %settings.data.display(),
            socket = %settings.socket.display(),
            api = ?api.as_ref().map(service::Serving::address),
            clients = ?at,
            "started"
        );
        Ok(Daemon { api, engine, serving, clients: at, gate, settings })
    }

    /// Whether it takes part and may give clients something.
    fn is_ready(&self) -> bool {
        let may_give = |node: &Node| node.lease().is_comfortable(now());
        self.engine.look(|node| node.is_open() && node.view().contains(node.me()) && may_give(node))
    }

    /// Until the node has panicked, and those are ended who held something by it: that is done here.
    async fn until_failed(&self) {
        self.engine.until(|stand| stand.failed).await;
        let left = self.engine.look(|node| node.lease().end().map_or(Span::ZERO, |end| end.since(now())));
        sleep(Duration::from_micros(left.micros())).await;
    }

    async fn until_ready(&self) {
        let waiting = async {
            while !self.is_ready() {
                sleep(LOOK_EVERY).await;
            }
        };
        tokio::pin!(waiting);
        if timeout(COMPLAIN_AFTER, &mut waiting).await.is_err() {
            let sites = &self.settings.config.sites;
            tracing::warn!(
                ?sites,
                "does not take part yet; more than half of the first seven must be reachable"
            );
            waiting.await;
        }
    }

    /// The one line that says that this site takes part.
    fn announce(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (epoch, members) =
            self.engine.look(|node| (node.view().epoch.number(), node.view().members.clone()));
        let members: Vec<&str> = members.iter().map(|member| member.site.as_str()).collect();
        let Settings { config, socket, .. } = &self.settings;
        let network = self.clients.map(|address| format!(" and {address}")).unwrap_or_default();
        let api = self.api.as_ref().map(|api| format!("; API: {}", api.address())).unwrap_or_default();
        writeln!(
            out,
            "{} is ready: view {epoch} with {}; clients: {}{network}{api}",
            config.site,
            members.join(", "),
            socket.display()
        )?;
        out.flush()?;
        service_manager::tell("READY=1");
        Ok(())
    }

    /// Leaves, in bounded time.
    async fn stop(self, number: i32, signals: &mut Signals) -> anyhow::Result<Outcome> {
        tracing::info!(signal = number, "leaving the cluster");
        service_manager::tell("STOPPING=1");
        self.serving.iter().for_each(Serving::stop);
        if let Some(api) = &self.api {
            api.stop_accepting();
        }
        remove_socket(&self.settings.socket);
        let left = tokio::select! {
            left = self.leave() => left,
            number = signals.next() => {
                tracing::warn!("told to stop twice: the others wait until the lease of this site is over");
                std::process::exit(128 + number);
            }
        };
        if left {
            tracing::info!("has left");
        } else {
            tracing::warn!("could not leave in time: the others wait until the lease of this site is over");
        }
        Ok(Outcome::Done)
    }

    async fn leave(&self) -> bool {
        let heard = Arc::new(Left(watch::Sender::new(false)));
        self.engine.ask(heard.clone(), |request| Call::Leave { request });
        let mut left = heard.0.subscribe();
        let grace = self.settings.shutdown_grace;
        if timeout(grace, left.wait_for(|left| *left)).await.is_ok() {
            return true;
        }
        let holders = self.engine.look(|node| node.table().counts().holders);
        if holders > 0 {
            tracing::warn!(holders, "clients hold locks: they are told that they have lost them");
            self.engine.tell(Call::TakeAllAway);
        }
        let margin = Duration::from_micros(self.settings.config.terms.margin.micros());
        timeout(margin + AGREE_WITHIN, left.wait_for(|left| *left)).await.is_ok()
    }
}

fn open_gate(settings: &Settings) -> anyhow::Result<Arc<Gate>> {
    let audit =
        Audit::open(&settings.audit).map_err(|error| refused(format!("audit: cannot be opened: {error}")))?;
    let is_served = settings.api.is_some() || settings.clients.is_some();
    if is_served && matches!(settings.security, Security::Tls(_)) && settings.policy.access.is_empty() {
        tracing::warn!(
            "there are no [[access]] rules: clients with certificates or tokens may do nothing yet; `meshlock node --example-config` \
             explains them"
        );
    }
    Ok(Arc::new(Gate::new(settings.policy.clone(), settings.each, audit)))
}

fn serve_api(
    engine: &Engine,
    settings: &Settings,
    gate: &Arc<Gate>,
    address: &str,
) -> anyhow::Result<service::Serving> {
    let listener = service::listen(address).map_err(refused)?;
    let security = settings.security.clone();
    let setup = service::Setup { listener, security, limits: settings.limits, gate: gate.clone() };
    service::Serving::start(engine, setup).map_err(refused)
}

/// Nobody can connect any more, so nothing should look as if one could. A socket that is not there is as good.
fn remove_socket(path: &Path) {
    let _ = fs::remove_file(path);
}

/// What tells a node to stop.
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

    /// The number of the next one.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}

/// Whether the site has left.
struct Left(watch::Sender<bool>);

impl Listener for Left {
    fn hear(&self, answer: &Answer) {
        if let Answer::Left { .. } = answer {
            self.0.send_replace(true);
        }
    }
}

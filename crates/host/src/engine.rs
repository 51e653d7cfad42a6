//! Drives one node: whoever has something for it holds the lock for as long as the node takes to handle it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use meshlock_protocol::Epoch;
use tokio::sync::{Notify, watch};

use super::alarm::Alarm;
use super::core::{Core, Touched, flush};
use super::disk::{self, Sink};
use super::log;
use super::net::{Host, Net};
use super::store::{Store, StoreError};
use super::thread::Idle;
use meshlock_cluster::founding;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{ClientAnswer, ClientCall, Config, ConfigError, Input, Node, Packet};
use meshlock_cluster::table::{Request, Session};
use meshlock_cluster::time::Time;
use meshlock_system::{now, stamp};
use meshlock_tls::Security;
use meshlock_wire::sites::{Introduction, Versions};

/// Everything that a node needs to run.
#[derive(Debug)]
pub struct Setup {
    /// The node itself.
    pub config: Config,
    /// Where other sites reach this one ([`listen`]); nowhere for a site that is a cluster of its own.
    ///
    /// [`listen`]: super::listen
    pub listen: Option<TcpListener>,
    /// Where the other sites are reached, `host:port`.
    pub addresses: BTreeMap<SiteName, String>,
    /// How connections are protected.
    pub security: Security,
    /// Which versions of the wire it speaks with other sites: all that there are, unless it has to be like an older program.
    pub speaks: Versions,
    /// Where what must not be forgotten is kept; nowhere if everything may end with the process, as for a site that is a
    /// cluster of its own.
    pub data: Option<PathBuf>,
}

impl Setup {
    /// Without a network.
    pub fn new(config: Config) -> Self {
        Setup {
            config,
            listen: None,
            addresses: BTreeMap::new(),
            security: Security::default(),
            speaks: Versions::default(),
            data: None,
        }
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What its disk says.
    #[error(transparent)]
    Founding(#[from] founding::FoundingError),
    /// The machine gives no more threads or descriptors.
    #[error("cannot start the node's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Receives a node's answers. Called with the node's lock held: it must not wait, nor call the engine.
pub trait Listener: Send + Sync {
    fn on_answer(&self, answer: &ClientAnswer);
}

/// One running node. It stops when this is dropped.
pub struct Engine {
    handle: Handle,
    stop: Arc<Notify>,
    /// Goes away with the node.
    running: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    listening: Option<SocketAddr>,
}

/// What calls a node: as many as needed, each a way to the same one.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
    tasks: tokio::runtime::Handle,
}

/// How far a node is, for whoever waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// The number of the view that is installed.
    pub epoch: Epoch,
    /// How many members it has.
    pub members: usize,
    /// Whether this site is one of them and its machines run.
    pub open: bool,
    /// Whether the node has panicked: it takes no part any more.
    pub failed: bool,
}

/// The node with its lock held.
pub(crate) struct Locked<'a> {
    core: MutexGuard<'a, Core>,
    shared: &'a Arc<Shared>,
    touched: Touched,
}

pub(super) struct Shared {
    core: Mutex<Core>,
    pub(super) state: watch::Sender<NodeState>,
    pub(super) net: Arc<Net>,
    /// The clock's task has to look again when it is due.
    alarm: Notify,
    /// Held by whoever changes the rules for a semaphore.
    rules_gate: tokio::sync::Mutex<()>,
}

impl Engine {
    /// Starts a node, with a thread of its own for the network and the clock.
    pub fn start(setup: Setup) -> Result<Self, StartError> {
        let Setup { mut config, listen, addresses, security, speaks, data } = setup;
        config.start_stamp = config.start_stamp.max(stamp());
        let site = config.site.clone();
        if matches!(security, Security::Plain) && listen.is_some() {
            tracing::warn!(
                "connections between sites are not protected: whoever reaches the port can be any site"
            );
        }
        let checked = config.check()?;
        let listening = listen.as_ref().map(TcpListener::local_addr).transpose()?;
        listen.as_ref().map(|listener| listener.set_nonblocking(true)).transpose()?;
        let opened = data.map(|data| Store::open(&data, &site)).transpose()?;
        let (store, disk) =
            opened.map_or_else(|| (None, Disk::default()), |(store, disk)| (Some(store), disk));
        let mut outputs = Vec::new();
        let node = Node::start(checked, disk, now(), &mut outputs)?;
        let thread = Idle::start(format!("site {site}"))?;
        let tasks = thread.tasks.clone();
        let alarm = {
            let _within = tasks.enter();
            Alarm::new()?
        };
        let net = Net::new(site.clone(), fastrand::u64(..), (security, speaks), addresses, tasks.clone());
        let (core, state) = (Mutex::new(Core::new(node, outputs)), watch::Sender::new(NodeState::default()));
        let shared = Arc::new(Shared {
            core,
            state,
            net: Arc::new(net),
            alarm: Notify::new(),
            rules_gate: tokio::sync::Mutex::default(),
        });
        let stop = Arc::new(Notify::new());
        let (running, stopped) = channel();
        let mut threads = Vec::new();
        if let Some(mut store) = store {
            let host = shared.clone();
            let done = move |token| host.step(|_| Input::Persisted(token));
            let write = move |writes: &[DiskWrite]| store.write(writes);
            let (sink, thread) = disk::start(format!("disk {site}"), write, done, stopped)?;
            shared.lock().disk = sink;
            threads.push(thread);
        }
        threads.push(thread.work(Box::pin(run(shared.clone(), alarm, listen, stop.clone()))));
        let handle = Handle { shared, tasks };
        Ok(Engine { handle, stop, running: Some(running), threads, listening })
    }

    /// Where other sites reach this one.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.listening
    }
}

impl std::ops::Deref for Engine {
    type Target = Handle;
    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Handle {
    /// The runtime on the node's own thread: what runs there hears of the network soonest.
    pub fn tasks(&self) -> &tokio::runtime::Handle {
        &self.tasks
    }

    pub(super) fn rules_gate(&self) -> &tokio::sync::Mutex<()> {
        &self.shared.rules_gate
    }

    /// Runs `act` with the node's lock held once: to everyone else all that it does is one step.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        let mut locked = Locked { core: self.shared.lock(), shared: &self.shared, touched: Touched::new() };
        let result = act(&mut locked);
        let Locked { mut core, touched, .. } = locked;
        self.shared.arm(&mut core);
        let unheard = core.peers_unheard();
        drop(core);
        flush(touched);
        for peer in unheard {
            peer.read_now(&self.shared);
        }
        result
    }

    /// Waits until `wanted` holds of the node's state.
    pub async fn until(&self, wanted: impl FnMut(&NodeState) -> bool) -> NodeState {
        let mut state = self.shared.state.subscribe();
        *state.wait_for(wanted).await.expect("this handle keeps the other end")
    }

    /// Reads something of the node, with its lock held.
    pub fn look<R>(&self, look: impl FnOnce(&Node) -> R) -> R {
        look(&self.shared.lock().node)
    }
}

impl Locked<'_> {
    pub(crate) fn node(&self) -> &Node {
        &self.core.node
    }

    /// Opens a session; `listener` receives what concerns all that it holds.
    pub(crate) fn open_session(&mut self, listener: Arc<dyn Listener>) -> Session {
        self.core.last_session += 1;
        let session = Session(self.core.last_session);
        self.core.sessions.insert(session, listener);
        session
    }

    /// Ends a session: what it holds is free, and neither it nor the listeners of its `requests` are told anything more.
    pub(crate) fn close_session(&mut self, session: Session, requests: impl IntoIterator<Item = Request>) {
        self.core.sessions.remove(&session);
        for request in requests {
            self.core.requests.remove(&request);
            log::ends(&self.core.node.me().site, request);
        }
        self.call(ClientCall::SessionEnded(session));
    }

    /// Makes a call with a number of its own, whose answers go to `listener`: perhaps before this returns.
    pub(crate) fn ask(
        &mut self,
        listener: Arc<dyn Listener>,
        call: impl FnOnce(Request) -> ClientCall,
    ) -> Request {
        self.core.last_request += 1;
        let request = Request(self.core.last_request);
        self.core.requests.insert(request, listener);
        self.call(call(request));
        request
    }

    /// Makes a call about something that exists.
    pub(crate) fn call(&mut self, call: ClientCall) {
        self.core.handle(Input::Call(call), None, self.shared, &mut self.touched);
    }

    /// Nobody listens to the answers of this request any more.
    pub(crate) fn forget(&mut self, request: Request) {
        self.core.requests.remove(&request);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.running = None;
        self.stop.notify_one();
        {
            let mut core = self.handle.shared.lock();
            // The disk's thread ends once nobody can send it more. What is still said meanwhile is never written, so that
            // nothing that depends on it is said either.
            core.disk = Sink::Closed;
            // Listeners have handles of the node.
            (core.requests, core.sessions) = Default::default();
        }
        let me = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != me) {
            let _ = thread.join();
        }
    }
}

/// What the node's own thread does until the node stops.
async fn run(shared: Arc<Shared>, alarm: Alarm, listen: Option<TcpListener>, stop: Arc<Notify>) {
    if let Some(listener) = listen {
        let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
        tokio::spawn(shared.net.clone().keep_accepting(listener, shared.clone()));
    }
    tokio::select! {
        error = keep_time(&shared, &alarm) => {
            tracing::error!(?error, "the clock's alarm has failed: this site takes no part any more");
        }
        () = stop.notified() => {}
    }
}

/// Tells the node that time has passed, whenever it wants to know.
async fn keep_time(shared: &Arc<Shared>, alarm: &Alarm) -> std::io::Result<()> {
    loop {
        let due = shared.lock().armed;
        tokio::select! {
            rung = alarm.until(due) => {
                rung?;
                shared.step(|core| {
                    core.armed = Time::from_micros(u64::MAX);
                    Input::Time
                });
            }
            () = shared.alarm.notified() => {}
        }
    }
}

impl Host for Shared {
    fn on_packets(self: &Arc<Self>, from: &SiteName, packets: Vec<Packet>) {
        let (mut touched, arrived) = (Touched::new(), now());
        {
            let mut core = self.lock();
            core.unheard = 0;
            for packet in packets {
                core.handle(Input::Packet { from: from.clone(), packet }, Some(arrived), self, &mut touched);
            }
            self.arm(&mut core);
        }
        flush(touched);
    }

    fn on_connected(self: &Arc<Self>, site: &SiteName) {
        self.step(|_| Input::Connected(site.clone()));
    }

    fn introduce(&self) -> Introduction {
        let core = self.lock();
        let node = &core.node;
        let address = |site: &SiteName| {
            let own = (*site == node.me().site).then(|| node.address().clone());
            own.or_else(|| self.net.address(site).and_then(|address| address.parse().ok()))
        };
        let sites = node.founders().iter().map(|site| (site.clone(), address(site))).collect();
        Introduction { cluster: node.cluster_name().clone(), sites }
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic of the node is caught within: what is here is whole.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the node handle one input that is no client's call, and carries out what it wants done.
    fn step(self: &Arc<Self>, input: impl FnOnce(&mut Core) -> Input) {
        let mut touched = Touched::new();
        {
            let mut core = self.lock();
            let input = input(&mut core);
            core.handle(input, None, self, &mut touched);
            self.arm(&mut core);
        }
        flush(touched);
    }

    /// Sees to it that the clock's task wakes in time.
    fn arm(&self, core: &mut Core) {
        let due = if core.has_failed { Time::from_micros(u64::MAX) } else { core.node.next_due() };
        if due < core.armed {
            core.armed = due;
            self.alarm.notify_one();
        }
    }
}

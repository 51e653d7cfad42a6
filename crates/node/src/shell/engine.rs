//! Drives one node: whoever has something for it holds the lock for as long as the node takes to handle it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::clock::now;
use super::disk::{self, Sink};
use super::net::{Host, Net, Peer, Security};
use super::store::{Store, StoreError};
use crate::founding;
use crate::membership::disk::{Disk, Write};
use crate::names::SiteName;
use crate::node::{Answer, Call, Config, ConfigError, Input, Node, Note, Output, Packet, Token};
use crate::table::{Request, Session, Tell};
use crate::time::Time;
use crate::view::View;

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
    /// Where what must not be forgotten is kept; nowhere if everything may end with the process, as for a site that is a
    /// cluster of its own.
    pub data: Option<PathBuf>,
}

impl Setup {
    /// Without a network.
    pub fn new(config: Config) -> Self {
        Setup { config, listen: None, addresses: BTreeMap::new(), security: Security::default(), data: None }
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
    Founding(#[from] founding::StartError),
    /// The machine gives no more threads or descriptors.
    #[error("cannot start the node's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Who hears what a node has to say to a client. Called with the node's lock held: it must not wait, nor call the engine.
pub trait Listener: Send + Sync {
    /// Something has been answered.
    fn hear(&self, answer: &Answer);
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
    shared: Arc<Shared>,
    tasks: tokio::runtime::Handle,
}

struct Shared {
    core: Mutex<Core>,
    net: Arc<Net>,
    /// The clock's task has to look again when it is due.
    alarm: Notify,
    /// Held by whoever changes the rules for a client.
    rules: tokio::sync::Mutex<()>,
}

struct Core {
    node: Node,
    outputs: Vec<Output>,
    disk: Sink,
    /// Batches that count as written though there is no disk.
    written: Option<Token>,
    peers: BTreeMap<SiteName, Arc<Peer>>,
    requests: FxHashMap<Request, Arc<dyn Listener>>,
    sessions: FxHashMap<Session, Arc<dyn Listener>>,
    last_request: u64,
    last_session: u64,
    /// Until when the clock's task sleeps.
    armed: Time,
}

/// Sites that something was sent to: mostly none or one.
type Touched = Vec<Arc<Peer>>;

impl Engine {
    /// Starts a node, with a thread of its own for the network and the clock.
    pub fn start(setup: Setup) -> Result<Self, StartError> {
        let Setup { config, listen, addresses, security, data } = setup;
        let site = config.site.clone();
        let checked = config.check()?;
        let listening = listen.as_ref().map(TcpListener::local_addr).transpose()?;
        listen.as_ref().map(|listener| listener.set_nonblocking(true)).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tasks = runtime.handle().clone();
        let net = Arc::new(Net::new(site.clone(), fastrand::u64(..), security, runtime.handle().clone()));
        for (site, address) in addresses {
            net.learn_address(site, address);
        }
        let opened = data.map(|data| Store::open(&data, &site)).transpose()?;
        let (store, disk) =
            opened.map_or_else(|| (None, Disk::default()), |(store, disk)| (Some(store), disk));
        let mut outputs = Vec::new();
        let node = Node::start(checked, disk, now(), &mut outputs)?;
        let core = Core {
            node,
            outputs,
            disk: Sink::Memory,
            written: None,
            peers: BTreeMap::new(),
            requests: FxHashMap::default(),
            sessions: FxHashMap::default(),
            last_request: 0,
            last_session: 0,
            armed: Time::ZERO,
        };
        let shared = Arc::new(Shared {
            core: Mutex::new(core),
            net,
            alarm: Notify::new(),
            rules: tokio::sync::Mutex::default(),
        });
        let stop = Arc::new(Notify::new());
        let (running, stopped) = channel();
        let mut threads = Vec::new();
        if let Some(mut store) = store {
            let host = shared.clone();
            let done = move |token| host.step(|_| Input::Persisted(token));
            let write = move |writes: &[Write]| store.write(writes);
            let (sink, thread) = disk::start(format!("disk {site}"), write, done, stopped)?;
            shared.lock().disk = sink;
            threads.push(thread);
        }
        let (host, ends) = (shared.clone(), stop.clone());
        let run = move || {
            runtime.block_on(async {
                if let Some(listener) = listen {
                    let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
                    tokio::spawn(host.net.clone().keep_accepting(listener, host.clone()));
                }
                tokio::select! {
                    () = keep_time(&host) => {}
                    () = ends.notified() => {}
                }
            });
        };
        threads.push(std::thread::Builder::new().name(format!("site {site}")).spawn(run)?);
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

    /// Waits until no other client of this node changes the rules.
    pub(super) async fn turn_to_change_rules(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.rules.lock().await
    }

    /// Begins a session for a client, which hears what concerns all that it holds.
    pub fn open_session(&self, listener: Arc<dyn Listener>) -> Session {
        let mut core = self.shared.lock();
        core.last_session += 1;
        let session = Session(core.last_session);
        core.sessions.insert(session, listener);
        session
    }

    /// Ends a session: what it holds is free, and it hears nothing more.
    pub fn close_session(&self, session: Session) {
        self.shared.step(|core| {
            core.sessions.remove(&session);
            Input::Call(Call::SessionEnded(session))
        });
    }

    /// Makes a call with a number of its own, whose answers `listener` hears: perhaps before this returns.
    pub fn ask(&self, listener: Arc<dyn Listener>, call: impl FnOnce(Request) -> Call) -> Request {
        let mut request = Request(0);
        self.shared.step(|core| {
            core.last_request += 1;
            request = Request(core.last_request);
            core.requests.insert(request, listener);
            Input::Call(call(request))
        });
        request
    }

    /// Makes a call about a request that exists; its answers go where those of the request go.
    pub fn tell(&self, call: Call) {
        self.shared.step(|_| Input::Call(call));
    }

    /// Nobody listens to this request any more; `call` is the last that is said of it.
    pub fn forget(&self, request: Request, call: Call) {
        self.shared.step(|core| {
            core.requests.remove(&request);
            Input::Call(call)
        });
    }

    /// Looks at the node.
    pub fn look<R>(&self, look: impl FnOnce(&Node) -> R) -> R {
        look(&self.shared.lock().node)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.running = None;
        self.stop.notify_one();
        if let Ok(mut core) = self.handle.shared.core.lock() {
            // The disk's thread ends once nobody can send it more.
            core.disk = Sink::Memory;
        }
        let me = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != me) {
            let _ = thread.join();
        }
    }
}

/// Tells the node that time has passed, whenever it wants to know.
async fn keep_time(shared: &Arc<Shared>) {
    loop {
        let due = shared.lock().armed;
        let wait = Duration::from_micros(due.since(now()).micros());
        tokio::select! {
            () = sleep(wait) => shared.step(|core| {
                core.armed = Time::from_micros(u64::MAX);
                Input::Time
            }),
            () = shared.alarm.notified() => {}
        }
    }
}

impl Host for Shared {
    fn on_packets(self: &Arc<Self>, from: &SiteName, packets: Vec<Packet>) {
        let mut touched = Touched::new();
        {
            let mut core = self.lock();
            for packet in packets {
                core.handle(Input::Packet { from: from.clone(), packet }, self, &mut touched);
            }
            self.arm(&mut core);
        }
        flush(touched);
    }

    fn on_connected(self: &Arc<Self>, site: &SiteName) {
        self.step(|_| Input::Connected(site.clone()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("the node has panicked before: it must not go on")
    }

    /// Lets the node handle one input, and carries out what it wants done.
    fn step(self: &Arc<Self>, input: impl FnOnce(&mut Core) -> Input) {
        let mut touched = Touched::new();
        {
            let mut core = self.lock();
            let input = input(&mut core);
            core.handle(input, self, &mut touched);
            self.arm(&mut core);
        }
        flush(touched);
    }

    /// Sees to it that the clock's task wakes in time.
    fn arm(&self, core: &mut Core) {
        let due = core.node.next_due();
        if due < core.armed {
            core.armed = due;
            self.alarm.notify_one();
        }
    }
}

/// Writes to the sockets, outside of the lock.
fn flush(touched: Touched) {
    for peer in touched {
        peer.flush();
    }
}

impl Core {
    fn handle(&mut self, input: Input, shared: &Arc<Shared>, touched: &mut Touched) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut next = Some(input);
        while let Some(input) = next {
            self.node.handle(now(), input, &mut outputs);
            for output in outputs.drain(..) {
                self.perform(output, shared, touched);
            }
            next = self.written.take().map(Input::Persisted);
        }
        self.outputs = outputs;
    }

    fn perform(&mut self, output: Output, shared: &Arc<Shared>, touched: &mut Touched) {
        match output {
            Output::Send { to, packet } => {
                let peer = self.peers.entry(to).or_insert_with_key(|to| shared.net.peer(to, shared));
                peer.push(&packet);
                if !touched.iter().any(|other| Arc::ptr_eq(other, peer)) {
                    touched.push(peer.clone());
                }
            }
            Output::Persist { token, writes } => match &self.disk {
                Sink::Memory => self.written = Some(token),
                // If the disk's thread is gone, so is the node soon.
                Sink::Thread(disk) => drop(disk.send((token, writes))),
            },
            Output::Answer(answer) => self.answer(&answer),
            Output::Note(note) => self.note(&note, shared),
        }
    }

    fn answer(&mut self, answer: &Answer) {
        let (request, over) = match answer {
            Answer::Lock(Tell::Extended { session, .. }) => {
                if let Some(listener) = self.sessions.get(session) {
                    listener.hear(answer);
                }
                return;
            }
            Answer::Lock(Tell::Granted { request, .. } | Tell::Lost { request, .. }) => (request, false),
            Answer::Lock(
                Tell::Released { request }
                | Tell::Cancelled { request }
                | Tell::TimedOut { request }
                | Tell::Busy { request }
                | Tell::Refused { request, .. },
            )
            | Answer::Queue { request, .. }
            | Answer::Overview { request, .. }
            | Answer::Broken { request, .. }
            | Answer::RulesSet { request, .. }
            | Answer::RulesRefused { request, .. }
            | Answer::Left { request } => (request, true),
        };
        let listener = if over { self.requests.remove(request) } else { self.requests.get(request).cloned() };
        if let Some(listener) = listener {
            listener.hear(answer);
        }
    }

    fn note(&self, note: &Note, shared: &Shared) {
        match note {
            Note::Installed(view) => self.installed(view, shared),
            Note::Opened(epoch) => tracing::info!(epoch = epoch.number(), "view open"),
            Note::CannotOpen { epoch, why } => {
                tracing::error!(
                    epoch = epoch.number(),
                    why,
                    "cannot follow the rules of this view; is this program older?"
                );
            }
            Note::Excluded { epoch, member } => {
                tracing::warn!(epoch = epoch.number(), %member, "left out of the view: everything held here is lost");
            }
            Note::OtherCluster { site, cluster } => {
                tracing::error!(%site, %cluster, "a site of another cluster speaks; compare the configurations");
            }
            Note::Misbehaved { site, why } => tracing::warn!(%site, why, "a peer misbehaves"),
            Note::Leads(term) => tracing::info!(term = term.0, "leads"),
            Note::Granted(_) | Note::GaveUp(_) | Note::Proposed(_) => tracing::debug!(?note),
        }
    }

    /// The view says where its members are reached.
    fn installed(&self, view: &View, shared: &Shared) {
        tracing::info!(epoch = view.epoch.number(), members = ?view.members, "view installed");
        for member in &view.members {
            if let Some(address) = view.address(&member.site) {
                shared.net.learn_address(member.site.clone(), address.to_string());
            }
        }
    }
}

//! Drives one node. Every thread that has an input for the node takes the node's lock, lets the node handle the input, and carries out
//! the node's outputs itself.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use meshlock_protocol::Epoch;
use tokio::sync::{Notify, watch};

use super::agreed_access;
use super::alarm::AsyncAlarm;
use super::busy_poll::BusyPoll;
use super::calls::CallDelivery;
use super::core::{Core, Touched, flush};
use super::diagnosis::About;
use super::disk::{self, Sink};
use super::find::JoinPlace;
use super::log;
use super::net::{Net, PacketHandler};
use super::published::Published;
use super::renewals::Renewals;
use super::store::{Store, StoreError};
use super::thread::IdleThread;
use super::trust::Trust;
use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::claim::ClaimKey;
use meshlock_cluster::founding;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::names::{Incarnation, SiteName};
use meshlock_cluster::node::{Abilities, ClientAnswer, Config, ConfigError, Input, Node, Packet};
use meshlock_cluster::time::Time;
use meshlock_system::{now, stamp};
use meshlock_wire::sites::{
    AGREES_ON_ACCESS, CARRIES_FOR_OTHERS, CHANGES_VOTERS, COUNTS_VOTERS, FORWARDS_CALLS, Introduction,
    KNOWS_FENCE_FLOORS, LISTS_LOCKS, REPORTS_RECORDS, SiteQuestion, Versions,
};

mod handle;

pub use handle::Handle;
pub(crate) use handle::Locked;

/// Everything that a node needs to run.
#[derive(Debug)]
pub struct NodeSetup {
    pub config: Config,
    /// The socket on which other sites reach this one ([`listen`]); `None` for a site that is a cluster of its own.
    ///
    /// [`listen`]: super::listen
    pub listen: Option<TcpListener>,
    /// Addresses of the other sites, as `host:port`.
    pub addresses: BTreeMap<SiteName, String>,
    /// Where to look for the cluster while sites are not reached.
    pub seeds: Vec<JoinPlace>,
    /// What its connections rely on, which can be replaced while it runs.
    pub trust: Trust,
    /// Versions of the wire format to speak with other sites. The default is all known versions; tests of upgrades restrict it to behave
    /// like an older program.
    pub speaks: Versions,
    /// The directory of the durable state; `None` if all state may be lost when the process ends, as for a site that is a cluster of its
    /// own.
    pub data: Option<PathBuf>,
    /// Whether the node's thread stays awake between inputs that follow each other closely.
    pub busy_poll: bool,
}

impl NodeSetup {
    /// Describes a node without network and disk.
    pub fn new(config: Config) -> Self {
        NodeSetup {
            config,
            listen: None,
            addresses: BTreeMap::new(),
            seeds: Vec::new(),
            trust: Trust::default(),
            speaks: Versions::default(),
            data: None,
            busy_poll: false,
        }
    }
}

/// Why a node could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk belongs to another cluster, or has other voters.
    #[error(transparent)]
    Founding(#[from] founding::FoundingError),
    /// The operating system provides no more threads or file descriptors.
    #[error("cannot start the node's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Receives a node's answers. Called with the node's lock held: an implementation must neither wait nor call the engine.
pub trait Listener: Send + Sync {
    fn on_answer(&self, answer: &ClientAnswer);
}

/// One running node. It stops when this is dropped.
pub struct Engine {
    handle: Handle,
    stop: Arc<Notify>,
    /// Dropped when the node stops, which the disk's thread notices.
    running: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    listening: Option<SocketAddr>,
}

/// The state of a node that callers can [wait](Handle::until) for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// The epoch of the installed view.
    pub epoch: Epoch,
    /// Number of members of that view.
    pub members: usize,
    /// Whether this site is a member and its lock machines run.
    pub open: bool,
    /// Whether the node has panicked and no longer takes part.
    pub failed: bool,
    /// Whether the site leaves: its clients can claim at other sites what they can prove.
    pub leaving: bool,
}

/// What the node's threads and handles share.
pub(super) struct SharedNode {
    core: Mutex<Core>,
    pub(super) state: watch::Sender<NodeState>,
    /// The access document that the node knows.
    pub(super) access: watch::Sender<Arc<AgreedAccess>>,
    pub(super) net: Arc<Net>,
    pub(super) published: Published,
    pub(super) renewals: Renewals,
    pub(super) calls: CallDelivery,
    busy_poll: BusyPoll,
    /// Wakes the clock's task when its next alarm has moved to an earlier time.
    alarm: Notify,
    /// What it says of itself and does not know otherwise.
    pub(super) about: About,
}

/// Draws the key with which this start of the site proves what its clients hold; `None`, so that they are given no proofs, if the system has
/// no random numbers.
fn random_claim_key() -> Option<ClaimKey> {
    let random = ring::rand::generate::<[u8; ClaimKey::BYTES]>(&ring::rand::SystemRandom::new()).ok()?;
    Some(ClaimKey::new(random.expose()))
}

impl Engine {
    /// Starts a node, with a thread of its own for the network and the clock.
    pub fn start(setup: NodeSetup) -> Result<Self, EngineError> {
        let NodeSetup { mut config, listen, addresses, seeds, trust, speaks, data, busy_poll } = setup;
        config.start_stamp = config.start_stamp.max(stamp());
        config.claim_key = config.claim_key.or_else(random_claim_key);
        let site = config.site.clone();
        log::warn_of_setup(
            &site,
            trust.is_plain() && listen.is_some(),
            data.is_none() && config.sites.len() > 1,
        );
        let slow_write = config.tick.times(config.pace.election as u64);
        let about = About::new(config.terms, speaks);
        let checked = config.check()?;
        let listening = listen.as_ref().map(TcpListener::local_addr).transpose()?;
        listen.as_ref().map(|listener| listener.set_nonblocking(true)).transpose()?;
        let opened = data.map(|data| Store::open(&data, &site)).transpose()?;
        let (store, disk) =
            opened.map_or_else(|| (None, Disk::default()), |(store, disk)| (Some(store), disk));
        let mut outputs = Vec::new();
        let node = Node::start(checked, disk, now(), &mut outputs)?;
        // Before anyone can connect.
        agreed_access::revoke(&trust, node.access());
        let access = watch::Sender::new(Arc::new(node.access().clone()));
        let thread = IdleThread::start(format!("site {site}"))?;
        let tasks = thread.tasks.clone();
        let alarm = {
            let _within = tasks.enter();
            AsyncAlarm::new()?
        };
        let net = Net::new(
            site.clone(),
            fastrand::u64(..),
            (trust.clone(), speaks),
            (addresses, seeds),
            tasks.clone(),
        );
        let published = Published::default();
        published.update(&node, false);
        let (core, state) = (Mutex::new(Core::new(node, outputs)), watch::Sender::new(NodeState::default()));
        let (net, renewals, busy_poll) = (Arc::new(net), Renewals::new(), BusyPoll::new(busy_poll));
        let alarmed = Notify::new();
        let shared = Arc::new(SharedNode {
            core,
            state,
            access,
            net,
            published,
            renewals,
            calls: CallDelivery::default(),
            busy_poll,
            alarm: alarmed,
            about,
        });
        let stop = Arc::new(Notify::new());
        let (running, stopped) = channel();
        let mut threads = Vec::new();
        if let Some(mut store) = store {
            let host = shared.clone();
            let done = move |token| host.step(|_| Input::Persisted(token));
            let watched = shared.clone();
            let write =
                move |writes: &[DiskWrite]| watched.published.disk.watch(slow_write, || store.write(writes));
            let (sink, thread) = disk::start(format!("disk {site}"), write, done, stopped)?;
            shared.lock().disk = sink;
            threads.push(thread);
        }
        tasks.spawn(agreed_access::keep_revoking(trust.clone(), shared.access.subscribe()));
        tasks.spawn(agreed_access::keep_telling_time(Arc::downgrade(&shared)));
        tasks.spawn(trust.keep_looking());
        threads.push(thread.work(Box::pin(run(shared.clone(), alarm, listen, stop.clone()))));
        let handle = Handle { shared, tasks };
        Ok(Engine { handle, stop, running: Some(running), threads, listening })
    }

    /// Returns the address on which other sites reach this one.
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

impl Drop for Engine {
    fn drop(&mut self) {
        self.running = None;
        self.stop.notify_one();
        {
            let mut core = self.handle.shared.lock();
            // The disk's thread ends once all its senders are dropped. Later outputs of the node are never written, so nothing that
            // depends on those writes is sent either.
            core.disk = Sink::Closed;
            // Listeners own handles of the node: dropping them breaks the reference cycle.
            drop(std::mem::take(&mut core.requests));
        }
        let me = std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != me) {
            let _ = thread.join();
        }
    }
}

/// Runs on the node's own thread until the node stops: accepts connections of other sites and keeps the clock.
async fn run(shared: Arc<SharedNode>, alarm: AsyncAlarm, listen: Option<TcpListener>, stop: Arc<Notify>) {
    if let Some(listener) = listen {
        let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
        tokio::spawn(shared.net.clone().keep_accepting(listener, shared.clone()));
    }
    tokio::select! {
        error = keep_time(&shared, &alarm) => {
            tracing::error!(?error, "the clock's alarm has failed: this site has stopped; start it again");
        }
        () = shared.renewals.keep_telling() => {}
        () = shared.busy_poll.keep_polling() => {}
        () = stop.notified() => {}
    }
}

/// Gives the node a time input whenever one of its timers is due.
async fn keep_time(shared: &Arc<SharedNode>, alarm: &AsyncAlarm) -> std::io::Result<()> {
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

impl PacketHandler for SharedNode {
    fn on_packets(self: &Arc<Self>, from: &SiteName, packets: Vec<Packet>) {
        let (mut touched, arrived) = (Touched::new(), now());
        {
            let mut core = self.lock();
            core.calls_without_read = 0;
            for packet in packets {
                core.handle(Input::Packet { from: from.clone(), packet }, Some(arrived), self, &mut touched);
            }
            self.finish(&mut core);
        }
        flush(touched);
        self.busy_poll.on_input(arrived);
    }

    fn on_connected(self: &Arc<Self>, site: &SiteName, version: u16) {
        let abilities = Abilities {
            carries: version >= CARRIES_FOR_OTHERS,
            changes_voters: version >= CHANGES_VOTERS,
            counts_voters: version >= COUNTS_VOTERS,
            knows_floors: version >= KNOWS_FENCE_FLOORS,
            agrees_on_access: version >= AGREES_ON_ACCESS,
            forwards_calls: version >= FORWARDS_CALLS,
            reports_records: version >= REPORTS_RECORDS,
            lists_locks: version >= LISTS_LOCKS,
        };
        self.step(|_| Input::Connected { site: site.clone(), abilities });
    }

    fn is_member(&self, site: &SiteName) -> bool {
        self.lock().node.view().member(site).is_some()
    }

    fn takes_part(&self, site: &SiteName, incarnation: Incarnation) -> bool {
        self.lock().node.takes_part(site, incarnation)
    }

    fn probe(&self) -> Packet {
        self.lock().node.probe()
    }

    fn refusal(&self, refused: Incarnation, in_use: Incarnation) -> (Vec<Packet>, Packet) {
        self.lock().node.refusal(refused, in_use)
    }

    fn introduce(&self) -> Introduction {
        self.introduction()
    }

    fn answer(&self, question: SiteQuestion) -> Vec<u8> {
        self.answer_to_site(question)
    }
}

#[cfg(any(test, feature = "count-locks"))]
thread_local! {
    static LOCKS_TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Returns how often this thread has taken a node's lock. For tests.
#[cfg(any(test, feature = "count-locks"))]
pub fn locks_taken() -> u64 {
    LOCKS_TAKEN.get()
}

impl SharedNode {
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        #[cfg(any(test, feature = "count-locks"))]
        LOCKS_TAKEN.set(LOCKS_TAKEN.get() + 1);
        // A panic of the node is caught before it reaches this lock, so the state behind a poisoned lock is consistent.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the node handle one input other than a client's call, and carries out its outputs.
    pub(super) fn step(self: &Arc<Self>, input: impl FnOnce(&mut Core) -> Input) {
        let mut touched = Touched::new();
        {
            let mut core = self.lock();
            let input = input(&mut core);
            core.handle(input, None, self, &mut touched);
            self.finish(&mut core);
        }
        flush(touched);
    }

    /// Ends a step of the node, before its lock is released: publishes its state, and makes sure that the clock's task wakes up by its next
    /// deadline.
    fn finish(&self, core: &mut Core) {
        self.published.update(&core.node, core.has_failed);
        let due = if core.has_failed { Time::from_micros(u64::MAX) } else { core.node.next_due() };
        if due < core.armed {
            core.armed = due;
            self.alarm.notify_one();
        }
    }
}

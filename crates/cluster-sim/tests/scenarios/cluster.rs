//! A few nodes in one thread over a network without loss, and without delay unless a test sets one, for benchmarks, memory counts,
//! malformed packets and long queues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use meshlock_cluster::membership::disk::Disk;
use meshlock_cluster::names::{LockName, Member, SiteName};
use meshlock_cluster::node::{
    Abilities, CallMessage, ClientAnswer, ClientCall, Config, Input, Node, NodeOutput, Packet, Route,
};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::{Acquire, LockEvent, Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_testing::within_steps;

/// Nodes, and the packets on their way between them.
pub(crate) struct Cluster {
    /// The nodes.
    pub(crate) nodes: Vec<Node>,
    /// What each of them has written.
    disks: Vec<Disk>,
    /// The algorithm and the permits of all locks.
    clause: Clause,
    /// Answers to clients since the last call of [`Cluster::is_granted`].
    pub(crate) told: Vec<ClientAnswer>,
    /// Messages about forwarded calls: at which site, from whom.
    pub(crate) calls: Vec<(usize, Member, CallMessage)>,
    /// Packets with the times at which they arrive, the sender and the receiver.
    wire: VecDeque<(Time, usize, SiteName, Packet)>,
    /// How long every packet takes.
    delay: Span,
    now: Time,
    /// When all sites were members.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) opened_at: Time,
    out: Vec<NodeOutput>,
    last: u64,
    /// Changes packets on their way.
    tamper: Option<Tamper>,
    /// The ways, from sender to receiver, on which packets are lost.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    /// The sites, sender and receiver, between which all packets are lost, also those that others carry.
    parted: BTreeSet<(usize, usize)>,
    /// The sites, sender and receiver, between which packets are kept back, and these packets with who sent or carried them.
    slow: BTreeMap<(usize, usize), Vec<(usize, Packet)>>,
    /// Number of packets that a site was asked to carry for another.
    pub(crate) carried: u64,
    /// The nodes that have left: their processes end at once.
    pub(crate) gone: BTreeSet<usize>,
}

/// Gets a packet and its sender, and returns the packets that arrive instead.
type Tamper = Box<dyn FnMut(usize, Packet) -> Vec<Packet>>;

fn name(at: usize) -> SiteName {
    format!("s{at}").parse().expect("a plain name")
}

/// Starts a node from its disk.
fn start(
    at: usize,
    names: Vec<SiteName>,
    clause: &Clause,
    disk: Disk,
    now: Time,
    configure: &dyn Fn(usize, &mut Config),
) -> (Node, Vec<NodeOutput>) {
    let mut config = Config::new(name(at), names);
    config.rules = RulesText { rules: Vec::new(), default: clause.clone() };
    config.seed = at as u64;
    configure(at, &mut config);
    let checked = config.check().expect("a sound configuration");
    let mut out = Vec::new();
    let node = Node::start(checked, disk, now, &mut out).expect("the disk is of this cluster");
    (node, out)
}

impl Cluster {
    /// Starts this many nodes that use `algorithm`, and waits until they are members with leases.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn open(sites: usize, algorithm: &str) -> Self {
        Cluster::open_with(sites, &Clause::exclusive(algorithm))
    }

    /// The same with the algorithm and permits of `clause`.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn open_with(sites: usize, clause: &Clause) -> Self {
        Cluster::open_configured(sites, clause, |_, _| {})
    }

    /// The same with a configuration that `configure` changes, for each site by its number.
    pub(crate) fn open_configured(
        sites: usize,
        clause: &Clause,
        configure: impl Fn(usize, &mut Config),
    ) -> Self {
        Cluster::open_some(sites, sites, clause, configure)
    }

    /// The same, where only the first `expected` sites are waited for.
    pub(crate) fn open_some(
        sites: usize,
        expected: usize,
        clause: &Clause,
        configure: impl Fn(usize, &mut Config),
    ) -> Self {
        let names: Vec<SiteName> = (0..sites).map(name).collect();
        let (mut nodes, mut starts) = (Vec::new(), Vec::new());
        for at in 0..sites {
            let (node, out) = start(at, names.clone(), clause, Disk::default(), Time::ZERO, &configure);
            nodes.push(node);
            starts.push(out);
        }
        let (told, wire, out) = (Vec::new(), VecDeque::new(), Vec::new());
        let mut cluster = Cluster {
            nodes,
            disks: vec![Disk::default(); sites],
            clause: clause.clone(),
            told,
            calls: Vec::new(),
            wire,
            delay: Span::ZERO,
            now: Time::ZERO,
            opened_at: Time::ZERO,
            out,
            last: 0,
            tamper: None,
            cuts: BTreeSet::new(),
            parted: BTreeSet::new(),
            slow: BTreeMap::new(),
            carried: 0,
            gone: BTreeSet::new(),
        };
        for (at, mut out) in starts.into_iter().enumerate() {
            cluster.perform(at, &mut out);
        }
        cluster.settle();
        let serves = |node: &Node| node.is_open() && node.view().members.len() >= expected;
        within_steps("all sites are members", || {
            cluster.pass(Span::from_millis(100));
            assert!(cluster.now < Time::ZERO + Span::from_millis(20_000), "all sites are members in time");
            cluster.nodes[..expected].iter().all(serves)
        });
        cluster.opened_at = cluster.now;
        // By then every node has a lease.
        cluster.pass(Span::from_millis(2000));
        cluster
    }

    /// Changes packets on their way from now on.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn tamper(&mut self, tamper: impl FnMut(usize, Packet) -> Vec<Packet> + 'static) {
        self.tamper = Some(Box::new(tamper));
    }

    /// Ends the process of a node and starts it again with its disk.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn restart(&mut self, at: usize) {
        let names = (0..self.nodes.len()).map(name).collect();
        let (node, mut out) = start(at, names, &self.clause, self.disks[at].clone(), self.now, &|_, _| {});
        self.nodes[at] = node;
        self.perform(at, &mut out);
    }

    /// Ends the processes of all nodes at the same moment, with what is on its way between them, and starts them again with their disks.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn fail_power(&mut self) {
        self.wire.clear();
        self.told.clear();
        for at in 0..self.nodes.len() {
            self.restart(at);
        }
    }

    /// Ends the process of a node and starts it again with an empty disk, and with a configuration that `configure` changes.
    #[allow(dead_code, reason = "not every test uses it")]
    pub(crate) fn lose_disk(&mut self, at: usize, configure: impl Fn(usize, &mut Config)) {
        let names = (0..self.nodes.len()).map(name).collect();
        self.disks[at] = Disk::default();
        let (node, mut out) = start(at, names, &self.clause, Disk::default(), self.now, &configure);
        self.nodes[at] = node;
        self.perform(at, &mut out);
    }

    /// Loses all packets between two sites, both ways, from now on, also those that others carry.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        self.parted.extend([(a, b), (b, a)]);
    }

    /// Ends what [`cut`](Cluster::cut) began. The sites are not told: their connection has not broken.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn mend(&mut self, a: usize, b: usize) {
        self.parted.retain(|way| ![(a, b), (b, a)].contains(way));
    }

    /// The same with a new connection.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn reconnect(&mut self, a: usize, b: usize) {
        self.mend(a, b);
        self.input(a, Input::Connected { site: name(b), abilities: Abilities::ALL });
        self.input(b, Input::Connected { site: name(a), abilities: Abilities::ALL });
    }

    /// Keeps packets back on the way from one site to another.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn keep_back(&mut self, from: usize, to: usize) {
        self.slow.insert((from, to), Vec::new());
    }

    /// Lets the packets arrive that were kept back.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn let_go(&mut self, from: usize, to: usize) {
        for (neighbour, packet) in self.slow.remove(&(from, to)).unwrap_or_default() {
            self.input(to, Input::Packet { from: name(neighbour), packet });
        }
    }

    /// Gives a node an input at the current time.
    pub(crate) fn input(&mut self, at: usize, input: Input) {
        if self.gone.contains(&at) {
            return;
        }
        let mut out = std::mem::take(&mut self.out);
        self.nodes[at].handle(self.now, input, &mut out);
        self.perform(at, &mut out);
        self.out = out;
    }

    fn perform(&mut self, at: usize, out: &mut Vec<NodeOutput>) {
        let mut written = None;
        for output in out.drain(..) {
            match output {
                NodeOutput::Send { to, packet } => {
                    self.wire.push_back((self.now + self.delay, at, to, packet));
                }
                NodeOutput::Persist { token, writes } => {
                    for write in &writes {
                        self.disks[at].apply(write);
                    }
                    written = Some(token);
                }
                NodeOutput::Answer(answer) => {
                    if matches!(answer, ClientAnswer::Left { .. }) {
                        self.gone.insert(at);
                    }
                    self.told.push(answer);
                }
                NodeOutput::Note(_) => {}
                NodeOutput::Call { from, message } => self.calls.push((at, from, message)),
            }
        }
        if let Some(token) = written {
            self.input(at, Input::Persisted(token));
        }
    }

    /// Lets every packet that is sent from now on take this long.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn delay(&mut self, delay: Span) {
        self.delay = delay;
    }

    /// Returns the time.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of a site.
    fn at(&self, site: &SiteName) -> Option<usize> {
        (0..self.nodes.len()).find(|&at| name(at) == *site)
    }

    /// Delivers all packets that have arrived.
    pub(crate) fn settle(&mut self) {
        while self.wire.front().is_some_and(|(at, ..)| *at <= self.now)
            && let Some((_, from, to, packet)) = self.wire.pop_front()
        {
            // A site that lies can make others send to names that nobody has.
            let Some(to) = self.at(&to) else { continue };
            self.carried += u64::from(matches!(packet.route, Route::To(_)));
            let origin = match &packet.route {
                Route::From(site) => self.at(site).unwrap_or(from),
                Route::Direct | Route::To(_) => from,
            };
            if self.cuts.contains(&(from, to)) || self.parted.contains(&(origin, to)) {
                continue;
            }
            if let Some(kept) = self.slow.get_mut(&(origin, to)) {
                kept.push((from, packet));
                continue;
            }
            let arriving = match &mut self.tamper {
                Some(tamper) => tamper(from, packet),
                None => vec![packet],
            };
            for packet in arriving {
                self.input(to, Input::Packet { from: name(from), packet });
            }
        }
    }

    /// Lets time pass for all nodes.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            let running = (0..self.nodes.len()).filter(|at| !self.gone.contains(at));
            let arrives = self.wire.front().map(|(at, ..)| *at);
            let due = running.map(|at| self.nodes[at].next_due()).chain(arrives).min().unwrap_or(end);
            self.now = due.max(self.now + Span::TICK).min(end);
            for at in 0..self.nodes.len() {
                self.input(at, Input::Time);
            }
            self.settle();
        }
    }

    /// Requests a lock for a client of the site, which waits for it.
    pub(crate) fn acquire(&mut self, at: usize, lock: &LockName) -> Request {
        self.acquire_for(at, lock, Wait::Forever)
    }

    /// Requests a lock for a client of the site, which waits for so long.
    pub(crate) fn acquire_for(&mut self, at: usize, lock: &LockName, wait: Wait) -> Request {
        self.last += 1;
        let (session, request) = (Session(1), Request(self.last));
        let call = ClientCall::Acquire(Acquire {
            session,
            request,
            lock: lock.clone(),
            permits: 1,
            wait,
            cause: None,
            demand: meshlock_protocol::Demand::PLAIN,
        });
        self.input(at, Input::Call(call));
        request
    }

    /// Releases the lock of a request.
    #[allow(dead_code, reason = "not every benchmark uses it")]
    pub(crate) fn release(&mut self, at: usize, request: Request) {
        self.input(at, Input::Call(ClientCall::Release(request)));
    }

    /// Returns whether the request was granted since the last call, and forgets all answers.
    pub(crate) fn is_granted(&mut self, wanted: Request) -> bool {
        let granted = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Lock(LockEvent::Granted { request, .. }) if *request == wanted);
        let is_granted = self.told.iter().any(granted);
        self.told.clear();
        is_granted
    }
}

//! A few nodes in one thread over a network without loss, and without delay unless a test sets one, for benchmarks, memory counts and malformed packets.

use std::collections::{BTreeSet, VecDeque};

use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{ClientAnswer, ClientCall, Config, Input, Node, NodeOutput, Packet};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::{Acquire, LockEvent, Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_testing::within_steps;

/// Nodes, and the packets on their way between them.
pub(crate) struct Cluster {
    /// The nodes.
    pub(crate) nodes: Vec<Node>,
    /// Answers to clients since the last call of [`Cluster::is_granted`].
    pub(crate) told: Vec<ClientAnswer>,
    /// Packets with the times at which they arrive, the sender and the receiver.
    wire: VecDeque<(Time, usize, SiteName, Packet)>,
    /// How long every packet takes.
    delay: Span,
    now: Time,
    out: Vec<NodeOutput>,
    last: u64,
    /// Changes packets on their way.
    tamper: Option<Tamper>,
    /// The nodes that have left: their processes end at once.
    pub(crate) gone: BTreeSet<usize>,
}

/// Gets a packet and its sender, and returns the packets that arrive instead.
type Tamper = Box<dyn FnMut(usize, Packet) -> Vec<Packet>>;

fn name(at: usize) -> SiteName {
    format!("s{at}").parse().expect("a plain name")
}

impl Cluster {
    /// Starts this many nodes that use `algorithm`, and waits until they are members with leases.
    pub(crate) fn open(sites: usize, algorithm: &str) -> Self {
        Cluster::open_with(sites, &Clause::exclusive(algorithm))
    }

    /// The same with the algorithm and permits of `clause`.
    pub(crate) fn open_with(sites: usize, clause: &Clause) -> Self {
        let names: Vec<SiteName> = (0..sites).map(name).collect();
        let (mut nodes, mut starts) = (Vec::new(), Vec::new());
        for at in 0..sites {
            let mut config = Config::new(name(at), names.clone());
            config.rules = RulesText { rules: Vec::new(), default: clause.clone() };
            config.seed = at as u64;
            let mut out = Vec::new();
            let checked = config.check().expect("a sound configuration");
            nodes.push(
                Node::start(
                    checked,
                    meshlock_cluster::membership::disk::Disk::default(),
                    Time::ZERO,
                    &mut out,
                )
                .expect("an empty disk is no other cluster's"),
            );
            starts.push(out);
        }
        let (told, wire, out) = (Vec::new(), VecDeque::new(), Vec::new());
        let mut cluster = Cluster {
            nodes,
            told,
            wire,
            delay: Span::ZERO,
            now: Time::ZERO,
            out,
            last: 0,
            tamper: None,
            gone: BTreeSet::new(),
        };
        for (at, mut out) in starts.into_iter().enumerate() {
            cluster.perform(at, &mut out);
        }
        cluster.settle();
        let serves = |node: &Node| node.is_open() && node.view().members.len() == sites;
        within_steps("all sites are members", || {
            cluster.pass(Span::from_millis(100));
            assert!(cluster.now < Time::ZERO + Span::from_millis(20_000), "all sites are members in time");
            cluster.nodes.iter().all(serves)
        });
        // By then every node has a lease.
        cluster.pass(Span::from_millis(2000));
        cluster
    }

    /// Changes packets on their way from now on.
    #[allow(dead_code, reason = "benchmarks do not use it")]
    pub(crate) fn tamper(&mut self, tamper: impl FnMut(usize, Packet) -> Vec<Packet> + 'static) {
        self.tamper = Some(Box::new(tamper));
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
                NodeOutput::Persist { token, .. } => written = Some(token),
                NodeOutput::Answer(answer) => {
                    if matches!(answer, ClientAnswer::Left { .. }) {
                        self.gone.insert(at);
                    }
                    self.told.push(answer);
                }
                NodeOutput::Note(_) => {}
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

    /// Delivers all packets that have arrived.
    pub(crate) fn settle(&mut self) {
        while self.wire.front().is_some_and(|(at, ..)| *at <= self.now)
            && let Some((_, from, to, packet)) = self.wire.pop_front()
        {
            let to = (0..self.nodes.len()).find(|&at| name(at) == to).expect("a site of the cluster");
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

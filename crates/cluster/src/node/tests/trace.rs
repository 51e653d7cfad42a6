//! Traces: a contended lock of three sites, line by line, merged in the order in which it happened.

use std::collections::BTreeSet;

use meshlock_testing::within_steps;

use super::*;
use crate::node::trace::MAX_WATCHES;
use crate::rules::Pattern;
use crate::table::TraceWatch;

/// Three nodes with fast disks and a fast network.
struct Three {
    nodes: Vec<Lone>,
    /// The trace lines, each with its site, in the order in which they were sent.
    lines: Vec<(&'static str, TraceLine)>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Three {
    fn new() -> Self {
        let sites: Vec<SiteName> = NAMES.iter().map(|site| site.parse().unwrap()).collect();
        let node =
            |name: &&str| Lone::with(Config::new(name.parse().unwrap(), sites.clone()), Disk::default());
        let mut three = Three { nodes: NAMES.iter().map(node).collect(), lines: Vec::new() };
        within_steps("all three are members", || {
            assert!(
                three.nodes[0].now < Time::ZERO + Span::from_millis(20_000),
                "all three are members in time"
            );
            three.pass(Span::from_millis(10));
            three.nodes.iter().all(|lone| lone.node.is_open() && lone.node.view().members.len() == 3)
        });
        three
    }

    fn pass(&mut self, span: Span) {
        for lone in &mut self.nodes {
            lone.pass(span);
        }
        self.settle();
    }

    /// Delivers all packets, one after the other.
    fn settle(&mut self) {
        while let Some(from) = self.nodes.iter().position(|lone| !lone.sent.is_empty()) {
            let (to, content) = self.nodes[from].sent.remove(0);
            let Lone { node, .. } = &self.nodes[from];
            let packet = Packet::direct(node.cluster, node.me.incarnation, content);
            let (site, to) =
                (node.me.site.clone(), NAMES.iter().position(|name| *name == to.as_str()).unwrap());
            self.nodes[to].input(Input::Packet { from: site, packet });
            self.nodes[to].write();
            self.collect(to);
        }
    }

    fn call(&mut self, at: usize, call: ClientCall) {
        self.nodes[at].input(Input::Call(call));
        self.collect(at);
        self.settle();
    }

    fn collect(&mut self, at: usize) {
        for answer in self.nodes[at].answers.drain(..) {
            if let ClientAnswer::Traced { lines, .. } = answer {
                self.lines.extend(lines.into_iter().map(|line| (NAMES[at], line)));
            }
        }
    }

    fn watch(&mut self, at: usize, pattern: &str, states: bool) {
        let (session, request) = (Session(90), Request(90));
        let pattern = Some(Pattern::parse(pattern).unwrap());
        self.call(at, ClientCall::Watch(TraceWatch { session, request, pattern, states }));
    }

    fn acquire(&mut self, at: usize, request: u64, lock: &str) {
        let (session, request) = (Session(request), Request(request));
        let lock: LockName = lock.parse().unwrap();
        self.call(
            at,
            ClientCall::Acquire(Acquire {
                session,
                request,
                lock,
                permits: 1,
                wait: Wait::Forever,
                cause: None,
                demand: meshlock_protocol::Demand::PLAIN,
            }),
        );
    }

    /// Returns the trace lines since the last call, as text.
    fn told(&mut self) -> Vec<String> {
        self.lines.drain(..).map(|(site, line)| format!("{site} {}", words(&line))).collect()
    }
}

fn words(line: &TraceLine) -> String {
    match &line.event {
        TraceEvent::Waits { client, .. } => format!("waits {client}"),
        TraceEvent::Holds { client, .. } => format!("holds {client}"),
        TraceEvent::Request { client, .. } => format!("request {client}"),
        TraceEvent::Cancel { client } => format!("cancel {client}"),
        TraceEvent::Enter { client, .. } => format!("enter {client}"),
        TraceEvent::Release { client } => format!("release {client}"),
        TraceEvent::Send { to, message, .. } => format!("send {to} {message}"),
        TraceEvent::Receive { from, message, .. } => format!("receive {from} {message}"),
        TraceEvent::View { members } => format!("view {} of {}", line.epoch.number(), members.len()),
        TraceEvent::Fail => "fail".to_owned(),
        TraceEvent::Recover => "recover".to_owned(),
    }
}

/// Returns the link numbers of all messages that were sent, and of all that were received, with sender and receiver.
fn numbered(lines: &[(&'static str, TraceLine)]) -> [BTreeSet<(String, String, u64)>; 2] {
    let (mut sent, mut received) = (BTreeSet::new(), BTreeSet::new());
    for (site, line) in lines {
        if let TraceEvent::Send { to, number, .. } = &line.event {
            sent.insert(((*site).to_owned(), to.to_string(), *number));
        }
        if let TraceEvent::Receive { from, number, .. } = &line.event {
            received.insert((from.to_string(), (*site).to_owned(), *number));
        }
    }
    [sent, received]
}

#[test]
fn a_watcher_is_told_every_step_of_a_contended_lock() {
    let mut three = Three::new();
    (0..3).for_each(|at| three.watch(at, "jobs", false));
    let epoch = three.nodes[0].node.view().epoch.number();
    let view = |site: &str| format!("{site} view {epoch} of 3");
    assert_eq!(three.told(), NAMES.map(view));
    three.acquire(1, 1, "jobs");
    three.acquire(2, 2, "jobs");
    three.acquire(2, 3, "others");
    three.call(2, ClientCall::Cancel(Request(2)));
    three.call(1, ClientCall::Release(Request(1)));
    let told = [
        "b request 1",
        "b send c Request(RequestId { site: S2, number: 1 })",
        "c receive b Request(RequestId { site: S2, number: 1 })",
        "c send b Token { serves: 1 }",
        "b receive c Token { serves: 1 }",
        "b enter 1",
        "c request 2",
        "c send b Request(RequestId { site: S0, number: 1 })",
        "b receive c Request(RequestId { site: S0, number: 1 })",
        "c cancel 2",
        "b release 1",
        "b send c Token { serves: 1 }",
        "c receive b Token { serves: 1 }",
    ];
    assert_eq!(three.told(), told);
}

#[test]
fn both_ends_of_a_message_have_its_number_on_the_link() {
    let mut three = Three::new();
    // Some messages were sent before the watch began.
    three.acquire(1, 1, "jobs");
    (0..3).for_each(|at| three.watch(at, "j*", false));
    for round in 0..5 {
        three.acquire(2, 10 + round, "jobs");
        three.acquire(0, 20 + round, "jobs");
        three.call(1, ClientCall::Release(Request(1)));
        three.call(2, ClientCall::Release(Request(10 + round)));
        three.call(0, ClientCall::Release(Request(20 + round)));
    }
    let [sent, received] = numbered(&three.lines);
    assert!(sent.len() >= 10, "{}", sent.len());
    assert_eq!(sent, received);
}

#[test]
fn a_watch_begins_with_current_holders_and_includes_states_only_on_request() {
    let mut three = Three::new();
    three.acquire(0, 1, "jobs");
    three.acquire(0, 2, "jobs");
    three.watch(0, "jobs", true);
    let states: Vec<bool> = three.lines.iter().map(|(_, line)| line.state.is_some()).collect();
    assert_eq!(states, [false, true, true], "a view has none");
    let epoch = three.nodes[0].node.view().epoch.number();
    assert_eq!(
        three.told(),
        [format!("a view {epoch} of 3"), "a holds 1".to_owned(), "a waits 2".to_owned()]
    );
    three.watch(1, "jobs", false);
    three.lines.clear();
    three.acquire(1, 1, "jobs");
    let states = |site: &str| -> BTreeSet<bool> {
        three.lines.iter().filter(|(at, _)| *at == site).map(|(_, line)| line.state.is_some()).collect()
    };
    assert_eq!((states("a"), states("b")), ([true].into(), [false].into()));
    // A session that has ended receives no more lines, nor does one that has cancelled its watch.
    three.call(0, ClientCall::SessionEnded(Session(90)));
    three.call(1, ClientCall::Cancel(Request(90)));
    three.lines.clear();
    three.call(0, ClientCall::Release(Request(1)));
    assert_eq!(three.told(), [""; 0]);
}

#[test]
fn only_so_many_may_watch() {
    let mut three = Three::new();
    for number in 0..=MAX_WATCHES as u64 {
        let (session, request) = (Session(number), Request(100 + number));
        three.nodes[0].input(Input::Call(ClientCall::Watch(TraceWatch {
            session,
            request,
            pattern: None,
            states: false,
        })));
    }
    let refused = |answer: &&ClientAnswer| {
        matches!(answer, ClientAnswer::Lock(LockEvent::Refused { request: Request(108), .. }))
    };
    assert_eq!(three.nodes[0].answers.iter().filter(refused).count(), 1);
}

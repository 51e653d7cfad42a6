//! A single node: what it does before it may send, what it refuses, how it leaves; and random bytes from other sites.

mod calls;
mod deadlocks;
mod detours;
mod leaving;
mod questions;
mod recovery;
mod room;
mod rounds;
mod trace;

use super::*;
use crate::lease::Renewal;
use crate::membership::disk::Disk;
use crate::membership::disk::{Ballot, Registrations, Saved};
use crate::membership::message::{RaftKind, RaftMessage};
use crate::names::LockName;
use crate::rules::{Clause, RulesText};
use crate::table::{Acquire, LockEvent, Session, Wait};
use crate::time::Span;

/// One node, its disk, and a clock that the test moves.
pub(super) struct Lone {
    pub(super) node: Node,
    pub(super) disk: Disk,
    unwritten: VecDeque<(WriteToken, Vec<DiskWrite>)>,
    now: Time,
    pub(super) sent: Vec<(SiteName, Content)>,
    answers: Vec<ClientAnswer>,
    pub(super) notes: Vec<Note>,
    calls: Vec<(Member, CallMessage)>,
}

impl Lone {
    pub(super) fn start(sites: &[&str], disk: Disk) -> Self {
        let sites: Vec<SiteName> = sites.iter().map(|site| site.parse().unwrap()).collect();
        Lone::with(Config::new("a".parse().unwrap(), sites), disk)
    }

    fn with(config: Config, disk: Disk) -> Self {
        let config = config.check().unwrap();
        let mut out = Vec::new();
        let node = Node::start(config, disk.clone(), Time::ZERO, &mut out).unwrap();
        let (unwritten, sent, answers, notes) = (VecDeque::new(), Vec::new(), Vec::new(), Vec::new());
        let calls = Vec::new();
        let mut lone = Lone { node, disk, unwritten, now: Time::ZERO, sent, answers, notes, calls };
        lone.take(out);
        lone
    }

    fn take(&mut self, out: Vec<NodeOutput>) {
        for output in out {
            match output {
                NodeOutput::Send { to, packet } => self.sent.push((to, packet.content)),
                NodeOutput::Persist { token, writes } => self.unwritten.push_back((token, writes)),
                NodeOutput::Answer(answer) => self.answers.push(answer),
                NodeOutput::Note(note) => self.notes.push(note),
                NodeOutput::Call { from, message } => self.calls.push((from, message)),
            }
        }
    }

    pub(super) fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.node.handle(self.now, input, &mut out);
        self.take(out);
    }

    /// Receives a packet from an incarnation of another site of this cluster.
    pub(super) fn receive_from(&mut self, from: &str, content: Content) {
        let packet = Packet::direct(self.node.cluster, Incarnation::new(1), content);
        self.input(Input::Packet { from: from.parse().unwrap(), packet });
    }

    pub(super) fn write(&mut self) {
        while let Some((token, writes)) = self.unwritten.pop_front() {
            for write in &writes {
                self.disk.apply(write);
            }
            self.input(Input::Persisted(token));
        }
    }

    /// Lets this much time pass, with a fast disk.
    pub(super) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.node.next_due().max(self.now + Span::TICK).min(end);
            self.input(Input::Time);
            self.write();
        }
    }

    fn acquire(&mut self, request: u64, lock: &str) {
        let (session, request) = (Session(request), Request(request));
        let lock: LockName = lock.parse().unwrap();
        self.input(Input::Call(ClientCall::Acquire(Acquire {
            session,
            request,
            lock,
            permits: 1,
            wait: Wait::Forever,
            cause: None,
            demand: meshlock_protocol::Demand::PLAIN,
        })));
    }

    fn has_granted(&self, request: u64) -> bool {
        let of = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Lock(LockEvent::Granted { request: of, .. }) if of.0 == request);
        self.answers.iter().any(of)
    }
}

#[test]
fn a_site_alone_serves_its_clients_soon_after_its_start() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(1));
    assert!(lone.has_granted(1) && lone.node.is_open());
    assert_eq!(lone.sent, []);
}

#[test]
fn an_incarnation_sends_nothing_before_it_is_on_disk() {
    let mut lone = Lone::start(&["b", "c"], Disk::default());
    lone.now = Time::ZERO + Span::from_millis(5000);
    lone.input(Input::Time);
    assert_eq!(lone.sent, []);
    lone.write();
    assert!(matches!(lone.sent.first(), Some((_, Content::Join { .. }))), "{:?}", lone.sent);
    assert_eq!(lone.disk.incarnation, Incarnation::new(1));
}

#[test]
fn every_start_is_a_new_incarnation_that_waits_for_the_lease_of_the_last_one() {
    let mut first = Lone::start(&["a"], Disk::default());
    first.pass(Span::from_millis(2000));
    let mut second = Lone::start(&["a"], first.disk);
    second.acquire(1, "jobs");
    second.pass(Span::from_millis(5000));
    assert!(!second.has_granted(1), "elected at once, it waits for five seconds and the drift");
    second.pass(Span::from_millis(2000));
    assert!(second.has_granted(1));
    assert_eq!(second.node.me().incarnation, Incarnation::new(2));
}

#[test]
fn a_grant_for_an_earlier_incarnation_or_from_a_site_that_was_not_asked_is_none() {
    let mut disk = Disk::default();
    disk.apply(&DiskWrite::Incarnation(Incarnation::new(6)));
    let mut lone = Lone::start(&["b"], disk);
    lone.write();
    let me = lone.node.me().clone();
    let view = View { epoch: Epoch::new(1).unwrap(), members: vec![me.clone()], ..View::default() };
    let mut from_b = |content| {
        lone.receive_from("b", content);
    };
    from_b(Content::View(view));
    lone.pass(Span::from_millis(1500));
    let asked = lone.sent.iter().rev().find(|(_, content)| matches!(content, Content::Renew { .. }));
    let Some((_, Content::Renew { renewal, .. })) = asked.cloned() else { panic!("it asks for its lease") };
    let length = Span::from_millis(5000);
    for (from, to, valid) in
        [("b", Incarnation::new(6), false), ("z", me.incarnation, false), ("b", me.incarnation, true)]
    {
        let content = Content::Granted { to, renewal, length };
        lone.receive_from(from, content);
        assert_eq!(lone.node.lease().is_valid(lone.now), valid, "{from} grants to {to:?}");
    }
}

#[test]
fn hints_about_the_leader_are_accepted_only_from_and_about_voters() {
    let mut lone = Lone::start(&["b", "c"], Disk::default());
    lone.write();
    for (from, leader, asked) in [("z", "c", 0), ("c", "z", 0), ("b", "c", 1)] {
        lone.sent.clear();
        let content = Content::NotLeader { leader: Some(leader.parse().unwrap()) };
        lone.receive_from(from, content);
        let joins = lone.sent.iter().filter(|(_, content)| matches!(content, Content::Join { .. }));
        assert_eq!(joins.count(), asked, "{from} says that {leader} leads");
    }
}

#[test]
fn a_voter_that_knows_its_leader_asks_nobody_else() {
    let mut disk = Disk::default();
    let registrations = Registrations { disk: Incarnation::new(1), may_vote: true, others: BTreeMap::new() };
    disk.apply(&DiskWrite::Registrations(registrations));
    let mut lone = Lone::start(&["a", "b", "c"], disk);
    lone.write();
    let heartbeat = RaftMessage {
        kind: RaftKind::Heartbeat,
        term: 2,
        log_term: 0,
        index: 0,
        entries: Vec::new(),
        commit: 0,
        commit_term: 0,
        snapshot: None,
        reject: false,
        reject_hint: 0,
        context: Vec::new(),
        ends: None,
    };
    let mut asked = Vec::new();
    for _ in 0..100 {
        lone.receive_from("b", Content::Raft(heartbeat.clone()));
        lone.write();
        lone.sent.clear();
        lone.pass(Span::from_millis(100));
        let joins = lone.sent.drain(..).filter(|(_, content)| matches!(content, Content::Join { .. }));
        asked.extend(joins.map(|(to, _)| to));
    }
    assert!(asked.len() >= 9 && asked.iter().all(|to| to.as_str() == "b"), "{asked:?}");
}

#[test]
fn two_sites_that_each_assume_the_other_one_leads_are_not_asked_again_and_again() {
    let mut lone = Lone::start(&["b", "c"], Disk::default());
    lone.write();
    lone.sent.clear();
    for round in 0..10 {
        let (from, leader) = if round % 2 == 0 { ("b", "c") } else { ("c", "b") };
        let content = Content::NotLeader { leader: Some(leader.parse().unwrap()) };
        lone.receive_from(from, content);
    }
    let joins = lone.sent.iter().filter(|(_, content)| matches!(content, Content::Join { .. }));
    assert_eq!(joins.count(), 1);
}

#[test]
fn a_view_is_taken_from_voters_only() {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let view = View { epoch: Epoch::new(1).unwrap(), ..View::default() };
    for (from, epoch) in [("z", 0), ("b", 1)] {
        lone.receive_from(from, Content::View(view.clone()));
        assert_eq!(lone.node.view().epoch.number(), epoch, "from {from}");
    }
    assert!(lone.notes.iter().any(|note| matches!(note, Note::Doubted { why, .. } if why.contains("vote"))));
}

#[test]
fn a_site_whose_disk_was_lost_begins_an_incarnation_after_the_one_that_others_know_of_it() {
    let mut lone = Lone::start(&["b"], Disk::default());
    lone.write();
    let me = lone.node.me().clone();
    // Its next incarnation would be one that takes part already, with everything that it has promised.
    let known = Member { incarnation: me.incarnation.next(), ..me.clone() };
    let view = View { epoch: Epoch::new(1).unwrap(), members: vec![known.clone()], ..View::default() };
    lone.sent.clear();
    lone.receive_from("b", Content::View(view));
    assert_eq!(lone.node.me(), &me, "a later one may have taken part, which a former leader does not know");
    lone.pass(Span::from_millis(1000));
    assert!(lone.sent.iter().any(|(_, content)| matches!(content, Content::Join { .. })), "it asks again");
    lone.receive_from("b", Content::TooOld { incarnation: me.incarnation, last: known.incarnation });
    assert!(lone.node.me().incarnation > known.incarnation, "{:?}", lone.node.me());
}

#[test]
fn a_start_begins_with_its_stamp_even_if_the_disk_knows_a_later_incarnation() {
    let known = Incarnation::stamped(7).next();
    let begun = |stamp| {
        let mut disk = Disk::default();
        disk.apply(&DiskWrite::Incarnation(known));
        let config =
            Config { start_stamp: stamp, ..Config::new("a".parse().unwrap(), vec!["b".parse().unwrap()]) };
        Lone::with(config, disk).node.me().incarnation
    };
    assert_eq!(begun(8), Incarnation::stamped(8));
    // The calendar was set back, or the disk is an old copy; the leader knows.
    assert_eq!(begun(6), Incarnation::stamped(6));
    // A host that stamps two starts alike, or none.
    assert_eq!([begun(7), begun(0)], [known.next(); 2]);
}

#[test]
fn rules_that_make_no_sense_are_refused_and_others_are_agreed_on() {
    let mut lone = Lone::start(&["a"], Disk::default());
    lone.pass(Span::from_millis(2000));
    let rules = |algorithm| RulesText { rules: Vec::new(), default: Clause::exclusive(algorithm) };
    let request = Request(5);
    lone.input(Input::Call(ClientCall::SetRules { request, rules: rules("zookeeper") }));
    assert!(
        matches!(lone.answers.last(), Some(ClientAnswer::RulesRefused { why, .. }) if why.contains("'zookeeper'"))
    );
    let request = Request(6);
    lone.input(Input::Call(ClientCall::SetRules { request, rules: rules("maekawa") }));
    // Nobody waits for the next renewal of the lease.
    lone.pass(Span::from_millis(1));
    assert!(matches!(lone.answers.last(), Some(ClientAnswer::RulesSet { request: Request(6), .. })));
    assert_eq!(lone.node.view().rules, rules("maekawa"));
    lone.acquire(7, "jobs");
    let (request, lock) = (Request(8), "jobs".parse().unwrap());
    lone.input(Input::Call(ClientCall::Query { request, lock }));
    let Some(ClientAnswer::Queue { queue: LockQueue { algorithm, sites, epoch, .. }, .. }) =
        lone.answers.last()
    else {
        panic!("an answer")
    };
    let holders = sites[0].lock.holders_in_all;
    assert_eq!((algorithm.as_deref(), holders, *epoch), (Some("maekawa"), 1, lone.node.view().epoch));
}

#[test]
fn a_view_whose_rules_cannot_be_followed_stays_closed_and_is_reported() {
    let me = Member { site: "a".parse().unwrap(), incarnation: Incarnation::new(1) };
    for (algorithm, opens) in [("maekawa", true), ("of-the-future", false)] {
        let rules = RulesText { rules: Vec::new(), default: Clause::exclusive(algorithm) };
        let view =
            View { epoch: Epoch::new(1).unwrap(), members: vec![me.clone()], rules, ..View::default() };
        let mut disk = Disk::default();
        disk.apply(&DiskWrite::Install(Saved { index: 5, term: 1, view, voters: None, access: None }));
        disk.apply(&DiskWrite::Ballot(Ballot { term: 1, vote: 0, commit: 5 }));
        let mut lone = Lone::start(&["a"], disk);
        lone.acquire(1, "jobs");
        lone.pass(Span::from_millis(1000));
        let reported = |note: &Note| matches!(note, Note::CannotOpen { why, .. } if why.contains(algorithm));
        assert_eq!((lone.node.is_open(), lone.has_granted(1)), (opens, opens), "{algorithm}");
        assert_eq!(lone.notes.iter().any(reported), !opens, "{algorithm}");
    }
}

/// Packets of all kinds except the voters' own, as nodes send them, with bytes changed at random: whatever can still be
/// decoded is given to a running node. (Voters are trusted to follow Raft; votes of other sites are refused by name.)
#[test]
fn mangled_packets_end_no_node() {
    mangled_packets_end_not("a");
}

/// The same, where the sender is one whose views are accepted.
#[test]
fn mangled_packets_of_a_voter_end_no_node() {
    mangled_packets_end_not("b");
}

fn any_route(draw: &mut fastrand::Rng) -> Route {
    let site = ["a", "b", "c"][draw.usize(..3)].parse().unwrap();
    match draw.usize(..8) {
        0 => Route::To(site),
        1 => Route::From(site),
        _ => Route::Direct,
    }
}

fn held_jobs() -> crate::table::Holding {
    let (lock, slots) = ("jobs".parse().unwrap(), vec![Some(0), None]);
    crate::table::Holding { lock, slots, permits: None, modes: Vec::new() }
}

fn mangled_packets_end_not(voter: &str) {
    let mut draw = fastrand::Rng::with_seed(1);
    let mut lone = Lone::start(&[voter], Disk::default());
    lone.acquire(1, "jobs");
    lone.pass(Span::from_millis(2000));
    let (me, epoch) = (lone.node.me().clone(), lone.node.view().epoch);
    let b = Member { site: "b".parse().unwrap(), incarnation: Incarnation::new(1) };
    let frame = |body| crate::links::Frame::Data { number: 1, ack: 0, epoch, body };
    let link = |payload| Content::Link { to: me.incarnation, frame: frame(payload) };
    let question: QuestionId = postcard::from_bytes(&[1, 1]).unwrap();
    let patterns = [
        Content::Join { epoch, reached: vec![me.clone()], address: "b:1".parse().unwrap() },
        Content::Renew {
            renewal: Renewal::default(),
            epoch,
            unreachable: vec![me.clone()],
            leased: true,
            drained: true,
        },
        Content::Granted { to: me.incarnation, renewal: Renewal::default(), length: Span::from_millis(5000) },
        Content::SetRules { base: 0, rules: RulesText::default() },
        Content::View(View { epoch, members: vec![me.clone(), b], ..View::default() }),
        Content::NotLeader { leader: Some("b".parse().unwrap()) },
        Content::Leave,
        Content::Pong,
        Content::Beat { sent: Time::from_micros(300), hearing: Hearing::Nothing },
        Content::Ask { question, ask: PeerQuestion::Queue("jobs".parse().unwrap()) },
        Content::Ask { question, ask: PeerQuestion::Locks },
        Content::Ask { question, ask: PeerQuestion::Leave(me.clone()) },
        Content::Ask { question, ask: PeerQuestion::Break("jobs".parse().unwrap()) },
        Content::Reply { question, reply: PeerReply::Broken(Vec::new()) },
        Content::Reply { question, reply: PeerReply::Leaves(true) },
        link(LinkPayload::Census(crate::table::CensusPiece {
            holdings: vec![held_jobs()].into(),
            last: true,
            has_permits: false,
            key: None,
            has_modes: true,
        })),
        link(LinkPayload::Left("jobs".parse().unwrap())),
    ];
    let (mut read, mut refused) = (0, 0);
    for round in 0..40_000 {
        let content = patterns[round % patterns.len()].clone();
        let mut bytes = postcard::to_stdvec(&(lone.node.cluster, Incarnation::new(1), content)).unwrap();
        for _ in 0..draw.usize(..4) {
            let at = draw.usize(..bytes.len());
            bytes[at] = draw.u8(..);
        }
        let Ok((cluster, incarnation, content)) = postcard::from_bytes(&bytes) else {
            refused += 1;
            continue;
        };
        let packet = Packet { cluster, incarnation, route: any_route(&mut draw), content };
        if matches!(packet.content, Content::Raft(_)) {
            continue;
        }
        read += 1;
        lone.input(Input::Packet { from: "b".parse().unwrap(), packet });
        lone.write();
        if round % 100 == 0 {
            lone.pass(Span::from_millis(100));
        }
        assert_eq!(lone.node.table().check_invariants(), Ok(()));
        lone.sent.clear();
    }
    assert!(read > 10_000 && refused > 1_000, "{read} read, {refused} refused");
}

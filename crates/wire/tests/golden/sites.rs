//! What sites say to each other.

use meshlock_cluster::cause::Cause;
use meshlock_cluster::lease::Renewal;
use meshlock_cluster::links::Frame;
use meshlock_cluster::membership::disk::{LogEntry, Saved};
use meshlock_cluster::membership::message::{RaftKind, RaftMessage};
use meshlock_cluster::names::Incarnation;
use meshlock_cluster::node::{Content, LinkPayload, Packet, PeerQuestion, PeerReply, QuestionId, Standing};
use meshlock_cluster::table::{Holding, LockMessage, Machinery};
use meshlock_cluster::time::Span;
use meshlock_protocol::algorithms::central;
use meshlock_protocol::registry::AnyMessage;
use meshlock_protocol::{Count, FenceClock};
use meshlock_wire::sites::{Hello, Introduction, VERSIONS, Versions, encode_packet, greeting, put_packet};

use super::samples::{cluster, epoch, holder, member, rules, running, site, site_locks, site_queue, view};
use super::{Sample, compare, covers};

fn packet(content: Content) -> Packet {
    Packet { cluster: cluster(), incarnation: Incarnation::new(7), content }
}

fn link(body: LinkPayload) -> Content {
    Content::Link { to: Incarnation::new(9), frame: Frame::Data { number: 5, ack: 4, epoch: epoch(3), body } }
}

fn lock_message(cause: Option<Cause>) -> Content {
    link(LinkPayload::Lock(LockMessage {
        lock: "jobs".parse().expect("a name"),
        from_lane: 0,
        to_lane: 1,
        stamp: FenceClock::new(epoch(3)).stamp(),
        message: AnyMessage::Central(central::Message::Grant { number: Count::default() }),
        cause,
    }))
}

fn raft(kind: RaftKind) -> Content {
    let snapshot = (kind == RaftKind::Snapshot).then(|| Box::new(Saved { index: 4, term: 2, view: view() }));
    let entries = if kind == RaftKind::Append {
        vec![LogEntry { index: 5, term: 3, data: vec![1, 2] }]
    } else {
        vec![]
    };
    Content::Raft(RaftMessage {
        kind,
        term: 3,
        log_term: 2,
        index: 4,
        entries,
        commit: 4,
        commit_term: 2,
        snapshot,
        reject: false,
        reject_hint: 1,
        context: vec![9],
    })
}

const KINDS: [(&str, RaftKind); 9] = [
    ("Append", RaftKind::Append),
    ("AppendResponse", RaftKind::AppendResponse),
    ("RequestVote", RaftKind::RequestVote),
    ("RequestVoteResponse", RaftKind::RequestVoteResponse),
    ("RequestPreVote", RaftKind::RequestPreVote),
    ("RequestPreVoteResponse", RaftKind::RequestPreVoteResponse),
    ("Snapshot", RaftKind::Snapshot),
    ("Heartbeat", RaftKind::Heartbeat),
    ("HeartbeatResponse", RaftKind::HeartbeatResponse),
];

fn questions() -> Vec<(String, Content)> {
    let question = QuestionId { incarnation: Incarnation::new(7), number: 2 };
    let lock = || "jobs".parse().expect("a name");
    let asks = [
        ("Queue", PeerQuestion::Queue(lock())),
        ("Break", PeerQuestion::Break(lock())),
        ("Locks", PeerQuestion::Locks),
        ("Leave", PeerQuestion::Leave(member())),
    ];
    let replies = [
        ("Queue", PeerReply::Queue(site_queue(Standing::Open, running()))),
        ("Broken", PeerReply::Broken(vec![holder()])),
        ("Locks", PeerReply::Locks(site_locks())),
        ("Leaves", PeerReply::Leaves(true)),
    ];
    let standings = [
        ("Open", Standing::Open),
        ("Awaits", Standing::Awaits(vec![site("b")])),
        ("CannotOpen", Standing::CannotOpen),
        ("Outside", Standing::Outside),
    ];
    let machines =
        [("Stopped", Machinery::Stopped), ("Running", running()), ("Draining", Machinery::Draining)];
    let reply = |reply| Content::Reply { question, reply };
    let of_queue = |standing, machines| reply(PeerReply::Queue(site_queue(standing, machines)));
    let asks = asks.map(|(name, ask)| (format!("Ask::{name}"), Content::Ask { question, ask }));
    let replies = replies.map(|(name, given)| (format!("Reply::{name}"), reply(given)));
    let standings = standings
        .map(|(name, standing)| (format!("Standing::{name}"), of_queue(standing, Machinery::Stopped)));
    let machines =
        machines.map(|(name, machines)| (format!("Machinery::{name}"), of_queue(Standing::Open, machines)));
    asks.into_iter().chain(replies).chain(standings).chain(machines).collect()
}

fn contents() -> Vec<(String, Content)> {
    let to = Incarnation::new(9);
    let holding = Holding { lock: "jobs".parse().expect("a name"), slots: vec![None, Some(2)] };
    let question = QuestionId { incarnation: to, number: 2 };
    let named = [
        ("Content::Raft", raft(RaftKind::Heartbeat)),
        ("Content::Link", Content::Link { to, frame: Frame::Ack { ack: 300 } }),
        ("Frame::Ack", Content::Link { to, frame: Frame::Ack { ack: 1 } }),
        ("Frame::Data", lock_message(None)),
        ("LinkPayload::Census", link(LinkPayload::Census { holdings: vec![holding], last: true })),
        ("LinkPayload::Lock", lock_message(None)),
        ("LinkPayload::Lock with a cause", lock_message(Cause::new(300))),
        ("LinkPayload::Left", link(LinkPayload::Left("jobs".parse().expect("a name")))),
        (
            "Content::Renew",
            Content::Renew {
                renewal: Renewal::default(),
                epoch: epoch(3),
                unreachable: vec![member()],
                leased: true,
                drained: false,
            },
        ),
        (
            "Content::Granted",
            Content::Granted { to, renewal: Renewal::default(), length: Span::from_millis(5000) },
        ),
        (
            "Content::Join",
            Content::Join {
                epoch: epoch(3),
                reached: vec![member()],
                address: "b:7400".parse().expect("an address"),
            },
        ),
        ("Content::TooOld", Content::TooOld { incarnation: to, last: Incarnation::new(10) }),
        ("Content::Register", Content::Register { disk: to }),
        ("Content::Registered", Content::Registered { disk: to }),
        ("Content::Leave", Content::Leave),
        ("Content::SetRules", Content::SetRules { base: 2, rules: rules() }),
        ("Content::NotLeader", Content::NotLeader { leader: Some(site("a")) }),
        ("Content::View", Content::View(view())),
        ("Content::Ping", Content::Ping),
        ("Content::Pong", Content::Pong),
        ("Content::Ask", Content::Ask { question, ask: PeerQuestion::Locks }),
        ("Content::Reply", Content::Reply { question, reply: PeerReply::Leaves(false) }),
    ];
    let named = named.map(|(name, content)| (name.to_owned(), content));
    let raft = KINDS.map(|(name, kind)| (format!("Kind::{name}"), raft(kind)));
    named.into_iter().chain(raft).chain(questions()).collect()
}

#[test]
fn every_kind_of_message_between_sites_has_its_bytes() {
    let contents = contents();
    let mut samples = Vec::new();
    for version in VERSIONS.0..=VERSIONS.1 {
        for (name, content) in &contents {
            let bytes = encode_packet(&packet(content.clone()), version);
            samples.push((format!("{name} in version {version}"), bytes));
        }
    }
    covers::<Content>("Content", &samples);
    covers::<LinkPayload>("LinkPayload", &samples);
    covers::<Frame<LinkPayload>>("Frame", &samples);
    covers::<RaftKind>("Kind", &samples);
    covers::<PeerQuestion>("Ask", &samples);
    covers::<PeerReply>("Reply", &samples);
    covers::<Standing>("Standing", &samples);
    covers::<Machinery>("Machinery", &samples);
    samples.extend(around());
    compare("sites.txt", &samples);
}

/// What stands around packets: the greeting, the frame, and what a newcomer is told.
fn around() -> Vec<Sample> {
    let hello = Hello { from: site("a"), to: site("b"), incarnation: 300 };
    let mut frame = Vec::new();
    put_packet(&packet(Content::Ping), VERSIONS.1, &mut frame).expect("short");
    let sites = vec![(site("a"), Some("a:7400".parse().expect("an address"))), (site("b"), None)];
    let introduction = Introduction { cluster: "prod".parse().expect("a name"), sites };
    vec![
        ("greeting of versions 1 to 2".to_owned(), greeting(&hello, Versions::up_to(2))),
        ("greeting of version 1".to_owned(), greeting(&hello, Versions::up_to(1))),
        ("frame".to_owned(), frame),
        ("introduction".to_owned(), introduction.frame()),
    ]
}

//! What clients and nodes say to each other.

use meshlock_cluster::node::{Standing, TraceEvent, TraceLine};
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_wire::clients::{
    Contact, HeldEntry, LossKind, RefusalKind, Status, ToClient, ToNode, VERSIONS, put_to_client, put_to_node,
};

use super::samples::{cut_off, epoch, fence, queue, rules, site, site_locks, view};
use super::{Sample, compare, covers};

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn to_node() -> Vec<(String, ToNode)> {
    let lock = || "jobs".parse().expect("a name");
    let acquire = |wait, permits| ToNode::Acquire { tag: 1, lock: lock(), wait, permits };
    let named = [
        ("ToNode::Hello", ToNode::Hello { version: 3, who: "backup.sh".parse().expect("a label") }),
        ("ToNode::Ping", ToNode::Ping(300)),
        ("ToNode::Acquire", acquire(Wait::Forever, None)),
        ("ToNode::Acquire of permits", acquire(Wait::Forever, Some(3))),
        ("Wait::Forever", acquire(Wait::Forever, None)),
        ("Wait::Within", acquire(Wait::Within(Span::from_millis(30_000)), None)),
        ("Wait::Try", acquire(Wait::Try, None)),
        ("ToNode::Cancel", ToNode::Cancel(1)),
        ("ToNode::Release", ToNode::Release(1)),
        ("ToNode::Guard", ToNode::Guard { group: 1234 }),
        ("ToNode::Queue", ToNode::Queue { tag: 2, lock: lock() }),
        ("ToNode::Status", ToNode::Status { tag: 2 }),
        ("ToNode::Break", ToNode::Break { tag: 2, lock: lock() }),
        ("ToNode::SetRules", ToNode::SetRules { tag: 2, rules: rules() }),
        ("ToNode::Locks", ToNode::Locks { tag: 2 }),
        ("ToNode::Remove", ToNode::Remove { tag: 2, site: site("b") }),
        ("ToNode::Leave", ToNode::Leave { tag: 2 }),
        ("ToNode::Watch", ToNode::Watch { tag: 2, pattern: "pool/*".to_owned(), states: true }),
    ];
    named.map(|(name, message)| (name.to_owned(), message)).to_vec()
}

fn status() -> Status {
    let held =
        HeldEntry { lock: "jobs".parse().expect("a name"), who: None, fence: 7, age: Span::from_millis(9) };
    Status {
        site: site("a"),
        incarnation: 7,
        cluster: "prod".parse().expect("a name"),
        sites: vec![site("a"), site("b")],
        view: view(),
        standing: Standing::Open,
        leader: Some(site("b")),
        lease_left: Some(Span::from_millis(4000)),
        leaving: false,
        locks: 4,
        holders: 1,
        waiters: 2,
        sessions: 3,
        held: vec![held],
    }
}

const LOSSES: [(&str, LossKind); 6] = [
    ("Unknown", LossKind::Unknown),
    ("LeaseEnd", LossKind::LeaseEnd),
    ("Broken", LossKind::Broken),
    ("Excluded", LossKind::Excluded),
    ("Leaving", LossKind::Leaving),
    ("Failed", LossKind::Failed),
];

const REFUSALS: [(&str, RefusalKind); 11] = [
    ("Other", RefusalKind::Other),
    ("Denied", RefusalKind::Denied),
    ("TooFast", RefusalKind::TooFast),
    ("Permits", RefusalKind::Permits),
    ("Leaving", RefusalKind::Leaving),
    ("TooManyLocks", RefusalKind::TooManyLocks),
    ("MakingRoom", RefusalKind::MakingRoom),
    ("TooManyOpen", RefusalKind::TooManyOpen),
    ("Failed", RefusalKind::Failed),
    ("BadRequest", RefusalKind::BadRequest),
    ("Version", RefusalKind::Version),
];

fn events() -> [(&'static str, TraceEvent); 11] {
    let who = || Some("backup.sh".parse().expect("a label"));
    let message = || "Request".to_owned();
    [
        ("Waits", TraceEvent::Waits { client: 1, who: who() }),
        ("Holds", TraceEvent::Holds { client: 1, who: who(), fence: fence() }),
        ("Request", TraceEvent::Request { client: 1, who: None }),
        ("Cancel", TraceEvent::Cancel { client: 1 }),
        ("Enter", TraceEvent::Enter { client: 1, who: None, fence: fence() }),
        ("Release", TraceEvent::Release { client: 1 }),
        ("Send", TraceEvent::Send { to: site("b"), number: 5, message: message() }),
        ("Receive", TraceEvent::Receive { from: site("b"), number: 5, message: message() }),
        ("View", TraceEvent::View { members: vec![site("a"), site("b")] }),
        ("Fail", TraceEvent::Fail),
        ("Recover", TraceEvent::Recover),
    ]
}

fn traced(event: TraceEvent) -> ToClient {
    let lock = Some("jobs".parse().expect("a name"));
    let line = TraceLine {
        time: at(4),
        epoch: epoch(3),
        lock,
        machine: Some(1),
        event,
        state: Some("Idle".to_owned()),
    };
    ToClient::Traced { tag: 2, origin: 1_000_000, lines: vec![line], lost: 3 }
}

fn to_client() -> Vec<(String, ToClient)> {
    let contact = Contact { silence: Span::from_millis(5000), drift: Drift::from_ppm(1000) };
    let welcome = |contact| ToClient::Welcome { version: 3, site: site("a"), time: at(4), contact };
    let lost = |why| ToClient::Lost { tag: 1, act_by: at(5), why };
    let refused = |kind| ToClient::Refused { tag: 1, kind, why: "no".to_owned() };
    let margin = Span::from_millis(500);
    let named = [
        ("ToClient::Welcome", welcome(None)),
        ("ToClient::Welcome over a network", welcome(Some(contact))),
        ("ToClient::Pong", ToClient::Pong { tag: 300, time: at(4) }),
        (
            "ToClient::Granted",
            ToClient::Granted { tag: 1, fence: 7, slot: Some(2), lease_end: at(5), margin },
        ),
        ("ToClient::Extended", ToClient::Extended { lease_end: at(5) }),
        ("ToClient::Lost", lost(LossKind::Broken)),
        ("ToClient::LostV2", ToClient::LostV2 { tag: 1, act_by: at(5) }),
        ("ToClient::Released", ToClient::Released(1)),
        ("ToClient::Cancelled", ToClient::Cancelled(1)),
        ("ToClient::TimedOut", ToClient::TimedOut(1)),
        ("ToClient::Busy", ToClient::Busy(1)),
        ("ToClient::Refused", refused(RefusalKind::Denied)),
        ("ToClient::RefusedV2", ToClient::RefusedV2 { tag: 1, why: "no".to_owned() }),
        ("ToClient::Queue", ToClient::Queue { tag: 2, queue: queue() }),
        ("ToClient::Status", ToClient::Status { tag: 2, status: Box::new(status()) }),
        ("ToClient::Broken", ToClient::Broken { tag: 2, cut_off: vec![cut_off()], missing: vec![site("b")] }),
        ("ToClient::RulesSet", ToClient::RulesSet { tag: 2, epoch: 4 }),
        ("ToClient::Locks", ToClient::Locks { tag: 2, sites: vec![site_locks()], missing: vec![] }),
        ("ToClient::Leaves", ToClient::Leaves { tag: 2, leaves: true }),
        ("ToClient::Left", ToClient::Left(2)),
        ("ToClient::Traced", traced(TraceEvent::Fail)),
    ];
    let named = named.map(|(name, message)| (name.to_owned(), message));
    let losses = LOSSES.map(|(name, kind)| (format!("LossKind::{name}"), lost(kind)));
    let refusals = REFUSALS.map(|(name, kind)| (format!("RefusalKind::{name}"), refused(kind)));
    let events = events().map(|(name, event)| (format!("TraceEvent::{name}"), traced(event)));
    named.into_iter().chain(losses).chain(refusals).chain(events).collect()
}

#[test]
fn every_kind_of_message_of_clients_and_nodes_has_its_bytes() {
    let mut samples: Vec<Sample> = Vec::new();
    for (name, message) in to_node() {
        let mut bytes = Vec::new();
        put_to_node(&message, &mut bytes);
        samples.push((name, bytes));
    }
    for version in VERSIONS.0..=VERSIONS.1 {
        for (name, message) in to_client() {
            let mut bytes = Vec::new();
            put_to_client(&message, version, &mut bytes);
            samples.push((format!("{name} in version {version}"), bytes));
        }
    }
    covers::<ToNode>("ToNode", &samples);
    covers::<Wait>("Wait", &samples);
    covers::<ToClient>("ToClient", &samples);
    covers::<LossKind>("LossKind", &samples);
    covers::<RefusalKind>("RefusalKind", &samples);
    covers::<TraceEvent>("TraceEvent", &samples);
    compare("clients.txt", &samples);
}

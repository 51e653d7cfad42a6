//! What clients and nodes say to each other.

use meshlock_cluster::node::{
    ChangeKind, SiteChange, Standing, TraceEvent, TraceLine, VoterPresence, VoterRequest, VoterState,
    VotersReport,
};
use meshlock_cluster::report::Party;
use meshlock_cluster::table::Wait;
use meshlock_cluster::time::{Drift, Span, Time};
use meshlock_wire::clients::{
    Contact, HeldEntry, LossKind, RefusalKind, Status, ToClient, ToNode, VERSIONS, put_to_client,
    put_to_node, take_to_client, take_to_node,
};

use super::samples::{
    access, asked_sites, cut_off, deadlocks, epoch, fence, lock_change, lock_page, proof, queue, rules,
    rules_of_different_permits, site, site_locks, view,
};
use super::{MESSAGE_ADVICE, Sample, compare, covers, label};

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn to_node() -> Vec<(String, ToNode)> {
    let lock = || "jobs".parse().expect("a name");
    let acquire = |wait, permits| ToNode::Acquire { tag: 1, lock: lock(), wait, permits };
    let messages = [
        ("", ToNode::Hello { version: 3, who: "backup.sh".parse().expect("a label") }),
        ("", ToNode::Ping(300)),
        ("", acquire(Wait::Forever, None)),
        (" of permits", acquire(Wait::Forever, Some(3))),
        ("", ToNode::Cancel(1)),
        ("", ToNode::Release(1)),
        ("", ToNode::Guard { group: 1234 }),
        ("", ToNode::Queue { tag: 2, lock: lock() }),
        ("", ToNode::Status { tag: 2 }),
        ("", ToNode::Break { tag: 2, lock: lock() }),
        ("", ToNode::SetRules { tag: 2, rules: rules() }),
        (" with permits for one site", ToNode::SetRules { tag: 2, rules: rules_of_different_permits() }),
        ("", ToNode::Locks { tag: 2 }),
        ("", ToNode::Remove { tag: 2, site: site("b") }),
        ("", ToNode::Leave { tag: 2 }),
        ("", ToNode::Watch { tag: 2, pattern: "pool/*".to_owned(), states: true }),
        ("", ToNode::KeepAlive),
        ("", ToNode::StayInTouch),
        ("", ToNode::ChangeVoters { tag: 2, change: VoterRequest::Promote(site("b")) }),
        ("", ToNode::Access { tag: 2 }),
        ("", ToNode::SetAccess { tag: 2, base: 299, document: Box::new(access().document) }),
        ("", ToNode::Diagnose { tag: 2, others: true }),
        ("", ToNode::Prove { tag: 1 }),
        ("", ToNode::Claim { tag: 1, proof: Box::new(proof()), contact: Some(Span::from_millis(900)) }),
        ("", ToNode::LockPage { tag: 2, pattern: "pool/*".to_owned(), after: Some(lock()), limit: 300 }),
        ("", ToNode::Changes { tag: 2, pattern: "*".to_owned() }),
        ("", ToNode::Deadlocks { tag: 2 }),
        ("", ToNode::Party { party: Party(300) }),
        (" of a site that leaves", ToNode::Claim { tag: 1, proof: Box::new(proof()), contact: None }),
    ];
    let waits = [Wait::Forever, Wait::Within(Span::from_millis(30_000)), Wait::Try];
    let messages = messages.map(|(more, message)| (format!("{}{more}", label("ToNode", &message)), message));
    let waits = waits.map(|wait| (label("Wait", &wait), acquire(wait, None)));
    messages.into_iter().chain(waits).collect()
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
        disk: None,
        voters: None,
    }
}

const PRESENCES: [VoterPresence; 3] = [VoterPresence::Up, VoterPresence::Away, VoterPresence::WithoutDisk];

fn voters(presence: VoterPresence) -> VotersReport {
    let voter = |name: &str, id| VoterState { site: site(name), id, presence };
    VotersReport {
        voters: vec![voter("a", 1), voter("c", 300)],
        outgoing: vec![voter("b", 2)],
        learners: vec![site("d")],
        replaced: Some(site("b")),
        resting: vec![site("e")],
        automatic: true,
    }
}

const LOSSES: [LossKind; 6] = [
    LossKind::Unknown,
    LossKind::LeaseEnd,
    LossKind::Broken,
    LossKind::Excluded,
    LossKind::Leaving,
    LossKind::Failed,
];

const REFUSALS: [RefusalKind; 13] = [
    RefusalKind::Other,
    RefusalKind::Denied,
    RefusalKind::TooFast,
    RefusalKind::Permits,
    RefusalKind::Leaving,
    RefusalKind::TooManyLocks,
    RefusalKind::MakingRoom,
    RefusalKind::TooManyOpen,
    RefusalKind::Failed,
    RefusalKind::BadRequest,
    RefusalKind::Version,
    RefusalKind::Unavailable,
    RefusalKind::Deadlock,
];

fn events() -> [TraceEvent; 11] {
    let who = || Some("backup.sh".parse().expect("a label"));
    let message = || "Request".to_owned();
    [
        TraceEvent::Waits { client: 1, who: who() },
        TraceEvent::Holds { client: 1, who: who(), fence: fence() },
        TraceEvent::Request { client: 1, who: None },
        TraceEvent::Cancel { client: 1 },
        TraceEvent::Enter { client: 1, who: None, fence: fence() },
        TraceEvent::Release { client: 1 },
        TraceEvent::Send { to: site("b"), number: 5, message: message() },
        TraceEvent::Receive { from: site("b"), number: 5, message: message() },
        TraceEvent::View { members: vec![site("a"), site("b")] },
        TraceEvent::Fail,
        TraceEvent::Recover,
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

fn changed() -> ToClient {
    let change = SiteChange { site: site("b"), change: lock_change(ChangeKind::Acquired) };
    ToClient::Changes { tag: 2, changes: vec![change], missed: 300 }
}

fn to_client() -> Vec<(String, ToClient)> {
    let contact = Contact { silence: Span::from_millis(5000), drift: Drift::from_ppm(1000) };
    let welcome = |contact| ToClient::Welcome { version: 3, site: site("a"), time: at(4), contact };
    let lost = |why| ToClient::Lost { tag: 1, act_by: at(5), why };
    let refused = |kind| ToClient::Refused { tag: 1, kind, why: "no".to_owned() };
    let margin = Span::from_millis(500);
    let claimed =
        |left| ToClient::Claimed { tag: 1, fence: 7, slot: Some(2), lease_end: at(5), left, margin };
    let with_voters = |presence| ToClient::StatusWithVoters {
        tag: 2,
        status: Box::new(status()),
        disk: Some("full".to_owned()),
        voters: Box::new(voters(presence)),
    };
    let messages = [
        ("", welcome(None)),
        (" over a network", welcome(Some(contact))),
        ("", ToClient::Pong { tag: 300, time: at(4) }),
        ("", ToClient::Granted { tag: 1, fence: 7, slot: Some(2), lease_end: at(5), margin }),
        ("", ToClient::Extended { lease_end: at(5) }),
        ("", lost(LossKind::Broken)),
        ("", ToClient::LostV2 { tag: 1, act_by: at(5) }),
        ("", ToClient::Released(1)),
        ("", ToClient::Cancelled(1)),
        ("", ToClient::TimedOut(1)),
        ("", ToClient::Busy(1)),
        ("", refused(RefusalKind::Denied)),
        ("", ToClient::RefusedV2 { tag: 1, why: "no".to_owned() }),
        ("", ToClient::Queue { tag: 2, queue: queue() }),
        ("", ToClient::Status { tag: 2, status: Box::new(status()) }),
        ("", ToClient::StatusWithDisk { tag: 2, status: Box::new(status()), disk: "full".to_owned() }),
        ("", ToClient::Broken { tag: 2, cut_off: vec![cut_off()], missing: vec![site("b")] }),
        ("", ToClient::RulesSet { tag: 2, epoch: 4 }),
        ("", ToClient::Locks { tag: 2, sites: vec![site_locks()], missing: vec![] }),
        ("", ToClient::Leaves { tag: 2, leaves: true }),
        ("", ToClient::Left(2)),
        ("", traced(TraceEvent::Fail)),
        ("", with_voters(VoterPresence::Up)),
        ("", ToClient::VotersChanged(2)),
        ("", ToClient::VotersRefused { tag: 2, why: "no".to_owned(), busy: true }),
        ("", ToClient::Access { tag: 2, access: Box::new(access()) }),
        ("", ToClient::AccessSet { tag: 2, version: 300 }),
        ("", ToClient::Diagnoses { tag: 2, sites: asked_sites() }),
        ("", ToClient::Proof { tag: 1, proof: Box::new(proof()) }),
        ("", claimed(None)),
        (" for a time", claimed(Some(Span::from_millis(900)))),
        ("", ToClient::Settled { tag: 1, lease_end: at(5) }),
        ("", ToClient::Leaving),
        ("", ToClient::LockPage { tag: 2, page: Box::new(lock_page()) }),
        ("", changed()),
        ("", ToClient::Deadlocks { tag: 2, deadlocks: Box::new(deadlocks()) }),
    ];
    let messages =
        messages.map(|(more, message)| (format!("{}{more}", label("ToClient", &message)), message));
    let presences = PRESENCES.map(|presence| (label("VoterPresence", &presence), with_voters(presence)));
    let losses = LOSSES.map(|kind| (label("LossKind", &kind), lost(kind)));
    let refusals = REFUSALS.map(|kind| (label("RefusalKind", &kind), refused(kind)));
    let events = events().map(|event| (label("TraceEvent", &event), traced(event)));
    messages.into_iter().chain(losses).chain(refusals).chain(events).chain(presences).collect()
}

/// What a client of today makes of a message in this version: version 2 says no reasons, and version 3 knows no outage.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are the same in every version")]
fn meaning(message: &ToClient, version: u16) -> ToClient {
    match message.clone() {
        ToClient::Lost { tag, act_by, .. } if version == 2 => {
            ToClient::Lost { tag, act_by, why: LossKind::Unknown }
        }
        ToClient::LostV2 { tag, act_by } => ToClient::Lost { tag, act_by, why: LossKind::Unknown },
        ToClient::Refused { tag, why, .. } if version == 2 => {
            ToClient::Refused { tag, kind: RefusalKind::Other, why }
        }
        ToClient::Refused { tag, kind: RefusalKind::Deadlock, why } if version < 7 => {
            ToClient::Refused { tag, kind: RefusalKind::Other, why }
        }
        ToClient::Refused { tag, kind: RefusalKind::Unavailable, why } if version == 3 => {
            ToClient::Refused { tag, kind: RefusalKind::Other, why }
        }
        ToClient::RefusedV2 { tag, why } => ToClient::Refused { tag, kind: RefusalKind::Other, why },
        ToClient::StatusWithDisk { tag, mut status, disk } => {
            status.disk = Some(disk);
            ToClient::Status { tag, status }
        }
        ToClient::StatusWithVoters { tag, mut status, disk, voters } => {
            (status.disk, status.voters) = (disk, Some(*voters));
            ToClient::Status { tag, status }
        }
        same => same,
    }
}

#[test]
fn every_kind_of_message_of_clients_and_nodes_has_its_bytes() {
    let (to_node, to_client) = (to_node(), to_client());
    let names = || {
        to_node.iter().map(|(name, _)| name).chain(to_client.iter().map(|(name, _)| name)).map(String::as_str)
    };
    covers::<ToNode>("ToNode", names());
    covers::<Wait>("Wait", names());
    covers::<ToClient>("ToClient", names());
    covers::<LossKind>("LossKind", names());
    covers::<RefusalKind>("RefusalKind", names());
    covers::<TraceEvent>("TraceEvent", names());
    covers::<VoterPresence>("VoterPresence", names());
    let mut samples: Vec<Sample> = Vec::new();
    for (name, message) in &to_node {
        let mut bytes = Vec::new();
        put_to_node(message, &mut bytes);
        let meaning = Some((message.clone(), bytes.len()));
        samples.push(Sample::new(name, bytes, meaning, take_to_node));
    }
    for version in VERSIONS.0..=VERSIONS.1 {
        for (name, message) in &to_client {
            let mut bytes = Vec::new();
            put_to_client(message, version, &mut bytes);
            let meaning = Some((meaning(message, version), bytes.len()));
            samples.push(Sample::new(format!("{name} in version {version}"), bytes, meaning, take_to_client));
        }
    }
    compare("clients.txt", MESSAGE_ADVICE, &samples);
}

//! What sites say to each other.

use meshlock_cluster::access::{AccessDocument, Admission, JoinRefusal, ShownToken};
use meshlock_cluster::cause::Cause;
use meshlock_cluster::claim::ClaimKey;
use meshlock_cluster::lease::Renewal;
use meshlock_cluster::links::Frame;
use meshlock_cluster::membership::access as agreed;
use meshlock_cluster::membership::disk::{LogEntry, Saved};
use meshlock_cluster::membership::message::{Ends, RaftKind, RaftMessage};
use meshlock_cluster::membership::voters::VoterChange;
use meshlock_cluster::names::Incarnation;
use meshlock_cluster::node::{
    Absence, AccessRefusal, ChangeCursor, ChangeKind, ChangeRefusal, Claim, Content, Hearing, LinkPayload,
    Packet, PeerQuestion, PeerReply, QuestionId, Route, SiteChanges, SiteQueue, Standing, VoterRefusal,
    VoterRequest,
};
use meshlock_cluster::table::{
    CensusPiece, Holding, Holdings, LockMessage, Machinery, PermitMessage, PermitsOf,
};
use meshlock_cluster::time::{Span, Time};
use meshlock_protocol::algorithms::central;
use meshlock_protocol::registry::AnyMessage;
use meshlock_protocol::{Count, FenceClock};
use meshlock_wire::diagnosis::Diagnosis;
use meshlock_wire::sites::{
    Hello, Introduction, VERSIONS, Versions, as_read, decode_packet, encode_packet, greeting, put_packet,
    take_greeting, take_packets,
};

use super::samples::{
    access, cluster, diagnosis, epoch, holder, lock_change, member, page_question, rules,
    rules_of_different_permits, running, site, site_locks, site_page, site_queue, site_waits, view,
    view_of_different_permits, voters,
};
use super::{MESSAGE_ADVICE, Sample, compare, covers, label};

/// What a kind is called, and a message of it.
type Named = (String, Content);

fn packet(content: Content) -> Packet {
    Packet::direct(cluster(), Incarnation::new(7), content)
}

fn data(body: LinkPayload) -> Frame<LinkPayload> {
    Frame::Data { number: 5, ack: 4, epoch: epoch(3), body }
}

fn on_link(frame: Frame<LinkPayload>) -> Content {
    Content::Link { to: Incarnation::new(9), frame }
}

fn lock_message(cause: Option<Cause>) -> LinkPayload {
    LinkPayload::Lock(LockMessage {
        lock: "jobs".parse().expect("a name"),
        from_lane: 0,
        to_lane: 1,
        stamp: FenceClock::new(epoch(3)).stamp(),
        message: AnyMessage::Central(central::Message::Grant { number: Count::default() }),
        cause,
    })
}

/// A lock's message whose numbers all differ.
fn lock_message_of_different_numbers() -> LinkPayload {
    let mut clock = FenceClock::new(epoch(3));
    clock.enter();
    clock.enter();
    LinkPayload::Lock(LockMessage {
        lock: "jobs".parse().expect("a name"),
        from_lane: 6,
        to_lane: 8,
        stamp: clock.stamp(),
        message: AnyMessage::Central(central::Message::Grant { number: Count::at(7) }),
        cause: None,
    })
}

fn raft(kind: RaftKind) -> Content {
    let snapshot = (kind == RaftKind::Snapshot)
        .then(|| Box::new(Saved { index: 4, term: 2, view: view(), voters: None, access: None }));
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
        ends: None,
    })
}

/// A message of voters whose numbers all differ.
fn raft_of_different_numbers() -> Content {
    Content::Raft(RaftMessage {
        kind: RaftKind::Append,
        term: 9,
        log_term: 8,
        index: 20,
        entries: vec![LogEntry { index: 21, term: 7, data: vec![1, 2] }],
        commit: 19,
        commit_term: 6,
        snapshot: Some(Box::new(Saved {
            index: 18,
            term: 5,
            view: view_of_different_permits(),
            voters: None,
            access: None,
        })),
        reject: true,
        reject_hint: 17,
        context: vec![4],
        ends: None,
    })
}

/// A message of voters that the founding does not name.
fn raft_of_later_voters() -> Content {
    let Content::Raft(mut message) = raft(RaftKind::Snapshot) else { unreachable!("a voter's message") };
    let change = VoterChange::Settle { id: 1, disk: Incarnation::new(9) };
    message.entries = vec![LogEntry { index: 5, term: 3, data: change.encode() }];
    message.set_beside(Some(Ends { from: 5, to: 4, disk: Some(Incarnation::new(300)) }), Some(voters()));
    Content::Raft(message)
}

/// A message with a state that has an access document, and no other voters than the first ones.
fn raft_of_an_access_document() -> Content {
    let Content::Raft(mut message) = raft(RaftKind::Snapshot) else { unreachable!("a voter's message") };
    message.entries = vec![LogEntry { index: 5, term: 3, data: agreed::encode(&access()) }];
    message.set_access(access());
    Content::Raft(message)
}

/// What is refused by the access document, or about it.
fn access_refusals() -> Vec<Named> {
    let joins = [
        JoinRefusal::Removed,
        JoinRefusal::Revoked,
        JoinRefusal::NotListed,
        JoinRefusal::TokenMissing,
        JoinRefusal::TokenWrong,
        JoinRefusal::TokenExpired,
        JoinRefusal::OlderVersion,
    ];
    let changes = [
        ChangeRefusal::Invalid("no".to_owned()),
        ChangeRefusal::OlderVersion(vec![site("b")]),
        ChangeRefusal::NoMajority,
    ];
    let to = Incarnation::new(300);
    let refused = |name, why| (name, Content::AccessRefused { to, why });
    let joins = joins.map(|why| refused(label("JoinRefusal", &why), AccessRefusal::Join(why)));
    let changes = changes.map(|why| {
        refused(label("ChangeRefusal", &why), AccessRefusal::Change { base: 2, why: why.clone() })
    });
    let kinds = [
        AccessRefusal::Join(JoinRefusal::Removed),
        AccessRefusal::Change { base: 2, why: ChangeRefusal::NoMajority },
    ];
    let kinds = kinds.map(|why| refused(label("AccessRefusal", &why), why));
    let admission = [Admission::Open, Admission::Closed].map(|admission| {
        let document = AccessDocument { admission, ..AccessDocument::default() };
        (label("Admission", &admission), Content::SetAccess { base: 0, document })
    });
    joins.into_iter().chain(changes).chain(kinds).chain(admission).collect()
}

/// What operators ask for, and the leader's answers.
fn voter_requests() -> Vec<Named> {
    let requests = [
        VoterRequest::Promote(site("b")),
        VoterRequest::Demote(site("b")),
        VoterRequest::Replace { old: site("b"), new: site("c") },
    ];
    let refusals = [
        VoterRefusal::NotMember(site("b")),
        VoterRefusal::NotVoter(site("b")),
        VoterRefusal::Votes(site("b")),
        VoterRefusal::Busy,
        VoterRefusal::OlderVersion(vec![site("b")]),
        VoterRefusal::NoMajority,
        VoterRefusal::TooMany,
        VoterRefusal::LastVoter(site("b")),
        VoterRefusal::DiskUnknown(site("b")),
    ];
    let requests = requests.map(|request| (label("VoterRequest", &request), Content::ChangeVoters(request)));
    let refusals = refusals.map(|refused| {
        let (name, request) = (label("VoterRefusal", &refused), VoterRequest::Demote(site("b")));
        (name, Content::VotersChanged { request, refused: Some(refused) })
    });
    requests.into_iter().chain(refusals).collect()
}

const KINDS: [RaftKind; 9] = [
    RaftKind::Append,
    RaftKind::AppendResponse,
    RaftKind::RequestVote,
    RaftKind::RequestVoteResponse,
    RaftKind::RequestPreVote,
    RaftKind::RequestPreVoteResponse,
    RaftKind::Snapshot,
    RaftKind::Heartbeat,
    RaftKind::HeartbeatResponse,
];

fn questions() -> Vec<Named> {
    let question = QuestionId { incarnation: Incarnation::new(7), number: 2 };
    let lock = || "jobs".parse().expect("a name");
    let asks = [
        PeerQuestion::Queue(lock()),
        PeerQuestion::Break(lock()),
        PeerQuestion::Locks,
        PeerQuestion::Leave(member()),
        PeerQuestion::Page(page_question()),
        PeerQuestion::Changes(Some(cursor())),
        PeerQuestion::Waits,
        PeerQuestion::Refuse { member: member(), request: 300 },
    ];
    let replies = [
        PeerReply::Queue(site_queue(Standing::Open, running())),
        PeerReply::Broken(vec![holder()]),
        PeerReply::Locks(site_locks()),
        PeerReply::Leaves(true),
        PeerReply::Page(site_page()),
        changes(ChangeKind::Acquired),
        PeerReply::Waits(site_waits()),
        PeerReply::Refused(true),
    ];
    let standings =
        [Standing::Open, Standing::Awaits(vec![site("b")]), Standing::CannotOpen, Standing::Outside];
    let machines = [Machinery::Stopped, running(), Machinery::Draining];
    let reply = |reply| Content::Reply { question, reply };
    let of_queue = |standing, machines| reply(PeerReply::Queue(site_queue(standing, machines)));
    let asks = asks.map(|ask| (label("Ask", &ask), Content::Ask { question, ask }));
    let replies = replies.map(|given| (label("Reply", &given), reply(given)));
    let standings =
        standings.map(|standing| (label("Standing", &standing), of_queue(standing, Machinery::Stopped)));
    let machines =
        machines.map(|machines| (label("Machinery", &machines), of_queue(Standing::Open, machines)));
    let settled = PeerReply::Queue(SiteQueue { settled: Some(300), ..site_queue(Standing::Open, running()) });
    let settled = [(label("Reply", &settled) + " with settled permits", reply(settled))];
    let kinds = CHANGES.map(|kind| (label("ChangeKind", &kind), reply(changes(kind))));
    let replies = replies.into_iter().chain(kinds);
    asks.into_iter().chain(replies).chain(standings).chain(machines).chain(settled).collect()
}

const CHANGES: [ChangeKind; 4] =
    [ChangeKind::Acquired, ChangeKind::Released, ChangeKind::Lost, ChangeKind::Broken];

fn cursor() -> ChangeCursor {
    ChangeCursor { incarnation: Incarnation::new(7), next: 300 }
}

fn changes(kind: ChangeKind) -> PeerReply {
    let changes = vec![lock_change(kind)];
    PeerReply::Changes(SiteChanges { changes, missed: 5, cursor: cursor(), more: true })
}

fn permits() -> [PermitMessage; 8] {
    let stamp = FenceClock::new(epoch(1)).stamp();
    [
        PermitMessage::Want { permits: 300 },
        PermitMessage::Permit { permits: 300, slot: 2, stamp },
        PermitMessage::Return { slot: 2, stamp },
        PermitMessage::Differs { permits: 3, has: 1 },
        PermitMessage::Reserve { permits: 3 },
        PermitMessage::Reserved { in_use: Some(1), stamp },
        PermitMessage::Settled { permits: 3 },
        PermitMessage::Free { stamp },
    ]
}

fn links() -> Vec<Named> {
    let lock = || "jobs".parse().expect("a name");
    let holding = Holding { lock: lock(), slots: vec![None, Some(2)], permits: Some(3), modes: Vec::new() };
    let frames = [Frame::Ack { ack: 1 }, data(lock_message(None))];
    let holdings = Holdings::from(vec![holding]);
    let mut off_rule = holdings.clone();
    off_rule.set_off_rule(0, 2);
    let piece = |holdings, key| CensusPiece { holdings, last: true, has_permits: true, key, has_modes: true };
    let census = |holdings| LinkPayload::Census(piece(holdings, None));
    let key = Some(ClaimKey::new([0xa5; ClaimKey::BYTES]));
    let payloads = [
        ("", census(holdings.clone())),
        (" with the key of proofs", LinkPayload::Census(piece(holdings, key))),
        (" with another number than the rule's", census(off_rule)),
        ("", lock_message(None)),
        (" with a cause", lock_message(Cause::new(300))),
        (" of different numbers", lock_message_of_different_numbers()),
        ("", LinkPayload::Left("jobs".parse().expect("a name"))),
    ];
    let frames = frames.map(|frame| (label("Frame", &frame), on_link(frame)));
    let permits = permits().map(|message| {
        let more = label("PermitMessage", &message);
        (format!(" {more}"), LinkPayload::Permits(PermitsOf { lock: lock(), message }))
    });
    let payloads = payloads.map(|(more, payload)| (more.to_owned(), payload)).into_iter().chain(permits);
    let payloads = payloads.map(|(more, payload)| {
        let name = label("LinkPayload", &payload);
        (format!("{name}{more}"), on_link(data(payload)))
    });
    frames.into_iter().chain(payloads).collect()
}

fn contents() -> Vec<Named> {
    let to = Incarnation::new(9);
    let question = QuestionId { incarnation: to, number: 2 };
    let contents = [
        ("", raft(RaftKind::Heartbeat)),
        (" of different numbers", raft_of_different_numbers()),
        ("", on_link(Frame::Ack { ack: 300 })),
        (
            "",
            Content::Renew {
                renewal: Renewal::default(),
                epoch: epoch(3),
                unreachable: vec![member()],
                leased: true,
                drained: false,
            },
        ),
        ("", Content::Granted { to, renewal: Renewal::default(), length: Span::from_millis(5000) }),
        (
            "",
            Content::Join {
                epoch: epoch(3),
                reached: vec![member()],
                address: "b:7400".parse().expect("an address"),
            },
        ),
        ("", Content::TooOld { incarnation: to, last: Incarnation::new(10) }),
        ("", Content::Register { disk: to }),
        ("", Content::Registered { disk: to }),
        ("", Content::Leave),
        ("", Content::SetRules { base: 2, rules: rules() }),
        (" with permits for one site", Content::SetRules { base: 2, rules: rules_of_different_permits() }),
        ("", Content::NotLeader { leader: Some(site("a")) }),
        ("", Content::View(view())),
        (" with permits for one site", Content::View(view_of_different_permits())),
        ("", Content::Ping),
        ("", Content::Pong),
        ("", Content::Ask { question, ask: PeerQuestion::Locks }),
        ("", Content::Reply { question, reply: PeerReply::Leaves(false) }),
        ("", Content::Beat { sent: Time::from_micros(300), hearing: Hearing::Directly }),
        ("", Content::Voters(voters())),
        ("", Content::Recorded(vec![(site("b"), Incarnation::new(300))])),
        ("", Content::Claim(Claim { disk: Incarnation::new(300), acts_as: Some(4) })),
        ("", Content::ChangeVoters(VoterRequest::Promote(site("b")))),
        ("", Content::VotersChanged { request: VoterRequest::Promote(site("b")), refused: None }),
        (" of later voters", raft_of_later_voters()),
        ("", Content::Absent(Absence { silent: vec![2], idle: vec![300] })),
        (
            "",
            Content::JoinWithToken {
                epoch: epoch(3),
                reached: vec![member()],
                address: "b:7400".parse().expect("an address"),
                token: ShownToken("meshlock_1".to_owned()),
            },
        ),
        ("", Content::AccessRefused { to, why: AccessRefusal::Join(JoinRefusal::NotListed) }),
        ("", Content::Access(access())),
        ("", Content::AccessKnown { version: 300, asks: false }),
        ("", Content::SetAccess { base: 299, document: access().document }),
        ("", Content::Call { to, number: 300, body: vec![7] }),
        ("", Content::CallAnswer { to, number: 300, body: vec![7] }),
        ("", Content::CallEnded { to, number: 300 }),
        (" of an access document", raft_of_an_access_document()),
    ];
    let contents = contents.map(|(more, content)| (format!("{}{more}", label("Content", &content)), content));
    let raft = KINDS.map(|kind| (label("Kind", &kind), raft(kind)));
    let hearing = [Hearing::Directly, Hearing::Through(site("c")), Hearing::Nothing]
        .map(|hearing| (label("Hearing", &hearing), Content::Beat { sent: Time::from_micros(300), hearing }));
    let contents = contents.into_iter().chain(links()).chain(raft).chain(questions()).chain(hearing);
    contents.chain(voter_requests()).chain(access_refusals()).collect()
}

#[test]
fn every_kind_of_message_between_sites_has_its_bytes() {
    let contents = contents();
    let names = || contents.iter().map(|(name, _)| name.as_str());
    covers::<Content>("Content", names());
    covers::<LinkPayload>("LinkPayload", names());
    let of_permits = contents.iter().filter_map(|(name, _)| name.strip_prefix("LinkPayload::Permits "));
    covers::<PermitMessage>("PermitMessage", of_permits);
    covers::<Frame<LinkPayload>>("Frame", names());
    covers::<RaftKind>("Kind", names());
    covers::<Hearing>("Hearing", names());
    covers::<PeerQuestion>("Ask", names());
    covers::<PeerReply>("Reply", names());
    covers::<Standing>("Standing", names());
    covers::<Machinery>("Machinery", names());
    covers::<VoterRequest>("VoterRequest", names());
    covers::<VoterRefusal>("VoterRefusal", names());
    covers::<AccessRefusal>("AccessRefusal", names());
    covers::<JoinRefusal>("JoinRefusal", names());
    covers::<ChangeRefusal>("ChangeRefusal", names());
    covers::<Admission>("Admission", names());
    covers::<ChangeKind>("ChangeKind", names());
    let mut samples = around();
    for version in VERSIONS.0..=VERSIONS.1 {
        let known = contents
            .iter()
            .filter(|(_, content)| version >= 3 || !content.is_about_permits() && !content.is_beat())
            .filter(|(_, content)| version >= 4 || !content.is_about_voters())
            .filter(|(_, content)| version >= 5 || !content.is_absence() && !content.is_about_access())
            .filter(|(_, content)| version >= 7 || !content.is_about_listings())
            .filter(|(_, content)| version >= 6 || !content.is_about_calls() && !content.is_records());
        samples.extend(known.map(|(name, content)| {
            let bytes = encode_packet(&packet(content.clone()), version);
            let decode = move |bytes: &[u8]| decode_packet(bytes, version);
            Sample::new(
                format!("{name} in version {version}"),
                bytes,
                as_read(packet(content.clone()), version),
                decode,
            )
        }));
    }
    let (to, from) = (Route::To(site("far")), Route::From(site("far")));
    samples.extend([("To", to), ("From", from)].map(|(name, route)| {
        let carried = Packet { route, ..packet(on_link(data(lock_message(Cause::new(300))))) };
        let decode = |bytes: &[u8]| decode_packet(bytes, 3);
        Sample::new(format!("Route::{name} in version 3"), encode_packet(&carried, 3), carried, decode)
    }));
    compare("sites.txt", MESSAGE_ADVICE, &samples);
}

/// What stands around packets: the greeting, the frame, and what a newcomer is told.
fn around() -> Vec<Sample> {
    let hello = Hello { from: site("a"), to: site("b"), incarnation: 300 };
    let greeting = |name: &str, highest| {
        let bytes = greeting(&hello, Versions::up_to(highest));
        let decode = |bytes: &[u8]| take_greeting(&mut bytes.to_vec(), Versions::default());
        Sample::new(name, bytes, Some((hello.clone(), highest)), decode)
    };
    let mut frame = Vec::new();
    put_packet(&packet(Content::Ping), VERSIONS.1, &mut frame).expect("short");
    let packets = |bytes: &[u8]| {
        let (mut packets, mut rest) = (Vec::new(), bytes.to_vec());
        take_packets(&mut rest, VERSIONS.1, |packet| packets.push(packet)).map(|()| (packets, rest))
    };
    let sites = vec![(site("a"), Some("a:7400".parse().expect("an address"))), (site("b"), None)];
    let introduction = Introduction { cluster: "prod".parse().expect("a name"), sites };
    vec![
        greeting("greeting of versions 1 to 7", 7),
        greeting("greeting of versions 1 to 6", 6),
        greeting("greeting of versions 1 to 5", 5),
        greeting("greeting of versions 1 to 4", 4),
        greeting("greeting of versions 1 to 3", 3),
        greeting("greeting of versions 1 to 2", 2),
        greeting("greeting of version 1", 1),
        Sample::new("frame", frame, (vec![packet(Content::Ping)], Vec::new()), packets),
        Sample::new("introduction", introduction.frame(), Some(introduction), Introduction::take),
        Sample::new("diagnosis", diagnosis().frame(), Some(diagnosis()), Diagnosis::take),
    ]
}

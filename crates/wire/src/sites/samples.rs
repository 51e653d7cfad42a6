//! Packets of several kinds, for tests and fuzzers.

use meshlock_cluster::access::AgreedAccess;
use meshlock_cluster::cause::Cause;
#[cfg(feature = "fuzz")]
use meshlock_cluster::claim::ClaimKey;
use meshlock_cluster::membership::message::Ends;
use meshlock_cluster::membership::voters::Voters;
use meshlock_cluster::names::{Incarnation, SiteName};
use meshlock_cluster::node::{Content, Packet};
use meshlock_protocol::{Epoch, FenceClock};

/// Returns a packet with a message of a lock's machine, for tests and fuzzers.
pub(crate) fn lock_packet(cause: Option<Cause>) -> Packet {
    use meshlock_cluster::node::LinkPayload;
    use meshlock_cluster::table::LockMessage;
    use meshlock_protocol::Count;
    use meshlock_protocol::algorithms::central;
    use meshlock_protocol::registry::AnyMessage;

    let message = LockMessage {
        lock: "jobs".parse().expect("a name"),
        from_lane: 0,
        to_lane: 0,
        stamp: FenceClock::new(Epoch::default()).stamp(),
        message: AnyMessage::Central(central::Message::Grant { number: Count::default() }),
        cause,
    };
    link_packet(LinkPayload::Lock(message))
}

/// Returns packets with a census and with a message about permits, for fuzzers.
#[cfg(feature = "fuzz")]
pub(crate) fn permit_packets() -> [Packet; 2] {
    use meshlock_cluster::node::LinkPayload;
    use meshlock_cluster::table::{CensusPiece, Holding, PermitMessage, PermitsOf};

    let lock = || "jobs".parse().expect("a name");
    let holding = Holding { lock: lock(), slots: vec![Some(0), None], permits: Some(3), modes: Vec::new() };
    let key = Some(ClaimKey::new([7; 32]));
    let piece =
        CensusPiece { holdings: vec![holding].into(), last: true, has_permits: true, key, has_modes: true };
    let message =
        PermitMessage::Reserved { in_use: Some(3), stamp: FenceClock::new(Epoch::default()).stamp() };
    [LinkPayload::Census(piece), LinkPayload::Permits(PermitsOf { lock: lock(), message })].map(link_packet)
}

/// Returns packets about changes of voters, for tests and fuzzers.
pub(crate) fn voter_packets() -> [Packet; 2] {
    use meshlock_cluster::founding::Founding;
    use meshlock_cluster::membership::disk::Saved;
    use meshlock_cluster::membership::message::{RaftKind, RaftMessage};
    use meshlock_cluster::view::View;

    let sites = ["a", "b"].map(|name| name.parse().expect("a name"));
    let voters = Voters { changed_at: 5, ..Voters::founding(&sites) };
    let saved =
        Saved { index: 7, term: 3, view: View::default(), voters: Some(voters.clone()), access: None };
    let message = RaftMessage {
        kind: RaftKind::Snapshot,
        term: 3,
        log_term: 0,
        index: 0,
        entries: Vec::new(),
        commit: 0,
        commit_term: 0,
        snapshot: Some(Box::new(saved)),
        reject: false,
        reject_hint: 0,
        context: Vec::new(),
        ends: Some(Ends { from: 1, to: 4, disk: Some(Incarnation::new(9)) }),
    };
    let cluster = Founding::new("x".parse().expect("a name"), &[]).id();
    [Content::Raft(message), Content::Voters(voters)]
        .map(|content| Packet::direct(cluster, Incarnation::new(3), content))
}

/// Returns packets about the access document, for tests and fuzzers.
pub(crate) fn access_packets() -> Vec<Packet> {
    use meshlock_cluster::access::{AccessDocument, JoinRefusal, JoinToken, ShownToken, TokenHash};
    use meshlock_cluster::node::{AccessRefusal, ChangeRefusal};

    let site: SiteName = "d".parse().expect("a name");
    let mut document = AccessDocument { revoked: vec!["site/x".to_owned()], ..AccessDocument::default() };
    document.admit(site.clone(), Some(JoinToken { sha256: TokenHash::of("t"), expires: 9 }));
    let access = AgreedAccess { version: 3, document: document.clone() };
    let [mut snapshot, _] = voter_packets();
    if let Some(message) = snapshot.content.raft_message_mut() {
        message.set_access(access.clone());
    }
    let (epoch, to) = (Epoch::default(), Incarnation::new(7));
    let address = "d:7400".parse().expect("an address");
    let contents = [
        Content::JoinWithToken { epoch, reached: Vec::new(), address, token: ShownToken("t".to_owned()) },
        Content::AccessRefused { to, why: AccessRefusal::Join(JoinRefusal::Removed) },
        Content::AccessRefused {
            to,
            why: AccessRefusal::Change { base: 2, why: ChangeRefusal::OlderVersion(vec![site]) },
        },
        Content::Access(access),
        Content::AccessKnown { version: 3, asks: true },
        Content::SetAccess { base: 3, document },
    ];
    let (cluster, incarnation) = (snapshot.cluster, snapshot.incarnation);
    let packets = contents.into_iter().map(|content| Packet::direct(cluster, incarnation, content));
    packets.chain([snapshot]).collect()
}

/// Returns packets about forwarded calls, for tests and fuzzers.
pub(crate) fn call_packets() -> [Packet; 3] {
    use meshlock_cluster::founding::Founding;

    let (to, number, body) = (Incarnation::new(7), 300, vec![1, 2, 255]);
    let cluster = Founding::new("x".parse().expect("a name"), &[]).id();
    [
        Content::Call { to, number, body: body.clone() },
        Content::CallAnswer { to, number, body },
        Content::CallEnded { to, number },
    ]
    .map(|content| Packet::direct(cluster, Incarnation::new(3), content))
}

/// Returns a packet with this message on a link.
pub(super) fn link_packet(body: meshlock_cluster::node::LinkPayload) -> Packet {
    use meshlock_cluster::founding::Founding;
    use meshlock_cluster::links::Frame;

    let frame = Frame::Data { number: 1, ack: 0, epoch: Epoch::default(), body };
    let content = Content::Link { to: Incarnation::new(2), frame };
    let cluster = Founding::new("x".parse().expect("a name"), &[]).id();
    Packet::direct(cluster, Incarnation::new(3), content)
}

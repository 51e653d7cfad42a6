//! What a voter says of the rounds that it has answered.

use super::*;
use crate::lease::{Inherited, RenewalAges, append_list};
use crate::membership::message::Ends;
use crate::mutant;
use crate::time::Drift;

fn message(kind: RaftKind, term: u64) -> RaftMessage {
    RaftMessage {
        kind,
        term,
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
    }
}

/// Returns the first message of this kind that was sent, and to whom.
fn sent(lone: &Lone, kind: RaftKind) -> Option<(&SiteName, &RaftMessage)> {
    lone.sent.iter().find_map(|(to, content)| {
        let Content::Raft(message) = content else { return None };
        (message.kind == kind).then_some((to, message))
    })
}

/// Starts the voter `a` of a, b and c. After ten seconds a site leads that it does not know as a voter, and whose round is for a renewal of
/// `member`; later it votes for `b`. Returns when the renewal was sent at the latest, as `b` knows from that vote, and when that was.
fn told_with_a_vote(member: &Member) -> (Time, Time) {
    let mut disk = Disk::default();
    let registrations = Registrations { disk: Incarnation::new(1), may_vote: true, others: BTreeMap::new() };
    disk.apply(&DiskWrite::Registrations(registrations));
    let mut lone = Lone::start(&["a", "b", "c"], disk);
    lone.write();
    lone.pass(Span::from_millis(10_000));
    let mut context = vec![0; 8];
    append_list(&mut context, [member].into_iter());
    let ends = Some(Ends { from: 4, to: 1, disk: None });
    let round = RaftMessage { context, ends, ..message(RaftKind::Heartbeat, 20) };
    lone.sent.clear();
    lone.receive_from("d", Content::Raft(round));
    lone.write();
    let answered = sent(&lone, RaftKind::HeartbeatResponse).map(|(to, _)| to.as_str());
    assert_eq!(answered, Some("d"), "it confirms that d leads");
    let confirmed = lone.now;
    // A voter that hears from a leader votes for nobody else.
    lone.pass(Span::from_millis(5_000));
    lone.sent.clear();
    let request = RaftMessage { log_term: 20, index: 9, ..message(RaftKind::RequestVote, 21) };
    lone.receive_from("b", Content::Raft(request));
    lone.write();
    let (_, vote) = sent(&lone, RaftKind::RequestVoteResponse).expect("an answer");
    assert!(!vote.reject, "it votes for b");
    let mut inherited = Inherited::default();
    inherited.add(RenewalAges::decode(&vote.context), lone.now);
    (inherited.at(member, Drift::from_ppm(0)), confirmed)
}

#[test]
fn a_voter_remembers_the_rounds_of_a_leader_that_has_become_a_voter_unnoticed() {
    let member = Member { site: "m".parse().unwrap(), incarnation: Incarnation::new(1) };
    let (told, confirmed) = told_with_a_vote(&member);
    assert_eq!(told, confirmed);
    // Otherwise b would free the locks of a member whose lease still runs.
    let (told, confirmed) = mutant::with(Mutant::StrangersRoundIgnored, || told_with_a_vote(&member));
    assert!(told < confirmed);
}

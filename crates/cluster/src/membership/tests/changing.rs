//! Voters change while they agree: a new one takes in the log first, one takes the place of another, and no change is lost or done twice
//! when a leader goes in the middle of it.

use super::*;
use crate::mutant;

/// The disk of the voter with this id.
fn disk_of(id: u64) -> Incarnation {
    Incarnation::new(1000 + id)
}

impl Council {
    /// Adds a site that starts as the voter with this id, as a node does when it is told that the id is its own.
    fn seat(&mut self, id: u64) -> usize {
        let at = self.voters.len();
        self.names.push(format!("s{at}").parse().unwrap());
        let founding = self.founding.clone();
        self.voters.push(Membership::start(founding, id, Disk::default(), PACE, MAX_LOG_ENTRIES, at as u64));
        self.disks.push(Disk::default());
        self.unwritten.push(VecDeque::new());
        at
    }

    fn change(&mut self, leader: usize, change: &VoterChange) -> bool {
        let mut out = Vec::new();
        let proposed = self.voters[leader].propose_change(change, &mut out);
        self.handle(leader, out);
        proposed
    }

    /// Proposes a change, and lets it be agreed on and known everywhere.
    fn agree(&mut self, leader: usize, change: &VoterChange) {
        assert!(self.change(leader, change), "{change:?}");
        for _ in 0..5 {
            self.settle();
            self.tick(leader);
        }
        self.settle();
    }

    fn settle_disks(&mut self, leader: usize) {
        for id in 1..=self.founding.voters.len() as u64 {
            self.agree(leader, &VoterChange::Settle { id, disk: disk_of(id) });
        }
    }

    fn admit(&mut self, leader: usize, replaced: Option<u64>) -> usize {
        let id = self.voters[leader].voters().next_id;
        let at = self.seat(id);
        let (site, disk) = (self.names[at].clone(), disk_of(id));
        self.agree(leader, &VoterChange::Admit { site, disk, replaced, wanted: 1 });
        at
    }

    fn ids(&self, at: usize) -> Vec<u64> {
        self.voters[at].voters().voters.iter().map(|voter| voter.id).collect()
    }
}

fn enter(remove: Option<u64>) -> VoterChange {
    VoterChange::Enter { remove, on_request: false }
}

/// Returns three voters, the leader, and a voter other than the leader.
fn three() -> (Council, usize, usize) {
    let mut council = Council::of(3);
    let leader = council.elect();
    council.settle_disks(leader);
    (council, leader, (leader + 1) % 3)
}

#[test]
fn a_new_voter_takes_in_the_log_and_then_the_place_of_another_one() {
    for epochs in [3, 2 * u32::try_from(MAX_LOG_ENTRIES).unwrap()] {
        let (mut council, leader, other) = three();
        for epoch in 1..=epochs {
            council.propose(leader, &view(epoch));
            council.settle();
        }
        let gone = other as u64 + 1;
        let new = council.admit(leader, Some(gone));
        assert_eq!(*council.voters[new].view(), view(epochs), "also if the log was cut before it came");
        assert!(council.voters[leader].has_caught_up(4) && !council.voters[new].votes());
        council.agree(leader, &enter(Some(gone)));
        assert!(council.voters[new].votes() && council.voters[leader].voters().is_joint());
        council.agree(leader, &VoterChange::Leave);
        let now = council.ids(leader);
        assert!(now.contains(&4) && !now.contains(&gone));
        assert_eq!(council.ids(new), now);
        // The other one is not needed any more: the new one is.
        let third = 3 - leader - other;
        council.propose(leader, &view(epochs + 1));
        council.settle_without(|from, to, _| [other, third].contains(&from) || [other, third].contains(&to));
        assert_eq!(*council.voters[leader].view(), view(epochs + 1));
    }
}

#[test]
fn one_voter_becomes_three_in_one_change() {
    let mut council = Council::of(1);
    let leader = council.elect();
    council.settle_disks(leader);
    for _ in 0..2 {
        let (at, id) = (council.names.len(), council.voters[leader].voters().next_id);
        council.seat(id);
        let (site, disk) = (council.names[at].clone(), disk_of(id));
        council.agree(leader, &VoterChange::Admit { site, disk, replaced: None, wanted: 2 });
    }
    council.agree(leader, &enter(None));
    council.agree(leader, &VoterChange::Leave);
    assert_eq!((0..3).map(|at| council.ids(at)).collect::<Vec<_>>(), vec![vec![1, 2, 3]; 3]);
    for at in 0..3 {
        council.restart(at, council.disks[at].clone());
    }
    let leader = council.elect();
    council.propose(leader, &view(1));
    council.settle();
    assert_eq!(*council.voters[leader].view(), view(1));
    assert_eq!(council.ids(leader), [1, 2, 3]);
}

#[test]
fn only_one_step_is_under_way_and_only_a_leader_that_knows_its_whole_log_takes_one() {
    let (mut council, leader, other) = three();
    for id in [4, 5] {
        council.seat(id);
    }
    let admit = |name: &str| VoterChange::Admit {
        site: name.parse().unwrap(),
        disk: disk_of(9),
        replaced: None,
        wanted: 2,
    };
    assert!(!council.change(other, &admit("s3")), "it does not lead");
    council.propose(leader, &view(1));
    assert!(!council.change(leader, &admit("s3")), "its log is not applied");
    council.settle();
    assert!(!council.change(leader, &VoterChange::Leave), "nothing is under way");
    assert!(council.change(leader, &admit("s3")));
    assert!(!council.change(leader, &admit("s4")), "another step is under way");
    council.settle();
    assert!(council.change(leader, &admit("s4")));
}

#[test]
fn a_leader_that_is_removed_gives_up_and_another_one_is_elected() {
    let (mut council, leader, _) = three();
    let new = council.admit(leader, Some(leader as u64 + 1));
    council.agree(leader, &enter(Some(leader as u64 + 1)));
    council.agree(leader, &VoterChange::Leave);
    assert!(council.voters[leader].leads().is_none());
    let voters: Vec<usize> = (0..4).filter(|at| *at != leader).collect();
    within_steps("another leader is elected", || {
        (0..4).for_each(|at| council.tick(at));
        council.settle();
        voters.iter().any(|at| council.voters[*at].leads().is_some())
    });
    assert!(council.voters[leader].leads().is_none() && !council.voters[leader].votes());
    assert!(council.voters[new].votes());
}

#[test]
fn a_voter_that_is_none_any_more_helps_a_leader_that_does_not_know_it_yet() {
    for knows in [true, false] {
        let mut council = Council::of(2);
        let leader = council.elect();
        let other = 1 - leader;
        council.settle_disks(leader);
        council.agree(leader, &enter(Some(other as u64 + 1)));
        let before = council.disks[leader].clone();
        assert!(council.change(leader, &VoterChange::Leave));
        council.settle_without(|_, to, message| to == other && !knows && !message.entries.is_empty());
        council.tick(leader);
        council.settle_without(|_, to, _| to == other && !knows);
        council.voters[other].retire();
        // It starts again with a disk that says that both are needed.
        let mut disk = before;
        disk.apply(&DiskWrite::Append(council.disks[leader].entries.iter().cloned().collect()));
        council.restart(leader, disk);
        assert!(
            council.voters[leader].voters().voters.len() == 2 || council.voters[leader].voters().is_joint()
        );
        within_steps("it leads again", || {
            (0..2).for_each(|at| council.tick(at));
            council.settle();
            council.voters[leader].leads().is_some()
        });
        council.settle();
        assert_eq!(council.ids(leader), [leader as u64 + 1]);
    }
}

#[test]
fn a_change_that_a_leader_began_is_in_the_log_of_the_next_one() {
    let (mut council, leader, other) = three();
    let new = council.admit(leader, Some(other as u64 + 1));
    assert!(council.change(leader, &enter(Some(other as u64 + 1))));
    council.settle();
    // It goes before anyone knows whether that was agreed on.
    let rest: Vec<usize> = (0..4).filter(|at| *at != leader).collect();
    within_steps("another leader is elected", || {
        for at in &rest {
            council.tick(*at);
        }
        council.settle_without(|from, to, _| from == leader || to == leader);
        rest.iter().any(|at| council.voters[*at].can_change())
    });
    let next = rest.iter().copied().find(|at| council.voters[*at].can_change()).unwrap();
    assert!(council.voters[next].voters().is_joint() && council.voters[new].votes());
    assert!(council.change(next, &VoterChange::Leave));
    council.settle_without(|from, to, _| from == leader || to == leader);
    assert!(!council.voters[next].voters().is_joint());
}

/// All voters have the entry that changes them, and only the leader and the new voter learn that it is agreed on, before they are cut off
/// from the two others. Returns whether each part agrees on what follows it, apart from the other one.
fn parts_agree_apart() -> bool {
    let (mut council, leader, other) = three();
    let third = 3 - leader - other;
    let new = council.admit(leader, Some(other as u64 + 1));
    assert!(council.change(leader, &enter(Some(other as u64 + 1))));
    let index = council.voters[leader].raw.raft.raft_log.last_index();
    council.settle_without(|_, to, message| [other, third].contains(&to) && message.commit >= index);
    let part = |at: usize| [leader, new].contains(&at);
    council.tick(leader);
    council.settle_without(|from, to, _| part(from) != part(to));
    council.propose(leader, &view(1));
    for _ in 0..20 * PACE.election {
        (0..4).for_each(|at| council.tick(at));
        council.settle_without(|from, to, _| part(from) != part(to));
    }
    let agreed = |at: usize| {
        let log = &council.voters[at].raw.raft.raft_log;
        (log.committed > index).then(|| log.term(index + 1).unwrap())
    };
    let others = agreed(other).or(agreed(third));
    others.is_some() && agreed(leader).is_some_and(|term| Some(term) != others)
}

#[test]
fn two_parts_never_agree_apart_while_voters_change_and_do_if_the_old_ones_are_not_asked() {
    assert!(!parts_agree_apart());
    assert!(mutant::with(Mutant::OldVotersNotAsked, parts_agree_apart));
}

#[test]
fn a_message_under_the_number_of_another_voter_or_to_another_seat_changes_nothing() {
    let (mut council, leader, other) = three();
    let mut out = Vec::new();
    council.voters[leader].confirm(Round(1), &mut out);
    let Some(MembershipOutput::Send { message, .. }) = out.first().cloned() else { panic!("a heartbeat") };
    let from = |from: u64, to: u64| {
        let ends = Some(Ends { from, to, disk: None });
        RaftMessage { ends, ..message.clone() }
    };
    let (me, third) = (other as u64 + 1, 3 - leader - other);
    let (mut out, name) = (Vec::new(), council.names[leader].clone());
    let refused = council.voters[other].on_message(&name, from(third as u64 + 1, me), &mut out);
    assert_eq!(refused, Err(Implausible::Peer("a message under the number of another voter")));
    assert_eq!(council.voters[other].on_message(&name, from(leader as u64 + 1, 9), &mut out), Ok(()));
    assert_eq!(out, []);
}

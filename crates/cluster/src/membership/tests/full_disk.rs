//! A disk has no room for a while, and accepts no writes.

use super::*;
use crate::membership::writing::MAX_WAITING;

impl Council {
    /// Delivers everything, and writes everything except at the voter whose disk is full.
    fn settle_with_full_disk(&mut self, full: usize) {
        let others = self.others(full);
        within_steps("nothing is left to write or deliver", || {
            !others.iter().any(|&at| self.write_one(at)) && !self.deliver()
        });
    }

    /// Returns all voters except one.
    fn others(&self, one: usize) -> Vec<usize> {
        (0..self.voters.len()).filter(|&at| at != one).collect()
    }
}

#[test]
fn a_leader_that_cannot_write_makes_room_for_one_that_can() {
    let mut council = Council::of(3);
    let full = council.elect();
    council.propose(full, &view(1));
    let leader = (0..10 * PACE.election).find_map(|_| {
        (0..3).for_each(|at| council.tick(at));
        council.settle_with_full_disk(full);
        council.others(full).into_iter().find(|&at| council.voters[at].leads().is_some())
    });
    let leader = leader.expect("another one leads");
    assert!(council.voters[full].leads().is_none());
    council.propose(leader, &view(2));
    council.settle_with_full_disk(full);
    assert_eq!(
        *council.voters[leader].view(),
        view(2),
        "the old leader's last view counts, because a majority has it"
    );
    // Once there is room, it gets all that the others have agreed on.
    council.settle();
    council.tick(leader);
    council.settle();
    assert_eq!(*council.voters[full].view(), view(2));
}

#[test]
fn a_voter_that_is_alone_leads_however_long_its_disk_takes() {
    let mut council = Council::of(1);
    council.elect();
    council.propose(0, &view(1));
    (0..10 * PACE.election).for_each(|_| council.tick(0));
    assert!(council.voters[0].leads().is_some());
    council.settle();
    assert_eq!(*council.voters[0].view(), view(1));
}

#[test]
fn writes_that_wait_for_a_full_disk_are_bounded() {
    let mut council = Council::of(3);
    let leader = council.elect();
    let full = (leader + 1) % 3;
    council.propose(leader, &view(1));
    for _ in 0..10 * MAX_WAITING {
        (0..3).for_each(|at| council.tick(at));
        council.settle_with_full_disk(full);
    }
    assert!(council.voters[leader].leads().is_some(), "two of three are enough");
    let waiting = &council.voters[full].writing.batches;
    let messages: usize = waiting.iter().map(|batch| batch.then_send.len()).sum();
    assert!(
        waiting.len() < 4 && messages <= 2 * MAX_WAITING,
        "{} batches, {messages} messages",
        waiting.len()
    );
    council.settle();
    assert_eq!(*council.voters[full].view(), view(1));
}

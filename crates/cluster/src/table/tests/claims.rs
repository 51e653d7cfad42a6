//! Claims: a lock that a client held through a site that is gone, or that only seemed to be.

use super::*;
use crate::claim::{ClaimKey, Proof, ProvedHold, Reserved};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member};

/// The member at a place, whatever view it is in.
pub(super) fn member(place: usize) -> Member {
    Member { site: format!("s{place}").parse().unwrap(), incarnation: Incarnation::new(1) }
}

impl Tables {
    /// The tables of these members, which know each other.
    pub(super) fn of_members(members: usize, clause: Clause) -> Self {
        let mut tables = Tables::of(members, clause);
        tables.install((0..members).map(member).collect());
        tables
    }

    fn install(&mut self, members: Vec<Member>) {
        self.sites.iter_mut().for_each(|table| table.install(&members));
    }

    /// The hold of the first holder at this site.
    pub(super) fn hold_of(&self, at: usize) -> ProvedHold {
        let holder = self.sites[at].report(&lock(), self.now).holders[0].clone();
        let (permits, slot, fence) = (self.permits, holder.slot, holder.fence);
        ProvedHold { holder: member(at), lock: lock(), permits, slot, fence, mode: holder.mode }
    }

    /// Lets a client of a site, which has a session with the same number, claim this hold.
    pub(super) fn claim(&mut self, at: usize, request: u64, hold: ProvedHold, reserved: Option<u64>) {
        self.claim_in(at, request, request, hold, reserved);
    }

    /// Lets the mirror of a site claim this hold.
    fn mirror(&mut self, at: usize, request: u64, hold: ProvedHold) {
        let proof = Proof::new(&ClaimKey::new([0; 32]), b"", hold);
        let (session, request, reserved) = (Session(request), Request(request), Reserved::Standing);
        let claim = LockClaim { session, request, proof, reserved };
        self.act(at, |table, lease_clock, out| table.claim(&claim, None, lease_clock, out));
    }

    fn claim_in(&mut self, at: usize, session: u64, request: u64, hold: ProvedHold, reserved: Option<u64>) {
        // The node has checked the proof.
        let proof = Proof::new(&ClaimKey::new([0; 32]), b"", hold);
        let (session, request) = (Session(session), Request(request));
        let claim = LockClaim { session, request, proof, reserved: Reserved::Forever };
        let reserved = reserved.map(Span::from_millis);
        self.act(at, |table, lease_clock, out| table.claim(&claim, reserved, lease_clock, out));
    }

    /// Changes to a view without the first site, whose machine has died. All others move up by one place.
    pub(super) fn lose_first(&mut self, epoch: u32, clause: Clause) {
        self.sites.remove(0);
        let gone = self.sites[0].claims.installed_sites();
        self.install(gone.into_iter().skip(1).collect());
        self.change_view(epoch, clause);
    }

    fn refused(&mut self) -> Vec<ClaimRefusal> {
        let refusal = |(_, event): (usize, ClaimEvent)| {
            if let ClaimEvent::Refused { why, .. } = event { Some(why) } else { None }
        };
        std::mem::take(&mut self.claims).into_iter().filter_map(refusal).collect()
    }

    fn lost(&self, request: u64) -> Option<(Time, LossReason)> {
        self.told.iter().find_map(|(_, tell)| {
            let LockEvent::Lost { request: of, act_by, why } = tell else { return None };
            (of.0 == request).then_some((*act_by, *why))
        })
    }
}

fn naimi() -> Clause {
    Clause::exclusive("naimi-trehel")
}

#[test]
fn a_claimed_lock_is_held_with_the_same_fence_when_its_site_is_gone() {
    let mut tables = Tables::of_members(3, naimi());
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(2, 2, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.claim(1, 9, hold.clone(), None);
    let (request, fence, slot) = (Request(9), hold.fence, hold.slot);
    let (lease_end, margin) = (at(1000), Span::from_millis(200));
    let pending = ClaimEvent::Pending { request, fence, slot, lease_end, until: None, margin };
    assert_eq!(tables.claims, [(1, pending)]);
    assert_eq!(tables.sites[1].counts().holders, 0, "the first site's machine stands for it");
    tables.lose_first(2, naimi());
    let settled = ClaimEvent::Settled { request, fence, slot, lease_end, margin };
    assert_eq!(tables.claims.last(), Some(&(0, settled)));
    assert_eq!((tables.granted(), tables.sites[0].counts().holders), (vec![(0, 1)], 1));
    tables.release(0, 9);
    assert_eq!(tables.granted(), [(1, 2)]);
    assert!(tables.fence(1) > hold.fence.value());
}

#[test]
fn a_standing_claim_is_made_while_its_site_lives_and_is_held_when_that_is_gone() {
    let mut tables = Tables::of_members(3, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.mirror(1, 9, hold.clone());
    tables.acquire(2, 2, Wait::Forever);
    // Views come and go, and time passes: it has no end of its own.
    tables.change_view(2, naimi());
    tables.time(900);
    assert_eq!(tables.lost(9), None);
    tables.lose_first(3, naimi());
    assert_eq!(tables.sites[0].counts().holders, 1);
    assert_eq!(tables.hold_of(0).fence, hold.fence);
    assert_eq!(tables.granted(), [(0, 1)], "whoever waits goes on waiting");
}

#[test]
fn a_standing_claim_of_a_lock_that_was_handed_over_is_given_up() {
    let mut tables = Tables::of_members(3, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.mirror(1, 9, hold);
    // The site dies before its mirror has heard of the release.
    tables.acquire(2, 2, Wait::Forever);
    tables.release(0, 1);
    tables.lose_first(2, naimi());
    assert_eq!(tables.lost(9).map(|(_, why)| why), Some(LossReason::Conflict));
    assert_eq!((tables.granted(), tables.lost(2)), (vec![(0, 1), (2, 2)], None));
}

#[test]
fn a_holder_that_is_mirrored_is_listed_and_cut_off_once() {
    let mut tables = Tables::of_members(2, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.time(10);
    tables.mirror(1, 9, hold);
    let (in_use, all) = tables.sites[1].in_use(tables.now);
    assert!(in_use.is_empty() && all == 0, "the other site lists it: {in_use:?}");
    let mut cut_off = Vec::new();
    tables.act(1, |table, lease_clock, out| cut_off = table.take_away(&lock(), lease_clock, out));
    assert_eq!(cut_off, [], "its own site cuts it off");
    assert_eq!(tables.lost(9).map(|(_, why)| why), Some(LossReason::Broken));
}

#[test]
fn a_claim_is_no_holder_as_long_as_its_site_is_a_member() {
    let mut tables = Tables::of_members(3, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.claim(1, 9, hold.clone(), None);
    tables.change_view(2, naimi());
    assert_eq!((tables.sites[0].counts().holders, tables.sites[1].counts().holders), (1, 0));
    // Two holders in one view would keep everyone out.
    tables.release(0, 1);
    tables.acquire(2, 2, Wait::Forever);
    assert_eq!(tables.granted(), [(0, 1), (2, 2)]);
}

#[test]
fn a_claim_of_a_lock_that_others_have_is_given_up_and_they_keep_it() {
    let mut tables = Tables::of_members(3, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    // Its client has released it, and claims it all the same.
    tables.release(0, 1);
    tables.acquire(2, 2, Wait::Forever);
    tables.claim(1, 9, hold, None);
    tables.lose_first(2, naimi());
    assert_eq!(tables.lost(9).map(|(_, why)| why), Some(LossReason::Conflict));
    assert_eq!(tables.lost(2), None);
    assert!(!tables.claims.iter().any(|(_, event)| matches!(event, ClaimEvent::Settled { .. })));
    tables.release(0, 9);
    assert!(tables.sites.iter().all(LockTable::has_drained), "a new view lets the lock run again");
    assert_eq!(tables.sites[1].counts().holders, 1);
}

#[test]
fn whoever_claims_at_two_sites_loses_both_unless_it_gives_one_up() {
    for gives_up in [false, true] {
        let mut tables = Tables::of_members(3, naimi());
        tables.acquire(0, 1, Wait::Forever);
        let hold = tables.hold_of(0);
        tables.claim(1, 8, hold.clone(), None);
        tables.claim(2, 9, hold, None);
        if gives_up {
            tables.release(1, 8);
            assert_eq!(tables.told.last(), Some(&(1, LockEvent::Released { request: Request(8) })));
        }
        tables.lose_first(2, naimi());
        let lost = [8, 9].map(|request| tables.lost(request).is_some());
        assert_eq!(lost, [!gives_up, !gives_up]);
    }
}

#[test]
fn a_later_claim_through_another_connection_replaces_the_earlier_one() {
    let mut tables = Tables::of_members(2, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.claim(1, 8, hold.clone(), None);
    tables.claim(1, 9, hold.clone(), None);
    assert_eq!(tables.lost(8), Some((tables.now, LossReason::TakenOver)));
    tables.claim(1, 9, hold, None);
    assert_eq!(tables.refused(), [ClaimRefusal::DuplicateRequest]);
    tables.lose_first(2, naimi());
    assert_eq!(tables.sites[0].counts().holders, 1);
}

#[test]
fn a_claim_is_lost_before_the_former_site_gives_the_lock_to_others() {
    let mut tables = Tables::of_members(3, naimi());
    tables.lease_end = Some(at(9000));
    tables.acquire(0, 1, Wait::Forever);
    tables.claim(1, 9, tables.hold_of(0), Some(500));
    tables.time(300);
    assert_eq!(tables.lost(9), None);
    tables.time(301);
    assert_eq!(tables.lost(9), Some((at(501), LossReason::ReservationOver)));
    assert!(tables.sites[1].holds_anything(), "it does not leave while its client may count on it");
    // A view that comes too late brings nothing back, nor does another connection.
    tables.claim(1, 10, tables.hold_of(0), None);
    assert_eq!(tables.refused(), [ClaimRefusal::NothingToClaim]);
    tables.acquire(2, 2, Wait::Forever);
    tables.lose_first(2, naimi());
    tables.time(500);
    assert_eq!(tables.granted(), [(0, 1)], "nobody enters before it must have stopped");
    tables.time(501);
    assert_eq!(tables.granted(), [(1, 2)]);
    assert!(!tables.sites[0].holds_anything());
}

#[test]
fn a_claim_is_lost_with_the_lease_of_its_site() {
    let mut tables = Tables::of_members(2, naimi());
    tables.acquire(0, 1, Wait::Forever);
    tables.claim(1, 9, tables.hold_of(0), None);
    tables.act(1, |table, lease_clock, out| table.on_extended(at(2000), lease_clock, out));
    assert!(tables.told.contains(&(1, LockEvent::Extended { lease_end: at(2000) })));
    tables.time(1800);
    tables.act(1, |table, clock, out| table.on_notice(at(2000), clock.now, out));
    assert_eq!(tables.lost(9), Some((at(2000), LossReason::LeaseEnd)));
    tables.lose_first(2, naimi());
    assert!(tables.sites[0].holds_anything(), "until its client has stopped");
    tables.time(2000);
    assert!(!tables.sites[0].holds_anything());
}

#[test]
fn a_claim_ends_with_its_session_and_an_operator_can_take_it_away() {
    let mut tables = Tables::of_members(2, naimi());
    tables.acquire(0, 1, Wait::Forever);
    for cut in [false, true] {
        tables.claim(1, 8, tables.hold_of(0), None);
        tables.act(1, |table, clock, out| {
            if cut {
                table.on_session_cut(Session(8), clock.now, Span::ZERO, clock, out);
            } else {
                table.on_session_ended(Session(8), clock, out);
            }
        });
        assert!(!tables.sites[1].holds_anything());
    }
    tables.claim(1, 9, tables.hold_of(0), None);
    let report = tables.sites[1].report(&lock(), tables.now);
    assert_eq!((report.holders.len(), report.holders_in_all), (1, 1), "people see the claim");
    let (in_use, all) = tables.sites[1].in_use(tables.now);
    assert_eq!((in_use.len(), all, in_use[0].holders, in_use[0].lock.clone()), (1, 1, 1, lock()));
    tables.act(1, |table, clock, out| {
        assert_eq!(table.take_away(&lock(), clock, out).len(), 1);
    });
    assert_eq!(tables.lost(9).map(|(_, why)| why), Some(LossReason::Broken));
}

/// The client of a claim is told that it is lost, or `cut` off and relies on it for so many milliseconds. Then its former site is
/// gone. Returns whether another client enters before this time.
fn enters_before(reserved: Option<u64>, cut: Option<u64>, over: u64) -> bool {
    let mut tables = Tables::of_members(3, naimi());
    tables.acquire(0, 1, Wait::Forever);
    tables.claim(1, 9, tables.hold_of(0), reserved);
    tables.acquire(2, 2, Wait::Forever);
    tables.act(1, |table, clock, out| match cut {
        Some(relies_for) => {
            table.on_session_cut(Session(9), clock.now, Span::from_millis(relies_for), clock, out);
        }
        None => drop(table.take_away(&lock(), clock, out)),
    });
    tables.lose_first(2, naimi());
    tables.time(over - 1);
    let early = tables.granted().contains(&(1, 2));
    tables.time(over);
    assert!(early || tables.granted() == [(1, 2)], "it enters then: {reserved:?} {cut:?}");
    early
}

#[test]
fn a_claim_that_was_taken_away_or_cut_off_counts_until_its_client_has_certainly_stopped() {
    // Until the lease ends, as the client was told; or until the former site may give the lock to others; or as long as it relies on it.
    for (reserved, cut, over) in [(None, None, 1000), (Some(600), None, 601), (None, Some(300), 301)] {
        assert!(!enters_before(reserved, cut, over), "{reserved:?} {cut:?}");
        let mistake = if cut.is_some() { Mutant::CutClaimDropped } else { Mutant::ClaimLossHeard };
        for mistake in [mistake, Mutant::EndedClaimNotCounted] {
            assert!(mutant::with(mistake, || enters_before(reserved, cut, over)), "{mistake:?}");
        }
    }
}

#[test]
fn a_client_that_was_cut_off_can_claim_again_at_the_same_site_and_one_that_was_told_of_its_loss_cannot() {
    for is_lost in [false, true] {
        let mut tables = Tables::of_members(2, naimi());
        tables.acquire(0, 1, Wait::Forever);
        tables.claim(1, 8, tables.hold_of(0), None);
        tables.act(1, |table, clock, out| {
            if is_lost {
                drop(table.take_away(&lock(), clock, out));
            }
            table.on_session_cut(Session(8), clock.now, Span::from_millis(300), clock, out);
        });
        tables.claim(1, 9, tables.hold_of(0), None);
        let refused = if is_lost { vec![ClaimRefusal::NothingToClaim] } else { vec![] };
        assert_eq!(tables.refused(), refused);
    }
}

#[test]
fn a_claim_that_has_become_a_hold_is_not_given_to_others_before_its_client_has_certainly_heard_that() {
    let enters_at = || {
        let mut tables = Tables::of_members(3, naimi());
        tables.lease_end = Some(at(9000));
        tables.acquire(0, 1, Wait::Forever);
        tables.claim(1, 9, tables.hold_of(0), None);
        tables.acquire(2, 2, Wait::Forever);
        tables.lose_first(2, naimi());
        tables.act(0, |table, clock, out| drop(table.take_away(&lock(), clock, out)));
        (1..3000).find(|time| {
            tables.time(*time);
            tables.granted().contains(&(1, 2))
        })
    };
    // It may neither have heard that its claim is settled nor that it is lost: the resume window counts, and not the margin.
    assert_eq!(enters_at(), Some(2001));
    assert_eq!(mutant::with(Mutant::SettledUnheard, enters_at), Some(201));
}

#[test]
fn claims_are_refused_with_the_reason_and_change_nothing() {
    let mut tables = Tables::of_members(2, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    let stranger = ProvedHold { holder: member(7), ..hold.clone() };
    tables.claim(1, 9, stranger, None);
    assert_eq!(tables.refused(), [ClaimRefusal::NotMember]);
    tables.claim(1, 9, hold.clone(), Some(200));
    assert_eq!(tables.refused(), [ClaimRefusal::ReservationOver], "no longer than the margin");
    tables.lease_end = None;
    tables.claim(1, 9, hold.clone(), None);
    assert_eq!(tables.refused(), [ClaimRefusal::NoLease]);
    tables.lease_end = Some(at(1000));
    tables.act(1, LockTable::freeze);
    tables.claim(1, 9, hold, None);
    assert_eq!((tables.refused(), tables.frozen.clone()), (vec![ClaimRefusal::Leaving], vec![1]));
    assert!(!tables.sites[1].holds_anything());
    assert_eq!(tables.sites[1].tally().claims(ClaimOutcome::Refused), 4);
}

#[test]
fn claims_are_bounded_for_each_session_and_in_all() {
    let mut tables = Tables::of_members(2, naimi());
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    let of = |number: u64| ProvedHold { lock: format!("lock {number}").parse().unwrap(), ..hold.clone() };
    for number in 0..12 {
        tables.claim_in(1, 50 + number / 5, 100 + number, of(number), None);
    }
    // The fifth of the first two sessions, and more than eight.
    let refused = tables.refused();
    assert_eq!(refused, vec![ClaimRefusal::TooMany; 4]);
    assert_eq!(tables.sites[1].tally().claims(ClaimOutcome::Pending), 8);
    // A claim that replaces another one takes no room.
    tables.claim_in(1, 60, 200, of(0), None);
    assert_eq!(tables.refused(), []);
}

#[test]
fn a_site_that_has_its_share_of_a_semaphore_sends_claims_elsewhere() {
    let clause = Clause { algorithm: "raymond-k".to_owned(), permits: 2, per_site: 1 };
    let mut tables = Tables::of_members(3, clause.clone());
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    tables.claim(1, 9, tables.hold_of(0), None);
    assert_eq!(tables.refused(), [ClaimRefusal::ShareTaken]);
    tables.claim(2, 9, tables.hold_of(0), None);
    tables.lose_first(2, clause);
    assert_eq!((tables.lost(9), tables.lost(2)), (None, None));
    assert!(tables.claims.iter().any(|(at, event)| *at == 1 && matches!(event, ClaimEvent::Settled { .. })));
}

#[test]
fn a_claimed_permit_whose_number_another_holder_has_is_given_up() {
    let mut tables = Tables::of_members(3, Clause::shared("srimani-reddy", 3));
    tables.acquire(0, 1, Wait::Forever);
    let hold = tables.hold_of(0);
    tables.release(0, 1);
    tables.acquire(2, 2, Wait::Forever);
    let slot = tables.hold_of(2).slot;
    tables.claim(1, 9, ProvedHold { slot, ..hold }, None);
    tables.lose_first(2, Clause::shared("srimani-reddy", 3));
    assert_eq!(tables.lost(9).map(|(_, why)| why), Some(LossReason::Conflict));
    tables.release(0, 9);
    for request in 20..23 {
        tables.acquire(0, request, Wait::Forever);
    }
    tables.time(50);
    assert_eq!(tables.sites[0].counts().holders, 2, "two permits are free beside the one that is held");
}

#[test]
fn a_claim_is_kept_if_only_the_rules_keep_others_out() {
    let mut tables = Tables::of_members(3, Clause::shared("raymond-k", 3));
    tables.acquire(0, 1, Wait::Forever);
    tables.claim(1, 9, tables.hold_of(0), None);
    // In the next view the rules give one permit: nobody enters beside a client that counts on three.
    tables.lose_first(2, naimi());
    assert_eq!(tables.lost(9), None);
    assert_eq!(tables.sites[0].counts().holders, 1);
    tables.release(0, 9);
    assert!(tables.sites.iter().all(LockTable::has_drained));
}

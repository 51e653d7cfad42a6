//! The inequality at its boundary, and the effect of late grants.

mod inequalities;

use super::*;
use crate::names::{Incarnation, Member};

const TERMS: Terms = Terms {
    length: Span::from_micros(1_000_000),
    drift: Drift::from_ppm(50_000),
    margin: Span::from_micros(100_000),
    renew_every: Span::from_micros(200_000),
};

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn member() -> Member {
    Member { site: "a".parse().unwrap(), incarnation: Incarnation::new(1) }
}

fn leader() -> SiteName {
    "l".parse().unwrap()
}

/// What the slowest clock shows when the leader's clock, the fastest allowed, shows `micros`.
fn slowest(micros: u64) -> Time {
    at(micros * 1_000_000 / (1_000_000 + u64::from(TERMS.drift.ppm())))
}

/// A renewal that is sent, confirmed and granted in the same instant, on the two clocks that drift apart the most.
/// Returns the member's lease and the leader's record, which says when it may exclude the member.
fn tightest() -> (MemberLease, LeaseGrants) {
    let mut lease = MemberLease::new(TERMS, Time::ZERO);
    let renewal = lease.renew(leader(), Time::ZERO);
    let mut grants = LeaseGrants::new(TERMS, &[member()], Time::ZERO, None);
    assert!(grants.grant(&member(), Time::ZERO));
    assert!(lease.on_granted(renewal, &leader(), TERMS.length, Time::ZERO));
    (lease, grants)
}

#[test]
fn exclusion_is_possible_at_the_very_tick_at_which_the_slowest_clock_has_ended_the_lease() {
    let (lease, grants) = tightest();
    let over = grants.over_at(&member());
    assert_eq!(over, at(1_050_000));
    assert!(grants.is_over(&member(), over));
    assert!(!lease.is_valid(slowest(over.micros())));
}

#[test]
fn one_tick_earlier_the_lease_may_still_hold() {
    let (lease, grants) = tightest();
    let early = grants.over_at(&member()).before(Span::TICK);
    assert!(!grants.is_over(&member(), early));
    assert!(lease.is_valid(slowest(early.micros())));
    // So a leader that excludes one tick early excludes a member that still holds.
    let (lease, hasty) = tightest();
    let excludes = mutant::with(Mutant::ExclusionOneTickEarly, || hasty.is_over(&member(), early));
    assert!(excludes && lease.is_valid(slowest(early.micros())));
}

#[test]
fn a_lease_is_counted_from_the_sending_not_from_the_grant() {
    let mut lease = MemberLease::new(TERMS, at(5));
    let renewal = lease.renew(leader(), at(5));
    assert!(lease.on_granted(renewal, &leader(), TERMS.length, at(400_000)));
    assert_eq!(lease.end(), Some(at(1_000_005)));
    assert!(lease.is_valid(at(1_000_004)) && !lease.is_valid(at(1_000_005)));
    // Counted from the grant, the lease would last longer than the leader waits.
    let mut wrong = MemberLease::new(TERMS, at(5));
    let renewal = wrong.renew(leader(), at(5));
    let granted = mutant::with(Mutant::LeaseFromReceipt, || {
        wrong.on_granted(renewal, &leader(), TERMS.length, at(400_000))
    });
    assert!(granted);
    assert!(wrong.is_valid(at(1_300_000)));
}

#[test]
fn a_grant_that_arrives_after_its_own_end_gives_nothing() {
    let mut lease = MemberLease::new(TERMS, at(0));
    let renewal = lease.renew(leader(), at(0));
    assert!(!lease.on_granted(renewal, &leader(), TERMS.length, at(1_000_000)));
    assert!(!lease.is_valid(at(1_000_000)));
}

#[test]
fn a_grant_counts_once_and_never_shortens() {
    let mut lease = MemberLease::new(TERMS, at(0));
    let (first, second) = (lease.renew(leader(), at(0)), lease.renew(leader(), at(200_000)));
    assert!(lease.on_granted(second, &leader(), TERMS.length, at(210_000)));
    assert!(!lease.on_granted(first, &leader(), TERMS.length, at(220_000)), "older than the one granted");
    assert!(!lease.on_granted(second, &leader(), TERMS.length, at(230_000)), "a second time");
    assert_eq!(lease.end(), Some(at(1_200_000)));
}

#[test]
fn only_the_site_that_was_asked_can_grant() {
    let mut lease = MemberLease::new(TERMS, at(0));
    let renewal = lease.renew(leader(), at(0));
    assert!(!lease.on_granted(renewal, &"x".parse().unwrap(), TERMS.length, at(10)));
    assert!(!lease.is_valid(at(10)));
    assert!(lease.on_granted(renewal, &leader(), TERMS.length, at(20)), "a stranger's grant changes nothing");
}

#[test]
fn a_lease_is_no_longer_than_the_leader_says_and_no_longer_than_its_own_terms() {
    for (said, end) in [(300_000, 300_000), (5_000_000, 1_000_000)] {
        let mut lease = MemberLease::new(TERMS, at(0));
        let renewal = lease.renew(leader(), at(0));
        assert!(lease.on_granted(renewal, &leader(), Span::from_micros(said), at(10)));
        assert_eq!(lease.end(), Some(at(end)), "the leader says {said}");
    }
}

#[test]
fn clients_are_told_a_margin_before_the_end() {
    let (lease, _) = tightest();
    assert_eq!(lease.notice_at(), Some(at(900_000)));
    assert!(lease.is_comfortable(at(899_999)) && !lease.is_comfortable(at(900_000)));
    assert!(lease.is_valid(at(900_000)));
}

#[test]
fn an_incarnation_that_is_over_takes_no_grant_any_more() {
    let mut lease = MemberLease::new(TERMS, at(0));
    let renewal = lease.renew(leader(), at(0));
    lease.give_up(at(10));
    assert!(!lease.on_granted(renewal, &leader(), TERMS.length, at(20)));
    assert!(!lease.is_valid(at(20)));
}

#[test]
fn a_new_leader_waits_for_leases_that_the_last_one_may_have_granted() {
    let grants = LeaseGrants::new(TERMS, &[member()], at(7), None);
    assert_eq!(grants.over_at(&member()), at(1_050_007));
}

#[test]
fn a_new_leader_that_knows_of_the_last_renewal_waits_from_then_on_but_long_enough_to_hear_from_everyone() {
    let over = |age: u64, elected: Time| {
        let mut voter = ListedRenewals::new(at(0));
        voter.on_round(Some(vec![member()]), TERMS.length, at(0));
        let mut inherited = Inherited::default();
        inherited.add(voter.ages(at(age)), elected);
        LeaseGrants::new(TERMS, &[member()], elected, Some(inherited)).over_at(&member())
    };
    // The voter's clock is the fastest, so that what it calls 210 ms took 200 ms by the leader's.
    assert_eq!(over(210_000, at(5_200_000)), at(5_000_000 + 1_050_000));
    assert_eq!(over(0, at(5_200_000)), at(5_200_000 + 1_050_000));
    assert_eq!(over(1_000_000, at(7_000_000)), at(7_000_000) + TERMS.first_contact());
    // At the edge: the renewal was sent when the voter was told of it, and the member's clock is the slowest.
    let mut lease = MemberLease::new(TERMS, at(0));
    let renewal = lease.renew(leader(), at(0));
    assert!(lease.on_granted(renewal, &leader(), TERMS.length, at(10)));
    let passed = over(210_000, at(5_200_000)).since(at(5_000_000)).micros();
    assert!(!lease.is_valid(slowest(passed)) && lease.is_valid(slowest(passed - 1)));
}

#[test]
fn a_member_that_gives_up_its_lease_gets_no_grant_for_earlier_requests() {
    let mut grants = LeaseGrants::new(TERMS, &[member()], at(7), None);
    assert!(grants.grant(&member(), at(8)));
    grants.on_gave_up(&member());
    assert!(grants.is_over(&member(), at(9)));
    assert!(!grants.grant(&member(), at(9)));
}

#[test]
fn whoever_is_let_in_has_two_renewals_time_to_ask_for_its_first_lease() {
    let mut grants = LeaseGrants::new(TERMS, &[], at(7), None);
    grants.on_agreed(&[member()], TERMS, true, at(5_000_000));
    let soon = |from: u64| at(from) + TERMS.first_contact();
    assert_eq!(grants.over_at(&member()), soon(5_000_000));
    // A view that keeps the member does not change that.
    grants.on_agreed(&[member()], TERMS, true, at(5_500_000));
    assert_eq!(grants.over_at(&member()), soon(5_000_000));
    // Whoever asks is there, though nothing can be granted yet.
    grants.on_asked(&member(), at(5_300_000));
    assert_eq!(grants.over_at(&member()), soon(5_300_000));
    assert!(grants.grant(&member(), at(5_400_000)));
    grants.on_asked(&member(), at(5_900_000));
    assert_eq!(grants.over_at(&member()), at(6_450_000), "from now on it has a lease");
}

#[test]
fn an_earlier_leader_may_have_granted_a_lease_to_whoever_is_let_in() {
    // It has let the same member in with the same view, which its successor learns after it has proposed its own.
    let elected = 5_000_000;
    let mut grants = LeaseGrants::new(TERMS, &[], at(elected), None);
    grants.on_agreed(&[member()], TERMS, true, at(elected + 10));
    assert_eq!(grants.over_at(&member()), at(elected + 1_050_000));
}

#[test]
fn terms_without_room_for_a_lost_renewal_are_refused() {
    assert!(TERMS.check().is_ok());
    let hurried = Terms { length: Span::from_micros(500_000), ..TERMS };
    assert!(hurried.check().is_err());
    assert!(Terms { renew_every: Span::ZERO, ..TERMS }.check().is_err());
}

#[test]
fn a_leader_that_is_configured_with_shorter_leases_waits_for_as_long_as_was_agreed_on() {
    let short = Terms { length: TERMS.length.part(2), ..TERMS };
    let (lease, _) = tightest();
    // The leader was elected in the instant of the grant, before it has applied the first view.
    let after_first_view = || {
        let mut grants = LeaseGrants::new(short, &[], Time::ZERO, None);
        grants.on_agreed(&[member()], TERMS, true, Time::ZERO);
        grants.over_at(&member())
    };
    let over = after_first_view();
    assert_eq!(over, at(1_050_000));
    assert!(!lease.is_valid(slowest(over.micros())) && lease.is_valid(slowest(over.micros() - 1)));
    let hasty = mutant::with(Mutant::OwnTerms, after_first_view);
    assert!(
        lease.is_valid(slowest(hasty.micros())),
        "by its own terms it would exclude a member that still holds locks"
    );
}

#[test]
fn a_member_with_longer_configured_leases_uses_the_agreed_terms() {
    let long = Terms { length: TERMS.length.times(2), margin: TERMS.margin.times(3), ..TERMS };
    let mut lease = MemberLease::new(long, Time::ZERO);
    lease.agree(TERMS);
    let renewal = lease.renew(leader(), at(5));
    assert!(lease.on_granted(renewal, &leader(), long.length, at(5)));
    assert_eq!((lease.end(), lease.notice_at()), (Some(at(1_000_005)), Some(at(900_005))));
}

#[test]
fn a_renewal_that_is_not_granted_is_repeated_soon_and_one_that_is_granted_is_not() {
    let mut lease = MemberLease::new(TERMS, at(0));
    let first = lease.renew(leader(), at(0));
    assert_eq!(lease.next_renewal(), at(50_000));
    let second = lease.renew(leader(), at(50_000));
    assert!(lease.on_granted(first, &leader(), TERMS.length, at(60_000)));
    assert_eq!(lease.next_renewal(), at(200_000));
    // An answer that comes when the next renewal is due already does not put it off.
    let third = lease.renew(leader(), at(200_000));
    assert!(lease.on_granted(second, &leader(), TERMS.length, at(255_000)));
    assert_eq!(lease.next_renewal(), at(250_000));
    assert!(lease.on_granted(third, &leader(), TERMS.length, at(260_000)));
    assert_eq!(lease.next_renewal(), at(400_000));
}

#[test]
fn whoever_was_renewed_before_the_longest_pause_still_has_its_locks_after_it() {
    let mut lease = MemberLease::new(TERMS, at(0));
    let renewal = lease.renew(leader(), at(0));
    assert!(lease.on_granted(renewal, &leader(), TERMS.length, at(10)));
    // It stops when its next renewal is due, at the latest.
    let wakes = lease.next_renewal() + TERMS.longest_pause();
    assert!(lease.is_comfortable(wakes.before(Span::TICK)) && !lease.is_comfortable(wakes));
}

#[test]
fn the_tightest_of_the_last_renewals_is_remembered_and_an_old_one_is_forgotten() {
    let mut lease = MemberLease::new(TERMS, Time::ZERO);
    let mut renew = |sent: u64, granted: u64| {
        let renewal = lease.renew(leader(), at(sent));
        assert!(lease.on_granted(renewal, &leader(), TERMS.length, at(granted)));
        lease.tightest_renewal()
    };
    assert_eq!(renew(0, 10), None, "there was no lease before");
    // The lease of the first renewal ends at 1 000 000.
    assert_eq!(renew(950_000, 960_000), Some(Span::from_micros(40_000)));
    assert_eq!(renew(2_000_000, 2_100_000), Some(Span::ZERO), "it had ended before");
    for number in 0..REMEMBERED as u64 {
        renew(2_200_000 + number * 200_000, 2_200_000 + number * 200_000);
    }
    assert_eq!(
        renew(6_000_000, 6_000_000),
        Some(Span::from_micros(200_000)),
        "the last one ends at 6 200 000"
    );
}

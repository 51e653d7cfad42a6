//! What a site owes a client that has a proof of its lock: when the connection is cut, when the lock is lost, when the site leaves.

use super::*;
use crate::mutant::{self, Mutant};

fn naimi() -> Clause {
    Clause::exclusive("naimi-trehel")
}

/// A client of the first site holds the lock, with a proof if it `proves` it, and one of the second site waits for it.
fn held(proves: bool) -> Tables {
    let mut tables = Tables::of_members(3, naimi());
    tables.lease_end = Some(at(9000));
    tables.acquire(0, 1, Wait::Forever);
    tables.acquire(1, 2, Wait::Forever);
    if proves {
        assert!(tables.sites[0].prove(Request(1)).is_some());
    }
    assert_eq!(tables.granted(), [(0, 1)]);
    tables
}

fn cut(tables: &mut Tables, last_contact: u64, relies_for: u64) {
    let relies_for = Span::from_millis(relies_for);
    tables.act(0, |table, clock, out| {
        table.on_session_cut(Session(1), at(last_contact), relies_for, clock, out);
    });
    tables.settle();
}

#[test]
fn what_a_client_that_was_cut_off_can_prove_is_kept_for_the_resume_window_and_the_rest_is_not() {
    let mut tables = held(false);
    cut(&mut tables, 1, 100);
    tables.time(100);
    assert_eq!(tables.granted(), []);
    tables.time(101);
    assert_eq!(tables.granted(), [(1, 2)], "as long as the client may rely on it");
    let mut tables = held(true);
    tables.time(300);
    cut(&mut tables, 200, 100);
    tables.time(2199);
    assert_eq!(tables.granted(), [], "two seconds after the last contact");
    tables.time(2200);
    assert_eq!(tables.granted(), [(1, 2)]);
}

#[test]
fn a_client_that_comes_back_in_time_goes_on_with_what_it_holds() {
    let mut tables = held(true);
    let hold = tables.hold_of(0);
    cut(&mut tables, 1, 100);
    tables.time(1500);
    tables.act(0, |table, clock, out| table.resume(Session(7), Request(7), &hold, clock, out));
    let (request, fence, slot) = (Request(7), hold.fence, hold.slot);
    let (lease_end, margin) = (at(9000), Span::from_millis(200));
    assert_eq!(tables.claims, [(0, ClaimEvent::Settled { request, fence, slot, lease_end, margin })]);
    tables.time(5000);
    assert_eq!(tables.granted(), [], "the window of its former connection does not count any more");
    // The proof is good for the next time, too.
    tables.act(0, |table, clock, out| table.on_session_cut(Session(7), clock.now, Span::ZERO, clock, out));
    tables.time(6999);
    assert_eq!(tables.granted(), []);
    tables.time(7000);
    assert_eq!(tables.granted(), [(1, 2)]);
    tables.act(0, |table, clock, out| table.resume(Session(8), Request(8), &hold, clock, out));
    let refused = ClaimEvent::Refused { request: Request(8), why: ClaimRefusal::NothingToClaim };
    assert_eq!(tables.claims.last(), Some(&(0, refused)));
}

#[test]
fn only_what_the_client_was_given_a_proof_of_can_be_resumed_and_nothing_that_is_lost() {
    for (proves, loses) in [(false, false), (true, true)] {
        let mut tables = held(proves);
        let hold = tables.hold_of(0);
        if loses {
            tables.act(0, |table, clock, out| drop(table.take_away(&lock(), clock, out)));
        }
        tables.act(0, |table, clock, out| table.resume(Session(7), Request(7), &hold, clock, out));
        let refused = ClaimEvent::Refused { request: Request(7), why: ClaimRefusal::NothingToClaim };
        assert_eq!(tables.claims, [(0, refused)]);
    }
}

#[test]
fn a_lock_that_its_client_can_prove_and_has_lost_is_free_when_the_client_says_so_or_the_window_is_over() {
    for confirms in [false, true] {
        let mut tables = held(true);
        tables.time(800);
        tables.act(0, |table, clock, out| table.on_notice(at(1000), clock.now, out));
        let why = LossReason::LeaseEnd;
        assert_eq!(tables.told, [(0, LockEvent::Lost { request: Request(1), act_by: at(1000), why })]);
        if confirms {
            tables.release(0, 1);
            assert_eq!(tables.granted(), [(1, 2)]);
        } else {
            tables.time(2799);
            assert_eq!(tables.granted(), [], "it may have moved elsewhere without hearing it");
            tables.time(2800);
            assert_eq!(tables.granted(), [(1, 2)]);
        }
    }
}

#[test]
fn nothing_of_a_client_that_waits_or_claims_nothing_is_kept_when_it_is_cut_off() {
    let mut tables = held(false);
    tables.act(1, |table, clock, out| {
        table.on_session_cut(Session(2), clock.now, Span::from_millis(100), clock, out);
    });
    tables.release(0, 1);
    assert_eq!(tables.granted(), []);
    tables.time(101);
    assert_eq!(tables.sites[1].counts(), Counts { locks: 1, ..Counts::default() });
}

#[test]
fn a_site_that_leaves_lets_go_of_nothing_that_may_be_claimed_elsewhere() {
    for ends in [0, 1, 2] {
        let mut tables = held(true);
        let hold = tables.hold_of(0);
        tables.act(0, LockTable::freeze);
        tables.claim(2, 9, hold.clone(), None);
        match ends {
            0 => tables.release(0, 1),
            1 => tables.act(0, |table, clock, out| table.on_session_ended(Session(1), clock, out)),
            _ => cut(&mut tables, 1, 0),
        }
        tables.time(2);
        tables.settle();
        assert!(!tables.sites[0].holds_anything(), "it may leave");
        // Views may come in between, in which it is still a member.
        tables.change_view(2, naimi());
        assert_eq!(tables.granted(), []);
        tables.lose_first(3, naimi());
        assert_eq!(tables.granted(), []);
        assert_eq!(tables.hold_of(1).fence, hold.fence);
        tables.release(1, 9);
        assert_eq!(tables.granted(), [(0, 2)]);
    }
}

#[test]
fn a_site_that_leaves_releases_what_nobody_has_a_proof_of() {
    let mut tables = held(false);
    tables.act(0, LockTable::freeze);
    tables.release(0, 1);
    assert_eq!(tables.granted(), [(1, 2)]);
}

#[test]
fn a_site_that_leaves_does_not_wait_for_the_resume_window() {
    let mut tables = held(true);
    // Lost and cut before it is told to leave: the client must have stopped after the margin.
    tables.act(0, |table, clock, out| drop(table.take_away(&lock(), clock, out)));
    cut(&mut tables, 1, 100);
    tables.time(150);
    tables.act(0, LockTable::freeze);
    tables.time(350);
    assert!(!tables.sites[0].holds_anything());
    assert_eq!(tables.granted(), [], "and nobody gets it before the site has left");
    tables.act(0, |table, clock, out| {
        table.stop();
        table.lose_all(clock.now, out);
    });
    assert_eq!(tables.sites[0].counts().holders, 0);
}

#[test]
fn a_site_that_leaves_waits_for_a_client_that_may_not_have_heard_that_it_has_lost_its_lock() {
    // The client was told that the lease lasts until 1100. It is cut off; the site learns that before or after it leaves, or not at all.
    for (cut_at, relies_for, over) in [(Some(100), 900, 1000), (Some(300), 700, 1000), (None, 0, 1100)] {
        for breaks in [false, true] {
            let mut tables = held(true);
            tables.lease_end = Some(at(1100));
            if breaks {
                tables.act(0, |table, clock, out| drop(table.take_away(&lock(), clock, out)));
            }
            if let Some(time) = cut_at.filter(|time| *time < 200) {
                tables.time(time);
                cut(&mut tables, 1, relies_for);
            }
            tables.time(200);
            tables.act(0, LockTable::freeze);
            tables.act(0, LockTable::take_all_away);
            if let Some(time) = cut_at.filter(|time| *time > 200) {
                tables.time(time);
                cut(&mut tables, 1, relies_for);
            }
            tables.time(over - 1);
            assert!(tables.sites[0].holds_anything(), "{cut_at:?} {breaks}");
            tables.time(over);
            assert!(!tables.sites[0].holds_anything(), "{cut_at:?} {breaks}");
        }
    }
}

#[test]
fn without_that_wait_the_lock_would_be_free_while_such_a_client_counts_on_it() {
    let is_held_to_the_end = || {
        let mut tables = held(true);
        tables.lease_end = Some(at(1100));
        tables.time(200);
        tables.act(0, LockTable::freeze);
        tables.act(0, LockTable::take_all_away);
        tables.time(1099);
        tables.sites[0].holds_anything()
    };
    assert!(is_held_to_the_end());
    assert!(!mutant::with(Mutant::LeavesBeforeCutClient, is_held_to_the_end));
}

#[test]
fn a_vacated_hold_is_not_told_of_anything_and_counts_as_held_for_others() {
    let mut tables = held(true);
    tables.act(0, LockTable::freeze);
    tables.release(0, 1);
    tables.told.clear();
    tables.act(0, |table, clock, out| table.on_notice(at(9000), clock.now, out));
    tables.act(0, LockTable::take_all_away);
    assert_eq!(tables.told, []);
    assert_eq!(tables.sites[0].report(&lock(), tables.now).holders_in_all, 1);
    assert_eq!(tables.sites[0].counts().holders, 0);
}

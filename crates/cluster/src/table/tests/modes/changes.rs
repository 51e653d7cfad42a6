//! Upgrades and downgrades.

use super::*;

fn an_upgrade_waits_for_all_readers_and_has_a_new_fence() {
    each(3, |tables, _| {
        tables.ask_in(0, 1, U);
        tables.ask_in(0, 2, S);
        tables.ask_in(1, 3, S);
        tables.ask_in(2, 4, U);
        tables.ask_in(2, 5, X);
        let before = [(0, 1), (0, 2), (1, 3)].map(|(at, request)| tables.fence_of(at, request));
        tables.words();
        tables.change(0, 1, X);
        assert_eq!(tables.words(), [""; 0]);
        tables.release(1, 3);
        assert_eq!(tables.words(), ["3 left"]);
        tables.release(0, 2);
        assert_eq!(tables.words(), ["2 left", "1 is X"], "it was passed by nobody");
        let fence = tables.fence_of(0, 1);
        assert!(before.iter().all(|earlier| *earlier < fence));
        let mut order = tables.entered_after(0, 1);
        let next = if order == [4] { 4 } else { 5 };
        assert!(fence < tables.fence_of(2, next));
        order.extend(tables.entered_after(2, next));
        order.sort_unstable();
        assert_eq!(order, [4, 5]);
    });
}

#[test]
fn an_upgrade_beside_readers_and_one_with_an_old_fence_are_caught() {
    for wrong in [Mutant::UpgradedUnasked, Mutant::UpgradeKeepsFence] {
        mutant::is_caught_by(wrong, an_upgrade_waits_for_all_readers_and_has_a_new_fence);
    }
}

fn no_reader_joins_while_a_client_of_its_site_waits_to_be_exclusive() {
    // Another member may be the one that machines have to ask, and hears of the upgrade later.
    for (here, there) in [(0, 1), (1, 0)] {
        each(2, |tables, _| {
            tables.ask_in(here, 1, U);
            tables.ask_in(here, 2, S);
            tables.ask_in(here, 3, S);
            tables.post(here, 9, Demand::of(S));
            assert_eq!(tables.words(), ["1 enters", "2 enters", "3 enters", "9 enters"]);
            tables.act(here, |table, lease_clock, out| table.change_mode(Request(1), X, lease_clock, out));
            tables.post(here, 4, Demand::of(S));
            tables.settle();
            tables.ask_in(there, 5, S);
            assert_eq!(tables.words(), [""; 0]);
            for request in [2, 3] {
                assert_eq!(tables.entered_after(here, request), [0; 0]);
            }
            tables.release(here, 9);
            assert_eq!(tables.words(), ["9 left", "1 is X"]);
            assert_eq!(tables.entered_after(here, 1), [4, 5]);
        });
    }
}

#[test]
fn a_reader_that_passes_an_upgrade_is_caught() {
    mutant::is_caught_by(
        Mutant::ReaderPassesUpgrade,
        no_reader_joins_while_a_client_of_its_site_waits_to_be_exclusive,
    );
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    each(3, |tables, _| {
        tables.ask_in(0, 1, X);
        tables.ask_in(0, 2, S);
        tables.ask_in(1, 3, S);
        tables.ask_in(0, 4, X);
        tables.ask_in(2, 5, X);
        let fence = tables.fence_of(0, 1);
        tables.words();
        tables.change(0, 1, S);
        assert_eq!(tables.words(), ["1 is S", "2 enters", "3 enters"]);
        assert_eq!(tables.fence_of(0, 1), fence, "its fence is the one that it had");
        assert!(tables.fence_of(1, 3) > fence && tables.fence_of(0, 2) > fence);
        assert_eq!(tables.entered_after(0, 2), [0; 0]);
        assert_eq!(tables.entered_after(0, 1), [0; 0]);
        assert_eq!(tables.entered_after(1, 3).len(), 1);
    });
}

#[test]
fn a_writer_that_becomes_upgradeable_reads_with_others_and_may_become_a_writer_again() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, X);
        tables.ask_in(1, 2, S);
        let first = tables.fence_of(0, 1);
        tables.words();
        tables.change(0, 1, U);
        assert_eq!(tables.words(), ["1 is U", "2 enters"]);
        tables.change(0, 1, X);
        assert_eq!(tables.words(), [""; 0]);
        tables.release(1, 2);
        assert_eq!(tables.words(), ["2 left", "1 is X"]);
        assert!(tables.fence_of(0, 1) > first);
        tables.change(0, 1, X);
        assert_eq!(tables.words(), ["1 is X"], "it is already");
    });
}

#[test]
fn an_upgrade_that_is_given_up_is_turned_back_when_it_comes() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, U);
        tables.ask_in(1, 2, S);
        tables.words();
        let fence = tables.fence_of(0, 1);
        tables.change(0, 1, X);
        tables.change(0, 1, U);
        assert_eq!(tables.words(), ["1 is U"]);
        tables.ask_in(1, 3, S);
        tables.release(1, 2);
        assert_eq!(tables.words(), ["2 left", "3 enters"]);
        assert_eq!((tables.fence_of(0, 1), tables.sites[0].counts().holders), (fence, 1));
        // It may ask again, and it may become weaker while the machine still asks.
        tables.change(0, 1, X);
        tables.change(0, 1, S);
        assert_eq!(tables.words(), ["1 is S"]);
        tables.ask_in(0, 4, U);
        tables.release(1, 3);
        let mut told = tables.words();
        told.sort();
        assert_eq!(told, ["3 left", "4 enters"]);
    });
}

#[test]
fn a_client_that_leaves_or_dies_while_it_upgrades_keeps_nobody_waiting() {
    each(2, |tables, _| {
        for round in [0, 10] {
            tables.ask_in(0, round + 1, U);
            tables.ask_in(1, round + 2, S);
            tables.change(0, round + 1, X);
            tables.ask_in(1, round + 3, X);
            if round == 0 {
                tables.release(0, 1);
            } else {
                tables.act(0, |table, lease_clock, out| {
                    table.on_session_ended(Session(11), lease_clock, out);
                });
                tables.settle();
            }
            assert_eq!(tables.entered_after(1, round + 2), [round + 3]);
            assert_eq!(tables.entered_after(1, round + 3), [0; 0]);
        }
    });
}

#[test]
fn an_upgrade_is_not_told_without_a_lease_and_asked_for_again_with_one() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, U);
        tables.ask_in(1, 2, S);
        tables.change(0, 1, X);
        tables.words();
        tables.act(1, |table, lease_clock, out| table.release(Request(2), lease_clock, out));
        tables.lease_end = None;
        tables.settle();
        assert_eq!(tables.words(), ["2 left"]);
        tables.lease_end = Some(at(3000));
        tables.act(0, |table, lease_clock, out| table.on_extended(at(3000), lease_clock, out));
        tables.settle();
        assert_eq!(tables.words(), ["something else", "1 is X"]);
    });
}

#[test]
fn a_client_that_loses_the_lock_while_it_upgrades_is_not_exclusive_afterwards() {
    each(2, |tables, _| {
        tables.ask_in(0, 1, U);
        tables.ask_in(1, 2, S);
        tables.change(0, 1, X);
        tables.words();
        tables.act(0, |table, lease_clock, out| drop(table.take_away(&lock(), lease_clock, out)));
        tables.release(1, 2);
        assert_eq!(tables.words(), ["1 has lost it", "2 left"]);
        tables.change(0, 1, S);
        assert_eq!(tables.words(), ["1: NotHeld"]);
        tables.ask_in(1, 3, X);
        tables.time(500);
        assert_eq!(tables.words(), ["3 enters"], "its time to stop is over");
    });
}

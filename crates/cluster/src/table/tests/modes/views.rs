//! Modes through view changes, changes of rules, and claims.

use super::*;

fn readers_stay_inside_through_a_change_of_the_view() {
    each(3, |tables, clause| {
        for (at, request) in [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)] {
            tables.ask_in(at, request, S);
        }
        tables.ask_in(2, 6, U);
        tables.ask_in(1, 7, X);
        tables.words();
        tables.change_view(2, clause.clone());
        assert_eq!(tables.words(), [""; 0]);
        assert!(tables.sites.iter().all(|table| table.draining.is_empty()), "they go together");
        tables.change(2, 6, X);
        for request in 1..=4 {
            assert_eq!(tables.entered_after(0, request), [0; 0]);
        }
        tables.release(1, 5);
        assert_eq!(tables.words(), ["5 left", "6 is X"]);
        assert_eq!(tables.entered_after(2, 6), [7]);
    });
}

#[test]
fn modes_that_are_not_listed_not_compared_or_listed_for_each_reader_are_caught() {
    for wrong in [Mutant::ModesNotInCensus, Mutant::ModesNotCompared, Mutant::ReadersCountApart] {
        mutant::is_caught_by(wrong, readers_stay_inside_through_a_change_of_the_view);
    }
}

fn a_downgrade_during_a_view_change_counts_in_the_new_view() {
    for lonely in [true, false] {
        each(2, |tables, clause| {
            tables.ask_in(0, 1, X);
            tables.words();
            let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
            tables.change(0, 1, S);
            tables.open(2, clause.clone(), &census);
            if !lonely {
                tables.ask_in(0, 9, S);
                assert_eq!(tables.words(), ["1 is S", "9 enters"]);
            }
            tables.ask_in(1, 2, S);
            assert_eq!(tables.words().last().map(String::as_str), Some("2 enters"));
        });
    }
}

#[test]
fn a_downgrade_that_is_forgotten_at_the_opening_is_caught() {
    mutant::is_caught_by(Mutant::DowngradeForgotten, a_downgrade_during_a_view_change_counts_in_the_new_view);
}

#[test]
fn an_upgrade_that_waits_is_asked_for_again_in_the_next_view() {
    each(2, |tables, clause| {
        tables.ask_in(0, 1, U);
        tables.ask_in(1, 2, S);
        tables.change(0, 1, X);
        tables.change_view(2, clause.clone());
        tables.words();
        tables.release(1, 2);
        assert_eq!(tables.words(), ["2 left", "1 is X"]);
        // One that is asked for while no machine runs.
        let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
        tables.change(0, 1, U);
        tables.change(0, 1, X);
        tables.open(3, clause.clone(), &census);
        assert_eq!(tables.words(), ["1 is U", "1 is X"]);
        tables.ask_in(1, 3, S);
        assert_eq!(tables.entered_after(0, 1), [3]);
    });
}

#[test]
fn a_reader_that_leaves_during_a_view_change_is_no_holder_and_the_others_of_its_site_are() {
    each(2, |tables, clause| {
        for request in [1, 2] {
            tables.ask_in(0, request, S);
        }
        tables.ask_in(1, 3, X);
        let census: Vec<Census> = tables.sites.iter_mut().map(LockTable::stop).collect();
        tables.release(0, 1);
        tables.open(2, clause.clone(), &census);
        assert_eq!(tables.entered_after(0, 2), [3]);
    });
}

#[test]
fn readers_of_several_sites_drain_if_the_rules_change_to_an_algorithm_without_modes() {
    each(3, |tables, _| {
        let plain = Clause::exclusive("lamport");
        for (at, request) in [(0, 1), (0, 2), (1, 3)] {
            tables.ask_in(at, request, S);
        }
        tables.ask_in(2, 4, X);
        tables.change_view(2, plain.clone());
        assert_eq!(tables.entered_after(0, 1), [0; 0]);
        assert!(!tables.sites[2].has_drained());
        tables.release(0, 2);
        assert!(tables.sites.iter().all(LockTable::has_drained), "one site is left");
        tables.change_view(3, plain);
        assert_eq!(tables.entered_after(1, 3), [4]);
    });
}

#[test]
fn who_may_upgrade_and_is_alone_under_an_algorithm_without_modes_upgrades_at_once() {
    each(2, |tables, clause| {
        tables.ask_in(0, 1, U);
        tables.ask_in(1, 2, X);
        tables.words();
        tables.change_view(2, Clause::exclusive("naimi-trehel"));
        let before = tables.fence_of(0, 1);
        tables.change(0, 1, X);
        assert_eq!(tables.words(), ["1 is X"]);
        assert!(tables.fence_of(0, 1) > before);
        tables.change_view(3, clause.clone());
        tables.change(0, 1, S);
        tables.ask_in(1, 3, S);
        assert_eq!(tables.words(), ["1 is S"], "a writer waits before it");
        assert_eq!(tables.entered_after(0, 1), [2]);
    });
}

#[test]
fn a_claimed_lock_is_held_in_the_mode_that_its_proof_says() {
    each(3, |tables, clause| {
        *tables = Tables::of_members(3, clause.clone());
        tables.ask_in(0, 1, S);
        tables.ask_in(2, 2, S);
        let hold = tables.hold_of(0);
        assert_eq!(hold.mode, S);
        tables.claim(1, 9, hold.clone(), None);
        tables.lose_first(2, clause.clone());
        tables.words();
        tables.ask_in(1, 3, X);
        tables.ask_in(0, 4, U);
        assert_eq!(tables.words(), [""; 0]);
        assert_eq!(tables.fence_of(0, 9), hold.fence);
        assert_eq!(tables.entered_after(1, 2), [0; 0]);
        assert_eq!(tables.entered_after(0, 9).len(), 1);
    });
}

#[test]
fn a_claim_whose_mode_excludes_a_holder_is_given_up() {
    each(3, |tables, clause| {
        *tables = Tables::of_members(3, clause.clone());
        tables.ask_in(0, 1, X);
        let hold = tables.hold_of(0);
        tables.change(0, 1, S);
        tables.ask_in(2, 2, S);
        tables.words();
        // The proof is from before the downgrade: it says that the client is alone.
        tables.claim(1, 9, hold, None);
        tables.lose_first(2, clause.clone());
        assert_eq!(tables.words(), ["9 has lost it"]);
        tables.ask_in(1, 3, X);
        tables.release(0, 9);
        tables.change_view(3, clause.clone());
        assert_eq!(tables.entered_after(1, 2), [3]);
    });
}

//! Each rule of sharing, upgrades and priorities, broken on purpose: something must notice.

use super::exhaustive::{Moment, explore};
use super::*;
use crate::mutant::{self, Mutant};

/// What is wrong in some interleaving of three sites that enter once and change their mode once, or of two that enter twice.
fn found(mutant: Mutant) -> Option<String> {
    mutant::with(mutant, || {
        let three = explore(Moment::new(&values(&[]), &[], &[1, 1, 1], &[1, 1, 1]));
        three.and_then(|_| explore(Moment::new(&values(&[]), &[], &[2, 2], &[1, 1]))).err()
    })
}

#[test]
fn what_breaks_exclusion_the_books_or_the_end_is_found_in_small_searches() {
    for mutant in [
        Mutant::DelegatedUpgradeBesideReader,
        Mutant::DelegatedDowngradeLetsWriterIn,
        Mutant::DelegatedSecondUpgradeable,
        Mutant::DelegatedForgottenClose,
        Mutant::DelegatedChainTakesReader,
        Mutant::DelegatedEarlyForgotten,
    ] {
        let wrong = found(mutant).unwrap_or_else(|| panic!("{mutant:?} survives"));
        println!("{mutant:?}: {wrong}");
    }
}

#[test]
fn what_only_changes_the_order_is_found_by_scenarios() {
    let scenarios: [(Mutant, fn() -> bool); 4] = [
        (Mutant::DelegatedReaderPassesWriter, sharing::a_reader_passes_a_writer),
        (Mutant::DelegatedUpgradePassed, upgrading::a_reader_passes_an_upgrade),
        (Mutant::DelegatedPriorityIgnored, || !priorities::the_more_urgent_is_served_first(&[])),
        (Mutant::DelegatedNoAgeing, || priorities::enter_before_the_least_urgent(&[]) == 100),
    ];
    for (mutant, is_wrong) in scenarios {
        assert!(!is_wrong(), "{mutant:?} is off");
        assert!(mutant::with(mutant, is_wrong), "{mutant:?} survives");
    }
}

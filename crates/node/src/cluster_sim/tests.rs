//! The same twice, nothing left out, and mutants that must be caught.

use super::*;
use crate::mutant::Mutant;

/// How many seeds are tried until a mutant is caught.
const TRIED: u64 = 3000;

/// The first seed that catches the mutant, and the property that it breaks.
fn caught(mutant: Mutant) -> Option<(u64, &'static str)> {
    let options = Options { mutants: Mutants::only(mutant), ..Options::default() };
    (0..TRIED).find_map(|seed| run(seed, &options).violation.map(|violation| (seed, violation.property)))
}

#[test]
fn probe_mutants() {
    for m in [
        Mutant::LeaseFromReceipt,
        Mutant::ExclusionOneTickEarly,
        Mutant::NewLeaderDoesNotWait,
        Mutant::GrantUnconfirmed,
        Mutant::CensusSkipped,
        Mutant::ReconnectDropsOne,
        Mutant::FenceNotCarried,
        Mutant::OldEpochAccepted,
        Mutant::GrantWithoutLease,
        Mutant::SendBeforePersist,
        Mutant::LapseKeepsLocks,
    ] {
        let t = std::time::Instant::now();
        println!("{m:?}: {:?} {:?}", std::panic::catch_unwind(|| caught(m)), t.elapsed());
    }
}

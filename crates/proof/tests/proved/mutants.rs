//! Deliberate bugs of the code: each must break the tie.

use std::collections::BTreeSet;

use meshlock_proof::models;
use meshlock_protocol::mutant::{self, Mutant};

/// Every deliberate bug of this algorithm breaks the tie where it is recorded.
pub(crate) fn mutants_break_the_tie(name: &str) {
    let covered = models::find(name).expect("a model");
    for &(mutant, recorded) in covered.mutants {
        let broken = covered.runs.iter().find_map(|run| mutant::with(mutant, || covered.compare(run)).err());
        let broken = broken.unwrap_or_else(|| panic!("{mutant:?} is not noticed"));
        assert_eq!(broken.brief(), recorded, "{mutant:?}");
    }
}

/// How the names of an algorithm's mutants begin, where that is not the algorithm's name.
const PREFIXES: &[(&str, &[&str])] = &[
    ("maekawa", &["Arbiter", "Requester"]),
    ("carvalho-roucairol", &["Carvalho"]),
    ("lodha-kshemkalyani", &["Lodha"]),
];

#[test]
fn no_mutant_of_a_covered_algorithm_is_forgotten() {
    let name_of = |mutant: &Mutant| format!("{mutant:?}");
    // `raymond` begins `raymond-k`, too: a mutant is of the longest name that begins its own.
    let owner = |mutant: &Mutant| {
        let mutant = name_of(mutant);
        let prefixes = models::ALL.iter().flat_map(|covered| {
            let own = PREFIXES.iter().find(|(name, _)| *name == covered.name);
            let prefixes = own.map_or(vec![covered.name.replace('-', "")], |(_, prefixes)| {
                prefixes.iter().map(ToString::to_string).collect()
            });
            prefixes.into_iter().map(|prefix| (covered.name, prefix.to_lowercase()))
        });
        let begins = prefixes.filter(|(_, prefix)| mutant.to_lowercase().starts_with(prefix));
        begins.max_by_key(|(_, prefix)| prefix.len()).map(|(name, _)| name)
    };
    for covered in models::ALL {
        let listed: BTreeSet<String> =
            covered.mutants.iter().map(|(mutant, _)| mutant).chain(covered.beyond).map(name_of).collect();
        let of_it = Mutant::ALL.iter().filter(|mutant| owner(mutant) == Some(covered.name)).map(name_of);
        assert_eq!(listed, of_it.collect(), "{}", covered.name);
    }
}

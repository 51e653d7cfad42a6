//! Deliberate bugs of the code: each must break the tie, or there is a reason why it cannot.

use std::collections::BTreeMap;

use meshlock_proof::{models, unnoticed};
use meshlock_protocol::mutant::{self, Mutant};

/// Every deliberate bug of this algorithm breaks the tie where it is recorded, but those that are said not to.
pub(crate) fn mutants_break_the_tie(name: &str) {
    let covered = models::find(name).expect("a model");
    let broken =
        |mutant| covered.small.iter().find_map(|run| mutant::with(mutant, || covered.compare(run)).err());
    for &(mutant, recorded) in covered.mutants {
        let broken = broken(mutant).unwrap_or_else(|| panic!("{mutant:?} is not noticed"));
        assert_eq!(broken.brief(), recorded, "{mutant:?}");
    }
    for &(mutant, reason) in covered.beyond {
        let broken = broken(mutant).map(|broken| broken.brief());
        assert_eq!(broken, None, "{mutant:?} is noticed, although {reason}");
    }
}

/// The deliberate bugs of requests that share, besides those of [`Mutant::MODES`]. No model has such requests.
const OF_SHARING: [Mutant; 8] = [
    Mutant::RicartAgrawalaUpgradeAdmits,
    Mutant::RicartAgrawalaUpgradePassesReader,
    Mutant::RicartAgrawalaKeepsLeave,
    Mutant::RicartAgrawalaVoidReply,
    Mutant::RicartAgrawalaLateAnswer,
    Mutant::RicartAgrawalaDowngradeForgets,
    Mutant::RicartAgrawalaDowngradeAdmitsWriter,
    Mutant::RicartAgrawalaReadersFirst,
];

/// The name of each deliberate bug, with the algorithms that its comment begins with.
fn declared() -> BTreeMap<String, Vec<String>> {
    let source = include_str!("../../../protocol/src/mutant.rs");
    let list = source.split_once("pub enum Mutant {").expect("the list").1;
    let list = list.split_once("\n}").expect("its end").0;
    let (mut declared, mut of) = (BTreeMap::new(), Vec::new());
    for line in list.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("/// ") {
            let (owners, _) =
                comment.split_once(':').expect("a comment says first which algorithm it is about");
            if owners != "The same" {
                of = owners.split(", ").map(|owner| owner.trim_matches('`').to_owned()).collect();
            }
        } else if let Some(name) = line.strip_suffix(',') {
            declared.insert(name.to_owned(), of.clone());
        }
    }
    declared
}

/// Each is recorded once, at a model of its algorithm, or it is said why not.
#[test]
fn every_deliberate_bug_is_held_against_a_proof_or_excused() {
    let mut declared = declared();
    assert!(declared.len() > Mutant::ALL.len(), "{declared:?}");
    for mutant in Mutant::MODES.iter().chain(&OF_SHARING) {
        assert!(declared.remove(&format!("{mutant:?}")).is_some(), "{mutant:?} is declared");
    }
    let recorded = models::all().flat_map(|covered| {
        covered.mutants.iter().chain(covered.beyond).map(move |(mutant, _)| (mutant, Some(covered)))
    });
    let recorded: Vec<_> =
        recorded.chain(unnoticed::MUTANTS.iter().map(|(mutant, ..)| (mutant, None))).collect();
    for (name, owners) in &declared {
        let places: Vec<_> =
            recorded.iter().filter(|(mutant, _)| format!("{mutant:?}") == *name).map(|(_, at)| *at).collect();
        let modelled: Vec<_> = owners.iter().filter_map(|owner| models::find(owner)).collect();
        match places.as_slice() {
            [Some(at)] => {
                assert!(modelled.iter().any(|of| of.name == at.name), "{name} is not of {}", at.name);
            }
            [None] => {
                let is_of_a_model = !modelled.is_empty() && *name != "RicartAgrawalaUnnamedNumber";
                assert!(!is_of_a_model, "{name} is excused, but there is a model of {owners:?}");
            }
            _ => panic!("{name} is recorded {} times", places.len()),
        }
    }
    assert_eq!(recorded.len(), declared.len(), "whatever is recorded is declared");
}

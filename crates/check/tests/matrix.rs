//! `docs/CHECKED.md` is the golden file: its results of small runs are reproduced, and it contains every run of the matrix. If a count
//! changes, an algorithm or the matrix has changed; say why in the commit, and write the file again with the command that it names.

use meshlock_check::explore_spec;
use meshlock_check::matrix::{self, CaseOutcome, CaseRecord};
use meshlock_protocol::Spec;
use meshlock_protocol::registry::ALL;

const CHECKED: &str = include_str!("../../../docs/CHECKED.md");

fn recorded() -> Vec<CaseRecord> {
    matrix::read(CHECKED).expect("docs/CHECKED.md is as the command writes it")
}

#[test]
fn every_run_of_every_algorithm_and_variant_is_recorded() {
    let cases: Vec<_> = recorded().into_iter().map(|record| record.case).collect();
    for case in matrix::cases() {
        assert!(cases.contains(&case), "docs/CHECKED.md lacks {case:?}; renew it");
    }
    assert_eq!(cases.len(), matrix::cases().len(), "docs/CHECKED.md has runs that the matrix does not");
}

#[test]
fn the_document_is_as_the_command_writes_it() {
    assert!(matrix::write(&recorded()) == CHECKED, "docs/CHECKED.md was changed by hand; renew it");
}

#[test]
fn every_algorithm_and_variant_has_a_small_run() {
    let recorded = recorded();
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        assert!(recorded.iter().any(|record| record.case.spec == spec && record.is_small()), "{spec}");
    }
}

#[test]
fn every_small_run_that_holds_says_how_often_a_site_is_passed() {
    for CaseRecord { case, outcome } in
        recorded().iter().filter(|record| record.is_small() && !record.case.reduces)
    {
        assert!(outcome.bypass.is_some(), "{case:?} lacks its bypass bound; renew docs/CHECKED.md");
    }
}

/// Repeats a run.
fn is_found_again(CaseRecord { case, outcome }: &CaseRecord) {
    let spec: Spec = case.spec.parse().expect("a registered name");
    let bounds = case.bounds();
    let mut found = CaseOutcome::of(&explore_spec(&spec, &bounds), bounds.max_memory);
    if outcome.bypass.is_none() {
        // A larger row that is older than this figure. Small rows have it.
        found.bypass = None;
    }
    assert_eq!(found, *outcome, "{case:?}");
}

/// Repeats the small runs of an algorithm.
fn small_runs_are_found_again(algorithm: &str) {
    let is_of_it = |record: &&CaseRecord| record.case.algorithm() == algorithm && record.is_small();
    recorded().iter().filter(is_of_it).for_each(is_found_again);
}

/// CI leaves this test to `cargo xtask soak --only explorations`.
#[test]
fn every_run_of_medium_size_is_found_again() {
    let medium: Vec<CaseRecord> = recorded().into_iter().filter(CaseRecord::is_medium).collect();
    assert!(!medium.is_empty());
    medium.iter().for_each(is_found_again);
}

/// Defines one test for each algorithm, so that they run in parallel, and one that checks that none is missing.
macro_rules! golden {
    ($($test:ident: $algorithm:literal,)*) => {
        $(#[test]
        fn $test() {
            small_runs_are_found_again($algorithm);
        })*

        #[test]
        fn every_algorithm_is_in_this_list() {
            let listed = [$($algorithm),*];
            assert_eq!(ALL.iter().map(|info| info.name).collect::<Vec<_>>(), listed);
        }
    };
}

golden! {
    lamport: "lamport",
    ricart_agrawala: "ricart-agrawala",
    carvalho_roucairol: "carvalho-roucairol",
    singhal_dynamic: "singhal-dynamic",
    lodha_kshemkalyani: "lodha-kshemkalyani",
    maekawa: "maekawa",
    tree_quorum: "tree-quorum",
    majority: "majority",
    sanders: "sanders",
    suzuki_kasami: "suzuki-kasami",
    singhal_heuristic: "singhal-heuristic",
    raymond: "raymond",
    naimi_trehel: "naimi-trehel",
    central: "central",
    token_ring: "token-ring",
    delegated: "delegated",
    bulgannawar_vaidya: "bulgannawar-vaidya",
    raymond_k: "raymond-k",
    srimani_reddy: "srimani-reddy",
    makki: "makki",
}

//! `docs/CHECKED.md` is the golden file: its results of small runs are reproduced, and it contains every run of the matrix. If a count
//! changes, an algorithm or the matrix has changed; say why in the commit, and write the file again with the command that it names.

use meshlock_check::matrix::{self, Case, CaseOutcome, CaseRecord};
use meshlock_check::{Bypass, BypassBound, explore_spec};
use meshlock_protocol::registry::info::{BypassClaim, ClaimedBypass, Since};
use meshlock_protocol::registry::{ALL, AnyPlan};
use meshlock_protocol::{Algorithm, SiteId, Spec};

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
fn every_finished_run_says_how_often_a_site_is_passed_unless_it_is_too_large_for_that() {
    for record in recorded().iter().filter(|record| record.is_finished()) {
        assert!(record.is_complete(), "{:?} lacks its bypass bound; renew docs/CHECKED.md", record.case);
    }
}

/// The claim of the algorithm about a recorded run in which nothing fails.
fn claim_of(case: &Case) -> Option<BypassClaim> {
    let spec: Spec = case.spec.parse().expect("a registered name");
    let bounds = case.bounds();
    let plan = AnyPlan::new(&spec, bounds.cluster).expect("it was explored");
    let site = plan.start(SiteId::first::<1>()[0], &bounds.holders);
    site.bypass_claim().filter(|_| case.crashes == 0)
}

/// The recorded entries of others from the moment on that a claim names. Without a bound they are more than any number.
fn entries_since(since: Since, bypass: Bypass) -> f64 {
    match (since, bypass) {
        (Since::Call, Bypass { from_call: BypassBound::AtMost(entries), .. })
        | (Since::Heard, Bypass { once_heard: BypassBound::AtMost(entries), .. }) => f64::from(entries),
        _ => f64::INFINITY,
    }
}

/// Nothing is claimed of it, and no run is recorded in which a site enters twice before another that waits: three sites that request twice have more
/// states than those for which the bound is computed.
const NOT_SEEN: &str = "makki";

/// What is claimed is recorded to be so. Of an algorithm of which nothing is claimed some run is recorded in which another enters twice
/// while a site waits: it is not silent about a bound that it has.
#[test]
fn what_is_claimed_of_the_bypass_bound_agrees_with_what_is_recorded() {
    let recorded = recorded();
    for info in ALL {
        let of_it = recorded.iter().filter(|record| record.case.algorithm() == info.name);
        let with_bound = of_it.filter_map(|record| Some((&record.case, record.outcome.bypass?)));
        let mut twice = false;
        for (case, bypass) in with_bound {
            let cluster = case.bounds().cluster;
            if let Some(claim) = claim_of(case) {
                let found = entries_since(claim.since, bypass);
                assert!(found <= claim.allowed(cluster), "{case:?}: {bypass:?}, {claim:?}");
            }
            let others = (cluster.sites - 1) as f64;
            twice |= case.crashes == 0 && entries_since(Since::Heard, bypass) > others;
        }
        if let ClaimedBypass::Nothing(why) = info.bypass {
            let is_exempt = info.name == NOT_SEEN;
            assert!(twice != is_exempt, "{}: nothing is claimed ({why}); was that seen: {twice}", info.name);
        }
    }
}

/// Repeats a run.
fn is_found_again(CaseRecord { case, outcome }: &CaseRecord) {
    let spec: Spec = case.spec.parse().expect("a registered name");
    let bounds = case.bounds();
    let found = CaseOutcome::of(&explore_spec(&spec, &bounds), bounds.max_memory);
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
    neilsen_mizuno: "neilsen-mizuno",
    cao_singhal: "cao-singhal",
}

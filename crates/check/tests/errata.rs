//! Investigates the errata again: the results must equal those in docs/ERRATA.md.

use meshlock_check::errata::{self, Erratum, Finding, Judgement};

/// The page in the repository.
const PAGE: &str = include_str!("../../../docs/ERRATA.md");

/// Ids of claims that the exploration refutes.
const REFUTED: &[&str] = &[
    "suzuki-kasami-outdated",
    "lamport-fifo-not-needed",
    "lodha-fifo-not-needed",
    "bulgannawar-vaidya-fifo-not-needed",
];

/// Ids of those with a run of more than half a million states: together they take four fifths of the time.
const LARGE: &[&str] = &["maekawa-1985-rules", "tree-quorum-rules-6-8", "sanders-late-mending"];

fn investigate(erratum: &'static Erratum) -> Finding {
    let finding = erratum.investigate(|_, _| {});
    let expected = if REFUTED.contains(&erratum.id) { Judgement::Refuted } else { Judgement::Confirmed };
    assert_eq!(finding.judgement, expected, "{}: {finding:#?}", erratum.id);
    finding
}

#[test]
fn the_page_agrees_with_all_explorations_but_the_large_ones() {
    for erratum in errata::all().filter(|erratum| !LARGE.contains(&erratum.id)) {
        let section = investigate(erratum).section(erratum);
        assert!(PAGE.contains(&section), "`cargo xtask fix` renews docs/ERRATA.md, which lacks:\n{section}");
    }
}

/// CI leaves this test to `cargo xtask soak --only explorations`.
#[test]
fn the_whole_page_is_what_all_explorations_give() {
    let findings: Vec<(&Erratum, Finding)> =
        errata::all().map(|erratum| (erratum, investigate(erratum))).collect();
    let anew = errata::markdown(&findings);
    let differing = anew.lines().zip(PAGE.lines()).find(|(new, old)| new != old);
    assert!(anew == PAGE, "`cargo xtask fix` renews docs/ERRATA.md; it differs at {differing:?}");
}

#[test]
fn every_erratum_has_a_unique_id_and_a_place_on_the_page() {
    let mut ids: Vec<&str> = errata::all().map(|erratum| erratum.id).collect();
    let is_kebab = |id: &&str| id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    assert!(ids.iter().all(is_kebab));
    let sections: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections[..ids.len()], ids, "`cargo xtask fix` renews docs/ERRATA.md");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(ids.iter().all(|id| errata::find(id).is_some()));
    assert!(LARGE.iter().chain(REFUTED).all(|id| ids.contains(id)));
}

//! Investigates the errata again: the results must equal those in docs/ERRATA.md.

use meshlock_check::errata::{self, Erratum, Finding, Judgement};

/// The page in the repository.
const PAGE: &str = include_str!("../../../docs/ERRATA.md");

/// Ids of claims that the exploration refutes.
const REFUTED: &[&str] = &["suzuki-kasami-outdated", "lamport-fifo-not-needed", "lodha-fifo-not-needed"];

#[test]
fn the_page_agrees_with_the_exploration() {
    let findings: Vec<(&Erratum, Finding)> =
        errata::all().map(|erratum| (erratum, erratum.investigate(|_, _| {}))).collect();
    for (erratum, finding) in &findings {
        let expected = if REFUTED.contains(&erratum.id) { Judgement::Refuted } else { Judgement::Confirmed };
        assert_eq!(finding.judgement, expected, "{}: {finding:#?}", erratum.id);
    }
    let anew = errata::markdown(&findings);
    let differing = anew.lines().zip(PAGE.lines()).find(|(new, old)| new != old);
    assert!(anew == PAGE, "`cargo xtask fix` renews docs/ERRATA.md; it differs at {differing:?}");
}

#[test]
fn every_erratum_has_a_unique_id() {
    let mut ids: Vec<&str> = errata::all().map(|erratum| erratum.id).collect();
    let is_kebab = |id: &&str| id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    assert!(ids.iter().all(is_kebab));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(ids.iter().all(|id| errata::find(id).is_some()));
}

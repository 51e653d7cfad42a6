//! The errata, looked into anew: what the machine finds must be what docs/ERRATA.md says.

use meshlock_check::errata::{self, Erratum, Finding, Judgement};

/// As it lies in the repository.
const PAGE: &str = include_str!("../../../docs/ERRATA.md");

/// Claims that the machine does not bear out.
const REFUTED: &[&str] = &["suzuki-kasami-outdated", "lamport-fifo-not-needed", "lodha-fifo-not-needed"];

#[test]
fn what_the_machine_finds_is_what_the_page_says() {
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
fn every_erratum_has_an_id_of_its_own() {
    let mut ids: Vec<&str> = errata::all().map(|erratum| erratum.id).collect();
    let is_kebab = |id: &&str| id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    assert!(ids.iter().all(is_kebab));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(ids.iter().all(|id| errata::find(id).is_some()));
}

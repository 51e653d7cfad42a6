//! Sanders' theorem, by exploration: which information structures guarantee exclusion, and that the algorithm over them serves every
//! request, with and without failures.

use meshlock_check::theorem::{STRUCTURES, explore_exclusion, judge, of_footnote, structure};
use meshlock_check::{Bounds, Property, Report, Verdict, errata, explore, explore_spec};
use meshlock_protocol::algorithms::sanders::Sanders;
use meshlock_protocol::information::InformationStructure;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::{Delivery, Violation};
use meshlock_protocol::{Described, SiteId, SiteSet};

fn explored(bounds: &Bounds, options: &[(&str, &str)]) -> Report {
    let mut values = Values::defaults(&Sanders::INFO);
    for (name, value) in options {
        values.set(name, value).expect("an option of the algorithm");
    }
    explore::<Sanders>(bounds, &values).expect("the bounds are right")
}

/// Reference: section 4, the theorem: conditions a and b are necessary and sufficient.
fn theorem_and_machine_agree(deadlock: &str) -> (usize, usize) {
    let (mut safe, mut states) = (0, 0);
    for structure in (0..STRUCTURES).map(structure) {
        let judged = judge(structure, deadlock);
        assert!(judged.agrees(), "{}: {:?}, but {}", judged.structure, judged.flaw, judged.report.verdict);
        safe += usize::from(judged.flaw.is_none());
        states += judged.report.states;
    }
    (safe, states)
}

#[test]
fn of_all_structures_of_three_sites_exactly_those_that_satisfy_the_theorem_exclude() {
    assert_eq!(theorem_and_machine_agree("yield"), (297, 788_304));
}

#[test]
fn the_same_structures_exclude_and_serve_everyone_under_the_rules_of_section_5() {
    assert_eq!(theorem_and_machine_agree("fail"), (297, 1_541_028));
}

/// Reference: section 4, the footnote: conditions that suffice where a site need not keep track of itself. Of structures that
/// differ only in the names of the sites one is explored.
#[test]
fn structures_that_satisfy_the_footnote_exclude() {
    assert_eq!(of_footnote().count(), 1970);
    let mut explored = 0;
    for structure in of_footnote().filter(is_first_of_its_kind) {
        let report = explore_exclusion(&structure, "yield");
        assert_eq!(report.verdict, Verdict::Holds, "{structure}");
        explored += 1;
    }
    assert_eq!(explored, 347);
}

/// Whether no renaming of the three sites gives a structure that is written before this one.
fn is_first_of_its_kind(structure: &InformationStructure) -> bool {
    const RENAMINGS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let text = structure.to_string();
    RENAMINGS.iter().all(|names| {
        let old = |site: SiteId| SiteId::new(names[site.index()]);
        let renamed = InformationStructure::from_fn(3, |i| {
            let rename = |set: &SiteSet| SiteId::all(3).filter(|&k| set.contains(old(k))).collect();
            (rename(structure.inform(old(i))), rename(structure.request(old(i))))
        });
        renamed.to_string() >= text
    })
}

/// What the footnote demands of two sites that ask each other: each must keep track of itself.
#[test]
fn two_sites_that_ask_each_other_and_forget_themselves_get_in_together() {
    for text in ["+1/+0/x", "0+1/+0/x", "+1/1+0/x"] {
        let structure = InformationStructure::parse(3, text).expect("a structure of three sites");
        assert!(!structure.satisfies_footnote(), "{text}");
        let report = explore_exclusion(&structure, "yield");
        assert_eq!(report.verdict.property(), Some(Property::Exclusion), "{text}");
    }
}

/// Reference: section 5, INQUIRE, step 2, of which the erratum `sanders-fail-kept` says that only yielding inside does harm.
#[test]
fn a_fail_that_is_remembered_while_its_process_waits_lets_nobody_in() {
    let bounds = crate::bounds(3, 1).checking([Property::Exclusion].into_iter().collect());
    let mut structures = 0;
    for structure in (0..STRUCTURES).map(structure).filter(|structure| structure.check().is_ok()) {
        let spec = format!("unnamed-quorum:structure={structure},text=sanders-fail-kept");
        let report = explore_spec(&errata::spec(&spec).expect("a twin"), &bounds);
        assert_eq!(report.verdict, Verdict::Holds, "{spec}");
        structures += 1;
    }
    assert_eq!(structures, 297);
}

/// Returns the number of states, and asserts that there is no violation.
fn states(bounds: &Bounds, structure: &str, deadlock: &str) -> usize {
    let report = explored(bounds, &[("structure", structure), ("deadlock", deadlock)]);
    assert_eq!(report.verdict, Verdict::Holds, "{structure}, {deadlock}: {:?}", report.path);
    report.states
}

#[test]
fn the_figures_hold_with_three_sites_and_two_entries_each() {
    let fifo = crate::bounds(3, 2);
    assert_eq!(states(&fifo, "central", "fail"), 918);
    assert_eq!(states(&fifo, "grid", "fail"), 31_267);
    assert_eq!(states(&fifo, "figure-4", "fail"), 52_440);
    assert_eq!(states(&fifo, "figure-4", "yield"), 29_467);
    let unordered = Bounds { delivery: Delivery::Unordered, ..fifo };
    assert_eq!(states(&unordered, "central", "fail"), 1026);
    assert_eq!(states(&unordered, "figure-4", "yield"), 45_054);
}

#[test]
fn the_figures_hold_with_four_sites() {
    let fifo = crate::bounds(4, 1);
    assert_eq!(states(&fifo, "figure-2", "fail"), 46_648);
    let unordered = Bounds { delivery: Delivery::Unordered, ..fifo };
    assert_eq!(states(&unordered, "figure-1a", "fail"), 632);
    assert_eq!(states(&unordered, "figure-2", "yield"), 32_057);
}

#[test]
fn local_recovery_holds_whichever_sites_fail_and_whenever_they_do() {
    let unordered = Bounds { delivery: Delivery::Unordered, crashes: 1, ..crate::bounds(3, 1) };
    assert_eq!(states(&unordered, "central", "fail"), 3644);
    assert_eq!(states(&unordered, "figure-4", "fail"), 52_557);
    assert_eq!(states(&unordered, "grid", "yield"), 45_223);
    // Site 0 asks site 1 although it need not, and relies on it once site 2 has failed.
    assert_eq!(states(&unordered, "0.2+1/1.2/2", "fail"), 27_791);
    let two = Bounds { crashes: 2, ..unordered };
    assert_eq!(states(&two, "central", "fail"), 18_567);
}

/// Reference: section 5, Figure 4.
#[test]
fn figure_4_deadlocks_under_the_plain_rules_and_under_those_of_section_5_as_printed() {
    let bounds = crate::bounds(3, 1);
    let waiting = Verdict::Deadlock(vec![SiteId::new(1), SiteId::new(2)]);
    let plain = explored(&bounds, &[("structure", "figure-4"), ("deadlock", "plain")]);
    assert_eq!((plain.verdict, plain.path.len()), (waiting.clone(), 6));
    let printed = explored(&bounds, &[("structure", "figure-4"), ("text", "printed")]);
    assert_eq!((printed.verdict, printed.path.len()), (waiting, 8));
}

/// Reference: section 7.1.
#[test]
fn local_recovery_as_printed_lets_two_in_when_the_centre_fails() {
    let bounds = Bounds { crashes: 1, ..crate::bounds(3, 1) };
    let printed = explored(&bounds, &[("structure", "central"), ("text", "printed")]);
    assert_eq!(printed.verdict, Verdict::Violated(Violation::TooManyInside { inside: 2, permits: 1 }));
    assert_eq!(printed.path.len(), 8);
}

//! Whether the counterexamples of two errata are the shortest: other sizes, options and structures are explored up to fewer steps.

use meshlock_check::{Bounds, Property, Report, Verdict, errata, explore_spec};
use meshlock_protocol::information::InformationStructure;
use meshlock_protocol::{SiteId, SiteSet, Spec};

/// Explores runs of fewer than `steps` steps at least, for one property, and returns what was found.
fn explored_below(spec: &str, bounds: &Bounds, property: Property, steps: usize) -> Report {
    let spec: Spec = spec.parse().expect("a registered name");
    let bounds = bounds.clone().checking([property].into_iter().collect());
    let mut explored =
        (13..24).map(|power| explore_spec(&spec, &Bounds { max_states: 1 << power, ..bounds.clone() }));
    // Of a run that was stopped, all levels before the one that was reached were explored.
    let is_enough = |report: &Report| report.verdict != Verdict::Unfinished || report.depth >= steps;
    explored.find(is_enough).expect("sixteen million states go that deep")
}

/// The number of steps of the violation that was found, if one was.
fn steps_to(report: &Report) -> Option<usize> {
    report.verdict.property().map(|_| report.path.len())
}

#[test]
fn a_number_that_is_used_again_lets_two_in_after_eight_steps_and_no_fewer() {
    let options = ["combined-exit", "keep-deferred", "sequence-on-all"];
    let mut found = Vec::new();
    for chosen in 0..1_usize << options.len() {
        let on = (0..options.len()).filter(|at| chosen >> at & 1 == 1).map(|at| options[at]);
        let spec =
            format!("lodha-kshemkalyani:{}", on.chain(["text=without-1"]).collect::<Vec<_>>().join(","));
        for (sites, entries) in [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)] {
            let report = explored_below(&spec, &crate::bounds(sites, entries), Property::Exclusion, 9);
            let steps = steps_to(&report).filter(|&steps| steps <= 8);
            found.extend(steps.map(|steps| (spec.clone(), sites, entries, steps)));
        }
    }
    // With `sequence-on-all` the answer tells a site that its own number was used.
    assert!(
        found.iter().all(|(spec, sites, ..)| !spec.contains("sequence-on-all") && *sites == 2),
        "{found:?}"
    );
    assert!(found.iter().all(|&(.., steps)| steps == shown("lodha-own-number")), "{found:?}");
    assert_eq!(found.len(), 8, "four variants, with two requests and with three");
}

/// All structures of so many sites that satisfy the theorem and in which each site asks itself and the sites together ask at most
/// `most` others.
fn structures(sites: usize, most: usize) -> Vec<InformationStructure> {
    let pairs = sites * (sites - 1);
    let relation = |number: usize, i: SiteId, k: SiteId| {
        let pair = (sites - 1) * i.index() + k.index() - usize::from(k > i);
        number / 3_usize.pow(u32::try_from(pair).expect("a few pairs")) % 3
    };
    let structure = |number: usize| {
        InformationStructure::from_fn(sites, |i| {
            let related = |least: usize| -> SiteSet {
                SiteId::all(sites).filter(|&k| k == i || relation(number, i, k) >= least).collect()
            };
            (related(2), related(1))
        })
    };
    let asked = |number: usize| {
        let digits = (0..pairs).scan(number, |rest, _| {
            let digit = *rest % 3;
            *rest /= 3;
            Some(usize::from(digit > 0))
        });
        digits.sum::<usize>()
    };
    let numbers =
        (0..3_usize.pow(u32::try_from(pairs).expect("a few pairs"))).filter(|&number| asked(number) <= most);
    numbers.map(structure).filter(|structure| structure.check().is_ok()).collect()
}

/// The fewest steps to a deadlock because a newcomer is not told FAIL, in any of the structures, if there is one in fewer than `steps`,
/// and the first structure in which there is.
fn fewest(structures: &[InformationStructure], entries: u8, steps: usize) -> Option<(usize, String)> {
    let deadlock = |structure: &InformationStructure| {
        let spec = format!("sanders:structure={structure},text=untold-newcomer");
        let bounds = crate::bounds(structure.sites(), entries);
        let found = steps_to(&explored_below(&spec, &bounds, Property::Deadlock, steps))?;
        (found < steps).then(|| (found, structure.to_string()))
    };
    structures.iter().filter_map(deadlock).min_by_key(|found| found.0)
}

/// The number of steps of the counterexample that an erratum shows.
fn shown(id: &str) -> usize {
    errata::find(id).and_then(errata::Erratum::counterexample).expect("it is confirmed").path.len()
}

/// Reference: the erratum `sanders-untold-newcomer`. CI leaves this test to `cargo xtask soak --only explorations`.
#[test]
fn no_other_small_structure_leaves_a_newcomer_untold_in_fewer_steps() {
    let shown = shown("sanders-untold-newcomer");
    let of_four = structures(4, 6);
    assert_eq!(of_four.len(), 4_092);
    let found = fewest(&of_four, 1, shown + 1).expect("that of the erratum is among them");
    assert_eq!(found.0, shown, "{found:?}");
    let of_three = structures(3, 6);
    assert_eq!(of_three.len(), 297);
    assert_eq!([1, 2].map(|entries| fewest(&of_three, entries, shown)), [None, None]);
}

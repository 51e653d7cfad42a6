//! Mutants: small deliberate bugs, each of which a property must detect within small bounds. If one survives, a property is missing.

use meshlock_check::{Bounds, Properties, Property, Report, Verdict, explore_spec, story_spec};
use meshlock_protocol::algorithms::suzuki_kasami::SuzukiKasami;
use meshlock_protocol::mutant::{self, Mutant};
use meshlock_protocol::world::{Violation, World};
use meshlock_protocol::{Mode, SiteId, Slot, Spec};

/// Cao and Singhal's algorithm with the largest quorums of three sites.
const ALL_IN_ALL: &str = "cao-singhal:quorums=0.1.2/0.1.2/0.1.2,deadlock=yield";

/// Returns the algorithm and the bounds in which a mutant is explored, and the property that must detect it.
fn hunt(mutant: Mutant) -> (&'static str, Bounds, Property) {
    use Property::{
        Bypass, Deadlock, Exclusion, Fences, Invariants, Messages, Order, Quiet, Refusals, Starvation, Tokens,
    };
    let run = Bounds::new;
    let shared = |sites, entries| run(sites, entries).with_modes(&Mode::ALL).with_changes(1).unordered();
    match mutant {
        Mutant::LamportLostMax => ("lamport", run(2, 2), Exclusion),
        // Exclusion still holds: an answer with a small clock proves nothing, so the site that needs one waits for ever.
        Mutant::LamportDeafClock => ("lamport", run(2, 2), Deadlock),
        Mutant::LamportReleaseNotToAll => ("lamport", run(2, 1), Deadlock),
        Mutant::LamportOmitsUnasked => ("lamport", run(2, 1), Messages),
        Mutant::RicartAgrawalaEarlyReply | Mutant::RicartAgrawalaWrongTieBreak => {
            ("ricart-agrawala", run(2, 1), Exclusion)
        }
        Mutant::RicartAgrawalaSameNumber => ("ricart-agrawala", run(2, 2), Order),
        Mutant::RicartAgrawalaKeepsLeave
        | Mutant::RicartAgrawalaUpgradeAdmits
        | Mutant::RicartAgrawalaUpgradePassesReader
        | Mutant::RicartAgrawalaDowngradeAdmitsWriter => ("ricart-agrawala:modes", shared(2, 1), Exclusion),
        // The upgrade is never answered.
        Mutant::RicartAgrawalaVoidReply => ("ricart-agrawala:modes", shared(2, 1), Deadlock),
        Mutant::RicartAgrawalaLateAnswer => ("ricart-agrawala:modes", shared(2, 1), Refusals),
        Mutant::RicartAgrawalaDowngradeForgets => ("ricart-agrawala:modes", shared(2, 1), Invariants),
        Mutant::RicartAgrawalaReadersFirst => {
            let modes = [Mode::Shared, Mode::Exclusive];
            ("ricart-agrawala:modes", run(2, 2).with_modes(&modes).unordered(), Bypass)
        }
        Mutant::CarvalhoForgottenDeferred => ("carvalho-roucairol", run(2, 1), Deadlock),
        Mutant::SinghalDynamicNotAskedBack => ("singhal-dynamic", run(3, 2), Deadlock),
        Mutant::LodhaQueueByArrival => ("lodha-kshemkalyani", run(3, 1), Order),
        Mutant::ArbiterForgottenFail | Mutant::RequesterForgottenInquire => {
            ("maekawa:deadlock=fail", run(3, 1), Deadlock)
        }
        Mutant::ArbiterKeepsForTheDead => ("majority", run(3, 1).with_crashes(1), Deadlock),
        Mutant::ArbiterOwesOn => ("majority", run(2, 1).with_crashes(1).with_recoveries(), Quiet),
        Mutant::RequesterYieldsInside => ("maekawa", run(3, 1), Exclusion),
        // With all sites in every quorum, three are enough for a permission to be passed on as an old TRANSFER says.
        Mutant::CaoSinghalTransferKept => (ALL_IN_ALL, run(3, 1), Refusals),
        // A permission in two places: so few sites have another one in the way before two of them are inside.
        Mutant::CaoSinghalUntoldForward => ("cao-singhal", run(2, 1), Invariants),
        Mutant::SandersForgottenGrant => ("sanders:structure=figure-4", run(3, 1), Exclusion),
        Mutant::SuzukiKasamiTokenKept => ("suzuki-kasami", run(2, 1), Tokens),
        Mutant::HeuristicForgottenWaiter => ("singhal-heuristic", run(3, 1).with_crashes(1), Deadlock),
        Mutant::RaymondForgottenRequest => ("raymond", run(3, 1), Deadlock),
        Mutant::NaimiTrehelForgottenForward => ("naimi-trehel", run(3, 1), Deadlock),
        Mutant::NeilsenMizunoForgottenFollow => ("neilsen-mizuno", run(3, 1), Deadlock),
        Mutant::NeilsenMizunoPrivilegeKept => ("neilsen-mizuno", run(2, 1), Tokens),
        Mutant::BulgannawarVaidyaStaleInform => ("bulgannawar-vaidya:inform=1", run(3, 2), Deadlock),
        Mutant::RaymondKOldReply => ("raymond-k", run(3, 2).with_permits(2), Exclusion),
        Mutant::RaymondKOffByOne => ("raymond-k", run(3, 1).with_permits(2), Exclusion),
        Mutant::MakkiTwoPermits => ("makki", run(3, 1), Invariants),
        Mutant::MakkiEndlessTimer => ("makki", run(3, 1), Starvation),
        Mutant::SrimaniReddyTokenKept => ("srimani-reddy", run(3, 1).with_permits(2), Tokens),
        Mutant::SrimaniReddyWrongSlot => ("srimani-reddy", run(3, 1).with_permits(2), Fences),
        Mutant::CentralSmallestFirst => ("central", run(3, 2), Bypass),
        Mutant::TokenRingForgottenCall => ("token-ring", run(3, 1), Deadlock),
        Mutant::DelegatedForgottenTail => ("delegated", run(3, 2), Deadlock),
        Mutant::DelegatedLateRefused => ("delegated", run(3, 1), Refusals),
        Mutant::DelegatedReaderPassesWriter
        | Mutant::DelegatedUpgradeBesideReader
        | Mutant::DelegatedUpgradePassed
        | Mutant::DelegatedDowngradeLetsWriterIn
        | Mutant::DelegatedSecondUpgradeable
        | Mutant::DelegatedForgottenClose
        | Mutant::DelegatedChainTakesReader
        | Mutant::DelegatedEarlyForgotten
        | Mutant::DelegatedPriorityIgnored
        | Mutant::DelegatedNoAgeing => {
            unreachable!("it does not change what plain requests do; the tests of `delegated` catch it")
        }
        Mutant::RicartAgrawalaUnnamedNumber => unreachable!("it does not change what the sites do"),
        Mutant::FenceClockDeaf => unreachable!("the explorer has no clocks, it remembers who knows what"),
    }
}

/// Mutants that only one property can detect: every request is served, in order and one at a time, but something else is wrong.
const SUBTLE: [Mutant; 7] = [
    Mutant::RicartAgrawalaSameNumber,
    Mutant::CentralSmallestFirst,
    Mutant::LamportOmitsUnasked,
    Mutant::ArbiterOwesOn,
    Mutant::MakkiEndlessTimer,
    Mutant::SrimaniReddyWrongSlot,
    Mutant::DelegatedLateRefused,
];

fn explored(mutant: Mutant, properties: Properties) -> (Spec, Bounds, Report) {
    let (spec, bounds, _) = hunt(mutant);
    let spec: Spec = spec.parse().expect("a registered algorithm");
    let bounds = bounds.checking(properties);
    let report = explore_spec(&spec, &bounds);
    (spec, bounds, report)
}

#[test]
fn every_mutant_is_caught_by_its_property() {
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        let property = hunt(mutant).2;
        let (report, story) = mutant::with(mutant, || {
            let (spec, bounds, report) = explored(mutant, [property].into_iter().collect());
            let story = story_spec(&spec, &bounds, &report.path);
            (report, story)
        });
        println!("{mutant:?}: {} after {} steps", report.verdict, report.path.len());
        if report.verdict.property() != Some(property) {
            survivors.push((mutant, report.verdict.clone()));
        }
        assert_eq!(story.lines.len(), report.path.len(), "the world can replay what was found");
    }
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

/// A reduced search catches them as a full one does, with a path that the world can replay.
#[test]
fn every_mutant_that_a_reduced_search_can_catch_is_caught() {
    let mut caught = Vec::new();
    for mutant in Mutant::ALL {
        let (spec, bounds, property) = hunt(mutant);
        let bounds = bounds.checking([property].into_iter().collect());
        let keeps = bounds.clone().reduced().properties == bounds.properties;
        if !bounds.can_be_reduced() || !keeps {
            continue;
        }
        let spec: Spec = spec.parse().expect("a registered algorithm");
        let (report, story) = mutant::with(mutant, || {
            let report = explore_spec(&spec, &bounds.clone().reduced());
            let story = story_spec(&spec, &bounds, &report.path);
            (report, story)
        });
        assert_eq!(report.verdict.property(), Some(property), "{mutant:?}: {}", report.verdict);
        assert_eq!(story.lines.len(), report.path.len(), "the world can replay what was found");
        let spans_sites = matches!(report.verdict, Verdict::Violated(Violation::Together { .. }));
        if matches!(report.verdict, Verdict::Violated(_)) && !spans_sites {
            assert!(story.violation.is_some(), "{mutant:?}: the world finds nothing wrong with the path");
        }
        caught.push(mutant);
    }
    assert!(caught.len() >= 24, "only {caught:?}");
}

/// A search up to symmetry catches them as well, reduced or not, where the mutant leaves a symmetry to use.
#[test]
fn every_mutant_that_a_search_up_to_symmetry_can_catch_is_caught() {
    let mut caught = Vec::new();
    for mutant in Mutant::ALL {
        let (spec, bounds, property) = hunt(mutant);
        let bounds = bounds.checking([property].into_iter().collect());
        let keeps = bounds.clone().reduced().properties == bounds.properties;
        if !bounds.can_be_explored_alike() || !keeps {
            continue;
        }
        let spec: Spec = spec.parse().expect("a registered algorithm");
        for run in [bounds.clone().up_to_symmetry(), bounds.clone().reduced().up_to_symmetry()] {
            let (report, story) = mutant::with(mutant, || {
                let report = explore_spec(&spec, &run);
                let story = story_spec(&spec, &run, &report.path);
                (report, story)
            });
            let found = report.symmetry.expect("it was asked for");
            if found.permutations == 1 {
                continue;
            }
            assert_eq!(report.verdict.property(), Some(property), "{mutant:?}: {}", report.verdict);
            assert_eq!(story.lines.len(), report.path.len(), "the world can replay what was found");
            if matches!(report.verdict, Verdict::Violated(_)) {
                assert!(story.violation.is_some(), "{mutant:?}: the world finds nothing wrong with the path");
            }
            caught.push((mutant, run.reduces));
        }
    }
    println!("{caught:?}");
    assert!(caught.len() >= 6, "only {caught:?}");
}

/// A server that prefers small ids starves the largest by construction. With more sites and more requests, too, that is seen, in bounded
/// runs and where everyone requests without end.
#[test]
fn a_server_that_prefers_small_ids_is_caught_in_larger_runs_and_in_endless_ones() {
    let spec: Spec = "central".parse().expect("a registered algorithm");
    for (bounds, property) in [
        (Bounds::new(3, 3), Property::Bypass),
        (Bounds::new(4, 2), Property::Bypass),
        (Bounds::new(3, 1).endless(), Property::Starvation),
    ] {
        let bounds = bounds.unordered();
        let explored = || explore_spec(&spec, &bounds);
        let report = mutant::with(Mutant::CentralSmallestFirst, explored);
        println!("{bounds:?}: {} states, {}", report.states, report.verdict);
        assert_eq!(report.verdict.property(), Some(property), "{}", report.verdict);
        assert_eq!(explored().verdict, Verdict::Holds);
    }
}

#[test]
fn every_property_has_a_mutant_to_catch() {
    for property in Property::ALL {
        assert!(
            Mutant::ALL.into_iter().any(|mutant| hunt(mutant).2 == property),
            "{property:?} catches nothing"
        );
    }
}

#[test]
fn without_its_property_a_subtle_mutant_would_survive() {
    for mutant in SUBTLE {
        let property = hunt(mutant).2;
        let (_, _, caught) = mutant::with(mutant, || explored(mutant, Properties::all()));
        assert_eq!(caught.verdict.property(), Some(property), "{mutant:?}: {}", caught.verdict);
        let (_, _, missed) = mutant::with(mutant, || explored(mutant, Properties::all().without(property)));
        assert_eq!(missed.verdict, Verdict::Holds, "{mutant:?}: {}", missed.verdict);
    }
}

#[test]
fn the_same_bounds_show_no_violation_without_mutants() {
    let mut runs: Vec<_> = Mutant::ALL.into_iter().map(|mutant| (hunt(mutant).0, hunt(mutant).1)).collect();
    // Several mutants are looked for in the same run.
    runs.sort_by_key(|run| format!("{run:?}"));
    runs.dedup_by_key(|run| format!("{run:?}"));
    for (spec, bounds) in runs {
        let spec: Spec = spec.parse().expect("a registered algorithm");
        let report = explore_spec(&spec, &bounds.checking(Properties::all()));
        assert_eq!(report.verdict, Verdict::Holds, "{spec}");
    }
}

/// Returns the violation that the world reports when one site after the other enters.
fn one_after_the_other() -> Option<Violation> {
    let mut world = World::<SuzukiKasami>::of(3).tolerant();
    for site in SiteId::all(3) {
        let _ = world.request(site);
        world.settle();
        let _ = world.release(site);
    }
    assert_eq!(world.entries().len(), 3, "everyone was inside");
    world.violation().cloned()
}

#[test]
fn a_fence_clock_that_ignores_messages_is_detected_by_the_world() {
    let [_, second, _] = SiteId::first();
    let caught = mutant::with(Mutant::FenceClockDeaf, one_after_the_other);
    assert_eq!(caught, Some(Violation::FenceFellBack { site: second, slot: Slot::default() }));
    assert_eq!(one_after_the_other(), None);
}

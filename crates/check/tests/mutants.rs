//! Would the checker notice? Small deliberate bugs, each of which a property must catch within small bounds. A mutant that
//! survives is a missing property.

use meshlock_check::{Bounds, Properties, Property, Report, Verdict, explore_spec, story_spec};
use meshlock_protocol::Spec;
use meshlock_protocol::mutant::{self, Mutant};

/// Where a mutant is looked for, and by which property it must be caught.
fn hunt(mutant: Mutant) -> (&'static str, Bounds, Property) {
    use Property::{Deadlock, Exclusion, Invariants, Order, Tokens};
    let run = Bounds::new;
    match mutant {
        Mutant::LamportLostMax => ("lamport", run(2, 2), Exclusion),
        // Nobody gets in wrongly: an answer with a small clock is no proof, so the site that waits for one waits for ever.
        Mutant::LamportDeafClock => ("lamport", run(2, 2), Deadlock),
        Mutant::LamportReleaseNotToAll => ("lamport", run(2, 1), Deadlock),
        Mutant::RicartAgrawalaEarlyReply | Mutant::RicartAgrawalaWrongTieBreak => {
            ("ricart-agrawala", run(2, 1), Exclusion)
        }
        Mutant::CarvalhoForgottenDeferred => ("carvalho-roucairol", run(2, 1), Deadlock),
        Mutant::SinghalDynamicNotAskedBack => ("singhal-dynamic", run(3, 2), Deadlock),
        Mutant::LodhaQueueByArrival => ("lodha-kshemkalyani", run(3, 1), Order),
        Mutant::ArbiterForgottenFail | Mutant::RequesterForgottenInquire => {
            ("maekawa:deadlock=fail", run(3, 1), Deadlock)
        }
        Mutant::ArbiterKeepsForTheDead => ("majority", run(3, 1).with_crashes(1), Deadlock),
        Mutant::RequesterYieldsInside => ("maekawa", run(3, 1), Exclusion),
        Mutant::SandersForgottenGrant => ("sanders:structure=figure-4", run(3, 1), Exclusion),
        Mutant::SuzukiKasamiTokenKept => ("suzuki-kasami", run(2, 1), Tokens),
        Mutant::HeuristicForgottenWaiter => ("singhal-heuristic", run(3, 1).with_crashes(1), Deadlock),
        Mutant::RaymondForgottenRequest => ("raymond", run(3, 1), Deadlock),
        Mutant::NaimiTrehelForgottenForward => ("naimi-trehel", run(3, 1), Deadlock),
        Mutant::BulgannawarVaidyaStaleInform => ("bulgannawar-vaidya:inform=1", run(3, 2), Deadlock),
        Mutant::RaymondKOldReply => ("raymond-k", run(3, 2).with_permits(2), Exclusion),
        Mutant::RaymondKOffByOne => ("raymond-k", run(3, 1).with_permits(2), Exclusion),
        Mutant::MakkiTwoPermits => ("makki", run(3, 1), Invariants),
        Mutant::SrimaniReddyTokenKept => ("srimani-reddy", run(3, 1).with_permits(2), Tokens),
        Mutant::TokenRingForgottenCall => ("token-ring", run(3, 1), Deadlock),
        Mutant::DelegatedForgottenTail => ("delegated", run(3, 2), Deadlock),
    }
}

fn explored(mutant: Mutant) -> (Spec, Bounds, Report) {
    let (spec, bounds, property) = hunt(mutant);
    let spec: Spec = spec.parse().expect("a registered algorithm");
    let bounds = bounds.checking([property].into_iter().collect());
    let report = explore_spec(&spec, &bounds);
    (spec, bounds, report)
}

#[test]
fn every_mutant_is_caught_by_its_property() {
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        let property = hunt(mutant).2;
        let (report, story) = mutant::with(mutant, || {
            let (spec, bounds, report) = explored(mutant);
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

#[test]
fn where_the_mutants_are_caught_nothing_is_wrong_without_them() {
    for mutant in Mutant::ALL {
        let (spec, bounds, _) = hunt(mutant);
        let spec: Spec = spec.parse().expect("a registered algorithm");
        let report = explore_spec(&spec, &bounds.checking(Properties::all()));
        assert_eq!(report.verdict, Verdict::Holds, "{mutant:?}");
    }
}

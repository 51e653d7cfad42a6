//! The axiom of the quorum algorithms' model, for the quorums that are really formed.

use meshlock_protocol::algorithms::maekawa::Maekawa;
use meshlock_protocol::algorithms::majority::Majority;
use meshlock_protocol::algorithms::tree_quorum::TreeQuorum;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::World;
use meshlock_protocol::{
    Chooser, Cluster, Described, Effect, Holders, ModelFacts, Modelled, PlanError, SiteId,
};

type Options<'a> = &'a [(&'a str, &'a str)];

fn values<A: Described>(options: Options<'_>) -> Values {
    let mut values = Values::defaults(&A::INFO);
    for (name, value) in options {
        values.set(name, value).expect("an option of the algorithm");
    }
    values
}

/// What the model is told of these sites.
fn facts_of<'a, A: Modelled + 'a>(sites: impl IntoIterator<Item = &'a A>) -> ModelFacts {
    let mut facts = ModelFacts::default();
    sites.into_iter().for_each(|site| site.facts(&mut facts));
    facts
}

/// Without what is there several times.
fn distinct(quorums: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut quorums: Vec<u64> = quorums.collect();
    quorums.sort_unstable();
    quorums.dedup();
    quorums
}

/// The quorums that the sites may form if the host has no choice, as the model is told of them: the members as bits.
fn quorums<A: Modelled + Described>(sites: usize, options: Options<'_>) -> Result<Vec<u64>, PlanError> {
    let plan = A::plan(Cluster::of(sites), &values::<A>(options))?;
    let started: Vec<A> = SiteId::all(sites).map(|me| A::start(&plan, me, &Holders::none())).collect();
    let facts = facts_of(&started).0.into_iter();
    Ok(distinct(facts.filter(|fact| fact.symbol == "quorum").map(|fact| fact.arguments[0])))
}

/// The quorums that the sites ask, whatever the host chooses.
fn chosen<A: Modelled + Described>(sites: usize, options: Options<'_>) -> Vec<u64> {
    let mut asked = Vec::new();
    for me in SiteId::all(sites) {
        let mut answers = Some(Vec::new());
        while let Some(script) = answers {
            let world = World::<A>::new(Cluster::of(sites), &values::<A>(options), &Holders::none());
            let mut world =
                world.expect("quorums for any number of sites").choosing(Chooser::First.after(&script));
            answers = next_script(&world.request(me));
            let facts = facts_of([world.site(me)]).0.into_iter();
            asked.extend(facts.filter(|fact| fact.symbol == "asked").map(|fact| fact.value));
        }
    }
    distinct(asked.into_iter())
}

/// The answers that come after those that were given, as if counting; nothing after the last ones.
fn next_script<M>(effects: &[Effect<M>]) -> Option<Vec<u32>> {
    let mut given: Vec<(u32, u32)> = Vec::new();
    for effect in effects {
        if let Effect::Chose { taken, of } = effect {
            given.push((*taken, *of));
        }
    }
    while let Some((taken, of)) = given.pop() {
        if taken + 1 < of {
            return Some(given.iter().map(|(taken, _)| *taken).chain([taken + 1]).collect());
        }
    }
    None
}

fn meet(quorums: &[u64]) -> bool {
    quorums.iter().all(|one| quorums.iter().all(|other| one & other != 0))
}

fn assert_meet(name: &str, quorums: &[u64]) {
    assert!(!quorums.is_empty() && meet(quorums), "{name}: {quorums:?}");
}

#[test]
fn any_two_quorums_of_each_construction_meet() {
    for sites in 1..=40 {
        let constructions = [
            ("maekawa", quorums::<Maekawa>(sites, &[])),
            ("maekawa, grid", quorums::<Maekawa>(sites, &[("quorums", "grid")])),
            ("maekawa, plane", quorums::<Maekawa>(sites, &[("quorums", "plane")])),
            ("majority", quorums::<Majority>(sites, &[])),
            ("tree-quorum", quorums::<TreeQuorum>(sites, &[])),
        ];
        for (name, quorums) in constructions {
            let quorums = quorums.expect("quorums for any number of sites");
            assert_meet(&format!("{name} with {sites} sites"), &quorums);
        }
    }
}

#[test]
fn any_two_majorities_of_unequal_votes_meet() {
    let mut drawn = Chooser::seeded(1);
    for sites in 1..=40 {
        for most in [1, 2, 9] {
            // Some have no vote; with the last one, not all.
            let votes: Vec<u32> = (1..sites).map(|_| drawn.answer(most + 1)).chain([1]).collect();
            let votes = votes.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
            let quorums = quorums::<Majority>(sites, &[("votes", &votes)]).expect("somebody has a vote");
            assert_meet(&votes, &quorums);
        }
    }
    for votes in ["3.1.1.1", "1.1.1.3", "0.0.1.0", "5.2.2.1"] {
        assert_meet(votes, &quorums::<Majority>(4, &[("votes", votes)]).expect("votes for four"));
    }
}

#[test]
fn any_two_quorums_that_a_host_can_choose_meet() {
    for sites in 1..=6 {
        let majorities = chosen::<Majority>(sites, &[("quorum", "any")]);
        assert_meet("any majority", &majorities);
        let quota = u32::try_from(sites / 2 + 1).expect("a few sites");
        let all = (0_u64..1 << sites).filter(|set| set.count_ones() == quota);
        assert_eq!(majorities, distinct(all), "{sites} sites: every smallest majority can be chosen");
    }
    for votes in ["3.1.1.1", "1.0.2.2", "0.1.0.0"] {
        assert_meet(votes, &chosen::<Majority>(4, &[("quorum", "any"), ("votes", votes)]));
    }
    for sites in 1..=9 {
        let paths = chosen::<TreeQuorum>(sites, &[("path", "any")]);
        assert_meet("any path", &paths);
        assert_eq!(paths.len(), sites.div_ceil(2), "{sites} sites: there is a path to every leaf");
    }
}

#[test]
fn given_sets_meet_or_are_refused() {
    for (sets, members) in [
        ("0.1/1.2/0.2", vec![0b011, 0b101, 0b110]),
        ("0/0.1/0.2", vec![0b001, 0b011, 0b101]),
        ("0.1.2/0.1/0.1.2", vec![0b011, 0b111]),
    ] {
        let formed = quorums::<Maekawa>(3, &[("quorums", sets)]).expect("any two meet");
        assert_eq!(formed, members);
        assert_meet(sets, &formed);
    }
    for sets in ["0.1/1/2", "0/1/2", "0.1/0.1/2"] {
        let refused = quorums::<Maekawa>(3, &[("quorums", sets)]).expect_err("two do not meet");
        assert!(refused.to_string().contains("do not meet"), "{sets}: {refused}");
    }
}

#[test]
fn sets_that_do_not_meet_are_noticed() {
    assert!(!meet(&[0b011, 0b110, 0b1001, 0b0110]));
}

#[test]
fn every_quorum_that_the_host_can_choose_is_known_and_they_meet() {
    for (name, found, count) in [
        ("any 3 of 5", quorums::<Majority>(5, &[("quorum", "any")]), 10),
        ("a tree of 3", quorums::<TreeQuorum>(3, &[("path", "any")]), 3),
        ("a tree of 7", quorums::<TreeQuorum>(7, &[("path", "any")]), 15),
    ] {
        let found = found.expect("quorums that the host can choose");
        assert_eq!(found.len(), count, "{name}: {found:?}");
        assert_meet(name, &found);
    }
}

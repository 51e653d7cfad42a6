//! The axiom of the quorum algorithms' model, for the quorums that are really formed.

use meshlock_protocol::algorithms::maekawa::Maekawa;
use meshlock_protocol::algorithms::majority::Majority;
use meshlock_protocol::algorithms::tree_quorum::TreeQuorum;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::{Cluster, Described, Holders, ModelFacts, Modelled, SiteId};

/// The quorums that the sites may form, as the model is told of them: the members as bits.
fn quorums<A: Modelled + Described>(sites: usize, options: &[(&str, &str)]) -> Vec<u64> {
    let cluster = Cluster::of(sites);
    let mut values = Values::defaults(&A::INFO);
    for (name, value) in options {
        values.set(name, value).expect("an option of the algorithm");
    }
    let plan = A::plan(cluster, &values).expect("quorums for any number of sites");
    let mut facts = ModelFacts::default();
    for me in SiteId::all(sites) {
        A::start(&plan, me, &Holders::none()).facts(&mut facts);
    }
    let mut quorums: Vec<u64> =
        facts.0.iter().filter(|fact| fact.symbol == "quorum").map(|fact| fact.arguments[0]).collect();
    quorums.sort_unstable();
    quorums.dedup();
    quorums
}

fn meet(quorums: &[u64]) -> bool {
    quorums.iter().all(|one| quorums.iter().all(|other| one & other != 0))
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
            assert!(!quorums.is_empty() && meet(&quorums), "{name} with {sites} sites: {quorums:?}");
        }
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
        assert_eq!(found.len(), count, "{name}: {found:?}");
        assert!(meet(&found), "{name}: {found:?}");
    }
}

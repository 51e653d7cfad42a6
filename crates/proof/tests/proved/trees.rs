//! The axioms about trees and rings, for those on which the code really runs: more of them, and larger ones, than the runs that are compared.

use meshlock_proof::models::{self, Covered};
use meshlock_proof::text;
use meshlock_proof::tie::{TieBreak, TieRun, compare};
use meshlock_protocol::Chooser;
use meshlock_protocol::algorithms::raymond::Raymond;
use meshlock_protocol::algorithms::token_ring::TokenRing;

/// Only the first state of the code, in which the axioms are evaluated, and the steps from it.
fn first_state(sites: usize, spec: Option<&'static str>) -> TieRun {
    TieRun { sites, permits: 1, entries: 1, inside: None, returns: false, spec, most_states: 1 }
}

fn assert_axioms_hold(covered: &Covered, sites: usize, spec: Option<&'static str>) {
    let found = covered.compare(&first_state(sites, spec));
    let report = found.unwrap_or_else(|why| panic!("{}, {sites} sites, {spec:?}: {why}", covered.name));
    assert_eq!(report.states, 1);
}

/// The tree that Prüfer's code stands for, as the option says it. Every tree of `code.len() + 2` sites has one code.
fn tree_of(code: &[usize]) -> String {
    let sites = code.len() + 2;
    let mut degrees = vec![1; sites];
    for &site in code {
        degrees[site] += 1;
    }
    let mut edges = Vec::new();
    for &site in code {
        let leaf = degrees.iter().position(|&degree| degree == 1).expect("a tree has a leaf");
        edges.push(format!("{leaf}-{site}"));
        degrees[leaf] = 0;
        degrees[site] -= 1;
    }
    let last: Vec<usize> = (0..sites).filter(|&site| degrees[site] == 1).collect();
    edges.push(format!("{}-{}", last[0], last[1]));
    edges.join("/")
}

/// A name that lives as long as the names of the recorded runs.
fn raymond_on(tree: &str) -> &'static str {
    String::leak(format!("raymond:tree={tree}"))
}

#[test]
fn the_axioms_of_raymond_hold_on_every_tree_of_five_sites_and_on_larger_ones_that_are_drawn() {
    let covered = models::find("raymond").expect("a model");
    for sites in 2..=5_usize {
        let codes = sites.pow(u32::try_from(sites - 2).expect("a few sites"));
        for number in 0..codes {
            let digit = |at: u32| number / sites.pow(at) % sites;
            let code: Vec<usize> = (0..).take(sites - 2).map(digit).collect();
            assert_axioms_hold(covered, sites, Some(raymond_on(&tree_of(&code))));
        }
    }
    let mut drawn = Chooser::seeded(1);
    for sites in [6_u32, 7, 8, 9] {
        for _ in 0..8 {
            let code: Vec<usize> = (2..sites).map(|_| drawn.answer(sites) as usize).collect();
            assert_axioms_hold(covered, sites as usize, Some(raymond_on(&tree_of(&code))));
        }
    }
}

#[test]
fn the_axioms_of_raymond_hold_on_each_shape_that_has_a_name() {
    let covered = models::find("raymond").expect("a model");
    for spec in [None, Some("raymond:tree=star"), Some("raymond:tree=line")] {
        (1..=9).for_each(|sites| assert_axioms_hold(covered, sites, spec));
    }
}

#[test]
fn the_axioms_of_the_token_ring_hold_on_every_ring_that_is_looked_at() {
    let covered = models::find("token-ring").expect("a model");
    (1..=12).for_each(|sites| assert_axioms_hold(covered, sites, None));
}

#[test]
fn an_axiom_that_a_tree_or_a_ring_breaks_is_noticed() {
    let broken = |name: &str, from: &str, to: &str| {
        let covered = models::find(name).expect("a model");
        assert!(covered.text.contains(from), "{from}");
        let model = text::parse(&covered.text.replace(from, to)).expect("a model");
        let (spec, run) = (name.parse().expect("an algorithm"), first_state(4, None));
        let found = match name {
            "raymond" => compare::<Raymond>(&model, &spec, &run),
            _ => compare::<TokenRing>(&model, &spec, &run),
        };
        match found {
            Err(TieBreak::Axiom { name }) => name,
            other => panic!("{from}: {other:?}"),
        }
    };
    for (axiom, from, to) in [
        ("one_way", "toward(i, r, h) -> k = h", "toward(i, r, h) -> k = r"),
        ("edges_are_mutual", "(toward(i, k, k) -> toward(k, i, i))", "(toward(i, k, k) -> toward(i, i, k))"),
        ("ways_along_an_edge", "& i != r & i != h & toward", "& i != r & toward"),
        ("ways_lead_nearer", "-> nearer(k, i, r)", "-> nearer(i, k, r)"),
        ("nearer_is_an_order", "nearer(j, k, r) -> nearer(i, k, r)", "nearer(j, k, r) -> nearer(k, i, r)"),
    ] {
        assert_eq!(broken("raymond", from, to), axiom);
    }
    for (axiom, from, to) in [
        ("ring_is_an_order", "between(i, x, y) | between(i, y, x)", "between(i, x, y)"),
        ("predecessor_comes_before", "-> between(i, k, j)", "-> between(i, j, k)"),
    ] {
        assert_eq!(broken("token-ring", from, to), axiom);
    }
}

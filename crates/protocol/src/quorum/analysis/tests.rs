//! Known figures, and different ways to the same figure.

use super::*;
use crate::quorum::plane::points;

fn analysed(system: &QuorumSystem) -> Analysis {
    Analysis::of(system, &[0.0, 0.1, 0.3, 0.5, 1.0], Sampling::default())
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

#[test]
fn the_load_of_a_plane_is_the_share_of_a_line() {
    for order in [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 31] {
        let load = QuorumLoad::of(&QuorumSystem::plane(order).unwrap());
        let expected = (order + 1) as f64 / points(order) as f64;
        assert!(
            close(load.best, expected) && close(load.even.unwrap(), expected),
            "order {order}: {}",
            load.best
        );
        assert!(load.of_sites.iter().all(|&of_site| close(of_site, expected)));
        assert!(close(load.strategy.unwrap().iter().sum(), 1.0));
    }
}

#[test]
fn majorities_and_square_grids_have_the_load_of_their_size() {
    assert!(close(QuorumLoad::of(&QuorumSystem::all_majorities(7).unwrap()).best, 4.0 / 7.0));
    assert!(close(QuorumLoad::of(&QuorumSystem::majority(101).unwrap()).best, 51.0 / 101.0));
    assert!(close(QuorumLoad::of(&QuorumSystem::grid(100).unwrap()).best, 19.0 / 100.0));
}

#[test]
fn the_root_of_a_tree_is_always_asked_unless_paths_may_go_around_it() {
    let paths = QuorumLoad::of(&QuorumSystem::tree(15, &SiteSet::new()).unwrap());
    assert!(close(paths.best, 1.0));
    assert!(close(paths.of_sites[14], 1.0 / 8.0));
    // Naor and Wool: 2/(h+2) for a complete tree of height h.
    let whole = QuorumLoad::of(&QuorumSystem::whole_tree(15).unwrap());
    assert!(close(whole.best, 2.0 / 5.0), "{}", whole.best);
}

/// Three sites of which one has the casting vote: it need not be asked more than the others.
#[test]
fn the_best_strategy_evens_out_what_asking_all_sets_alike_does_not() {
    let system = QuorumSystem::votes(&[2, 1, 1, 1], 3).unwrap();
    let load = QuorumLoad::of(&system);
    assert!(close(load.even.unwrap(), 3.0 / 4.0));
    assert!(close(load.best, 3.0 / 5.0), "{}", load.best);
}

/// The whole program, without classes, over a family with hardly any symmetry.
#[test]
fn the_load_bounds_every_strategy() {
    for sites in [10, 29, 50] {
        let system = QuorumSystem::folded_plane(sites).unwrap();
        let load = QuorumLoad::of(&system);
        let least = Sizes::of(&system, &load).least as f64;
        assert!(load.best >= least / sites as f64 - 1e-9);
        assert!(load.best <= load.even.unwrap() + 1e-9);
        let strategy = load.strategy.unwrap();
        assert!(close(strategy.iter().sum(), 1.0));
        assert!(strategy.iter().all(|&share| share >= 0.0));
    }
}

#[test]
fn majorities_survive_all_but_a_majority() {
    for sites in 1..=9 {
        let figures = analysed(&QuorumSystem::all_majorities(sites).unwrap());
        assert_eq!(figures.resilience, Resilience { at_least: (sites - 1) / 2, at_most: (sites - 1) / 2 });
        assert_eq!(figures.availability.method, Method::Subsets);
    }
}

#[test]
fn the_availability_of_three_sites_is_that_of_the_textbook() {
    let figures = analysed(&QuorumSystem::all_majorities(3).unwrap());
    let up = |failing: f64| (1.0 - failing).powi(3) + 3.0 * failing * (1.0 - failing).powi(2);
    for point in &figures.availability.points {
        assert!(close(point.available, up(point.failing)), "{point:?}");
    }
}

/// Reference: section 9.9.4: as long as fewer than log n sites fail.
#[test]
fn the_whole_tree_survives_as_many_failures_as_it_has_levels_less_one() {
    for (sites, survived) in [(1, 0), (3, 1), (7, 2), (15, 3)] {
        let figures = analysed(&QuorumSystem::whole_tree(sites).unwrap());
        assert_eq!(figures.resilience.at_least, survived);
        assert!(figures.resilience.is_exact());
    }
    let paths = analysed(&QuorumSystem::tree(15, &SiteSet::new()).unwrap());
    assert_eq!(paths.resilience.at_most, 0, "nothing goes around the root");
}

#[test]
fn the_ways_to_find_the_resilience_agree() {
    for system in samples() {
        let load = QuorumLoad::of(&system);
        let by_subsets = Survivors::count(&system).expect("few sites");
        let exact = Resilience::of(&system, Some(&by_subsets), &load);
        assert_eq!(Resilience::of(&system, None, &load), exact, "{system}");
    }
}

#[test]
fn the_ways_to_find_the_availability_agree() {
    let failing = [0.0, 0.05, 0.2, 0.5, 0.9, 1.0];
    for system in samples() {
        let by_subsets = Survivors::count(&system).expect("few sites");
        let exact = Availability::of(&system, Some(&by_subsets), &failing, Sampling::default());
        let other = Availability::of(&system, None, &failing, Sampling::default());
        assert_ne!(other.method, Method::Subsets);
        for (point, other) in exact.points.iter().zip(&other.points) {
            // Five times 95 % of the error is out of reach for so few comparisons.
            let allowed = 1e-9 + 2.5 * other.error;
            assert!((point.available - other.available).abs() <= allowed, "{system}: {point:?} {other:?}");
        }
    }
}

fn samples() -> Vec<QuorumSystem> {
    vec![
        QuorumSystem::plane(2).unwrap(),
        QuorumSystem::plane(3).unwrap(),
        QuorumSystem::plane(4).unwrap(),
        QuorumSystem::grid(10).unwrap(),
        QuorumSystem::grid(16).unwrap(),
        QuorumSystem::folded_plane(18).unwrap(),
        QuorumSystem::tree(15, &SiteSet::new()).unwrap(),
        QuorumSystem::whole_tree(10).unwrap(),
        QuorumSystem::votes(&[3, 2, 2, 1, 1, 1, 0], 6).unwrap(),
        QuorumSystem::majority(11).unwrap(),
        QuorumSystem::parse(6, "0.1/2.3/0.4/2.5").unwrap(),
        QuorumSystem::parse(1, "0").unwrap(),
    ]
}

#[test]
fn a_plane_survives_one_failure_less_than_a_line_has_sites_whatever_its_size() {
    for order in [5, 7, 16, 31] {
        let system = QuorumSystem::plane(order).unwrap();
        let resilience = Resilience::of(&system, None, &QuorumLoad::of(&system));
        assert_eq!(resilience, Resilience { at_least: order, at_most: order });
    }
}

#[test]
fn a_grid_survives_fewer_failures_than_it_has_rows() {
    let system = QuorumSystem::grid(49).unwrap();
    let resilience = Resilience::of(&system, None, &QuorumLoad::of(&system));
    assert_eq!(resilience, Resilience { at_least: 6, at_most: 6 });
}

#[test]
fn the_same_seed_gives_the_same_samples() {
    let system = QuorumSystem::grid(40).unwrap();
    let curve = |seed| Analysis::of(&system, &[0.2], Sampling { samples: 500, seed }).availability;
    assert_eq!(curve(7), curve(7));
    assert_ne!(curve(7), curve(8));
}

#[test]
fn a_lone_entry_costs_three_messages_to_each_other_member() {
    let messages = |system: &QuorumSystem| analysed(system).messages;
    let plane = messages(&QuorumSystem::plane(3).unwrap());
    assert_eq!((plane.least, plane.most), (9, 9));
    let not_its_own = messages(&QuorumSystem::parse(2, "0/0").unwrap());
    assert_eq!((not_its_own.least, not_its_own.most), (0, 3));
    assert!(close(not_its_own.mean, 1.5));
}

fn assert_like(by_rule: &Analysis, listed: &Analysis) {
    assert!(close(by_rule.load.best, listed.load.best), "{} {}", by_rule.load.best, listed.load.best);
    assert!(close(by_rule.load.of_sites.iter().copied().fold(0.0, f64::max), by_rule.load.best));
    assert_eq!(by_rule.resilience, listed.resilience);
    assert_eq!((by_rule.sizes.least, by_rule.sizes.most), (listed.sizes.least, listed.sizes.most));
    for (one, other) in by_rule.availability.points.iter().zip(&listed.availability.points) {
        assert!(close(one.available, other.available), "{one:?} {other:?}");
    }
}

#[test]
fn the_rule_of_a_tree_gives_what_its_listed_sets_give() {
    for sites in 1..=17 {
        let rule = QuorumRule::tree(sites).unwrap();
        let by_rule = Analysis::of_rule(&rule, &[0.0, 0.2, 0.5, 1.0], Sampling::default()).unwrap();
        let listed = QuorumSystem::whole_tree(sites).unwrap();
        assert_like(&by_rule, &Analysis::of(&listed, &[0.0, 0.2, 0.5, 1.0], Sampling::default()));
        assert_eq!(by_rule.availability.method, Method::Rule);
    }
}

#[test]
fn the_rule_of_votes_gives_what_the_listed_coalitions_give() {
    let votes: [(&[u32], u64); 6] = [
        (&[1; 7], 4),
        (&[2; 6], 7),
        (&[3, 1, 1, 1], 4),
        (&[4, 3, 3, 2, 1, 1, 0], 8),
        (&[0, 5, 5], 10),
        (&[9], 1),
    ];
    for (votes, quota) in votes {
        let rule = QuorumRule::votes(votes.to_vec(), quota).unwrap();
        let by_rule = Analysis::of_rule(&rule, &[0.0, 0.2, 0.5, 1.0], Sampling::default()).unwrap();
        let listed = QuorumSystem::votes(votes, quota).unwrap();
        assert_like(&by_rule, &Analysis::of(&listed, &[0.0, 0.2, 0.5, 1.0], Sampling::default()));
    }
}

#[test]
fn the_rule_of_a_grid_knows_how_many_failures_it_survives() {
    for sites in 1..=26 {
        let listed = QuorumSystem::grid(sites).unwrap();
        let exact = Survivors::count(&listed).and_then(|survivors| survivors.resilience());
        assert_eq!(Some(QuorumRule::grid(sites).unwrap().resilience()), exact, "{sites} sites");
    }
}

#[test]
fn a_rule_answers_for_a_thousand_sites() {
    let tree = Analysis::of_rule(&QuorumRule::tree(1023).unwrap(), &[0.1], Sampling::default()).unwrap();
    assert_eq!((tree.sizes.least, tree.sizes.most, tree.resilience.at_least), (10, 512, 9));
    assert!(close(tree.load.best, 2.0 / 11.0));
    let majority = QuorumRule::majority(1001).unwrap();
    let majority = Analysis::of_rule(&majority, &[0.1], Sampling::default()).unwrap();
    assert_eq!((majority.sizes.least, majority.resilience.at_least), (501, 500));
    assert!(majority.availability.points[0].available > 0.999_999);
}

//! The examples of section 9.7, and each violation by name.

use super::*;

fn family(sites: usize, text: &str) -> QuorumSystem {
    QuorumSystem::parse(sites, text).unwrap()
}

fn against(system: &QuorumSystem, property: Property) -> String {
    match property.check(system) {
        QuorumVerdict::Fails(violation) => violation.to_string(),
        verdict @ (QuorumVerdict::Holds | QuorumVerdict::Undecided) => format!("{verdict:?}"),
    }
}

/// Reference: section 9.7, the example of the intersection property.
#[test]
fn the_first_and_the_third_set_of_the_chapters_example_share_nothing() {
    let system = family(10, "1.2.3/2.5.7/5.7.9");
    let expected = "set 0 {1,2,3} and set 2 {5,7,9} have no site in common";
    assert_eq!(against(&system, Property::Intersection), expected);
    assert_eq!(against(&system, Property::M1), expected);
}

/// Reference: section 9.7, the example of the minimality property.
#[test]
fn the_first_set_of_the_chapters_example_contains_the_second() {
    let system = family(4, "1.2.3/1.3");
    assert_eq!(against(&system, Property::Minimality), "set 0 {1,2,3} contains set 1 {1,3}");
    assert_eq!(Property::Intersection.check(&system), QuorumVerdict::Holds);
}

#[test]
fn planes_majorities_and_square_grids_have_all_four_of_maekawas_properties() {
    let four = [Property::M1, Property::M2, Property::M3, Property::M4];
    let mut systems = vec![QuorumSystem::grid(49).unwrap(), QuorumSystem::grid(1).unwrap()];
    systems.extend([2, 3, 4, 5, 7, 8, 9].map(|order| QuorumSystem::plane(order).unwrap()));
    systems.extend([1, 2, 3, 10, 11].map(|sites| QuorumSystem::majority(sites).unwrap()));
    for system in &systems {
        for property in four {
            assert_eq!(property.check(system), QuorumVerdict::Holds, "{property} of {system}");
        }
    }
}

#[test]
fn maekawas_properties_fail_by_name() {
    let system = family(4, "0.1/1.2/0.2/0.1.3");
    assert_eq!(Property::M2.check(&system), QuorumVerdict::Holds);
    assert_eq!(against(&system, Property::M3), "set 0 {0,1} and set 3 {0,1,3} have different sizes");
    assert_eq!(against(&system, Property::M4), "site 0 is in 3 sets and site 2 in 2");
    assert_eq!(against(&family(2, "0/0"), Property::M2), "site 1 is not in its own set, set 1 {0}");
    assert_eq!(
        against(&family(3, "0.1/0.2"), Property::M2),
        "there are 2 sets for 3 sites: each site must have one of its own"
    );
}

#[test]
fn a_folded_plane_and_an_incomplete_grid_have_the_first_two() {
    for system in [QuorumSystem::folded_plane(10).unwrap(), QuorumSystem::grid(10).unwrap()] {
        assert_eq!(Property::M1.check(&system), QuorumVerdict::Holds);
        assert_eq!(Property::M2.check(&system), QuorumVerdict::Holds);
        assert!(matches!(Property::M4.check(&system), QuorumVerdict::Fails(_)));
    }
}

#[test]
fn equal_sets_are_one_set() {
    assert_eq!(Property::Minimality.check(&family(2, "0.1/0.1")), QuorumVerdict::Holds);
}

#[test]
fn a_1_coterie_is_a_coterie() {
    for system in [QuorumSystem::plane(3).unwrap(), QuorumSystem::whole_tree(7).unwrap()] {
        assert_eq!(Property::KCoterie(1).check(&system), QuorumVerdict::Holds);
    }
    assert_eq!(
        against(&family(4, "0.1/2.3"), Property::KCoterie(1)),
        "set 0 {0,1}, set 1 {2,3} have no site in common, two by two: more than k could enter"
    );
}

#[test]
fn votes_with_a_quota_above_a_third_let_two_in() {
    let system = QuorumSystem::votes(&[1; 8], 3).unwrap();
    assert_eq!(Property::KCoterie(2).check(&system), QuorumVerdict::Holds);
    let system = QuorumSystem::votes(&[1; 9], 3).unwrap();
    assert!(against(&system, Property::KCoterie(2)).ends_with("more than k could enter"));
    let system = QuorumSystem::votes(&[1; 5], 3).unwrap();
    assert_eq!(
        against(&system, Property::KCoterie(2)),
        "set 0 {0,1,2} meet every set: fewer than k could enter"
    );
}

#[test]
fn a_set_that_blocks_all_others_is_found_even_if_other_pairs_are_disjoint() {
    let system = family(6, "0.1/2.3/0.4/2.5/1.2");
    // Each set has another beside it ({1,2} has {0,4}), and no two disjoint ones leave a third.
    assert_eq!(Property::KCoterie(2).check(&system), QuorumVerdict::Holds);
    let system = family(6, "0.1/2.3/0.4/2.5/0.2");
    assert_eq!(
        against(&system, Property::KCoterie(2)),
        "set 4 {0,2} meet every set: fewer than k could enter"
    );
}

#[test]
fn many_sets_over_few_sites_are_checked_by_subsets() {
    let mut sets = QuorumSystem::all_majorities(13).unwrap().quorums().to_vec();
    let whole = QuorumSystem::new(13, sets.clone());
    assert_eq!(Property::Intersection.check(&whole), QuorumVerdict::Holds);
    assert_eq!(Property::Minimality.check(&whole), QuorumVerdict::Holds);
    sets.push((0..3).map(SiteId::new).collect());
    let spoilt = QuorumSystem::new(13, sets);
    assert_eq!(against(&spoilt, Property::Minimality), "set 0 {0,1,2,3,4,5,6} contains set 1716 {0,1,2}");
    let disjoint = against(&spoilt, Property::Intersection);
    assert_eq!(disjoint, "set 1596 {3,4,5,6,7,8,9} and set 1716 {0,1,2} have no site in common");
}

#[test]
fn an_empty_set_is_named() {
    let system = QuorumSystem::new(2, vec![SiteSet::all(2), SiteSet::new()]);
    assert_eq!(against(&system, Property::Intersection), "set 1 is empty");
    assert_eq!(against(&system, Property::KCoterie(1)), "set 1 is empty");
}

//! The examples of section 9.9.4, and what must hold for any tree.

use super::*;

/// Sites as the chapter counts them: from 1.
fn set(sites: &[usize]) -> SiteSet {
    sites.iter().map(|site| SiteId::new(site - 1)).collect()
}

fn figure_9_16(failed: &[usize]) -> Result<Vec<SiteSet>, BuildQuorumsError> {
    let system = QuorumSystem::tree(15, &set(failed))?;
    let mut quorums = system.quorums().to_vec();
    quorums.sort();
    Ok(quorums)
}

fn sorted<const LEN: usize>(expected: &[[usize; LEN]]) -> Vec<SiteSet> {
    let mut sets: Vec<SiteSet> = expected.iter().map(|sites| set(sites)).collect();
    sets.sort();
    sets
}

/// Reference: section 9.9.4, Figure 9.16.
#[test]
fn without_failures_the_quorums_are_the_eight_paths_from_root_to_leaf() {
    let paths = [
        [1, 2, 4, 8],
        [1, 2, 4, 9],
        [1, 2, 5, 10],
        [1, 2, 5, 11],
        [1, 3, 6, 12],
        [1, 3, 6, 13],
        [1, 3, 7, 14],
        [1, 3, 7, 15],
    ];
    assert_eq!(figure_9_16(&[]), Ok(sorted(&paths)));
}

/// Reference: section 9.9.4, "when node 3 fails, the following eight quorums can be formed".
#[test]
fn with_site_3_failed_both_its_children_stand_in_for_it() {
    let mut expected = sorted(&[[1, 6, 12, 7, 14], [1, 6, 12, 7, 15], [1, 6, 13, 7, 14], [1, 6, 13, 7, 15]]);
    expected.extend(sorted(&[[1, 2, 4, 8], [1, 2, 4, 9], [1, 2, 5, 10], [1, 2, 5, 11]]));
    expected.sort();
    assert_eq!(figure_9_16(&[3]), Ok(expected));
}

/// Reference: section 9.9.4, "the following are the candidates for quorums".
#[test]
fn with_sites_1_and_2_failed_sixteen_quorums_remain() {
    let candidates = [
        [4, 5, 3, 6, 8, 10, 12],
        [4, 5, 3, 6, 8, 10, 13],
        [4, 5, 3, 6, 8, 11, 12],
        [4, 5, 3, 6, 8, 11, 13],
        [4, 5, 3, 6, 9, 10, 12],
        [4, 5, 3, 6, 9, 10, 13],
        [4, 5, 3, 6, 9, 11, 12],
        [4, 5, 3, 6, 9, 11, 13],
        [4, 5, 3, 7, 8, 10, 14],
        [4, 5, 3, 7, 8, 10, 15],
        [4, 5, 3, 7, 8, 11, 14],
        [4, 5, 3, 7, 8, 11, 15],
        [4, 5, 3, 7, 9, 10, 14],
        [4, 5, 3, 7, 9, 10, 15],
        [4, 5, 3, 7, 9, 11, 14],
        [4, 5, 3, 7, 9, 11, 15],
    ];
    assert_eq!(figure_9_16(&[1, 2]), Ok(sorted(&candidates)));
}

/// Reference: section 9.9.4, "when sites 1, 2, 4, and 8 are inaccessible".
#[test]
fn with_a_whole_path_failed_there_is_no_quorum() {
    let failed = set(&[1, 2, 4, 8]);
    assert_eq!(figure_9_16(&[1, 2, 4, 8]), Err(BuildQuorumsError::NoQuorumLeft(failed.clone())));
    assert_eq!(Tree::new(15).quorum(&failed, |_| true), None);
    // Another leaf than 8 leaves some: "quorum formation can continue with other working nodes".
    assert!(figure_9_16(&[1, 2, 4]).is_ok());
    assert_eq!(Tree::new(15).quorum(&set(&[8]), |_| true), Some(set(&[1, 2, 4, 9])));
}

/// Where the printed line 15 ends the program, a sibling's path may still succeed: sites 2 and 5's leaves are
/// gone, but the right half is whole.
#[test]
fn a_path_that_fails_deep_down_gives_way_to_its_sibling() {
    let failed = set(&[2, 5, 10, 11]);
    assert_eq!(Tree::new(15).quorum(&failed, |_| true), Some(set(&[1, 3, 6, 12])));
}

fn sets_of(bits: usize, sites: usize) -> SiteSet {
    SiteId::all(sites).filter(|site| bits >> site.index() & 1 == 1).collect()
}

/// Reference: section 9.9.4, graceful degradation; "less than log n" is about *some* quorum.
#[test]
fn a_complete_tree_survives_any_failures_fewer_than_its_levels() {
    for (levels, sites) in [(1, 1), (2, 3), (3, 7), (4, 15)] {
        let survives = |failures: u32| {
            (0..1_usize << sites)
                .filter(|bits| bits.count_ones() == failures)
                .all(|bits| Tree::new(sites).quorum(&sets_of(bits, sites), |_| true).is_some())
        };
        assert!(survives(levels - 1), "{sites} sites");
        assert!(!survives(levels), "{sites} sites");
    }
}

#[test]
fn get_quorum_finds_a_quorum_exactly_when_enumeration_lists_one() {
    for sites in 1..=10 {
        let tree = Tree::new(sites);
        for bits in 0..1_usize << sites {
            let failed = sets_of(bits, sites);
            let listed = tree.quorums(&failed).map(|all| all.quorums().to_vec()).unwrap_or_default();
            for me in SiteId::all(sites) {
                match tree.quorum_for(me, &failed) {
                    Some(found) => assert!(listed.contains(&found)),
                    None => assert!(listed.is_empty()),
                }
            }
            assert!(listed.iter().all(|quorum| !quorum.intersects(&failed)));
        }
    }
}

#[test]
fn every_two_quorums_meet_whatever_has_failed_and_whatever_the_number_of_sites() {
    for sites in 1..=16 {
        let whole = QuorumSystem::whole_tree(sites).unwrap();
        for (at, quorum) in whole.quorums().iter().enumerate() {
            for other in &whole.quorums()[..at] {
                assert!(quorum.intersects(other), "{sites} sites: {quorum} and {other}");
                assert!(!quorum.is_subset(other) && !other.is_subset(quorum), "{quorum} and {other}");
            }
        }
    }
    assert_eq!(QuorumSystem::whole_tree(15).unwrap().quorums().len(), 255);
    assert_eq!(QuorumSystem::whole_tree(63), Err(BuildQuorumsError::TooManySets));
}

#[test]
fn what_enumeration_lists_contains_a_quorum_of_the_whole_tree() {
    for sites in 1..=9 {
        let whole = QuorumSystem::whole_tree(sites).unwrap();
        for bits in 0..1_usize << sites {
            let listed = Tree::new(sites).quorums(&sets_of(bits, sites));
            for quorum in listed.iter().flat_map(QuorumSystem::quorums) {
                assert!(whole.quorums().iter().any(|least| least.is_subset(quorum)));
            }
        }
    }
}

#[test]
fn a_process_goes_through_its_own_site() {
    for sites in 1..=40 {
        let tree = Tree::new(sites);
        for me in SiteId::all(sites) {
            let quorum = tree.quorum_for(me, &SiteSet::new()).unwrap();
            assert!(quorum.contains(me) && quorum.contains(Tree::root()));
            assert_eq!(quorum.iter().filter(|&site| tree.is_leaf(site)).count(), 1);
            assert!(quorum.iter().all(|site| tree.parent(site).is_none_or(|above| quorum.contains(above))));
        }
    }
}

#[test]
fn a_site_that_does_not_exist_cannot_have_failed() {
    let refused = QuorumSystem::tree(3, &set(&[4])).unwrap_err();
    assert_eq!(refused.to_string(), "site 3 does not exist: the sites are 0 to 2");
}

//! Classes of like sets and like sites, which make a linear program over a symmetric family small.
//!
//! The coarsest partition in which all sets of a class have equally many sites of each class, and all sites of a
//! class are in equally many sets of each class. In it, averaging a strategy over a class changes no site's load
//! above the class's mean, so some best strategy gives all sets of a class the same weight. A plane
//! has one class of each; a tree one for each level. Found by refinement: start with one class each and split by
//! what the members look like until nothing splits.

use std::collections::BTreeMap;

use crate::SiteSet;
use crate::quorum::QuorumSystem;

/// The partition: a class, `0..`, for every set and for every site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Classes {
    pub(super) of_set: Vec<usize>,
    pub(super) of_site: Vec<usize>,
}

impl Classes {
    pub(super) fn of(system: &QuorumSystem) -> Self {
        let members: Vec<Vec<usize>> = system.quorums().iter().map(indices).collect();
        let mut sets_of_site = vec![Vec::new(); system.sites()];
        for (set, sites) in members.iter().enumerate() {
            for &site in sites {
                sets_of_site[site].push(set);
            }
        }
        let mut classes = Classes { of_set: vec![0; members.len()], of_site: vec![0; system.sites()] };
        loop {
            let of_set = split(&classes.of_set, &members, &classes.of_site);
            let of_site = split(&classes.of_site, &sets_of_site, &of_set);
            // Splitting only adds classes, so as many as before are the same as before.
            let settled =
                count(&of_set) == count(&classes.of_set) && count(&of_site) == count(&classes.of_site);
            classes = Classes { of_set, of_site };
            if settled {
                return classes;
            }
        }
    }
}

/// How many classes there are.
pub(super) fn count(classes: &[usize]) -> usize {
    classes.iter().max().map_or(0, |last| last + 1)
}

fn indices(set: &SiteSet) -> Vec<usize> {
    set.iter().map(|site| site.index()).collect()
}

/// Splits `classes` by the classes of what each is linked with. The order of the new classes follows from the
/// old ones alone.
fn split(classes: &[usize], links: &[Vec<usize>], linked: &[usize]) -> Vec<usize> {
    let look = |at: usize| {
        let mut seen: Vec<usize> = links[at].iter().map(|&other| linked[other]).collect();
        seen.sort_unstable();
        (classes[at], seen)
    };
    let mut known = BTreeMap::new();
    (0..classes.len())
        .map(|at| {
            let next = known.len();
            *known.entry(look(at)).or_insert(next)
        })
        .collect()
}

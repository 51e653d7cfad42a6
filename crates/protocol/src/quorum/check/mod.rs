//! Checks: what a family of sets must satisfy, with the offending sets named where it does not.
//!
//! - A **coterie** (chapter 9, section 9.7): every two sets meet (intersection), and none contains another
//!   (minimality, which saves work but is not needed for safety).
//! - **M1 to M4** (section 9.8): the family gives each site a set of its own; every two meet; each site is in its
//!   own; all sets have one size; all sites are in equally many sets.
//! - A **k-coterie** (Huang, Jiang and Kuo 1993), for k entries at once: among any k+1 sets two meet; while fewer
//!   than k disjoint sets are taken, some set is disjoint from all of them; and minimality.
//!
//! Equal sets count as one: two sites may well have the same quorum.

use std::collections::BTreeMap;
use std::fmt;

use crate::quorum::QuorumSystem;
use crate::quorum::subsets::Subsets;
use crate::{SiteId, SiteSet};

/// A property of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Every two sets meet.
    Intersection,
    /// No set contains another one.
    Minimality,
    /// Every two sites' sets meet.
    M1,
    /// Each site is in its own set.
    M2,
    /// All sets have one size.
    M3,
    /// All sites are in equally many sets.
    M4,
    /// The family lets `k` processes in at once, and no more.
    KCoterie(usize),
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuorumVerdict {
    /// The family has the property.
    Holds,
    /// The family does not have the property, for this reason.
    Fails(QuorumViolation),
    /// The search was given up after [`MAX_STEPS`]; nothing was found against it.
    Undecided,
}

/// One of the sets of the family: its place and its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its index, from 0.
    pub index: usize,
    /// Its members.
    pub set: SiteSet,
}

/// Why a family does not have a property.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuorumViolation {
    /// A set without a site.
    #[error("set {0} is empty")]
    Empty(usize),
    /// Two sets that share nothing.
    #[error("{0} and {1} have no site in common")]
    Disjoint(Named, Named),
    /// A set is contained in another.
    #[error("{larger} contains {smaller}")]
    Contains {
        /// The set that is not needed.
        larger: Named,
        /// The set that is contained in it.
        smaller: Named,
    },
    /// There is not one set for each site.
    #[error("there are {sets} sets for {sites} sites: each site must have one of its own")]
    NotOneEach { sets: usize, sites: usize },
    /// A site is not in its own set.
    #[error("site {} is not in its own set, {set}", site.index())]
    NotInOwn { site: SiteId, set: Named },
    /// Two sets have different sizes.
    #[error("{0} and {1} have different sizes")]
    Sizes(Named, Named),
    /// Two sites are in different numbers of sets.
    #[error("site {} is in {} sets and site {} in {}", .0.index(), .1, .2.index(), .3)]
    Shares(SiteId, usize, SiteId, usize),
    /// More processes could enter than `k`.
    #[error("{} have no site in common, two by two: more than k could enter", list(.0))]
    TooManyDisjoint(Vec<Named>),
    /// Fewer processes could enter than `k`.
    #[error("{} meet every set: fewer than k could enter", list(.0))]
    Blocking(Vec<Named>),
}

/// The number of comparisons of two sets after which the search for a violation of a k-coterie is given up.
pub const MAX_STEPS: u64 = 300_000_000;

impl Property {
    /// Whether the family has the property.
    pub fn check(self, system: &QuorumSystem) -> QuorumVerdict {
        let found = match self {
            Property::Intersection | Property::M1 => intersection(system),
            Property::Minimality => minimality(system),
            Property::M2 => own_membership(system),
            Property::M3 => equal_sizes(system),
            Property::M4 => equal_shares(system),
            Property::KCoterie(k) => return k_coterie(system, k),
        };
        found.map_or(QuorumVerdict::Holds, QuorumVerdict::Fails)
    }

    /// The property in a few words.
    pub fn about(self) -> String {
        match self {
            Property::Intersection => "every two sets meet".to_owned(),
            Property::Minimality => "no set contains another".to_owned(),
            Property::M1 => "the sets of every two sites meet".to_owned(),
            Property::M2 => "each site is in its own set".to_owned(),
            Property::M3 => "all sets have one size".to_owned(),
            Property::M4 => "all sites are in equally many sets".to_owned(),
            Property::KCoterie(k) => {
                format!("exactly {k} can be inside at once, and no set contains another")
            }
        }
    }
}

impl QuorumViolation {
    /// The sets that are to blame, where single sets are.
    pub fn sets(&self) -> Vec<&Named> {
        match self {
            QuorumViolation::Disjoint(one, other) | QuorumViolation::Sizes(one, other) => vec![one, other],
            QuorumViolation::Contains { larger, smaller } => vec![larger, smaller],
            QuorumViolation::NotInOwn { set, .. } => vec![set],
            QuorumViolation::TooManyDisjoint(sets) | QuorumViolation::Blocking(sets) => sets.iter().collect(),
            QuorumViolation::Empty(_) | QuorumViolation::NotOneEach { .. } | QuorumViolation::Shares(..) => {
                Vec::new()
            }
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Property::Intersection => f.write_str("intersection"),
            Property::Minimality => f.write_str("minimality"),
            Property::M1 => f.write_str("M1"),
            Property::M2 => f.write_str("M2"),
            Property::M3 => f.write_str("M3"),
            Property::M4 => f.write_str("M4"),
            Property::KCoterie(k) => write!(f, "{k}-coterie"),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {} {}", self.index, self.set)
    }
}

fn list(sets: &[Named]) -> String {
    sets.iter().map(Named::to_string).collect::<Vec<_>>().join(", ")
}

fn named(system: &QuorumSystem, index: usize) -> Named {
    Named { index, set: system.quorums()[index].clone() }
}

fn empty(system: &QuorumSystem) -> Option<QuorumViolation> {
    system.quorums().iter().position(SiteSet::is_empty).map(QuorumViolation::Empty)
}

/// The first pair, in order, of a set that is `suspect` and another that `bad` says is bad beside it.
fn first_pair(
    system: &QuorumSystem,
    suspect: impl Fn(&SiteSet) -> bool,
    bad: impl Fn(&SiteSet, &SiteSet) -> bool,
) -> Option<(Named, Named)> {
    let sets = system.quorums();
    let (one, other) = sets.iter().enumerate().filter(|(_, one)| suspect(one)).find_map(|(at, one)| {
        let other = sets.iter().position(|other| bad(one, other))?;
        Some((at, other))
    })?;
    Some((named(system, one), named(system, other)))
}

/// All subsets of the sites, where looking at them is quicker than looking at all pairs of sets.
fn subsets(system: &QuorumSystem) -> Option<Subsets> {
    Some(system).filter(|system| system.quorums().len() > 1000).and_then(Subsets::of)
}

fn intersection(system: &QuorumSystem) -> Option<QuorumViolation> {
    let subsets = subsets(system);
    let suspect = |set: &SiteSet| subsets.as_ref().is_none_or(|subsets| subsets.has_disjoint(set));
    let disjoint = || first_pair(system, suspect, |one, other| !one.intersects(other));
    empty(system).or_else(|| disjoint().map(|(one, other)| QuorumViolation::Disjoint(one, other)))
}

fn minimality(system: &QuorumSystem) -> Option<QuorumViolation> {
    let subsets = subsets(system);
    let suspect = |set: &SiteSet| subsets.as_ref().is_none_or(|subsets| subsets.has_smaller(set));
    let contains = |one: &SiteSet, other: &SiteSet| other.is_subset(one) && one != other;
    let (larger, smaller) = first_pair(system, suspect, contains)?;
    Some(QuorumViolation::Contains { larger, smaller })
}

fn one_each(system: &QuorumSystem) -> Option<QuorumViolation> {
    let (sets, sites) = (system.quorums().len(), system.sites());
    (sets != sites).then_some(QuorumViolation::NotOneEach { sets, sites })
}

fn own_membership(system: &QuorumSystem) -> Option<QuorumViolation> {
    let outside = |&site: &SiteId| !system.quorums()[site.index()].contains(site);
    one_each(system).or_else(|| {
        let site = SiteId::all(system.sites()).find(outside)?;
        Some(QuorumViolation::NotInOwn { site, set: named(system, site.index()) })
    })
}

fn equal_sizes(system: &QuorumSystem) -> Option<QuorumViolation> {
    let sets = system.quorums();
    let other = sets.iter().position(|set| set.len() != sets[0].len())?;
    Some(QuorumViolation::Sizes(named(system, 0), named(system, other)))
}

fn equal_shares(system: &QuorumSystem) -> Option<QuorumViolation> {
    one_each(system).or_else(|| {
        let shares = system.shares();
        let other = shares.iter().position(|&share| share != shares[0])?;
        Some(QuorumViolation::Shares(SiteId::new(0), shares[0], SiteId::new(other), shares[other]))
    })
}

/// Layer by layer, everything that h disjoint sets can cover; how they cover it makes no difference.
fn k_coterie(system: &QuorumSystem, k: usize) -> QuorumVerdict {
    if let Some(violation) = empty(system).or_else(|| minimality(system)) {
        return QuorumVerdict::Fails(violation);
    }
    let sets = system.quorums();
    let all_named = |indices: &[usize]| indices.iter().map(|&index| named(system, index)).collect();
    let mut covered = BTreeMap::from([(SiteSet::new(), Vec::new())]);
    let mut steps = 0;
    for taken in 0..=k {
        let mut next = BTreeMap::new();
        for (cover, by) in &covered {
            let before = next.len();
            let mut blocked = true;
            for (index, set) in sets.iter().enumerate().filter(|(_, set)| !set.intersects(cover)) {
                blocked = false;
                let more: Vec<usize> = by.iter().copied().chain([index]).collect();
                if taken == k {
                    return QuorumVerdict::Fails(QuorumViolation::TooManyDisjoint(all_named(&more)));
                }
                let mut union = cover.clone();
                union.union_with(set);
                next.entry(union).or_insert(more);
            }
            if blocked && taken < k {
                return QuorumVerdict::Fails(QuorumViolation::Blocking(all_named(by)));
            }
            // A cover that is new costs more than one that was known: it is kept.
            let kept = 10 + system.sites() / 4 + taken;
            steps += (sets.len() + kept * (next.len() - before)) as u64;
            if steps > MAX_STEPS {
                return QuorumVerdict::Undecided;
            }
        }
        covered = next;
    }
    QuorumVerdict::Holds
}

#[cfg(test)]
mod tests;

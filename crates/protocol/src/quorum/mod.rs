//! Quorum systems: families of sets of sites of which every two intersect (chapter 9, sections 9.7 to 9.9).
//!
//! A site that has the permission of all sites of one quorum may enter: any other site needs a quorum too, and so the
//! permission of a site that both share. Small quorums cost few messages, well spread ones share the work, many
//! different ones survive failures; no family is best at all three.
//!
//! | construction | any N? | size | a set for each site |
//! |---|---|---|---|
//! | [`plane`] | N = q²+q+1 | q+1 ≈ √N | yes, M1 to M4 |
//! | [`plane`], folded | yes | at most q+1, q of the next plane | yes, M1 and M2 |
//! | [`grid`] | yes | about 2√N | yes, M1 and M2 |
//! | [`tree`] | yes | log N to N/2 | as failures allow |
//! | [`majority`] | yes | ⌊N/2⌋+1 | yes, M1 to M4 |
//! | [`votes`] | yes | by the votes | no |
//! | [`QuorumSystem::parse`] | yes | as given | as given |

mod notation;
mod subsets;

#[cfg(feature = "analysis")]
pub mod analysis;
pub mod check;
pub mod field;
pub mod grid;
pub mod majority;
pub mod plane;
pub mod tree;
pub mod votes;

pub use notation::ParseQuorumsError;
pub use tree::Tree;

use crate::{SiteId, SiteSet};

/// The largest number of sites for which a family is built: the points of the largest plane. (Its sets take 13 MB then.)
pub const MAX_SITES: usize = plane::points(field::MAX_ORDER);

/// The largest number of sets that a construction lists, where their number grows faster than N.
pub const MAX_SETS: usize = 500_000;

/// A family of sets over the sites `0..sites`. The [`check`] module says whether they are quorums.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumSystem {
    sites: usize,
    quorums: Vec<SiteSet>,
}

/// Why a family cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildQuorumsError {
    #[error("no sites: a quorum system needs at least one")]
    NoSites,
    /// More than [`MAX_SITES`].
    #[error("{0} sites are too many: at most {MAX_SITES}")]
    TooManySites(usize),
    /// There is no field of that order, so no plane from it.
    #[error(
        "no projective plane of order {order} can be built: the order must be a power of a prime from 2 to {}, \
         for example {nearest}",
        field::MAX_ORDER
    )]
    NoPlane {
        order: usize,
        /// The closest order that works.
        nearest: usize,
    },
    /// More than [`MAX_SETS`].
    #[error("the family has more than {MAX_SETS} sets")]
    TooManySets,
    /// So many sites have failed that no quorum is left.
    #[error("no quorum can be formed when the sites {0} have failed")]
    NoQuorumLeft(SiteSet),
    /// A site that does not exist was named.
    #[error("site {} does not exist: the sites are 0 to {}", site.index(), sites - 1)]
    NoSuchSite { site: SiteId, sites: usize },
    /// Nobody has a vote.
    #[error("nobody has a vote: give at least one site one")]
    NoVotes,
    /// The quota is reached by no set or by every set.
    #[error("a quota of {quota} makes no quorums: it must be from 1 to {total}, the sum of the votes")]
    BadQuota {
        quota: u64,
        /// The sum of all votes.
        total: u64,
    },
}

impl QuorumSystem {
    /// The family of these sets, all within `0..sites`.
    pub fn new(sites: usize, quorums: Vec<SiteSet>) -> Self {
        let within = |quorum: &SiteSet| quorum.iter().all(|site| site.index() < sites);
        assert!(quorums.iter().all(within), "a set names a site that does not exist");
        QuorumSystem { sites, quorums }
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The sets, in order. Where the family gives each site a set, the `i`-th is that of site `i`.
    pub fn quorums(&self) -> &[SiteSet] {
        &self.quorums
    }

    /// The set of site `site`, where the family gives each site one.
    pub fn quorum_of(&self, site: SiteId) -> Option<&SiteSet> {
        self.quorums.get(site.index())
    }

    /// By site: the number of sets that contain it.
    pub fn shares(&self) -> Vec<usize> {
        let mut shares = vec![0; self.sites];
        for site in self.quorums.iter().flat_map(SiteSet::iter) {
            shares[site.index()] += 1;
        }
        shares
    }
}

/// Checks that a family can be built for this number of sites.
fn check_sites(sites: usize) -> Result<(), BuildQuorumsError> {
    match sites {
        0 => Err(BuildQuorumsError::NoSites),
        1..=MAX_SITES => Ok(()),
        _ => Err(BuildQuorumsError::TooManySites(sites)),
    }
}

#[cfg(test)]
mod tests;

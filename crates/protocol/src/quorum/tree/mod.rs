//! Tree quorums of Agrawal and El Abbadi (chapter 9, section 9.9): paths that go around failed sites.
//!
//! The sites form a binary tree in the shape of a heap: the children of site `i` are `2i+1` and `2i+2`, so any N
//! will do. A quorum is a path from the root to a leaf; a failed site on it is replaced by paths from *both* its
//! children to leaves. At best log N sites, at worst about half; any ⌈log₂(N+1)⌉ − 1 failures are survived
//! in a complete tree.
//!
//! **Departures.** Algorithm 9.6 ends with an error (line 15) as soon as one path is impossible; here GetQuorum
//! returns failure and the sibling's path is tried, as the prose of section 9.9.4 says. A site with only one
//! child, which the text leaves open, has only that way on: its path goes to the child, and if it has failed,
//! a path from the child replaces it. So every path still ends at a leaf, and every two quorums meet.

use crate::quorum::{BuildQuorumsError, MAX_SETS, QuorumSystem, check_sites};
use crate::{SiteId, SiteSet};

/// The sites `0..sites` as a heap-shaped binary tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    sites: usize,
}

impl QuorumSystem {
    /// All quorums that GetQuorum can form in a tree when exactly the sites of `failed` have failed; without
    /// failures the paths from the root to the leaves.
    pub fn tree(sites: usize, failed: &SiteSet) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        if let Some(site) = failed.iter().find(|site| site.index() >= sites) {
            return Err(BuildQuorumsError::NoSuchSite { site, sites });
        }
        Tree::new(sites).quorums(failed)
    }

    /// All quorums that GetQuorum can form in a tree, whichever sites have failed: the paths, and all that
    /// replaces them, without those that contain another.
    pub fn whole_tree(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        let quorums = Tree::new(sites).all_below(Tree::root(), Substitution::Always)?;
        Ok(QuorumSystem::new(sites, quorums))
    }
}

/// The sites that the enumeration avoids.
#[derive(Clone, Copy)]
enum Substitution<'a> {
    /// The sites that have failed.
    Of(&'a SiteSet),
    /// None: each site is both used and avoided.
    Always,
}

impl Tree {
    /// A tree of `sites` sites, at least one.
    pub fn new(sites: usize) -> Self {
        assert!(sites > 0, "a tree has a root");
        Tree { sites }
    }

    /// The root of every tree.
    pub fn root() -> SiteId {
        SiteId::new(0)
    }

    /// The number of sites.
    pub fn sites(self) -> usize {
        self.sites
    }

    /// The parent of `site`, unless it is the root.
    pub fn parent(self, site: SiteId) -> Option<SiteId> {
        site.index().checked_sub(1).map(|before| SiteId::new(before / 2))
    }

    /// The children: the left and the right one, only the left one, or none.
    pub fn children(self, site: SiteId) -> impl Iterator<Item = SiteId> {
        let left = 2 * site.index() + 1;
        (left..=left + 1).take_while(move |&child| child < self.sites).map(SiteId::new)
    }

    /// Whether `site` has no children.
    pub fn is_leaf(self, site: SiteId) -> bool {
        2 * site.index() + 1 >= self.sites
    }

    /// The number of steps from the root to `site`.
    pub fn depth(self, site: SiteId) -> u32 {
        (site.index() + 1).ilog2()
    }

    /// GetQuorum: a quorum without a `failed` site, or `None` if there is none. Where a path may go on to either
    /// child, `left_first` says of the site above whether to try the left one first. Each site is looked at once.
    pub fn quorum(self, failed: &SiteSet, mut left_first: impl FnMut(SiteId) -> bool) -> Option<SiteSet> {
        self.quorum_below(Tree::root(), failed, &mut left_first)
    }

    /// GetQuorum for the process at `me`: the path goes through `me` where it can, so that one member costs no
    /// message, and below `me` to a side that differs from site to site, so that the leaves share the work.
    pub fn quorum_for(self, me: SiteId, failed: &SiteSet) -> Option<SiteSet> {
        self.quorum(failed, |site| {
            let down = self.depth(me).saturating_sub(self.depth(site));
            let above_me = (me.index() + 1) >> down == site.index() + 1;
            if down > 0 && above_me {
                // The bit of `me`, counted from 1, that decides below this site.
                (me.index() + 1) >> (down - 1) & 1 == 0
            } else {
                (me.index() + site.index()).is_multiple_of(2)
            }
        })
    }

    /// All quorums without a `failed` site.
    pub fn quorums(self, failed: &SiteSet) -> Result<QuorumSystem, BuildQuorumsError> {
        let quorums = self.all_below(Tree::root(), Substitution::Of(failed))?;
        if quorums.is_empty() {
            return Err(BuildQuorumsError::NoQuorumLeft(failed.clone()));
        }
        Ok(QuorumSystem::new(self.sites, quorums))
    }

    /// Algorithm 9.6 for the tree below `site`.
    fn quorum_below(
        self,
        site: SiteId,
        failed: &SiteSet,
        left_first: &mut impl FnMut(SiteId) -> bool,
    ) -> Option<SiteSet> {
        if failed.contains(site) {
            // Lines 11 to 17: a path from each child, and from none if there is no child.
            let mut paths = SiteSet::new();
            for child in self.children(site) {
                paths.union_with(&self.quorum_below(child, failed, left_first)?);
            }
            return Some(paths).filter(|paths| !paths.is_empty());
        }
        // Lines 6 to 9, the OR in the order that the caller prefers.
        let mut path = SiteSet::new();
        if !self.is_leaf(site) {
            let mut children = self.children(site);
            let (left, right) = (children.next(), children.next());
            let (first, second) = if left_first(site) { (left, right) } else { (right, left) };
            let mut ways = first.into_iter().chain(second);
            path = ways.find_map(|child| self.quorum_below(child, failed, left_first))?;
        }
        path.insert(site);
        Some(path)
    }

    /// Everything that GetQuorum may return for the tree below `site`, left before right.
    fn all_below(self, site: SiteId, around: Substitution<'_>) -> Result<Vec<SiteSet>, BuildQuorumsError> {
        let below: Vec<Vec<SiteSet>> =
            self.children(site).map(|child| self.all_below(child, around)).collect::<Result<_, _>>()?;
        let (through, bypassed) = match around {
            Substitution::Of(failed) => (!failed.contains(site), failed.contains(site)),
            // Where there is only one child, a set through the site contains one around it.
            Substitution::Always => (below.len() != 1, true),
        };
        let mut quorums = Vec::new();
        if through {
            quorums.extend(below.iter().flatten().cloned());
            if below.is_empty() {
                quorums.push(SiteSet::new());
            }
            for quorum in &mut quorums {
                quorum.insert(site);
            }
        }
        if bypassed {
            match &below[..] {
                [] => {}
                [only] => quorums.extend_from_slice(only),
                [left, right, ..] => {
                    if left.len() * right.len() + quorums.len() > MAX_SETS {
                        return Err(BuildQuorumsError::TooManySets);
                    }
                    quorums.extend(left.iter().flat_map(|a| right.iter().map(|b| union(a, b))));
                }
            }
        }
        Ok(quorums)
    }
}

fn union(a: &SiteSet, b: &SiteSet) -> SiteSet {
    let mut both = a.clone();
    both.union_with(b);
    both
}

#[cfg(test)]
mod tests;

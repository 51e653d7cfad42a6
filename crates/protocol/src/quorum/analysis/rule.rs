//! Families that follow a rule: all quorums of a tree around any failures, all coalitions with enough votes, grids.
//!
//! The first two have far too many sets to list beyond a few dozen sites, but the rule says everything.
//!
//! A site of a [tree](crate::quorum::tree) and the trees below it make a quorum by two out of three: the site and
//! the left, the site and the right, or the left and the right. So each figure of a tree follows from those of the
//! two below. The load: if the trees below have loads a and b and the three pairs are chosen so that all three
//! are equally busy, that is t = 2/(1 + 1/a + 1/b). In a heap-shaped tree a and b are always close enough for that.
//!
//! Failures leave no set of a [grid](crate::quorum::grid) if they meet all rows, or all columns, or all but the
//! incomplete row and all but the columns that it lacks; each meets one row and one column.

use super::Sizes;
use super::load::QuorumLoad;
use crate::SiteId;
use crate::quorum::grid::Grid;
use crate::quorum::{BuildQuorumsError, QuorumSystem, Tree, check_sites, majority, votes};

/// The rule that makes a set a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRule(RuleKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleKind {
    Tree(Tree),
    Votes { votes: Vec<u32>, quota: u64 },
    Grid(Grid),
}

/// The largest number of steps for computing the distribution of votes.
const MAX_STEPS: usize = 10_000_000;

impl QuorumRule {
    /// [`QuorumSystem::whole_tree`], not listed.
    pub fn tree(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        Ok(QuorumRule(RuleKind::Tree(Tree::new(sites))))
    }

    /// [`QuorumSystem::votes`], not listed.
    pub fn votes(votes: Vec<u32>, quota: u64) -> Result<Self, BuildQuorumsError> {
        votes::check(&votes, quota)?;
        Ok(QuorumRule(RuleKind::Votes { votes, quota }))
    }

    /// [`QuorumSystem::all_majorities`], not listed.
    pub fn majority(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        QuorumRule::votes(vec![1; sites], majority::least(sites) as u64)
    }

    /// [`QuorumSystem::grid`].
    pub fn grid(sites: usize) -> Result<Self, BuildQuorumsError> {
        check_sites(sites)?;
        Ok(QuorumRule(RuleKind::Grid(Grid::new(sites))))
    }

    /// The number of sites.
    pub fn sites(&self) -> usize {
        match &self.0 {
            RuleKind::Tree(tree) => tree.sites(),
            RuleKind::Votes { votes, .. } => votes.len(),
            RuleKind::Grid(grid) => grid.sites(),
        }
    }

    /// All sets, if they are not too many.
    pub fn list(&self) -> Result<QuorumSystem, BuildQuorumsError> {
        match &self.0 {
            RuleKind::Tree(tree) => QuorumSystem::whole_tree(tree.sites()),
            RuleKind::Votes { votes, quota } => QuorumSystem::votes(votes, *quota),
            RuleKind::Grid(grid) => QuorumSystem::grid(grid.sites()),
        }
    }

    /// The number of failures that always leave a quorum.
    pub(super) fn resilience(&self) -> usize {
        match &self.0 {
            RuleKind::Tree(tree) => {
                bottom_up(*tree, 1, |left, right| (1 + left.min(right)).min(left + right))[0] - 1
            }
            RuleKind::Votes { votes, quota } => {
                // The worst that can fail are those with most votes.
                let mut left: u64 = votes.iter().map(|&votes| u64::from(votes)).sum();
                let mut falling = votes.clone();
                falling.sort_unstable_by_key(|&votes| std::cmp::Reverse(votes));
                let survived = |votes: &&u32| {
                    left = left.saturating_sub(u64::from(**votes));
                    left >= *quota
                };
                falling.iter().take_while(survived).count()
            }
            RuleKind::Grid(grid) => {
                let (rows, columns) = (grid.sites().div_ceil(grid.columns()), grid.columns());
                let in_last_row = grid.sites() - (rows - 1) * columns;
                let around_the_gap = if in_last_row < columns { (rows - 1).max(in_last_row) } else { rows };
                rows.min(columns).min(around_the_gap) - 1
            }
        }
    }

    /// The probability that a quorum is up, if each site is down with probability `failing`; `None` where only
    /// the listed sets tell.
    pub(super) fn availability(&self, failing: f64) -> Option<f64> {
        match &self.0 {
            RuleKind::Tree(tree) => {
                let of_three = |left: f64, right: f64| {
                    (1.0 - failing) * (left + right - left * right) + failing * (left * right)
                };
                Some(bottom_up(*tree, 1.0 - failing, of_three)[0])
            }
            RuleKind::Votes { votes, quota } => {
                let quota = usize::try_from(*quota).ok()?;
                let few = quota.saturating_mul(votes.len()) <= MAX_STEPS;
                few.then(|| availability_of_votes(votes, quota, 1.0 - failing))
            }
            RuleKind::Grid(_) => None,
        }
    }

    /// The load and the sizes; `None` where only the listed sets tell.
    pub(super) fn load_and_sizes(&self) -> Option<(QuorumLoad, Sizes)> {
        match &self.0 {
            RuleKind::Tree(tree) => Some(load_and_sizes_of_tree(*tree)),
            RuleKind::Votes { votes, quota } => {
                let mut of_voters = votes.iter().copied().filter(|&votes| votes > 0);
                let one = of_voters.next()?;
                let all_alike = of_voters.all(|other| other == one);
                all_alike.then(|| load_and_sizes_of_equals(votes, quota.div_ceil(u64::from(one))))
            }
            RuleKind::Grid(_) => None,
        }
    }
}

/// The probability that sites which are up with probability `up` have `quota` votes.
fn availability_of_votes(votes: &[u32], quota: usize, up: f64) -> f64 {
    // The distribution of the votes of the sites so far; all from the quota on are counted as one.
    let mut likely = vec![0.0; quota + 1];
    likely[0] = 1.0;
    for &votes in votes {
        for so_far in (0..quota).rev() {
            let moved = likely[so_far] * up;
            likely[so_far] -= moved;
            likely[(so_far + votes as usize).min(quota)] += moved;
        }
    }
    likely[quota].clamp(0.0, 1.0)
}

/// A value for the tree below each site. `of_three` computes it from those of two children.
fn bottom_up<T: Copy>(tree: Tree, leaf: T, of_three: impl Fn(T, T) -> T) -> Vec<T> {
    let mut figures = vec![leaf; tree.sites()];
    for site in SiteId::all(tree.sites()).rev() {
        let mut children = tree.children(site).map(|child| figures[child.index()]);
        figures[site.index()] = match (children.next(), children.next()) {
            (Some(left), Some(right)) => of_three(left, right),
            // A site with one child is in no minimal quorum.
            (Some(only), None) => only,
            (None, _) => leaf,
        };
    }
    figures
}

fn load_and_sizes_of_tree(tree: Tree) -> (QuorumLoad, Sizes) {
    let below = bottom_up(tree, 1.0, |left, right| 2.0 / (1.0 + 1.0 / left + 1.0 / right));
    // By site: how often the tree below it is asked.
    let mut asked = vec![1.0; tree.sites()];
    let mut of_sites = vec![0.0; tree.sites()];
    for site in SiteId::all(tree.sites()) {
        let (load, often) = (below[site.index()], asked[site.index()]);
        let children = tree.children(site).count();
        for child in tree.children(site) {
            let share = if children == 1 { 1.0 } else { load / below[child.index()] };
            assert!(share <= 1.0 + 1e-9, "the trees below a site of a heap have similar loads");
            asked[child.index()] = often * share;
        }
        of_sites[site.index()] = if children == 1 { 0.0 } else { often * load };
    }
    let sizes = Sizes {
        least: bottom_up(tree, 1, |left: usize, right| 1 + left.min(right))[0],
        mean: of_sites.iter().sum(),
        most: bottom_up(tree, 1, |left: usize, right| (1 + left.max(right)).max(left + right))[0],
    };
    (QuorumLoad { best: below[0], strategy: None, of_sites, even: None }, sizes)
}

/// Voters with equal votes, `size` of which are enough.
fn load_and_sizes_of_equals(votes: &[u32], size: u64) -> (QuorumLoad, Sizes) {
    let voters = votes.iter().filter(|&&votes| votes > 0).count();
    let best = size as f64 / voters as f64;
    let of_sites = votes.iter().map(|&votes| if votes > 0 { best } else { 0.0 }).collect();
    let size = usize::try_from(size).expect("no more than there are voters");
    let sizes = Sizes { least: size, mean: size as f64, most: size };
    (QuorumLoad { best, strategy: None, of_sites, even: Some(best) }, sizes)
}

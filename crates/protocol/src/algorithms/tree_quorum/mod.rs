//! Agrawal and El Abbadi's algorithm: ask a path from the root of a tree to a leaf, and go around failed sites.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.9, Algorithm 9.6 (GetQuorum) and the protocol of section 9.9.5.
//!
//! The sites form a binary tree. Every two paths from the root to a leaf share the root, so log N permissions suffice
//! while nothing fails. A failed site on the path is replaced by paths from *both* its children to leaves; all sets that
//! can come of that still meet, every two of them. So the cost rises gently with failures, up to about half of the
//! sites. How the asked permit, refuse and take back is the shared [`arbiter`](crate::algorithms::arbiter), and how sites leave and
//! return its [`recovery`](crate::algorithms::arbiter::recovery).
//!
//! ```text
//!        S0          S3 alone:  S3 ──REQUEST──▶ S0, S1          with S1 failed:  S3 ──REQUEST──▶ S0, S4
//!      /    \                   S3 ◀──REPLY──── S0, S1          (S3 itself stands in for one half of S1)
//!    S1      S2                 S3 enters, leaves
//!   /  \    /  \                S3 ──RELEASE──▶ S0, S1
//!  S3  S4  S5  S6
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load, nothing failed | 3(k−1), k ≤ ⌊log₂N⌋+1 | – | N clocks, k answers, a queue | 4 to 6 |
//! | heavy load, nothing failed | 3(k−1); `deadlock=fail` 4(k−1) | 2T | the same | 4 to 6 |
//!
//! **Assumes** reliable channels, and that failures become known for certain. No order of delivery is needed, except for a
//! site's return: that needs FIFO.
//!
//! **Departures**
//! - GetQuorum returns failure where the printed line 15 exits, and the sibling's path is tried; see
//!   [`tree`](crate::quorum::tree), also for any N.
//! - The chapter leaves a **choice** open: which child a path goes on to. By default (a policy of ours) it goes through the
//!   requester itself, which saves a message each way, and below it to another leaf from request to request, so that the
//!   leaves share the work; with `path=any` the host chooses at every site.
//! - Rules 6 to 8 of section 9.9.5 deadlock or permit twice (several INQUIREs, a YIELD that nobody waits for, "the
//!   pending request" that is no longer the earliest): the shared arbiter inquires once, and permits the earliest
//!   (`text=printed` inquires once, too, and permits the pending one; for the checker; erratum
//!   `tree-quorum-rules-6-8`).
//! - "Relinquish" is RELEASE. Messages name their request and turn.
//! - A failure while a request waits, and a return, which the chapter does not treat: as in
//!   [`recovery`](crate::algorithms::arbiter::recovery).
//!
//! **Invariants**: A1 to A5, R1 to R5, P1 and P2 of the [`arbiter`](crate::algorithms::arbiter) module, Q1 and Q2 of the site.

use crate::quorum::Tree;
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, OptionInfo, Order,
    Permits, Range, Text, Tokens,
};
use crate::registry::values::Values;
use crate::{Clock, Cluster, PlanError, SiteId, SiteSet};

use crate::algorithms::arbiter::{Coterie, DeadlockRules, EXCHANGE, Post, QuorumSite, RETURN};

/// One site of Agrawal and El Abbadi's algorithm.
pub type TreeQuorum = QuorumSite<TreePaths>;

/// The paths of a tree, and what replaces them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TreePaths {
    rules: DeadlockRules,
    tree: Tree,
    /// Whether the host chooses the path.
    is_open: bool,
}

impl Coterie for TreePaths {
    const INFO: Info = Info {
        name: "tree-quorum",
        title: "Agrawal and El Abbadi: ask a path of a tree, go around failed sites",
        source: "Kshemkalyani & Singhal ch. 9, section 9.9",
        kind: Kind::Quorum,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable channels, failures known for certain",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "section 9.9 does not say it: a site outside of the request set does not hear of the request, and may ask again with an earlier timestamp",
        ),
        failures: Failures { crash: true, recovery: true, partition: false },
        options: &[
            DeadlockRules::OPTION,
            OptionInfo {
                name: "path",
                about: "which path a request takes: through the requester and to other leaves in turn, or any, which the host chooses",
                range: Range::Open { policies: &["spread"], any: "any" },
                default: "spread",
            },
            OptionInfo::text(
                "printed: rules 6 to 8 of section 9.9.5 to the letter, which deadlock; for the checker only",
            ),
        ],
        variants: &["tree-quorum:deadlock=fail"],
        messages: &[
            EXCHANGE[0],
            EXCHANGE[1],
            EXCHANGE[2],
            EXCHANGE[3],
            EXCHANGE[4],
            EXCHANGE[5],
            RETURN[0],
            RETURN[1],
            RETURN[2],
        ],
        costs: Costs {
            lone_least: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            lone_most: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            heavy: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            always: None,
            sync_delay: "2T",
        },
        memory: Memory { fixed: 600, per_site: 40 },
        departures: &[
            "a return of a failed site needs FIFO channels; all else needs no order",
            "GetQuorum returns failure where line 15 exits: a sibling's path may still succeed",
            "the arbiter inquires once and permits the earliest (rules 6 to 8 deadlock or permit twice)",
            "the path, which is open: through the requester, and to another leaf from request to request; or the host chooses",
            "a site that returns is an arbiter again once all others have said that they use none of its permissions",
        ],
    };

    fn build(cluster: Cluster, values: &Values) -> Result<Self, PlanError> {
        let rules = match values.text() {
            Text::Repaired => DeadlockRules::of(values),
            Text::Printed => DeadlockRules::Pending.published(values)?,
        };
        Ok(TreePaths { rules, tree: Tree::new(cluster.sites), is_open: values.get("path") == "any" })
    }

    fn rules(&self) -> DeadlockRules {
        self.rules
    }

    fn sites(&self) -> usize {
        self.tree.sites()
    }

    /// GetQuorum, through `me` where that can be, elsewhere by the clock: to another leaf from request to request.
    fn quorum(&self, me: SiteId, clock: Clock, absent: &SiteSet) -> Option<SiteSet> {
        self.tree.quorum(absent, |site| match self.side_of(me, site) {
            Some(left) => left,
            None => (clock.value().wrapping_add(me.index() as u64) >> self.tree.depth(site) & 1) == 0,
        })
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    /// GetQuorum, to a child that the host chooses at every site.
    fn any_quorum(&self, absent: &SiteSet, post: &mut Post<'_>) -> Option<SiteSet> {
        let has_two = |site: SiteId| self.tree.children(site).count() == 2;
        self.tree.quorum(absent, |site| !has_two(site) || post.choose(2) == 0)
    }

    fn chooses_by_clock(&self) -> bool {
        true
    }

    /// Those below it and those above it; all if the host chooses.
    fn askers(&self, arbiter: SiteId) -> usize {
        if self.is_open {
            return self.tree.sites();
        }
        let (sites, above) = (self.tree.sites(), self.tree.depth(arbiter) as usize);
        let (mut first, mut width, mut below) = (arbiter.index(), 1, 0);
        while first < sites {
            below += width.min(sites - first);
            (first, width) = (2 * first + 1, 2 * width);
        }
        above + below
    }
}

impl TreePaths {
    /// Whether `below` is on the left of `above`; nothing if it is not below it at all.
    fn side_of(&self, below: SiteId, above: SiteId) -> Option<bool> {
        let steps = self.tree.depth(below).checked_sub(self.tree.depth(above))?;
        // Counted from 1, the sites below one begin with its digits, and the next digit is the side.
        let path = below.index() + 1;
        (steps > 0 && path >> steps == above.index() + 1).then(|| path >> (steps - 1) & 1 == 0)
    }
}

#[cfg(test)]
mod tests;

//! Maekawa's algorithm: ask √N sites, chosen so that every two requesters share one.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.8, Algorithm 9.5, and section 9.8.1 on deadlocks.
//!
//! Each site has a fixed request set with itself in it, and every two sets meet. A site that wants to enter asks all of
//! its set; each member permits one request at a time. So of two requesters at least one waits, at the member they
//! share. The smallest sets are the lines of a finite projective plane: q+1 sites where N = q²+q+1. How members permit,
//! refuse and take back is the shared [`arbiter`](crate::algorithms::arbiter), which is this algorithm's Algorithm 9.5
//! and section 9.8.1.
//!
//! ```text
//!  alone:      S0 ──REQUEST──▶ R0 − S0     contended: S2 has permitted S1, then S0 asks with a smaller timestamp
//!              S0 ◀──REPLY──── R0 − S0                S0 ──REQUEST──▶ S2 ──INQUIRE──▶ S1
//!              S0 enters, leaves                      S0 ◀───REPLY─── S2 ◀───YIELD─── S1   if S1 is not inside
//!              S0 ──RELEASE──▶ R0 − S0
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 3(k−1), k = size of the set ≈ √N | – | N clocks, k answers, a queue | 4 to 6 |
//! | heavy load, `yield` | 3(k−1), between the extremes up to 3.3(k−1) | 2T | the same | 4 to 6 |
//! | heavy load, `fail` | 4(k−1), since everyone who waits is refused | 2T | the same | 4 to 6 |
//! | at worst | 6(k−1), `fail` 7(k−1); found by exploration: 4.5(k−1) | – | the same | 4 to 6 |
//!
//! The default is `yield`: measured over random delays at every load and N from 3 to 57 it never costs more messages
//! than `fail` (3 against 4 per member under load), throughput is the same, and it has a message and a rule less.
//!
//! **Assumes** reliable channels. The chapter also assumes FIFO; it is not needed.
//!
//! **Departures**
//! - No **choice** is open while it runs: which request sets there are is fixed before (`quorums`).
//! - Deadlocks are kept away by one of two other sets of rules (`deadlock=yield`, the default, or `fail`): the
//!   chapter's deadlock with three sites (`text=printed` keeps them for the checker, `text=1985` Maekawa's own;
//!   errata `maekawa-chapter-deadlock`, `maekawa-1985-rules`). See [`arbiter`](crate::algorithms::arbiter).
//! - Every message names the request that it is about, and REPLY, INQUIRE and YIELD the turn, so that what is late,
//!   crossed or doubled is recognised. An arbiter remembers the last request of each site.
//! - REPLY carries the arbiter's clock, so that a site that rarely asks does not come before the others many times.
//! - A REQUEST of the site that has the permission stands for the RELEASE that it has overtaken.
//! - Where N is no q²+q+1, the plane is folded (see [`plane`](crate::quorum::plane)); the chapter leaves it open.
//!
//! **Invariants**: A1 to A5 and R1 to R5 of the [`arbiter`](crate::algorithms::arbiter) and the requester, Q1 and Q2 of
//! the site.

pub(super) mod sets;

use crate::quorum::QuorumSystem;
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, OptionInfo, Order,
    Permits, Span, Tokens,
};
use crate::registry::values::Values;
use crate::{Clock, Cluster, PlanError, SiteId, SiteSet};

use crate::algorithms::arbiter::{Coterie, DeadlockRules, EXCHANGE, QuorumSite};

/// One site of Maekawa's algorithm.
pub type Maekawa = QuorumSite<RequestSets>;

/// The request set of each site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestSets {
    rules: DeadlockRules,
    sets: QuorumSystem,
}

impl Coterie for RequestSets {
    const INFO: Info = Info {
        name: "maekawa",
        title: "Maekawa: ask √N sites, every two such sets share one",
        source: "Kshemkalyani & Singhal ch. 9, section 9.8",
        kind: Kind::Quorum,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "section 9.8 does not say it: a site outside of the request set does not hear of the request, and may ask again with an earlier timestamp",
        ),
        failures: Failures::NONE,
        options: &[
            sets::OPTION,
            DeadlockRules::OPTION,
            OptionInfo::texts(
                &["repaired", "printed", "1985"],
                "printed: the deadlock rules of section 9.8.1 to the letter; 1985: Maekawa's own as they are usually given; \
                 both deadlock; for the checker only",
            ),
        ],
        variants: &["maekawa:deadlock=fail", "maekawa:quorums=grid", "maekawa:quorums=grid,deadlock=fail"],
        messages: &EXCHANGE,
        costs: Costs {
            lone_least: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            lone_most: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            heavy: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            always: Some(Span {
                least: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
                most: Formula::new("6(k−1)", |scale| 6.0 * (scale.quorum - 1) as f64),
            }),
            sync_delay: "2T",
        },
        memory: Memory { fixed: 640, per_site: 12 },
        departures: &[
            "deadlock rules that do not deadlock: whoever is inquired yields, or FAILED and remembered INQUIREs",
            "every message names its request, REPLY, INQUIRE and YIELD their turn: late ones are recognised, no FIFO needed",
            "REPLY carries the arbiter's clock: no site comes first many times because it had been idle",
            "any N: a folded plane where there is no plane",
        ],
    };

    fn build(cluster: Cluster, values: &Values) -> Result<Self, PlanError> {
        let rules = match values.get("text") {
            "printed" => DeadlockRules::Printed.published(values)?,
            "1985" => DeadlockRules::Original.published(values)?,
            _ => DeadlockRules::of(values),
        };
        let sets = sets::chosen(cluster, values)?;
        Ok(RequestSets { rules, sets })
    }

    fn rules(&self) -> DeadlockRules {
        self.rules
    }

    fn sites(&self) -> usize {
        self.sets.sites()
    }

    /// Always the same: with a member away a site waits for its return.
    fn quorum(&self, me: SiteId, _: Clock, absent: &SiteSet) -> Option<SiteSet> {
        self.sets.quorum_of(me).filter(|set| !set.intersects(absent)).cloned()
    }

    fn askers(&self, arbiter: SiteId) -> usize {
        self.sets.quorums().iter().filter(|set| set.contains(arbiter)).count()
    }
}

#[cfg(test)]
mod tests;

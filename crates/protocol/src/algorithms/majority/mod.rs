//! Majority voting: ask more than half of the sites, or of their votes.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.7 ("in the simplest form, quorums are formed as sets that contain a
//! majority of sites"), with the shared [`arbiter`](crate::algorithms::arbiter) of sections 9.8 and 9.9.
//!
//! Every two majorities share a site, whichever they are, so a requester takes the one that is most convenient: itself
//! and the sites that follow it in a ring. All sites thus share the work, and any minority may fail: a requester goes on
//! to the next sites in the ring. Sites may have several votes, or none; then a quorum is more than half of all votes.
//!
//! ```text
//!  alone, N = 5:   S3 ──REQUEST──▶ S4, S0       with S4 failed:   S3 ──REQUEST──▶ S0, S1
//!                  S3 ◀──REPLY──── S4, S0
//!                  S3 enters, leaves
//!                  S3 ──RELEASE──▶ S4, S0
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 3(k−1), k = ⌊N/2⌋+1 | – | N clocks, k answers, a queue | 4 to 6 |
//! | heavy load | 3(k−1); `deadlock=fail` 4(k−1) | 2T | the same | 4 to 6 |
//!
//! **Assumes** reliable channels, and that failures become known for certain. No order of delivery is needed, except for a
//! site's return: that needs FIFO.
//!
//! **Departures**: the deadlock rules, the numbers on messages and the way back after a failure are those of the
//! [`arbiter`](crate::algorithms::arbiter); the chapter gives none for majorities. Which majority a request asks is a
//! **choice** that it leaves open: by default the requester and the next ones in the ring (a policy of ours), with
//! `quorum=any` the host chooses.
//!
//! **Invariants**: A1 to A5, R1 to R5, P1 and P2 of the [`arbiter`](crate::algorithms::arbiter) module, Q1 and Q2 of the site.

use smallvec::SmallVec;

use crate::quorum::majority;
use crate::quorum::votes::majority_of;
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, OptionInfo, Order,
    Permits, Range, Span, Tokens,
};
use crate::registry::values::Values;
use crate::{Clock, Cluster, PlanError, SiteId, SiteSet};

use crate::algorithms::arbiter::{Coterie, DeadlockRules, EXCHANGE, Post, QuorumSite, RETURN};

/// One site of majority voting.
pub type Majority = QuorumSite<Votes>;

/// How many votes each site has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Votes {
    rules: DeadlockRules,
    of_site: Box<[u32]>,
    /// How many make a quorum: more than half.
    quota: u64,
    /// Whether the host chooses the quorum.
    is_open: bool,
}

impl Coterie for Votes {
    const INFO: Info = Info {
        name: "majority",
        title: "Majority voting: ask more than half",
        source: "Kshemkalyani & Singhal ch. 9, section 9.7",
        kind: Kind::Quorum,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable channels, failures known for certain",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "section 9.7 does not say it: a site outside of the request set does not hear of the request, and may ask again with an earlier timestamp",
        ),
        failures: Failures { crash: true, recovery: true, partition: false },
        options: &[
            OptionInfo {
                name: "votes",
                about: "how many votes each site has",
                range: Range::WordsOr {
                    words: &["equal"],
                    notation: "a number for each site such as 3.1.1.1",
                },
                default: "equal",
            },
            OptionInfo {
                name: "quorum",
                about: "which majority a request asks: the site itself and the next ones in a ring, or any, which the host chooses",
                range: Range::Open { policies: &["ring"], any: "any" },
                default: "ring",
            },
            DeadlockRules::OPTION,
        ],
        variants: &["majority:deadlock=fail"],
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
            lone_least: Formula::new("3⌊N/2⌋", |scale| 3.0 * (scale.sites / 2) as f64),
            lone_most: Formula::new("3⌊N/2⌋", |scale| 3.0 * (scale.sites / 2) as f64),
            heavy: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            always: Some(Span {
                least: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
                most: Formula::new("6(k−1)", |scale| 6.0 * (scale.quorum - 1) as f64),
            }),
            sync_delay: "2T",
        },
        memory: Memory { fixed: 600, per_site: 32 },
        departures: &[
            "a return of a failed site needs FIFO channels; all else needs no order",
            "which majority is asked, which is open: the next ones in a ring; or the host chooses",
            "deadlock rules, numbers on messages and recovery are those of the shared arbiter; the chapter gives none",
        ],
    };

    fn build(cluster: Cluster, values: &Values) -> Result<Self, PlanError> {
        let votes = match values.get("votes") {
            "equal" => vec![1; cluster.sites],
            text => parse(cluster, text)?,
        };
        if votes.iter().all(|&votes| votes == 0) {
            return Err(refused("nobody has a vote: give at least one site one".to_owned()));
        }
        let (rules, quota) = (DeadlockRules::of(values), majority_of(&votes));
        Ok(Votes { rules, quota, of_site: votes.into(), is_open: values.get("quorum") == "any" })
    }

    fn rules(&self) -> DeadlockRules {
        self.rules
    }

    fn sites(&self) -> usize {
        self.of_site.len()
    }

    /// Itself and the next ones in the ring.
    fn quorum(&self, me: SiteId, _: Clock, absent: &SiteSet) -> Option<SiteSet> {
        let ring = std::iter::once(me).chain(SiteId::others_from(me, self.of_site.len()));
        self.first_majority(ring, absent)
    }

    fn is_open(&self) -> bool {
        self.is_open
    }

    /// One site after the other, until the votes suffice.
    fn any_quorum(&self, absent: &SiteSet, post: &mut Post<'_>) -> Option<SiteSet> {
        let present =
            SiteId::all(self.of_site.len()).filter(|&site| self.worth(site) > 0 && !absent.contains(site));
        let mut order: SmallVec<[SiteId; 16]> = present.collect();
        let (mut sum, mut asked) = (0, 0);
        while sum < self.quota && asked < order.len() {
            let chosen = asked + post.choose(order.len() - asked);
            order.swap(asked, chosen);
            sum += self.worth(order[asked]);
            asked += 1;
        }
        self.first_majority(order[..asked].iter().copied(), absent)
    }

    /// The sites before it in the ring; with unequal votes it may be any.
    fn askers(&self, _: SiteId) -> usize {
        let equal = self.of_site.iter().all(|&votes| votes == self.of_site[0]);
        if equal && !self.is_open { majority::least(self.of_site.len()) } else { self.of_site.len() }
    }
}

impl Votes {
    fn worth(&self, site: SiteId) -> u64 {
        u64::from(self.of_site[site.index()])
    }

    /// The first ones of `order` until the votes suffice, without those, but for the first, whose votes turn out not to be needed.
    fn first_majority(
        &self,
        order: impl Iterator<Item = SiteId> + Clone,
        absent: &SiteSet,
    ) -> Option<SiteSet> {
        let (mut quorum, mut sum) = (SiteSet::new(), 0);
        for site in order.clone().filter(|&site| self.worth(site) > 0 && !absent.contains(site)) {
            quorum.insert(site);
            sum += self.worth(site);
            if sum >= self.quota {
                break;
            }
        }
        if sum < self.quota {
            return None;
        }
        for site in order.skip(1) {
            if quorum.contains(site) && sum - self.worth(site) >= self.quota {
                quorum.remove(site);
                sum -= self.worth(site);
            }
        }
        Some(quorum)
    }
}

fn refused(why: String) -> PlanError {
    PlanError::Option { option: "votes", why }
}

/// Reads `3.1.1.1`.
fn parse(cluster: Cluster, text: &str) -> Result<Vec<u32>, PlanError> {
    let number = |word: &str| {
        word.parse().map_err(|_| refused(format!("'{word}' is no number of votes; write them as 3.1.1.1")))
    };
    let votes = text.split('.').map(number).collect::<Result<Vec<u32>, _>>()?;
    if votes.len() == cluster.sites {
        Ok(votes)
    } else {
        Err(refused(format!("{} numbers for {} sites; each site needs one", votes.len(), cluster.sites)))
    }
}

#[cfg(test)]
mod tests;

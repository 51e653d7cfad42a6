//! What is known of Lodha and Kshemkalyani's algorithm, how it starts, and what must hold.

use super::{LodhaKshemkalyani, Message, Want};
use crate::registry::info::{
    Channels, Costs, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo, Order, Permits, Text,
    Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{Algorithm, Clock, Cluster, Holders, Phase, PlanError, SiteId, SiteSet, Timestamp, invariant};

/// What all sites share.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    text: Text,
}

impl Algorithm for LodhaKshemkalyani {
    type Plan = Plan;

    const INFO: Info = Info {
        name: "lodha-kshemkalyani",
        title: "Lodha and Kshemkalyani's fair algorithm: requests that cross answer each other",
        source: "Lodha & Kshemkalyani 2000, section 3; Kshemkalyani & Singhal ch. 9, section 9.6",
        kind: Kind::Permission,
        permits: Permits::One,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Timestamp,
        failures: Failures::NONE,
        options: &[OptionInfo::text(
            "printed: Figure 2 of the paper to the letter, which deadlocks and lets two in; for the checker only",
        )],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants in, to all others; answers what it crosses",
            },
            MessageInfo { kind: "REPLY", about: "from a site that does not stand in the way, or no longer" },
            MessageInfo {
                kind: "FLUSH",
                about: "from a site that leaves, to the next of those that it crossed",
            },
        ],
        costs: Costs {
            lone_least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            lone_most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2(N−1), N where all cross", |scale| 2.0 * (scale.sites - 1) as f64),
            sync_delay: "T",
        },
        memory: Memory { fixed: 184, per_site: 25 },
        departures: &[
            "a site's own request raises the highest sequence number seen",
            "a late REQUEST that is known to be finished counts as an answer but is not queued",
            "a FLUSH never counts as an answer",
            "a REQUEST tells, as a REPLY does, that its sender's previous request is finished",
            "a REPLY names the request that it answers, so that duplicates are recognised",
        ],
    };

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        Ok(Plan { cluster, text: values.text() })
    }

    /// A holder is inside on a request older than any that can follow, with the answers of all; the others need not
    /// know of it, because it will defer whatever they ask.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let sites = plan.cluster.sites;
        let inside = holders.contains(me).then_some(Timestamp::new(Clock::ZERO, me));
        let mut queue = Vec::with_capacity(sites);
        queue.extend(inside);
        LodhaKshemkalyani {
            me,
            text: plan.text,
            want: inside.map_or(Want::Nothing, Want::Exit),
            executed: None,
            clock: Clock::ZERO,
            last_request: vec![Clock::ZERO; sites].into(),
            finished: None,
            answered: inside.map_or_else(SiteSet::new, |_| SiteSet::all_but(me, sites)),
            queue,
            deferred: SiteSet::new(),
        }
    }

    fn phase(&self) -> Phase {
        match self.want {
            Want::Nothing => Phase::Idle,
            Want::Entry(_) => Phase::Waiting,
            Want::Exit(_) => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.want == Want::Nothing && self.deferred.is_empty()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        self.own()
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        if self.text == Text::Printed {
            return Ok(());
        }
        let own = self.queue.iter().find(|queued| queued.site == self.me).copied();
        invariant!(
            self.queue.is_sorted_by(|a, b| a < b)
                && own == self.own()
                && (own.is_some() || self.queue.is_empty()),
            "I1: the queue is sorted and holds the site's own request, or is empty if there is none"
        );
        let queued: SiteSet =
            self.queue.iter().map(|queued| queued.site).filter(|&site| site != self.me).collect();
        invariant!(
            queued.is_subset(&self.answered)
                && self.deferred.is_subset(&self.answered)
                && !self.answered.contains(self.me),
            "I2: who is queued or deferred has answered, and nobody answers himself"
        );
        if let Want::Exit(mine) = self.want {
            invariant!(
                self.answered.len() == self.sites() - 1 && self.queue.first() == Some(&mine),
                "I3: a site that is inside has all answers and heads its queue"
            );
        }
        invariant!(
            own.is_none_or(|own| own.clock <= self.clock),
            "I4: the clock is not behind the site's own request"
        );
        Ok(())
    }

    fn check_together(sites: &[Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        if sites.iter().any(|site| site.text == Text::Printed) {
            return Ok(());
        }
        let wanting = || sites.iter().filter_map(|site| Some((site, site.own()?)));
        for (later, mine) in wanting() {
            invariant!(
                sites.iter().all(|site| site.finished < Some(mine)),
                "I5: what any site takes for finished is finished"
            );
            let seen = |earlier: &Self, theirs| {
                !later.answered.contains(earlier.me) || later.queue.contains(&theirs)
            };
            invariant!(
                wanting().all(|(earlier, theirs)| theirs >= mine || seen(earlier, theirs)),
                "I6: of two sites that want in, the later one queues the earlier one or misses its answer"
            );
            let missed =
                sites.iter().filter(|other| other.me != later.me && !later.answered.contains(other.me));
            for other in missed {
                let ask = (later.me, other.me, &Message::Request { clock: mine.clock });
                let is_answer = |message: &Message| match *message {
                    Message::Reply { to, .. } => to == mine.clock,
                    Message::Request { .. } => true,
                    Message::Flush { .. } => false,
                };
                let comes = |&(from, to, message): &InFlight<'_, Message>| {
                    (from, to) == (other.me, later.me) && is_answer(message)
                };
                invariant!(
                    in_flight.contains(&ask)
                        || other.deferred.contains(later.me)
                        || in_flight.iter().any(comes),
                    "I7: an answer that a waiting site misses is asked for, owed or on its way"
                );
            }
        }
        Ok(())
    }
}

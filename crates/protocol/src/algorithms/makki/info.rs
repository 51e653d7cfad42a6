//! What a host needs to know of `makki`: its costs, its start and its invariants.

use std::collections::VecDeque;

use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, Order,
    Permits, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{Algorithm, Cluster, Described, Holders, Phase, PlanError, SiteId, SiteSet, View, invariant};

use super::{Collector, Makki, MakkiPeer, MakkiState, MakkiToken, Message, Place, Stay, Waiter};

impl Described for Makki {
    const INFO: Info = Info {
        name: "makki",
        title: "Makki et al.: one token with a queue and a semaphore; the last of the queue collects",
        source: "Makki, Banta, Been, Pissinou & Park, SPDP 1992, 408–411 (outline); Bulgannawar & Vaidya 1994, section 5",
        kind: Kind::Token,
        permits: Permits::Many,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "reliable channels, and a message and its answer within 2T (here that only saves messages)",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing("only an outline is public, which does not say it"),
        failures: Failures::NONE,
        options: &[],
        variants: &[],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, to the one that collects",
            },
            MessageInfo {
                kind: "TOKEN",
                about: "queue and semaphore, from one site of the queue to the next",
            },
            MessageInfo { kind: "RELEASE", about: "from a site that has left, after the token" },
            MessageInfo {
                kind: "ANNOUNCE",
                about: "from the last of the queue, to those who cannot know: I collect",
            },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("N", |scale| if scale.sites > 1 { scale.sites as f64 } else { 0.0 }),
            heavy: Formula::new("3 − 2/N, about 3 if K > 1; more with long critical sections", |scale| {
                match (scale.sites, scale.permits) {
                    (1, _) => 0.0,
                    (sites, 1) => 3.0 - 2.0 / sites as f64,
                    _ => 3.0,
                }
            }),
            always: None,
            sync_delay: "T; between rounds 3T",
        },
        memory: Memory { fixed: 320, per_site: 64 },
        departures: &[
            "ours, where the outline is silent: a request that comes to a site that collects no longer is forwarded",
            "ours: who collects is seen from the token; ANNOUNCE only to the others, and only if the token is to rest",
            "ours: a RELEASE goes to where the token will stop, by the number of its moves, with a total for each pair of sites",
        ],
    };
}

impl Algorithm for Makki {
    type Plan = Cluster;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, _: &Values) -> Result<Cluster, PlanError> {
        Ok(cluster)
    }

    /// The token rests at the first holder, or at site 0, and all know it. Its semaphore lacks what the holders have.
    fn start(cluster: &Cluster, me: SiteId, holders: &Holders) -> Self {
        let home = holders.token_home();
        let token = || MakkiToken {
            semaphore: cluster.permits - holders.len(),
            queue: VecDeque::with_capacity(cluster.sites),
            round: 0,
            told: SiteSet::all(cluster.sites),
            moves: 0,
        };
        let place = if me == home {
            Place::Here { token: Box::new(token()), stay: Stay::Resting }
        } else {
            Place::Away { stop: home, at: 0 }
        };
        Makki {
            me,
            cluster: *cluster,
            state: if holders.contains(me) { MakkiState::Executing } else { MakkiState::Idle },
            number: 0,
            place,
            moves: 0,
            early: 0,
            collector: Collector { round: 0, site: home },
            collected: VecDeque::with_capacity(cluster.sites),
            peers: vec![MakkiPeer::default(); cluster.sites].into(),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            MakkiState::Idle => Phase::Idle,
            MakkiState::InLine | MakkiState::Turn => Phase::Waiting,
            MakkiState::Executing => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        let settled = match self.place {
            Place::Away { .. } => true,
            Place::Here { stay, .. } => stay == Stay::Resting,
        };
        self.state == MakkiState::Idle && self.collected.is_empty() && self.early == 0 && settled
    }

    fn tokens(&self) -> usize {
        usize::from(matches!(self.place, Place::Here { .. }))
    }

    fn view(&self) -> View {
        let view = match &self.place {
            Place::Here { token, .. } => View::new()
                .queue("token queue", token.queue.iter().map(|waiter| waiter.site))
                .value("semaphore", token.semaphore)
                .value("round of the token", token.round),
            Place::Away { stop, .. } if *stop != self.me => View::new().pointer("token stops at", *stop),
            Place::Away { .. } => View::new(),
        };
        let Collector { round, site } = self.collector;
        let view = if site == self.me { view } else { view.pointer("collects", site) };
        view.queue("collected", self.collected.iter().map(|waiter| waiter.site))
            .value("round that it knows", round)
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        let token_here = match &self.place {
            Place::Here { token, stay } => Some((token, *stay)),
            Place::Away { .. } => None,
        };
        invariant!(
            self.state != MakkiState::Turn || token_here.is_some_and(|(token, _)| token.semaphore == 0),
            "I1: a site whose turn it is has the token, with semaphore 0"
        );
        invariant!(
            self.collected.is_empty() || self.collector.site == self.me || self.state == MakkiState::InLine,
            "I2: only a site that collects, or waits to be the one, has collected requests"
        );
        invariant!(
            token_here.is_none_or(|(token, stay)| token.queue.is_empty() == (stay != Stay::InPassing)),
            "I3: the timer runs only at the last site of the queue"
        );
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let here = sites.iter().find_map(|site| match &site.place {
            Place::Here { token, .. } => Some(&**token),
            Place::Away { .. } => None,
        });
        let travelling = in_flight.iter().find_map(|&(_, to, message)| match message {
            Message::Token { number, token } => Some((Waiter { site: to, number: *number }, &**token)),
            Message::Request { .. } | Message::Release { .. } | Message::Announce { .. } => None,
        });
        let Some(token) = here.or(travelling.map(|(_, token)| token)) else { return Ok(()) };
        let latest = sites.iter().map(|site| site.moves).max();
        invariant!(
            latest <= Some(token.moves),
            "I4: nobody has seen a later move of the token than the token itself"
        );
        invariant!(
            token.semaphore + permits_elsewhere(sites) == sites[0].cluster.permits,
            "I5: permits are conserved: free at the token, in use, or on their way back to it"
        );
        let asked = in_flight.iter().filter_map(|(_, _, message)| match message {
            Message::Request { waiter, .. } => Some(*waiter),
            Message::Token { .. } | Message::Release { .. } | Message::Announce { .. } => None,
        });
        let collected = sites.iter().flat_map(|site| site.collected.iter().copied());
        let next = travelling.map(|(next, _)| next);
        let queued = token.queue.iter().copied().chain(next);
        let mut places: Vec<Waiter> = asked.chain(collected).chain(queued).collect();
        places.sort_unstable_by_key(|waiter| waiter.site);
        let in_line = sites.iter().filter(|site| site.state == MakkiState::InLine);
        invariant!(
            in_line.map(|site| Waiter { site: site.me, number: site.number }).eq(places),
            "I6: every request that waits is in exactly one place"
        );
        Ok(())
    }
}

/// The permits in use, and those given back that have not come to the token.
fn permits_elsewhere(sites: &[&Makki]) -> usize {
    let inside = sites.iter().filter(|site| site.state == MakkiState::Executing).count();
    let early: usize = sites.iter().map(|site| site.early).sum();
    let under_way = sites.iter().flat_map(|from| {
        sites.iter().map(|to| from.peers[to.me.index()].returned - to.peers[from.me.index()].given)
    });
    inside + early + usize::try_from(under_way.sum::<u64>()).expect("no more than K")
}

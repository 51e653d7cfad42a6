//! What a host needs to know of `delegated`: its options, its costs, its start and its invariants.

use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Since, Tokens,
};
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Described, Family, Holders, Numbers, Phase, PlanError, SiteId, Slot, View, invariant,
};

use super::dispatcher::Dispatcher;
use super::{Delegated, DelegatedSetup, DelegatedState, Message, Permit, Waiter};

impl Described for Delegated {
    const INFO: Info = Info {
        name: "delegated",
        title: "Delegated hand-over: a leader grants chains, holders hand over directly",
        source: "Meshlock's own",
        kind: Kind::Token,
        permits: Permits::Chosen,
        demands: Demands::PLAIN,
        tokens: Tokens::PerPermit,
        channels: Channels::Unordered,
        assumes: "reliable channels; the leader does not fail within a view",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim {
            since: Since::Heard,
            entries: Formula::new("2N−1", |scale| (2 * scale.sites - 1) as f64),
            source: "ours: whoever asked before enters once, and at most B ≤ N pass; with one permit, and chain up to N",
        }),
        failures: Failures::NONE,
        options: &[
            OptionInfo {
                name: "leader",
                about: "the site that leads, modulo N: a hash of the lock's name will do",
                range: Range::Integer { least: 0, most: usize::MAX },
                default: "0",
            },
            OptionInfo {
                name: "chain",
                about: "B, the longest chain of direct hand-overs; 1 keeps a hung holder from delaying others",
                range: Range::WordsOr { words: &["sites"], notation: "a whole number from 1" },
                default: "sites",
            },
        ],
        variants: &["delegated:chain=1", "delegated:chain=2", "delegated:leader=1"],
        messages: &[
            MessageInfo { kind: "REQ", about: "from a site that wants to enter, to the leader" },
            MessageInfo { kind: "PERM", about: "the permit and the next waiters, from holder to holder" },
            MessageInfo { kind: "APPEND", about: "from the leader to the last of a chain: who follows it" },
            MessageInfo { kind: "REL", about: "from the last of a chain to the leader: the permit is back" },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("3", |scale| if scale.sites > 1 { 3.0 } else { 0.0 }),
            heavy: Formula::new("1 + 2(K−1)/N; about 2 where requests do not ride", |scale| {
                if scale.sites == 1 {
                    0.0
                } else {
                    1.0 + 2.0 * (scale.permits - 1) as f64 / scale.sites as f64
                }
            }),
            always: None,
            sync_delay: "T; 2T between chains",
        },
        memory: Memory { fixed: 300, per_site: 80 },
        departures: &[
            "the host carries the fence, so PERM does not",
            "requests are numbered, so that duplicates and late APPENDs are recognised",
        ],
    };
}

impl Algorithm for Delegated {
    type Plan = Shared<DelegatedSetup>;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Shared<DelegatedSetup>, PlanError> {
        let leader = SiteId::new(values.integer("leader") % cluster.sites);
        let max_chain = match values.get("chain") {
            "sites" => cluster.sites,
            given => {
                given.parse().ok().filter(|&max_chain| max_chain > 0).ok_or_else(|| PlanError::Option {
                    option: "chain",
                    why: format!("'{given}' is neither 'sites' nor a whole number from 1"),
                })?
            }
        };
        Ok(Shared::new(DelegatedSetup { cluster, leader, max_chain }))
    }

    /// Each holder is a chain of its own. The other permits are with the leader.
    fn start(setup: &Shared<DelegatedSetup>, me: SiteId, holders: &Holders) -> Self {
        let room = setup.max_chain.min(setup.cluster.sites);
        let state = match holders.iter().position(|holder| holder == me) {
            Some(slot) => DelegatedState::Executing { permit: Box::new(Permit::fresh(slot, room)) },
            None => DelegatedState::Idle,
        };
        let dispatcher =
            (me == setup.leader).then(|| Box::new(Dispatcher::new(setup.cluster, setup.max_chain, holders)));
        Delegated { me, setup: setup.clone(), state, number: 0, dispatcher }
    }

    fn phase(&self) -> Phase {
        match self.state {
            DelegatedState::Idle => Phase::Idle,
            DelegatedState::Waiting { .. } => Phase::Waiting,
            DelegatedState::Executing { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == DelegatedState::Idle
            && self.dispatcher.as_ref().is_none_or(|dispatcher| dispatcher.is_quiet())
    }

    /// With one permit, and chains of at most as many entries as there are sites.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        let DelegatedSetup { cluster, max_chain, .. } = *self.setup;
        Self::INFO.bypass.claim().filter(|_| cluster.permits == 1 && max_chain <= cluster.sites)
    }

    fn tokens(&self) -> usize {
        let at_home = self.dispatcher.as_ref().map_or(0, |dispatcher| dispatcher.permits_at_home());
        at_home + usize::from(self.phase() == Phase::Executing)
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.number(Family::Site(self.me), &mut self.number);
        match &mut self.state {
            DelegatedState::Idle | DelegatedState::Waiting { next: None } => {}
            DelegatedState::Waiting { next: Some(next) } => next.numbers(numbers),
            DelegatedState::Executing { permit } => permit.numbers(numbers),
        }
        if let Some(dispatcher) = &mut self.dispatcher {
            dispatcher.numbers(numbers);
        }
    }

    fn view(&self) -> View {
        let view = match &self.dispatcher {
            Some(dispatcher) => dispatcher.view(),
            None => View::new().pointer("leader", self.setup.leader),
        };
        match &self.state {
            DelegatedState::Waiting { next: Some(next) } => view.pointer("next", next.site),
            DelegatedState::Executing { permit } => view
                .value("permit", permit.slot.0)
                .queue("next", permit.next.iter().map(|waiter| waiter.site))
                .queue("ask again", permit.again.iter().map(|waiter| waiter.site)),
            DelegatedState::Idle | DelegatedState::Waiting { next: None } => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.dispatcher.is_some() == (self.me == self.setup.leader),
            "I1: the leader and only the leader has a dispatcher"
        );
        self.dispatcher.as_ref().map_or(Ok(()), |dispatcher| dispatcher.check())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let Some(dispatcher) = sites.iter().find_map(|site| site.dispatcher.as_ref()) else { return Ok(()) };
        let held = sites.iter().filter_map(|site| match &site.state {
            DelegatedState::Executing { permit } => Some((site.waiter(), &**permit)),
            DelegatedState::Idle | DelegatedState::Waiting { .. } => None,
        });
        let sent = in_flight.iter().filter_map(|&(from, to, message)| match message {
            Message::Perm { number, permit } => Some((Waiter { site: to, number: *number }, &**permit)),
            Message::Release { number, permit } => Some((Waiter { site: from, number: *number }, &**permit)),
            Message::Request { .. } | Message::Append { .. } => None,
        });
        let out: Vec<(Waiter, &Permit)> = held.chain(sent).collect();
        let mut slots: Vec<Slot> =
            dispatcher.slots_at_home().chain(out.iter().map(|(_, permit)| permit.slot)).collect();
        slots.sort_unstable();
        invariant!(
            slots.iter().map(|slot| slot.0 as usize).eq(0..sites[0].setup.cluster.permits),
            "I5: every permit is in exactly one place"
        );
        invariant!(
            out.iter().all(|(holder, permit)| dispatcher.knows(*holder, permit)),
            "I6: whoever has a permit is in its chain, followed by those that the permit names"
        );
        let told = sites.iter().filter_map(|site| match site.state {
            DelegatedState::Waiting { next: Some(next) } => Some((site.waiter(), next)),
            DelegatedState::Idle | DelegatedState::Waiting { .. } | DelegatedState::Executing { .. } => None,
        });
        for (tail, next) in told {
            invariant!(
                dispatcher.follows(tail, next),
                "I7: whoever waits and is told what follows it is followed by that in its chain"
            );
        }
        Ok(())
    }
}

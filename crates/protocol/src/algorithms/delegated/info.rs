//! What a host needs to know of `delegated`: its options, its costs, its start and its invariants.

use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Known, Memory,
    MessageInfo, OptionInfo, Order, Permits, Range, Since, Tokens,
};
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Cluster, Described, Family, Holders, Mode, Numbers, Phase, PlanError, SiteId, View, invariant,
};

use super::dispatcher::Dispatcher;
use super::message::changes_of;
use super::{Delegated, DelegatedSetup, DelegatedState, Message, Permit, together};

impl Described for Delegated {
    const INFO: Info = Info {
        name: "delegated",
        title: "Delegated hand-over: a leader grants chains, holders hand over directly",
        source: "Meshlock's own",
        kind: Kind::Token,
        permits: Permits::Chosen,
        demands: Demands { modes: Known::Yes, priorities: Known::Yes },
        tokens: Tokens::PerPermit,
        channels: Channels::Unordered,
        assumes: "reliable channels; the leader does not fail within a view",
        order: Order::Fair,
        bypass: ClaimedBypass::AtMost(BypassClaim {
            since: Since::Heard,
            entries: Formula::new("2N−1", |scale| (2 * scale.sites - 1) as f64),
            source: "ours: whoever asked before enters once, and at most B ≤ N pass; with one permit, and chain up to N. Of those that it \
                     excludes; (N−1)(d+1) more if others are d > 0 levels of priority above it, nothing with priority=strict",
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
            OptionInfo {
                name: "share",
                about: "whether who shares may let others of its site in while nobody waits; then each that may is told when somebody does",
                range: Range::Choice(&["open", "asked"]),
                default: "open",
            },
            OptionInfo {
                name: "priority",
                about: "whether a waiter rises one level with each chain or batch that goes before it, or priorities are strict and the \
                        less urgent may wait for ever",
                range: Range::Choice(&["ages", "strict"]),
                default: "ages",
            },
        ],
        variants: &["delegated:chain=1", "delegated:chain=2", "delegated:leader=1"],
        messages: &[
            MessageInfo { kind: "REQ", about: "from a site that wants to enter, to the leader" },
            MessageInfo { kind: "PERM", about: "the permit and the next waiters, from holder to holder" },
            MessageInfo { kind: "APPEND", about: "from the leader to the last of a chain: who follows it" },
            MessageInfo { kind: "REL", about: "from the last of a chain to the leader: the permit is back" },
            MessageInfo { kind: "SHARE", about: "from the leader to a site that may enter and share" },
            MessageInfo {
                kind: "CLOSE",
                about: "from the leader to a site that shares: somebody waits, let nobody else in",
            },
            MessageInfo { kind: "DONE", about: "from a site that shared, to the leader" },
            MessageInfo {
                kind: "UPGRADE",
                about: "from the upgradeable site to the leader: it wants to be exclusive",
            },
            MessageInfo { kind: "UPGRADED", about: "from the leader to the site that upgrades: it is alone" },
            MessageInfo {
                kind: "DOWNGRADE",
                about: "from a site inside to the leader: its lower mode, and the permit if it has that",
            },
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
        let (opens, strict) = (values.get("share") == "open", values.get("priority") == "strict");
        Ok(Shared::new(DelegatedSetup { cluster, leader, max_chain, opens, strict }))
    }

    /// Each exclusive holder is a chain of its own. The other permits are with the leader, also the one that holders share.
    fn start(setup: &Shared<DelegatedSetup>, me: SiteId, holders: &Holders) -> Self {
        let room = setup.max_chain.min(setup.cluster.sites);
        let shares = holders.mode(me).filter(|mode| *mode != Mode::Exclusive);
        let state = match (shares, holders.iter().position(|holder| holder == me)) {
            (Some(mode), _) => DelegatedState::Sharing { mode, upgrading: false, open: setup.opens },
            (None, Some(slot)) => DelegatedState::Executing { permit: Box::new(Permit::fresh(slot, room)) },
            (None, None) => DelegatedState::Idle,
        };
        let dispatcher = (me == setup.leader).then(|| Box::new(Dispatcher::new(setup, holders)));
        Delegated { me, setup: setup.clone(), state, number: 0, changes: 0, dispatcher }
    }

    fn phase(&self) -> Phase {
        match self.state {
            DelegatedState::Idle => Phase::Idle,
            DelegatedState::Waiting { .. } | DelegatedState::Asking { .. } => Phase::Waiting,
            DelegatedState::Executing { .. } | DelegatedState::Sharing { .. } => Phase::Executing,
        }
    }

    fn mode(&self) -> Mode {
        match self.state {
            DelegatedState::Idle | DelegatedState::Waiting { .. } | DelegatedState::Executing { .. } => {
                Mode::Exclusive
            }
            DelegatedState::Asking { mode, .. } | DelegatedState::Sharing { mode, .. } => mode,
        }
    }

    fn is_upgrading(&self) -> bool {
        matches!(self.state, DelegatedState::Sharing { upgrading: true, .. })
    }

    fn may_share(&self) -> bool {
        matches!(self.state, DelegatedState::Sharing { open: true, .. })
    }

    fn is_quiet(&self) -> bool {
        self.state == DelegatedState::Idle
            && self.dispatcher.as_ref().is_none_or(|dispatcher| dispatcher.is_quiet())
    }

    /// With one permit, chains of at most as many entries as there are sites, and priorities that age.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        let DelegatedSetup { cluster, max_chain, strict, .. } = *self.setup;
        Self::INFO.bypass.claim().filter(|_| cluster.permits == 1 && max_chain <= cluster.sites && !strict)
    }

    fn tokens(&self) -> usize {
        let here = self.dispatcher.as_ref().map_or(0, |dispatcher| dispatcher.tokens());
        here + usize::from(matches!(self.state, DelegatedState::Executing { .. }))
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.number(Family::Site(self.me), &mut self.number);
        numbers.number(changes_of(self.me), &mut self.changes);
        match &mut self.state {
            DelegatedState::Idle
            | DelegatedState::Waiting { next: None }
            | DelegatedState::Asking { .. }
            | DelegatedState::Sharing { .. } => {}
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
            DelegatedState::Asking { mode, .. } => view.value("asks to be", mode),
            DelegatedState::Sharing { upgrading: true, mode, .. } => {
                view.value("is", format!("{mode}, upgrades"))
            }
            DelegatedState::Sharing { open: true, mode, .. } => view.value("is", format!("{mode}, open")),
            DelegatedState::Sharing { mode, .. } => view.value("is", mode),
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
        together::check(sites, in_flight)
    }
}

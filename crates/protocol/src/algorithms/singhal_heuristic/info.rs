//! What is known of the algorithm, its options, and how it starts.

use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Span, Text, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{Algorithm, Cluster, Described, Holders, Phase, PlanError, Shared, SiteId, SiteSet, View};

use super::arbitration::Arbitration;
use super::message::{Message, Number, SinghalToken, Trail};
use super::partition::Merge;
use super::{SinghalHeuristic, SinghalState, checks};

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan(Shared<SinghalOptions>);

/// The options of a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SinghalOptions {
    pub(super) sites: usize,
    pub(super) text: Text,
    pub(super) arbitration: Arbitration,
    pub(super) count: Count,
    pub(super) merge: Merge,
    pub(super) adaptive: bool,
    pub(super) focused: bool,
}

/// Section III-G, the two forms of step 1: what a sequence number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Count {
    /// The requests that leave their site.
    Requests,
    /// Every entry, also one on the idle token that is here.
    Entries,
}

const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "arbitration",
        about: "who gets the token next: the nearest site in the order of ids, round and round, the one with the lowest \
                sequence number, or any, which the host chooses",
        range: Range::Open { policies: &["nearest", "lowest"], any: "any" },
        default: "nearest",
    },
    OptionInfo {
        name: "count",
        about: "what a sequence number counts: the requests that leave the site, or every entry (the second form of \
                step 1)",
        range: Range::Choice(&["requests", "entries"]),
        default: "requests",
    },
    OptionInfo {
        name: "merge",
        about: "how the part of a split network that had no token joins the other: by the order of ids, or one after the \
                other by RECOVERING_PART",
        range: Range::Choice(&["order", "chain"]),
        default: "order",
    },
    OptionInfo {
        name: "adaptive",
        about: "a site that leaves and wants to enter again at once writes that request into the token: 1 message per entry at \
                heavy load",
        range: Range::Flag,
        default: "no",
    },
    OptionInfo {
        name: "focused",
        about: "a site that asks again soon after it left, when at least half of the sites waited, asks only the last of \
                those: 2 messages per entry if that still waits, 2 more than otherwise if not",
        range: Range::Flag,
        default: "no",
    },
    OptionInfo::text("printed: sections III-F and III-G to the letter, which deadlock; for the checker only"),
];

impl Described for SinghalHeuristic {
    const INFO: Info = Info {
        name: "singhal-heuristic",
        title: "Singhal: ask only those who probably have the token",
        source: "Singhal 1989, A Heuristically-Aided Algorithm for Mutual Exclusion in Distributed Systems",
        kind: Kind::Token,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::One,
        channels: Channels::Unordered,
        assumes: "reliable FIFO channels",
        order: Order::Fair,
        // Section IV-C claims N−1 of the rules as printed, which does not hold.
        bypass: ClaimedBypass::Nothing(
            "what section IV-C claims is not true, of the printed rules nor of these (erratum singhal-heuristic-twice)",
        ),
        failures: Failures { crash: true, recovery: true, partition: true },
        options: OPTIONS,
        variants: &[
            "singhal-heuristic:arbitration=lowest",
            "singhal-heuristic:count=entries",
            "singhal-heuristic:merge=chain",
            "singhal-heuristic:adaptive",
            "singhal-heuristic:arbitration=lowest,count=entries,adaptive",
            "singhal-heuristic:adaptive,focused",
        ],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, to those that probably have the token",
            },
            MessageInfo { kind: "TOKEN", about: "from the last holder to the next" },
            MessageInfo { kind: "FOCUS", about: "focused: a request to one site alone" },
            MessageInfo { kind: "MISS", about: "focused: from that site, if one is not enough" },
            MessageInfo { kind: "RECOVERING", about: "from a site that has come back, to all others" },
            MessageInfo { kind: "WELCOME", about: "from each of them in return" },
            MessageInfo {
                kind: "ASK",
                about: "after a failure, from the smallest site: what do you know of the token?",
            },
            MessageInfo { kind: "ANSWER", about: "from each of the others in return" },
            MessageInfo { kind: "MERGE", about: "after a split, from the smallest site: who joins whom" },
            MessageInfo {
                kind: "RECOVERING_PART",
                about: "merge=chain: from a joining site to those after it",
            },
        ],
        costs: Costs {
            lone_least: Formula::new("0", |_| 0.0),
            lone_most: Formula::new("N", |scale| if scale.sites == 1 { 0.0 } else { scale.sites as f64 }),
            heavy: Formula::new("N", |scale| scale.sites as f64),
            always: Some(Span {
                least: Formula::new("0", |_| 0.0),
                most: Formula::new("N", |scale| scale.sites as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 400, per_site: 16 },
        departures: &[
            "a request that comes after its sender was served is not discarded, and whoever has the token idle answers \
             it with its own last request (as printed: deadlock)",
            "a token counts how often it was sent, so that copies are recognised",
            "a number begins with how often its site has failed (as printed a recovered site's requests look outdated)",
            "a site that comes back asks for nothing before all have welcomed it",
            "after a failure or a split the smallest site asks all for the last they know of the token; no timeouts",
            "when two parts merge, a site that waits asks all it looks to again, and i1 looks to those it tells",
        ],
    };
}

impl Algorithm for SinghalHeuristic {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        Ok(Plan(Shared::new(SinghalOptions {
            sites: cluster.sites,
            text: values.text(),
            arbitration: match values.get("arbitration") {
                "lowest" => Arbitration::Lowest,
                "any" => Arbitration::Any,
                _ => Arbitration::Nearest,
            },
            focused: values.flag("focused"),
            adaptive: values.flag("adaptive"),
            merge: if values.get("merge") == "chain" { Merge::Chain } else { Merge::Order },
            count: if values.get("count") == "entries" { Count::Entries } else { Count::Requests },
        })))
    }

    /// Section III-F, Figure 1: the staircase, with the token at its low end. The paper's S1 is the holder here, and
    /// the others stand in the order in which one meets them from there; S(i) looks to all between the holder and
    /// itself.
    fn start(Plan(options): &Plan, me: SiteId, holders: &Holders) -> Self {
        let (sites, home) = (options.sites, holders.token_home());
        let asked = SiteSet::all_but(me, sites);
        SinghalHeuristic {
            me,
            state: match (me == home, holders.contains(me)) {
                (true, true) => SinghalState::Executing { token: Box::new(SinghalToken::new(sites)), asked },
                (true, false) => SinghalState::Holding { token: Box::new(SinghalToken::new(sites)), asked },
                (false, _) => SinghalState::Idle,
            },
            options: options.clone(),
            number: Number::ZERO,
            row: std::iter::once(home)
                .chain(SiteId::others_from(home, sites))
                .take_while(|&site| site != me)
                .collect(),
            last_requests: vec![Number::ZERO; sites].into(),
            trail: if me == home { Trail::Held { passes: 0 } } else { Trail::Unknown },
            focus: None,
            down: SiteSet::new(),
            recovery: None,
            partition: None,
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            SinghalState::Idle | SinghalState::Holding { .. } => Phase::Idle,
            SinghalState::Waiting { .. } => Phase::Waiting,
            SinghalState::Executing { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle && self.recovery.as_ref().is_none_or(|recovery| recovery.is_settled())
    }

    fn tokens(&self) -> usize {
        usize::from(self.holds_token())
    }

    fn view(&self) -> View {
        let view = View::new().set("SV = R", &self.row);
        match &self.state {
            SinghalState::Executing { token, .. } | SinghalState::Holding { token, .. } => {
                view.set("TSV = R", &token.requesting)
            }
            SinghalState::Waiting { asked } => view.set("asked", asked).waiting_for(asked.iter()),
            SinghalState::Idle => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        checks::site(self)
    }

    /// Section IV-C, for the rules as printed; erratum `singhal-heuristic-twice`.
    fn bypass_claim(&self) -> Option<BypassClaim> {
        let claim = BypassClaim::each_other_once("Singhal 1989, section IV-C");
        let is_claimed =
            self.options.text == Text::Printed && self.options.arbitration == Arbitration::Nearest;
        is_claimed.then_some(claim)
    }

    /// A request to one site alone that misses costs two messages for nothing.
    fn cost_span(&self) -> Option<Span> {
        let missed = Formula::new("N+2", |scale| (scale.sites + 2) as f64);
        let always = Self::INFO.costs.always;
        if self.options.focused { always.map(|span| Span { most: missed, ..span }) } else { always }
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        checks::together(sites, in_flight)
    }
}

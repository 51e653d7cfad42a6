//! What is known of Cao and Singhal's algorithm, how it starts, and what must hold.

use crate::algorithms::arbiter::{DeadlockRules, EXCHANGE};
use crate::algorithms::maekawa::sets;
use crate::quorum::QuorumSystem;
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, Order,
    Permits, Tokens,
};
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, Numbers, Phase, PlanError, SiteId, SiteSet, Timestamp,
    View, invariant,
};

use super::{CaoSinghal, Message, TransferArbiter, TransferRequester};

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    rules: DeadlockRules,
    sets: Shared<QuorumSystem>,
}

impl Plan {
    pub(super) fn sites(&self) -> usize {
        self.sets.sites()
    }

    /// Whom the site `me` asks.
    pub(super) fn quorum_of(&self, me: SiteId) -> &SiteSet {
        self.sets.quorum_of(me).expect("there is a set for each site")
    }

    /// How many sites ask `arbiter`.
    fn askers(&self, arbiter: SiteId) -> usize {
        self.sets.quorums().iter().filter(|set| set.contains(arbiter)).count()
    }
}

impl Described for CaoSinghal {
    const INFO: Info = Info {
        name: "cao-singhal",
        title: "Cao and Singhal: whoever leaves passes its quorum's permissions straight on",
        source: "Cao & Singhal 2001; Cao et al. 1998",
        kind: Kind::Quorum,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable channels",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "its abstract, which is what we have, gives no number; a site outside of the request set may ask again with an earlier timestamp",
        ),
        failures: Failures::NONE,
        options: &[sets::OPTION, DeadlockRules::option("fail")],
        variants: &["cao-singhal:deadlock=yield"],
        messages: &[
            EXCHANGE[0],
            MessageInfo {
                about: "an arbiter's permission, from the arbiter or from the site that had it before",
                ..EXCHANGE[1]
            },
            EXCHANGE[2],
            MessageInfo {
                kind: "TRANSFER",
                about: "from the arbiter: when you leave, pass my permission on to this request",
            },
            MessageInfo {
                about: "the same for an earlier request, and could the permission be had back before",
                ..EXCHANGE[3]
            },
            EXCHANGE[4],
            MessageInfo {
                about: "the permission back, or to whom it was passed on, after the critical section",
                ..EXCHANGE[5]
            },
        ],
        costs: Costs {
            lone_least: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            lone_most: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            heavy: Formula::new("5(k−1) − 1", |scale| 5.0 * (scale.quorum - 1) as f64 - 1.0),
            always: None,
            sync_delay: "T; 2T where no TRANSFER has come in time",
        },
        memory: Memory { fixed: 540, per_site: 14 },
        departures: &[
            "the rules as we understood them: we have the papers' abstracts, not their texts",
            "every message names its request, and what is about a permission its turn: late ones are recognised, no FIFO needed",
            "a TRANSFER or INQUIRE that overtakes its REPLY is remembered",
            "a RELEASE of a forwarded permission stands for the one that has yet to say so",
            "a REPLY of the arbiter names the next request; no TRANSFER names the arbiter's own process first",
        ],
    };
}

impl Algorithm for CaoSinghal {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let sets = Shared::new(sets::chosen(cluster, values)?);
        Ok(Plan { rules: DeadlockRules::of(values), sets })
    }

    /// The site `me` at the start: a holder is inside on the permissions of its quorum, which are with it.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let request = |site| Timestamp::new(Clock::ZERO, site);
        let holder = holders.only().filter(|&holder| plan.quorum_of(holder).contains(me)).map(request);
        let mut requester = TransferRequester::new(plan.rules, plan.quorum_of(me).len());
        if holders.contains(me) {
            requester = requester.inside(request(me), plan.quorum_of(me));
        }
        CaoSinghal {
            me,
            plan: plan.clone(),
            clock: Clock::ZERO,
            requester,
            arbiter: TransferArbiter::new(plan.rules, holder, plan.askers(me)),
        }
    }

    fn phase(&self) -> Phase {
        self.requester.phase()
    }

    /// Whether the process is idle and the permission is here.
    fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle && self.arbiter.is_free()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        self.requester.timestamp()
    }

    fn quorum(&self) -> Option<usize> {
        Some(self.plan.quorum_of(self.me).len())
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.clock(&mut self.clock);
        self.requester.numbers(numbers);
        self.arbiter.numbers(numbers);
    }

    fn view(&self) -> View {
        let forwards = self.requester.forwards().map(|(arbiter, next)| format!("{arbiter} to {next}"));
        let view = View::new()
            .set("quorum", self.plan.quorum_of(self.me))
            .queue("req_queue", self.arbiter.waiting())
            .queue("tran_stack", forwards);
        let lock = self.arbiter.holder();
        let view = lock.into_iter().fold(view, |view, request| view.pointer("lock", request.site));
        view.waiting_for(self.requester.missing())
    }

    /// A1 to A4, R1 to R4 and Q1 of one site.
    fn check_invariants(&self) -> Result<(), &'static str> {
        self.arbiter.check_invariants()?;
        self.requester.check_invariants()?;
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "Q1: the clock is not behind the site's own request");
        Ok(())
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let carries = |to: SiteId, message: &Message, of: SiteId| match message {
            Message::Reply { arbiter, .. } => *arbiter == of,
            Message::Yield { .. } | Message::Release { forwarded: None, .. } => to == of,
            Message::Request { .. }
            | Message::Failed { .. }
            | Message::Transfer { .. }
            | Message::Inquire { .. }
            | Message::Release { forwarded: Some(_), .. } => false,
        };
        for arbiter in sites {
            let of = arbiter.me;
            let with = sites.iter().filter(|site| site.requester.permitted_by().any(|by| by == of)).count();
            let on_the_way = in_flight.iter().filter(|(_, to, message)| carries(*to, message, of)).count();
            invariant!(
                usize::from(arbiter.arbiter.is_free()) + with + on_the_way == 1,
                "Q2: each arbiter's permission is in exactly one place"
            );
        }
        Ok(())
    }
}

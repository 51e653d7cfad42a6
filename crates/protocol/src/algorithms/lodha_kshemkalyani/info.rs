//! What is known of Lodha and Kshemkalyani's algorithm, and how it starts.

use super::leaving::Custody;
use super::message::{remembered, remembered_request};
use super::text::LodhaText;
use super::{LodhaKshemkalyani, LodhaRules, Message, invariants};
use crate::algorithms::request::RequestState;
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo,
    OptionInfo, Order, Permits, Range, Span, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Family, Holders, Numbers, Phase, PlanError, SiteId, SiteSet,
    Timestamp, View,
};

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    rules: LodhaRules,
}

impl Described for LodhaKshemkalyani {
    const INFO: Info = Info {
        name: "lodha-kshemkalyani",
        title: "Lodha and Kshemkalyani's fair algorithm: requests that cross answer each other",
        source: "Lodha & Kshemkalyani 2000, section 3; Kshemkalyani & Singhal ch. 9, section 9.6",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Fifo,
        assumes: "reliable FIFO channels",
        order: Order::Timestamp,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "Lodha & Kshemkalyani 2000, section 4.3, Theorem 1: requests are satisfied in decreasing order of priority",
        )),
        failures: Failures::NONE,
        options: &[
            OptionInfo::texts(
                LodhaText::WORDS,
                "printed: Figure 2 to the letter, which deadlocks and lets two in; without-…: the repair without one part; \
                 for the checker only",
            ),
            OptionInfo {
                name: "combined-exit",
                about: "who leaves sends one message to the first that waits, which passes on what is for the others",
                range: Range::Flag,
                default: "no",
            },
            OptionInfo {
                name: "keep-deferred",
                about: "who leaves keeps deferred requests for a moment: if it asks again, both need no reply",
                range: Range::Flag,
                default: "no",
            },
            OptionInfo {
                name: "sequence-on-all",
                about: "every message carries the highest sequence number seen, not only a REQUEST",
                range: Range::Flag,
                default: "no",
            },
        ],
        variants: &[
            "lodha-kshemkalyani:combined-exit",
            "lodha-kshemkalyani:keep-deferred",
            "lodha-kshemkalyani:sequence-on-all",
            "lodha-kshemkalyani:combined-exit,keep-deferred",
            "lodha-kshemkalyani:combined-exit,sequence-on-all",
            "lodha-kshemkalyani:keep-deferred,sequence-on-all",
            "lodha-kshemkalyani:combined-exit,keep-deferred,sequence-on-all",
        ],
        messages: &[
            MessageInfo {
                kind: "REQUEST",
                about: "from a site that wants to enter, to all others; answers what it crosses",
            },
            MessageInfo { kind: "REPLY", about: "from a site that does not stand in the way, or no longer" },
            MessageInfo {
                kind: "FLUSH",
                about: "from a site that leaves, to the next of those that it crossed",
            },
            MessageInfo {
                kind: "HANDOVER",
                about: "combined-exit: from a site that leaves, to the first that waits, what all are owed",
            },
        ],
        costs: Costs {
            lone_least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            lone_most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2(N−1), N where all cross", |scale| 2.0 * (scale.sites - 1) as f64),
            always: Some(Span {
                least: Formula::new("N−1", |scale| (scale.sites - 1) as f64),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 184, per_site: 25 },
        departures: &[
            "a site's own request raises the highest sequence number seen",
            "a late REQUEST that is known to be finished counts as an answer but is not queued",
            "a FLUSH never counts as an answer",
            "a REQUEST tells, as a REPLY does, that its sender's previous request is finished",
            "a REPLY names the request that it answers and a HANDOVER has a number, so that duplicates are recognised",
            "combined-exit: a REQUEST says which request its sender has answered already (sketched without: deadlock)",
            "combined-exit: who would keep an earlier request waiting passes a HANDOVER on at once",
            "keep-deferred: deferred requests are kept for one message delay, then get their replies",
        ],
    };
}

impl Algorithm for LodhaKshemkalyani {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let rules = LodhaRules {
            text: LodhaText::of(values),
            combined_exit: values.flag("combined-exit"),
            keep_deferred: values.flag("keep-deferred"),
            sequence_on_all: values.flag("sequence-on-all"),
        };
        let improved = rules.combined_exit || rules.keep_deferred || rules.sequence_on_all;
        if rules.text == LodhaText::Printed && improved {
            let why =
                "the printed text goes without the improvements; take them away, or text=repaired".into();
            return Err(PlanError::Option { option: "text", why });
        }
        Ok(Plan { cluster, rules })
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
            rules: plan.rules,
            state: inside.map_or(RequestState::Idle, RequestState::Executing),
            executed: None,
            clock: Clock::ZERO,
            last_request: vec![Clock::ZERO; sites].into(),
            finished: None,
            answered: inside.map_or_else(SiteSet::new, |_| SiteSet::all_but(me, sites)),
            queue,
            deferred: SiteSet::new(),
            custody: plan.rules.combined_exit.then(|| Box::new(Custody::new(sites))),
            timer_runs: false,
        }
    }

    fn phase(&self) -> Phase {
        self.state.phase()
    }

    fn is_quiet(&self) -> bool {
        let holds_nothing = self.custody.as_ref().is_none_or(|custody| custody.held.is_empty());
        self.state == RequestState::Idle && self.deferred.is_empty() && holds_nothing
    }

    fn timestamp(&self) -> Option<Timestamp> {
        self.own()
    }

    /// A finished request before all others says as much as none. Who hands over names one, so that there it is kept.
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.clock(&mut self.clock);
        self.state.numbers(numbers);
        self.queue.iter_mut().for_each(|request| numbers.timestamp(request));
        self.last_request.iter_mut().for_each(|clock| numbers.remembered_clock(clock));
        remembered(&mut self.executed, numbers);
        let mut finished = self.finished.unwrap_or(Timestamp::new(Clock::ZERO, SiteId::new(0)));
        remembered_request(&mut finished, numbers);
        let is_passed_on = self.custody.is_some();
        self.finished = (is_passed_on || finished.clock > Clock::ZERO).then_some(finished);
        if let Some(custody) = &mut self.custody {
            custody.held.iter_mut().for_each(|owed| numbers.timestamp(&mut owed.request));
            numbers.number(Family::Site(self.me), &mut custody.sent);
            for (site, received) in SiteId::all(custody.received.len()).zip(&mut custody.received) {
                numbers.remembered(Family::Site(site), received);
            }
        }
    }

    fn view(&self) -> View {
        let view = View::new()
            .queue("LRQ", &self.queue)
            .set("answered RV", &self.answered)
            .set("deferred", &self.deferred);
        let peers = SiteId::all(self.last_request.len()).filter(|&site| site != self.me);
        let mut missing = peers.filter(|&site| !self.answered.contains(site)).peekable();
        match self.state {
            RequestState::Waiting(_) if missing.peek().is_some() => view.waiting_for(missing),
            RequestState::Waiting(_) => view.waiting_for(self.queue.first().map(|first| first.site)),
            RequestState::Idle | RequestState::Executing(_) => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariants::of_one_site(self)
    }

    fn check_together(sites: &[&Self], in_flight: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        invariants::of_all_sites(sites, in_flight)
    }
}

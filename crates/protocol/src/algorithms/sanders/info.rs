//! What is known of Sanders' algorithm, its options, how it starts and what must hold.

use crate::information::notation::NOTATION;
use crate::information::{InformationStructure, Mend};
use crate::quorum::QuorumSystem;
use crate::registry::info::{
    Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Memory, MessageInfo, OptionInfo,
    Order, Permits, Range, Tokens,
};
use crate::registry::values::Values;
use crate::shared::Shared;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Described, Holders, Numbers, Phase, PlanError, SiteId, SiteSet, Timestamp,
    View, invariant,
};

use super::slip::{Slip, Slips};
use super::{Arbiter, Message, Sanders, SandersState};

/// What is done about deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadlock {
    /// Section 5: a site gives a grant back once it knows by a FAIL that it must wait.
    Fail,
    /// A site that waits always gives a grant back; nobody says FAIL.
    Yield,
    /// Section 3: nothing, except that a site does not stand in its own way.
    Plain,
}

/// What all sites share and never changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SandersRules {
    pub(super) structure: InformationStructure,
    pub(super) deadlock: Deadlock,
    pub(super) slips: Slips,
}

impl SandersRules {
    /// When two sites that shared inform sites start to ask each other.
    pub(super) fn mend(&self) -> Mend {
        if self.slips.has(Slip::LateMending) { Mend::AtNone } else { Mend::AtHalf }
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan(Shared<SandersRules>);

const WORDS: &[&str] = &[
    "grid",
    "plane",
    "pair",
    "central",
    "distributed",
    "figure-1a",
    "figure-1b",
    "figure-1c",
    "figure-2",
    "figure-3a",
    "figure-3b",
    "figure-4",
];

/// The structure that the option names, or why there is none for this number of sites.
fn structure(sites: usize, word: &str) -> Result<InformationStructure, String> {
    let of_quorums = |quorums: &QuorumSystem| InformationStructure::from_quorums(quorums);
    let built = match word {
        "grid" => of_quorums(&QuorumSystem::grid(sites).map_err(|error| error.to_string())?),
        "plane" => of_quorums(&QuorumSystem::folded_plane(sites).map_err(|error| error.to_string())?),
        "pair" => InformationStructure::pair(sites),
        "central" => InformationStructure::central(sites, SiteId::new(0)),
        "distributed" => InformationStructure::distributed(sites),
        "figure-1a" => InformationStructure::figure_1a(),
        "figure-1b" => InformationStructure::figure_1b(),
        "figure-1c" => InformationStructure::figure_1c(),
        "figure-2" => InformationStructure::figure_2(),
        "figure-3a" => InformationStructure::figure_3a(),
        "figure-3b" => InformationStructure::figure_3b(),
        "figure-4" => InformationStructure::figure_4(),
        given => InformationStructure::parse(sites, given).map_err(|error| error.to_string())?,
    };
    if built.sites() == sites {
        Ok(built)
    } else {
        Err(format!("{word} has {} sites, not {sites}", built.sites()))
    }
}

impl Described for Sanders {
    const INFO: Info = Info {
        name: "sanders",
        title: "Sanders: one algorithm over any information structure",
        source: "Sanders 1987, sections 3 to 7",
        kind: Kind::Quorum,
        permits: Permits::One,
        demands: Demands::PLAIN,
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable FIFO channels; failures are detected without fail",
        order: Order::Fair,
        bypass: ClaimedBypass::Nothing(
            "the paper does not say it: a site outside of the request set does not hear of the request, and may ask again with an earlier timestamp",
        ),
        failures: Failures { crash: true, recovery: false, partition: false },
        options: &[
            OptionInfo {
                name: "structure",
                about: "who informs and asks whom; refused if it cannot exclude",
                range: Range::WordsOr { words: WORDS, notation: NOTATION },
                default: "grid",
            },
            OptionInfo {
                name: "deadlock",
                about: "fail: section 5; yield: no FAIL, always give a grant back; plain: can deadlock, for the checker",
                range: Range::Choice(&["fail", "yield", "plain"]),
                default: "fail",
            },
            OptionInfo {
                name: "force",
                about: "take a structure that cannot exclude all the same; for the checker only",
                range: Range::Flag,
                default: "no",
            },
            OptionInfo::texts(
                Slips::WORDS,
                "printed: sections 5 and 7.1 to the letter, which deadlock and let two in; others: one slip of them only; \
                 for the checker only",
            ),
        ],
        variants: &[
            "sanders:deadlock=yield",
            "sanders:structure=plane",
            "sanders:structure=pair",
            "sanders:structure=pair,deadlock=yield",
            "sanders:structure=central",
            "sanders:structure=distributed",
        ],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to its request set" },
            MessageInfo { kind: "GRANT", about: "from a site that knows of no obstacle" },
            MessageInfo { kind: "FAIL", about: "from a site that grants an earlier request first" },
            MessageInfo { kind: "INQUIRE", about: "asks for a grant back, on behalf of an earlier request" },
            MessageInfo { kind: "YIELD", about: "gives a grant back" },
            MessageInfo { kind: "RELEASE", about: "from a site that has left, to its inform set" },
        ],
        costs: Costs {
            lone_least: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            lone_most: Formula::new("3(k−1)", |scale| 3.0 * (scale.quorum - 1) as f64),
            heavy: Formula::new("4(k−1); 3(k−1) with deadlock=yield", |scale| {
                4.0 * (scale.quorum - 1) as f64
            }),
            always: None,
            sync_delay: "2T; T between sites that inform no third site",
        },
        memory: Memory { fixed: 360, per_site: 28 },
        departures: &[
            "an INQUIRE is remembered until a FAIL or the grant's use answers it (as printed: deadlock)",
            "FAIL also goes to a newcomer behind another queued request (as printed: deadlock)",
            "a REQUEST carries the known failures, and all additions to a request set are asked (as printed: unsafe)",
            "two sites ask each other when half of what they shared has failed, not all (as printed: unsafe)",
            "a waiting site always yields to itself, as section 5 proposes for Figure 1b",
            "messages name their request and round, so that late ones and duplicates are recognised",
        ],
    };
}

impl Algorithm for Sanders {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let refused = |why: String| PlanError::Option { option: "structure", why };
        let structure = structure(cluster.sites, values.get("structure")).map_err(refused)?;
        if !values.flag("force") {
            structure.check().map_err(|flaw| refused(flaw.to_string()))?;
        }
        let slips = Slips::of(values);
        // Figure 1b owes it to the remedy, which is one of the slips, that it cannot deadlock.
        let figure_1b = structure.all().all(|site| structure.status(site).len() == 1);
        let without_remedy = figure_1b && slips.has(Slip::OwnInquire);
        let deadlock = match values.get("deadlock") {
            _ if structure.cannot_deadlock() && !without_remedy => Deadlock::Plain,
            "yield" => Deadlock::Yield,
            "plain" => Deadlock::Plain,
            _ => Deadlock::Fail,
        };
        Ok(Plan(Shared::new(SandersRules { structure, deadlock, slips })))
    }

    /// A holder is inside on a request older than any that can follow, and its inform set has granted it. Whoever
    /// shares no inform site with it must ask it, and waits for it there.
    fn start(Plan(rules): &Plan, me: SiteId, holders: &Holders) -> Self {
        let structure = &rules.structure;
        let askers = structure.all().filter(|&site| structure.request(site).contains(me)).count();
        let holder = holders.only().filter(|&holder| structure.inform(holder).contains(me));
        let request = Timestamp::new(Clock::ZERO, me);
        Sanders {
            me,
            rules: rules.clone(),
            state: if holders.contains(me) {
                SandersState::Executing { request }
            } else {
                SandersState::Idle
            },
            request_set: structure.request(me).clone(),
            rounds: vec![0; structure.sites()].into(),
            clock: Clock::ZERO,
            failed: SiteSet::new(),
            arbiter: Arbiter::new(structure.sites(), askers, holder),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            SandersState::Idle => Phase::Idle,
            SandersState::Waiting { .. } => Phase::Waiting,
            SandersState::Executing { .. } => Phase::Executing,
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == SandersState::Idle && self.arbiter.lock.is_none() && self.arbiter.queue.is_empty()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        match self.state {
            SandersState::Idle => None,
            SandersState::Waiting { request, .. } | SandersState::Executing { request } => Some(request),
        }
    }

    fn quorum(&self) -> Option<usize> {
        Some(self.request_set.len())
    }

    /// Between two requests the rounds do not matter: each request begins again.
    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.clock(&mut self.clock);
        match &mut self.state {
            SandersState::Idle => self.rounds.fill(0),
            SandersState::Waiting { request, .. } | SandersState::Executing { request } => {
                numbers.timestamp(request);
            }
        }
        self.arbiter.numbers(numbers);
    }

    fn view(&self) -> View {
        let structure = &self.rules.structure;
        let view = View::new()
            .set("inform set I", structure.inform(self.me))
            .set("request set R", &self.request_set)
            .queue("queue", self.arbiter.queue.iter().map(|queued| queued.request));
        let lock = self.arbiter.lock.iter();
        let view = lock.fold(view, |view, lock| view.pointer("granted", lock.request.site));
        match &self.state {
            SandersState::Waiting { missing, .. } => view.waiting_for(missing.iter()),
            SandersState::Idle | SandersState::Executing { .. } => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        self.check_arbiter()?;
        if let SandersState::Waiting { missing, blocked, .. } = &self.state {
            invariant!(
                !missing.is_empty() && blocked.is_subset(missing),
                "I4: a waiting site misses a grant; FAILs are from sites whose grant it misses"
            );
        }
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "I5: the clock is not behind the site's own request");
        Ok(())
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        for inside in sites.iter().filter(|site| site.phase() == Phase::Executing) {
            let informed = inside.rules.structure.inform(inside.me).intersection(&inside.request_set);
            let arbiters = informed.iter().map(|site| &sites[site.index()]);
            for arbiter in arbiters.filter(|arbiter| !arbiter.failed.contains(inside.me)) {
                let granted = arbiter.arbiter.lock.as_ref().map(|lock| lock.request);
                invariant!(
                    granted == inside.timestamp(),
                    "I7: while a site is inside, its inform set remember its grant"
                );
            }
        }
        Ok(())
    }
}

impl Sanders {
    fn check_arbiter(&self) -> Result<(), &'static str> {
        let Arbiter { lock, queue, .. } = &self.arbiter;
        invariant!(
            lock.is_some() || queue.is_empty(),
            "I1: a request is queued only while a grant is remembered"
        );
        invariant!(
            queue.is_sorted_by(|a, b| a.request < b.request)
                && queue.iter().map(|queued| queued.request.site).collect::<SiteSet>().len() == queue.len()
                && queue.iter().all(|queued| !self.failed.contains(queued.request.site)),
            "I2: the queue is in order of timestamps, one a site, without failed sites"
        );
        let Some(lock) = lock else { return Ok(()) };
        let holder = lock.request.site;
        invariant!(
            self.rules.structure.status(self.me).contains(holder) && !self.failed.contains(holder),
            "I3: only a grant to a site of the status set that has not failed is remembered"
        );
        let early = queue.first().is_some_and(|first| first.request < lock.request);
        let told = queue.iter().skip(usize::from(early)).all(|queued| queued.told);
        let repaired = !self.rules.slips.has(Slip::UntoldNewcomer);
        invariant!(
            (!early || lock.inquired || self.rules.deadlock == Deadlock::Plain)
                && (told || self.rules.deadlock != Deadlock::Fail || !repaired),
            "I6: an earlier queued request has made the site inquire, all others have been told FAIL"
        );
        Ok(())
    }
}

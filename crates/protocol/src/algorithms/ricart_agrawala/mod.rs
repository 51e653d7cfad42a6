//! Ricart and Agrawala's algorithm: ask everyone, and defer to whoever asked first.
//!
//! Kshemkalyani and Singhal, chapter 9, section 9.4, Algorithm 9.2; Lodha and Kshemkalyani, section 2.2, Figure 1.
//!
//! A site that wants to enter sends its timestamp to all others and enters when all have replied. A site that is asked
//! replies at once, unless it is inside or wants to enter itself with the smaller timestamp: then it replies when it
//! leaves. Of any two requesters the later one thus waits for the earlier one, and of all the earliest enters.
//!
//! ```text
//!  alone:      S0 ──REQUEST(1,S0)──▶ S1, S2        contended: S0 asks (1,S0), S1 asks (1,S1)
//!              S0 ◀──REPLY────────── S1, S2                   S1 ──REPLY──▶ S0     S0 precedes: S1 replies
//!              S0 enters                                      S0 enters, leaves
//!                                                             S0 ──REPLY──▶ S1     the deferred reply
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 2(N−1) | – | N clocks, 2 sets | 4 |
//! | heavy load | 2(N−1) | T | the same | 4 |
//!
//! **Modes** (option `modes`, our own extension). A request is shared, upgradeable or exclusive, and a site replies at once, too, if its
//! process and the request admit each other ([`Mode::admits`]): readers do not defer readers. All that was said above holds of any
//! two requests that exclude each other. An exclusive request costs and says exactly what it does without the option; the others say
//! their mode.
//!
//! ```text
//!  upgrade: S0 is inside, upgradeable; S1 waits for S0 no longer, but for S2; S2 is inside, shared
//!           S0 ──UPGRADE──▶ S1, S2        S0 defers all requests from now on
//!           S0 ◀──YIELD──── S1            S1 lets S0 pass: what S0 has replied before is withdrawn, S1 waits for another reply
//!                           S2 leaves
//!           S0 ◀──REPLY──── S2            S0 is exclusive
//!           S0 leaves ──REPLY──▶ S1       the renewed reply
//! ```
//!
//! - *Upgrade*: everybody's leave is needed again, because it was given for a mode that admits readers. A site inside answers when it leaves;
//!   all others answer at once, whatever their timestamps: who upgrades keeps its place. A reader that waits may have been given leave
//!   already. UPGRADE says for which request that was, and the reader then waits for a new one. It must not refuse instead: a writer that
//!   waits for the upgrading site may be what the reader waits for. If the withdrawn reply is still on its way, the reader answers once
//!   it has arrived, so that channels need no order, and a duplicate is never taken for the renewed reply, which names the upgrade.
//!   From its call on each other site enters at most once before it, and once all UPGRADEs have arrived nobody does.
//! - *Downgrade*: deferred replies go to those that are admitted now. A reader with a later timestamp than a waiting writer is among them and
//!   does not pass it, because the writer itself defers the reader: no timestamps have to be compared here.
//! - *Fairness*: a reader or writer defers every later request that it excludes. So, once its request has arrived everywhere, each other
//!   site enters at most once before it in a mode that it excludes: readers do not starve writers. Entries that it admits are not in its
//!   way, and not counted.
//! - *Release* while an upgrade waits gives it up. Answers to it, and an UPGRADE that arrives after the next request, are ignored; a
//!   reader that has yielded to it gets its reply as soon as it says so.
//! - An upgrade costs 2(N−1) messages, and one more for each reader that yields.
//!
//! **Assumes** reliable channels. The chapter also assumes FIFO; it is not needed.
//!
//! **Departures**
//! - Modes are not in the papers; without the option nothing differs from them.
//! - No **choice** is open: which deferred reply is sent first makes no difference, since they go to different sites.
//! - The highest clock seen is raised by *every* REQUEST. Figure 1 of the Lodha paper raises it only when it defers
//!   one; as printed two sites get in with N = 2 (`text=printed` keeps that variant for the checker;
//!   erratum `lodha-figure-1-highest-seen`).
//! - A REPLY names the request that it answers, and a site remembers the last request of each other site, so that a
//!   duplicate of either is recognised. The papers' channels do not duplicate.
//!
//! **Invariants**
//! - I1: a reply is deferred only while the site waits or executes.
//! - I2: a waiting site still misses a reply, and never one of its own.
//! - I3: the clock is not behind the site's own request.
//! - I4: of two sites that wait and exclude each other, at least one still misses the other's reply.
//!
//! With `modes`, in `sharing.rs`:
//! - I5: a site that upgrades is inside, upgradeable, and misses an answer.
//! - I6: a site inside that does not upgrade owes a reply only to those that its mode excludes.
//! - I7: a withdrawn reply that is still on its way is missing.
//! - I8: who waits misses the reply of everybody inside that excludes it.
//! - I9: who has answered an upgrade is not inside, and does not enter before it ends.

mod facts;
mod message;
mod sharing;
#[cfg(test)]
mod tests;

use crate::mutant::{self, Mutant};
use crate::registry::info::{
    BypassClaim, Channels, ClaimedBypass, Costs, Demands, Failures, Formula, Info, Kind, Known, Memory,
    MessageInfo, OptionInfo, Order, Permits, Range, Span, Text, Tokens,
};
use crate::registry::values::Values;
use crate::site::InFlight;
use crate::{
    Algorithm, Clock, Cluster, Demand, Described, Holders, Mode, NOT_A_PEER, Numbers, Outbox, Phase,
    PlanError, Priority, Site, SiteId, SiteSet, Timestamp, View, invariant,
};

pub use message::Message;
use sharing::{Meaning, NOT_SHARING, Sharing};

/// One site of Ricart and Agrawala's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RicartAgrawala {
    // This site.
    me: SiteId,
    text: Text,
    // The local process.
    state: RicartAgrawalaState,
    // What this site knows of the others.
    /// `Highest_Sequence_Number_Seen`: no request that I have seen has a larger clock.
    clock: Clock,
    /// The clock of the last request of each site; zero before its first.
    last_request: Box<[Clock]>,
    /// `RD`: whom I owe a reply.
    deferred: SiteSet,
    /// What belongs to the option `modes`, if it is on.
    sharing: Option<Box<Sharing>>,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RicartAgrawalaState {
    Idle,
    /// Waits to enter: this request misses the replies of these sites.
    Waiting {
        request: Timestamp,
        missing: SiteSet,
    },
    /// Is in the critical section, on this request.
    Executing {
        request: Timestamp,
    },
}

impl Site for RicartAgrawala {
    type Message = Message;

    fn request(&mut self, out: &mut Outbox<Message>) {
        self.ask(Mode::Exclusive, out);
    }

    fn request_as(&mut self, demand: Demand, out: &mut Outbox<Message>) {
        let is_known = demand.mode == Mode::Exclusive || self.sharing.is_some();
        assert!(
            is_known && demand.priority == Priority::default(),
            "the host asks only for what the algorithm knows"
        );
        self.ask(demand.mode, out);
    }

    fn change_mode(&mut self, to: Mode, out: &mut Outbox<Message>) {
        assert!(
            matches!(self.state, RicartAgrawalaState::Executing { .. })
                && !self.upgrades()
                && self.own_mode().may_become(to),
            "the host changes the mode only of a process that is inside and may have the new one"
        );
        if to == Mode::Exclusive { self.begin_upgrade(out) } else { self.downgrade(to, out) }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.last_request.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { clock } => self.on_request(Timestamp::new(clock, from), Mode::Exclusive, out),
            Message::Reply { to } => self.on_reply(from, to, out),
            Message::RequestAs { .. } if self.sharing.is_none() => out.misbehaved(from, NOT_SHARING),
            Message::RequestAs { mode: Mode::Exclusive, .. } => {
                out.misbehaved(from, "an exclusive request in the form of the others");
            }
            Message::RequestAs { clock, mode } => self.on_request(Timestamp::new(clock, from), mode, out),
            Message::Upgrade { clock, withdrawn } => self.on_upgrade(from, clock, withdrawn, out),
            Message::Yield { to } => self.on_yield(from, to, out),
        }
    }

    /// Algorithm 9.2, releasing, step (d): all deferred replies are sent.
    fn release(&mut self, out: &mut Outbox<Message>) {
        assert!(
            matches!(self.state, RicartAgrawalaState::Executing { .. }),
            "the host releases only while the process is inside"
        );
        self.state = RicartAgrawalaState::Idle;
        for site in self.deferred.iter() {
            out.send(site, Message::Reply { to: self.last_request[site.index()] });
        }
        self.deferred.clear();
        if let Some(sharing) = &mut self.sharing {
            sharing.leave();
        }
        if mutant::is_on(Mutant::RicartAgrawalaSameNumber) {
            self.clock = self.last_request.iter().copied().max().unwrap_or_default();
        }
    }
}

impl RicartAgrawala {
    /// Algorithm 9.2, requesting, step (a).
    fn ask(&mut self, mode: Mode, out: &mut Outbox<Message>) {
        assert!(self.state == RicartAgrawalaState::Idle, "the host requests only while the process is idle");
        let request = Timestamp::new(self.clock.tick(), self.me);
        let (clock, missing) = (request.clock, SiteSet::all_but(self.me, self.last_request.len()));
        let message = match mode {
            Mode::Exclusive => Message::Request { clock },
            Mode::Shared | Mode::Upgradeable => Message::RequestAs { clock, mode },
        };
        out.send_all(&missing, &message);
        if let Some(sharing) = &mut self.sharing {
            sharing.mode = mode;
        }
        self.state = RicartAgrawalaState::Waiting { request, missing };
        self.enter_if_all_replied(out);
    }

    /// Algorithm 9.2, step (b): reply, or defer if this site is inside or precedes. With modes only if they exclude each other.
    fn on_request(&mut self, theirs: Timestamp, mode: Mode, out: &mut Outbox<Message>) {
        let from = theirs.site;
        let again = mutant::is_on(Mutant::RicartAgrawalaSameNumber)
            && theirs.clock == self.last_request[from.index()];
        if theirs.clock <= self.last_request[from.index()] && !again {
            return out.misbehaved(from, "a request that is not newer than its last");
        }
        let gave_up = self.sharing.as_ref().is_some_and(|sharing| sharing.owes_for_upgrade(from));
        if self.deferred.contains(from) && !gave_up {
            return out.misbehaved(from, "a second request before the first was answered");
        }
        if gave_up {
            self.forget_deferred(from);
        }
        self.last_request[from.index()] = theirs.clock;
        let excludes = self.excludes(mode);
        let deferring = match &self.state {
            RicartAgrawalaState::Idle => false,
            RicartAgrawalaState::Waiting { .. } if mutant::is_on(Mutant::RicartAgrawalaEarlyReply) => false,
            RicartAgrawalaState::Waiting { request, .. }
                if mutant::is_on(Mutant::RicartAgrawalaWrongTieBreak) =>
            {
                request.clock < theirs.clock
            }
            RicartAgrawalaState::Waiting { .. }
                if mode == Mode::Shared && mutant::is_on(Mutant::RicartAgrawalaReadersFirst) =>
            {
                false
            }
            RicartAgrawalaState::Waiting { request, .. } => excludes && *request < theirs,
            RicartAgrawalaState::Executing { request } => {
                excludes && (self.text == Text::Repaired || *request < theirs)
            }
        };
        if deferring || self.text == Text::Repaired {
            self.clock.observe(theirs.clock);
        }
        if deferring {
            self.deferred.insert(from);
            if let Some(sharing) = &mut self.sharing {
                sharing.defer(from, mode);
            }
        } else {
            out.send(from, Message::Reply { to: theirs.clock });
        }
    }

    /// Forgets that a reply is owed.
    fn forget_deferred(&mut self, from: SiteId) {
        self.deferred.remove(from);
        if let Some(sharing) = &mut self.sharing {
            sharing.forget(from);
        }
    }

    /// Algorithm 9.2, step (c): enter once all have replied.
    fn on_reply(&mut self, from: SiteId, to: Clock, out: &mut Outbox<Message>) {
        let meaning = match (&self.state, &self.sharing) {
            (RicartAgrawalaState::Waiting { request, missing }, sharing) if missing.contains(from) => {
                match sharing {
                    Some(sharing) => sharing.meaning(from, to, request.clock),
                    None if request.clock == to => Meaning::Leave,
                    None => Meaning::Nothing,
                }
            }
            (
                RicartAgrawalaState::Idle
                | RicartAgrawalaState::Waiting { .. }
                | RicartAgrawalaState::Executing { .. },
                _,
            ) => Meaning::Nothing,
        };
        match meaning {
            Meaning::Leave => self.on_leave(from, out),
            Meaning::Void(upgrade) => {
                if let Some(sharing) = &mut self.sharing {
                    sharing.on_void(from);
                }
                out.send(from, Message::Yield { to: upgrade });
            }
            Meaning::Nothing => {
                if !self.answers_upgrade(from, to, out) {
                    out.misbehaved(from, "a reply that nobody waits for");
                }
            }
        }
    }

    /// A reply that the process waits for.
    fn on_leave(&mut self, from: SiteId, out: &mut Outbox<Message>) {
        if let RicartAgrawalaState::Waiting { missing, .. } = &mut self.state {
            missing.remove(from);
        }
        self.enter_if_all_replied(out);
    }

    fn enter_if_all_replied(&mut self, out: &mut Outbox<Message>) {
        if let RicartAgrawalaState::Waiting { request, missing } = &self.state
            && missing.is_empty()
        {
            self.state = RicartAgrawalaState::Executing { request: *request };
            if let Some(sharing) = &mut self.sharing {
                sharing.enter();
            }
            out.enter();
        }
    }
}

/// What all sites share: fixed before the first one starts.
#[derive(Clone, Debug)]
pub struct Plan {
    cluster: Cluster,
    text: Text,
    shares: bool,
}

impl Described for RicartAgrawala {
    const INFO: Info = Info {
        name: "ricart-agrawala",
        title: "Ricart and Agrawala: ask everyone, defer to whoever asked first",
        source: "Kshemkalyani & Singhal ch. 9, section 9.4; Lodha & Kshemkalyani 2000, section 2.2",
        kind: Kind::Permission,
        permits: Permits::One,
        demands: Demands { modes: Known::With("modes"), priorities: Known::No },
        tokens: Tokens::None,
        channels: Channels::Unordered,
        assumes: "reliable FIFO channels",
        order: Order::Timestamp,
        bypass: ClaimedBypass::AtMost(BypassClaim::each_other_once(
            "ch. 9, section 9.4; Lodha & Kshemkalyani 2000, section 2.2: \"The execution of CS requests in this algorithm is always in the order of their decreasing priority\"",
        )),
        failures: Failures::NONE,
        options: &[
            OptionInfo::text(
                "printed: Figure 1 of the Lodha paper to the letter, which lets two in; for the checker only",
            ),
            OptionInfo {
                name: "modes",
                about: "processes may share: readers do not defer readers, and modes change inside (our own extension)",
                range: Range::Flag,
                default: "no",
            },
        ],
        variants: &["ricart-agrawala:modes"],
        messages: &[
            MessageInfo { kind: "REQUEST", about: "from a site that wants to enter, to all others" },
            MessageInfo { kind: "REPLY", about: "from a site that does not stand in the way, or no longer" },
            MessageInfo {
                kind: "UPGRADE",
                about: "with modes: from a site inside that wants to be exclusive, to all others",
            },
            MessageInfo {
                kind: "YIELD",
                about: "with modes: from a reader that waits, to a site that upgrades",
            },
        ],
        costs: Costs {
            lone_least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            lone_most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            heavy: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            always: Some(Span {
                least: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
                most: Formula::new("2(N−1)", |scale| 2.0 * (scale.sites - 1) as f64),
            }),
            sync_delay: "T",
        },
        memory: Memory { fixed: 120, per_site: 8 },
        departures: &[
            "every REQUEST raises the highest clock seen (Lodha Figure 1 raises it only when deferring: unsafe)",
            "a REPLY names the request that it answers, so that duplicates are recognised",
        ],
    };
}

impl Algorithm for RicartAgrawala {
    type Plan = Plan;

    fn info(&self) -> &'static Info {
        &Self::INFO
    }

    fn plan(cluster: Cluster, values: &Values) -> Result<Plan, PlanError> {
        let (text, shares) = (values.text(), values.flag("modes"));
        if shares && text != Text::Repaired {
            return Err(PlanError::Option {
                option: "modes",
                why: "the printed text has none; leave text=printed out".to_owned(),
            });
        }
        Ok(Plan { cluster, text, shares })
    }

    /// A holder is inside on a request older than any that can follow; the others need not know of it, because it
    /// will defer whatever they ask.
    fn start(plan: &Plan, me: SiteId, holders: &Holders) -> Self {
        let request = Timestamp::new(Clock::ZERO, me);
        RicartAgrawala {
            me,
            text: plan.text,
            state: if holders.contains(me) {
                RicartAgrawalaState::Executing { request }
            } else {
                RicartAgrawalaState::Idle
            },
            clock: Clock::ZERO,
            last_request: vec![Clock::ZERO; plan.cluster.sites].into(),
            deferred: SiteSet::new(),
            sharing: plan.shares.then(|| Box::new(Sharing::start(holders.mode(me)))),
        }
    }

    fn phase(&self) -> Phase {
        match self.state {
            RicartAgrawalaState::Idle => Phase::Idle,
            RicartAgrawalaState::Waiting { .. } => Phase::Waiting,
            RicartAgrawalaState::Executing { .. } => Phase::Executing,
        }
    }

    fn mode(&self) -> Mode {
        self.own_mode()
    }

    fn is_upgrading(&self) -> bool {
        self.upgrades()
    }

    /// As long as no request waits that one more reader would pass.
    fn may_share(&self) -> bool {
        let is_inside = matches!(self.state, RicartAgrawalaState::Executing { .. });
        is_inside && !self.excludes(Mode::Shared) && self.deferred.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.state == RicartAgrawalaState::Idle && self.deferred.is_empty()
    }

    fn timestamp(&self) -> Option<Timestamp> {
        match self.state {
            RicartAgrawalaState::Idle => None,
            RicartAgrawalaState::Waiting { request, .. } | RicartAgrawalaState::Executing { request } => {
                Some(request)
            }
        }
    }

    fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.clock(&mut self.clock);
        match &mut self.state {
            RicartAgrawalaState::Idle => {}
            RicartAgrawalaState::Waiting { request, .. } | RicartAgrawalaState::Executing { request } => {
                numbers.timestamp(request);
            }
        }
        self.last_request.iter_mut().for_each(|clock| numbers.remembered_clock(clock));
        if let Some(sharing) = &mut self.sharing {
            sharing.numbers(numbers);
        }
    }

    fn view(&self) -> View {
        let view = View::new()
            .set("deferred", &self.deferred)
            .value("highest ts seen", self.clock.value())
            .table("last ts seen", self.last_request.iter().map(|clock| clock.value()));
        let upgrade = self.sharing.as_ref().and_then(|sharing| sharing.upgrade.as_ref());
        let view = match upgrade {
            Some(missing) => view.set("missing answers", missing).waiting_for(missing.iter()),
            None => view,
        };
        match &self.state {
            RicartAgrawalaState::Waiting { missing, .. } => {
                view.set("missing replies", missing).waiting_for(missing.iter())
            }
            RicartAgrawalaState::Idle | RicartAgrawalaState::Executing { .. } => view,
        }
    }

    fn check_invariants(&self) -> Result<(), &'static str> {
        invariant!(
            self.state != RicartAgrawalaState::Idle || self.deferred.is_empty(),
            "I1: a reply is deferred only while the site waits or executes"
        );
        if let RicartAgrawalaState::Waiting { missing, .. } = &self.state {
            invariant!(
                !missing.is_empty() && !missing.contains(self.me),
                "I2: a waiting site still misses a reply, and never one of its own"
            );
        }
        let own = self.timestamp().map_or(Clock::ZERO, |request| request.clock);
        invariant!(own <= self.clock, "I3: the clock is not behind the site's own request");
        self.check_sharing()
    }

    fn check_together(sites: &[&Self], _: &[InFlight<'_, Message>]) -> Result<(), &'static str> {
        let misses = |a: &Self, b: &Self| matches!(&a.state, RicartAgrawalaState::Waiting { missing, .. } if missing.contains(b.me));
        let waiting = || sites.iter().filter(|site| site.phase() == Phase::Waiting);
        for a in waiting() {
            for b in waiting().filter(|b| b.me > a.me && !a.own_mode().admits(b.own_mode())) {
                invariant!(
                    misses(a, b) || misses(b, a),
                    "I4: of two that wait and exclude each other, one still misses the other's reply"
                );
            }
        }
        for a in sites.iter().filter(|a| a.sharing.is_some()) {
            sites.iter().filter(|b| b.me != a.me).try_for_each(|b| a.check_sharing_of(b))?;
        }
        Ok(())
    }
}

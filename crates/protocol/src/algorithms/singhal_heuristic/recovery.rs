//! Section VI-B: sites that fail and come back, and the token that may be lost with them.
//!
//! A site that learns of a failure stops looking to the failed site and leaves it out of arbitration (cases I and III).
//! Whether the token was lost (cases II and III) is found out without timeouts, because a failure is known for certain. The
//! smallest site that runs asks the others for their *trail*, the last that each knows of the token. A site answers when
//! it knows of the failure itself: from then on it neither sends anything to the failed site nor gets anything from it. So
//! the latest of all trails tells where the token is; if it leads to a failed site, or there is none, the token is lost,
//! and the asker makes a new one from the answers, which also say who waits (this covers case IV).
//!
//! ```text
//!  S2 fails with the token:   S0 ──ASK──▶ S1     S0 ◀──ANSWER: sent to S2, I wait── S1     S0 makes the token
//!  S2 comes back:             S2 ──RECOVERING──▶ S0, S1     S2 ◀──WELCOME── S0, S1
//! ```
//!
//! A site that comes back looks to all others, none of which looks to it, and asks for nothing before all have welcomed it.
//! So whoever has the token knows which incarnation of each other site it deals with.

use crate::mutant::{self, Mutant};
use crate::{Outbox, SiteId, SiteSet};

use super::message::{Death, Message, Number, SinghalToken, Trail};
use super::{SinghalHeuristic, SinghalState};

/// What a site keeps while failures are dealt with, from its first one on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    /// Whether I have to find out whether the token was lost, as soon as I may.
    unsettled: bool,
    /// Whether two parts of a split network have merged, and it is not known yet which joins the other.
    merging: bool,
    /// How many rounds of questions I have begun in this incarnation.
    rounds: u32,
    round: Option<Round>,
    /// Who has come back while I had a round open; welcomed when it ends, so that the asker never changes within one.
    newcomers: Vec<(SiteId, u32)>,
    /// If I have come back: who has not welcomed me yet.
    unwelcomed: SiteSet,
    /// The sites that failed before they could welcome me: I do not know which of their incarnations is over.
    strangers: SiteSet,
    /// Questions that I cannot answer before I know of the failure that they are about; one of an asker.
    questions: Vec<Question>,
    /// The last round of each asker that I have answered.
    answered: Vec<(SiteId, Number)>,
}

/// One round of questions, at the asker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Round {
    id: Number,
    missing: SiteSet,
    /// The latest trail so far, and whose.
    latest: (Trail, SiteId),
    /// The token as it would have to be made.
    requesting: SiteSet,
    numbers: Box<[Number]>,
}

/// A question, at the site that is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    from: SiteId,
    round: Number,
    dead: Box<[Death]>,
}

impl Recovery {
    /// Whether nothing is left to do.
    pub(super) fn is_settled(&self) -> bool {
        !self.merging
            && self.round.is_none()
            && self.newcomers.is_empty()
            && self.unwelcomed.is_empty()
            && self.questions.is_empty()
    }

    /// Whether the site has come back and is not yet welcomed by all.
    pub(super) fn is_recovering(&self) -> bool {
        !self.unwelcomed.is_empty()
    }
}

impl SinghalHeuristic {
    /// Cases I to IV: `peer` is out of the game.
    pub(super) fn on_peer_failed(&mut self, peer: SiteId, out: &mut Outbox<Message>) {
        self.down.insert(peer);
        self.row.remove(peer);
        if let SinghalState::Executing { token, .. } = &mut self.state {
            token.requesting.remove(peer);
        }
        self.lose_focus(peer, out);
        let recovery = self.recovery.get_or_insert_default();
        recovery.unsettled = true;
        recovery.newcomers.retain(|&(site, _)| site != peer);
        recovery.questions.retain(|question| question.from != peer);
        self.answer_if_known(out);
        let recovery = self.recovery.get_or_insert_default();
        if recovery.unwelcomed.remove(peer) {
            recovery.strangers.insert(peer);
            self.finish_if_welcomed(out);
        } else {
            self.begin_round(out);
        }
    }

    /// The crash recovery procedure: the site looks to all others, and tells them.
    pub(super) fn on_restart(&mut self, out: &mut Outbox<Message>) {
        let incarnation = self.number.incarnation + 1;
        self.number = Number { incarnation, count: 0 };
        self.state = SinghalState::Idle;
        self.row = SiteSet::all_but(self.me, self.last_requests.len());
        self.last_requests.fill(Number::ZERO);
        self.trail = Trail::Unknown;
        self.focus = None;
        self.down.clear();
        self.partition = None;
        let unwelcomed = self.row.clone();
        out.send_all(&unwelcomed, &Message::Recovering { incarnation });
        self.recovery = Some(Box::new(Recovery { unwelcomed, ..Recovery::default() }));
        self.finish_if_welcomed(out);
    }

    /// Crash recovery procedure, step 1, at the others: stop looking to the one that came back.
    pub(super) fn on_recovering(&mut self, from: SiteId, incarnation: u32, out: &mut Outbox<Message>) {
        if incarnation <= self.last_requests[from.index()].incarnation {
            return; // It has come again.
        }
        let recovery = self.recovery.get_or_insert_default();
        if recovery.round.is_some() {
            recovery.newcomers.retain(|&(site, _)| site != from);
            recovery.newcomers.push((from, incarnation));
            if recovery.strangers.remove(from) {
                // Now I know which of its incarnations is over, and can ask better.
                self.last_requests[from.index()] = Number { incarnation: incarnation - 1, count: 0 };
                self.begin_round(out);
            }
            return;
        }
        recovery.strangers.remove(from);
        self.last_requests[from.index()] = Number { incarnation, count: 0 };
        let unsettled = self.hand_over_to(from);
        self.down.remove(from);
        // Of two that come back at the same time both go on looking to each other.
        if !self.is_recovering() {
            self.row.remove(from);
        }
        match &mut self.state {
            SinghalState::Idle => {}
            // Its former incarnation had my request.
            SinghalState::Waiting { asked } => {
                asked.remove(from);
            }
            // It looks here, as to everyone.
            SinghalState::Executing { asked, .. } | SinghalState::Holding { asked, .. } => {
                asked.insert(from);
            }
        }
        out.send(from, Message::Welcome { incarnation, mine: self.number.incarnation, unsettled });
        self.answer_if_known(out);
    }

    /// Whether I have yet to find out about a failure and `newcomer`, being smaller, has to do so from now on: I may have
    /// come back myself, and not have been welcomed by all in time.
    fn hand_over_to(&mut self, newcomer: SiteId) -> bool {
        let mine = self.smallest_running() == Some(self.me) && newcomer < self.me;
        let recovery = self.recovery.get_or_insert_default();
        let handed_over = mine && recovery.unsettled;
        recovery.unsettled &= !handed_over;
        handed_over
    }

    fn smallest_running(&self) -> Option<SiteId> {
        SiteId::all(self.last_requests.len()).find(|&site| !self.is_absent(site))
    }

    /// Not in the paper: one more site knows which incarnation of mine it deals with, and I know its.
    pub(super) fn on_welcome(
        &mut self,
        from: SiteId,
        incarnation: u32,
        (theirs, unsettled): (u32, bool),
        out: &mut Outbox<Message>,
    ) {
        if incarnation > self.number.incarnation {
            return out.misbehaved(from, "a welcome to an incarnation that I have not begun");
        }
        let now = self.recovery.as_mut().filter(|_| incarnation == self.number.incarnation);
        if let Some(recovery) = now
            && recovery.unwelcomed.remove(from)
        {
            recovery.unsettled |= unsettled;
            let last = &mut self.last_requests[from.index()];
            *last = (*last).max(Number { incarnation: theirs, count: 0 });
            self.answer_if_known(out);
            self.finish_if_welcomed(out);
        }
    }

    /// All have welcomed me: what waits is asked for now, and what failed meanwhile is dealt with.
    fn finish_if_welcomed(&mut self, out: &mut Outbox<Message>) {
        let alone = self.down.len() + 1 == self.last_requests.len();
        let Some(recovery) = self.recovery.as_mut().filter(|recovery| !recovery.is_recovering()) else {
            return;
        };
        recovery.unsettled |= alone;
        self.ask_row(out);
        self.begin_round(out);
    }

    /// Section VI-A: finds out whether the token was lost, if it falls to me to do so.
    fn begin_round(&mut self, out: &mut Outbox<Message>) {
        let (smallest, is_split, mut missing) = (self.smallest_running(), self.is_split(), self.present());
        missing.remove(self.me);
        let Some(recovery) = self.recovery.as_mut().filter(|recovery| !recovery.is_recovering()) else {
            return;
        };
        if !recovery.unsettled || smallest != Some(self.me) {
            return;
        }
        if is_split && !recovery.merging {
            return; // The token may be beyond the split.
        }
        recovery.rounds += 1;
        let id = Number { incarnation: self.number.incarnation, count: recovery.rounds };
        let incarnation = |site: SiteId| {
            (!recovery.strangers.contains(site)).then_some(self.last_requests[site.index()].incarnation)
        };
        let dead: Box<[_]> =
            self.down.iter().map(|site| Death { site, incarnation: incarnation(site) }).collect();
        for site in missing.iter() {
            let incarnation = self.last_requests[site.index()].incarnation;
            out.send(site, Message::Ask { round: id, incarnation, dead: dead.clone() });
        }
        let mut numbers = self.last_requests.clone();
        numbers[self.me.index()] = self.number;
        let (latest, requesting) = ((Trail::Unknown, self.me), SiteSet::new());
        recovery.round = Some(Round { id, missing, latest, requesting, numbers });
        self.end_round_if_all_answered(out);
    }

    /// Someone wants to know whether the token was lost.
    pub(super) fn on_ask(
        &mut self,
        from: SiteId,
        round: Number,
        (incarnation, dead): (u32, Box<[Death]>),
        out: &mut Outbox<Message>,
    ) {
        if incarnation < self.number.incarnation {
            return; // My former incarnation was asked.
        }
        if dead.iter().any(|death| death.site.index() >= self.last_requests.len()) {
            return out.misbehaved(from, "a question about a site that does not exist");
        }
        let recovery = self.recovery.get_or_insert_default();
        let answered = recovery.answered.iter().any(|&(asker, last)| asker == from && last >= round);
        if answered || recovery.questions.iter().any(|known| known.from == from && known.round >= round) {
            return; // It has come again.
        }
        recovery.questions.retain(|known| known.from != from);
        recovery.questions.push(Question { from, round, dead });
        self.answer_if_known(out);
    }

    /// Answers what is asked about incarnations that I know to be over.
    fn answer_if_known(&mut self, out: &mut Outbox<Message>) {
        let Some(mut recovery) = self.recovery.take() else { return };
        let over = |&Death { site, incarnation }: &Death| {
            self.down.contains(site)
                || incarnation.is_some_and(|incarnation| self.incarnation_of(site) > incarnation)
        };
        // Who has just come back has asked for nothing yet.
        let fresh = recovery.is_recovering();
        let number = if fresh { Number { count: 0, ..self.number } } else { self.number };
        let waiting = matches!(self.state, SinghalState::Waiting { .. }) && !fresh;
        let Recovery { questions, answered, .. } = &mut *recovery;
        questions.retain(|&Question { from, round, ref dead }| {
            let known = dead.iter().all(over);
            if known {
                answered.retain(|&(asker, _)| asker != from);
                answered.push((from, round));
                out.send(from, Message::Answer { round, trail: self.trail, number, waiting });
            }
            !known
        });
        self.recovery = Some(recovery);
    }

    /// One answer to my question.
    pub(super) fn on_answer(
        &mut self,
        from: SiteId,
        round: Number,
        (trail, number, waiting): (Trail, Number, bool),
        out: &mut Outbox<Message>,
    ) {
        if let Trail::Sent { to, .. } = trail
            && to.index() >= self.last_requests.len()
        {
            return out.misbehaved(from, "a trail to a site that does not exist");
        }
        let Some(open) = self.recovery.as_mut().and_then(|recovery| recovery.round.as_mut()) else { return };
        if open.id != round || !open.missing.remove(from) {
            return; // An answer to a round that is over.
        }
        open.numbers[from.index()] = number;
        if waiting && !mutant::is_on(Mutant::HeuristicForgottenWaiter) {
            open.requesting.insert(from);
        }
        if trail.is_later_than(open.latest.0) {
            open.latest = (trail, from);
        }
        self.end_round_if_all_answered(out);
    }

    /// All have answered: nobody can send the token to a failed site any more, so it is known whether one did.
    fn end_round_if_all_answered(&mut self, out: &mut Outbox<Message>) {
        let Some(recovery) = &mut self.recovery else { return };
        let Some(round) = recovery.round.take_if(|round| round.missing.is_empty()) else { return };
        recovery.unsettled = false;
        let merging = std::mem::take(&mut recovery.merging);
        let (mut latest, mut seen_at) = round.latest;
        if self.trail.is_later_than(latest) {
            (latest, seen_at) = (self.trail, self.me);
        }
        // What is here cannot be lost, whatever a peer says.
        let is_here = self.holds_token() || !self.is_lost(latest);
        if merging {
            // If neither part has it, the other joins mine.
            self.merge_into_part_of(if is_here { seen_at } else { self.me }, round.id, out);
        }
        // Beyond a split it may still exist.
        if !is_here && !self.is_split() {
            let passes = latest.passes().saturating_add(1);
            self.make(SinghalToken { passes, requesting: round.requesting, numbers: round.numbers }, out);
        }
        let newcomers = self.recovery.as_mut().map(|recovery| std::mem::take(&mut recovery.newcomers));
        for (site, incarnation) in newcomers.into_iter().flatten() {
            self.on_recovering(site, incarnation, out);
        }
    }

    /// The network is split: who asked cannot be answered, and who was asked cannot answer.
    pub(super) fn drop_round(&mut self) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.unsettled |= recovery.round.take().is_some();
        recovery.questions.clear();
    }

    /// Two parts of the network have merged.
    pub(super) fn seek_active_part(&mut self, out: &mut Outbox<Message>) {
        let recovery = self.recovery.get_or_insert_default();
        (recovery.unsettled, recovery.merging) = (true, true);
        self.answer_if_known(out);
        self.begin_round(out);
    }

    /// It is known which part joins.
    pub(super) fn end_merging(&mut self) {
        if let Some(recovery) = &mut self.recovery {
            recovery.merging = false;
        }
    }

    /// Whether `round` is the last one of `asker` that I have answered.
    pub(super) fn has_answered(&self, asker: SiteId, round: Number) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.answered.contains(&(asker, round)))
    }

    /// Whether the token, last heard of on this trail, was lost.
    fn is_lost(&self, trail: Trail) -> bool {
        match trail {
            Trail::Unknown | Trail::Cut { .. } => true,
            Trail::Held { .. } => false,
            Trail::Sent { to, number, .. } => {
                self.down.contains(to) || number.incarnation < self.incarnation_of(to)
            }
        }
    }

    /// Whether I have come back and am not yet welcomed by all.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.is_recovering())
    }

    /// The last incarnation of `site` that this site knows.
    fn incarnation_of(&self, site: SiteId) -> u32 {
        if site == self.me { self.number.incarnation } else { self.last_requests[site.index()].incarnation }
    }

    /// Case II: the token was lost; here is a new one.
    fn make(&mut self, token: SinghalToken, out: &mut Outbox<Message>) {
        let token = Box::new(token);
        self.trail = Trail::Held { passes: token.passes };
        self.focus = None;
        if let SinghalState::Waiting { asked } = &mut self.state {
            let asked = std::mem::take(asked);
            self.state = SinghalState::Executing { token, asked };
            return out.enter();
        }
        // If it stays, everyone must look here; a new number makes those do so who have had the last one.
        self.number = self.number.next();
        self.pass_or_hold(token, SiteSet::new(), out);
    }
}

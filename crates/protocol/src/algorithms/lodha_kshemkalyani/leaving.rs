//! Leaving: who is told, and how. `FinCS` of Figure 2, and the first two improvements of section 5.

use super::message::{Owed, owe};
use super::{LodhaKshemkalyani, Message};
use crate::algorithms::request::RequestState;
use crate::{Clock, Outbox, SiteId, SiteSet, Timestamp};

/// How long a site keeps deferred requests in the hope that its process asks again, in units of the longest delay.
const DEFERRED_TIMEOUT: u32 = 1;

/// What the first improvement adds to a site's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Custody {
    /// What others have asked me to pass on when I leave, sorted by requests.
    pub(super) held: Vec<Owed>,
    /// How many HANDOVERs I have sent.
    pub(super) sent: u64,
    /// The number of the last HANDOVER of each site.
    pub(super) received: Box<[u64]>,
}

impl Custody {
    pub(super) fn new(sites: usize) -> Self {
        Custody { held: Vec::with_capacity(sites), sent: 0, received: vec![0; sites].into() }
    }
}

impl LodhaKshemkalyani {
    /// Figure 2, `FinCS`. With `keep-deferred` the deferred requests stay deferred for a while.
    pub(super) fn leave(&mut self, mine: Timestamp, out: &mut Outbox<Message>) {
        self.state = RequestState::Idle;
        self.executed = Some(mine.clock);
        self.finished = self.finished.max(Some(mine));
        let next = self.queue.iter().find(|queued| queued.site != self.me).copied();
        self.queue.clear();
        self.answered.clear();
        if self.rules.keep_deferred && !self.deferred.is_empty() {
            self.tell(next, &SiteSet::new(), out);
            if !self.timer_runs {
                self.timer_runs = true;
                out.set_timer(DEFERRED_TIMEOUT);
            }
        } else {
            let deferred = std::mem::take(&mut self.deferred);
            self.tell(next, &deferred, out);
        }
    }

    /// Section 5, second improvement, where it does not pay: the process has not asked again, so the deferred requests
    /// get their replies.
    pub(super) fn stop_waiting_for_own_request(&mut self, out: &mut Outbox<Message>) {
        self.timer_runs = false;
        if self.state == RequestState::Idle {
            let deferred = std::mem::take(&mut self.deferred);
            self.tell(None, &deferred, out);
        }
    }

    /// Tells `next` that all up to my last request is finished, `deferred` that I answer them, and whoever else is owed
    /// something what it is: each by itself, or all by one HANDOVER if that saves messages.
    fn tell(&mut self, next: Option<Timestamp>, deferred: &SiteSet, out: &mut Outbox<Message>) {
        let several = usize::from(next.is_some()) + deferred.len() > 1;
        match &mut self.custody {
            Some(custody) if several || !custody.held.is_empty() => {
                let me = SiteSet::from_iter([self.me]);
                if let Some(next) = next {
                    owe(&mut custody.held, next, &SiteSet::new());
                }
                for site in deferred.iter() {
                    owe(&mut custody.held, Timestamp::new(self.last_request[site.index()], site), &me);
                }
                self.hand_over(out);
            }
            Some(_) | None => self.tell_each(next, deferred, out),
        }
    }

    /// Figure 2, `FinCS`, steps 1 and 2.
    fn tell_each(&self, next: Option<Timestamp>, deferred: &SiteSet, out: &mut Outbox<Message>) {
        if let (Some(next), Some(executed)) = (next, self.executed) {
            out.send(next.site, Message::Flush { executed, highest: self.highest() });
        }
        for site in deferred.iter() {
            self.reply(site, out);
        }
    }

    /// Answers the last request of `to`.
    pub(super) fn reply(&self, to: SiteId, out: &mut Outbox<Message>) {
        let (clock, executed) = (self.last_request[to.index()], self.executed);
        out.send(to, Message::Reply { to: clock, executed, highest: self.highest() });
    }

    /// The number that `sequence-on-all` adds to a message.
    fn highest(&self) -> Option<Clock> {
        self.rules.sequence_on_all.then_some(self.clock)
    }

    /// Section 5, first improvement: gives all that is held, as far as it still matters, to the first whom it is for.
    fn hand_over(&mut self, out: &mut Outbox<Message>) {
        let highest = self.highest();
        let (Some(custody), Some(finished)) = (&mut self.custody, self.finished) else { return };
        custody.held.retain(|owed| owed.request > finished);
        let Some(first) = custody.held.first() else { return };
        let to = first.request.site;
        custody.sent += 1;
        let owed = std::mem::take(&mut custody.held);
        out.send(to, Message::Handover { number: custody.sent, finished, highest, owed });
    }

    /// Section 5, first improvement: "now it is up to `P_k` to take care of the rest". It is passed on at once if this
    /// site would keep an earlier request waiting, otherwise together with what it owes itself when it leaves.
    pub(super) fn on_handover(
        &mut self,
        from: SiteId,
        number: u64,
        finished: Timestamp,
        mut owed: Vec<Owed>,
        out: &mut Outbox<Message>,
    ) {
        self.learn_finished(finished);
        let own = self.own();
        if let RequestState::Waiting(mine) = self.state
            && let Some(answer) = owed.iter().find(|owed| owed.request == mine)
        {
            self.answered.union_with(&answer.answered);
        }
        owed.retain(|owed| owed.request.site != self.me);
        let Some(custody) = &mut self.custody else { return };
        custody.received[from.index()] = number;
        if custody.held.is_empty() {
            custody.held = owed;
        } else {
            for Owed { request, answered } in owed {
                owe(&mut custody.held, request, &answered);
            }
        }
        let is_first = |mine| custody.held.first().is_none_or(|first| mine < first.request);
        if !own.is_some_and(is_first) {
            self.hand_over(out);
        }
        self.enter_if_first(out);
    }
}

//! The options `adaptive` and `focused`, ours: an answer to what section V-B leaves open, a heuristic for heavy load.
//!
//! A site that leaves and wants to enter again at once writes its next request into the token that it passes on (TSV
//! and TSN). The request *rides*: no message is spent on it, and it is certain to be served, because whoever gets the
//! token knows it. When every site always wants to enter, an entry costs one message, the token itself, instead of N.
//! At low load nothing changes: nobody waits when a site leaves, so the token stays, and the site enters again without
//! a message.
//!
//! Nobody starves: under `arbitration=nearest` a request that rides is served after all that the token met on its way
//! round, as any other. I5 and I6 hold as before. Whoever leaves while the request rides finds it in the token and
//! looks to its site; and those that waited when it was written leave before it is served, or still wait then.

//! `focused` is for a site that asks again soon after it has left, while most still wait that waited then. The last of
//! those is certain to be served, so it alone is asked: two messages for the entry. If it has been served already, it
//! says MISS, and the site asks its whole row; the two messages more are risked only if at least half of the sites
//! waited.
//!
//! ```text
//!  S1 leaves, S2 and S0 wait, S0 last:   S1 ──FOCUS──▶ S0                              S0 still waits: it will pass the token
//!                                        S1 ──FOCUS──▶ S0 ──MISS──▶ S1 ──REQUEST──▶ S2, …   S0 has been served
//! ```

use crate::{Outbox, SiteId, SiteSet};

use super::info::Count;
use super::message::{Message, Number, SinghalToken};
use super::{SinghalHeuristic, SinghalState};

/// The one site that is, or could be, asked alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Focus {
    /// When I left, `site` was the last that waited, for its request `number`.
    Chance { site: SiteId, number: Number },
    /// I wait and have asked nobody else, but for those that have asked me.
    On { site: SiteId },
}

impl SinghalHeuristic {
    /// Step 3, and step 1 again at once.
    pub(super) fn leave_and_ride(
        &mut self,
        mut token: Box<SinghalToken>,
        asked: SiteSet,
        out: &mut Outbox<Message>,
    ) {
        self.update(&mut token, &asked);
        let Some(next) = self.options.arbitration.next(self.me, &token, out) else {
            if self.options.count == Count::Entries {
                self.number = self.number.next();
            }
            self.state = SinghalState::Executing { token, asked };
            return out.enter();
        };
        self.number = self.number.next();
        let asked = self.row.intersection(&token.requesting);
        token.note(self.me, self.number);
        self.focus = None;
        self.pass(token, next, out);
        // Who is left in the row had sent a request that came too late: it must have mine.
        self.state = SinghalState::Waiting { asked };
        self.ask_row(out);
    }

    /// Whom a request that follows soon could be sent to alone: the last that waits now, if at least half of all do.
    pub(super) fn note_last_in_line(&mut self, token: &SinghalToken) {
        let many = self.options.focused && 2 * token.requesting.len() >= self.last_requests.len();
        let last = many.then(|| self.options.arbitration.last(self.me, token)).flatten();
        self.focus = last.map(|site| Focus::Chance { site, number: token.numbers[site.index()] });
    }

    /// Step 1 for a request that one site alone gets; false if there is no reason to expect that it is enough.
    pub(super) fn ask_one(&mut self, out: &mut Outbox<Message>) -> bool {
        let Some(Focus::Chance { site, number: expects }) = self.focus.take() else { return false };
        if self.row.len() < 2 || !self.row.contains(site) || self.is_recovering() {
            return false;
        }
        self.focus = Some(Focus::On { site });
        self.state = SinghalState::Waiting { asked: SiteSet::from_iter([site]) };
        out.send(site, Message::Focus { number: self.number, expects });
        true
    }

    /// A request that only I get. If I am certain to have the token, I need do no more than know of it.
    pub(super) fn on_focus(
        &mut self,
        from: SiteId,
        number: Number,
        expects: Number,
        out: &mut Outbox<Message>,
    ) {
        if number <= self.last_requests[from.index()] {
            return; // It has come again.
        }
        let certain = match &mut self.state {
            // The sender has seen this request of mine in the token: it looks here, and so does all that leaves before
            // me.
            SinghalState::Waiting { asked } if self.number == expects => {
                asked.insert(from);
                true
            }
            SinghalState::Idle | SinghalState::Waiting { .. } => false,
            SinghalState::Executing { .. } | SinghalState::Holding { .. } => true,
        };
        if !certain {
            out.send(from, Message::Miss { number });
        }
        self.on_request(from, number, out);
    }

    /// The one that I asked had been served before.
    pub(super) fn on_miss(&mut self, from: SiteId, number: Number, out: &mut Outbox<Message>) {
        if number == self.number {
            self.lose_focus(from, out);
        }
    }

    /// If I have asked nobody but `site`, I ask everyone now.
    pub(super) fn lose_focus(&mut self, site: SiteId, out: &mut Outbox<Message>) {
        if self.focus.take_if(|focus| *focus == Focus::On { site }).is_some() {
            self.ask_row(out);
        }
    }
}

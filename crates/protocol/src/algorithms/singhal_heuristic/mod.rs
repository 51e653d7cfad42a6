//! Singhal's heuristic token algorithm: ask only those who probably have the token.
//!
//! Singhal, "A Heuristically-Aided Algorithm for Mutual Exclusion in Distributed Systems", IEEE Transactions on
//! Computers 38(5), 1989.
//!
//! Every site keeps a row: whom it believes to be requesting. Such a site has the token, or will have it and can pass
//! it on, so a site that wants to enter asks its row and nobody else. The rows form a staircase: of any two sites one
//! has the other in its row, and the holder's row is empty. The token knows who waits; whoever leaves compares it with
//! what it has heard, and sends it to the next. Who has just been in moves to the low end of the staircase, so that
//! sites which enter often ask few.
//!
//! ```text
//!  Figure 1, N = 4: row of S3 {0,1,2}, of S2 {0,1}, of S1 {0}, of S0 {}; S0 has the token
//!
//!  alone:      S2 ──REQUEST 1──▶ S0, S1        contended: S1 ──REQUEST 1──▶ S0      S1 asks first
//!              S0 ──TOKEN──────▶ S2                       S2 ──REQUEST 1──▶ S0, S1
//!              S2 enters, leaves, keeps it                S0 ──TOKEN──────▶ S1      S1 enters
//!                                                         S1 ──REQUEST 1──▶ S2      Rule 9: S2 asked S1
//!                                                         S1 ──TOKEN──────▶ S2      S1 leaves, S2 enters
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 0 to N, (N+1)/2 on average | – | N numbers, 3 sets | REQUEST 4, TOKEN N + 5 |
//! | heavy load | N | T | the same | the same |
//! | heavy load, `adaptive` | 1 | T | the same | the same |
//!
//! In parts: `arbitration.rs` (who is next), `adaptive.rs` (our heuristics for heavy load), `recovery.rs` (failed sites
//! and lost tokens), `partition.rs` (split networks), `checks.rs` (the invariants).
//!
//! **Assumes** reliable channels. The paper also assumes FIFO; it is not needed. Failures are known for certain; a site
//! comes back only while no other is down (the paper, too, considers single failures), and keeps on stable storage
//! nothing but how often it has failed.
//!
//! **Departures**
//! - The arbitration rule is a **choice** that the paper leaves to its reader. It proposes two, which are here as fixed policies, and asks
//!   of any other only that who waits gets the token in finite time; with `arbitration=any` the host chooses.
//! - As printed the algorithm is not live, FIFO or not: a request that arrives after its sender was served is
//!   discarded, or noted by a site inside and forgotten when that leaves. Its sender had stopped looking here
//!   meanwhile; now neither of the two looks to the other, and the next request of one may wait for ever while the
//!   other has the token idle (N = 3, fifteen steps: `as_printed_a_request_waits_for_ever`; erratum
//!   `singhal-heuristic-not-live`). Lemma 3 and Theorem 2 overlook it. Two changes repair it, without a new kind of
//!   message, and at no cost while no request is slower than the token that answers it:
//!   1. `SN` holds only what a site was told by the requester itself; the update rules do not raise it from the token.
//!      So a late request is not discarded: whoever gets it looks to its sender again (Rules 8 and 9 as they are).
//!      Whether it was served is decided where it matters and is known for certain: at the token.
//!   2. A site that keeps the idle token answers such a late request with its own last one (Rule 9, in state H), once
//!      for each site, so that the other looks here. A site inside does so when it leaves, if the token stays.
//! - Theorem 2 as stated (a strict staircase whenever all is quiet) does not hold: after a request that came later than
//!   the token that answered it, two sites may look to each other. What does hold is I5 and I6, always; and the strict
//!   staircase whenever no request was so late.
//! - A token counts how often it was sent, so that a copy of an earlier one is recognised.
//! - Section VI-B resets all numbers of a site that comes back, which makes its later requests look outdated; here a
//!   number begins with how often the site has failed. Its own `SV` entry is N, not R. It asks for nothing before all
//!   others have welcomed it, so that a token is never passed on by a site that has not heard of its new incarnation.
//! - Section VI-B leaves a token that was on its way to a failed site to timeouts, or to whoever comes back in time.
//!   Here the others know of the failure and make a new token (`recovery.rs`), so the old one is dropped if it still
//!   arrives. The entry of a failed site in TSV is cleared, and nobody sends it the token.
//! - Case IV (the only site that knew of a request fails) needs no requests to all others: no site depends on what a
//!   third one knows (I5, I6), and if the token was lost, the answers say who waits.
//! - Section VI-C takes it as known which part has the token; here the smallest site of two parts that merge asks. The token may
//!   also be lost on its way across; then a new one is made once the network is whole. Two inactive parts are "notified that
//!   they are now a part of a bigger" one; here one also joins the other, so that it is a part as any other. A split or
//!   merger is dealt with before the next one. Method 1 forgets to let i1 look to those that
//!   it tells not to look to it, and neither method lets a site that waits ask its new row; both are done
//!   (`partition.rs`).
//!
//! **Invariants**
//! - I1: no site looks to itself.
//! - I2: a waiting site has asked all it looks to, or one that is certain to be served (`focused`).
//! - I3: a site with the idle token looks to nobody.
//! - I4: an idle token knows of nobody who waits.
//! - I5: of two sites one looks to the other, or a request is on its way between them.
//! - I6: every site looks to the one with the idle token, or a request is on its way between them.
//! - I7: whom the token knows to be requesting is requesting (Lemma 1).
//! - I8 to I10: what the detailed update rules 5 to 7 say "cannot occur" does not, at any site, as long as nothing has failed.
//!
//! No deadlock: if all is delivered and S has the token idle, whoever waits looks to S (I6), has asked S (I2), and S
//! would have known it when it left or given it the token since. I5 and I6 hold because a site stops looking to another
//! only when it leaves, has asked the other for this entry, and the other does not wait: then the other, when it got
//! that request, began to look here, and as long as it knew the request unserved it did not stop.

mod adaptive;
mod arbitration;
mod checks;
mod facts;
mod info;
mod message;
mod partition;
mod recovery;
#[cfg(test)]
mod tests;

pub use info::Plan;
pub use message::{Death, Message, Number, SinghalToken, Trail};

use crate::registry::info::Text;
use crate::{NOT_A_PEER, Outbox, Shared, Site, SiteId, SiteSet};

use adaptive::Focus;
use info::{Count, SinghalOptions};
use partition::Partition;
use recovery::Recovery;

/// One site of Singhal's heuristic algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SinghalHeuristic {
    // This site.
    me: SiteId,
    options: Shared<SinghalOptions>,
    // The local process.
    state: SinghalState,
    /// `SN[me]`: my last request.
    number: Number,
    // What this site knows of the others.
    /// The sites whose `SV` is R. I look to them for the token: they get my next request, or have this one.
    row: SiteSet,
    /// `SN`: the last request of each site that it has told me of.
    last_requests: Box<[Number]>,
    /// The last that I know of the token.
    trail: Trail,
    /// Whom I could ask alone, or have.
    focus: Option<Focus>,
    // What has failed.
    down: SiteSet,
    recovery: Option<Box<Recovery>>,
    partition: Option<Box<Partition>>,
}

/// Table I: the state of a site, with what it needs in that state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SinghalState {
    /// N: not requesting.
    Idle,
    /// R: requesting. `asked` have been sent this request.
    Waiting { asked: SiteSet },
    /// E: executing. `asked` were sent the request that the token came for.
    Executing { token: Box<SinghalToken>, asked: SiteSet },
    /// H: holding the idle token.
    Holding { token: Box<SinghalToken>, asked: SiteSet },
}

impl Site for SinghalHeuristic {
    type Message = Message;

    /// Step 1 (Rules 1 and 2).
    fn request(&mut self, out: &mut Outbox<Message>) {
        match std::mem::replace(&mut self.state, SinghalState::Idle) {
            SinghalState::Idle => {
                self.number = self.number.next();
                if !self.ask_one(out) {
                    self.state = SinghalState::Waiting { asked: SiteSet::new() };
                    self.ask_row(out);
                }
            }
            SinghalState::Holding { token, asked } => {
                if self.options.count == Count::Entries {
                    self.number = self.number.next();
                }
                self.state = SinghalState::Executing { token, asked };
                out.enter();
            }
            SinghalState::Waiting { .. } | SinghalState::Executing { .. } => {
                panic!("the host requests only while the process is idle")
            }
        }
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.last_requests.len() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        match message {
            Message::Request { .. } | Message::Focus { .. } | Message::Token(_) | Message::Ask { .. }
                if self.down.contains(from) =>
            {
                out.misbehaved(from, "a message of an incarnation that is over, or not yet welcomed");
            }
            Message::Request { number } => self.on_request(from, number, out),
            Message::Focus { number, expects } => self.on_focus(from, number, expects, out),
            Message::Miss { number } => self.on_miss(from, number, out),
            Message::Token(token) => self.on_token(from, token, out),
            Message::Recovering { incarnation } => self.on_recovering(from, incarnation, out),
            Message::Welcome { incarnation, mine, unsettled } => {
                self.on_welcome(from, incarnation, (mine, unsettled), out);
            }
            Message::Ask { round, incarnation, dead } => self.on_ask(from, round, (incarnation, dead), out),
            Message::Answer { round, trail, number, waiting } => {
                self.on_answer(from, round, (trail, number, waiting), out);
            }
            Message::Merge { round, joining } => self.on_merge(from, round, joining, out),
            Message::RecoveringPart { round, settled } => self.on_recovering_part(from, round, settled, out),
        }
    }

    /// Step 3 (Rule 3).
    fn release(&mut self, out: &mut Outbox<Message>) {
        let SinghalState::Executing { token, asked } = std::mem::replace(&mut self.state, SinghalState::Idle)
        else {
            panic!("the host releases only while the process is inside");
        };
        self.pass_or_hold(token, asked, out);
    }

    /// Steps 3 and 1; see `adaptive.rs` for how the request can ride on the token.
    fn release_and_request(&mut self, out: &mut Outbox<Message>) {
        if !self.options.adaptive {
            self.release(out);
            return self.request(out);
        }
        let SinghalState::Executing { token, asked } = std::mem::replace(&mut self.state, SinghalState::Idle)
        else {
            panic!("the host releases only while the process is inside");
        };
        self.leave_and_ride(token, asked, out);
    }

    fn peer_failed(&mut self, peer: SiteId, out: &mut Outbox<Message>) {
        self.on_peer_failed(peer, out);
    }

    /// RECOVERING, which the site itself sends, says it.
    fn restart(&mut self, out: &mut Outbox<Message>) {
        self.on_restart(out);
    }

    fn partitioned(&mut self, away: &SiteSet, out: &mut Outbox<Message>) {
        self.on_partitioned(away, out);
    }

    fn reunited(&mut self, back: &SiteSet, out: &mut Outbox<Message>) {
        self.on_reunited(back, out);
    }
}

impl SinghalHeuristic {
    /// The request message handler (section III-G-3, Rules 8 to 11).
    fn on_request(&mut self, from: SiteId, number: Number, out: &mut Outbox<Message>) {
        if number <= self.last_requests[from.index()] {
            return; // Outdated: a later one has come, or this one again.
        }
        self.last_requests[from.index()] = number;
        self.on_request_noted(from);
        match &mut self.state {
            // Rules 8 and 10: look to it from now on.
            SinghalState::Idle | SinghalState::Executing { .. } => {
                self.row.insert(from);
            }
            // Rule 9: so it must know of my request, too.
            SinghalState::Waiting { asked } => {
                self.row.insert(from);
                let known = self.recovery.as_ref().is_none_or(|recovery| !recovery.is_recovering());
                if known && asked.insert(from) {
                    out.send(from, Message::Request { number: self.number });
                }
            }
            SinghalState::Holding { token, asked } => {
                if number > token.numbers[from.index()] {
                    self.give(from, number, out);
                } else if asked.insert(from) {
                    // Not in the paper: it may have been served and have stopped looking here since it sent this.
                    out.send(from, Message::Request { number: self.number });
                }
            }
        }
    }

    /// Rule 11: the idle token goes to who asks.
    fn give(&mut self, to: SiteId, number: Number, out: &mut Outbox<Message>) {
        let SinghalState::Holding { mut token, .. } = std::mem::replace(&mut self.state, SinghalState::Idle)
        else {
            unreachable!("only an idle token is given")
        };
        token.note(to, number);
        self.row.insert(to);
        self.focus = None;
        self.pass(token, to, out);
    }

    /// Step 2: the token has come.
    fn on_token(&mut self, from: SiteId, token: Box<SinghalToken>, out: &mut Outbox<Message>) {
        if token.numbers.len() != self.last_requests.len()
            || token.requesting.iter().any(|site| site.index() >= token.numbers.len())
        {
            return out.misbehaved(from, "a token of another shape");
        }
        if token.numbers[self.me.index()].incarnation < self.number.incarnation {
            return; // Sent to my former incarnation. The others know that it was lost with that.
        }
        if token.passes <= self.trail.passes() {
            return out.misbehaved(from, "a token that has been here before");
        }
        let SinghalState::Waiting { asked } = &mut self.state else {
            return out.misbehaved(from, "a token that was not asked for");
        };
        self.trail = Trail::Held { passes: token.passes };
        self.focus = None;
        self.state = SinghalState::Executing { token, asked: std::mem::take(asked) };
        out.enter();
    }

    /// Step 3: the token goes to the next that waits, or stays.
    fn pass_or_hold(&mut self, mut token: Box<SinghalToken>, asked: SiteSet, out: &mut Outbox<Message>) {
        self.update(&mut token, &asked);
        self.note_last_in_line(&token);
        match self.options.arbitration.next(self.me, &token, out) {
            Some(next) => self.pass(token, next, out),
            None => self.hold(token, asked, out),
        }
    }

    /// The update rules (section III-G-1, Rules 3 to 7, in their condensed form): whoever knows the later request of a
    /// site tells the other. A site that the token knows to be served is not looked to any more, if it will look here
    /// instead: because it was sent the request that was served here.
    fn update(&mut self, token: &mut SinghalToken, asked: &SiteSet) {
        token.requesting.remove(self.me);
        token.numbers[self.me.index()] = self.number;
        for site in SiteId::others_from(self.me, self.last_requests.len()) {
            if self.is_absent(site) {
                token.requesting.remove(site);
                continue;
            }
            let (last, known) = (self.last_requests[site.index()], token.numbers[site.index()]);
            // SN > TSN: the second case of Rule 4, for which I8 to I10 leave SV = R and TSV = N.
            if last > known {
                if last.count == 0 {
                    // It has come back and not asked yet, though I may look to it: of two that come back at the same
                    // time both do. What it had asked for before is void.
                    token.requesting.remove(site);
                    token.numbers[site.index()] = last;
                } else if self.row.contains(site) {
                    token.note(site, last);
                }
            } else if token.requesting.contains(site) {
                self.row.insert(site);
            } else if asked.contains(site) || self.options.text == Text::Printed {
                self.row.remove(site);
            }
            if self.options.text == Text::Printed {
                self.last_requests[site.index()] = last.max(known);
            }
        }
    }

    /// Sends the token away.
    fn pass(&mut self, mut token: Box<SinghalToken>, to: SiteId, out: &mut Outbox<Message>) {
        token.passes = token.passes.saturating_add(1);
        let number = token.numbers[to.index()];
        self.trail = Trail::Sent { passes: token.passes, to, number };
        out.send(to, Message::Token(token));
    }

    /// Step 3, nobody waits: keeps the token, so that all must look here. Those left in the row may not: they get my
    /// last request.
    fn hold(&mut self, token: Box<SinghalToken>, mut asked: SiteSet, out: &mut Outbox<Message>) {
        out.send_all(&self.row, &Message::Request { number: self.number });
        asked.union_with(&self.row);
        self.row.clear();
        self.state = SinghalState::Holding { token, asked };
    }

    /// Sends the request that waits here to every site of the row that has not had it, unless one is enough, or I have
    /// just come back and am not known to all yet.
    fn ask_row(&mut self, out: &mut Outbox<Message>) {
        if self.is_recovering() || matches!(self.focus, Some(Focus::On { .. })) {
            return;
        }
        let SinghalState::Waiting { asked } = &mut self.state else { return };
        for site in self.row.iter() {
            if asked.insert(site) {
                out.send(site, Message::Request { number: self.number });
            }
        }
    }

    fn holds_token(&self) -> bool {
        matches!(self.state, SinghalState::Executing { .. } | SinghalState::Holding { .. })
    }
}

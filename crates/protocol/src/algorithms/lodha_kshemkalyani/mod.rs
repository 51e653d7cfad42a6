//! Lodha and Kshemkalyani's fair algorithm: requests that cross answer each other.
//!
//! Lodha and Kshemkalyani, "A Fair Distributed Mutual Exclusion Algorithm" (2000), section 3.3, Figure 2; Kshemkalyani
//! and Singhal, chapter 9, section 9.6, Algorithm 9.4.
//!
//! Like Ricart and Agrawala's, but two sites whose requests cross need no replies: each takes the other's REQUEST for
//! its answer and queues it. A site enters when all have answered and its own request heads its queue. Who leaves sends
//! one FLUSH to the next of its queue, which thereby knows that all up to that request are done. Requests that came
//! after their sender's answer did not cross; they are deferred and get a REPLY at the exit, which says the same.
//!
//! ```text
//!  alone:  S0 ──REQUEST(1,S0)──▶ S1, S2            crossing: S0, S1 and S2 ask (1,S0), (1,S1), (1,S2)
//!          S0 ◀──REPLY────────── S1, S2                      each queues all three; S0 enters, leaves
//!          S0 enters                                         S0 ──FLUSH(1,S0)──▶ S1     S1 enters, leaves
//!                                                            S1 ──FLUSH(1,S1)──▶ S2     S2 enters
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 2(N−1) | – | N clocks, N ids, 2 sets | 4 or 5 |
//! | all requests cross | N, for the last one N−1 | T | the same | 4 or 5 |
//! | each site asks again as it leaves | 2(N−1): nothing crosses | T | the same | 4 or 5 |
//!
//! **Assumes** reliable FIFO channels; it does need FIFO. "Requesting", as in Figure 2, includes executing.
//!
//! **Departures**: the text as printed neither serves everyone nor excludes (`text=printed` keeps it for the checker).
//! The repair has four parts, each of them necessary:
//! 1. A site's own request raises the highest sequence number seen, too. (As printed a site may use a number twice.)
//! 2. A site remembers the last request that it knows to be finished. A REQUEST that comes late, when all up to it are
//!    finished, counts as its sender's answer but is not queued: nobody would ever take it out again.
//! 3. A FLUSH never counts as its sender's answer. The answer was there before, or the FLUSH is meant for a request that
//!    has been served meanwhile; then it would let the receiver's next one past the sender's.
//! 4. A REQUEST tells which request its sender executed last, as a REPLY does. It need not carry it: over FIFO channels
//!    it is the sender's previous REQUEST.
//!
//! And, not a repair:
//! - A REPLY names the request that it answers, and a site remembers the last request of each other site, so that a
//!   duplicate of either is recognised. The paper's channels do not duplicate.
//!
//! **Invariants**
//! - I1: the queue is sorted; it holds the site's own request while there is one, and is empty otherwise.
//! - I2: who is queued or deferred has answered, and nobody answers himself.
//! - I3: a site that is inside has all answers and heads its queue.
//! - I4: the clock is not behind the site's own request.
//! - I5: what any site takes for finished is finished: no request that waits or executes is among it.
//! - I6: of two sites that want in, the later one has the earlier one in its queue or still misses its answer.
//! - I7: an answer that a waiting site misses is asked for, owed or on its way.

mod info;
mod message;
#[cfg(test)]
mod tests;

pub use info::Plan;
pub use message::Message;

use crate::registry::info::Text;
use crate::{Clock, NOT_A_PEER, Outbox, Site, SiteId, SiteSet, Timestamp};

/// One site of Lodha and Kshemkalyani's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LodhaKshemkalyani {
    // Who I am.
    me: SiteId,
    text: Text,
    // What I want.
    want: Want,
    /// The sequence number of my last request that was satisfied.
    executed: Option<Clock>,
    // What I know of the others.
    /// `Highest_Sequence_Number_Seen`.
    clock: Clock,
    /// The sequence number of the last request of each site; zero before its first.
    last_request: Box<[Clock]>,
    /// No request up to this one waits or executes any more.
    finished: Option<Timestamp>,
    /// `RV`: who has answered my request.
    answered: SiteSet,
    /// `LRQ`: my request and those that crossed it, sorted, as far as they may not be finished.
    queue: Vec<Timestamp>,
    /// Whose request came after its answer to mine: I owe a reply.
    deferred: SiteSet,
}

/// What the process at a site wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Want {
    Nothing,
    /// In, on this request.
    Entry(Timestamp),
    /// Out, some day: it is inside on this request.
    Exit(Timestamp),
}

impl Site for LodhaKshemkalyani {
    type Message = Message;

    /// Figure 2, `InvMutEx`.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.want == Want::Nothing, "the host requests only while the process is idle");
        let mut seen = self.clock;
        let request = Timestamp::new(seen.tick(), self.me);
        if self.text == Text::Repaired {
            self.clock = seen;
        }
        self.want = Want::Entry(request);
        self.answered.clear();
        self.queue.clear();
        self.queue.push(request);
        out.broadcast(self.me, self.sites(), &Message::Request { clock: request.clock });
        self.enter_if_first(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.sites() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        if self.text == Text::Repaired
            && let Some(why) = self.objection(from, message)
        {
            return out.misbehaved(from, why);
        }
        match message {
            Message::Request { clock } => self.on_request(Timestamp::new(clock, from), out),
            Message::Reply { to: _, executed } => self.on_reply(from, executed, out),
            Message::Flush { executed } => self.on_flush(from, executed, out),
        }
    }

    /// Figure 2, `FinCS`: a FLUSH to the next of the queue, a REPLY to all that were deferred.
    fn release(&mut self, out: &mut Outbox<Message>) {
        let Want::Exit(mine) = self.want else {
            panic!("the host releases only while the process is inside");
        };
        self.want = Want::Nothing;
        self.executed = Some(mine.clock);
        self.finished = self.finished.max(Some(mine));
        if let Some(next) = self.queue.iter().find(|queued| queued.site != self.me) {
            out.send(next.site, Message::Flush { executed: mine.clock });
        }
        for site in self.deferred.iter() {
            let to = self.last_request[site.index()];
            out.send(site, Message::Reply { to, executed: self.executed });
        }
        self.queue.clear();
        self.answered.clear();
        self.deferred.clear();
    }

    fn peer_failed(&mut self, _: SiteId, _: &mut Outbox<Message>) {}

    fn peer_recovered(&mut self, _: SiteId, _: &mut Outbox<Message>) {}
}

impl LodhaKshemkalyani {
    fn sites(&self) -> usize {
        self.last_request.len()
    }

    /// The request that waits or executes here.
    fn own(&self) -> Option<Timestamp> {
        match self.want {
            Want::Nothing => None,
            Want::Entry(mine) | Want::Exit(mine) => Some(mine),
        }
    }

    /// The last request that came from `site`, if any has.
    fn last_request_of(&self, site: SiteId) -> Option<Timestamp> {
        let clock = self.last_request[site.index()];
        (clock > Clock::ZERO).then_some(Timestamp::new(clock, site))
    }

    /// Figure 2, `RcvReq`.
    fn on_request(&mut self, theirs: Timestamp, out: &mut Outbox<Message>) {
        let from = theirs.site;
        let previous = self.last_request_of(from);
        self.last_request[from.index()] = theirs.clock;
        self.clock.observe(theirs.clock);
        if let Some(previous) = previous
            && self.text == Text::Repaired
        {
            self.learn_finished(previous);
        }
        if self.want == Want::Nothing {
            out.send(from, Message::Reply { to: theirs.clock, executed: self.executed });
        } else if !self.answered.insert(from) {
            self.deferred.insert(from);
        } else if self.text == Text::Printed || self.finished < Some(theirs) {
            let at = self.queue.partition_point(|queued| *queued < theirs);
            self.queue.insert(at, theirs);
        }
        self.enter_if_first(out);
    }

    /// Figure 2, `RcvReply`.
    fn on_reply(&mut self, from: SiteId, executed: Option<Clock>, out: &mut Outbox<Message>) {
        self.answered.insert(from);
        if let Some(executed) = executed {
            self.learn_finished(Timestamp::new(executed, from));
        }
        self.enter_if_first(out);
    }

    /// Figure 2, `RcvFlush`. It may come late, when another way has told the same: then nothing changes.
    fn on_flush(&mut self, from: SiteId, executed: Clock, out: &mut Outbox<Message>) {
        if self.text == Text::Printed {
            self.answered.insert(from);
        }
        self.learn_finished(Timestamp::new(executed, from));
        self.enter_if_first(out);
    }

    /// All requests up to `done` are finished: `RcvReply`, step 2, and `RcvFlush`, step 2.
    fn learn_finished(&mut self, done: Timestamp) {
        self.finished = self.finished.max(Some(done));
        let gone = self.queue.partition_point(|queued| *queued <= done);
        self.queue.drain(..gone);
    }

    /// Figure 2, `CheckExecuteCS`.
    fn enter_if_first(&mut self, out: &mut Outbox<Message>) {
        if let Want::Entry(mine) = self.want
            && self.queue.first() == Some(&mine)
            && self.answered.len() == self.sites() - 1
        {
            self.want = Want::Exit(mine);
            out.enter();
        }
    }
}

/// What no correct peer sends. (As printed, correct peers do.)
impl LodhaKshemkalyani {
    /// What is wrong with a message, if anything is.
    fn objection(&self, from: SiteId, message: Message) -> Option<&'static str> {
        let last = self.last_request_of(from);
        let last_can_be_finished = last.is_none_or(|last| self.can_be_finished(last));
        match message {
            Message::Request { clock } if clock <= self.last_request[from.index()] => {
                Some("a request that is not newer than its last")
            }
            Message::Request { .. } => (self.deferred.contains(from) || !last_can_be_finished)
                .then_some("a second request before the first was served"),
            Message::Reply { to, executed } => {
                let expected = matches!(self.want, Want::Entry(mine) if mine.clock == to);
                if !expected || self.answered.contains(from) {
                    return Some("a reply that nobody waits for");
                }
                let is_last = executed.unwrap_or_default() == self.last_request[from.index()];
                (!is_last || !last_can_be_finished).then_some("a reply that calls finished what is not")
            }
            Message::Flush { executed } => (last != Some(Timestamp::new(executed, from))
                || !last_can_be_finished)
                .then_some("a flush that calls finished what is not"),
        }
    }

    /// Whether `done` can be finished: not while an earlier request waits or executes here.
    fn can_be_finished(&self, done: Timestamp) -> bool {
        self.own().is_none_or(|mine| done < mine)
    }
}

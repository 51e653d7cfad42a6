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
//! | the same, `combined-exit` | N | T | N numbers and a list more | 6 and up for a HANDOVER |
//! | the same, `keep-deferred` | N − 1/N | T | the same | 4 or 5 |
//!
//! **Improvements** that section 5 of the paper suggests, each an option, in any combination:
//! - `combined-exit`: who leaves sends one HANDOVER, to the first of those to whom it would send a FLUSH or a REPLY,
//!   with all that the others are to be told; that one passes it on when it leaves. (A single FLUSH or REPLY goes as it
//!   is.)
//! - `keep-deferred`: who leaves keeps the deferred requests. If its process asks again at once, they count as crossing
//!   the new request, and neither side needs a reply.
//! - `sequence-on-all`: every message carries the highest sequence number seen.
//!
//! **Assumes** reliable FIFO channels; it does need FIFO. "Requesting", as in Figure 2, includes executing.
//!
//! **Departures**: the text as printed neither serves everyone nor excludes (`text=printed` keeps it for the checker).
//! The repair has four parts, each of them necessary (`text=without-1` to `without-4` leave one out; errata
//! `lodha-…`):
//! 1. A site's own request raises the highest sequence number seen, too. (As printed a site may use a number twice.)
//! 2. A site remembers the last request that it knows to be finished. A REQUEST that comes late, when all up to it are
//!    finished, counts as its sender's answer but is not queued: nobody would ever take it out again.
//! 3. A FLUSH never counts as its sender's answer. The answer was there before, or the FLUSH is meant for a request
//!    that has been served meanwhile; then it would let the receiver's next one past the sender's.
//! 4. A REQUEST tells which request its sender executed last, as a REPLY does. It need not carry it: over FIFO channels
//!    it is the sender's previous REQUEST.
//!
//! And further:
//! - No **choice** is open. How long `keep-deferred` waits is a policy of ours, and the checker lets the timer run out at any moment.
//! - A REPLY names the request that it answers, a HANDOVER has a number, and a site remembers the last request of each
//!   other site, so that duplicates are recognised. The paper's channels do not duplicate.
//! - `combined-exit`, which the paper only sketches, deadlocks as soon as a site's next REQUEST overtakes the answer
//!   that it has handed over (three sites, two requests each): the receiver takes it for one that crosses its own. So a
//!   REQUEST says which request of the receiver its sender has answered. And who is handed something to pass on, but
//!   has been served meanwhile, passes it on at once, unless it waits again and precedes all whom it is for.
//! - `keep-deferred`: a site cannot know that its process will ask soon. It waits for one message delay, then sends the
//!   replies; who does not ask again makes the others wait so much longer.
//!
//! **Invariants**
//! - I1: the queue is sorted; it holds the site's own request while there is one, and is empty otherwise.
//! - I2: who is queued or deferred has answered, and nobody answers himself.
//! - I3: a site that is inside has all answers and heads its queue.
//! - I4: the clock is not behind the site's own request.
//! - I5: what any site takes for finished is finished: no request that waits or executes is among it.
//! - I6: of two sites that want to enter, the later one has the earlier one in its queue or still misses its answer.
//! - I7: an answer that a waiting site misses is asked for, owed or on its way.
//! - I8: who wants nothing keeps others waiting only while a timer runs.
//! - I9: what is held for others is for later requests than the site's own.

mod facts;
mod info;
mod invariants;
mod leaving;
mod message;
mod objection;
#[cfg(test)]
mod tests;
mod text;

pub use info::Plan;
pub use message::{Message, Owed};

use leaving::Custody;
use text::{LodhaText, Part};

use crate::algorithms::request::RequestState;
use crate::mutant::{self, Mutant};
use crate::{Clock, NOT_A_PEER, Outbox, Site, SiteId, SiteSet, Timestamp};

/// One site of Lodha and Kshemkalyani's algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LodhaKshemkalyani {
    // This site.
    me: SiteId,
    rules: LodhaRules,
    // The local process.
    state: RequestState,
    /// The sequence number of my last request that was satisfied.
    executed: Option<Clock>,
    // What this site knows of the others.
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
    // What the improvements add.
    /// With `combined-exit`: what I pass on for others.
    custody: Option<Box<Custody>>,
    /// With `keep-deferred`: whether I have asked to be woken.
    timer_runs: bool,
}

/// Which text the sites follow, and which of section 5's improvements they use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LodhaRules {
    text: LodhaText,
    combined_exit: bool,
    keep_deferred: bool,
    sequence_on_all: bool,
}

impl Site for LodhaKshemkalyani {
    type Message = Message;

    /// Figure 2, `InvMutEx`. With `keep-deferred` the requests that are still deferred count as if they had crossed
    /// this one.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == RequestState::Idle, "the host requests only while the process is idle");
        let mut seen = self.clock;
        let request = Timestamp::new(seen.tick(), self.me);
        if self.rules.text.has(Part::OwnNumber) {
            self.clock = seen;
        }
        self.state = RequestState::Waiting(request);
        self.queue.clear();
        self.answered = std::mem::take(&mut self.deferred);
        self.queue
            .extend(self.answered.iter().map(|site| Timestamp::new(self.last_request[site.index()], site)));
        self.queue.sort_unstable();
        self.queue.push(request);
        for site in SiteId::all(self.sites()).filter(|&site| site != self.me) {
            out.send(site, Message::Request { clock: request.clock, answers: self.answers_to(site) });
        }
        self.enter_if_first(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.sites() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        if self.rules.text == LodhaText::Repaired
            && let Some(why) = self.objection(from, &message)
        {
            return out.misbehaved(from, why);
        }
        match message {
            Message::Request { clock, answers } => self.on_request(Timestamp::new(clock, from), answers, out),
            Message::Reply { to: _, executed, highest } => {
                self.observe(highest);
                self.on_reply(from, executed, out);
            }
            Message::Flush { executed, highest } => {
                self.observe(highest);
                self.on_flush(from, executed, out);
            }
            Message::Handover { number, finished, highest, owed } => {
                self.observe(highest);
                self.on_handover(from, number, finished, owed, out);
            }
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        let RequestState::Executing(mine) = self.state else {
            panic!("the host releases only while the process is inside");
        };
        self.leave(mine, out);
    }

    fn wake(&mut self, out: &mut Outbox<Message>) {
        self.stop_waiting_for_own_request(out);
    }
}

impl LodhaKshemkalyani {
    fn sites(&self) -> usize {
        self.last_request.len()
    }

    /// The request that waits or executes here.
    fn own(&self) -> Option<Timestamp> {
        self.state.timestamp()
    }

    /// The last request that came from `site`, if any has.
    fn last_request_of(&self, site: SiteId) -> Option<Timestamp> {
        let clock = self.last_request[site.index()];
        (clock > Clock::ZERO).then_some(Timestamp::new(clock, site))
    }

    /// With `combined-exit`: the last request of `site`, if it has been answered; not if it is among those that were
    /// kept and now count as crossing mine.
    fn answers_to(&self, site: SiteId) -> Option<Clock> {
        let last = self
            .last_request_of(site)
            .filter(|_| self.rules.combined_exit && self.rules.text.has(Part::Answers))?;
        (!self.answered.contains(site)).then_some(last.clock)
    }

    /// With `sequence-on-all`: the third improvement of section 5.
    fn observe(&mut self, highest: Option<Clock>) {
        if let Some(highest) = highest {
            self.clock.observe(highest);
        }
    }

    /// Figure 2, `RcvReq`.
    fn on_request(&mut self, theirs: Timestamp, answers: Option<Clock>, out: &mut Outbox<Message>) {
        let from = theirs.site;
        let previous = self.last_request_of(from);
        self.last_request[from.index()] = theirs.clock;
        self.clock.observe(theirs.clock);
        if let Some(previous) = previous
            && self.rules.text.has(Part::Executed)
        {
            self.learn_finished(previous);
        }
        if let RequestState::Waiting(mine) = self.state
            && answers == Some(mine.clock)
        {
            self.answered.insert(from);
        }
        if self.state == RequestState::Idle {
            self.reply(from, out);
        } else if !self.answered.insert(from) {
            self.deferred.insert(from);
        } else if !self.rules.text.has(Part::Finished) || self.finished < Some(theirs) {
            let by_arrival = mutant::is_on(Mutant::LodhaQueueByArrival);
            let at = self.queue.partition_point(|queued| by_arrival || *queued < theirs);
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
        if !self.rules.text.has(Part::Flush) {
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
        if let RequestState::Waiting(mine) = self.state
            && self.queue.first() == Some(&mine)
            && self.answered.len() == self.sites() - 1
        {
            self.state = RequestState::Executing(mine);
            out.enter();
        }
    }
}

//! Sanders' generalised algorithm: one set of rules over any information structure.
//!
//! Sanders 1987, sections 3 (the rules), 5 (without deadlock) and 7.1 (local recovery). The structures themselves,
//! the theorem that tells good ones from bad ones, and their costs are in [`information`](crate::information).
//!
//! A site asks its request set and enters when all have granted. A site that is asked grants the earliest request
//! it has, and, if the requester is in its status set, nobody else until that one releases. When it leaves, a site
//! tells its inform set. With everyone minding only itself this is Ricart and Agrawala's algorithm; with one site
//! minding all, the central one; with quorums as both sets, Maekawa's.
//!
//! ```text
//!  alone:      S0 ──REQUEST(1)──▶ R_0           contended (Figure 4): S1 has granted S2, then S0 asks, earlier
//!              S0 ◀──GRANT─────── R_0                   S0 ──REQUEST──▶ S1 ──INQUIRE──▶ S2
//!              S0 enters, leaves                        S2 has a FAIL from S0: ──YIELD──▶ S1 ──GRANT──▶ S0
//!              S0 ──RELEASE─────▶ I_0                   S0 enters, leaves, and S1 grants S2 again
//! ```
//!
//! | | messages per entry of site i | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | \|I_i−i\| + 2\|R_i−i\| | – | a queue, N clocks and rounds | 4 or 5 |
//! | heavy load | the same and about \|R_i−i\| FAILs; with `deadlock=yield` about the same | T or 2T, by the structure | the same | the same |
//!
//! `deadlock=fail` are the rules of section 5; `deadlock=yield` has no FAIL: a site that waits always gives a grant
//! back; `deadlock=plain` are the rules of section 3, which can deadlock. For a structure that cannot deadlock
//! (central, fully distributed) the plain rules are taken whatever is asked for, as section 5 suggests.
//!
//! **Assumes** reliable channels, in any order; sites fail by stopping, for good (a failed site comes back in a new
//! view). The paper assumes FIFO.
//!
//! **Departures** (`text=printed` keeps the first four to the letter for the checker, other values one of them; errata
//! `sanders-…`)
//! - No **choice** is open while it runs. Which pairs are mended how after a failure is fixed, because all sites must make the same
//!   change to the structure.
//! - A requester remembers an INQUIRE and yields when a FAIL comes later; as printed it forgets it, and all wait
//!   for ever.
//! - FAIL also goes to a newcomer that is behind another queued request, not only to one that is behind the granted
//!   one.
//! - A REQUEST carries the failed sites its sender knows of, and its receiver first makes the same change to its
//!   own structure; a waiting site asks *all* additions to its request set, and asks again whoever it had asked
//!   before they came to rely on each other. As printed a grant that was given and not remembered lets two in.
//! - Two sites start to ask each other when half of the inform sites they shared have failed, not when all have:
//!   the two may know of different halves ([`Mend::AtHalf`](crate::information::Mend::AtHalf)).
//! - A site that waits answers its own INQUIRE by YIELD at once, in every form: the text offers it as a remedy for
//!   the deadlock of Figure 1b, and the proof of its theorem takes it for granted. With the INQUIRE remembered it is
//!   not needed, but saves the FAILs there (`text=own-inquire` and `without-remedy`; erratum `sanders-figure-1b`).
//! - A site's own REQUEST is handled at once; delayed, it is unsafe.
//! - Messages name the request and the round they concern, so that late ones and duplicates are recognised.
//!
//! **Invariants**
//! - I1: a request is queued only while a grant is remembered.
//! - I2: the queue is in order of timestamps, one a site, without failed sites.
//! - I3: only a grant to a site of the status set that has not failed is remembered.
//! - I4: a waiting site misses a grant; FAILs are from sites whose grant it misses.
//! - I5: the clock is not behind the site's own request.
//! - I6: a queued request that precedes the granted one has made the site inquire; under `deadlock=fail` every
//!   other one has been told FAIL.
//! - I7: while a site is inside, all of its inform set remember its grant, as far as neither knows that the other
//!   failed.

mod arbiter;
mod facts;
#[cfg(test)]
mod failure_runs;
mod info;
mod message;
mod recovery;
mod slip;
#[cfg(test)]
mod tests;

pub use info::{Deadlock, Plan};
pub use message::Message;

use arbiter::Arbiter;
use info::SandersRules;
use slip::Slip;

use crate::shared::Shared;
use crate::{Clock, Cluster, NOT_A_PEER, Outbox, Site, SiteId, SiteSet, Timestamp};

/// One site of Sanders' algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sanders {
    // This site.
    me: SiteId,
    rules: Shared<SandersRules>,
    // The local process.
    state: SandersState,
    /// `R_i`: whose permission I need. Changes only when a site fails.
    request_set: SiteSet,
    /// How often my present request has been put to each site again.
    rounds: Box<[u32]>,
    // What this site knows of the others.
    /// No request that I have seen has a larger clock.
    clock: Clock,
    /// The sites that have failed, for good.
    failed: SiteSet,
    /// Whom I have granted, and who waits for it.
    arbiter: Arbiter,
}

/// State of the local process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SandersState {
    Idle,
    /// Waits to enter.
    Waiting {
        request: Timestamp,
        /// Whose grant it misses.
        missing: SiteSet,
        /// Of those, who said FAIL, or got a grant back.
        blocked: SiteSet,
        /// Who inquired and has had no answer.
        inquired: SiteSet,
    },
    /// Is in the critical section, on this request.
    Executing {
        request: Timestamp,
    },
}

impl Site for Sanders {
    type Message = Message;

    /// Section 3.2, entry code, step 1. The own request comes last and is answered within this step.
    fn request(&mut self, out: &mut Outbox<Message>) {
        assert!(self.state == SandersState::Idle, "the host requests only while the process is idle");
        let request = Timestamp::new(self.clock.tick(), self.me);
        self.rounds.fill(0);
        self.state = SandersState::Waiting {
            request,
            missing: self.request_set.clone(),
            blocked: SiteSet::new(),
            inquired: SiteSet::new(),
        };
        for site in self.request_set.iter().filter(|&site| site != self.me) {
            out.send(site, self.request_message(request.clock, 0));
        }
        if self.request_set.contains(self.me) {
            self.consider(request, 0, out);
        }
        self.enter_if_all_granted(out);
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if !Cluster::of(self.rounds.len()).is_peer(self.me, from) {
            return out.misbehaved(from, NOT_A_PEER);
        }
        // What a failed site had sent may still come here after the news of its failure, if those came by another
        // site.
        if !self.failed.contains(from) {
            self.on_message(from, message, out);
        }
    }

    /// Section 3.2, exit code.
    fn release(&mut self, out: &mut Outbox<Message>) {
        let SandersState::Executing { request } = self.state else {
            panic!("the host releases only while the process is inside");
        };
        self.state = SandersState::Idle;
        let mut informed = self.rules.structure.inform(self.me).clone();
        informed.subtract(&self.failed);
        for site in informed.iter() {
            self.say(site, Message::Release { request: request.clock }, out);
        }
    }

    fn peer_failed(&mut self, peer: SiteId, out: &mut Outbox<Message>) {
        self.learn(&SiteSet::from_iter([peer]), out);
    }
}

impl Sanders {
    /// `message` has come from a site of the view, perhaps this one.
    fn on_message(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        match message {
            Message::Request { clock, round, failed } => {
                self.on_request(Timestamp::new(clock, from), round, &failed, out);
            }
            Message::Grant { to, round } => self.on_grant(from, to, round, out),
            Message::Fail { to, round } => self.on_fail(from, to, round, out),
            Message::Inquire { about, round } => self.on_inquire(from, about, round, out),
            Message::Yield { request, round } => self.on_yield(Timestamp::new(request, from), round, out),
            Message::Release { request } => self.on_release(Timestamp::new(request, from), out),
        }
    }

    /// Sends, or handles at once what a site has to say to itself.
    fn say(&mut self, to: SiteId, message: Message, out: &mut Outbox<Message>) {
        if to == self.me {
            self.on_message(to, message, out);
        } else {
            out.send(to, message);
        }
    }

    fn request_message(&self, clock: Clock, round: u32) -> Message {
        let failed =
            if self.rules.slips.has(Slip::SilentRecovery) { SiteSet::new() } else { self.failed.clone() };
        Message::Request { clock, round, failed }
    }

    /// Section 3.2, entry code, step 2. A grant also answers a FAIL.
    fn on_grant(&mut self, from: SiteId, to: Clock, round: u32, out: &mut Outbox<Message>) {
        match &mut self.state {
            SandersState::Waiting { request, missing, blocked, .. }
                if request.clock == to && missing.contains(from) && self.rounds[from.index()] == round =>
            {
                missing.remove(from);
                blocked.remove(from);
                self.enter_if_all_granted(out);
                self.yield_where_due(out);
            }
            SandersState::Idle | SandersState::Waiting { .. } | SandersState::Executing { .. } => {
                self.late(from, "a grant that nobody waits for", out);
            }
        }
    }

    /// Section 5: this site does not grant soon. An INQUIRE that is remembered may now be answered.
    fn on_fail(&mut self, from: SiteId, to: Clock, round: u32, out: &mut Outbox<Message>) {
        if self.rules.deadlock != Deadlock::Fail {
            return out.misbehaved(from, "a FAIL, where the rules know none");
        }
        if !self.request_set.contains(from) || to > self.clock {
            return out.misbehaved(from, "a FAIL for a request that it was never asked");
        }
        // A FAIL that the grant overtook, or that concerns an earlier request, has lost its meaning.
        let SandersState::Waiting { request, missing, blocked, .. } = &mut self.state else { return };
        if request.clock != to || self.rounds[from.index()] != round || !missing.contains(from) {
            return;
        }
        if !blocked.insert(from) {
            return out.misbehaved(from, "a second FAIL for one request");
        }
        self.yield_where_due(out);
    }

    /// Section 5, INQUIRE: a grant is to be given back. Void if this site has entered meanwhile.
    fn on_inquire(&mut self, from: SiteId, about: Clock, round: u32, out: &mut Outbox<Message>) {
        if self.rules.deadlock == Deadlock::Plain && from != self.me {
            return out.misbehaved(from, "an INQUIRE, where the rules know none");
        }
        if !self.rules.structure.inform(self.me).contains(from) || about > self.clock {
            return out.misbehaved(from, "an INQUIRE about a grant that it never remembered");
        }
        let SandersState::Waiting { request, inquired, .. } = &mut self.state else { return };
        if request.clock != about {
            return;
        }
        if self.rounds[from.index()] != round || !inquired.insert(from) {
            return out.misbehaved(from, "a second INQUIRE about one grant");
        }
        self.yield_where_due(out);
        if self.rules.slips.has(Slip::ForgottenInquire)
            && let SandersState::Waiting { inquired, .. } = &mut self.state
        {
            inquired.remove(from);
        }
    }

    /// Section 5, INQUIRE, step 2: gives back each grant that was inquired about, if this site cannot count on
    /// entering soon. Giving one back is itself a reason to give back the others.
    fn yield_where_due(&mut self, out: &mut Outbox<Message>) {
        while let SandersState::Waiting { request, missing, blocked, inquired } = &mut self.state {
            let me = self.me;
            let always = self.rules.deadlock == Deadlock::Yield || !blocked.is_empty();
            let to_itself = !self.rules.slips.has(Slip::OwnInquire);
            let due = |from: &SiteId| !missing.contains(*from) && (always || (to_itself && *from == me));
            let Some(to) = inquired.iter().find(due) else { return };
            inquired.remove(to);
            missing.insert(to);
            blocked.insert(to);
            let (request, round) = (request.clock, self.rounds[to.index()]);
            self.rounds[to.index()] = round.saturating_add(1);
            self.say(to, Message::Yield { request, round }, out);
        }
    }

    fn enter_if_all_granted(&mut self, out: &mut Outbox<Message>) {
        if let SandersState::Waiting { request, missing, .. } = &self.state
            && missing.is_empty()
        {
            self.state = SandersState::Executing { request: *request };
            out.enter();
        }
    }

    /// A message that nobody waits for. Without failures no correct peer sends one; after a failure a request may
    /// be put again, and what it overtook comes late.
    fn late(&self, from: SiteId, why: &'static str, out: &mut Outbox<Message>) {
        if self.failed.is_empty() {
            out.misbehaved(from, why);
        }
    }
}

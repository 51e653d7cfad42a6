//! Cao and Singhal's algorithm: whoever leaves sends the permissions of its quorum straight to the next, not by way of the
//! arbiters.
//!
//! Cao and Singhal 2001, "A delay-optimal quorum-based mutual exclusion algorithm for distributed systems" (IEEE Transactions on
//! Parallel and Distributed Systems 12(12), pages 1256 to 1268); Cao, Singhal, Deng, Rishe and Sun 1998 (ICDCS, pages 444 to 451).
//!
//! As in [`maekawa`](crate::algorithms::maekawa), a site asks the members of its quorum, and each permits one request at a
//! time; there it takes 2T from one entry to the next, a RELEASE to the shared arbiter and its REPLY. Here an arbiter tells the
//! site that has its permission by a TRANSFER which request is next. That site, as it leaves, sends the REPLY itself, in the
//! arbiter's name, and says so in its RELEASE. An arbiter may find out later than others who has its permission.
//!
//! ```text
//!  alone:      S0 ──REQUEST──▶ R0 − S0     contended at S2: S1 is inside with its permission, S0 asks
//!              S0 ◀──REPLY──── R0 − S0                S0 ──REQUEST──▶ S2 ──TRANSFER(S0)──▶ S1     S0 ◀──FAILED── S2, if S1 is earlier
//!              S0 enters, leaves                      S1 leaves: S1 ──REPLY(of S2)──▶ S0, which enters
//!              S0 ──RELEASE──▶ R0 − S0                           S1 ──RELEASE(forwarded to S0)──▶ S2
//! ```
//!
//! | | messages per entry | synchronisation delay | state | words per message |
//! |---|---|---|---|---|
//! | low load | 3(k−1), k = size of the quorum ≈ √N | – | N clocks, k answers, a queue | 4 to 10 |
//! | heavy load, `fail` | 5(k−1) − 1: REQUEST, FAILED, TRANSFER, REPLY, RELEASE; none for what stays on a site | T | the same | the same |
//! | heavy load, `yield` | 4(k−1) − 1 | T | the same | the same |
//! | at worst | said to be 6(k−1); found by exploration of four sites: 4.6(k−1) | 2T | the same | the same |
//!
//! **Assumes** reliable channels; FIFO is not needed.
//!
//! **Departures**. We have the papers' abstracts, not their texts: delay T, O(K) messages, "K is the size of the quorum". The
//! rules here are as we understood them from what is generally said of the algorithm: Maekawa's with TRANSFER, the site that
//! leaves as a proxy of its arbiters, 3(K−1) to 6(K−1) messages; the names `lock`, `req_queue`, `tran_stack` and `inq_queue` are said to be
//! theirs. Whatever follows is ours, whether or not the papers have it too.
//! - No **choice** is open while it runs: which quorums there are is fixed before (`quorums`, as in `maekawa`).
//! - `deadlock=fail` (the default) are the rules against deadlock of the [`arbiter`](crate::algorithms::arbiter) that the
//!   papers' message FAILED calls for, with the amendments explained there; `yield` has no refusals, and costs k−1 messages
//!   less under load.
//! - INQUIRE is a TRANSFER as well. A REPLY that the arbiter sends itself names the next request, so that no TRANSFER follows it.
//! - No TRANSFER names the arbiter's own process, but in place of another request that was named: the RELEASE brings it the
//!   permission as fast. That saves a TRANSFER and a message to itself.
//! - Every message names the request that it is about, and REPLY, TRANSFER, INQUIRE and YIELD the turn. A REPLY comes from
//!   another site than the TRANSFER and INQUIRE about the same permission, so these may overtake it even over FIFO channels: a
//!   requester remembers them. What was named first may come last: the earliest request counts, since an arbiter names another
//!   one in the place of a request only if it is earlier.
//! - The RELEASE of a request that was forwarded the permission may overtake the one that says so. The arbiter takes it for
//!   both, since it comes from a request that it has offered the permission to; the late one is then ignored.
//! - A REQUEST that overtakes its sender's RELEASE is queued until that comes: the RELEASE alone says where the permission is.
//! - A site that yields forgets the TRANSFERs of that permission.
//! - REPLY carries its sender's clock, so that a site that rarely asks does not come before the others many times.
//! - The papers' handling of failures is not here.
//!
//! **Invariants**
//! - A1: at an arbiter, requests wait only while another has the permission.
//! - A2: its queue is in the order of the timestamps.
//! - A3: if an earlier request waits than the one that has the permission, as far as the arbiter knows, that one has been inquired.
//! - A4: under `fail`, all that wait know it, except one that precedes all others.
//! - R1 to R4: an idle process has asked nobody; one that waits lacks a permission, and if it must yield keeps nothing that it was
//!   asked for; one that is inside lacks none.
//! - Q1: the clock is not behind the site's own request.
//! - Q2: each arbiter's permission is in exactly one place: with the arbiter, with a requester, or in one message.

mod arbiter;
mod info;
mod message;
mod requester;
#[cfg(test)]
mod tests;

pub use info::Plan;
pub use message::{Message, NextRequest};

use arbiter::TransferArbiter;
use requester::TransferRequester;

use crate::algorithms::arbiter::{Judged, Post};
use crate::{Clock, NOT_A_PEER, Outbox, Site, SiteId, Timestamp};

/// One site of Cao and Singhal's algorithm: an arbiter and a requester.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CaoSinghal {
    // This site.
    me: SiteId,
    plan: Plan,
    /// No request that I have seen has a larger clock.
    clock: Clock,
    // The local process.
    requester: TransferRequester,
    // What I give.
    arbiter: TransferArbiter,
}

impl Site for CaoSinghal {
    type Message = Message;

    /// The site's own arbiter is asked within this step.
    fn request(&mut self, out: &mut Outbox<Message>) {
        let request = Timestamp::new(self.clock.tick(), self.me);
        let plan = self.plan.clone();
        self.act(out, |site, post| site.requester.request(request, plan.quorum_of(request.site), post));
    }

    fn receive(&mut self, from: SiteId, message: Message, out: &mut Outbox<Message>) {
        if from == self.me || from.index() >= self.plan.sites() {
            return out.misbehaved(from, NOT_A_PEER);
        }
        let mut judged = Ok(());
        self.act(out, |site, post| judged = site.on_message(from, message, post));
        if let Err(why) = judged {
            out.misbehaved(from, why);
        }
    }

    fn release(&mut self, out: &mut Outbox<Message>) {
        self.act(out, |site, post| site.requester.release(post));
    }
}

impl CaoSinghal {
    /// Makes one step: does `first`, then gives each half what the other has sent meanwhile.
    fn act(&mut self, out: &mut Outbox<Message>, first: impl FnOnce(&mut Self, &mut Post<'_, Message>)) {
        let mut post = Post::new(self.me, self.clock, out);
        first(self, &mut post);
        while let Some(message) = post.take_home() {
            // A site refuses its own words only if a lying peer has driven its clock to the end.
            let _ = self.on_message(self.me, message, &mut post);
        }
        self.clock = post.clock;
    }

    fn on_message(&mut self, from: SiteId, message: Message, post: &mut Post<'_, Message>) -> Judged {
        let request = |clock| Timestamp::new(clock, from);
        match message {
            Message::Request { clock } => self.arbiter.on_request(request(clock), post),
            Message::Reply { arbiter, to, turn, clock, next } => {
                next.map_or(Ok(()), |next| self.is_anothers(next))?;
                self.requester.on_reply(arbiter, (to, turn), next, post)?;
                post.clock.observe(clock);
                Ok(())
            }
            Message::Failed { to } => self.requester.on_failed(from, to, post),
            Message::Transfer { to, turn, next } => {
                self.is_anothers(next)?;
                self.requester.on_transfer(from, (to, turn), next, post)
            }
            Message::Inquire { to, turn, next } => {
                self.is_anothers(next)?;
                self.requester.on_inquire(from, (to, turn), next, post)
            }
            Message::Yield { request: clock, turn } => self.arbiter.on_yield(request(clock), turn, post),
            Message::Release { request: clock, forwarded } => {
                self.arbiter.on_release(request(clock), forwarded, post)
            }
        }
    }

    /// Whether another site's request is named as the next after one of this site.
    fn is_anothers(&self, next: NextRequest) -> Judged {
        let site = next.request.site;
        if site == self.me || site.index() >= self.plan.sites() {
            return Err("a permission that is to go on to no other site");
        }
        Ok(())
    }
}

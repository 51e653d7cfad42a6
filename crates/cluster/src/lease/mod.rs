//! Leases: why a member that is cut off has stopped before anyone acts as if it had.
//!
//! A member must have a lease of length L from the leader to hold any lock. It asks for a renewal at regular intervals,
//! and counts L from when it *sent* the renewal that was granted. The leader grants only after it has confirmed, after
//! the renewal arrived, that it still leads (Raft's `ReadIndex`).
//!
//! ```text
//!  member    s ─────────────── lease ───────────────▶ s+L          on the member's clock
//!             ╲ renewal        ▲ grant
//!  leader      a ──confirmed── g ─────────────────────────── x     on the leader's clock
//! ```
//!
//! **The inequality.** A member may be excluded at x only if
//!
//! > x ≥ g + L·(1+drift)
//!
//! where g is when this leader last granted to it, both on the leader's clock.
//! *Why it is enough.* s is before g. From g to x the leader's clock measures at least L·(1+drift), so the member's,
//! which is slower by at most the factor 1+drift, measures at least L: at x it shows at least s+L, and the lease was
//! valid only before s+L. *Why no less.* At x one tick earlier,
//! with s = g and the member's clock slowest, the lease is still valid: the tests show that tick.
//!
//! **A new leader** has not seen what earlier ones have granted. If it has granted nothing to a member itself, then instead of g it takes h,
//! the latest of
//!
//! > r − a/(1+drift)
//!
//! over all who voted for it and itself, where r is when the vote came, on its own clock (for itself: now), and a is how long ago, on the
//! voter's clock, a round of an earlier leader was last for a renewal of that member, as the voter says with its vote (`history.rs`).
//! *Why it is enough.* Whatever renewal of the member an earlier leader has granted, a majority had acknowledged the heartbeat of
//! a round that was for it. One of these voters has also voted for this leader, and afterwards it acknowledges nothing of an earlier one.
//! So it noted that round after s, and says a length a that began after s and ended before its vote was sent, hence before r.
//! On this leader's clock that length is at least a/(1+drift), so s is before r − a/(1+drift) ≤ h, and the argument above holds with h for g. A
//! voter that does not know says so: one that was restarted notes that every member may have been renewed until then, and an older program
//! says nothing, which counts as a = 0. *What it costs.* Two lengths are compared on two clocks, so that h may be later than the
//! heartbeat by a·drift.
//!
//! A leader also waits for at least 2·renew_every after its election, in which every member that lives has asked it: its lease may
//! be over only because there was no leader.
//!
//! The old incarnation of a restarted site is no exception. Its process is gone, but a client in a process of its own
//! may not have noticed yet, and was promised the time until s+L. So the new incarnation cannot vouch for the old one.
//!
//! A member tells its clients `margin` before the end of its lease that they have lost their locks. Whatever happens
//! then, they do not get them back: a grant that arrives later renews the member's lease, but does not restore the
//! locks.
//!
//! **No needless loss.** A renewal that is not granted is sent again four times in `renew_every`, and when the lease is about to end more
//! and more often, up to forty times.
//! So a member that was stopped or cut off for less than
//!
//! > L − margin − renew_every ([`Terms::longest_pause`])
//!
//! and was renewed in time before, is renewed in time afterwards, if there is a leader, except for the last moment: renew_every/40 until the
//! next attempt, and what its answer takes. *Why.* The last renewal before the cut was sent at most `renew_every` before it, so clients are
//! told of a loss at the earliest L − margin − renew_every after the beginning of the cut. If r remains of that when the cut ends, the
//! attempt before was made when at most r + w remained, and the next one follows it after w = max((r + w)/8, renew_every/40), hence within
//! max(r/7, renew_every/40) of the end of the cut. So it is made in time if r is more than renew_every/40, and leaves at least 6/7 of r,
//! or r − renew_every/40, for its answer. Nothing else may be decided about a member within that time. So another member is reported as unreachable
//! only after at least as long, and such a report counts only between two members that the leader has heard from all that time: who was
//! silent was stopped or cut off itself, and either comes back or loses its lease anyway (`node/leader.rs`).
//!
//! *What a failure costs.* The locks of a member that dies are free L·(1+drift) after its last renewal, also if it led, and also if another
//! leader is elected meanwhile, unless that comes so late that the two renewals after it take longer.

mod grants;
mod history;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::names::SiteName;
use crate::time::{Drift, Span, Time};
pub(crate) use grants::LeaseGrants;
pub(crate) use history::{Inherited, ListedRenewals, RenewalAges, append_list, read_list};

/// The terms of leases that leader and members have agreed on. The first view takes them from the configuration of the
/// leader at that time; every later view has the same terms, and every site follows them, whatever its own
/// configuration says. So no leader waits for less time than another one has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms {
    /// L: the length of a lease.
    pub length: Span,
    /// How much faster one clock may run than another.
    pub drift: Drift,
    /// How long before the end of the lease a member gives up what it holds.
    pub margin: Span,
    /// How often a member asks for a renewal.
    pub renew_every: Span,
}

impl Default for Terms {
    /// Leases of five seconds, for sites in one local network.
    fn default() -> Self {
        Terms {
            length: Span::from_millis(5000),
            drift: Drift::from_ppm(1000),
            margin: Span::from_millis(500),
            renew_every: Span::from_millis(1000),
        }
    }
}

/// The reason why terms are inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// Every lease would end between two renewals.
    #[error(
        "a lease of {length} µs with a margin of {margin} µs leaves no room for two renewals {renew_every} µs apart"
    )]
    TooShort { length: u64, margin: u64, renew_every: u64 },
}

impl Terms {
    /// Returns for how long a member may be stopped or cut off without losing its lease: the last renewal before was sent at most
    /// `renew_every` earlier. What is left of that time must be enough for one more attempt, which comes within
    /// [`shortest_retry`](Terms::shortest_retry), and for its answer.
    pub fn longest_pause(self) -> Span {
        let end = Time::ZERO + self.length;
        end.before(self.margin).before(self.renew_every).since(Time::ZERO)
    }

    /// Returns after what time a renewal that was not granted is sent again, if the lease lasts for long.
    pub fn retry_every(self) -> Span {
        self.renew_every.part(RETRIES).max(Span::TICK)
    }

    /// Returns after what time a renewal that was not granted is sent again shortly before clients are told that they lose their locks.
    pub fn shortest_retry(self) -> Span {
        self.renew_every.part(MAX_RETRIES).max(Span::TICK)
    }

    /// Returns after what time a renewal is sent again if it is not granted, and `left` remains until clients are told that they lose
    /// their locks: more and more often as that time approaches.
    fn retry_after(self, left: Option<Span>) -> Span {
        let (shortest, longest) = (self.shortest_retry(), self.retry_every());
        if mutant::is_on(Mutant::RenewalNotRepeated) {
            return self.renew_every;
        }
        match left {
            Some(left) if left > Span::ZERO && !mutant::is_on(Mutant::NoHurryAtTheEnd) => {
                left.part(HURRY).clamp(shortest, longest.max(shortest))
            }
            Some(_) | None => longest,
        }
    }

    /// Returns how long a new leader waits until it excludes anyone: every member that lives has asked it by then.
    pub fn first_contact(self) -> Span {
        self.renew_every.times(2)
    }

    /// Returns for how long a member keeps what a client can prove after its last contact with the client. If the member has died
    /// instead, a view without it comes within about one lease; so a client that claims a lock elsewhere at once is sure of it until then.
    pub fn resume_window(self) -> Span {
        self.length.times(2)
    }

    /// Checks that one lost renewal does not end a lease.
    pub(crate) fn check(self) -> Result<Self, TermsError> {
        let least = self.renew_every.times(2) + self.margin;
        if self.length <= least || self.renew_every == Span::ZERO {
            return Err(TermsError::TooShort {
                length: self.length.micros(),
                margin: self.margin.micros(),
                renew_every: self.renew_every.micros(),
            });
        }
        Ok(self)
    }
}

/// The number of a member's renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Renewal(u64);

/// A member's own lease.
#[derive(Clone, Debug)]
pub struct MemberLease {
    terms: Terms,
    /// The lease is valid before this time; `None` before the first grant.
    end: Option<Time>,
    /// The renewals that may still be granted, oldest first.
    sent: VecDeque<Sent>,
    /// Maximum number of these; an older one could hardly be granted in time.
    max_sent: usize,
    /// How often an older one was forgotten for a newer one.
    forgotten: u64,
    last: Renewal,
    next_renewal: Time,
    /// How much of the lease was left when each of the last renewals was granted, oldest first.
    left_at_renewals: VecDeque<Span>,
}

/// A renewal that was sent. Only the site that it was sent to can grant it.
#[derive(Clone, Debug)]
struct Sent {
    renewal: Renewal,
    to: SiteName,
    at: Time,
}

/// Default of [`NodeLimits::renewals`](crate::node::NodeLimits::renewals): more than are sent when a lease is about to end, 17 at a growing
/// pace and 8 at the highest.
pub(crate) const MAX_RENEWALS: usize = 64;

/// Number of renewals for which it is remembered how much of the lease was left.
const REMEMBERED: usize = 16;

/// How often a renewal that is not granted is sent in the time between two that are.
const RETRIES: u64 = 4;

/// How often it is sent in the same time at most, shortly before the end.
const MAX_RETRIES: u64 = 40;

/// A renewal that is not granted is sent again after this part of the time that is left, if that is sooner.
const HURRY: u64 = 8;

impl MemberLease {
    /// Creates the state without a lease; the first renewal is due at once.
    pub(crate) fn new(terms: Terms, now: Time) -> Self {
        let last = Renewal::default();
        let (sent, max_sent) = (VecDeque::new(), MAX_RENEWALS);
        let left_at_renewals = VecDeque::new();
        MemberLease {
            terms,
            end: None,
            sent,
            max_sent,
            forgotten: 0,
            last,
            next_renewal: now,
            left_at_renewals,
        }
    }

    /// Sets the maximum number of renewals that may still be granted.
    pub(crate) fn limit_to(self, max_sent: usize) -> Self {
        MemberLease { max_sent: max_sent.max(1), ..self }
    }

    /// Returns how often a renewal that was not granted yet was forgotten for a newer one.
    pub fn forgotten_renewals(&self) -> u64 {
        self.forgotten
    }

    /// Returns the terms that the lease follows.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Adopts the terms that were agreed on, before any lease is granted.
    pub(crate) fn agree(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Skips a renewal that cannot be sent now; the next attempt is when the next renewal would be due.
    pub(crate) fn postpone(&mut self, now: Time) {
        self.next_renewal = now + self.terms.renew_every;
    }

    /// Records that a renewal is sent now to `to`, the site that probably leads, and returns its number.
    pub(crate) fn renew(&mut self, to: SiteName, now: Time) -> Renewal {
        self.last = Renewal(self.last.0 + 1);
        if self.sent.len() >= self.max_sent {
            self.sent.pop_front();
            self.forgotten += 1;
        }
        self.sent.push_back(Sent { renewal: self.last, to, at: now });
        let left = self.notice_at().map(|notice| notice.since(now));
        self.next_renewal = now + self.terms.retry_after(left);
        self.last
    }

    /// Reacts to `by` saying that it leads and has granted `renewal` for `length`. Returns whether the lease lasts
    /// longer now. A grant of a renewal that was never sent to `by` is ignored, because anyone could claim it. And the
    /// lease is never longer than the leader waits.
    pub(crate) fn on_granted(&mut self, renewal: Renewal, by: &SiteName, length: Span, now: Time) -> bool {
        let asked = |sent: &Sent| sent.renewal == renewal && sent.to == *by;
        let Some(at) = self.sent.iter().position(asked) else { return false };
        let sent = self.sent[at].at;
        self.sent.drain(..=at);
        // Unless it was answered very late, the next one has time.
        let next = sent + self.terms.renew_every;
        self.next_renewal = if next > now { next } else { self.next_renewal };
        let from = if mutant::is_on(Mutant::LeaseFromReceipt) { now } else { sent };
        let end = from + self.terms.length.min(length);
        if now >= end || self.end.is_some_and(|current| current >= end) {
            return false;
        }
        if let Some(before) = self.end.replace(end) {
            if self.left_at_renewals.len() >= REMEMBERED {
                self.left_at_renewals.pop_front();
            }
            self.left_at_renewals.push_back(before.since(now));
        }
        true
    }

    /// Forgets the lease and every renewal that could still be granted, because this incarnation of the site has ended.
    pub(crate) fn give_up(&mut self, now: Time) {
        let (last, forgotten) = (self.last, self.forgotten);
        *self = MemberLease { forgotten, last, ..MemberLease::new(self.terms, now).limit_to(self.max_sent) };
    }

    /// Returns whether locks may be held.
    pub(crate) fn is_valid(&self, now: Time) -> bool {
        self.end.is_some_and(|end| now < end)
    }

    /// Returns whether locks may be granted to clients: the lease lasts longer than the margin.
    pub fn is_comfortable(&self, now: Time) -> bool {
        self.notice_at().is_some_and(|notice| now < notice)
    }

    /// Returns how much of the lease was left at the latest of its last renewals: nothing, if it had ended before.
    pub fn tightest_renewal(&self) -> Option<Span> {
        self.left_at_renewals.iter().min().copied()
    }

    /// Returns when the lease ends.
    pub fn end(&self) -> Option<Time> {
        self.end
    }

    /// Returns when clients must be told that they have lost their locks, unless a renewal is granted before.
    pub(crate) fn notice_at(&self) -> Option<Time> {
        self.end.map(|end| end.before(self.terms.margin))
    }

    /// Returns when the next renewal is due.
    pub(crate) fn next_renewal(&self) -> Time {
        self.next_renewal
    }
}

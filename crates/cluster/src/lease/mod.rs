//! Leases: why a member that is cut off has stopped before anyone acts as if it had.
//!
//! A member must hold a lease of length L from the leader to hold any lock. It asks for a renewal again and again, and
//! counts L from when it *sent* the renewal that was granted. The leader grants only after it has confirmed, after the
//! renewal arrived, that it still leads (Raft's `ReadIndex`).
//!
//! ```text
//!  member    s ─────────────── lease ───────────────▶ s+L          on the member's clock
//!             ╲ renewal        ▲ grant
//!  leader      a ──confirmed── g ─────────────────────────── x     on the leader's clock
//! ```
//!
//! **The inequality.** A member may be excluded at x only if
//!
//! > x ≥ max(g, e) + L·(1+drift)
//!
//! where g is when this leader last granted to it, e when this leader was elected, both and x on the leader's clock.
//! *Why it is enough.* s is before g. From g to x the leader's clock measures at least L·(1+drift), so the member's,
//! which is slower by at most the factor 1+drift, measures at least L: at x it shows at least s+L, and the lease was
//! valid only before s+L. A grant of an earlier leader had been confirmed by a majority that this leader's election had
//! not yet reached, so it was asked for before e, and the same holds with e for g. *Why no less.* At x one tick earlier,
//! with s = g and the member's clock slowest, the lease is still valid: the tests show that tick.
//!
//! A restarted site's old incarnation is no exception. Its process is gone, but a client in a process of its own may not have
//! noticed yet, and was promised the time until s+L. So the new incarnation cannot vouch for the old one.
//!
//! A member tells its clients `margin` before the end that they have lost what they hold. Whatever happens then, they do
//! not get it back: a grant that arrives later gives the member a lease again, not the locks.

mod grants;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::names::SiteName;
use crate::time::{Drift, Span, Time};
pub use grants::LeaseGrants;

/// What leader and members have agreed on. The first view has it, from the configuration of whoever led then; every later
/// view has the same, and every site goes by it, whatever its own configuration says. So no leader waits for less than
/// another one has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms {
    /// L: how long a lease is.
    pub length: Span,
    /// How much faster one clock may run than another.
    pub drift: Drift,
    /// How long before the end of the lease a member gives up what it holds.
    pub margin: Span,
    /// How often a member asks for a renewal.
    pub renew_every: Span,
}

impl Default for Terms {
    /// Leases of five seconds, for sites in one place.
    fn default() -> Self {
        Terms {
            length: Span::from_millis(5000),
            drift: Drift::from_ppm(1000),
            margin: Span::from_millis(500),
            renew_every: Span::from_millis(1000),
        }
    }
}

/// Why terms make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TermsError {
    /// Every lease would end between two renewals.
    #[error(
        "a lease of {length} µs with a margin of {margin} µs leaves no room for two renewals {renew_every} µs apart"
    )]
    TooShort {
        /// L.
        length: u64,
        /// The margin.
        margin: u64,
        /// How often it is renewed.
        renew_every: u64,
    },
}

impl Terms {
    /// Checks that one lost renewal does not end a lease.
    pub fn check(self) -> Result<Self, TermsError> {
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

/// Which of a member's renewals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Renewal(u64);

/// A member's own lease.
#[derive(Clone, Debug)]
pub struct Lease {
    terms: Terms,
    /// Valid before this moment; none before the first grant.
    end: Option<Time>,
    /// The renewals that may still be granted, oldest first.
    sent: VecDeque<Sent>,
    last: Renewal,
    next_renewal: Time,
}

/// A renewal that was sent: only whom it was sent to can grant it.
#[derive(Clone, Debug)]
struct Sent {
    renewal: Renewal,
    to: SiteName,
    at: Time,
}

/// How many renewals may be unanswered; an older one could hardly be granted in time.
const MAX_UNANSWERED: usize = 16;

impl Lease {
    /// No lease yet; the first renewal is due at once.
    pub fn new(terms: Terms, now: Time) -> Self {
        let last = Renewal::default();
        Lease { terms, end: None, sent: VecDeque::new(), last, next_renewal: now }
    }

    /// What it goes by.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// These terms were agreed on, before any lease was granted.
    pub fn agree(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Nothing can be asked for now: it is tried again when the next renewal would be due.
    pub fn postpone(&mut self, now: Time) {
        self.next_renewal = now + self.terms.renew_every;
    }

    /// A renewal is sent now, to the site that probably leads: its number goes with it.
    pub fn renew(&mut self, to: SiteName, now: Time) -> Renewal {
        self.last = Renewal(self.last.0 + 1);
        if self.sent.len() == MAX_UNANSWERED {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { renewal: self.last, to, at: now });
        self.postpone(now);
        self.last
    }

    /// `by` says that it leads and has granted `renewal`, for `length`. Whether the lease lasts longer for it. What was
    /// never asked of `by` is no grant: anyone could say it. And the lease is never longer than the leader waits.
    pub fn on_granted(&mut self, renewal: Renewal, by: &SiteName, length: Span, now: Time) -> bool {
        let asked = |sent: &Sent| sent.renewal == renewal && sent.to == *by;
        let Some(at) = self.sent.iter().position(asked) else { return false };
        let sent = self.sent[at].at;
        self.sent.drain(..=at);
        let from = if mutant::is_on(Mutant::LeaseFromReceipt) { now } else { sent };
        let end = from + self.terms.length.min(length);
        if now >= end || self.end.is_some_and(|current| current >= end) {
            return false;
        }
        self.end = Some(end);
        true
    }

    /// Forgets the lease and every renewal that could still be granted: this incarnation of the site is over.
    pub fn give_up(&mut self, now: Time) {
        *self = Lease { last: self.last, ..Lease::new(self.terms, now) };
    }

    /// Whether locks may be held.
    pub fn is_valid(&self, now: Time) -> bool {
        self.end.is_some_and(|end| now < end)
    }

    /// Whether locks may be given to clients: there is time left beyond the margin.
    pub fn is_comfortable(&self, now: Time) -> bool {
        self.notice_at().is_some_and(|notice| now < notice)
    }

    /// When the lease ends.
    pub fn end(&self) -> Option<Time> {
        self.end
    }

    /// When clients must be told that they have lost, if no renewal is granted until then.
    pub fn notice_at(&self) -> Option<Time> {
        self.end.map(|end| end.before(self.terms.margin))
    }

    /// When the next renewal is due.
    pub fn next_renewal(&self) -> Time {
        self.next_renewal
    }
}

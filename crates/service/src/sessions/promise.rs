//! What clients are told about their time: never longer than this site can keep, whatever happens to it.
//!
//! A client may have asked for a minute, but if its site dies, its locks are free for others when the *site's* lease is over. So it is
//! told at most what is left of that lease, less the time that it takes to act. The time that it asked for is kept in the
//! [registry](super::registry): while the site lives, the session lasts that long without a word from its client.
//!
//! ```text
//!   told now                           the client acts           the site's lease ends: others may get the lock
//!      ├──────────── promise ────────────┤──── allowance ─────────┤
//! ```
//!
//! The end of a site's lease never moves back. So whatever a client was told earlier is over before the end of the lease under which a
//! lock is granted to it later.

use std::time::Duration;

use meshlock_cluster::lease::Terms;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::Front;
use meshlock_system::now;
use tokio::time::{Instant, sleep};

use super::Sessions;
use super::registry::{LeaseId, Vouched};

/// How long clients of others' libraries take at most to notice that their time is up: etcd's for Go looks once a second. The rest is for a busy
/// machine.
pub(crate) const REACTION: Span = Span::from_millis(1400);

/// How often it is looked whether the site's lease was renewed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The least that etcd's clients can be told: they count in seconds.
const SECOND: Span = Span::from_millis(1000);

/// This site's leases are too short for clients that count in seconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this cluster's leases are too short for an API that counts in whole seconds: lease.length ({} ms) less \
     lease.renew_every ({} ms) and {} ms for the client to react must be at least 1 s; use Meshlock's own API \
     (docs/api.md), or a cluster with longer leases",
    length.micros() / 1000, renew_every.micros() / 1000, allowance.micros() / 1000
)]
pub(crate) struct LeasesTooShort {
    length: Span,
    renew_every: Span,
    allowance: Span,
}

/// Returns `from` less `less`, or zero.
fn less(from: Span, less: Span) -> Span {
    (Time::ZERO + from).since(Time::ZERO + less)
}

/// Returns how long before the end of the site's lease a client must stop by itself.
fn allowance(terms: Terms) -> Span {
    terms.margin.max(REACTION)
}

/// Returns what a site can always promise if each of its renewals is granted in time.
fn usual(terms: Terms) -> Span {
    less(less(terms.length, terms.renew_every), allowance(terms))
}

/// Returns what a site can promise whose lease lasts for `safe` from now.
fn at_present(terms: Terms, safe: Span) -> Span {
    less(safe, allowance(terms)).min(usual(terms))
}

/// Returns the least that a client can be told: a second, or half of what a site usually promises.
fn least(terms: Terms) -> Span {
    SECOND.min(usual(terms).part(2).max(Span::TICK))
}

/// Returns whether a site can promise its clients anything now: not long after it has lost touch with the majority it cannot, some time
/// before its lease is over.
pub(super) fn can_promise(front: &Front) -> bool {
    let terms = front.lease_terms();
    front.is_ready() && at_present(terms, front.safe_for()) >= least(terms)
}

impl Sessions {
    /// Returns whether this site can promise its clients anything now.
    pub(crate) fn has_leader(&self) -> bool {
        can_promise(self.front())
    }

    /// Returns for how long a client that is told so now may rely on what it holds without another word. It is the same at all times,
    /// unless renewals of the site's lease are late.
    pub(crate) fn promise(&self) -> Span {
        let front = self.front();
        at_present(front.lease_terms(), front.safe_for())
    }

    /// Returns the same for what a lease holds, which another site may hold for it.
    pub(crate) fn promise_for(&self, lease: LeaseId) -> Span {
        let promise = self.promise();
        let terms = self.front().lease_terms();
        self.safe_until(lease).map_or(promise, |until| less(until, allowance(terms)).min(promise))
    }

    /// Returns for how long nobody else can hold what a lease holds, even if this site fails or is cut off now.
    pub(crate) fn safe_for(&self, lease: LeaseId) -> Span {
        let safe = self.front().safe_for();
        let drift = self.front().lease_terms().drift;
        self.safe_until(lease).map_or(safe, |until| drift.shrink(until).min(safe))
    }

    /// Returns for how long another site certainly keeps what a lease holds, if that is limited.
    fn safe_until(&self, lease: LeaseId) -> Option<Span> {
        let now = now();
        match self.registry().vouched(lease, now) {
            Some(Vouched::ForAnother { until: Some(until) }) => Some(until.since(now)),
            Some(Vouched::ForAnother { until: None } | Vouched::Here) | None => None,
        }
    }

    /// Returns whether this site answers for another one that has the lease.
    pub(crate) fn is_for_another(&self, lease: LeaseId) -> bool {
        let vouched = self.registry().vouched(lease, now());
        vouched.is_some_and(|vouched| vouched != Vouched::Here)
    }

    /// Checks that clients can be told their time in whole seconds.
    pub(crate) fn check_seconds(&self) -> Result<(), LeasesTooShort> {
        let terms = self.front().node().look(|node| node.lease().terms());
        if usual(terms) >= SECOND {
            return Ok(());
        }
        let Terms { length, renew_every, .. } = terms;
        Err(LeasesTooShort { length, renew_every, allowance: allowance(terms) })
    }

    /// Waits until at least a second can be promised, or half of what usually can. Returns what can be promised; `None` if the site's
    /// lease is not renewed for as long as it lasts.
    pub(crate) async fn until_promised(&self) -> Option<Span> {
        let deadline = Instant::now() + self.longest_wait();
        loop {
            let promise = self.promise();
            if promise >= least(self.front().lease_terms()) {
                return Some(promise);
            }
            if Instant::now() >= deadline || self.is_closing() {
                return None;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns how long a renewal waits for a promise: a site that is not a member again by then may be gone for long.
    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_micros(self.front().lease_length().micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(length: u64, renew_every: u64, margin: u64) -> Terms {
        let [length, renew_every, margin] = [length, renew_every, margin].map(Span::from_millis);
        Terms { length, renew_every, margin, ..Terms::default() }
    }

    #[test]
    fn what_is_told_is_over_before_the_lease_with_time_to_act() {
        for (length, renew_every, margin) in
            [(5000, 1000, 500), (5000, 1000, 900), (2000, 300, 100), (1000, 250, 100)]
        {
            let terms = terms(length, renew_every, margin);
            for left in 0..=length {
                let left = Span::from_millis(left);
                let told = at_present(terms, left);
                assert!(told == Span::ZERO || told + allowance(terms) <= left, "{told:?} of {left:?}");
                assert!(told <= usual(terms));
            }
            let just_before_a_renewal = less(terms.length, terms.renew_every);
            assert_eq!(at_present(terms, just_before_a_renewal), usual(terms), "it is always the same");
        }
    }

    #[test]
    fn by_default_clients_of_etcd_are_told_two_seconds() {
        let usual = usual(Terms::default());
        assert_eq!(usual.micros() / 1_000_000, 2);
        assert!(usual <= Terms::default().longest_pause());
    }

    #[test]
    fn leases_that_are_too_short_for_seconds_leave_less_than_one() {
        assert!(usual(terms(1000, 250, 100)) < SECOND);
        assert_eq!(usual(terms(600, 100, 100)), Span::ZERO);
    }
}

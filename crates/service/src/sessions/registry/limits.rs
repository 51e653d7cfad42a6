//! Limits of a site for all clients together and for each of them.

use std::collections::BTreeMap;
use std::time::Duration;

use meshlock_cluster::access::Principal;

/// Limits of the wire APIs at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiLimits {
    pub connections: usize,
    /// Simultaneous sessions (leases of etcd's clients).
    pub sessions: usize,
    /// Locks held or waited for, over all sessions.
    pub keys: usize,
    /// Clients that wait for one lock at this site.
    pub waiters_of_a_lock: usize,
    /// Locks whose holders are watched at the same time.
    pub watched_locks: usize,
    /// Size of one request.
    pub request_bytes: usize,
    /// How long a client may leave data unread before it is cut off.
    pub slow_reader: Duration,
    /// The part of these limits that one principal may use.
    pub each: PrincipalLimits,
}

/// Limits of the wire APIs for one principal. [`Each`](meshlock_host::gate::Each) has the limits that all client
/// interfaces share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrincipalLimits {
    pub sessions: usize,
    /// Locks held or waited for.
    pub keys: usize,
    /// Simultaneous requests for the same lock.
    pub waiters_of_a_lock: usize,
    /// Watched locks that nobody else watched before.
    pub watched_locks: usize,
}

impl Default for ApiLimits {
    fn default() -> Self {
        ApiLimits {
            connections: 4096,
            sessions: 10_000,
            keys: 50_000,
            waiters_of_a_lock: 1000,
            watched_locks: 64,
            request_bytes: 64 << 10,
            slow_reader: Duration::from_secs(30),
            each: PrincipalLimits { sessions: 5000, keys: 25_000, waiters_of_a_lock: 500, watched_locks: 32 },
        }
    }
}

/// What one principal uses at this site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PrincipalUsage {
    pub(super) leases: usize,
    pub(super) keys: usize,
}

/// Number of waiters of a lock, in total and by principal.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    all: usize,
    of: BTreeMap<Principal, usize>,
}

impl Waiters {
    pub(super) fn all(&self) -> usize {
        self.all
    }

    pub(super) fn of(&self, who: &Principal) -> usize {
        self.of.get(who).copied().unwrap_or(0)
    }

    pub(super) fn enter(&mut self, who: &Principal) {
        self.all += 1;
        *self.of.entry(who.clone()).or_default() += 1;
    }

    pub(super) fn leave(&mut self, who: &Principal) {
        if let Some(count) = self.of.get_mut(who) {
            self.all -= 1;
            *count -= 1;
            if *count == 0 {
                self.of.remove(who);
            }
        }
    }
}

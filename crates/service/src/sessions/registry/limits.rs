//! How much clients may have, all together and each.

use std::collections::BTreeMap;
use std::time::Duration;

use meshlock_cluster::access::Principal;

/// How much the clients of the wire APIs may have at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Sessions (leases of etcd's clients) at once.
    pub sessions: usize,
    /// Locks that are held or waited for, over all sessions.
    pub keys: usize,
    /// Clients that wait for one lock at this site.
    pub waiters_of_a_lock: usize,
    /// Locks whose holders are watched at once.
    pub watched_locks: usize,
    /// Bytes of one request.
    pub request_bytes: usize,
    /// How long a client may leave unread what it is sent, before it is cut off.
    pub slow_reader: Duration,
    /// How much of it one client may have, that is, one principal.
    pub each: EachClient,
}

/// How much one principal may have, of what the wire APIs count. [`Each`](meshlock_host::gate::Each) is what all doors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EachClient {
    /// Sessions at once.
    pub sessions: usize,
    /// Locks that are held or waited for.
    pub keys: usize,
    /// How often it may wait for one lock.
    pub waiters_of_a_lock: usize,
    /// Locks that it watches and nobody watched before.
    pub watched_locks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            sessions: 10_000,
            keys: 50_000,
            waiters_of_a_lock: 1000,
            watched_locks: 64,
            request_bytes: 64 << 10,
            slow_reader: Duration::from_secs(30),
            each: EachClient { sessions: 5000, keys: 25_000, waiters_of_a_lock: 500, watched_locks: 32 },
        }
    }
}

/// What one principal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) leases: usize,
    pub(super) keys: usize,
}

/// Who waits for a lock.
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

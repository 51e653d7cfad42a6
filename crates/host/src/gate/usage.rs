//! What each principal uses of its limits, over all APIs together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use meshlock_cluster::access::{Bucket, Pace, Principal};
use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Time;

use super::{Caller, CallerOrigin, Gate, RequestKind};
use crate::pending::Prefix;

/// Number of principals and networks to remember before idle ones are forgotten.
pub(super) const MAX_PRINCIPALS: usize = 1024;

/// Limits of one principal, over all APIs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Each {
    /// Maximum number of connections over a network.
    pub connections: usize,
    /// Maximum number of locks that it holds or waits for.
    pub locks: usize,
    /// Maximum number of its requests that wait for the same lock.
    pub waiters: usize,
    /// Maximum number of open watches.
    pub watches: usize,
    /// Maximum number of bytes that the site keeps for its connections: messages that have not arrived whole, and answers that were not
    /// read.
    pub buffered_bytes: usize,
    pub pace: Pace,
}

impl Default for Each {
    fn default() -> Self {
        Each {
            connections: 2048,
            locks: 25_000,
            waiters: 500,
            watches: 1000,
            buffered_bytes: 32 << 20,
            pace: Pace { rate: 5000, burst: 10_000 },
        }
    }
}

/// A principal has reached one of its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    #[error(
        "'{of}' holds {max} locks or waits for them, the limit for one client at this site; release some"
    )]
    Locks { of: Principal, max: usize },
    #[error("'{of}' waits {max} times for '{lock}', the limit for one client at this site; wait fewer times")]
    Waiters { of: Principal, lock: LockName, max: usize },
    #[error("'{of}' has {max} watches, the limit for one client at this site; end some")]
    Watches { of: Principal, max: usize },
    #[error(
        "this site keeps {max} bytes for '{of}', the limit for one client; read what it sends, or send less at once"
    )]
    BytesOfPrincipal { of: Principal, max: usize },
    #[error(
        "this site keeps {max} bytes for its clients, which is its limit; try again later, or use another site"
    )]
    Bytes { max: usize },
}

/// Whose rate limit a request counts towards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Payer {
    Principal(Principal),
    /// A caller without credentials pays for its network, so that it costs nobody else anything.
    Network(Prefix),
}

impl Payer {
    pub(super) fn of(caller: &Caller) -> Self {
        match (&caller.principal, &caller.origin) {
            (Principal::Anyone, CallerOrigin::Network(address)) => Payer::Network(Prefix::of(address.ip())),
            (principal, _) => Payer::Principal(principal.clone()),
        }
    }
}

/// What one principal uses.
#[derive(Clone, Debug)]
pub(super) struct PrincipalUsage {
    pub(super) connections: usize,
    pub(super) locks: usize,
    pub(super) watches: usize,
    /// Number of waiting requests for each lock.
    pub(super) waiters: BTreeMap<LockName, usize>,
    pub(super) buffered: Arc<AtomicUsize>,
    asks: Bucket,
    renewals: Bucket,
    probes: Bucket,
    /// When the audit log last noted that it exceeds its rate limit.
    pub(super) complained: Option<Time>,
}

impl PrincipalUsage {
    fn new(pace: Pace, now: Time) -> Self {
        let full = Bucket::full(pace, now);
        PrincipalUsage {
            connections: 0,
            locks: 0,
            watches: 0,
            waiters: BTreeMap::new(),
            buffered: Arc::default(),
            asks: full,
            renewals: full,
            probes: full,
            complained: None,
        }
    }

    /// Returns whether it can be forgotten.
    fn is_quiet(&self, pace: Pace, now: Time) -> bool {
        let counts = [self.connections, self.locks, self.watches, self.waiters.len()];
        // Somebody else may still count bytes.
        let counts_bytes = Arc::strong_count(&self.buffered) > 1;
        let buckets = [self.asks, self.renewals, self.probes];
        counts == [0; 4] && !counts_bytes && buckets.iter().all(|bucket| bucket.is_full(pace, now))
    }

    pub(super) fn bucket(&mut self, kind: RequestKind) -> &mut Bucket {
        match kind {
            RequestKind::Ask | RequestKind::GiveBack => &mut self.asks,
            RequestKind::Renew => &mut self.renewals,
            RequestKind::Probe => &mut self.probes,
        }
    }
}

/// What all principals use. If many are remembered, idle ones are forgotten.
#[derive(Debug, Default)]
pub(super) struct Usage(BTreeMap<Payer, PrincipalUsage>);

impl Usage {
    pub(super) fn of(&mut self, payer: Payer, pace: Pace, now: Time) -> &mut PrincipalUsage {
        if self.0.len() >= MAX_PRINCIPALS && !self.0.contains_key(&payer) {
            self.0.retain(|_, used| !used.is_quiet(pace, now));
        }
        let is_full = self.0.len() >= MAX_PRINCIPALS && !self.0.contains_key(&payer);
        // There are as many principals as the operator has named, but networks are for everyone to choose.
        let payer = if is_full && matches!(payer, Payer::Network(_)) {
            Payer::Network(Prefix::OTHERS)
        } else {
            payer
        };
        self.0.entry(payer).or_insert_with(|| PrincipalUsage::new(pace, now))
    }

    /// Returns what a principal uses, if it is remembered.
    pub(super) fn known(&mut self, principal: &Principal) -> Option<&mut PrincipalUsage> {
        self.0.get_mut(&Payer::Principal(principal.clone()))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A lock that a principal holds or waits for. It counts until this is dropped.
pub(crate) struct LockUse {
    gate: Arc<Gate>,
    principal: Principal,
    lock: LockName,
    waits: bool,
}

impl LockUse {
    pub(super) fn new(gate: Arc<Gate>, principal: Principal, lock: LockName) -> Self {
        LockUse { gate, principal, lock, waits: true }
    }

    /// Records that the lock was granted: the principal waits for it no more.
    pub(crate) fn on_granted(&mut self) {
        if std::mem::take(&mut self.waits)
            && let Some(used) = self.gate.usage().known(&self.principal)
            && let Some(count) = used.waiters.get_mut(&self.lock)
        {
            *count -= 1;
            if *count == 0 {
                used.waiters.remove(&self.lock);
            }
        }
    }
}

impl Drop for LockUse {
    fn drop(&mut self) {
        self.on_granted();
        if let Some(used) = self.gate.usage().known(&self.principal) {
            used.locks = used.locks.saturating_sub(1);
        }
    }
}

impl fmt::Debug for LockUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockUse").field("lock", &self.lock).finish_non_exhaustive()
    }
}

/// An open watch of a principal. It counts until this is dropped.
#[derive(Debug)]
pub struct WatchUse {
    gate: Arc<Gate>,
    principal: Principal,
}

impl WatchUse {
    pub(super) fn new(gate: Arc<Gate>, principal: Principal) -> Self {
        WatchUse { gate, principal }
    }
}

impl Drop for WatchUse {
    fn drop(&mut self) {
        if let Some(used) = self.gate.usage().known(&self.principal) {
            used.watches = used.watches.saturating_sub(1);
        }
    }
}

//! The ledger: which leases this site has granted and which keys hang on them. Pure: whoever drives it says what time it is.
//!
//! A *key* is one client's place at one lock, from asking to giving back: `jobs/694d` is the place of lease 694d at the lock
//! `jobs`. Clients of etcd see keys as such; Meshlock's own clients see a session (a lease) and the lock's name. The node
//! decides who holds what; the ledger only remembers what the node has said, and for how long a silent client may stay.
//!
//! ```text
//!            asked ──▶ waiting ──granted──▶ held
//!                         │                   │      both end with the lease, by a release, or because the node says so:
//!                         └────▶ gone ◀───────┘      taken away, too late, busy
//! ```

mod lease;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use lease::{Lasts, Lease, LeaseId, Leases};
use meshlock_node::names::{ClientLabel, LockName};
use meshlock_node::time::{Span, Time};

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
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            sessions: 10_000,
            keys: 50_000,
            waiters_of_a_lock: 1000,
            watched_locks: 32,
            request_bytes: 64 << 10,
        }
    }
}

/// Why something about leases and keys cannot be done. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LedgerError {
    #[error("there is no session {0}; it may be over: begin a new one")]
    NoLease(LeaseId),
    #[error("the session {0} exists")]
    LeaseExists(LeaseId),
    #[error("this site has {0} sessions, and takes no more; end some, or ask another site")]
    TooManyLeases(usize),
    #[error("the key belongs to another session, {0}")]
    KeyTaken(LeaseId),
    #[error("{0} locks are held or waited for through this site's API, and it takes no more; give some back")]
    TooManyKeys(usize),
    #[error("{most} clients wait for '{lock}' at this site, and it takes no more; try again later")]
    TooManyWaiters { lock: LockName, most: usize },
}

/// How far a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Held(Grant),
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) fence: i64,
    pub(crate) slot: Option<u32>,
}

/// Which key, for whoever has begun it: never used twice, in contrast to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(u64);

/// One client's place at one lock, with whatever its driver has to remember of it.
#[derive(Clone, Debug)]
pub(crate) struct Key<W> {
    pub(crate) id: KeyId,
    pub(crate) name: Vec<u8>,
    pub(crate) lock: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) value: Vec<u8>,
    pub(crate) state: State,
    pub(crate) revisions: Revisions,
    pub(crate) driver: W,
}

/// The numbers by which etcd's clients tell earlier from later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Revisions {
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) version: i64,
    /// A client knows when it was created: that does not change any more.
    told: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: Vec<u8>,
    pub(crate) lock: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) value: Vec<u8>,
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Begun<W> {
    /// A new key waits, and the node is to be asked.
    New(Key<W>),
    /// The lease has asked before.
    Known(Key<W>),
}

/// Leases and keys of one site. `W` is what the driver remembers of each key.
#[derive(Debug)]
pub(crate) struct Ledger<W> {
    leases: Leases,
    keys: BTreeMap<Vec<u8>, Key<W>>,
    names: BTreeMap<KeyId, Vec<u8>>,
    waiters: BTreeMap<LockName, usize>,
    last_key: u64,
    revision: i64,
    limits: Limits,
}

impl<W: Clone> Ledger<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Ledger {
            leases: Leases::default(),
            keys: BTreeMap::new(),
            names: BTreeMap::new(),
            waiters: BTreeMap::new(),
            last_key: 0,
            revision: 1,
            limits,
        }
    }

    /// The largest number that a client was told here.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Grants a lease.
    pub(crate) fn grant(
        &mut self,
        id: LeaseId,
        lasts: Lasts,
        who: Option<ClientLabel>,
        now: Time,
    ) -> Result<(), LedgerError> {
        if self.leases.knows(id) {
            return Err(LedgerError::LeaseExists(id));
        }
        if self.leases.len() >= self.limits.sessions {
            return Err(LedgerError::TooManyLeases(self.limits.sessions));
        }
        self.leases.add(id, lasts, who, now);
        Ok(())
    }

    /// Begins the time of a lease anew; gives back how long it lasts.
    pub(crate) fn renew(&mut self, id: LeaseId, now: Time) -> Option<Lasts> {
        self.leases.renew(id, now).map(|lease| lease.lasts)
    }

    /// The time of a lease that has lasted with its connection begins.
    pub(crate) fn begin_time(&mut self, id: LeaseId, lasts: Lasts, now: Time) {
        self.leases.begin_time(id, lasts, now);
    }

    pub(crate) fn lease(&self, id: LeaseId, now: Time) -> Option<&Lease> {
        self.leases.get(id, now)
    }

    pub(crate) fn leases(&self, now: Time) -> Vec<LeaseId> {
        self.leases.ids(now).collect()
    }

    /// Also those whose time is up.
    pub(crate) fn all_leases(&self) -> Vec<LeaseId> {
        self.leases.all_ids().collect()
    }

    /// When the next lease ends by itself.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.leases.next_end()
    }

    /// Ends a lease; gives back what hung on it, all of which the node has to be told.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Option<Vec<Key<W>>> {
        let lease = self.leases.remove(id)?;
        Some(lease.keys.iter().filter_map(|name| self.take_out(name)).collect())
    }

    /// What hangs on the lease stays for so long after the lease's end: nobody else gets it before. `silence` is for how long its
    /// client may believe in it without a word from here, if not for as long as the lease lasts.
    pub(crate) fn set_delay(&mut self, id: LeaseId, delay: Span, silence: Option<Span>) {
        self.leases.set_delay(id, delay, silence);
    }

    /// Ends a lease as [`Ledger::revoke`] does, but for its delay: until that is over what hangs on it stays.
    pub(crate) fn retire(&mut self, id: LeaseId, now: Time) -> Option<Vec<Key<W>>> {
        if self.leases.begin_delay(id, now) { Some(Vec::new()) } else { self.revoke(id) }
    }

    /// Ends a lease whose time is up, if there is one.
    pub(crate) fn expire_one(&mut self, now: Time) -> Option<(LeaseId, Vec<Key<W>>)> {
        let id = self.leases.next_over(now)?;
        self.retire(id, now).map(|keys| (id, keys))
    }

    /// A client asks for a lock: perhaps not for the first time.
    pub(crate) fn begin(&mut self, wanted: Wanted, driver: W, now: Time) -> Result<Begun<W>, LedgerError> {
        let Some(lease) = self.leases.get_mut(wanted.lease, now) else {
            return Err(LedgerError::NoLease(wanted.lease));
        };
        if let Some(key) = self.keys.get(&wanted.name) {
            let taken = key.lease != wanted.lease;
            return if taken { Err(LedgerError::KeyTaken(key.lease)) } else { Ok(Begun::Known(key.clone())) };
        }
        if self.keys.len() >= self.limits.keys {
            return Err(LedgerError::TooManyKeys(self.limits.keys));
        }
        let waiters = self.waiters.entry(wanted.lock.clone()).or_default();
        if *waiters >= self.limits.waiters_of_a_lock {
            let most = self.limits.waiters_of_a_lock;
            return Err(LedgerError::TooManyWaiters { lock: wanted.lock, most });
        }
        *waiters += 1;
        lease.keys.insert(wanted.name.clone());
        self.last_key += 1;
        // The number before its own is that of the key which it sees in front of it.
        self.revision += 2;
        let (created, modified) = (self.revision, self.revision);
        let key = Key {
            id: KeyId(self.last_key),
            name: wanted.name.clone(),
            lock: wanted.lock,
            lease: wanted.lease,
            value: wanted.value,
            state: State::Waiting,
            revisions: Revisions { created, modified, version: 1, told: false },
            driver,
        };
        self.names.insert(key.id, wanted.name.clone());
        self.keys.insert(wanted.name, key.clone());
        Ok(Begun::New(key))
    }

    /// The node has granted what the key waits for.
    pub(crate) fn on_granted(&mut self, id: KeyId, grant: Grant) -> Option<Key<W>> {
        let key = self.names.get(&id).and_then(|name| self.keys.get_mut(name))?;
        if key.state == State::Waiting {
            leave_waiters(&mut self.waiters, &key.lock);
        }
        key.state = State::Held(grant);
        if !key.revisions.told {
            key.revisions.created = grant.fence;
        }
        key.revisions.modified = grant.fence;
        self.revision = self.revision.max(grant.fence);
        Some(key.clone())
    }

    /// The node has said the last of a key.
    pub(crate) fn on_over(&mut self, id: KeyId) -> Option<Key<W>> {
        let name = self.names.get(&id)?.clone();
        self.remove(&name)
    }

    /// The node has taken a key away from its client, which does not know yet. All that hangs on the same lease goes in time: a
    /// lease that cannot be renewed is how every client learns of it.
    pub(crate) fn on_lost(&mut self, id: KeyId) -> Option<Key<W>> {
        let key = self.on_over(id)?;
        self.leases.doom(key.lease);
        Some(key)
    }

    /// Takes a key away: its client wants it no more.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Key<W>> {
        let key = self.take_out(name)?;
        self.leases.drop_key(key.lease, name);
        Some(key)
    }

    /// Gives a key another value.
    pub(crate) fn set_value(&mut self, name: &[u8], value: Vec<u8>) -> Option<Key<W>> {
        let key = self.keys.get_mut(name)?;
        self.revision += 1;
        (key.value, key.revisions.modified) = (value, self.revision);
        key.revisions.version += 1;
        Some(key.clone())
    }

    /// A client is told when the key was created.
    pub(crate) fn tell_creation(&mut self, name: &[u8]) -> Option<Key<W>> {
        let key = self.keys.get_mut(name)?;
        key.revisions.told = true;
        Some(key.clone())
    }

    pub(crate) fn key(&self, name: &[u8]) -> Option<&Key<W>> {
        self.keys.get(name)
    }

    /// All keys whose names begin so.
    pub(crate) fn keys_from<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = &'a Key<W>> {
        let from = self.keys.range(prefix.to_vec()..);
        from.take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, key)| key)
    }

    /// How much there is: leases and keys.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        assert_eq!(self.keys.len(), self.names.len());
        (self.leases.len(), self.keys.len())
    }

    fn take_out(&mut self, name: &[u8]) -> Option<Key<W>> {
        let key = self.keys.remove(name)?;
        self.names.remove(&key.id);
        if key.state == State::Waiting {
            leave_waiters(&mut self.waiters, &key.lock);
        }
        self.revision += 1;
        Some(key)
    }
}

fn leave_waiters(waiters: &mut BTreeMap<LockName, usize>, lock: &LockName) {
    if let Some(count) = waiters.get_mut(lock) {
        *count -= 1;
        if *count == 0 {
            waiters.remove(lock);
        }
    }
}

impl<W> Key<W> {
    /// What it holds, if it does.
    pub(crate) fn grant(&self) -> Option<Grant> {
        match self.state {
            State::Held(grant) => Some(grant),
            State::Waiting => None,
        }
    }
}

//! The registry: which leases this site has granted and which keys hang on them. Pure: whoever drives it says what time it is.
//!
//! A *key* is one client's place at one lock, from asking to giving back: `jobs/694d` is the place of lease 694d at the lock
//! `jobs`. Clients of etcd see keys as such; Meshlock's own clients see a session (a lease) and the lock's name. The node
//! decides who holds what; the registry only remembers what the node has said, and for how long a silent client may stay.
//!
//! ```text
//!            asked ──▶ waiting ──granted──▶ held
//!                         │                   │      both end with the lease, by a release, or because the node says so:
//!                         └────▶ gone ◀───────┘      taken away, too late, busy
//! ```

mod error;
mod lease;
mod limits;
mod look;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use error::RegistryError;
pub(crate) use lease::{Lasts, Lease, LeaseId, Leases};
pub use limits::{EachClient, Limits};
use limits::{Usage, Waiters};
use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::Caller;

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
    /// Whose it is, as the lease is.
    pub(crate) owner: Principal,
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
pub(crate) struct NewKey {
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

/// A lease whose time was up.
#[derive(Debug)]
pub(crate) struct Expired<W> {
    pub(crate) lease: LeaseId,
    pub(crate) owner: Caller,
    /// What hung on it, and does not stay.
    pub(crate) keys: Vec<Key<W>>,
    /// It was over before, and now its delay is.
    pub(crate) after_delay: bool,
}

/// Leases and keys of one site. `W` is what the driver remembers of each key.
#[derive(Debug)]
pub(crate) struct Registry<W> {
    leases: Leases,
    keys: BTreeMap<Vec<u8>, Key<W>>,
    names: BTreeMap<KeyId, Vec<u8>>,
    waiters: BTreeMap<LockName, Waiters>,
    usage: BTreeMap<Principal, Usage>,
    last_key: u64,
    revision: i64,
    limits: Limits,
}

impl<W: Clone> Registry<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Registry {
            leases: Leases::default(),
            keys: BTreeMap::new(),
            names: BTreeMap::new(),
            waiters: BTreeMap::new(),
            usage: BTreeMap::new(),
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
        owner: &Caller,
        now: Time,
    ) -> Result<(), RegistryError> {
        if self.leases.knows(id) {
            return Err(RegistryError::LeaseExists(id));
        }
        if self.leases.len() >= self.limits.sessions {
            return Err(RegistryError::TooManyLeases(self.limits.sessions));
        }
        let (of, most) = (&owner.principal, self.limits.each.sessions);
        if self.usage.get(of).is_some_and(|usage| usage.leases >= most) {
            return Err(RegistryError::TooManyLeasesOf { of: of.clone(), most });
        }
        self.usage.entry(of.clone()).or_default().leases += 1;
        self.leases.add(id, lasts, who, owner.clone(), now);
        Ok(())
    }

    /// Begins the time of somebody's lease anew; gives back how long it lasts.
    pub(crate) fn renew(&mut self, id: LeaseId, owner: &Principal, now: Time) -> Option<Lasts> {
        if !self.leases.is_of(id, owner) {
            return None;
        }
        self.leases.renew(id, now).map(|lease| lease.lasts)
    }

    /// The time of a lease that has lasted with its connection begins.
    pub(crate) fn begin_time(&mut self, id: LeaseId, lasts: Lasts, now: Time) {
        self.leases.begin_time(id, lasts, now);
    }

    /// Somebody's lease. Another's is not there.
    pub(crate) fn lease(&self, id: LeaseId, owner: &Principal, now: Time) -> Option<&Lease> {
        self.leases.get(id, now).filter(|lease| lease.is_of(owner))
    }

    /// Whether the lease is somebody's, be it that its time is up.
    pub(crate) fn is_of(&self, id: LeaseId, owner: &Principal) -> bool {
        self.leases.is_of(id, owner)
    }

    /// Whether the lease is there and not over, whosever it is.
    pub(crate) fn is_alive(&self, id: LeaseId, now: Time) -> bool {
        self.leases.get(id, now).is_some()
    }

    pub(crate) fn leases_of(&self, owner: &Principal, now: Time) -> Vec<LeaseId> {
        self.leases.ids_of(owner, now).collect()
    }

    /// Also those whose time is up.
    pub(crate) fn all_leases(&self) -> Vec<LeaseId> {
        self.leases.all_ids().collect()
    }

    /// When the next lease ends by itself.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.leases.next_end()
    }

    /// Ends a lease; gives back whose it was and what hung on it, all of which the node has to be told.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Option<(Caller, Vec<Key<W>>)> {
        let lease = self.leases.remove(id)?;
        let keys = lease.keys.iter().filter_map(|name| self.take_out(name)).collect();
        self.use_less(&lease.owner.principal, |usage| usage.leases -= 1);
        Some((lease.owner, keys))
    }

    /// What hangs on the lease stays for so long after the lease's end: nobody else gets it before. `silence` is for how long its
    /// client may believe in it without a word from here, if not for as long as the lease lasts.
    pub(crate) fn set_delay(&mut self, id: LeaseId, delay: Span, silence: Option<Span>) {
        self.leases.set_delay(id, delay, silence);
    }

    /// Ends a lease as [`Registry::revoke`] does, but for its delay: until that is over what hangs on it stays.
    pub(crate) fn retire(&mut self, id: LeaseId, now: Time) -> Option<(Caller, Vec<Key<W>>)> {
        match self.leases.begin_delay(id, now) {
            Some(owner) => Some((owner, Vec::new())),
            None => self.revoke(id),
        }
    }

    /// Ends a lease whose time is up, if there is one.
    pub(crate) fn expire_one(&mut self, now: Time) -> Option<Expired<W>> {
        let lease = self.leases.next_over(now)?;
        let after_delay = self.leases.is_delayed(lease);
        self.retire(lease, now).map(|(owner, keys)| Expired { lease, owner, keys, after_delay })
    }

    /// A client asks for a lock: perhaps not for the first time. A key of another's lease is taken, whoever has it.
    pub(crate) fn begin(
        &mut self,
        wanted: NewKey,
        owner: &Principal,
        driver: W,
        now: Time,
    ) -> Result<Begun<W>, RegistryError> {
        if self.lease(wanted.lease, owner, now).is_none() {
            return Err(RegistryError::NoLease(wanted.lease));
        }
        if let Some(key) = self.keys.get(&wanted.name) {
            let taken = key.lease != wanted.lease;
            return if taken { Err(RegistryError::KeyTaken) } else { Ok(Begun::Known(key.clone())) };
        }
        self.check_room(&wanted.lock, owner)?;
        self.waiters.entry(wanted.lock.clone()).or_default().enter(owner);
        self.usage.entry(owner.clone()).or_default().keys += 1;
        self.leases.hang(wanted.lease, wanted.name.clone());
        self.last_key += 1;
        // The number before its own is that of the key which it sees in front of it.
        self.revision += 2;
        let (created, modified) = (self.revision, self.revision);
        let key = Key {
            id: KeyId(self.last_key),
            name: wanted.name.clone(),
            lock: wanted.lock,
            lease: wanted.lease,
            owner: owner.clone(),
            value: wanted.value,
            state: State::Waiting,
            revisions: Revisions { created, modified, version: 1, told: false },
            driver,
        };
        self.names.insert(key.id, wanted.name.clone());
        self.keys.insert(wanted.name, key.clone());
        Ok(Begun::New(key))
    }

    /// Whether somebody may wait for a lock beside all that there is.
    fn check_room(&self, lock: &LockName, of: &Principal) -> Result<(), RegistryError> {
        let Limits { keys, waiters_of_a_lock, each, .. } = self.limits;
        if self.keys.len() >= keys {
            return Err(RegistryError::TooManyKeys(keys));
        }
        if self.usage.get(of).is_some_and(|usage| usage.keys >= each.keys) {
            return Err(RegistryError::TooManyKeysOf { of: of.clone(), most: each.keys });
        }
        let Some(waiters) = self.waiters.get(lock) else { return Ok(()) };
        let lock = || lock.clone();
        if waiters.all() >= waiters_of_a_lock {
            return Err(RegistryError::TooManyWaiters { lock: lock(), most: waiters_of_a_lock });
        }
        let most = each.waiters_of_a_lock;
        if waiters.of(of) >= most {
            return Err(RegistryError::TooManyWaitersOf { of: of.clone(), lock: lock(), most });
        }
        Ok(())
    }

    /// The node has granted what the key waits for.
    pub(crate) fn on_granted(&mut self, id: KeyId, grant: Grant) -> Option<Key<W>> {
        let key = self.names.get(&id).and_then(|name| self.keys.get_mut(name))?;
        if key.state == State::Waiting {
            leave_waiters(&mut self.waiters, &key.lock, &key.owner);
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

    /// Takes away somebody's key: its client wants it no more. Another's stays.
    pub(crate) fn remove_of(&mut self, name: &[u8], owner: &Principal) -> Option<Key<W>> {
        self.key_of(name, owner)?;
        self.remove(name)
    }

    /// Takes a key away.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Key<W>> {
        let key = self.take_out(name)?;
        self.leases.drop_key(key.lease, name);
        Some(key)
    }

    /// Gives somebody's key another value.
    pub(crate) fn set_value(&mut self, name: &[u8], owner: &Principal, value: Vec<u8>) -> Option<Key<W>> {
        let key = self.keys.get_mut(name).filter(|key| key.owner == *owner)?;
        self.revision += 1;
        (key.value, key.revisions.modified) = (value, self.revision);
        key.revisions.version += 1;
        Some(key.clone())
    }

    /// A client is told when its key was created.
    pub(crate) fn tell_creation(&mut self, name: &[u8], owner: &Principal) -> Option<Key<W>> {
        let key = self.keys.get_mut(name).filter(|key| key.owner == *owner)?;
        key.revisions.told = true;
        Some(key.clone())
    }

    /// How much there is: leases and keys.
    pub(crate) fn counts(&self) -> (usize, usize) {
        debug_assert_eq!(self.keys.len(), self.names.len());
        (self.leases.len(), self.keys.len())
    }

    /// Somebody has less than before; whoever has nothing is forgotten.
    fn use_less(&mut self, of: &Principal, less: impl FnOnce(&mut Usage)) {
        if let Some(usage) = self.usage.get_mut(of) {
            less(usage);
            if *usage == Usage::default() {
                self.usage.remove(of);
            }
        }
    }

    fn take_out(&mut self, name: &[u8]) -> Option<Key<W>> {
        let key = self.keys.remove(name)?;
        self.names.remove(&key.id);
        if key.state == State::Waiting {
            leave_waiters(&mut self.waiters, &key.lock, &key.owner);
        }
        self.use_less(&key.owner, |usage| usage.keys -= 1);
        self.revision += 1;
        Some(key)
    }
}

fn leave_waiters(waiters: &mut BTreeMap<LockName, Waiters>, lock: &LockName, of: &Principal) {
    if let Some(others) = waiters.get_mut(lock) {
        others.leave(of);
        if others.all() == 0 {
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

//! The registry: the leases that this site has granted, and the keys that depend on them. It is pure: its caller
//! passes the time.
//!
//! A *key* is one client's request for one lock, from the acquisition to the release: `jobs/694d` is the request of
//! lease 694d for the lock `jobs`. Clients of etcd see keys as such; Meshlock's own clients see a session (a lease)
//! and the lock's name. The node decides who holds what; the registry only records what the node has reported, and
//! for how long a silent client may keep its keys.
//!
//! ```text
//!        requested ──▶ waiting ──granted──▶ held
//!                         │                   │      both end with the lease, by a release, or by the node:
//!                         └──▶ removed ◀──────┘      lost, timed out, busy
//! ```

mod adopting;
mod error;
mod lease;
mod limits;
mod lookup;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use adopting::{AdoptedKey, AdoptedSession, HeldSession};
pub(crate) use error::RegistryError;
pub(crate) use lease::{ClientLease, LeaseDuration, Leases};
pub use limits::{ApiLimits, PrincipalLimits};
use limits::{PrincipalUsage, Waiters};
use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::Caller;
pub(crate) use meshlock_mirror::{LeaseId, Vouched};
use meshlock_tls::Serial;

use super::mirror::Source;

/// State of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyState {
    Waiting,
    Held(KeyGrant),
}

/// A grant of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyGrant {
    pub(crate) fence: i64,
    pub(crate) slot: Option<u32>,
}

/// Identifies a key. In contrast to names, ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(u64);

/// One client's request for one lock, waiting or granted, and the data `W` of its driver.
#[derive(Clone, Debug)]
pub(crate) struct RegistryKey<W> {
    pub(crate) id: KeyId,
    pub(crate) name: Vec<u8>,
    pub(crate) lock: LockName,
    pub(crate) lease: LeaseId,
    /// The owner, which is also the owner of its lease.
    pub(crate) owner: Principal,
    pub(crate) value: Vec<u8>,
    pub(crate) state: KeyState,
    pub(crate) revisions: Revisions,
    pub(crate) driver: W,
}

/// The revisions by which etcd's clients order keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Revisions {
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) version: i64,
    /// A client was told the creation revision, so it must not change any more.
    creation_told: bool,
}

/// A request for a key.
#[derive(Clone, Debug)]
pub(crate) struct NewKey {
    pub(crate) name: Vec<u8>,
    pub(crate) lock: LockName,
    pub(crate) lease: LeaseId,
    pub(crate) value: Vec<u8>,
}

/// Result of [`Registry::begin`].
#[derive(Debug)]
pub(crate) enum BeginOutcome<W> {
    /// The key is new: the node has to be asked for the lock.
    New(RegistryKey<W>),
    /// The lease already has this key.
    Known(RegistryKey<W>),
}

/// A lease whose time is up.
#[derive(Debug)]
pub(crate) struct Expired<W> {
    pub(crate) lease: LeaseId,
    pub(crate) owner: Caller,
    /// Its keys, unless they stay for a delay.
    pub(crate) keys: Vec<RegistryKey<W>>,
    /// The lease had ended before; now its delay is over.
    pub(crate) after_delay: bool,
}

/// Leases and keys of one site. `W` is the data that the driver keeps with each key.
#[derive(Debug)]
pub(crate) struct Registry<W> {
    leases: Leases,
    keys: BTreeMap<Vec<u8>, RegistryKey<W>>,
    names: BTreeMap<KeyId, Vec<u8>>,
    waiters: BTreeMap<LockName, Waiters>,
    usage: BTreeMap<Principal, PrincipalUsage>,
    last_key: u64,
    revision: i64,
    /// What the revisions of this site's keys have in common, so that no two sites create keys at the same one.
    site: Option<i64>,
    limits: ApiLimits,
    /// What the mirror of this site knows of its sessions.
    pub(crate) source: Source,
}

/// The revisions at which one site creates keys are this far apart: twice the number of sites that can be told apart.
const REVISIONS_OF_SITES: i64 = 1 << 16;

impl<W: Clone> Registry<W> {
    pub(crate) fn new(limits: ApiLimits) -> Self {
        Registry {
            leases: Leases::default(),
            keys: BTreeMap::new(),
            names: BTreeMap::new(),
            waiters: BTreeMap::new(),
            usage: BTreeMap::new(),
            last_key: 0,
            revision: 1,
            site: None,
            limits,
            source: Source::default(),
        }
    }

    /// Creates the registry of a site with this number, which is below half of [`REVISIONS_OF_SITES`].
    pub(crate) fn of_site(limits: ApiLimits, number: i64) -> Self {
        Registry { site: Some(2 * number), ..Registry::new(limits) }
    }

    /// Returns the revision of the next key that is created. The one before it belongs to the virtual key that etcd's clients see in front
    /// of it.
    fn next_creation(&self) -> i64 {
        let next = self.revision + 2;
        let Some(site) = self.site else { return next };
        next + (site - next).rem_euclid(REVISIONS_OF_SITES)
    }

    /// Returns the largest revision that a client of this site was told.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Grants a lease.
    pub(crate) fn grant(
        &mut self,
        id: LeaseId,
        lasts: LeaseDuration,
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
        let (of, max) = (&owner.principal, self.limits.each.sessions);
        if self.usage.get(of).is_some_and(|usage| usage.leases >= max) {
            return Err(RegistryError::TooManyLeasesOf { of: of.clone(), max });
        }
        self.usage.entry(of.clone()).or_default().leases += 1;
        self.leases.add(id, lasts, who, owner.clone(), now);
        Ok(())
    }

    /// Restarts the lease if it belongs to `owner`. Returns how long it lasts.
    pub(crate) fn renew(&mut self, id: LeaseId, owner: &Principal, now: Time) -> Option<LeaseDuration> {
        if !self.leases.is_of(id, owner) {
            return None;
        }
        self.leases.renew(id, now).map(|lease| lease.lasts)
    }

    /// Notes with which certificate the owner of a lease has renewed it.
    pub(crate) fn note_certificate(&mut self, id: LeaseId, certificate: Option<&Serial>) {
        self.leases.note_certificate(id, certificate);
    }

    /// Gives a lease that lasted as long as its connection a time to live, which starts now.
    pub(crate) fn start_ttl(&mut self, id: LeaseId, lasts: LeaseDuration, now: Time) {
        self.leases.start_ttl(id, lasts, now);
    }

    /// Lets a lease outlive the call that it was made for.
    pub(crate) fn detach_from_call(&mut self, id: LeaseId) {
        self.leases.detach_from_call(id);
        self.source.on_change(id);
    }

    /// Returns the lease if it is not over and belongs to `owner`.
    pub(crate) fn lease(&self, id: LeaseId, owner: &Principal, now: Time) -> Option<&ClientLease> {
        self.leases.get(id, now).filter(|lease| lease.is_of(owner))
    }

    /// Returns whether the lease belongs to `owner`, even if its time is up.
    pub(crate) fn is_of(&self, id: LeaseId, owner: &Principal) -> bool {
        self.leases.is_of(id, owner)
    }

    /// Returns whether the lease is not over, regardless of its owner.
    pub(crate) fn is_alive(&self, id: LeaseId, now: Time) -> bool {
        self.leases.get(id, now).is_some()
    }

    pub(crate) fn leases_of(&self, owner: &Principal, now: Time) -> Vec<LeaseId> {
        self.leases.ids_of(owner, now)
    }

    /// Returns whether a principal has a lease, even if its time is up.
    pub(crate) fn has_lease_of(&self, owner: &Principal) -> bool {
        self.usage.get(owner).is_some_and(|usage| usage.leases > 0)
    }

    /// Returns all leases, including those whose time is up.
    pub(crate) fn all_leases(&self) -> Vec<LeaseId> {
        self.leases.all_ids().collect()
    }

    /// Returns the leases whose owner `is_meant`, each with the time until which its client may rely on what it holds; `None` if that is as
    /// long as the client was told.
    pub(crate) fn leases_relied_on(
        &self,
        is_meant: impl Fn(&Caller) -> bool,
        now: Time,
    ) -> Vec<(LeaseId, Option<Time>)> {
        self.leases.relied_on(is_meant, now)
    }

    /// Returns when the next lease ends.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.leases.next_end()
    }

    /// Ends a lease. Returns its owner and its keys, which the caller has to release at the node.
    pub(crate) fn revoke(&mut self, id: LeaseId) -> Option<(Caller, Vec<RegistryKey<W>>)> {
        let lease = self.leases.remove(id)?;
        self.source.on_change(id);
        let keys = lease.keys.iter().filter_map(|name| self.remove_entry(name)).collect();
        self.reduce_usage(&lease.owner.principal, |usage| usage.leases -= 1);
        Some((lease.owner, keys))
    }

    /// Sets for how long the keys of a lease stay after the lease has ended, so that nobody else gets their locks.
    /// `silence` is for how long its client may rely on its locks without a message from this site; `None` means as
    /// long as the lease lasts.
    pub(crate) fn set_delay(&mut self, id: LeaseId, delay: Span, silence: Option<Span>) {
        self.leases.set_delay(id, delay, silence);
        self.source.on_change(id);
    }

    /// Ends a lease like [`Registry::revoke`], except that its keys stay until its delay is over.
    pub(crate) fn retire(&mut self, id: LeaseId, now: Time) -> Option<(Caller, Vec<RegistryKey<W>>)> {
        self.source.on_change(id);
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

    /// Adds a key for a client that wants a lock, or returns the key that the lease already has. Fails if a key of
    /// this name belongs to another lease, whoever owns it.
    pub(crate) fn begin(
        &mut self,
        wanted: NewKey,
        owner: &Principal,
        driver: W,
        now: Time,
    ) -> Result<BeginOutcome<W>, RegistryError> {
        if self.lease(wanted.lease, owner, now).is_none() {
            return Err(RegistryError::NoLease(wanted.lease));
        }
        if let Some(key) = self.keys.get(&wanted.name) {
            let taken = key.lease != wanted.lease;
            return if taken { Err(RegistryError::KeyTaken) } else { Ok(BeginOutcome::Known(key.clone())) };
        }
        self.check_limits(&wanted.lock, owner)?;
        self.waiters.entry(wanted.lock.clone()).or_default().enter(owner);
        self.usage.entry(owner.clone()).or_default().keys += 1;
        self.leases.attach(wanted.lease, wanted.name.clone());
        self.last_key += 1;
        self.revision = self.next_creation();
        let (created, modified) = (self.revision, self.revision);
        let key = RegistryKey {
            id: KeyId(self.last_key),
            name: wanted.name.clone(),
            lock: wanted.lock,
            lease: wanted.lease,
            owner: owner.clone(),
            value: wanted.value,
            state: KeyState::Waiting,
            revisions: Revisions { created, modified, version: 1, creation_told: false },
            driver,
        };
        self.names.insert(key.id, wanted.name.clone());
        self.keys.insert(wanted.name, key.clone());
        Ok(BeginOutcome::New(key))
    }

    /// Checks whether `of` may add another waiter for `lock`.
    fn check_limits(&self, lock: &LockName, of: &Principal) -> Result<(), RegistryError> {
        let ApiLimits { keys, waiters_of_a_lock, each, .. } = self.limits;
        if self.keys.len() >= keys {
            return Err(RegistryError::TooManyKeys(keys));
        }
        if self.usage.get(of).is_some_and(|usage| usage.keys >= each.keys) {
            return Err(RegistryError::TooManyKeysOf { of: of.clone(), max: each.keys });
        }
        let Some(waiters) = self.waiters.get(lock) else { return Ok(()) };
        let lock = || lock.clone();
        if waiters.all() >= waiters_of_a_lock {
            return Err(RegistryError::TooManyWaiters { lock: lock(), max: waiters_of_a_lock });
        }
        let max = each.waiters_of_a_lock;
        if waiters.of(of) >= max {
            return Err(RegistryError::TooManyWaitersOf { of: of.clone(), lock: lock(), max });
        }
        Ok(())
    }

    /// Records that the node has granted a key's lock.
    pub(crate) fn on_granted(&mut self, id: KeyId, grant: KeyGrant) -> Option<RegistryKey<W>> {
        let key = self.names.get(&id).and_then(|name| self.keys.get_mut(name))?;
        if key.state == KeyState::Waiting {
            leave_waiters(&mut self.waiters, &key.lock, &key.owner);
        }
        key.state = KeyState::Held(grant);
        if !key.revisions.creation_told {
            key.revisions.created = grant.fence;
        }
        key.revisions.modified = grant.fence;
        self.revision = self.revision.max(grant.fence);
        self.source.on_change(key.lease);
        Some(key.clone())
    }

    /// Removes a key whose acquisition has ended at the node.
    pub(crate) fn on_over(&mut self, id: KeyId) -> Option<RegistryKey<W>> {
        let name = self.names.get(&id)?.clone();
        self.remove(&name)
    }

    /// Removes a key whose lock was lost, and makes its lease unusable: every client learns of the loss because it
    /// cannot renew the lease. The other keys of the lease go when its time is up.
    pub(crate) fn on_lost(&mut self, id: KeyId) -> Option<RegistryKey<W>> {
        let key = self.on_over(id)?;
        self.leases.forbid_renewal(key.lease);
        Some(key)
    }

    /// Removes the key if it belongs to `owner`.
    pub(crate) fn remove_of(&mut self, name: &[u8], owner: &Principal) -> Option<RegistryKey<W>> {
        self.key_of(name, owner)?;
        self.remove(name)
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<RegistryKey<W>> {
        let key = self.remove_entry(name)?;
        self.leases.detach(key.lease, name);
        Some(key)
    }

    /// Replaces the value of the key if it belongs to `owner`.
    pub(crate) fn set_value(
        &mut self,
        name: &[u8],
        owner: &Principal,
        value: Vec<u8>,
    ) -> Option<RegistryKey<W>> {
        let key = self.keys.get_mut(name).filter(|key| key.owner == *owner)?;
        self.revision += 1;
        (key.value, key.revisions.modified) = (value, self.revision);
        key.revisions.version += 1;
        self.source.on_change(key.lease);
        Some(key.clone())
    }

    /// Fixes the creation revision of a key because its client is told of it.
    pub(crate) fn fix_creation_revision(&mut self, name: &[u8], owner: &Principal) -> Option<RegistryKey<W>> {
        let key = self.keys.get_mut(name).filter(|key| key.owner == *owner)?;
        key.revisions.creation_told = true;
        Some(key.clone())
    }

    /// Returns the number of leases and of keys.
    pub(crate) fn counts(&self) -> (usize, usize) {
        debug_assert_eq!(self.keys.len(), self.names.len());
        (self.leases.len(), self.keys.len())
    }

    /// Reduces a principal's usage, and forgets principals that use nothing.
    fn reduce_usage(&mut self, of: &Principal, less: impl FnOnce(&mut PrincipalUsage)) {
        if let Some(usage) = self.usage.get_mut(of) {
            less(usage);
            if *usage == PrincipalUsage::default() {
                self.usage.remove(of);
            }
        }
    }

    fn remove_entry(&mut self, name: &[u8]) -> Option<RegistryKey<W>> {
        let key = self.keys.remove(name)?;
        self.names.remove(&key.id);
        self.source.on_change(key.lease);
        if key.state == KeyState::Waiting {
            leave_waiters(&mut self.waiters, &key.lock, &key.owner);
        }
        self.reduce_usage(&key.owner, |usage| usage.keys -= 1);
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

impl<W> RegistryKey<W> {
    /// Returns the grant if the key is held.
    pub(crate) fn grant(&self) -> Option<KeyGrant> {
        match self.state {
            KeyState::Held(grant) => Some(grant),
            KeyState::Waiting => None,
        }
    }
}

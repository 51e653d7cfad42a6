//! Sessions of another site that this site answers for, or has taken over; and what a mirror has to know of a session of this site.

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{ClientLabel, LockName};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::gate::Caller;

use super::{ClientLease, KeyGrant, KeyId, KeyState, LeaseId, Registry, RegistryKey, Revisions, Vouched};

/// A session of another site.
#[derive(Clone, Debug)]
pub(crate) struct AdoptedSession {
    pub(crate) lease: LeaseId,
    pub(crate) owner: Caller,
    pub(crate) who: Option<ClientLabel>,
    /// For how long its client asked.
    pub(crate) lasts: Span,
    pub(crate) delay: Span,
    pub(crate) vouched: Vouched,
}

/// A key of such a session, by which it holds a lock.
#[derive(Clone, Debug)]
pub(crate) struct AdoptedKey<W> {
    pub(crate) id: KeyId,
    pub(crate) name: Vec<u8>,
    pub(crate) lock: LockName,
    pub(crate) value: Vec<u8>,
    pub(crate) grant: KeyGrant,
    /// Its revisions at the other site: creation, last change, and number of changes.
    pub(crate) revisions: [i64; 3],
    pub(crate) driver: W,
}

/// Why a session cannot be adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdopted {
    #[error("this site has a session or a key of the same name")]
    Exists,
    #[error("this site has as many sessions or locks as it may have")]
    TooMany,
}

/// A session of this site that holds something, as a mirror has to know it.
#[derive(Clone, Debug)]
pub(crate) struct HeldSession<W> {
    pub(crate) owner: Caller,
    pub(crate) who: Option<ClientLabel>,
    pub(crate) lasts: Span,
    pub(crate) delay: Span,
    pub(crate) keys: Vec<RegistryKey<W>>,
}

impl<W: Clone> Registry<W> {
    /// Returns an id for a key that may be adopted.
    pub(crate) fn new_key_id(&mut self) -> KeyId {
        self.last_key += 1;
        KeyId(self.last_key)
    }

    /// Adds a session of another site with its keys. It ends at `end` unless its client renews it before.
    pub(crate) fn adopt(
        &mut self,
        session: AdoptedSession,
        keys: Vec<AdoptedKey<W>>,
        end: Time,
    ) -> Result<(), NotAdopted> {
        if self.leases.knows(session.lease) || keys.iter().any(|key| self.keys.contains_key(&key.name)) {
            return Err(NotAdopted::Exists);
        }
        if self.leases.len() >= self.limits.sessions || self.keys.len() + keys.len() > self.limits.keys {
            return Err(NotAdopted::TooMany);
        }
        let (lease, owner) = (session.lease, session.owner.principal.clone());
        self.usage.entry(owner.clone()).or_default().leases += 1;
        self.leases.adopt(lease, ClientLease::adopted(session, end));
        for key in keys {
            self.add_adopted(lease, &owner, key);
        }
        self.source.on_change(lease);
        Ok(())
    }

    fn add_adopted(&mut self, lease: LeaseId, owner: &Principal, key: AdoptedKey<W>) {
        let AdoptedKey { id, name, lock, value, grant, revisions: [created, modified, version], driver } =
            key;
        self.usage.entry(owner.clone()).or_default().keys += 1;
        self.leases.attach(lease, name.clone());
        self.names.insert(id, name.clone());
        self.revision = self.revision.max(grant.fence).max(created).max(modified);
        let revisions = Revisions { created, modified, version, creation_told: true };
        let (state, owner) = (KeyState::Held(grant), owner.clone());
        let key = RegistryKey { id, name, lock, lease, owner, value, state, revisions, driver };
        self.keys.insert(key.name.clone(), key);
    }

    /// Changes who vouches for the locks of a lease. Returns whether there is one.
    pub(crate) fn set_vouched(&mut self, id: LeaseId, vouched: Vouched) -> bool {
        self.source.on_change(id);
        self.leases.set_vouched(id, vouched)
    }

    /// Returns who vouches for the locks of a lease, if there is one.
    pub(crate) fn vouched(&self, id: LeaseId, now: Time) -> Option<Vouched> {
        self.leases.get(id, now).map(|lease| lease.vouched)
    }

    /// Removes a session that this site answered for, because the site that has it is there again. Its keys stay claimed.
    pub(crate) fn withdraw(&mut self, id: LeaseId) {
        drop(self.revoke(id));
    }

    /// Returns a session that holds something, if a mirror should know of it.
    pub(crate) fn held_session(&self, id: LeaseId, now: Time) -> Option<HeldSession<W>> {
        let (lease, lasts) = self.leases.mirrored(id, now)?;
        let is_held = |key: &&RegistryKey<W>| key.state != KeyState::Waiting;
        let keys = lease.keys.iter().filter_map(|name| self.keys.get(name)).filter(is_held);
        let keys: Vec<RegistryKey<W>> = keys.cloned().collect();
        let (owner, who, delay) = (lease.owner.clone(), lease.who.clone(), lease.delay());
        (!keys.is_empty()).then_some(HeldSession { owner, who, lasts, delay, keys })
    }
}

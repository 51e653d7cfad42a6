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

#[cfg(test)]
mod tests {
    use meshlock_host::gate::{CallerOrigin, RequestId};

    use super::super::{ApiLimits, LeaseDuration, NewKey};
    use super::*;

    const MINUTE: Span = Span::from_millis(60_000);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn lease(number: i64) -> LeaseId {
        LeaseId::new(number).unwrap()
    }

    fn owner() -> Caller {
        let origin = CallerOrigin::Network(([127, 0, 0, 1], 1).into());
        Caller { principal: Principal::Local, origin, certificate: None, request: RequestId::new() }
    }

    /// Lets a session wait for a lock, and hold it if `held`.
    fn takes(registry: &mut Registry<()>, number: i64, lasts: LeaseDuration, held: bool) {
        registry.grant(lease(number), lasts, None, &owner(), at(0)).unwrap();
        let (name, lock) = (format!("a/{number}").into_bytes(), "a".parse().unwrap());
        let wanted = NewKey { name: name.clone(), lock, lease: lease(number), value: Vec::new() };
        registry.begin(wanted, &Principal::Local, (), at(0)).unwrap();
        let id = registry.key(&name).unwrap().id;
        if held {
            registry.on_granted(id, KeyGrant { fence: 7, slot: None });
        }
    }

    fn adopted(registry: &mut Registry<()>, number: i64) -> Result<(), NotAdopted> {
        let id = registry.new_key_id();
        let key = AdoptedKey {
            id,
            name: format!("a/{number}").into_bytes(),
            lock: "a".parse().unwrap(),
            value: Vec::new(),
            grant: KeyGrant { fence: 7, slot: None },
            revisions: [7, 7, 1],
            driver: (),
        };
        let (who, vouched) = (None, Vouched::ForAnother { until: Some(at(9000)) });
        let (lasts, delay) = (MINUTE, Span::ZERO);
        let session = AdoptedSession { lease: lease(number), owner: owner(), who, lasts, delay, vouched };
        registry.adopt(session, vec![key], at(10_000))
    }

    #[test]
    fn only_sessions_that_hold_something_for_a_time_of_their_own_are_mirrored() {
        let mut registry = Registry::new(ApiLimits::default());
        takes(&mut registry, 1, LeaseDuration::For(MINUTE), true);
        takes(&mut registry, 2, LeaseDuration::For(MINUTE), false);
        takes(&mut registry, 3, LeaseDuration::UntilDisconnect, true);
        takes(&mut registry, 4, LeaseDuration::For(MINUTE), true);
        // A session of Consul's API without a time to live.
        registry.set_delay(lease(4), MINUTE, Some(MINUTE));
        let mirrored = |registry: &Registry<()>| -> Vec<i64> {
            (1..=4).filter(|number| registry.held_session(lease(*number), at(1)).is_some()).collect()
        };
        assert_eq!(mirrored(&registry), [1]);
        // A call has ended whose session goes on, and another one is kept alive and ends with its call.
        registry.start_ttl(lease(3), LeaseDuration::For(MINUTE), at(1));
        assert_eq!(mirrored(&registry), [1]);
        registry.detach_from_call(lease(3));
        assert_eq!(mirrored(&registry), [1, 3]);
        registry.retire(lease(1), at(1));
        assert_eq!(mirrored(&registry), [3]);
    }

    #[test]
    fn a_session_that_is_adopted_ends_soon_unless_its_client_renews_it() {
        let mut registry = Registry::new(ApiLimits::default());
        adopted(&mut registry, 1).unwrap();
        adopted(&mut registry, 2).unwrap();
        assert_eq!(adopted(&mut registry, 2), Err(NotAdopted::Exists));
        assert!(registry.held_session(lease(1), at(1)).is_none(), "it is not this site's own");
        registry.renew(lease(2), &Principal::Local, at(5000)).unwrap();
        let expired = registry.expire_one(at(10_000)).unwrap();
        assert_eq!((expired.lease, expired.keys.len()), (lease(1), 1));
        assert!(registry.expire_one(at(64_999)).is_none() && registry.expire_one(at(65_000)).is_some());
    }

    #[test]
    fn a_session_that_is_withdrawn_leaves_nothing_and_one_that_is_taken_over_is_mirrored_in_turn() {
        let mut registry = Registry::new(ApiLimits::default());
        adopted(&mut registry, 1).unwrap();
        registry.withdraw(lease(1));
        assert_eq!((registry.counts(), registry.has_lease_of(&Principal::Local)), ((0, 0), false));
        adopted(&mut registry, 1).unwrap();
        assert!(registry.set_vouched(lease(1), Vouched::Here));
        let held = registry.held_session(lease(1), at(1)).unwrap();
        assert_eq!((held.keys[0].grant().map(|grant| grant.fence), held.lasts), (Some(7), MINUTE));
        assert!(!registry.set_vouched(lease(2), Vouched::Here));
    }
}

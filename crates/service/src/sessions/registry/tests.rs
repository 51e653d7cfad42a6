//! Unit tests of the registry. Time is a number here: nothing sleeps.

use meshlock_cluster::time::{Span, Time};

use meshlock_host::gate::{CallerOrigin, RequestId};

use super::*;

fn named(name: &str) -> Principal {
    Principal::Named(name.parse().unwrap())
}

fn caller(principal: Principal) -> Caller {
    Caller {
        principal,
        origin: CallerOrigin::Socket { user: 0 },
        certificate: None,
        request: RequestId::new(),
    }
}

/// The principal that owns everything in tests where the owner does not matter.
fn me() -> Principal {
    Principal::Local
}

fn mine() -> Caller {
    caller(me())
}

fn at(seconds: u64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

fn lease(number: i64) -> LeaseId {
    LeaseId::new(number).unwrap()
}

fn seconds(seconds: u64) -> LeaseDuration {
    LeaseDuration::For(Span::from_millis(seconds * 1000))
}

fn wanted(lock: &str, id: i64) -> NewKey {
    let (name, lock) = (format!("{lock}/{id:x}").into_bytes(), lock.parse().unwrap());
    NewKey { name, lock, lease: lease(id), value: Vec::new() }
}

fn new(begun: Result<BeginOutcome<()>, RegistryError>) -> RegistryKey<()> {
    match begun.unwrap() {
        BeginOutcome::New(key) => key,
        BeginOutcome::Known(key) => panic!("{key:?} was there"),
    }
}

fn with_leases(ids: &[i64]) -> Registry<()> {
    let mut registry = Registry::new(ApiLimits::default());
    for &id in ids {
        registry.grant(lease(id), seconds(10), None, &mine(), at(0)).unwrap();
    }
    registry
}

#[test]
fn a_lease_that_is_not_renewed_ends_with_all_of_its_keys() {
    let mut registry = with_leases(&[1, 2]);
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    new(registry.begin(wanted("b", 1), &me(), (), at(1)));
    new(registry.begin(wanted("a", 2), &me(), (), at(1)));
    registry.renew(lease(2), &me(), at(5)).unwrap();
    assert_eq!(registry.next_end(), Some(at(10)));
    assert!(registry.expire_one(at(9)).is_none());
    let Expired { lease: id, keys, .. } = registry.expire_one(at(10)).unwrap();
    assert_eq!((id, keys.len()), (lease(1), 2));
    assert!(registry.expire_one(at(14)).is_none());
    assert_eq!(registry.counts(), (1, 1));
    assert_eq!(registry.next_end(), Some(at(15)));
}

#[test]
fn a_lease_whose_time_is_up_cannot_be_renewed() {
    let mut registry = with_leases(&[1]);
    // Its end has not been processed yet.
    assert_eq!(registry.renew(lease(1), &me(), at(10)), None);
    assert!(
        registry.lease(lease(1), &me(), at(10)).is_none() && registry.leases_of(&me(), at(10)).is_empty()
    );
    assert_eq!(
        registry.begin(wanted("a", 1), &me(), (), at(10)).unwrap_err(),
        RegistryError::NoLease(lease(1))
    );
    assert!(registry.expire_one(at(10)).is_some());
    assert_eq!(registry.renew(lease(1), &me(), at(11)), None);
}

#[test]
fn a_lease_that_belongs_to_a_connection_ends_only_with_it() {
    let mut registry: Registry<()> = Registry::new(ApiLimits::default());
    registry.grant(lease(1), LeaseDuration::UntilDisconnect, None, &mine(), at(0)).unwrap();
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    assert_eq!(registry.next_end(), None);
    assert!(registry.expire_one(at(1_000_000)).is_none());
    assert_eq!(registry.renew(lease(1), &me(), at(7)), Some(LeaseDuration::UntilDisconnect));
    assert_eq!(registry.revoke(lease(1)).unwrap().1.len(), 1);
    assert!(registry.revoke(lease(1)).is_none());
}

#[test]
fn a_repeated_request_returns_the_same_key() {
    let mut registry = with_leases(&[1]);
    let first = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    registry.on_granted(first.id, KeyGrant { fence: 1 << 40, slot: None });
    let BeginOutcome::Known(again) = registry.begin(wanted("a", 1), &me(), (), at(2)).unwrap() else {
        panic!("it was there")
    };
    assert_eq!((again.id, again.grant().unwrap().fence), (first.id, 1 << 40));
    assert_eq!(again.revisions.created, 1 << 40, "no client was told another revision");
}

#[test]
fn a_creation_revision_that_a_client_was_told_does_not_change() {
    let mut registry = with_leases(&[1, 2]);
    let first = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    let told = registry.fix_creation_revision(&first.name, &me()).unwrap().revisions.created;
    let second = new(registry.begin(wanted("a", 2), &me(), (), at(1)));
    assert!(second.revisions.created > told + 1, "there is room for the key in front of it");
    registry.on_granted(first.id, KeyGrant { fence: 1 << 40, slot: None });
    assert_eq!(registry.key(&first.name).unwrap().revisions.created, told);
    assert_eq!(registry.key(&first.name).unwrap().revisions.modified, 1 << 40);
}

#[test]
fn a_lease_that_has_lost_a_lock_cannot_be_renewed_and_keeps_its_other_keys_until_its_end() {
    let mut registry = with_leases(&[1]);
    let lost = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    let kept = new(registry.begin(wanted("b", 1), &me(), (), at(1)));
    for (key, fence) in [(&lost, 7), (&kept, 8)] {
        registry.on_granted(key.id, KeyGrant { fence, slot: None });
    }
    assert!(registry.on_lost(lost.id).is_some());
    assert_eq!(registry.renew(lease(1), &me(), at(2)), None);
    assert_eq!(
        registry.begin(wanted("c", 1), &me(), (), at(2)).unwrap_err(),
        RegistryError::NoLease(lease(1))
    );
    assert!(registry.key(&kept.name).is_some() && registry.expire_one(at(9)).is_none());
    let Expired { keys, .. } = registry.expire_one(at(10)).unwrap();
    assert_eq!(keys.iter().map(|key| key.id).collect::<Vec<_>>(), [kept.id]);
}

#[test]
fn a_key_that_has_ended_is_removed_from_its_lease_too() {
    let mut registry = with_leases(&[1]);
    let key = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    assert!(registry.on_over(key.id).is_some());
    assert!(registry.on_over(key.id).is_none());
    // A late event of the first key does not affect the next key of the same name.
    let next = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    registry.on_granted(key.id, KeyGrant { fence: 1 << 40, slot: None });
    assert_eq!(registry.key(&next.name).unwrap().state, KeyState::Waiting);
    assert!(registry.lease(lease(1), &me(), at(1)).unwrap().keys.len() == 1);
    registry.remove(&next.name).unwrap();
    assert!(registry.lease(lease(1), &me(), at(1)).unwrap().keys.is_empty());
    assert_eq!(registry.counts(), (1, 0));
}

#[test]
fn there_are_no_more_leases_keys_and_waiters_than_the_limits_say() {
    let limits = ApiLimits { sessions: 3, keys: 3, waiters_of_a_lock: 2, ..ApiLimits::default() };
    let mut registry: Registry<()> = Registry::new(limits);
    for id in 1..=3 {
        registry.grant(lease(id), seconds(10), None, &mine(), at(0)).unwrap();
    }
    assert_eq!(
        registry.grant(lease(3), seconds(1), None, &mine(), at(0)),
        Err(RegistryError::LeaseExists(lease(3)))
    );
    assert_eq!(
        registry.grant(lease(4), seconds(1), None, &mine(), at(0)),
        Err(RegistryError::TooManyLeases(3))
    );
    let first = new(registry.begin(wanted("a", 1), &me(), (), at(0)));
    new(registry.begin(wanted("a", 2), &me(), (), at(0)));
    let max = RegistryError::TooManyWaiters { lock: "a".parse().unwrap(), max: 2 };
    assert_eq!(registry.begin(wanted("a", 3), &me(), (), at(0)).unwrap_err(), max);
    // A holder does not count as a waiter.
    registry.on_granted(first.id, KeyGrant { fence: 9, slot: None });
    new(registry.begin(wanted("a", 3), &me(), (), at(0)));
    assert_eq!(registry.begin(wanted("b", 3), &me(), (), at(0)).unwrap_err(), RegistryError::TooManyKeys(3));
    // What ends frees its place.
    registry.revoke(lease(2)).unwrap();
    new(registry.begin(wanted("b", 3), &me(), (), at(0)));
    registry.grant(lease(4), seconds(1), None, &mine(), at(0)).unwrap();
}

#[test]
fn every_change_has_a_revision_of_its_own() {
    let mut registry = with_leases(&[1]);
    let mut last = registry.revision();
    let mut later = |registry: &Registry<()>| {
        assert!(registry.revision() > last, "after {last}");
        last = registry.revision();
    };
    let key = new(registry.begin(wanted("a", 1), &me(), (), at(0)));
    later(&registry);
    registry.on_granted(key.id, KeyGrant { fence: 1 << 40, slot: None });
    later(&registry);
    let key = registry.set_value(&key.name, &me(), b"v".to_vec()).unwrap();
    assert_eq!((key.revisions.version, key.value.as_slice()), (2, b"v".as_slice()));
    later(&registry);
    registry.remove(&key.name);
    later(&registry);
}

fn expire(registry: &mut Registry<()>, seconds: u64) -> Option<(LeaseId, usize)> {
    registry.expire_one(at(seconds)).map(|expired| (expired.lease, expired.keys.len()))
}

#[test]
fn keys_of_a_lease_with_a_delay_stay_for_the_delay_after_its_end() {
    let mut registry = with_leases(&[1, 2]);
    for id in [1, 2] {
        registry.set_delay(lease(id), Span::from_millis(5000), None);
    }
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    // The lease that has a key is over and keeps it; the other has nothing to keep.
    assert_eq!(expire(&mut registry, 10), Some((lease(1), 0)));
    assert_eq!(expire(&mut registry, 10), Some((lease(2), 0)));
    assert_eq!(registry.counts(), (1, 1));
    assert!(
        registry.lease(lease(1), &me(), at(10)).is_none()
            && registry.renew(lease(1), &me(), at(11)).is_none()
    );
    assert!(
        registry.begin(wanted("b", 1), &me(), (), at(11)).is_err(),
        "a lease that is over gets no new keys"
    );
    assert!(registry.expire_one(at(14)).is_none() && registry.key(b"a/1").is_some());
    assert_eq!(expire(&mut registry, 15), Some((lease(1), 1)));
    assert_eq!(registry.counts(), (0, 0));
}

#[test]
fn a_lease_that_is_ended_is_delayed_only_once() {
    let mut registry = with_leases(&[1]);
    registry.set_delay(lease(1), Span::from_millis(5000), None);
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    assert_eq!(registry.retire(lease(1), at(3)).map(|(_, keys)| keys.len()), Some(0));
    assert_eq!(registry.next_end(), Some(at(8)));
    // Ending it a second time skips the rest of the delay.
    assert_eq!(registry.retire(lease(1), at(4)).map(|(_, keys)| keys.len()), Some(1));
    assert_eq!((registry.counts(), registry.next_end()), ((0, 0), None));
    assert!(registry.retire(lease(1), at(5)).is_none());
}

#[test]
fn a_lease_and_its_keys_exist_only_for_their_owner() {
    let mut registry: Registry<()> = Registry::new(ApiLimits::default());
    let (owner, other) = (named("ci"), named("ops"));
    registry.grant(lease(1), seconds(10), None, &caller(owner.clone()), at(0)).unwrap();
    let key = new(registry.begin(wanted("a", 1), &owner, (), at(1)));
    for stranger in [&other, &me(), &Principal::Anyone] {
        assert!(registry.lease(lease(1), stranger, at(1)).is_none());
        assert_eq!(registry.renew(lease(1), stranger, at(1)), None);
        assert!(!registry.is_of(lease(1), stranger) && registry.leases_of(stranger, at(1)).is_empty());
        assert_eq!(
            registry.begin(wanted("b", 1), stranger, (), at(1)).unwrap_err(),
            RegistryError::NoLease(lease(1))
        );
        assert!(registry.key_of(&key.name, stranger).is_none());
        assert!(registry.remove_of(&key.name, stranger).is_none());
        assert!(registry.set_value(&key.name, stranger, Vec::new()).is_none());
        assert!(registry.fix_creation_revision(&key.name, stranger).is_none());
    }
    registry.grant(lease(2), seconds(10), None, &caller(other.clone()), at(0)).unwrap();
    let same = NewKey { name: key.name.clone(), ..wanted("a", 2) };
    assert_eq!(registry.begin(same, &other, (), at(1)).unwrap_err(), RegistryError::KeyTaken);
    assert_eq!(registry.leases_of(&owner, at(1)), [lease(1)]);
    assert!(registry.remove_of(&key.name, &owner).is_some());
}

#[test]
fn one_client_leaves_room_for_others() {
    let each = PrincipalLimits { sessions: 2, keys: 3, waiters_of_a_lock: 1, watched_locks: 1 };
    let mut registry: Registry<()> = Registry::new(ApiLimits { each, ..ApiLimits::default() });
    let (flood, other) = (named("flood"), named("other"));
    for id in [1, 2] {
        registry.grant(lease(id), seconds(10), None, &caller(flood.clone()), at(0)).unwrap();
    }
    let of = || flood.clone();
    assert_eq!(
        registry.grant(lease(3), seconds(10), None, &caller(of()), at(0)),
        Err(RegistryError::TooManyLeasesOf { of: of(), max: 2 })
    );
    registry.grant(lease(4), seconds(10), None, &caller(other.clone()), at(0)).unwrap();
    new(registry.begin(wanted("a", 1), &flood, (), at(0)));
    let lock = "a".parse().unwrap();
    assert_eq!(
        registry.begin(wanted("a", 2), &flood, (), at(0)).unwrap_err(),
        RegistryError::TooManyWaitersOf { of: of(), lock, max: 1 }
    );
    new(registry.begin(wanted("a", 4), &other, (), at(0)));
    new(registry.begin(wanted("b", 1), &flood, (), at(0)));
    new(registry.begin(wanted("c", 1), &flood, (), at(0)));
    assert_eq!(
        registry.begin(wanted("d", 1), &flood, (), at(0)).unwrap_err(),
        RegistryError::TooManyKeysOf { of: of(), max: 3 }
    );
    // What ends frees its place, and principals that use nothing are forgotten.
    registry.revoke(lease(1)).unwrap();
    new(registry.begin(wanted("d", 2), &flood, (), at(0)));
    for id in [2, 4] {
        registry.revoke(lease(id)).unwrap();
    }
    assert!(registry.usage.is_empty() && registry.waiters.is_empty());
}

#[test]
fn of_two_keys_with_the_same_revision_the_waiting_one_is_found() {
    for (holder, waiter) in [(1, 2), (2, 1)] {
        let mut registry = with_leases(&[1, 2]);
        let held = new(registry.begin(wanted("a", holder), &me(), (), at(0)));
        let waits = new(registry.begin(wanted("a", waiter), &me(), (), at(0)));
        let number = waits.revisions.created;
        let _ = registry.on_granted(held.id, KeyGrant { fence: number, slot: None });
        assert_eq!(registry.key(&held.name).unwrap().revisions.created, number);
        let lock = "a".parse().unwrap();
        assert_eq!(registry.created_as(&lock, number, &me()).unwrap().id, waits.id);
        assert!(registry.created_as(&lock, number, &named("other")).is_none());
        assert!(registry.created_as(&lock, number + 1, &me()).is_none());
    }
}

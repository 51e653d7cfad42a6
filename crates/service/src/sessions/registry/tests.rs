//! Time is a number here: nothing sleeps.

use meshlock_cluster::time::{Span, Time};

use meshlock_host::gate::{CallerOrigin, RequestId};

use super::*;

fn named(name: &str) -> Principal {
    Principal::Named(name.parse().unwrap())
}

fn caller(principal: Principal) -> Caller {
    Caller { principal, origin: CallerOrigin::Socket { user: None }, request: RequestId::new() }
}

/// Whoever it is that has everything where it does not matter.
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

fn seconds(seconds: u64) -> Lasts {
    Lasts::For(Span::from_millis(seconds * 1000))
}

fn wanted(lock: &str, id: i64) -> NewKey {
    let (name, lock) = (format!("{lock}/{id:x}").into_bytes(), lock.parse().unwrap());
    NewKey { name, lock, lease: lease(id), value: Vec::new() }
}

fn new(begun: Result<Begun<()>, RegistryError>) -> Key<()> {
    match begun.unwrap() {
        Begun::New(key) => key,
        Begun::Known(key) => panic!("{key:?} was there"),
    }
}

fn with_leases(ids: &[i64]) -> Registry<()> {
    let mut registry = Registry::new(Limits::default());
    for &id in ids {
        registry.grant(lease(id), seconds(10), None, &mine(), at(0)).unwrap();
    }
    registry
}

#[test]
fn a_lease_that_is_not_renewed_ends_with_all_that_hangs_on_it() {
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
fn nothing_brings_a_lease_back_whose_time_is_up() {
    let mut registry = with_leases(&[1]);
    // Nobody has noticed yet.
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
    let mut registry: Registry<()> = Registry::new(Limits::default());
    registry.grant(lease(1), Lasts::WithItsConnection, None, &mine(), at(0)).unwrap();
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    assert_eq!(registry.next_end(), None);
    assert!(registry.expire_one(at(1_000_000)).is_none());
    assert_eq!(registry.renew(lease(1), &me(), at(7)), Some(Lasts::WithItsConnection));
    assert_eq!(registry.revoke(lease(1)).unwrap().1.len(), 1);
    assert!(registry.revoke(lease(1)).is_none());
}

#[test]
fn who_asks_again_has_the_same_key() {
    let mut registry = with_leases(&[1]);
    let first = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    registry.on_granted(first.id, Grant { fence: 1 << 40, slot: None });
    let Begun::Known(again) = registry.begin(wanted("a", 1), &me(), (), at(2)).unwrap() else {
        panic!("it was there")
    };
    assert_eq!((again.id, again.grant().unwrap().fence), (first.id, 1 << 40));
    assert_eq!(again.revisions.created, 1 << 40, "nobody knew another number of it");
}

#[test]
fn a_creation_that_was_told_stays_what_it_was() {
    let mut registry = with_leases(&[1, 2]);
    let first = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    let told = registry.tell_creation(&first.name, &me()).unwrap().revisions.created;
    let second = new(registry.begin(wanted("a", 2), &me(), (), at(1)));
    assert!(second.revisions.created > told + 1, "there is room for the key in front of it");
    registry.on_granted(first.id, Grant { fence: 1 << 40, slot: None });
    assert_eq!(registry.key(&first.name).unwrap().revisions.created, told);
    assert_eq!(registry.key(&first.name).unwrap().revisions.modified, 1 << 40);
}

#[test]
fn a_lease_that_has_lost_something_cannot_be_renewed_and_keeps_the_rest_until_its_end() {
    let mut registry = with_leases(&[1]);
    let lost = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    let kept = new(registry.begin(wanted("b", 1), &me(), (), at(1)));
    for (key, fence) in [(&lost, 7), (&kept, 8)] {
        registry.on_granted(key.id, Grant { fence, slot: None });
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
fn what_is_over_is_forgotten_by_its_lease_too() {
    let mut registry = with_leases(&[1]);
    let key = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    assert!(registry.on_over(key.id).is_some());
    assert!(registry.on_over(key.id).is_none());
    // A late word about the key before does not concern the next one of that name.
    let next = new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    registry.on_granted(key.id, Grant { fence: 1 << 40, slot: None });
    assert_eq!(registry.key(&next.name).unwrap().state, State::Waiting);
    assert!(registry.lease(lease(1), &me(), at(1)).unwrap().keys.len() == 1);
    registry.remove(&next.name).unwrap();
    assert!(registry.lease(lease(1), &me(), at(1)).unwrap().keys.is_empty());
    assert_eq!(registry.counts(), (1, 0));
}

#[test]
fn there_are_no_more_leases_keys_and_waiters_than_the_limits_say() {
    let limits = Limits { sessions: 3, keys: 3, waiters_of_a_lock: 2, ..Limits::default() };
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
    let most = RegistryError::TooManyWaiters { lock: "a".parse().unwrap(), most: 2 };
    assert_eq!(registry.begin(wanted("a", 3), &me(), (), at(0)).unwrap_err(), most);
    // Who holds it does not wait.
    registry.on_granted(first.id, Grant { fence: 9, slot: None });
    new(registry.begin(wanted("a", 3), &me(), (), at(0)));
    assert_eq!(registry.begin(wanted("b", 3), &me(), (), at(0)).unwrap_err(), RegistryError::TooManyKeys(3));
    // What ends makes room.
    registry.revoke(lease(2)).unwrap();
    new(registry.begin(wanted("b", 3), &me(), (), at(0)));
    registry.grant(lease(4), seconds(1), None, &mine(), at(0)).unwrap();
}

#[test]
fn every_change_has_a_number_of_its_own() {
    let mut registry = with_leases(&[1]);
    let mut last = registry.revision();
    let mut later = |registry: &Registry<()>| {
        assert!(registry.revision() > last, "after {last}");
        last = registry.revision();
    };
    let key = new(registry.begin(wanted("a", 1), &me(), (), at(0)));
    later(&registry);
    registry.on_granted(key.id, Grant { fence: 1 << 40, slot: None });
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
fn what_hangs_on_a_lease_with_a_delay_stays_for_it_after_the_lease_s_end() {
    let mut registry = with_leases(&[1, 2]);
    for id in [1, 2] {
        registry.set_delay(lease(id), Span::from_millis(5000), None);
    }
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    // The one that has something is over, and keeps it; the other has nothing to keep.
    assert_eq!(expire(&mut registry, 10), Some((lease(1), 0)));
    assert_eq!(expire(&mut registry, 10), Some((lease(2), 0)));
    assert_eq!(registry.counts(), (1, 1));
    assert!(
        registry.lease(lease(1), &me(), at(10)).is_none()
            && registry.renew(lease(1), &me(), at(11)).is_none()
    );
    assert!(registry.begin(wanted("b", 1), &me(), (), at(11)).is_err(), "nothing more is had by it");
    assert!(registry.expire_one(at(14)).is_none() && registry.key(b"a/1").is_some());
    assert_eq!(expire(&mut registry, 15), Some((lease(1), 1)));
    assert_eq!(registry.counts(), (0, 0));
}

#[test]
fn a_lease_that_is_ended_keeps_its_delay_once_and_not_longer() {
    let mut registry = with_leases(&[1]);
    registry.set_delay(lease(1), Span::from_millis(5000), None);
    new(registry.begin(wanted("a", 1), &me(), (), at(1)));
    assert_eq!(registry.retire(lease(1), at(3)).map(|(_, keys)| keys.len()), Some(0));
    assert_eq!(registry.next_end(), Some(at(8)));
    // Who ends it again ends it.
    assert_eq!(registry.retire(lease(1), at(4)).map(|(_, keys)| keys.len()), Some(1));
    assert_eq!((registry.counts(), registry.next_end()), ((0, 0), None));
    assert!(registry.retire(lease(1), at(5)).is_none());
}

#[test]
fn a_lease_and_what_hangs_on_it_is_there_for_its_owner_only() {
    let mut registry: Registry<()> = Registry::new(Limits::default());
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
        assert!(registry.tell_creation(&key.name, stranger).is_none());
    }
    registry.grant(lease(2), seconds(10), None, &caller(other.clone()), at(0)).unwrap();
    let same = NewKey { name: key.name.clone(), ..wanted("a", 2) };
    assert_eq!(registry.begin(same, &other, (), at(1)).unwrap_err(), RegistryError::KeyTaken);
    assert_eq!(registry.leases_of(&owner, at(1)), [lease(1)]);
    assert!(registry.remove_of(&key.name, &owner).is_some());
}

#[test]
fn one_client_leaves_room_for_others() {
    let each = EachClient { sessions: 2, keys: 3, waiters_of_a_lock: 1, watched_locks: 1 };
    let mut registry: Registry<()> = Registry::new(Limits { each, ..Limits::default() });
    let (flood, other) = (named("flood"), named("other"));
    for id in [1, 2] {
        registry.grant(lease(id), seconds(10), None, &caller(flood.clone()), at(0)).unwrap();
    }
    let of = || flood.clone();
    assert_eq!(
        registry.grant(lease(3), seconds(10), None, &caller(of()), at(0)),
        Err(RegistryError::TooManyLeasesOf { of: of(), most: 2 })
    );
    registry.grant(lease(4), seconds(10), None, &caller(other.clone()), at(0)).unwrap();
    new(registry.begin(wanted("a", 1), &flood, (), at(0)));
    let lock = "a".parse().unwrap();
    assert_eq!(
        registry.begin(wanted("a", 2), &flood, (), at(0)).unwrap_err(),
        RegistryError::TooManyWaitersOf { of: of(), lock, most: 1 }
    );
    new(registry.begin(wanted("a", 4), &other, (), at(0)));
    new(registry.begin(wanted("b", 1), &flood, (), at(0)));
    new(registry.begin(wanted("c", 1), &flood, (), at(0)));
    assert_eq!(
        registry.begin(wanted("d", 1), &flood, (), at(0)).unwrap_err(),
        RegistryError::TooManyKeysOf { of: of(), most: 3 }
    );
    // What ends makes room, and whoever has nothing is forgotten.
    registry.revoke(lease(1)).unwrap();
    new(registry.begin(wanted("d", 2), &flood, (), at(0)));
    for id in [2, 4] {
        registry.revoke(lease(id)).unwrap();
    }
    assert!(registry.usage.is_empty() && registry.waiters.is_empty());
}

#[test]
fn of_two_keys_with_one_number_the_one_that_waits_is_found() {
    for (holder, waiter) in [(1, 2), (2, 1)] {
        let mut registry = with_leases(&[1, 2]);
        let held = new(registry.begin(wanted("a", holder), &me(), (), at(0)));
        let waits = new(registry.begin(wanted("a", waiter), &me(), (), at(0)));
        let number = waits.revisions.created;
        let _ = registry.on_granted(held.id, Grant { fence: number, slot: None });
        assert_eq!(registry.key(&held.name).unwrap().revisions.created, number);
        let lock = "a".parse().unwrap();
        assert_eq!(registry.created_as(&lock, number, &me()).unwrap().id, waits.id);
        assert!(registry.created_as(&lock, number, &named("other")).is_none());
        assert!(registry.created_as(&lock, number + 1, &me()).is_none());
    }
}

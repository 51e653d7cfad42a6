//! Time is a number here: nothing sleeps.

use meshlock_cluster::time::{Span, Time};

use meshlock_host::gate::{Origin, RequestId};

use super::*;

fn named(name: &str) -> Principal {
    Principal::Named(name.parse().unwrap())
}

fn caller(principal: Principal) -> Caller {
    Caller { principal, origin: Origin::Socket { user: None }, request: RequestId::new() }
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

fn wanted(lock: &str, id: i64) -> Wanted {
    let (name, lock) = (format!("{lock}/{id:x}").into_bytes(), lock.parse().unwrap());
    Wanted { name, lock, lease: lease(id), value: Vec::new() }
}

fn new(begun: Result<Begun<()>, LedgerError>) -> Key<()> {
    match begun.unwrap() {
        Begun::New(key) => key,
        Begun::Known(key) => panic!("{key:?} was there"),
    }
}

fn with_leases(ids: &[i64]) -> Ledger<()> {
    let mut ledger = Ledger::new(Limits::default());
    for &id in ids {
        ledger.grant(lease(id), seconds(10), None, &mine(), at(0)).unwrap();
    }
    ledger
}

#[test]
fn a_lease_that_is_not_renewed_ends_with_all_that_hangs_on_it() {
    let mut ledger = with_leases(&[1, 2]);
    new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    new(ledger.begin(wanted("b", 1), &me(), (), at(1)));
    new(ledger.begin(wanted("a", 2), &me(), (), at(1)));
    ledger.renew(lease(2), &me(), at(5)).unwrap();
    assert_eq!(ledger.next_end(), Some(at(10)));
    assert!(ledger.expire_one(at(9)).is_none());
    let Expired { lease: id, keys, .. } = ledger.expire_one(at(10)).unwrap();
    assert_eq!((id, keys.len()), (lease(1), 2));
    assert!(ledger.expire_one(at(14)).is_none());
    assert_eq!(ledger.counts(), (1, 1));
    assert_eq!(ledger.next_end(), Some(at(15)));
}

#[test]
fn nothing_brings_a_lease_back_whose_time_is_up() {
    let mut ledger = with_leases(&[1]);
    // Nobody has noticed yet.
    assert_eq!(ledger.renew(lease(1), &me(), at(10)), None);
    assert!(ledger.lease(lease(1), &me(), at(10)).is_none() && ledger.leases_of(&me(), at(10)).is_empty());
    assert_eq!(ledger.begin(wanted("a", 1), &me(), (), at(10)).unwrap_err(), LedgerError::NoLease(lease(1)));
    assert!(ledger.expire_one(at(10)).is_some());
    assert_eq!(ledger.renew(lease(1), &me(), at(11)), None);
}

#[test]
fn a_lease_that_belongs_to_a_connection_ends_only_with_it() {
    let mut ledger: Ledger<()> = Ledger::new(Limits::default());
    ledger.grant(lease(1), Lasts::WithItsConnection, None, &mine(), at(0)).unwrap();
    new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    assert_eq!(ledger.next_end(), None);
    assert!(ledger.expire_one(at(1_000_000)).is_none());
    assert_eq!(ledger.renew(lease(1), &me(), at(7)), Some(Lasts::WithItsConnection));
    assert_eq!(ledger.revoke(lease(1)).unwrap().1.len(), 1);
    assert!(ledger.revoke(lease(1)).is_none());
}

#[test]
fn who_asks_again_has_the_same_key() {
    let mut ledger = with_leases(&[1]);
    let first = new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    ledger.on_granted(first.id, Grant { fence: 1 << 40, slot: None });
    let Begun::Known(again) = ledger.begin(wanted("a", 1), &me(), (), at(2)).unwrap() else {
        panic!("it was there")
    };
    assert_eq!((again.id, again.grant().unwrap().fence), (first.id, 1 << 40));
    assert_eq!(again.revisions.created, 1 << 40, "nobody knew another number of it");
}

#[test]
fn a_creation_that_was_told_stays_what_it_was() {
    let mut ledger = with_leases(&[1, 2]);
    let first = new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    let told = ledger.tell_creation(&first.name, &me()).unwrap().revisions.created;
    let second = new(ledger.begin(wanted("a", 2), &me(), (), at(1)));
    assert!(second.revisions.created > told + 1, "there is room for the key in front of it");
    ledger.on_granted(first.id, Grant { fence: 1 << 40, slot: None });
    assert_eq!(ledger.key(&first.name).unwrap().revisions.created, told);
    assert_eq!(ledger.key(&first.name).unwrap().revisions.modified, 1 << 40);
}

#[test]
fn a_lease_that_has_lost_something_cannot_be_renewed_and_keeps_the_rest_until_its_end() {
    let mut ledger = with_leases(&[1]);
    let lost = new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    let kept = new(ledger.begin(wanted("b", 1), &me(), (), at(1)));
    for (key, fence) in [(&lost, 7), (&kept, 8)] {
        ledger.on_granted(key.id, Grant { fence, slot: None });
    }
    assert!(ledger.on_lost(lost.id).is_some());
    assert_eq!(ledger.renew(lease(1), &me(), at(2)), None);
    assert_eq!(ledger.begin(wanted("c", 1), &me(), (), at(2)).unwrap_err(), LedgerError::NoLease(lease(1)));
    assert!(ledger.key(&kept.name).is_some() && ledger.expire_one(at(9)).is_none());
    let Expired { keys, .. } = ledger.expire_one(at(10)).unwrap();
    assert_eq!(keys.iter().map(|key| key.id).collect::<Vec<_>>(), [kept.id]);
}

#[test]
fn what_is_over_is_forgotten_by_its_lease_too() {
    let mut ledger = with_leases(&[1]);
    let key = new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    assert!(ledger.on_over(key.id).is_some());
    assert!(ledger.on_over(key.id).is_none());
    // A late word about the key before does not concern the next one of that name.
    let next = new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    ledger.on_granted(key.id, Grant { fence: 1 << 40, slot: None });
    assert_eq!(ledger.key(&next.name).unwrap().state, State::Waiting);
    assert!(ledger.lease(lease(1), &me(), at(1)).unwrap().keys.len() == 1);
    ledger.remove(&next.name).unwrap();
    assert!(ledger.lease(lease(1), &me(), at(1)).unwrap().keys.is_empty());
    assert_eq!(ledger.counts(), (1, 0));
}

#[test]
fn there_are_no_more_leases_keys_and_waiters_than_the_limits_say() {
    let limits = Limits { sessions: 3, keys: 3, waiters_of_a_lock: 2, ..Limits::default() };
    let mut ledger: Ledger<()> = Ledger::new(limits);
    for id in 1..=3 {
        ledger.grant(lease(id), seconds(10), None, &mine(), at(0)).unwrap();
    }
    assert_eq!(
        ledger.grant(lease(3), seconds(1), None, &mine(), at(0)),
        Err(LedgerError::LeaseExists(lease(3)))
    );
    assert_eq!(ledger.grant(lease(4), seconds(1), None, &mine(), at(0)), Err(LedgerError::TooManyLeases(3)));
    let first = new(ledger.begin(wanted("a", 1), &me(), (), at(0)));
    new(ledger.begin(wanted("a", 2), &me(), (), at(0)));
    let most = LedgerError::TooManyWaiters { lock: "a".parse().unwrap(), most: 2 };
    assert_eq!(ledger.begin(wanted("a", 3), &me(), (), at(0)).unwrap_err(), most);
    // Who holds it does not wait.
    ledger.on_granted(first.id, Grant { fence: 9, slot: None });
    new(ledger.begin(wanted("a", 3), &me(), (), at(0)));
    assert_eq!(ledger.begin(wanted("b", 3), &me(), (), at(0)).unwrap_err(), LedgerError::TooManyKeys(3));
    // What ends makes room.
    ledger.revoke(lease(2)).unwrap();
    new(ledger.begin(wanted("b", 3), &me(), (), at(0)));
    ledger.grant(lease(4), seconds(1), None, &mine(), at(0)).unwrap();
}

#[test]
fn every_change_has_a_number_of_its_own() {
    let mut ledger = with_leases(&[1]);
    let mut last = ledger.revision();
    let mut later = |ledger: &Ledger<()>| {
        assert!(ledger.revision() > last, "after {last}");
        last = ledger.revision();
    };
    let key = new(ledger.begin(wanted("a", 1), &me(), (), at(0)));
    later(&ledger);
    ledger.on_granted(key.id, Grant { fence: 1 << 40, slot: None });
    later(&ledger);
    let key = ledger.set_value(&key.name, &me(), b"v".to_vec()).unwrap();
    assert_eq!((key.revisions.version, key.value.as_slice()), (2, b"v".as_slice()));
    later(&ledger);
    ledger.remove(&key.name);
    later(&ledger);
}

fn expire(ledger: &mut Ledger<()>, seconds: u64) -> Option<(LeaseId, usize)> {
    ledger.expire_one(at(seconds)).map(|expired| (expired.lease, expired.keys.len()))
}

#[test]
fn what_hangs_on_a_lease_with_a_delay_stays_for_it_after_the_lease_s_end() {
    let mut ledger = with_leases(&[1, 2]);
    for id in [1, 2] {
        ledger.set_delay(lease(id), Span::from_millis(5000), None);
    }
    new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    // The one that has something is over, and keeps it; the other has nothing to keep.
    assert_eq!(expire(&mut ledger, 10), Some((lease(1), 0)));
    assert_eq!(expire(&mut ledger, 10), Some((lease(2), 0)));
    assert_eq!(ledger.counts(), (1, 1));
    assert!(
        ledger.lease(lease(1), &me(), at(10)).is_none() && ledger.renew(lease(1), &me(), at(11)).is_none()
    );
    assert!(ledger.begin(wanted("b", 1), &me(), (), at(11)).is_err(), "nothing more is had by it");
    assert!(ledger.expire_one(at(14)).is_none() && ledger.key(b"a/1").is_some());
    assert_eq!(expire(&mut ledger, 15), Some((lease(1), 1)));
    assert_eq!(ledger.counts(), (0, 0));
}

#[test]
fn a_lease_that_is_ended_keeps_its_delay_once_and_not_longer() {
    let mut ledger = with_leases(&[1]);
    ledger.set_delay(lease(1), Span::from_millis(5000), None);
    new(ledger.begin(wanted("a", 1), &me(), (), at(1)));
    assert_eq!(ledger.retire(lease(1), at(3)).map(|(_, keys)| keys.len()), Some(0));
    assert_eq!(ledger.next_end(), Some(at(8)));
    // Who ends it again ends it.
    assert_eq!(ledger.retire(lease(1), at(4)).map(|(_, keys)| keys.len()), Some(1));
    assert_eq!((ledger.counts(), ledger.next_end()), ((0, 0), None));
    assert!(ledger.retire(lease(1), at(5)).is_none());
}

#[test]
fn a_lease_and_what_hangs_on_it_is_there_for_its_owner_only() {
    let mut ledger: Ledger<()> = Ledger::new(Limits::default());
    let (owner, other) = (named("ci"), named("ops"));
    ledger.grant(lease(1), seconds(10), None, &caller(owner.clone()), at(0)).unwrap();
    let key = new(ledger.begin(wanted("a", 1), &owner, (), at(1)));
    for stranger in [&other, &me(), &Principal::Anyone] {
        assert!(ledger.lease(lease(1), stranger, at(1)).is_none());
        assert_eq!(ledger.renew(lease(1), stranger, at(1)), None);
        assert!(!ledger.is_of(lease(1), stranger) && ledger.leases_of(stranger, at(1)).is_empty());
        assert_eq!(
            ledger.begin(wanted("b", 1), stranger, (), at(1)).unwrap_err(),
            LedgerError::NoLease(lease(1))
        );
        assert!(ledger.key_of(&key.name, stranger).is_none());
        assert!(ledger.remove_of(&key.name, stranger).is_none());
        assert!(ledger.set_value(&key.name, stranger, Vec::new()).is_none());
        assert!(ledger.tell_creation(&key.name, stranger).is_none());
    }
    ledger.grant(lease(2), seconds(10), None, &caller(other.clone()), at(0)).unwrap();
    let same = Wanted { name: key.name.clone(), ..wanted("a", 2) };
    assert_eq!(ledger.begin(same, &other, (), at(1)).unwrap_err(), LedgerError::KeyTaken);
    assert_eq!(ledger.leases_of(&owner, at(1)), [lease(1)]);
    assert!(ledger.remove_of(&key.name, &owner).is_some());
}

#[test]
fn one_client_leaves_room_for_others() {
    let each = EachClient { sessions: 2, keys: 3, waiters_of_a_lock: 1, watched_locks: 1 };
    let mut ledger: Ledger<()> = Ledger::new(Limits { each, ..Limits::default() });
    let (flood, other) = (named("flood"), named("other"));
    for id in [1, 2] {
        ledger.grant(lease(id), seconds(10), None, &caller(flood.clone()), at(0)).unwrap();
    }
    let of = || flood.clone();
    assert_eq!(
        ledger.grant(lease(3), seconds(10), None, &caller(of()), at(0)),
        Err(LedgerError::TooManyLeasesOf { of: of(), most: 2 })
    );
    ledger.grant(lease(4), seconds(10), None, &caller(other.clone()), at(0)).unwrap();
    new(ledger.begin(wanted("a", 1), &flood, (), at(0)));
    let lock = "a".parse().unwrap();
    assert_eq!(
        ledger.begin(wanted("a", 2), &flood, (), at(0)).unwrap_err(),
        LedgerError::TooManyWaitersOf { of: of(), lock, most: 1 }
    );
    new(ledger.begin(wanted("a", 4), &other, (), at(0)));
    new(ledger.begin(wanted("b", 1), &flood, (), at(0)));
    new(ledger.begin(wanted("c", 1), &flood, (), at(0)));
    assert_eq!(
        ledger.begin(wanted("d", 1), &flood, (), at(0)).unwrap_err(),
        LedgerError::TooManyKeysOf { of: of(), most: 3 }
    );
    // What ends makes room, and whoever has nothing is forgotten.
    ledger.revoke(lease(1)).unwrap();
    new(ledger.begin(wanted("d", 2), &flood, (), at(0)));
    for id in [2, 4] {
        ledger.revoke(lease(id)).unwrap();
    }
    assert!(ledger.usage.is_empty() && ledger.waiters.is_empty());
}

#[test]
fn of_two_keys_with_one_number_the_one_that_waits_is_found() {
    for (holder, waiter) in [(1, 2), (2, 1)] {
        let mut ledger = with_leases(&[1, 2]);
        let held = new(ledger.begin(wanted("a", holder), &me(), (), at(0)));
        let waits = new(ledger.begin(wanted("a", waiter), &me(), (), at(0)));
        let number = waits.revisions.created;
        let _ = ledger.on_granted(held.id, Grant { fence: number, slot: None });
        assert_eq!(ledger.key(&held.name).unwrap().revisions.created, number);
        let lock = "a".parse().unwrap();
        assert_eq!(ledger.created_as(&lock, number, &me()).unwrap().id, waits.id);
        assert!(ledger.created_as(&lock, number, &named("other")).is_none());
        assert!(ledger.created_as(&lock, number + 1, &me()).is_none());
    }
}

//! Several calls for the same key, and what becomes of it when some of them go away.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use meshlock_cluster::node::Config;
use meshlock_host::{Engine, Setup};

use meshlock_cluster::access::Principal;
use meshlock_host::gate::{Origin, RequestId};

use super::leases::site_number;
use super::*;
use crate::ledger::{Lasts, LeaseId};

/// A program of this machine.
pub(crate) fn me() -> Caller {
    Caller {
        principal: Principal::Local,
        origin: Origin::Network(([127, 0, 0, 1], 4000).into()),
        request: RequestId::new(),
    }
}

/// A node of one site, and a desk for it.
pub(crate) fn desk() -> (Engine, Desk) {
    let site: SiteName = "local".parse().unwrap();
    let engine = Engine::start(Setup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let desk = Desk::open((*engine).clone(), Limits::default(), Arc::default());
    (engine, desk)
}

pub(crate) fn lease(desk: &Desk) -> LeaseId {
    desk.grant(&me(), Lasts::For(Span::from_millis(3_600_000)), None).unwrap()
}

pub(crate) fn order(lease: LeaseId, wait: Wait) -> Order {
    let wanted = Wanted {
        name: format!("a/{lease}").into_bytes(),
        lock: "a".parse().unwrap(),
        lease,
        value: Vec::new(),
    };
    Order { wanted, wait, who: "a test".parse().unwrap(), if_known: IfKnown::Join }
}

/// A call that waits for a lock that another has.
fn waits<'a>(
    desk: &'a Desk,
    me: &'a Caller,
    waiter: LeaseId,
) -> Pin<Box<impl Future<Output = Result<(DeskKey, Grant), NotHeld>> + use<'a>>> {
    let mut call = Box::pin(desk.acquire(me, order(waiter, Wait::Forever), None));
    assert!(poll(call.as_mut()).is_pending());
    call
}

/// Looks once whether it is ready.
pub(crate) fn poll<T>(call: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    call.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_key_stays_for_a_call_that_was_made_again_when_the_first_one_goes_away() {
    let (_engine, desk) = desk();
    let caller = &me();
    let (holder, waiter) = (lease(&desk), lease(&desk));
    let held = desk.acquire(caller, order(holder, Wait::Forever), None).await.unwrap().0;
    let (first, second) = (waits(&desk, caller, waiter), waits(&desk, caller, waiter));
    drop(first);
    desk.release(caller, &held.name).unwrap();
    let (_, grant) = second.await.unwrap();
    assert!(grant.fence > held.grant().unwrap().fence);
}

#[tokio::test]
async fn a_lock_that_one_of_two_calls_has_told_its_client_of_stays_when_the_other_goes_away() {
    let (_engine, desk) = desk();
    let caller = &me();
    let (holder, waiter) = (lease(&desk), lease(&desk));
    let held = desk.acquire(caller, order(holder, Wait::Forever), None).await.unwrap().0;
    let (first, second) = (waits(&desk, caller, waiter), waits(&desk, caller, waiter));
    desk.release(caller, &held.name).unwrap();
    let (key, _) = second.await.unwrap();
    drop(first);
    assert!(
        desk.key(caller, &key.name).is_some_and(|now| now.id == key.id),
        "the client believes that it has the lock"
    );
}

#[tokio::test]
async fn a_key_goes_with_the_last_call_that_waits_for_it() {
    let (_engine, desk) = desk();
    let caller = &me();
    let (holder, waiter) = (lease(&desk), lease(&desk));
    let _held = desk.acquire(caller, order(holder, Wait::Forever), None).await.unwrap();
    let (first, second) = (waits(&desk, caller, waiter), waits(&desk, caller, waiter));
    let name = order(waiter, Wait::Forever).wanted.name;
    drop(second);
    assert!(desk.key(caller, &name).is_some());
    drop(first);
    assert!(desk.key(caller, &name).is_none());
}

#[tokio::test]
async fn every_call_waits_as_long_as_it_said_itself() {
    let (_engine, desk) = desk();
    let caller = &me();
    let (holder, waiter) = (lease(&desk), lease(&desk));
    let held = desk.acquire(caller, order(holder, Wait::Forever), None).await.unwrap().0;
    let mut patient = Box::pin(desk.acquire(caller, order(waiter, Wait::Forever), None));
    assert!(poll(patient.as_mut()).is_pending());
    let hasty = desk.acquire(caller, order(waiter, Wait::Try), None).await;
    assert_eq!(hasty.err(), Some(NotHeld::Busy));
    let late = desk.acquire(caller, order(waiter, Wait::Until(now())), None).await;
    assert_eq!(late.err(), Some(NotHeld::TimedOut));
    // And whoever joins one that is hasty waits on when that one has given up.
    drop(patient);
    let mut hasty =
        Box::pin(desk.acquire(caller, order(waiter, Wait::Until(now() + Span::from_millis(20))), None));
    assert!(poll(hasty.as_mut()).is_pending());
    let mut patient = pin!(desk.acquire(caller, order(waiter, Wait::Forever), None));
    assert!(poll(patient.as_mut()).is_pending());
    assert_eq!(hasty.await.err(), Some(NotHeld::TimedOut));
    assert!(poll(patient.as_mut()).is_pending());
    desk.release(caller, &held.name).unwrap();
    assert!(patient.await.is_ok());
}

#[test]
fn sites_of_like_names_have_numbers_of_their_own() {
    let numbers = |name: fn(u32) -> String| -> BTreeSet<i64> {
        (1..=9).map(|at| site_number(&name(at).parse().unwrap())).collect()
    };
    assert_eq!(numbers(|at| format!("site-{at}")).len(), 9);
    assert_eq!(numbers(|at| format!("db{at}.example")).len(), 9);
}

#[tokio::test]
async fn what_a_client_held_by_a_connection_that_was_cut_is_nobody_s_until_it_can_believe_in_it_no_more() {
    let ((_engine, desk), me) = (desk(), me());
    let clients = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 4000)));
    for (client, is_cut) in clients.into_iter().zip([false, true]) {
        let client = Caller { origin: Origin::Network(client), ..me.clone() };
        let held = desk.grant(&client, Lasts::WithItsConnection, None).unwrap();
        desk.acquire(&client, order(held, Wait::Forever), None).await.unwrap();
        let until = desk.node().look(|node| node.lease().end()).unwrap();
        if is_cut {
            desk.on_cut(clients[1]);
        }
        desk.end_with_call(held);
        let wait = if is_cut { Wait::Forever } else { Wait::Try };
        let (key, _) = desk.acquire(&me, order(lease(&desk), wait), None).await.unwrap();
        assert!(!is_cut || now() >= until, "others have it before the client has stopped");
        desk.release(&me, &key.name).unwrap();
    }
}

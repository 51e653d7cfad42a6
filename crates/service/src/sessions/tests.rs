//! Several calls for the same key, and what happens to the key when some of them go away.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use meshlock_cluster::node::Config;
use meshlock_host::{Engine, NodeSetup};

use meshlock_cluster::access::{Access, Principal, RuleText, Verb};
use meshlock_host::gate::{Audit, Caller, CallerOrigin, Each, Gate, Policy, RequestId, RequestKind};
use meshlock_testing::{async_test, in_time};
use meshlock_tls::Revoked;

use super::leases::site_number;
use super::*;
use crate::sessions::registry::{LeaseDuration, LeaseId};

/// A program on this machine.
pub(crate) fn me(sessions: &Sessions) -> Admitted {
    from(sessions, ([127, 0, 0, 1], 4000).into())
}

/// A caller that the node takes for a program on this machine, with the given address.
fn from(sessions: &Sessions, address: SocketAddr) -> Admitted {
    let origin = CallerOrigin::Network(address);
    let caller = Caller { principal: Principal::Local, origin, certificate: None, request: RequestId::new() };
    sessions.front().admit(caller, RequestKind::Ask).unwrap()
}

/// Starts a node of one site, and its sessions.
pub(crate) fn sessions() -> (Engine, Sessions) {
    let site: SiteName = "local".parse().unwrap();
    let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
    let sessions = Sessions::open(Front::new((*engine).clone(), Arc::default()), ApiLimits::default());
    (engine, sessions)
}

pub(crate) fn lease(sessions: &Sessions) -> LeaseId {
    sessions.grant(&me(sessions), LeaseDuration::For(Span::from_millis(3_600_000)), None).unwrap()
}

pub(crate) fn key_request(lease: LeaseId, wait: Wait) -> KeyRequest {
    let wanted = NewKey {
        name: format!("a/{lease}").into_bytes(),
        lock: "a".parse().unwrap(),
        lease,
        value: Vec::new(),
    };
    KeyRequest { wanted, wait, permits: None, who: "a test".parse().unwrap(), if_known: IfKnown::Join }
}

/// Starts a call that waits for a lock that somebody else holds.
fn waits<'a>(
    sessions: &'a Sessions,
    me: &'a Admitted,
    waiter: LeaseId,
) -> Pin<Box<impl Future<Output = Result<(SessionKey, KeyGrant), AcquireError>> + use<'a>>> {
    let mut call = Box::pin(sessions.acquire(me, key_request(waiter, Wait::Forever)));
    assert!(poll(call.as_mut()).is_pending());
    call
}

/// Polls a call once.
pub(crate) fn poll<T>(call: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    call.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_key_stays_for_a_call_that_was_made_again_when_the_first_one_goes_away() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let caller = &me(&sessions);
        let (holder, waiter) = (lease(&sessions), lease(&sessions));
        let held = in_time("the call ends", sessions.acquire(caller, key_request(holder, Wait::Forever)))
            .await
            .unwrap()
            .0;
        let (first, second) = (waits(&sessions, caller, waiter), waits(&sessions, caller, waiter));
        drop(first);
        sessions.release(caller, &held.name).unwrap();
        let (_, grant) = in_time("the call ends", second).await.unwrap();
        assert!(grant.fence > held.grant().unwrap().fence);
    });
}

#[test]
fn a_lock_that_one_of_two_calls_was_granted_stays_when_the_other_goes_away() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let caller = &me(&sessions);
        let (holder, waiter) = (lease(&sessions), lease(&sessions));
        let held = in_time("the call ends", sessions.acquire(caller, key_request(holder, Wait::Forever)))
            .await
            .unwrap()
            .0;
        let (first, second) = (waits(&sessions, caller, waiter), waits(&sessions, caller, waiter));
        sessions.release(caller, &held.name).unwrap();
        let (key, _) = in_time("the call ends", second).await.unwrap();
        drop(first);
        assert!(
            sessions.key(caller, &key.name).is_some_and(|now| now.id == key.id),
            "the client relies on it"
        );
    });
}

#[test]
fn a_key_goes_with_the_last_call_that_waits_for_it() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let caller = &me(&sessions);
        let (holder, waiter) = (lease(&sessions), lease(&sessions));
        let _held = in_time("the call ends", sessions.acquire(caller, key_request(holder, Wait::Forever)))
            .await
            .unwrap();
        let (first, second) = (waits(&sessions, caller, waiter), waits(&sessions, caller, waiter));
        let name = key_request(waiter, Wait::Forever).wanted.name;
        drop(second);
        assert!(sessions.key(caller, &name).is_some());
        drop(first);
        assert!(sessions.key(caller, &name).is_none());
    });
}

#[test]
fn every_call_has_its_own_time_limit() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let caller = &me(&sessions);
        let (holder, waiter) = (lease(&sessions), lease(&sessions));
        let held = in_time("the call ends", sessions.acquire(caller, key_request(holder, Wait::Forever)))
            .await
            .unwrap()
            .0;
        let mut patient = Box::pin(sessions.acquire(caller, key_request(waiter, Wait::Forever)));
        assert!(poll(patient.as_mut()).is_pending());
        let hasty = in_time("the call ends", sessions.acquire(caller, key_request(waiter, Wait::Try))).await;
        assert_eq!(hasty.err(), Some(AcquireError::Busy));
        let late =
            in_time("the call ends", sessions.acquire(caller, key_request(waiter, Wait::Within(Span::ZERO))))
                .await;
        assert_eq!(late.err(), Some(AcquireError::TimedOut));
        // A call that joins another one goes on waiting when the first one has given up.
        drop(patient);
        let mut hasty =
            Box::pin(sessions.acquire(caller, key_request(waiter, Wait::Within(Span::from_millis(20)))));
        assert!(poll(hasty.as_mut()).is_pending());
        let mut patient = pin!(sessions.acquire(caller, key_request(waiter, Wait::Forever)));
        assert!(poll(patient.as_mut()).is_pending());
        assert_eq!(in_time("the call ends", hasty).await.err(), Some(AcquireError::TimedOut));
        assert!(poll(patient.as_mut()).is_pending());
        sessions.release(caller, &held.name).unwrap();
        assert!(in_time("the call ends", patient).await.is_ok());
    });
}

#[test]
fn sites_of_like_names_have_numbers_of_their_own() {
    let numbers = |name: fn(u32) -> String| -> BTreeSet<i64> {
        (1..=9).map(|at| site_number(&name(at).parse().unwrap())).collect()
    };
    assert_eq!(numbers(|at| format!("site-{at}")).len(), 9);
    assert_eq!(numbers(|at| format!("db{at}.example")).len(), 9);
}

#[test]
fn a_lock_whose_connection_was_cut_stays_taken_until_its_client_must_have_stopped() {
    async_test(async {
        let (_engine, sessions) = sessions();
        let me = me(&sessions);
        let clients = [1, 2].map(|last| SocketAddr::from(([10, 0, 0, last], 4000)));
        for (client, is_cut) in clients.into_iter().zip([false, true]) {
            let client = from(&sessions, client);
            let held = sessions.grant(&client, LeaseDuration::UntilDisconnect, None).unwrap();
            in_time("the call ends", sessions.acquire(&client, key_request(held, Wait::Forever)))
                .await
                .unwrap();
            let until = sessions.front().lease_end().unwrap();
            if is_cut {
                sessions.on_cut(clients[1]);
            }
            sessions.end_with_call(held);
            let wait = if is_cut { Wait::Forever } else { Wait::Try };
            let (key, _) =
                in_time("the call ends", sessions.acquire(&me, key_request(lease(&sessions), wait)))
                    .await
                    .unwrap();
            assert!(
                !is_cut || now() >= until,
                "another client has the lock before the first one must have stopped"
            );
            sessions.release(&me, &key.name).unwrap();
        }
    });
}

#[test]
fn the_sessions_of_a_revoked_client_end_at_once_and_its_lock_when_it_cannot_rely_on_it_any_more() {
    ends_the_sessions("client/bot");
}

#[test]
fn the_sessions_of_a_revoked_certificate_end_at_once_and_its_lock_when_its_client_cannot_rely_on_it_any_more()
{
    ends_the_sessions("serial/0a:1b");
}

fn ends_the_sessions(entry: &str) {
    async_test(async {
        let site: SiteName = "local".parse().unwrap();
        let engine = Engine::start(NodeSetup::new(Config::new(site.clone(), vec![site]))).unwrap();
        let rule =
            RuleText { principal: "bot".to_owned(), locks: "*".to_owned(), verbs: vec![Verb::Acquire] };
        let policy = Policy { access: Access::new(&[rule]).unwrap(), ..Policy::default() };
        let gate = Gate::new(policy, Each::default(), Audit::default());
        let front = Front::new((*engine).clone(), Arc::new(gate));
        let sessions = Sessions::open(front, ApiLimits::default());
        let bot = Principal::Named("bot".parse().unwrap());
        let origin = CallerOrigin::Network(([127, 0, 0, 1], 4001).into());
        let admitted = |serial: &str| {
            let certificate = Some(serial.parse().unwrap());
            let caller = Caller { principal: bot.clone(), origin, certificate, request: RequestId::new() };
            sessions.front().admit(caller, RequestKind::Ask).unwrap()
        };
        let (caller, renewed) = (&admitted("a1b"), &admitted("a1c"));
        let (ttl, before) = (Span::from_millis(1500), now());
        let theirs = || sessions.grant(caller, LeaseDuration::For(ttl), None).unwrap();
        let (holds, waits_in) = (theirs(), theirs());
        in_time("it holds", sessions.acquire(caller, key_request(holds, Wait::Forever))).await.unwrap();
        let mut theirs_waits = waits(&sessions, caller, waits_in);
        let (me, other) = (&me(&sessions), lease(&sessions));
        let mut other_waits = waits(&sessions, me, other);
        // This one belongs to the same client, which has got another certificate since.
        let kept = theirs();
        assert!(sessions.renew(renewed, kept).is_some());
        engine.trust().set_revoked(Revoked::new(&[entry]).unwrap());
        let ended = in_time("what waits in its session ends", theirs_waits.as_mut()).await;
        assert_eq!(ended.map(drop), Err(AcquireError::SessionOver));
        assert!(sessions.renew(caller, holds).is_none() && sessions.renew(caller, waits_in).is_none());
        assert_eq!(sessions.renew(renewed, kept).is_some(), entry.starts_with("serial/"));
        assert!(sessions.has_session_of(&me.principal), "nobody else loses anything");
        assert!(poll(other_waits.as_mut()).is_pending(), "it may still rely on its lock");
        in_time("the lock is free", other_waits).await.unwrap();
        assert!(now() >= before + ttl, "and not before it could not rely on it any more");
    });
}

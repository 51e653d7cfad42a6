//! A client that does not want to wait, in a network in which every packet takes 300 ms, and in one that is cut.

use meshlock_cluster::names::LockName;
use meshlock_cluster::node::ClientAnswer;
use meshlock_cluster::table::{LockEvent, Request, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_testing::within_steps;

use crate::cluster::Cluster;

const DELAY: Span = Span::from_millis(300);

fn jobs() -> LockName {
    "jobs".parse().expect("a name")
}

/// Three sites that have measured how slow their network is.
fn slow() -> Cluster {
    let mut cluster = Cluster::open(3, "naimi-trehel");
    cluster.delay(DELAY);
    // The lock goes to each of the sites once, so that every pair of them has exchanged messages.
    for at in [0, 1, 2, 0] {
        let request = cluster.acquire(at, &jobs());
        let (_, event) = answer(&mut cluster, request);
        assert!(matches!(event, LockEvent::Granted { .. }), "{event:?}");
        cluster.release(at, request);
        cluster.pass(Span::from_millis(2000));
    }
    cluster
}

/// Lets time pass until the request is answered; returns how long that took, and the answer.
fn answer(cluster: &mut Cluster, wanted: Request) -> (Span, LockEvent) {
    let since: Time = cluster.now();
    let mut found = None;
    within_steps("the request is answered", || {
        let of = |answer: &ClientAnswer| {
            let ClientAnswer::Lock(event) = answer else { return None };
            let (LockEvent::Granted { request, .. }
            | LockEvent::Busy { request }
            | LockEvent::TimedOut { request }
            | LockEvent::Unavailable { request, .. }) = event
            else {
                return None;
            };
            (*request == wanted).then(|| event.clone())
        };
        found = cluster.told.iter().find_map(of);
        if found.is_none() {
            cluster.pass(Span::from_millis(1));
        }
        found.is_some()
    });
    cluster.told.clear();
    (cluster.now().since(since), found.expect("it was just found"))
}

#[test]
fn a_free_lock_whose_token_is_elsewhere_is_obtained_by_a_try() {
    let mut cluster = slow();
    for at in [1, 2, 1, 0] {
        let request = cluster.acquire_for(at, &jobs(), Wait::Try);
        let (took, event) = answer(&mut cluster, request);
        assert!(matches!(event, LockEvent::Granted { .. }), "site {at}: {event:?} after {took:?}");
        cluster.release(at, request);
        cluster.pass(Span::from_millis(2000));
    }
}

#[test]
fn a_lock_that_is_held_is_refused_within_one_round_trip() {
    let mut cluster = slow();
    let held = cluster.acquire(0, &jobs());
    answer(&mut cluster, held);
    for at in [1, 2] {
        let request = cluster.acquire_for(at, &jobs(), Wait::Try);
        let (took, event) = answer(&mut cluster, request);
        assert_eq!(event, LockEvent::Busy { request });
        assert!(took <= DELAY.times(2) + Span::from_millis(1), "{took:?}");
    }
}

#[test]
fn whoever_is_cut_off_is_told_of_the_outage_and_never_of_another_holder() {
    let mut cluster = Cluster::open(3, "naimi-trehel");
    // Site 0 has the token, and nobody hears it any more.
    let held = cluster.acquire(0, &jobs());
    answer(&mut cluster, held);
    cluster.release(0, held);
    cluster.tamper(|from, packet| if from == 0 { Vec::new() } else { vec![packet] });
    let why = |cluster: &mut Cluster, at: usize, wait: Wait| {
        let request = cluster.acquire_for(at, &jobs(), wait);
        let (_, event) = answer(cluster, request);
        let LockEvent::Unavailable { why, .. } = event else { panic!("site {at}: {event:?}") };
        why.to_string()
    };
    cluster.pass(Span::from_millis(1000));
    let said = why(&mut cluster, 1, Wait::Try);
    assert!(said.starts_with("no answer from s0 for "), "{said}");
    let said = why(&mut cluster, 1, Wait::Within(Span::from_millis(500)));
    assert!(said.starts_with("no answer from s0 for "), "{said}");
    // The two others go on without it. It hears them, but they do not renew its lease.
    cluster.pass(Span::from_millis(8000));
    let request = cluster.acquire_for(1, &jobs(), Wait::Try);
    assert!(matches!(answer(&mut cluster, request).1, LockEvent::Granted { .. }));
    let said = why(&mut cluster, 0, Wait::Try);
    assert!(
        said.starts_with("s0 is not a member of the cluster: ") || said.starts_with("s0 has no lease: "),
        "{said}"
    );
}

#[test]
fn a_site_alone_says_how_many_voters_it_reaches() {
    let mut cluster = Cluster::open(3, "naimi-trehel");
    cluster.tamper(|_, _| Vec::new());
    cluster.pass(Span::from_millis(7000));
    for at in 0..3 {
        let request = cluster.acquire_for(at, &jobs(), Wait::Try);
        let (took, event) = answer(&mut cluster, request);
        let LockEvent::Unavailable { why, .. } = event else { panic!("site {at}: {event:?}") };
        assert_eq!(why.to_string(), format!("s{at} has no lease: 1 of 3 voters is reachable"));
        assert!(took <= Span::from_millis(1001), "{took:?}");
    }
}

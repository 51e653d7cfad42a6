//! Two members that cannot reach each other while both reach a third: both stay, and locks go from one to the other.

use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::ClientAnswer;
use meshlock_cluster::table::{LockEvent, Request};
use meshlock_cluster::time::Span;

use crate::cluster::Cluster;

fn jobs() -> LockName {
    "jobs".parse().expect("a name")
}

/// The directions between two sites that are cut: both, or one of them.
fn ways(a: usize, b: usize) -> [Vec<(usize, usize)>; 3] {
    [vec![(a, b), (b, a)], vec![(a, b)], vec![(b, a)]]
}

/// Acquires the lock at a site.
fn hold(cluster: &mut Cluster, at: usize) -> Request {
    let request = cluster.acquire(at, &jobs());
    cluster.pass(Span::from_millis(100));
    assert!(cluster.is_granted(request), "site {at} gets the free lock");
    request
}

fn is_lost(cluster: &Cluster) -> bool {
    let lost = |answer: &ClientAnswer| matches!(answer, ClientAnswer::Lock(LockEvent::Lost { .. }));
    cluster.told.iter().any(lost)
}

#[test]
fn a_lock_is_handed_over_within_a_second_of_the_cut_whichever_direction_is_cut() {
    for (a, b) in [(0, 1), (1, 2), (0, 2), (1, 0), (2, 1), (2, 0)] {
        for cuts in ways(a, b) {
            let mut cluster = Cluster::open(3, "naimi-trehel");
            let held = hold(&mut cluster, a);
            cluster.cuts.extend(cuts.iter().copied());
            let wanted = cluster.acquire(b, &jobs());
            cluster.release(a, held);
            cluster.pass(Span::from_millis(1000));
            assert!(cluster.is_granted(wanted), "from {a} to {b} with {cuts:?} cut");
        }
    }
}

#[test]
fn both_stay_members_and_keep_their_locks_as_long_as_the_cut_lasts() {
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        for cuts in ways(a, b) {
            let mut cluster = Cluster::open(3, "naimi-trehel");
            let epoch = cluster.nodes[0].view().epoch;
            let held = hold(&mut cluster, a);
            cluster.cuts.extend(cuts.iter().copied());
            cluster.pass(Span::from_millis(60_000));
            assert!(!is_lost(&cluster), "with {cuts:?} cut");
            assert!(cluster.nodes.iter().all(|node| node.view().epoch == epoch), "with {cuts:?} cut");
            cluster.release(a, held);
            let wanted = cluster.acquire(b, &jobs());
            cluster.pass(Span::from_millis(1000));
            assert!(cluster.is_granted(wanted), "with {cuts:?} cut");
        }
    }
}

#[test]
fn packets_go_directly_again_when_the_cut_is_over_and_nothing_is_added_without_one() {
    let mut cluster = Cluster::open(3, "naimi-trehel");
    cluster.carried = 0;
    cluster.pass(Span::from_millis(10_000));
    assert_eq!(cluster.carried, 0);
    for cuts in ways(1, 2) {
        let held = hold(&mut cluster, 1);
        cluster.cuts = cuts.into_iter().collect();
        let wanted = cluster.acquire(2, &jobs());
        cluster.release(1, held);
        cluster.pass(Span::from_millis(1000));
        assert!(cluster.is_granted(wanted) && cluster.carried > 0);
        cluster.cuts.clear();
        cluster.pass(Span::from_millis(2000));
        cluster.carried = 0;
        cluster.release(2, wanted);
        cluster.pass(Span::from_millis(10_000));
        assert_eq!(cluster.carried, 0);
    }
}

#[test]
fn a_site_that_restarts_during_a_cut_joins_through_another_member() {
    for cuts in ways(0, 1).into_iter().chain(ways(1, 2)) {
        let mut cluster = Cluster::open(3, "naimi-trehel");
        cluster.cuts.extend(cuts.iter().copied());
        cluster.restart(1);
        cluster.pass(Span::from_millis(15_000));
        let (epoch, members) = (cluster.nodes[0].view().epoch, cluster.nodes[0].view().members.len());
        assert_eq!(members, 3, "with {cuts:?} cut");
        assert!(cluster.nodes.iter().all(|node| node.is_open() && node.view().epoch == epoch), "{cuts:?}");
        let held = hold(&mut cluster, 1);
        cluster.release(1, held);
    }
}

#[test]
fn without_detours_one_of_the_two_is_left_out() {
    mutant::with(Mutant::NoDetours, || {
        let mut cluster = Cluster::open(3, "naimi-trehel");
        let held = hold(&mut cluster, 1);
        cluster.cuts.extend([(1, 2), (2, 1)]);
        cluster.acquire(2, &jobs());
        cluster.release(1, held);
        cluster.pass(Span::from_millis(12_000));
        assert!(cluster.nodes[0].view().members.len() < 3);
    });
}

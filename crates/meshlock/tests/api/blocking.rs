//! Programs without a runtime: every method works, and what counts time does so by itself.

use std::sync::Arc;
use std::time::Duration;

use meshlock::config::Lease;
use meshlock::{AcquireError, Client, Cluster, Endpoint, LossReason, Node};
use meshlock_cluster::node::ClientAnswer;
use meshlock_cluster::table::TraceWatch;
use meshlock_host::Listener;
use meshlock_testing::blocking_test;

#[test]
fn a_cluster_and_its_nodes_are_ready_leave_and_shut_down() {
    blocking_test(|| {
        let cluster = Cluster::local(2).unwrap();
        cluster.ready_blocking();
        for node in cluster.nodes() {
            node.ready_blocking();
            assert!(node.is_ready() && node.view().members.len() == 2);
        }
        let guard = cluster[0].lock_blocking("a").unwrap();
        let lost = guard.lost();
        // Nobody gives the lock back, so its loss is told when the time is over: without a runtime nobody else counts it.
        assert!(cluster[0].shut_down_blocking(Duration::from_millis(1)));
        assert_eq!(meshlock::block_on(lost).reason, LossReason::Leaving);
        cluster[1].leave_blocking();
        assert!(matches!(cluster[1].lock_blocking("a"), Err(AcquireError::Refused { .. })));
    });
}

/// Panics in the middle of the node, as a bug would.
struct Bug;

impl Listener for Bug {
    fn on_answer(&self, _: &ClientAnswer) {
        panic!("on purpose");
    }
}

#[test]
fn a_node_that_fails_says_so_when_its_lease_is_over() {
    blocking_test(|| {
        let mut lease = Lease::of(Duration::from_millis(1500));
        lease.margin = Some(Duration::from_millis(300));
        lease.renew_every = Some(Duration::from_millis(300));
        let node = Node::builder().in_memory().lease(lease).start().unwrap();
        node.ready_blocking();
        let guard = node.lock_blocking("a").unwrap();
        let front = node.front();
        let session = front.open_session(&front.in_process());
        let watch = |request| TraceWatch { session, request, pattern: None, states: false };
        front.watch(&front.in_process(), Arc::new(Bug), watch).unwrap();
        node.failed_blocking();
        assert!(guard.remaining().is_zero(), "nobody else has the lock before: {:?}", guard.remaining());
        assert_eq!(guard.loss().unwrap().reason, LossReason::NodeFailed);
    });
}

#[test]
fn a_client_has_all_locks_and_semaphores() {
    blocking_test(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        let node = Node::builder().in_memory().socket(&path).start().unwrap();
        let limit = Duration::from_mins(1);
        let client = Client::connect_as_blocking([Endpoint::socket(&path)], "billing").unwrap();
        drop(client.lock_blocking("a").unwrap());
        drop(client.lock_within_blocking("a", limit).unwrap());
        drop(client.lock_all_blocking(["a", "b"]).unwrap());
        drop(client.lock_all_within_blocking(["a", "b"], limit).unwrap());
        let held = client.try_lock_blocking("a").unwrap();
        let front = node.front();
        let queue = meshlock::block_on(front.queue(&front.in_process(), "a".parse().unwrap())).unwrap();
        let label = queue.sites[0].lock.holders[0].label.as_ref().unwrap();
        assert!(label.is_of(&"billing".parse().unwrap()), "{label}");
        assert!(matches!(
            node.try_lock_all_blocking(["a", "b"]),
            Err(AcquireError::Busy { lock }) if lock == "a"
        ));
        drop(held);
        let pool = Client::connect_blocking([Endpoint::socket(&path)]).unwrap().semaphore("pool", 2);
        let permits = [pool.acquire_blocking().unwrap(), pool.acquire_within_blocking(limit).unwrap()];
        assert!(matches!(pool.try_acquire_blocking(), Err(AcquireError::Busy { .. })));
        drop(permits);
    });
}

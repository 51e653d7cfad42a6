//! A client of a node in another process: here one in this process, over its Unix socket and over TCP.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::PathBuf;
use std::time::Duration;

use meshlock::config::{AccessRule, Lease, Verb};
use meshlock::{AcquireError, Client, Endpoint, LossReason, Node, Refusal, Tls};
use meshlock_cluster::names::SiteName;
use meshlock_testing::{Deadline, WITHIN, async_test, blocking_test, eventually, eventually_async};
use meshlock_tls::{Bearer, ca};

/// A node that serves clients on a socket of its own.
fn served() -> (tempfile::TempDir, PathBuf, Node) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.sock");
    let node = Node::builder().in_memory().socket(&path).start().unwrap();
    (dir, path, node)
}

#[test]
fn a_client_and_the_node_itself_exclude_each_other_and_fences_rise() {
    async_test(async {
        let (_dir, path, node) = served();
        let client = Client::connect([Endpoint::socket(&path)]).await.unwrap();
        assert_eq!(client.site().as_deref(), Some("local"));
        let guard = client.lock("orders").await.unwrap();
        assert!(guard.remaining() > guard.margin() && !guard.is_lost());
        assert!(matches!(node.try_lock("orders").await, Err(AcquireError::Busy { .. })));
        assert!(matches!(client.try_lock("orders").await, Err(AcquireError::Busy { .. })));
        let fence = guard.fence();
        drop(guard);
        let next = node.lock("orders").await.unwrap();
        assert!(next.fence() > fence);
        let late = client.lock_within("orders", Duration::from_millis(5)).await;
        assert!(matches!(late, Err(AcquireError::TimedOut { .. })), "{late:?}");
    });
}

#[test]
fn a_client_works_without_async() {
    blocking_test(|| {
        let (_dir, path, _node) = served();
        let client = Client::connect_blocking([Endpoint::socket(&path)]).unwrap();
        let guards = client.lock_all_blocking(["b", "a", "a"]).unwrap();
        let names: Vec<&str> = guards.iter().map(meshlock::Guard::name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(client.try_lock_all_blocking(["c", "b"]).is_err());
        assert!(client.try_lock_blocking("c").is_ok(), "what was taken before is given back");
        let longest = Duration::from_millis(5);
        assert!(matches!(
            client.lock_all_within_blocking(["a", "d"], longest),
            Err(AcquireError::TimedOut { .. })
        ));
        assert!(client.try_lock_blocking("d").is_ok());
    });
}

#[test]
fn a_client_shares_a_semaphore_and_is_told_if_it_expects_other_permits() {
    async_test(async {
        let (_dir, path, node) = served();
        let client = Client::connect([Endpoint::socket(&path)]).await.unwrap();
        let pool = client.semaphore("pool", 2);
        let (first, _second) =
            (pool.acquire().await.unwrap(), node.semaphore("pool", 2).acquire().await.unwrap());
        assert!(matches!(pool.try_acquire().await, Err(AcquireError::Busy { .. })));
        drop(first);
        assert!(pool.acquire_within(Duration::from_mins(1)).await.is_ok());
        let other = client.semaphore("pool", 3).acquire().await;
        assert!(matches!(other, Err(AcquireError::Refused { cause: Refusal::Permits, .. })), "{other:?}");
    });
}

#[test]
fn a_client_that_goes_away_while_it_waits_takes_its_request_back() {
    async_test(async {
        let (_dir, path, node) = served();
        let client = Client::connect([Endpoint::socket(&path)]).await.unwrap();
        let held = node.lock("a").await.unwrap();
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.lock("a").await.map(drop) }
        });
        let waiters = || node.front().node().look(|node| node.table().counts().waiters);
        eventually_async("the client waits", tokio::time::sleep, || waiters() == 1).await;
        waiting.abort();
        assert!(waiting.await.is_err());
        eventually_async("nobody waits", tokio::time::sleep, || waiters() == 0).await;
        drop(held);
        assert!(node.try_lock("a").await.is_ok());
    });
}

#[test]
fn a_client_loses_its_locks_with_its_node_and_waits_on_at_another_one() {
    async_test(async {
        let (_dir, path, node) = served();
        let other_dir = tempfile::tempdir().unwrap();
        let other_path = other_dir.path().join("node.sock");
        let client = Client::connect([Endpoint::socket(&path), Endpoint::socket(&other_path)]).await.unwrap();
        // It runs only now, so that the client is connected to the first.
        let other = Node::builder().in_memory().socket(&other_path).start().unwrap();
        let held = client.lock("a").await.unwrap();
        let lost = held.lost();
        let kept = node.lock("b").await.unwrap();
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.lock("b").await.map(|guard| guard.name().to_owned()) }
        });
        let waiters = || node.front().node().look(|node| node.table().counts().waiters);
        eventually_async("the client waits", tokio::time::sleep, || waiters() == 1).await;
        std::mem::forget(kept);
        // Its last user is the guard that is forgotten: the doors are closed as by a process that ends.
        node.shut_down(Duration::ZERO).await;
        assert!(matches!(lost.await.reason, LossReason::Leaving | LossReason::Disconnected));
        drop(held);
        assert_eq!(waiting.await.unwrap().unwrap(), "b");
        assert_eq!(client.site().as_deref(), Some(other.site()));
    });
}

#[test]
fn a_dropped_guard_completes_lost_and_a_broken_lock_reports_the_reason() {
    blocking_test(|| {
        let (_dir, path, node) = served();
        let client = Client::connect_blocking([Endpoint::socket(&path)]).unwrap();
        let guard = client.lock_blocking("a").unwrap();
        let lost = guard.lost();
        drop(guard);
        assert_eq!(meshlock::block_on(lost).reason, LossReason::Released);
        let guard = client.lock_blocking("a").unwrap();
        let front = node.front();
        let broken = meshlock::block_on(front.break_lock(&front.in_process(), "a".parse().unwrap())).unwrap();
        assert_eq!(broken.cut_off.len(), 1);
        let loss = guard.wait_until_lost();
        assert_eq!(loss.reason, LossReason::Broken);
        assert!(guard.is_lost() && guard.loss().is_some_and(|loss| loss.reason == LossReason::Broken));
    });
}

#[test]
fn nobody_at_an_endpoint_is_an_error_that_names_it() {
    blocking_test(|| {
        let error = Client::connect_blocking([Endpoint::socket("/nowhere.sock")]).unwrap_err();
        assert!(error.is_unreachable() && error.to_string().contains("/nowhere.sock"), "{error}");
        let nobody: [Endpoint; 0] = [];
        assert!(Client::connect_blocking(nobody).unwrap_err().to_string().contains("no node was named"));
    });
}

fn certified(authority: &std::path::Path, bearer: &Bearer) -> Tls {
    ca::issue(authority, bearer, ca::BEARER_DAYS).unwrap();
    let dir = match bearer {
        Bearer::Site(name) => format!("site-{name}"),
        Bearer::Client(name) => format!("client-{name}"),
    };
    Tls::from_dir(authority.join(dir)).unwrap()
}

#[test]
fn over_tls_the_rules_of_a_certificate_apply() {
    async_test(async {
        let authority = tempfile::tempdir().unwrap();
        ca::init(authority.path(), ca::AUTHORITY_DAYS).unwrap();
        let site: SiteName = "local".parse().unwrap();
        let node = Node::builder()
            .tls(certified(authority.path(), &Bearer::Site(site)))
            .clients("127.0.0.1:0")
            .access(AccessRule::new("ci", "deploy/*", [Verb::Acquire]))
            .in_memory()
            .start()
            .unwrap();
        let address = node.clients_address().unwrap().to_string();
        let tls = certified(authority.path(), &Bearer::Client("ci".parse().unwrap()));
        let client = Client::connect([Endpoint::tcp(&address, &tls).unwrap()]).await.unwrap();
        let guard = client.lock("deploy/web").await.unwrap();
        assert!(!guard.is_lost() && guard.remaining() > Duration::ZERO);
        let denied = client.lock("orders").await;
        assert!(matches!(denied, Err(AcquireError::Refused { cause: Refusal::Denied, .. })), "{denied:?}");
        drop(guard);
        eventually("the lock is free", || node.try_lock_blocking("deploy/web").is_ok());
    });
}

#[test]
fn a_client_notices_a_blocked_node_by_its_own_clock() {
    async_test(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.sock");
        let mut lease = Lease::of(Duration::from_millis(1500));
        lease.margin = Some(Duration::from_millis(300));
        lease.renew_every = Some(Duration::from_millis(300));
        let node = Node::builder().in_memory().socket(&path).lease(lease).start().unwrap();
        let client = Client::connect([Endpoint::socket(&path)]).await.unwrap();
        let deadline = Deadline::default();
        loop {
            deadline.check("a guard that is not lost when the node's thread begins to block");
            let guard = client.lock("a").await.unwrap();
            // While the node's own thread is blocked, it extends no lease and tells nobody of a loss.
            let (blocked, is_blocked) = tokio::sync::oneshot::channel();
            let (over, is_over) = std::sync::mpsc::channel::<()>();
            node.front().node().tasks().spawn(async move {
                let _ = blocked.send(());
                let _ = is_over.recv_timeout(WITHIN);
            });
            is_blocked.await.unwrap();
            let was_held = !guard.is_lost();
            assert_eq!(guard.lost().await.reason, LossReason::LeaseEnded);
            drop(over);
            if was_held {
                return;
            }
            // The machine is so busy that the node itself could not renew its lease in time.
        }
    });
}

#[test]
fn a_node_takes_other_certificates_and_a_client_that_is_connected_keeps_its_lock() {
    async_test(async {
        let dir = tempfile::tempdir().unwrap();
        ca::init(dir.path(), 100).unwrap();
        let name: SiteName = "local".parse().unwrap();
        let issue = |bearer: &Bearer| ca::issue(dir.path(), bearer, 50).unwrap();
        issue(&Bearer::Site(name.clone()));
        issue(&Bearer::Site("other".parse().unwrap()));
        issue(&Bearer::Client("ci".parse().unwrap()));
        let tls = |of: &str| Tls::from_dir(dir.path().join(of)).unwrap();
        let node = Node::builder()
            .in_memory()
            .tls(tls("site-local"))
            .clients("127.0.0.1:0")
            .access(AccessRule::new("*", "*", [Verb::Acquire]))
            .start()
            .unwrap();
        let address = node.clients_address().unwrap().to_string();
        let connect = || Client::connect([Endpoint::tcp(address.as_str(), &tls("client-ci")).unwrap()]);
        let first = connect().await.unwrap();
        let guard = first.lock("orders").await.unwrap();

        std::fs::rename(dir.path().join("site-local"), dir.path().join("before")).unwrap();
        let error = node.reload_tls().unwrap_err().to_string();
        assert!(error.contains("ca.pem: cannot be read: No such file"), "{error}");
        let error = node.set_tls(&tls("site-other")).unwrap_err().to_string();
        assert!(
            error.contains("it is the certificate of the site 'other', and this is the site 'local'"),
            "{error}"
        );
        connect().await.unwrap();
        issue(&Bearer::Site(name));
        node.reload_tls().unwrap();
        node.set_tls(&tls("before")).unwrap();
        assert!(!guard.is_lost());
        assert!(
            tls("site-local").expires() > std::time::SystemTime::now()
                && tls("site-local").warnings().is_empty()
        );

        let error = node.set_revoked(&["ci".to_owned()]).unwrap_err();
        assert_eq!(error.key(), Some("revoked"));
        node.set_revoked(&["client/ci".to_owned()]).unwrap();
        eventually_async("its lock is lost", tokio::time::sleep, || guard.is_lost()).await;
        let error = connect().await.unwrap_err().to_string();
        assert!(error.contains("it is revoked"), "{error}");
        assert!(Node::local().unwrap().reload_tls().unwrap_err().to_string().contains("runs without TLS"));
    });
}

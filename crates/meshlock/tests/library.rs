//! The library: locks within one process and among the sites of a cluster on loopback.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meshlock::{AcquireError, Cluster, Guard, LossReason, Node, Refusal, StartError, Tls};
use meshlock_cluster::node::ClientAnswer;
use meshlock_cluster::table::{TraceWatch, Wait};
use meshlock_host::Listener;
use meshlock_testing::{
    Deadline, WITHIN, async_test, blocking_test, eventually, eventually_async, in_own_process, in_time,
    joined,
};
use meshlock_tls::{Bearer, ca};
use meshlock_wire::clients::{ToClient, ToNode, VERSIONS, put_to_node, take_to_client};

#[test]
fn a_local_node_grants_a_lock_and_dropping_the_guard_releases_it() {
    async_test(async {
        let node = Node::local().unwrap();
        let first = node.lock("orders").await.unwrap();
        assert!(matches!(node.try_lock("orders").await, Err(AcquireError::Busy { .. })));
        let other = node.lock("bills").await.unwrap();
        let fence = first.fence();
        assert!(!first.is_lost() && first.remaining() > first.margin() && other.name() == "bills");
        drop(first);
        let second = node.lock("orders").await.unwrap();
        assert!(second.fence() > fence);
    });
}

#[test]
fn three_sites_count_under_one_lock_and_lose_nothing() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        let (inside, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut clients = Vec::new();
        for client in 0..12 {
            let (node, inside, sum) = (cluster[client % 3].clone(), inside.clone(), sum.clone());
            clients.push(tokio::spawn(async move {
                let mut last = 0;
                for _ in 0..50 {
                    let guard = node.lock("counter").await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                    assert!(guard.fence() > last);
                    last = guard.fence();
                    tokio::task::yield_now().await;
                    sum.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            }));
        }
        for client in clients {
            client.await.unwrap();
        }
        assert_eq!(sum.load(Ordering::SeqCst), 600);
    });
}

/// Callers on other threads hear what other sites want even if the site's own thread has no time for it, as where callers keep all
/// cores busy: otherwise a site would keep a lock for as long as it wants it.
#[test]
fn a_site_whose_own_thread_is_busy_still_hands_a_lock_over() {
    blocking_test(|| {
        let cluster = Cluster::local(2).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(in_time("the cluster is ready", cluster.ready()));
        let (here, there) = (cluster[0].clone(), cluster[1].clone());
        // The sites are connected, and the lock is here.
        drop(there.lock_blocking("a").unwrap());
        drop(here.lock_blocking("a").unwrap());
        let (busy, is_busy) = std::sync::mpsc::channel();
        let (over, is_over) = std::sync::mpsc::channel::<()>();
        here.front().node().tasks().spawn(async move {
            busy.send(()).unwrap();
            let _ = is_over.recv_timeout(WITHIN);
        });
        is_busy.recv_timeout(WITHIN).unwrap();
        let entered = Arc::new(AtomicU64::new(0));
        let wanted = std::thread::spawn({
            let entered = entered.clone();
            move || {
                drop(there.lock_blocking("a").unwrap());
                entered.store(1, Ordering::SeqCst);
            }
        });
        let kept = std::thread::spawn(move || {
            while entered.load(Ordering::SeqCst) == 0 {
                // Its lease is not renewed meanwhile: a lock that is never handed over is lost at last.
                let lost = here.lock_blocking("a").map_or(true, |guard| guard.is_lost());
                if lost {
                    return true;
                }
            }
            false
        });
        // Whoever waits here waits for the thread that is busy, once the lock is handed over.
        eventually("the lock is handed over, or lost", || wanted.is_finished() || kept.is_finished());
        drop(over);
        joined("the lock is handed over", wanted);
        assert!(!joined("the other site is told", kept), "the site kept the lock until its lease was over");
    });
}

fn waiters(node: &Node) -> usize {
    node.front().node().look(|node| node.table().counts().waiters)
}

#[test]
fn a_caller_that_is_dropped_while_it_waits_leaves_no_request() {
    async_test(async {
        let node = Node::local().unwrap();
        let held = node.lock("a").await.unwrap();
        let waiting = tokio::spawn({
            let node = node.clone();
            async move { node.lock("a").await.map(drop) }
        });
        eventually_async("the caller waits", tokio::time::sleep, || waiters(&node) == 1).await;
        waiting.abort();
        assert!(waiting.await.is_err());
        assert!(waiters(&node) == 0);
        drop(held);
        assert!(node.try_lock("a").await.is_ok());
    });
}

#[test]
fn locks_work_without_async() {
    blocking_test(|| {
        let node = Node::local().unwrap();
        let held = node.lock_blocking("a").unwrap();
        let late = node.lock_within_blocking("a", Duration::from_millis(1));
        assert!(matches!(late, Err(AcquireError::TimedOut { .. })));
        let waiting = std::thread::spawn({
            let node = node.clone();
            move || node.lock_blocking("a").unwrap().fence()
        });
        let fence = held.fence();
        drop(held);
        assert!(joined("who waits has the lock", waiting) > fence);
    });
}

#[test]
fn a_semaphore_admits_as_many_as_it_has_permits() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        // A site that is not a member yet could not say that the permits are taken.
        cluster.ready().await;
        let pool = |at: usize| cluster[at].semaphore("pool", 2);
        let (first, second) = (pool(0).acquire().await.unwrap(), pool(1).acquire().await.unwrap());
        assert!(matches!(pool(2).try_acquire().await, Err(AcquireError::Busy { .. })));
        assert_ne!(first.slot(), second.slot());
        drop(first);
        let third = pool(2).acquire().await.unwrap();
        assert_ne!(third.slot(), second.slot());
        let other = cluster[0].semaphore("pool", 3).acquire().await;
        assert!(matches!(other, Err(AcquireError::Refused { why, .. }) if why.contains("2 permits")));
    });
}

#[test]
fn several_locks_are_acquired_in_one_order_whatever_order_callers_give() {
    async_test(async {
        let node = Node::local().unwrap();
        let both = |names: [&'static str; 2]| {
            let node = node.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    let guards = node.lock_all(names).await.unwrap();
                    assert_eq!(guards.iter().count(), 2);
                    tokio::task::yield_now().await;
                }
            })
        };
        let (one, other) = (both(["a", "b"]), both(["b", "a"]));
        one.await.unwrap();
        other.await.unwrap();
        assert_eq!(node.lock_all(["c", "c"]).await.unwrap().iter().count(), 1);
    });
}

#[test]
fn an_invalid_name_is_refused() {
    async_test(async {
        let node = Node::local().unwrap();
        assert!(matches!(node.lock("").await, Err(AcquireError::Name(_))));
        assert!(matches!(node.lock(&"x".repeat(256)).await, Err(AcquireError::Name(_))));
    });
}

#[test]
fn a_site_that_leaves_delays_nobody() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        cluster.ready().await;
        let held = cluster[0].lock("a").await.unwrap();
        let waiting = tokio::spawn({
            let node = cluster[1].clone();
            async move { node.lock("a").await.map(|guard| guard.fence()) }
        });
        let fence = held.fence();
        drop(held);
        cluster[0].leave().await;
        assert!(waiting.await.unwrap().unwrap() > fence);
        cluster[1].front().node().until(|state| state.open && state.members == 2).await;
        let refused = cluster[0].lock("a").await;
        assert!(matches!(refused, Err(AcquireError::Refused { cause: Refusal::Leaving, .. })), "{refused:?}");
    });
}

/// A site of three whose other two never run.
fn alone_of_three() -> Node {
    let others = [("a", "127.0.0.1:0"), ("b", "127.0.0.1:1"), ("c", "127.0.0.1:1")];
    let node = Node::builder().site("a").sites(others).plaintext().in_memory().start();
    node.expect("it needs no other site to start")
}

#[test]
fn without_a_quorum_a_lock_is_not_available_and_not_busy() {
    async_test(async {
        let node = alone_of_three();
        let tried = node.try_lock("orders").await;
        let late = node.lock_within("orders", Duration::from_millis(20)).await;
        for error in [tried.unwrap_err(), late.unwrap_err()] {
            let AcquireError::Unavailable { lock, why, .. } = &error else { panic!("{error:?}") };
            assert_eq!(lock, "orders");
            assert_eq!(why, "a is not a member of the cluster: 1 of 3 voters is reachable");
        }
    });
}

#[test]
fn a_site_that_has_begun_to_leave_goes_on_leaving_by_itself() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        cluster.ready().await;
        cluster[1].front().node().until(|state| state.open && state.members == 3).await;
        {
            let mut leaving = std::pin::pin!(cluster[0].leave());
            // Polled once, and dropped.
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(leaving.as_mut().poll(context).is_ready())
            });
            assert!(!polled.await, "the others have not agreed yet");
        }
        let refused = cluster[0].lock("a").await;
        assert!(matches!(refused, Err(AcquireError::Refused { cause: Refusal::Leaving, .. })), "{refused:?}");
        let state = cluster[1].front().node().until(|state| state.open && state.members == 2);
        in_time("the others go on without it", state).await;
        assert!(in_time("it knows that it has left", cluster[0].leave()).await);
    });
}

#[test]
fn nobody_waits_for_others_that_cannot_agree_that_a_site_leaves() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        cluster.ready().await;
        cluster[0].front().node().until(|state| state.open && state.members == 3).await;
        let first = cluster[0].clone();
        drop(cluster);
        // Without a majority it ends, however long its clients would have had.
        let left = in_time("it stops", first.shut_down(WITHIN * 2)).await;
        assert!(!left, "nobody could agree");
    });
}

fn certified(authority: &Path, site: &str) -> Tls {
    let bearer = Bearer::Site(site.parse().expect("a name"));
    let files = ca::issue(authority, &bearer, ca::BEARER_DAYS).expect("an authority");
    let [ca, cert, key] =
        [files.authority, files.certificate, files.key].map(|file| std::fs::read(file).expect("a file"));
    Tls::from_pem(&ca, &cert, &key).expect("a certificate")
}

#[test]
fn sites_with_certificates_of_one_authority_share_locks() {
    async_test(async {
        let authority = tempfile::tempdir().unwrap();
        ca::init(authority.path(), ca::AUTHORITY_DAYS).unwrap();
        let cluster =
            Cluster::local_with(3, |site, builder| builder.tls(certified(authority.path(), site))).unwrap();
        cluster.ready().await;
        let mut last = 0;
        for turn in 0..30 {
            let guard = cluster[turn % 3].lock("a").await.unwrap();
            assert!(guard.fence() > last);
            last = guard.fence();
        }
    });
}

#[test]
fn a_site_with_a_certificate_of_another_authority_is_not_heard() {
    async_test(async {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        ca::init(ours.path(), ca::AUTHORITY_DAYS).unwrap();
        ca::init(theirs.path(), ca::AUTHORITY_DAYS).unwrap();
        let cluster =
            Cluster::local_with(2, |site, builder| builder.tls(certified(ours.path(), site))).unwrap();
        cluster.ready().await;
        let address = |at: usize| cluster[at].listen_address().unwrap().to_string();
        let stranger = Node::builder()
            .site("site-3")
            .sites([("site-1", address(0)), ("site-2", address(1))])
            .listen("127.0.0.1:0")
            .advertise("127.0.0.1:1")
            .tls(certified(theirs.path(), "site-3"))
            .in_memory()
            .start()
            .unwrap();
        for turn in 0..30 {
            let _guard = cluster[turn % 2].lock("a").await.unwrap();
        }
        assert!(stranger.view().members.is_empty() && !stranger.is_ready());
        assert_eq!(cluster[0].view().members.len(), 2);
    });
}

fn on_disk(data: &Path) -> Result<Node, StartError> {
    Node::builder().site("a").data(data).start()
}

#[test]
fn a_disk_belongs_to_one_node_and_fences_of_the_next_one_are_higher() {
    async_test(async {
        let data = tempfile::tempdir().unwrap();
        let node = on_disk(data.path()).unwrap();
        let fence = node.lock("a").await.unwrap().fence();
        let second = on_disk(data.path());
        assert!(matches!(second, Err(StartError::Data { .. })), "{second:?}");
        // It leaves, so that the next one need not wait for its lease.
        node.leave().await;
        drop(node);
        let node = on_disk(data.path()).unwrap();
        assert!(node.lock("a").await.unwrap().fence() > fence);
    });
}

#[test]
fn several_first_uses_of_semaphores_at_once_are_all_agreed_on() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        let mut clients = Vec::new();
        for client in 0..12 {
            let (name, permits) = if client % 2 == 0 { ("pool", 2) } else { ("queue", 3) };
            let semaphore = cluster[client % 3].semaphore(name, permits);
            clients.push(tokio::spawn(async move { semaphore.acquire().await.map(drop) }));
        }
        for client in clients {
            client.await.unwrap().unwrap();
        }
        let rules = cluster[0].front().node().look(|node| node.view().rules.clone());
        assert_eq!(rules.rules, [], "no rule is needed");
    });
}

/// Returns why a request for another number of permits was refused.
fn refused(result: Result<Guard, AcquireError>) -> String {
    match result {
        Err(AcquireError::Refused { cause: Refusal::Permits, why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_and_a_semaphore_of_one_name_are_never_held_at_once_and_leave_nothing_behind() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        for at in 0..3 {
            drop(cluster[at].lock("y").await.unwrap());
        }
        let epoch = cluster[0].front().epoch();
        let unmarked = |at: usize| cluster[at].front().node().look(|node| node.table().is_unmarked());
        let mut fences = Vec::new();
        for round in 0..3 {
            let [first, second, third] = [0, 1, 2].map(|at| &cluster[(at + round) % 3]);
            let held = first.lock("x").await.unwrap();
            fences.push(held.fence());
            for node in [first, second, third] {
                let why = refused(node.semaphore("x", 3).acquire().await);
                assert!(why.contains("'x' is in use with 1 permit and this program expects 3"), "{why}");
            }
            assert!(matches!(second.try_lock("x").await, Err(AcquireError::Busy { .. })));
            drop(held);
            let permits = [
                first.semaphore("x", 3).acquire().await.unwrap(),
                second.semaphore("x", 3).acquire().await.unwrap(),
            ];
            fences.extend(permits.iter().map(Guard::fence));
            let why = refused(third.try_lock("x").await);
            assert!(why.contains("'x' is in use with 3 permits and this program expects 1"), "{why}");
            drop(permits);
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        eventually("nothing is left of the semaphore", || (0..3).all(unmarked));
        assert_eq!(cluster[0].front().epoch(), epoch, "no view was changed");
    });
}

#[test]
fn one_site_may_have_all_of_a_hundred_permits() {
    async_test(async {
        let cluster = Cluster::local(3).unwrap();
        for node in [&Node::local().unwrap(), &cluster[1]] {
            let pool = node.semaphore("pool", 100);
            let mut permits = Vec::new();
            for _ in 0..100 {
                permits.push(pool.acquire().await.unwrap());
            }
            assert!(matches!(pool.try_acquire().await, Err(AcquireError::Busy { .. })));
            let too_many = refused(node.semaphore("pool2", 1025).acquire().await);
            assert!(too_many.contains("give 1 to 1024"), "{too_many}");
        }
    });
}

#[test]
fn the_name_of_a_semaphore_may_look_like_a_pattern() {
    async_test(async {
        let node = Node::local().unwrap();
        let permit = node.semaphore("job-*", 2).acquire().await.unwrap();
        assert!(node.try_lock("job-1").await.is_ok(), "it stands for itself only");
        drop(permit);
    });
}

/// Sends messages over a new connection, and waits until the node has answered the last of them.
fn converse(socket: &Path, messages: &[ToNode], last: impl Fn(&ToClient) -> bool) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("a test's own set-up");
    let (mut said, mut heard) = (Vec::new(), Vec::new());
    put_to_node(
        &ToNode::Hello { version: VERSIONS.1, who: "test".parse().expect("a test's own set-up") },
        &mut said,
    );
    for message in messages {
        put_to_node(message, &mut said);
    }
    stream.write_all(&said).expect("a test's own set-up");
    stream.set_read_timeout(Some(WITHIN)).expect("a test's own set-up");
    let deadline = Deadline::default();
    loop {
        deadline.check("the node answers");
        if let Some((message, length)) = take_to_client(&heard).expect("a test's own set-up") {
            heard.drain(..length);
            if last(&message) {
                return stream;
            }
            continue;
        }
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).expect("a test's own set-up");
        assert_ne!(count, 0, "the node closed the connection");
        heard.extend_from_slice(&bytes[..count]);
    }
}

fn acquire(tag: u64) -> ToNode {
    let lock = "a".parse().expect("a test's own set-up");
    ToNode::Acquire { tag, lock, wait: Wait::Forever, permits: None }
}

#[test]
fn clients_that_disconnect_while_they_hold_leave_neither_a_lock_nor_a_descriptor() {
    in_own_process(|| {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("node.sock");
        let _node = Node::builder().in_memory().socket(&socket).start().unwrap();
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let granted = |message: &ToClient| matches!(message, ToClient::Granted { .. });
        drop(converse(&socket, &[acquire(1)], granted));
        let before = descriptors();
        for _ in 0..200 {
            drop(converse(&socket, &[acquire(1)], granted));
        }
        eventually("the descriptors of all 200 clients are closed", || descriptors() <= before);
    });
}

#[test]
fn a_request_that_is_released_before_it_is_granted_is_cancelled() {
    blocking_test(|| {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("node.sock");
        let node = Node::builder().in_memory().socket(&socket).start().unwrap();
        let held = node.lock_blocking("a").unwrap();
        let cancelled = |message: &ToClient| matches!(message, ToClient::Cancelled(1));
        let client = converse(&socket, &[acquire(1), ToNode::Release(1)], cancelled);
        drop(held);
        assert!(node.try_lock_blocking("a").is_ok());
        drop(client);
    });
}

/// Brings down the node that speaks to it.
struct Bug;

impl Listener for Bug {
    fn on_answer(&self, _: &ClientAnswer) {
        panic!("on purpose");
    }
}

#[test]
fn a_node_that_panics_tells_its_holders_and_grants_nothing_more() {
    async_test(async {
        let node = Node::local().unwrap();
        let held = node.lock("orders").await.unwrap();
        let waiting = tokio::spawn({
            let node = node.clone();
            async move { node.lock("orders").await.map(drop) }
        });
        let front = node.front();
        let session = front.open_session(&front.in_process());
        let watch = |request| TraceWatch { session, request, pattern: None, states: false };
        front.watch(&front.in_process(), Arc::new(Bug), watch).unwrap();
        assert_eq!(held.lost().await.reason, LossReason::NodeFailed);
        assert!(held.is_lost());
        let failed = |error| matches!(error, AcquireError::Refused { cause: Refusal::NodeFailed, .. });
        assert!(waiting.await.unwrap().is_err_and(failed));
        assert!(node.lock("bills").await.is_err_and(failed));
        assert!(node.front().node().until(|state| state.failed).await.failed);
        node.leave().await;
    });
}

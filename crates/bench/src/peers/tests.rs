//! Each client against the service that it is for, where that is installed.

use std::time::Duration;

use super::{etcd, redis, redlock, zookeeper};
use crate::sides::Peer;
use crate::system::{System, contended, many_locks};

/// Whether a test can run: where everything must, a peer that is not installed fails it.
fn is_there(peer: Peer) -> bool {
    let there = peer.is_installed();
    let all = std::env::var_os("MESHLOCK_ALL_TESTS").is_some();
    assert!(there || !all, "{} is not installed: {}", peer.name(), peer.how_to_install());
    if !there {
        eprintln!("not tested, {} is not installed: {}", peer.name(), peer.how_to_install());
    }
    there
}

/// Clients fight for one lock and for several; the counter under each must not lose anything.
async fn excludes(system: impl System) {
    let window = Duration::from_millis(200);
    let run = contended(&system, 5, window).await.unwrap();
    assert!(run.entries_per_second > 0.0);
    assert!(many_locks(&system, 3, 4, window).await.unwrap() > 0.0);
}

#[tokio::test]
async fn etcd_excludes_and_its_fences_grow() {
    if is_there(Peer::Etcd) {
        excludes(etcd::Etcd::start().await.unwrap()).await;
    }
}

#[tokio::test]
async fn redis_excludes_whether_polled_or_told() {
    if is_there(Peer::RedisPolling) {
        excludes(redis::Redis::<false>::start().await.unwrap()).await;
        excludes(redis::Redis::<true>::start().await.unwrap()).await;
    }
}

#[tokio::test]
async fn redlock_excludes() {
    if is_there(Peer::Redlock) {
        excludes(redlock::Redlock::start().await.unwrap()).await;
    }
}

/// Nowhere required: it brings a Java runtime.
#[tokio::test]
async fn zookeeper_excludes_and_its_fences_grow() {
    if Peer::ZooKeeper.is_installed() {
        excludes(zookeeper::ZooKeeper::start().await.unwrap()).await;
    } else {
        eprintln!("not tested, ZooKeeper is not installed: {}", Peer::ZooKeeper.how_to_install());
    }
}

//! Tests each client against its service, if that is installed.

use std::time::Duration;

use super::{etcd, redis, redlock, zookeeper};
use crate::sides::PeerService;
use crate::system::{System, contended, many_locks};

/// Returns whether the peer is installed. With `MESHLOCK_ALL_TESTS` a missing peer fails the test.
fn is_there(peer: PeerService) -> bool {
    let there = peer.is_installed();
    let all = std::env::var_os("MESHLOCK_ALL_TESTS").is_some();
    assert!(there || !all, "{} is not installed: {}", peer.name(), peer.how_to_install());
    if !there {
        eprintln!("not tested, {} is not installed: {}", peer.name(), peer.how_to_install());
    }
    there
}

/// Clients compete for one lock and for several; the counter under each must not lose an update.
async fn excludes(system: impl System) {
    let window = Duration::from_millis(200);
    let run = contended(&system, 5, window).await.unwrap();
    assert!(run.entries_per_second > 0.0);
    assert!(many_locks(&system, 3, 4, window).await.unwrap() > 0.0);
}

#[tokio::test]
async fn etcd_excludes_and_its_fences_grow() {
    if is_there(PeerService::Etcd) {
        excludes(etcd::Etcd::start().await.unwrap()).await;
    }
}

#[tokio::test]
async fn redis_excludes_whether_polled_or_told() {
    if is_there(PeerService::RedisPolling) {
        excludes(redis::Redis::<false>::start().await.unwrap()).await;
        excludes(redis::Redis::<true>::start().await.unwrap()).await;
    }
}

#[tokio::test]
async fn redlock_excludes() {
    if is_there(PeerService::Redlock) {
        excludes(redlock::Redlock::start().await.unwrap()).await;
    }
}

/// Never required, because it needs a Java runtime.
#[tokio::test]
async fn zookeeper_excludes_and_its_fences_grow() {
    if PeerService::ZooKeeper.is_installed() {
        excludes(zookeeper::ZooKeeper::start().await.unwrap()).await;
    } else {
        eprintln!("not tested, ZooKeeper is not installed: {}", PeerService::ZooKeeper.how_to_install());
    }
}

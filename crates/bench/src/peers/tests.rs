//! Tests each client against its service, if that is installed.

use std::time::Duration;

use meshlock_testing::{async_test, in_time, skip};

use super::{etcd, redis, redlock, zookeeper};
use crate::sides::PeerService;
use crate::system::{System, contended};
use crate::workload::Workload;

/// Whether a test can run that needs this peer. If not, it is skipped.
fn is_there(peer: PeerService) -> bool {
    let there = peer.is_installed();
    if !there {
        skip(peer.name(), peer.how_to_install());
    }
    there
}

/// Clients compete for one lock and for several; the counter under each must not lose an update.
async fn excludes(system: impl System) {
    let window = Duration::from_millis(200);
    let run = in_time("clients compete for one lock", contended(&system, 5, window)).await.unwrap();
    assert!(run.entries_per_second > 0.0);
    let several = Workload::new(4, 3, 0.99, Duration::from_micros(20));
    let run = in_time("clients compete for several locks", several.run(&system, window)).await.unwrap();
    assert!(run.entries_per_second > 0.0);
}

#[test]
fn etcd_excludes_and_its_fences_grow() {
    async_test(async {
        if is_there(PeerService::Etcd) {
            excludes(etcd::Etcd::start().await.unwrap()).await;
        }
    });
}

#[test]
fn redis_excludes_whether_polled_or_told() {
    async_test(async {
        if is_there(PeerService::RedisPolling) {
            excludes(redis::Redis::<false>::start().await.unwrap()).await;
            excludes(redis::Redis::<true>::start().await.unwrap()).await;
        }
    });
}

#[test]
fn redlock_excludes() {
    async_test(async {
        if is_there(PeerService::Redlock) {
            excludes(redlock::Redlock::start().await.unwrap()).await;
        }
    });
}

/// `cargo xtask ci` leaves this test out by its name, because ZooKeeper brings a Java runtime. `cargo xtask soak --only zookeeper` runs it.
#[test]
fn zookeeper_excludes_and_its_fences_grow() {
    async_test(async {
        if is_there(PeerService::ZooKeeper) {
            excludes(zookeeper::ZooKeeper::start().await.unwrap()).await;
        }
    });
}

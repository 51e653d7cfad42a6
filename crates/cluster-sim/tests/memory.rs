//! Memory of an idle lock at a site, counted by the allocator.

mod cluster;

use cluster::Cluster;
use meshlock_cluster::names::LockName;

/// Number of locks: a 64th of a million, so that the test is quick. Tables grow by doubling, so they are as full as with a million.
const LOCKS: u32 = 1_000_000 / 64;
/// Bytes that an idle lock may take.
const MAX_BYTES: i64 = 500;

/// Returns the bytes of a lock at each of `sites` sites after a client of the last one has used it once.
fn bytes_of_an_idle_lock(sites: usize, algorithm: &str) -> i64 {
    let mut cluster = Cluster::open(sites, algorithm);
    let names: Vec<LockName> =
        (0..LOCKS).map(|number| format!("backup/host-{number:06}").parse().expect("a name")).collect();
    let used = allocation_counter::measure(|| {
        for lock in &names {
            let request = cluster.acquire(sites - 1, lock);
            cluster.settle();
            assert!(cluster.is_granted(request), "{lock} is free");
            cluster.release(sites - 1, request);
            cluster.settle();
        }
    });
    let touched: usize = cluster.nodes.iter().map(|node| node.table().counts().locks).sum();
    used.bytes_current / i64::try_from(touched).expect("it fits")
}

#[test]
fn a_million_idle_locks_take_less_than_500_bytes_each_at_every_site() {
    for sites in [1, 3, 9] {
        let bytes = bytes_of_an_idle_lock(sites, "naimi-trehel");
        assert!(bytes < MAX_BYTES, "{sites} sites: {bytes} bytes");
    }
}

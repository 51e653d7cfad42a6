//! Memory of an idle lock and of a held one at a site, counted by the allocator.

use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{ClientCall, Input};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::Request;
use meshlock_cluster::time::Span;
use meshlock_wire::sites::{decode_packet, encode_packet};

use crate::cluster::Cluster;

/// The newest version of the format between sites.
const VERSION: u16 = meshlock_wire::sites::VERSIONS.1;

/// Number of locks: a 64th of a million, so that the test is quick. Tables grow by doubling, so they are as full as with a million.
const LOCKS: u32 = 1_000_000 / 64;
/// Bytes that an idle lock may take.
const MAX_BYTES: i64 = 500;
/// Bytes that a held lock may take at the site whose client holds it.
const MAX_HELD_BYTES: i64 = 700;
/// Bytes that it may take at each other site after a view change: who holds it.
const MAX_REMEMBERED_BYTES: i64 = 200;

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

/// Returns the bytes at all of `sites` sites together for a lock that a client of the last one holds, after a view change.
fn bytes_of_a_held_lock(sites: usize) -> i64 {
    let mut cluster = Cluster::open(sites, "naimi-trehel");
    // Sites share no memory: what one tells another is written and read.
    cluster.tamper(|_, packet| {
        vec![decode_packet(&encode_packet(&packet, VERSION), VERSION).expect("a packet")]
    });
    let used = allocation_counter::measure(|| {
        for number in 0..LOCKS {
            let lock = format!("backup/host-{number:06}").parse().expect("a name");
            let request = cluster.acquire(sites - 1, &lock);
            cluster.settle();
            assert!(cluster.is_granted(request), "{lock} is free");
        }
        let before = cluster.nodes[0].view().epoch;
        let rules = RulesText { rules: Vec::new(), default: Clause::exclusive("lamport") };
        cluster.input(0, Input::Call(ClientCall::SetRules { request: Request(u64::MAX), rules }));
        cluster.pass(Span::from_millis(1000));
        assert!(cluster.nodes.iter().all(|node| node.is_open() && node.view().epoch > before));
        cluster.told = Vec::new();
    });
    assert_eq!(cluster.nodes[sites - 1].table().counts().holders, LOCKS as usize);
    used.bytes_current / i64::from(LOCKS)
}

#[test]
fn a_held_lock_takes_less_than_700_bytes_at_its_site_and_less_than_200_at_others() {
    let alone = bytes_of_a_held_lock(1);
    assert!(alone < MAX_HELD_BYTES, "{alone} bytes");
    let together = bytes_of_a_held_lock(3);
    assert!(together < alone + 2 * MAX_REMEMBERED_BYTES, "{together} bytes at three sites, {alone} at one");
}

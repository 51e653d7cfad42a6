//! The cost of a client's call at a node that has the token of the lock and need not ask any other.
//!
//! Run with `cargo bench -p meshlock-cluster-sim --bench handle`. Both calls together, acquire and release, should stay
//! below a microsecond for a lock in use, whichever site leads. Among many idle locks the latency of memory dominates,
//! and it takes longer.
#![allow(clippy::disallowed_types, reason = "what the benchmark's macros are made of")]

#[path = "../tests/scenarios/cluster.rs"]
mod cluster;

use std::cell::RefCell;
use std::rc::Rc;

use cluster::Cluster;
use divan::Bencher;
use meshlock_cluster::names::LockName;
use meshlock_wire::sites::{append_packet, decode_packet};

fn main() {
    divan::main();
}

/// A single site, which leads, and one of three sites.
#[divan::bench(args = [1, 3], sample_size = 1000)]
fn acquire_and_release_a_lock_whose_token_is_here(bencher: Bencher<'_, '_>, sites: usize) {
    let mut cluster = Cluster::open(sites, "naimi-trehel");
    let lock: LockName = "jobs".parse().expect("a name");
    let at = sites - 1;
    let first = cluster.acquire(at, &lock);
    cluster.settle();
    assert!(cluster.is_granted(first));
    cluster.release(at, first);
    cluster.settle();
    bencher.bench_local(|| {
        let request = cluster.acquire(at, &lock);
        cluster.release(at, request);
        assert!(cluster.is_granted(request), "without asking anyone");
    });
}

/// Encodes and decodes a message of a lock's machine, in each version of the wire: in the second it carries the
/// acquisition for which it was sent.
#[divan::bench(args = [1, 2], sample_size = 1000)]
fn write_and_read_a_message_of_a_lock(bencher: Bencher<'_, '_>, version: u16) {
    let mut cluster = Cluster::open(2, "naimi-trehel");
    let seen = Rc::new(RefCell::new(Vec::new()));
    let copies = seen.clone();
    cluster.tamper(move |_, packet| {
        if packet.content.lock_message().is_some() {
            copies.borrow_mut().push(packet.clone());
        }
        vec![packet]
    });
    for at in 0..2 {
        let request = cluster.acquire(at, &"jobs".parse().expect("a name"));
        cluster.settle();
        cluster.release(at, request);
        cluster.settle();
    }
    let packet = seen.borrow().first().cloned().expect("one of them had to ask");
    let mut bytes = Vec::new();
    bencher.bench_local(|| {
        bytes.clear();
        bytes = append_packet(&packet, version, std::mem::take(&mut bytes));
        decode_packet(&bytes, version).expect("a packet")
    });
}

/// A lock whose token is at this node, among a hundred thousand locks that were used once.
#[divan::bench(sample_size = 1000)]
fn acquire_and_release_among_many_idle_locks(bencher: Bencher<'_, '_>) {
    let mut cluster = Cluster::open(1, "naimi-trehel");
    let lock = |number: u32| -> LockName { format!("lock/{number}").parse().expect("a name") };
    for number in 0..100_000 {
        let request = cluster.acquire(0, &lock(number));
        cluster.release(0, request);
    }
    let names: Vec<LockName> = (0..100_000).map(lock).collect();
    let mut next = 0;
    bencher.bench_local(|| {
        next = (next + 7919) % names.len();
        let request = cluster.acquire(0, &names[next]);
        cluster.release(0, request);
        assert!(cluster.is_granted(request), "without asking anyone");
    });
}

//! What many held locks cost a node that does something else, and what they cost a view change.
//!
//! Run with `cargo bench -p meshlock-cluster-sim --bench scale`. A second of a site that renews its lease costs the same
//! with 200,000 locks held as with none. A view change costs what its census takes: to write, to read and to remember.
#![allow(clippy::disallowed_types, reason = "what the benchmark's macros are made of")]

#[path = "../tests/scenarios/cluster.rs"]
mod cluster;

use cluster::Cluster;
use divan::Bencher;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{ClientCall, Input, Node};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::table::Request;
use meshlock_cluster::time::Span;
use meshlock_wire::sites::{decode_packet, encode_packet};

/// Numbers of locks that are held.
const HELD: [u32; 3] = [0, 20_000, 200_000];

/// The newest version of the format between sites.
const VERSION: u16 = meshlock_wire::sites::VERSIONS.1;

fn main() {
    divan::main();
}

/// Returns a cluster of three sites whose clients hold this many locks, a third of them at each site.
fn holding(held: u32) -> Cluster {
    let mut cluster = Cluster::open(3, "naimi-trehel");
    for number in 0..held {
        let lock: LockName = format!("backup/host-{number:06}").parse().expect("a name");
        let request = cluster.acquire(number as usize % 3, &lock);
        cluster.settle();
        assert!(cluster.is_granted(request), "{lock} is free");
    }
    cluster
}

/// Lets a cluster be idle for a second, in which every site renews its lease.
#[divan::bench(args = HELD, sample_count = 20)]
fn a_second_with_renewals(bencher: Bencher<'_, '_>, held: u32) {
    let mut cluster = holding(held);
    bencher.bench_local(|| cluster.pass(Span::from_millis(1000)));
    let holders: usize = cluster.nodes.iter().map(|node| node.table().counts().holders).sum();
    assert_eq!(holders, held as usize, "nothing was lost");
}

/// Changes the rules, which takes a new view: from the call until all three sites are open again, one after the other on
/// one core. Every packet is written and read as between real sites.
#[divan::bench(args = HELD, sample_count = 10)]
fn a_view_change_of_three_sites(bencher: Bencher<'_, '_>, held: u32) {
    let mut cluster = holding(held);
    cluster.tamper(|_, packet| {
        vec![decode_packet(&encode_packet(&packet, VERSION), VERSION).expect("a packet")]
    });
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        let rules = RulesText {
            rules: vec![(format!("round/{number}"), Clause::exclusive("lamport"))],
            default: Clause::exclusive("naimi-trehel"),
        };
        let before = cluster.nodes[0].view().epoch;
        cluster.input(0, Input::Call(ClientCall::SetRules { request: Request(u64::MAX - number), rules }));
        cluster.settle();
        let is_open = |node: &Node| node.is_open() && node.view().epoch > before;
        assert!(cluster.nodes.iter().all(is_open), "without waiting for a timeout");
    });
    let holders: usize = cluster.nodes.iter().map(|node| node.table().counts().holders).sum();
    assert_eq!(holders, held as usize, "nothing was lost");
}

//! Malformed input: decoders must not panic, and a site that sends malformed packets must not make the nodes of other sites panic.
//!
//! The bytes of packets are mutated on their way, as a fuzzer does. What still decodes is mostly a packet of the right kind with
//! wrong numbers in it: other incarnations, other views, other clocks, other sites, other permits. A site that lies may still get
//! locks that it should not have; these tests only check that the other sites neither panic nor use unbounded memory.

use allocation_counter::measure;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{Input, Packet};
use meshlock_cluster::rules::Clause;
use meshlock_cluster::time::Span;
use meshlock_protocol::registry::{self, info::Permits};
use meshlock_wire::fuzz::{self, TARGETS, change};
use meshlock_wire::sites::{VERSIONS, decode_packet, encode_packet};

use crate::cluster::Cluster;

/// Number of schedules for each algorithm and lying site. Many more were run once.
const SEEDS: u64 = 6;

/// Number of locks that clients use. Mutated packets may name others.
const LOCKS: usize = 3;

/// Returns what arrives instead of a packet of the lying site: the packet, a mutation of it, an earlier packet, or nothing.
fn lie(packet: &Packet, said: &mut Vec<Packet>, random: &mut fastrand::Rng) -> Vec<Packet> {
    let mut arriving = Vec::new();
    let old = if said.is_empty() { packet } else { &said[random.usize(..said.len())] };
    for model in [packet, old] {
        let mut bytes = encode_packet(model, VERSIONS.1);
        if random.u8(..4) > 0 {
            change(&mut bytes, random);
        }
        arriving.extend(decode_packet(&bytes, VERSIONS.1));
    }
    if said.len() < 1000 {
        said.push(packet.clone());
    }
    arriving
}

/// Runs one schedule. Returns the number of mutated packets that could be decoded.
fn run(clause: &Clause, liar: usize, seed: u64) -> usize {
    let mut cluster = Cluster::open_with(3, clause);
    let mut random = fastrand::Rng::with_seed(seed);
    let lies = std::rc::Rc::new(std::cell::Cell::new(0));
    let (mut said, mut source, counted) = (Vec::new(), random.fork(), lies.clone());
    cluster.tamper(move |from, packet| {
        if from != liar {
            return vec![packet];
        }
        let arriving = lie(&packet, &mut said, &mut source);
        counted.set(counted.get() + arriving.iter().filter(|arrived| **arrived != packet).count());
        arriving
    });
    let names: Vec<LockName> =
        (0..LOCKS).map(|number| format!("lock/{number}").parse().expect("a name")).collect();
    let mut held = Vec::new();
    for _ in 0..60 {
        match random.u8(..4) {
            0 | 1 => {
                let at = random.usize(..3);
                held.push((at, cluster.acquire(at, &names[random.usize(..LOCKS)])));
            }
            2 if !held.is_empty() => {
                let (at, request) = held.swap_remove(random.usize(..held.len()));
                cluster.release(at, request);
            }
            _ => cluster.pass(Span::from_millis(random.u64(1..700))),
        }
        cluster.settle();
    }
    // The number of made-up locks is bounded by the number of packets.
    for at in (0..3).filter(|&at| at != liar) {
        cluster.input(at, Input::Time);
        let counts = cluster.nodes[at].table().counts();
        assert!(counts.locks <= LOCKS + lies.get(), "site {at} keeps {} locks", counts.locks);
    }
    lies.get()
}

#[test]
fn a_site_that_sends_malformed_packets_makes_no_other_site_panic() {
    let mut lies = 0;
    for info in registry::ALL {
        let mut clauses = vec![Clause::exclusive(info.name)];
        if info.permits != Permits::One {
            clauses.push(Clause { algorithm: info.name.to_owned(), permits: 2, per_site: 2 });
        }
        for (clause, seed) in clauses.iter().flat_map(|clause| (0..SEEDS).map(move |seed| (clause, seed))) {
            for liar in 0..3 {
                lies += run(clause, liar, seed);
            }
        }
    }
    assert!(lies > 10_000, "only {lies} lies could be read");
}

/// Number of mutated inputs for each decoder, unless `MESHLOCK_FUZZ_CASES` is set. The fuzzers in `fuzz/` run for as long as desired.
const CASES: usize = 20_000;

/// Bytes that a decoder may allocate: `serde` reserves up to a mebibyte for each list whose length it reads, and lists nest.
const MAX_AT_ONCE: u64 = 8 << 20;

#[test]
#[allow(clippy::disallowed_methods, reason = "a test may be told by the environment how long to go on")]
fn no_decoder_is_brought_down_by_changed_bytes_or_takes_memory_that_they_do_not_pay_for() {
    let cases = std::env::var("MESHLOCK_FUZZ_CASES").map_or(CASES, |text| text.parse().unwrap());
    for target in TARGETS {
        let models = (target.models)();
        fuzz::drive(&models, 1, cases, |bytes| {
            let used = measure(|| (target.run)(bytes));
            assert_eq!(used.bytes_current, 0, "{} keeps memory after {bytes:?}", target.name);
            assert!(
                used.bytes_max <= MAX_AT_ONCE,
                "{} takes {} after {bytes:?}",
                target.name,
                used.bytes_max
            );
        });
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test may look at the project's own files")]
fn every_decoder_can_be_driven_by_coverage_too() {
    for target in TARGETS {
        let file = format!("{}/../../fuzz/fuzz_targets/{}.rs", env!("CARGO_MANIFEST_DIR"), target.name);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fuzz::run(\"{}\"", target.name)), "{file} drives something else");
    }
}

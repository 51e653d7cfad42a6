//! Nonsense: no decoder is brought down by it, and of a site that sends it whatever passes for a packet reaches the machines of the
//! others, and brings none of them down.
//!
//! Its bytes are changed on their way, as a fuzzer would. What can still be read is mostly a packet of the right kind with
//! wrong numbers in it: other lives, other views, other clocks, other sites, other permits. Nothing is said here about what a
//! lying site can take; only that the others neither panic nor grow.

#[allow(dead_code, reason = "benchmarks use the rest")]
mod cluster;

use allocation_counter::measure;
use cluster::Cluster;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{Input, Packet};
use meshlock_cluster::rules::Clause;
use meshlock_cluster::time::Span;
use meshlock_protocol::registry::{self, info::Permits};
use meshlock_wire::fuzz::{self, TARGETS, change};
use meshlock_wire::sites::{VERSIONS, decode_packet, encode_packet};

/// How many schedules there are for each algorithm and liar. Many more were tried once.
const SEEDS: u64 = 6;

/// How many locks its clients use; others may be made up.
const LOCKS: usize = 3;

/// What arrives of a packet of the liar: it, something like it, something that it said before, or nothing.
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

/// One run; gives back how many packets were read that were not what was sent.
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
    // Whatever was made up is bounded by what was said.
    for at in (0..3).filter(|&at| at != liar) {
        cluster.input(at, Input::Time);
        let counts = cluster.nodes[at].table().counts();
        assert!(counts.locks <= LOCKS + lies.get(), "site {at} keeps {} locks", counts.locks);
    }
    lies.get()
}

#[test]
fn a_site_that_sends_nonsense_brings_no_other_down() {
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

/// How many changed models each decoder reads here, unless `MESHLOCK_FUZZ_CASES` says otherwise. `fuzz/` goes on for as long as
/// one likes.
const CASES: usize = 20_000;

/// What a decoder may take at once: `serde` sets aside up to a mebibyte for each list whose length it is told, and lists nest.
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

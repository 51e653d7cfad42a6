//! The event queue against the standard library's heap of whole events.
//!
//! The "hold" model: the queue keeps its size, each step takes the earliest event out and puts it in again a random time
//! later.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hint::black_box;

use meshlock_protocol::algorithms::ricart_agrawala::RicartAgrawala;
use meshlock_sim::Time;
use meshlock_sim::draw::Draw;
use meshlock_sim::engine::event_bytes;
use meshlock_sim::queue::EventQueue;

use crate::{ROUNDS, median, timed};

const STEPS: u32 = 2_000_000;

/// As large as an event of `ricart-agrawala`, which is checked before anything is measured.
type Event = [u64; 8];

/// An entry of the standard heap: the earliest first, equal times in the order of putting in.
struct Entry {
    time: Time,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.sequence).cmp(&(self.time, self.sequence))
    }
}

/// Steps per CPU second of our queue.
fn ours(size: u32) -> f64 {
    let mut draw = Draw::new(1);
    let mut queue = EventQueue::default();
    for number in 0..size {
        queue.push(Time::units(draw.fraction()), [u64::from(number); 8]);
    }
    let ((), seconds) = timed(|| {
        for _ in 0..STEPS {
            let (time, event) = queue.pop().expect("the queue keeps its size");
            queue.push(time + Time::units(draw.fraction()), black_box(event));
        }
    });
    f64::from(STEPS) / seconds
}

/// Steps per CPU second of the standard heap.
fn standard(size: u32) -> f64 {
    let mut draw = Draw::new(1);
    let mut queue = BinaryHeap::new();
    let mut sequence = 0;
    let mut entry = |time, event| {
        sequence += 1;
        Entry { time, sequence, event }
    };
    for number in 0..size {
        queue.push(entry(Time::units(draw.fraction()), [u64::from(number); 8]));
    }
    let ((), seconds) = timed(|| {
        for _ in 0..STEPS {
            let Entry { time, event, .. } = queue.pop().expect("the queue keeps its size");
            queue.push(entry(time + Time::units(draw.fraction()), black_box(event)));
        }
    });
    f64::from(STEPS) / seconds
}

pub(crate) fn print() {
    let bytes = event_bytes::<RicartAgrawala>();
    assert_eq!(bytes, size_of::<Event>(), "an event has another size than the ones here");
    println!("event queue, events of {bytes} bytes: million steps (one out, one in) per CPU second");
    println!("  {:>9} {:>8} {:>12} {:>6}", "waiting", "ours", "BinaryHeap", "ratio");
    for size in [10, 100, 10_000, 1_000_000] {
        let ours = median((0..ROUNDS).map(|_| ours(size)));
        let standard = median((0..ROUNDS).map(|_| standard(size)));
        println!("  {size:>9} {:>8.1} {:>12.1} {:>6.2}", ours / 1e6, standard / 1e6, ours / standard);
    }
    println!();
}

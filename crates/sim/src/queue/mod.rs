//! The event queue, in two parts that share one order.
//!
//! Most events are inserted in the order of their times: where every message takes as long, the one that is sent later
//! arrives later. Those wait in a [`Lane`], first in, first out, which costs neither comparisons nor jumps in memory. All
//! others wait in an [`EventQueue`]: a heap of small keys over a slab of events, and buckets for those that are far.
//!
//! A key is one 128-bit number, (time, sequence, place in the slab), so that a comparison takes two instructions and
//! events at the same time are removed in the order in which they were inserted, wherever they wait.
//! `cargo bench -p meshlock-sim` compares the queue with the standard library's `BinaryHeap` of whole events.

mod far;
mod heap;
mod keys;
mod lane;

use crate::time::Time;
use keys::KeyQueue;
pub use lane::Lane;

const PLACE_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 40;

/// When an event is due, and its place among those that are due at the same time.
pub type Key = u128;

/// The key of no event: later than all of them.
pub const NEVER: Key = Key::MAX;

/// Events in the order of their times.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    keys: KeyQueue,
    slab: Vec<Option<E>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { keys: KeyQueue::default(), slab: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Inserts `event` at `time`.
    pub fn push(&mut self, time: Time, event: E) {
        let place = self.place(event);
        let key = self.next_key(time) | Key::from(place);
        self.keys.push(key);
    }

    /// The key of the earliest event; [`NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> Key {
        self.keys.first()
    }

    /// Removes the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let first = self.keys.pop()?;
        #[expect(clippy::cast_possible_truncation, reason = "the place is taken out of the key")]
        let place = (first as u32) & ((1 << PLACE_BITS) - 1);
        self.free.push(place);
        let event = self.slab[place as usize].take().expect("a key's place is filled until it is popped");
        Some((time_of(first), event))
    }

    /// The key of an event that is inserted now: here, or in a lane.
    #[inline]
    pub fn next_key(&mut self, time: Time) -> Key {
        self.sequence += 1;
        assert!(self.sequence >> SEQUENCE_BITS == 0, "a run has fewer than 2^{SEQUENCE_BITS} events");
        Key::from(time.ticks()) << 64 | Key::from(self.sequence << PLACE_BITS)
    }

    fn place(&mut self, event: E) -> u32 {
        if let Some(place) = self.free.pop() {
            self.slab[place as usize] = Some(event);
            return place;
        }
        let place = u32::try_from(self.slab.len()).expect("fewer than 2^32 events wait at once");
        assert!(place >> PLACE_BITS == 0, "fewer than 2^{PLACE_BITS} events wait at once outside the lanes");
        self.slab.push(Some(event));
        place
    }
}

/// The time of a key.
#[inline]
pub fn time_of(key: Key) -> Time {
    Time::from_ticks(ticks(key))
}

/// The time of a key, in ticks.
#[inline]
fn ticks(key: Key) -> u64 {
    (key >> 64) as u64
}

#[cfg(test)]
mod tests;

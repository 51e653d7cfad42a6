//! The event queue: a heap of small keys over a slab of events.
//!
//! A key is one 128-bit number, (time, sequence, place in the slab), so that a comparison takes two instructions and
//! events at the same time are removed in the order in which they were inserted. Events themselves never move.
//! It was measured to be faster than the standard library's `BinaryHeap` of whole events as soon as an event is
//! larger than a key; `cargo bench -p meshlock-sim` shows both.

use crate::time::Time;

const PLACE_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 40;
const ARITY: usize = 4;

/// Events in the order of their times.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    keys: Keys,
    slab: Vec<Option<E>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { keys: Keys::default(), slab: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Inserts `event` at `time`.
    pub fn push(&mut self, time: Time, event: E) {
        let place = self.place(event);
        self.sequence += 1;
        assert!(self.sequence >> SEQUENCE_BITS == 0, "a run has fewer than 2^{SEQUENCE_BITS} events");
        let order = self.sequence << PLACE_BITS | u64::from(place);
        self.keys.push(u128::from(time.ticks()) << 64 | u128::from(order));
    }

    /// Removes the earliest event.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let first = self.keys.pop()?;
        #[expect(clippy::cast_possible_truncation, reason = "the halves of the key are taken apart")]
        let (time, place) = ((first >> 64) as u64, (first as u32) & ((1 << PLACE_BITS) - 1));
        self.free.push(place);
        let event = self.slab[place as usize].take().expect("a key's place is filled until it is popped");
        Some((Time::from_ticks(time), event))
    }

    fn place(&mut self, event: E) -> u32 {
        if let Some(place) = self.free.pop() {
            self.slab[place as usize] = Some(event);
            return place;
        }
        let place = u32::try_from(self.slab.len()).expect("fewer than 2^32 events wait at once");
        assert!(place >> PLACE_BITS == 0, "fewer than 2^{PLACE_BITS} events wait at once");
        self.slab.push(Some(event));
        place
    }
}

/// A heap of keys, the smallest first; it does not depend on the type of the events and is compiled once.
#[derive(Clone, Debug, Default)]
struct Keys(Vec<u128>);

impl Keys {
    fn push(&mut self, key: u128) {
        let mut at = self.0.len();
        self.0.push(key);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.0[parent] <= key {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = key;
    }

    fn pop(&mut self) -> Option<u128> {
        let first = *self.0.first()?;
        let last = self.0.pop().expect("there is a first");
        if !self.0.is_empty() {
            self.0[0] = last;
            self.sink();
        }
        Some(first)
    }

    fn sink(&mut self) {
        let (key, length) = (self.0[0], self.0.len());
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            if first >= length {
                break;
            }
            let children = &self.0[first..length.min(first + ARITY)];
            let (offset, least) = children
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|&(_, child)| child)
                .expect("at least one child");
            if key <= least {
                break;
            }
            self.0[at] = least;
            at = first + offset;
        }
        self.0[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn events_come_out_by_time_and_then_in_the_order_of_putting_in() {
        let mut draw = Draw::new(1);
        let mut queue = EventQueue::default();
        let mut expected: Vec<(u64, usize)> = Vec::new();
        for number in 0..1000 {
            let time = draw.below(50) as u64;
            queue.push(Time::from_ticks(time), number);
            expected.push((time, number));
            if draw.below(3) == 0 {
                expected.sort_unstable();
                let (time, event) = queue.pop().expect("one was just put in");
                assert_eq!((time.ticks(), event), expected.remove(0));
            }
        }
        expected.sort_unstable();
        for (time, event) in expected {
            assert_eq!(queue.pop(), Some((Time::from_ticks(time), event)));
        }
        assert_eq!(queue.pop(), None);
        assert!(queue.keys.0.is_empty());
    }
}

//! Events that are inserted in the order of their times.

use std::collections::VecDeque;

use super::{Key, NEVER, time_of};
use crate::time::Time;

/// A queue for events each of which is due no earlier than the one before it.
#[derive(Clone, Debug)]
pub struct Lane<E> {
    events: VecDeque<(Key, E)>,
    /// The key of the earliest event: it is compared at every step of a run.
    first: Key,
}

impl<E> Default for Lane<E> {
    fn default() -> Self {
        Lane { events: VecDeque::new(), first: NEVER }
    }
}

impl<E> Lane<E> {
    /// Whether an event at `time` would be the last.
    #[inline]
    pub fn takes(&self, time: Time) -> bool {
        self.events.back().is_none_or(|(last, _)| time_of(*last) <= time)
    }

    /// Inserts an event, which comes after all that are here.
    #[inline]
    pub fn push(&mut self, key: Key, event: E) {
        debug_assert!(self.takes(time_of(key)), "a lane is in the order of the times");
        self.first = self.first.min(key);
        self.events.push_back((key, event));
    }

    /// The key of the earliest event; [`NEVER`] if there is none.
    #[inline]
    pub fn first(&self) -> Key {
        self.first
    }

    /// The earliest event.
    #[inline]
    pub fn first_mut(&mut self) -> Option<&mut E> {
        self.events.front_mut().map(|(_, event)| event)
    }

    /// The event that was inserted last.
    #[inline]
    pub fn last_mut(&mut self) -> Option<&mut E> {
        self.events.back_mut().map(|(_, event)| event)
    }

    /// Removes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let (_, event) = self.events.pop_front()?;
        self.first = self.events.front().map_or(NEVER, |(key, _)| *key);
        Some(event)
    }
}

//! Numbers that only grow, such as clocks and counts, and how they become relative to the smallest of their family.
//!
//! The sites of most algorithms number their requests. In a run without end no state comes back then, although nothing but the numbers
//! differs. Algorithms compare such numbers with each other and count on from them, nothing else: if all numbers of a family become
//! smaller by the same amount, at all sites and in all messages, everything that can follow is the same, apart from the numbers.
//!
//! An algorithm names its numbers in [`Algorithm::numbers`](crate::Algorithm::numbers) and
//! [`Message::numbers`](crate::Message::numbers). The explorer subtracts, and checks that the same steps follow.

use crate::{Clock, Count, SiteId, Timestamp};

/// Numbers that are compared with each other. Those of different families never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Clocks and timestamps.
    Clock,
    /// What is counted at or for this site, such as its requests.
    Site(SiteId),
    /// What the first of these sites counts of the second one.
    Pair(SiteId, SiteId),
    /// What is counted of this token or of its kind, such as its hand-overs.
    Token(usize),
}

/// What a number is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is counted on from, or is what others are compared with.
    Counted,
    /// It is only compared with counted ones, to see whether those are newer. Where it falls behind all of them it does not matter by how
    /// much.
    Remembered,
}

/// Visits numbers, and may change them.
pub struct Numbers<'a>(&'a mut dyn FnMut(Family, Use, &mut u64));

impl<'a> Numbers<'a> {
    /// A visit that calls `each` with every number.
    pub fn new(each: &'a mut dyn FnMut(Family, Use, &mut u64)) -> Self {
        Numbers(each)
    }

    /// Visits a number.
    pub fn number(&mut self, family: Family, number: &mut u64) {
        (self.0)(family, Use::Counted, number);
    }

    /// Visits a number that is only remembered.
    pub fn remembered(&mut self, family: Family, number: &mut u64) {
        (self.0)(family, Use::Remembered, number);
    }

    /// Visits a count.
    pub fn count(&mut self, family: Family, count: &mut Count) {
        let mut value = count.value();
        self.number(family, &mut value);
        *count = Count::at(value);
    }

    /// Visits a count that is only remembered.
    pub fn remembered_count(&mut self, family: Family, count: &mut Count) {
        let mut value = count.value();
        self.remembered(family, &mut value);
        *count = Count::at(value);
    }

    /// Visits a clock.
    pub fn clock(&mut self, clock: &mut Clock) {
        let mut value = clock.value();
        self.number(Family::Clock, &mut value);
        *clock = Clock::at(value);
    }

    /// Visits a clock that is only remembered.
    pub fn remembered_clock(&mut self, clock: &mut Clock) {
        let mut value = clock.value();
        self.remembered(Family::Clock, &mut value);
        *clock = Clock::at(value);
    }

    /// Visits the clock of a timestamp.
    pub fn timestamp(&mut self, timestamp: &mut Timestamp) {
        self.clock(&mut timestamp.clock);
    }
}

//! Lamport's logical clock and the timestamps it gives to requests.

use std::fmt;

use crate::SiteId;

/// A Lamport clock. It saturates instead of overflowing: a hostile value can stall the lock it was sent for,
/// never panic the site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Clock(u64);

impl Clock {
    /// The start value of every clock.
    pub const ZERO: Clock = Clock(0);

    /// A clock that shows `value`.
    pub const fn at(value: u64) -> Self {
        Clock(value)
    }

    /// The value of the clock.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Counts a local event: advances the clock by one and returns the new value.
    #[inline]
    pub fn tick(&mut self) -> Clock {
        self.0 = self.0.saturating_add(1);
        *self
    }

    /// Observes a message that was sent at `other`: the clock is never behind it from now on. (This does not count as an event.)
    #[inline]
    pub fn observe(&mut self, other: Clock) {
        self.0 = self.0.max(other.0);
    }
}

/// The timestamp of a request: (clock, site), smaller first. No two requests have the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp {
    /// The requester's clock at the request.
    pub clock: Clock,
    /// The requester; breaks ties.
    pub site: SiteId,
}

impl Timestamp {
    /// The timestamp `(clock, site)`.
    pub const fn new(clock: Clock, site: SiteId) -> Self {
        Timestamp { clock, site }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.clock.value(), self.site)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_at_its_end_stays_there() {
        let mut clock = Clock::at(u64::MAX);
        assert_eq!(clock.tick(), Clock::at(u64::MAX));
    }

    #[test]
    fn the_site_breaks_a_tie_of_clocks() {
        let at = |clock, site| Timestamp::new(Clock::at(clock), SiteId::new(site));
        assert!(at(1, 2) < at(2, 0));
        assert!(at(2, 0) < at(2, 1));
    }
}

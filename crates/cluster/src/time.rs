//! Time as a machine sees it: microseconds of its own monotonic clock, passed in by its driver.
//!
//! Two sites never compare their clocks. They compare lengths of time, and a bound on how much faster one clock may
//! run than another ([`Drift`]) says how far apart two lengths of the same time can be.
//!
//! The clock must never jump, and it must go on while the machine is suspended: a laptop that slept through its lease
//! must wake up without it. On Linux that is `CLOCK_BOOTTIME`; `CLOCK_MONOTONIC`, which most libraries mean by a
//! monotonic clock, stops meanwhile and would admit two holders.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// A point in time on one machine's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

/// A length of time on one machine's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The start of a clock.
    pub const ZERO: Time = Time(0);

    /// Returns the time this many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Time(micros)
    }

    /// Returns the microseconds since the start.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns how long ago `earlier` was; zero if it is in the future.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time `span` before this one, or the start.
    #[must_use]
    pub const fn before(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The smallest length of time: one microsecond.
    pub const TICK: Span = Span(1);

    /// Returns this many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Span(micros)
    }

    /// Returns this many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Span(millis.saturating_mul(1000))
    }

    /// Returns the microseconds.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// Returns `count` times this length.
    #[must_use]
    pub const fn times(self, count: u64) -> Span {
        Span(self.0.saturating_mul(count))
    }

    /// Returns this length divided by `parts`.
    #[must_use]
    pub const fn part(self, parts: u64) -> Span {
        Span(self.0 / parts)
    }
}

/// How much faster the fastest clock may run than the slowest, in millionths: whenever one clock measures a length `x`,
/// any other measures at most `x·(1+drift)` for the same stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Drift(u32);

impl Drift {
    /// Returns a drift of this many millionths.
    pub const fn from_ppm(ppm: u32) -> Self {
        Drift(ppm)
    }

    /// Returns the millionths.
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// Returns `span·(1+drift)`, rounded up: what must pass here until `span` has certainly passed everywhere.
    #[must_use]
    pub fn stretch(self, span: Span) -> Span {
        let exact = u128::from(span.0) * (1_000_000 + u128::from(self.0));
        Span(u64::try_from(exact.div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }

    /// Returns `span/(1+drift)`, rounded down: when that has passed here, no more than `span` has passed anywhere.
    #[must_use]
    pub fn shrink(self, span: Span) -> Span {
        let exact = u128::from(span.0) * 1_000_000 / (1_000_000 + u128::from(self.0));
        Span(u64::try_from(exact).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretched_length_is_rounded_up_to_the_next_tick() {
        let drift = Drift::from_ppm(100);
        assert_eq!(drift.stretch(Span::from_micros(10_000)), Span::from_micros(10_001));
        assert_eq!(drift.stretch(Span::from_micros(10_001)), Span::from_micros(10_003));
        assert_eq!(drift.stretch(Span::from_micros(u64::MAX)), Span::from_micros(u64::MAX));
        assert_eq!(Drift::from_ppm(0).stretch(Span::from_micros(7)), Span::from_micros(7));
    }

    #[test]
    fn a_shrunk_length_is_never_longer_elsewhere_than_the_length() {
        let drift = Drift::from_ppm(1000);
        for micros in [0, 1, 7, 999, 1000, 1001, 5_000_000, u64::MAX] {
            let span = Span::from_micros(micros);
            assert!(drift.stretch(drift.shrink(span)) <= span, "{micros}");
        }
        assert_eq!(drift.shrink(Span::from_micros(1_001_000)), Span::from_micros(1_000_000));
    }

    #[test]
    fn time_neither_overflows_nor_runs_backwards() {
        assert_eq!(Time::from_micros(u64::MAX) + Span::TICK, Time::from_micros(u64::MAX));
        assert_eq!(Time::from_micros(3).since(Time::from_micros(5)), Span::ZERO);
        assert_eq!(Time::from_micros(3).before(Span::from_micros(5)), Time::ZERO);
    }
}

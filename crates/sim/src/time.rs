//! Virtual time, in integer billionths of the unit that the settings use.
//!
//! With integers equal times are equal and sums are exact, whatever the order of the additions.

use std::ops::{Add, AddAssign, Sub};

/// The number of ticks in one unit of time.
const TICKS: f64 = 1e9;

/// A point in virtual time, or a span of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);

    /// The largest number of units that a time can hold.
    pub const MAX_UNITS: f64 = 1e10;

    /// `units` of time, rounded to a tick; negative values and not-a-number give zero.
    pub fn units(units: f64) -> Self {
        // The cast saturates, as a delay beyond all bounds should.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating on purpose")]
        Time((units * TICKS).round() as u64)
    }

    /// The time in units.
    pub fn as_units(self) -> f64 {
        self.0 as f64 / TICKS
    }

    /// The time in ticks.
    pub(crate) const fn ticks(self) -> u64 {
        self.0
    }

    /// A time of this many ticks.
    pub(crate) const fn from_ticks(ticks: u64) -> Self {
        Time(ticks)
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

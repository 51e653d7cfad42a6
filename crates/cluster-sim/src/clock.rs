//! True time, which nobody in the simulated world can read, and the clocks that are read instead.

use meshlock_cluster::time::{Span, Time};

/// A point in true time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Returns the time this many microseconds later.
    #[must_use]
    pub(crate) const fn after(self, micros: u64) -> Moment {
        Moment(self.0.saturating_add(micros))
    }
}

/// One machine's clock: it starts anywhere, and runs fast by a constant factor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset: u64,
    fast_ppm: u32,
}

impl Clock {
    /// Returns a clock that shows `offset` at the start and gains `fast_ppm` millionths.
    pub(crate) const fn new(offset: u64, fast_ppm: u32) -> Self {
        Clock { offset, fast_ppm }
    }

    /// Returns what the clock shows at `moment`.
    pub(crate) fn at(self, moment: Moment) -> Time {
        let gained = u128::from(moment.0) * u128::from(self.fast_ppm) / 1_000_000;
        Time::from_micros(self.offset + moment.0 + u64::try_from(gained).unwrap_or(u64::MAX))
    }

    /// Returns the first moment at which the clock shows at least `time`.
    pub(crate) fn when(self, time: Time) -> Moment {
        let local = time.since(Time::from_micros(self.offset)).micros();
        let exact = u128::from(local) * 1_000_000 / (1_000_000 + u128::from(self.fast_ppm));
        let mut moment = Moment(u64::try_from(exact).unwrap_or(u64::MAX));
        while self.at(moment) < time {
            moment = moment.after(Span::TICK.micros());
        }
        moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_time_at_the_moment_it_names_for_it_and_not_one_earlier() {
        for clock in [Clock::new(0, 0), Clock::new(17, 1), Clock::new(1 << 40, 50_000)] {
            for micros in [1, 2, 999_999, 123_456_789] {
                let time = clock.at(Moment(0)) + Span::from_micros(micros);
                let moment = clock.when(time);
                assert!(clock.at(moment) >= time);
                assert!(moment.0 == 0 || clock.at(Moment(moment.0 - 1)) < time);
            }
        }
    }
}

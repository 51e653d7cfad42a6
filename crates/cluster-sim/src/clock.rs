//! True time, which nobody in the simulated world can read, and the clocks that are read instead.

use std::sync::Arc;

use meshlock_cluster::time::Time;

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

/// Millionths by which a clock of the right rate is multiplied.
const RIGHT: u32 = 1_000_000;

/// One machine's clock: it starts anywhere, never goes back, and runs fast by a factor. The factor may change, and the
/// clock may jump forward or stand still for a while; all of that is known from the start, so that everyone who has a
/// copy of the clock reads the same.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<[Stretch]>);

/// A time in which a clock runs at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from: Moment,
    /// What the clock shows then.
    shows: u64,
    /// In millionths of true time; 0 if it stands still.
    rate: u32,
}

/// A change of a machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockChange {
    /// From then on it gains this many millionths.
    Gains(u32),
    /// It jumps forward by this many microseconds.
    Jumps(u64),
    /// It stands still for this many microseconds.
    Stands(u64),
}

impl Stretch {
    fn at(self, moment: Moment) -> u64 {
        let passed = u128::from(moment.0.saturating_sub(self.from.0)) * u128::from(self.rate);
        self.shows.saturating_add(u64::try_from(passed / u128::from(RIGHT)).unwrap_or(u64::MAX))
    }
}

impl Clock {
    /// Returns a clock that shows `offset` at the start and gains `fast_ppm` millionths.
    pub(crate) fn new(offset: u64, fast_ppm: u32) -> Self {
        Clock(Arc::new([Stretch { from: Moment(0), shows: offset, rate: RIGHT + fast_ppm }]))
    }

    /// Returns the clock with these changes, in the order of time.
    #[must_use]
    pub(crate) fn changed(&self, changes: &[(Moment, ClockChange)]) -> Self {
        let mut stretches = self.0.to_vec();
        // The rate that it has when it does not stand still, and until when it stands still.
        let (mut rate, mut stands_until) = (stretches[0].rate, Moment(0));
        for &(from, change) in changes {
            let last = stretches.last().copied().expect("a clock has at least one rate");
            if last.rate == 0 && stands_until <= from {
                stretches.push(Stretch { from: stands_until, shows: last.at(stands_until), rate });
            }
            let last = stretches.last().copied().expect("a clock has at least one rate");
            let mut next = Stretch { from, shows: last.at(from), rate: last.rate };
            match change {
                ClockChange::Gains(ppm) => {
                    rate = RIGHT + ppm;
                    next.rate = if last.rate == 0 { 0 } else { rate };
                }
                ClockChange::Jumps(by) => next.shows = next.shows.saturating_add(by),
                ClockChange::Stands(length) => {
                    stands_until = stands_until.max(from.after(length));
                    next.rate = 0;
                }
            }
            stretches.push(next);
        }
        if let Some(last) = stretches.last().copied().filter(|last| last.rate == 0) {
            stretches.push(Stretch { from: stands_until, shows: last.at(stands_until), rate });
        }
        Clock(stretches.into())
    }

    /// Returns what the clock shows at `moment`.
    pub(crate) fn at(&self, moment: Moment) -> Time {
        let last = self.0.partition_point(|stretch| stretch.from <= moment).saturating_sub(1);
        Time::from_micros(self.0[last].at(moment))
    }

    /// Returns the first moment at which the clock shows at least `time`.
    pub(crate) fn when(&self, time: Time) -> Moment {
        let time = time.since(Time::ZERO).micros();
        // The clock reaches the time in the last stretch that begins below it, or at the beginning of the next one.
        let last = self.0.partition_point(|stretch| stretch.shows < time).saturating_sub(1);
        let Stretch { from, shows, rate } = self.0[last];
        let next = self.0.get(last + 1).map_or(Moment(u64::MAX), |next| next.from);
        let missing = u128::from(time.saturating_sub(shows)) * u128::from(RIGHT);
        if rate == 0 {
            return next;
        }
        let micros = missing.div_ceil(u128::from(rate));
        from.after(u64::try_from(micros).unwrap_or(u64::MAX)).min(next)
    }
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::time::Span;

    use super::*;

    fn clocks() -> Vec<Clock> {
        let changes = [
            (Moment(1_000_000), ClockChange::Gains(50_000)),
            (Moment(1_500_000), ClockChange::Jumps(2_000_000)),
            (Moment(1_600_000), ClockChange::Stands(700_000)),
            (Moment(1_700_000), ClockChange::Gains(7)),
            (Moment(1_800_000), ClockChange::Jumps(3)),
            (Moment(9_000_000), ClockChange::Stands(1_000)),
        ];
        let plain = [Clock::new(0, 0), Clock::new(17, 1), Clock::new(1 << 40, 50_000)];
        let changed = plain.clone().map(|clock| clock.changed(&changes));
        plain.into_iter().chain(changed).collect()
    }

    #[test]
    fn a_clock_shows_a_time_at_the_moment_it_names_for_it_and_not_one_earlier() {
        for clock in clocks() {
            for micros in [1, 2, 999_999, 1_100_000, 3_800_000, 3_800_003, 123_456_789] {
                let time = clock.at(Moment(0)) + Span::from_micros(micros);
                let moment = clock.when(time);
                assert!(clock.at(moment) >= time);
                assert!(moment.0 == 0 || clock.at(Moment(moment.0 - 1)) < time);
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_or_stands_still_never_goes_back() {
        let clock = Clock::new(5, 0).changed(&[
            (Moment(100), ClockChange::Jumps(50)),
            (Moment(200), ClockChange::Stands(30)),
            (Moment(210), ClockChange::Gains(1_000_000)),
        ]);
        let shows = |moment| clock.at(Moment(moment)).since(Time::ZERO).micros();
        assert_eq!([99, 100, 200, 229, 230, 240].map(shows), [104, 155, 255, 255, 255, 275]);
        assert!((0..300).all(|moment| shows(moment) <= shows(moment + 1)));
    }
}

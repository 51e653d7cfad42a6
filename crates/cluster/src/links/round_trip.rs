//! An estimate of the round-trip time to one peer, as TCP makes it (RFC 6298, section 2): a smoothed mean and the mean
//! deviation from it.
//!
//! Only times that certainly belong to one transmission are averaged (Karn's algorithm): a reply to a message that was
//! sent twice may belong to either. Such a time is still a bound, and may be the only sign that the network has become
//! slower than the interval at which messages are sent again. So it raises the limit until the next unambiguous time.

use crate::time::Span;

/// The estimate, once there is a first measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    estimate: Option<Estimate>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    smoothed: Span,
    deviation: Span,
    /// Whether it comes from a message that was sent more than once.
    is_ambiguous: bool,
}

impl RoundTrip {
    /// Takes a measurement of a message that was sent once.
    pub(super) fn measured(&mut self, took: Span) {
        self.estimate = Some(match self.estimate.filter(|estimate| !estimate.is_ambiguous) {
            None => Estimate { smoothed: took, deviation: took.part(2), is_ambiguous: false },
            Some(Estimate { smoothed, deviation, .. }) => {
                let off = Span::from_micros(smoothed.micros().abs_diff(took.micros()));
                Estimate {
                    smoothed: Span::from_micros(smoothed.times(7).micros() / 8) + took.part(8),
                    deviation: Span::from_micros(deviation.times(3).micros() / 4) + off.part(4),
                    is_ambiguous: false,
                }
            }
        });
    }

    /// Takes the time between the first transmission of a message and its acknowledgement, after it was sent again.
    pub(super) fn bounded(&mut self, at_most: Span) {
        if self.nearly_all().is_none_or(|limit| limit < at_most) {
            let (deviation, is_ambiguous) = (Span::ZERO, true);
            self.estimate = Some(Estimate { smoothed: at_most, deviation, is_ambiguous });
        }
    }

    /// Returns the time within which nearly all replies come; `None` before the first measurement.
    pub(super) fn nearly_all(&self) -> Option<Span> {
        self.estimate.map(|estimate| estimate.smoothed + estimate.deviation.times(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(span: Option<Span>) -> Option<u64> {
        span.map(|span| span.micros() / 1000)
    }

    #[test]
    fn the_first_measurement_counts_three_times_and_equal_ones_bring_the_limit_down_to_them() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.nearly_all(), None);
        round_trip.measured(Span::from_millis(100));
        assert_eq!(millis(round_trip.nearly_all()), Some(300));
        for _ in 0..40 {
            round_trip.measured(Span::from_millis(100));
        }
        assert_eq!(millis(round_trip.nearly_all()), Some(100));
    }

    #[test]
    fn a_slower_network_raises_the_limit_above_its_round_trip_within_a_few_measurements() {
        let mut round_trip = RoundTrip::default();
        for took in [1, 1, 1, 1, 600, 600] {
            round_trip.measured(Span::from_millis(took));
        }
        assert!(millis(round_trip.nearly_all()) > Some(600), "{round_trip:?}");
    }

    #[test]
    fn an_ambiguous_time_raises_the_limit_until_there_is_a_better_one() {
        let mut round_trip = RoundTrip::default();
        for (bound, limit) in [(4000, 4000), (3000, 4000)] {
            round_trip.bounded(Span::from_millis(bound));
            assert_eq!(millis(round_trip.nearly_all()), Some(limit));
        }
        round_trip.measured(Span::from_millis(2));
        assert_eq!(millis(round_trip.nearly_all()), Some(6));
        round_trip.bounded(Span::from_millis(600));
        assert_eq!(millis(round_trip.nearly_all()), Some(600));
    }
}

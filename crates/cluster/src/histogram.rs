//! Histograms of durations, with fixed buckets: recording takes a few nanoseconds, and the size is constant.

use crate::time::Span;

/// The upper bounds of the buckets in microseconds, from what a processor does to an hour; longer durations have a
/// bucket of their own.
const BOUNDS: [u64; 22] = [
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
];

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BOUNDS.len() + 1],
    micros: u64,
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&mut self, took: Span) {
        let micros = took.micros();
        // A free lock is granted at once, which is the most frequent case.
        let bucket = if micros <= BOUNDS[0] { 0 } else { BOUNDS.partition_point(|bound| *bound < micros) };
        self.buckets[bucket] += 1;
        self.micros = self.micros.saturating_add(micros);
    }

    /// Returns the number of durations recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all durations.
    pub fn total(&self) -> Span {
        Span::from_micros(self.micros)
    }

    /// Returns the upper bound of each bucket in microseconds (`None` for the last) and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let ends = BOUNDS.into_iter().map(Some).chain([None]);
        ends.zip(self.buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_in_the_first_bucket_that_it_fits_into() {
        let mut histogram = Histogram::default();
        for micros in [0, 10, 11, 3_600_000_000, 3_600_000_001] {
            histogram.record(Span::from_micros(micros));
        }
        let found: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(Some(10), 2), (Some(25), 1), (Some(3_600_000_000), 1), (None, 1)]);
        assert_eq!((histogram.count(), histogram.total().micros()), (5, 7_200_000_022));
    }

    #[test]
    fn the_buckets_are_in_order() {
        assert!(BOUNDS.is_sorted_by(|one, next| one < next));
    }
}

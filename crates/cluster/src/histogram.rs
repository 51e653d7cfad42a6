//! How long things took: counts in fixed classes, which cost a few nanoseconds to add to and nothing to keep.

use crate::time::Span;

/// The upper ends of the classes, in microseconds, from what a processor does to an hour; what took longer has a class of its own.
pub const BOUNDS: [u64; 22] = [
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

/// How many things took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    classes: [u64; BOUNDS.len() + 1],
    micros: u64,
}

impl Histogram {
    /// Something took so long.
    pub fn record(&mut self, took: Span) {
        let micros = took.micros();
        // A lock that is free takes no time at all: that is most of them.
        let class = if micros <= BOUNDS[0] { 0 } else { BOUNDS.partition_point(|bound| *bound < micros) };
        self.classes[class] += 1;
        self.micros = self.micros.saturating_add(micros);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// How long all of them took together.
    pub fn total(&self) -> Span {
        Span::from_micros(self.micros)
    }

    /// The upper end of each class in microseconds, none for the last, and how many are in it.
    pub fn classes(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let ends = BOUNDS.into_iter().map(Some).chain([None]);
        ends.zip(self.classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_is_in_the_first_class_that_it_fits_into() {
        let mut histogram = Histogram::default();
        for micros in [0, 10, 11, 3_600_000_000, 3_600_000_001] {
            histogram.record(Span::from_micros(micros));
        }
        let found: Vec<_> = histogram.classes().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(Some(10), 2), (Some(25), 1), (Some(3_600_000_000), 1), (None, 1)]);
        assert_eq!((histogram.count(), histogram.total().micros()), (5, 7_200_000_022));
    }

    #[test]
    fn the_classes_are_in_order() {
        assert!(BOUNDS.is_sorted_by(|one, next| one < next));
    }
}

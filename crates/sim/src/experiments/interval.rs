//! Intervals: what the 95 % intervals of two estimates say of their difference, ratio or maximum.
//!
//! The bounds of a result are the least and the most over all values of its parts. That is wider than a 95 % interval, so a
//! statement that is decided by it is decided.

use super::row::Measured;

/// The values that an estimate may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) low: f64,
    /// The estimate itself.
    pub(super) middle: f64,
    pub(super) high: f64,
}

impl Interval {
    /// The interval of one value.
    pub(super) const fn point(value: f64) -> Self {
        Interval { low: value, middle: value, high: value }
    }

    /// The larger distance from the estimate to an end; `None` for a point.
    pub(super) fn half(self) -> Option<f64> {
        let half = (self.middle - self.low).max(self.high - self.middle);
        (half > 0.0).then_some(half)
    }

    /// This − other.
    pub(super) fn minus(self, other: Interval) -> Self {
        Interval {
            low: self.low - other.high,
            middle: self.middle - other.middle,
            high: self.high - other.low,
        }
    }

    /// This ÷ other, which is positive.
    pub(super) fn over(self, other: Interval) -> Self {
        let ends =
            [self.low / other.low, self.low / other.high, self.high / other.low, self.high / other.high];
        let low = ends.into_iter().fold(f64::INFINITY, f64::min);
        let high = ends.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Interval { low, middle: self.middle / other.middle, high }
    }

    /// |This|.
    pub(super) fn size(self) -> Self {
        let (low, high) = (self.low.abs().min(self.high.abs()), self.low.abs().max(self.high.abs()));
        let low = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { low };
        Interval { low, middle: self.middle.abs(), high }
    }

    /// The least of these.
    pub(super) fn least(all: &[Interval]) -> Self {
        all.iter().copied().fold(Interval::point(f64::INFINITY), |a, b| Interval {
            low: a.low.min(b.low),
            middle: a.middle.min(b.middle),
            high: a.high.min(b.high),
        })
    }

    /// The most of these.
    pub(super) fn most(all: &[Interval]) -> Self {
        all.iter().copied().fold(Interval::point(f64::NEG_INFINITY), |a, b| Interval {
            low: a.low.max(b.low),
            middle: a.middle.max(b.middle),
            high: a.high.max(b.high),
        })
    }

    /// The mean of independent estimates: their errors add by squares.
    pub(super) fn mean(all: &[Interval]) -> Self {
        let count = all.len() as f64;
        let middle = all.iter().map(|one| one.middle).sum::<f64>() / count;
        let squares: f64 = all.iter().map(|one| one.half().unwrap_or(0.0).powi(2)).sum();
        let half = squares.sqrt() / count;
        Interval { low: middle - half, middle, high: middle + half }
    }

    /// As a mean with its interval.
    pub(super) fn measured(self) -> Measured {
        (self.middle, self.half())
    }
}

impl From<Measured> for Interval {
    fn from((mean, half): Measured) -> Self {
        let half = half.unwrap_or(0.0);
        Interval { low: mean - half, middle: mean, high: mean + half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_least_and_the_most_over_all_values_of_the_parts() {
        let (a, b) = (Interval::from((4.0, Some(1.0))), Interval::from((2.0, Some(0.5))));
        assert_eq!(a.minus(b), Interval { low: 0.5, middle: 2.0, high: 3.5 });
        assert_eq!(a.over(b), Interval { low: 3.0 / 2.5, middle: 2.0, high: 5.0 / 1.5 });
        assert_eq!(b.minus(a).size(), Interval { low: 0.5, middle: 2.0, high: 3.5 });
        assert_eq!(b.minus(b).size(), Interval { low: 0.0, middle: 0.0, high: 1.0 });
        assert_eq!(Interval::most(&[a, b]), a);
        assert_eq!(Interval::least(&[a, b]), b);
    }

    #[test]
    fn the_errors_of_a_mean_add_by_squares() {
        let all = [Interval::from((1.0, Some(3.0))), Interval::from((3.0, Some(4.0)))];
        assert_eq!(Interval::mean(&all), Interval { low: -0.5, middle: 2.0, high: 4.5 });
    }
}

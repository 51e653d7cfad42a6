//! Draws locks of which some are more popular than others: Zipf's law, by its exact inverse.

/// Zipf's law for a number of locks: the probability of the lock with number `k` is proportional to 1 / (k + 1)^exponent. With the
/// exponent 0 all of them are equally likely.
pub(super) struct Zipf {
    /// For each lock the probability that it or one before it is drawn. The last one is 1.
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(locks: usize, exponent: f64) -> Self {
        assert!(locks > 0, "there is something to draw");
        let mut cumulative = Vec::with_capacity(locks);
        let mut sum = 0.0;
        for rank in 1..=locks {
            sum += (rank as f64).powf(-exponent);
            cumulative.push(sum);
        }
        for probability in &mut cumulative {
            *probability /= sum;
        }
        Zipf { cumulative }
    }

    /// Draws the number of a lock.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> usize {
        self.at(random.f64())
    }

    /// Returns the lock in whose part of the interval from 0 to 1 this point is. A part includes its lower end, so a point below 1 is
    /// always in one of them.
    fn at(&self, point: f64) -> usize {
        self.cumulative.partition_point(|probability| *probability <= point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability of each lock, calculated from the definition.
    fn exact(locks: usize, exponent: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=locks).map(|rank| 1.0 / (rank as f64).powf(exponent)).collect();
        // The small ones first, so that little is rounded away.
        let sum: f64 = weights.iter().rev().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn each_lock_has_exactly_the_part_that_the_law_gives_it() {
        for exponent in [0.0, 0.5, 0.99, 2.0] {
            let (zipf, exact) = (Zipf::new(100_000, exponent), exact(100_000, exponent));
            let mut before = 0.0;
            for (lock, (upper, expected)) in zipf.cumulative.iter().zip(exact).enumerate() {
                let part = upper - before;
                assert!((part - expected).abs() < 1e-12, "{exponent}, lock {lock}: {part} not {expected}");
                before = *upper;
            }
            assert!((before - 1.0).abs() < f64::EPSILON, "all of it is given");
        }
    }

    #[test]
    fn a_point_is_in_the_part_that_begins_at_or_before_it() {
        let zipf = Zipf::new(4, 0.0);
        for (point, lock) in [(0.0, 0), (0.2499, 0), (0.25, 1), (0.4999, 1), (0.5, 2), (0.75, 3), (0.9999, 3)]
        {
            assert_eq!(zipf.at(point), lock, "{point}");
        }
        let below_one = 1.0 - f64::EPSILON / 2.0;
        for exponent in [0.0, 0.99] {
            assert_eq!(Zipf::new(100_000, exponent).at(below_one), 99_999);
        }
        assert_eq!(Zipf::new(1, 0.99).at(below_one), 0);
    }

    #[test]
    fn draws_follow_the_law() {
        const DRAWS: u32 = 1_000_000;
        for exponent in [0.0, 0.99] {
            let (zipf, exact) = (Zipf::new(1000, exponent), exact(1000, exponent));
            let (mut random, mut counts) = (fastrand::Rng::with_seed(19), vec![0_u32; 1000]);
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut random)] += 1;
            }
            // Pearson's test: the mean of the statistic is its degrees of freedom, 999, and its deviation the root of twice that, 45.
            let statistic: f64 = counts
                .iter()
                .zip(exact)
                .map(|(count, probability)| {
                    let expected = f64::from(DRAWS) * probability;
                    (f64::from(*count) - expected).powi(2) / expected
                })
                .sum();
            assert!((statistic - 999.0).abs() < 4.0 * 45.0, "{exponent}: {statistic}");
        }
    }
}

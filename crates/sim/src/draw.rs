//! Random numbers: one seeded generator for each run, and the distributions that the models draw from.

use crate::time::Time;

/// The generator of a run.
#[derive(Clone, Debug)]
pub struct Draw(fastrand::Rng);

impl Draw {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Draw(fastrand::Rng::with_seed(seed))
    }

    /// Draws uniformly from 0 (inclusive) to 1 (exclusive).
    pub fn fraction(&mut self) -> f64 {
        self.0.f64()
    }

    /// Draws an integer below `bound`, which is positive.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    /// Draws from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }

    /// Draws from this distribution.
    pub(crate) fn from(&mut self, distribution: &Distribution) -> Time {
        match *distribution {
            Distribution::Constant(value) => value,
            Distribution::Uniform { least, most } => {
                let width = (most - least).as_units();
                least + Time::units(width * self.fraction())
            }
            Distribution::Exponential { mean } => Time::units(self.exponential(mean)),
        }
    }
}

/// The distribution of a duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same value.
    Constant(Time),
    Uniform {
        least: Time,
        most: Time,
    },
    Exponential {
        /// Its mean, in units.
        mean: f64,
    },
}

impl Distribution {
    /// Its mean, in units.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Distribution::Constant(value) => value.as_units(),
            Distribution::Uniform { least, most } => f64::midpoint(least.as_units(), most.as_units()),
            Distribution::Exponential { mean } => *mean,
        }
    }
}

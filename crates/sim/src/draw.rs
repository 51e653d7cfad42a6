//! Random numbers: one seeded generator a run, and the distributions that the models draw from.

use crate::time::Time;

/// The generator of a run.
#[derive(Clone, Debug)]
pub struct Draw(fastrand::Rng);

impl Draw {
    /// Everything that is drawn follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Draw(fastrand::Rng::with_seed(seed))
    }

    /// Evenly from 0 (inclusive) to 1 (exclusive).
    pub fn fraction(&mut self) -> f64 {
        self.0.f64()
    }

    /// A whole number below `bound`, which is positive.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }

    /// From this distribution.
    pub fn from(&mut self, distribution: &Distribution) -> Time {
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

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(Time),
    /// Evenly between two bounds.
    Uniform {
        /// The shortest.
        least: Time,
        /// The longest.
        most: Time,
    },
    /// Exponentially distributed.
    Exponential {
        /// Its mean, in units.
        mean: f64,
    },
}

impl Distribution {
    /// Its mean, in units.
    pub fn mean(&self) -> f64 {
        match self {
            Distribution::Constant(value) => value.as_units(),
            Distribution::Uniform { least, most } => f64::midpoint(least.as_units(), most.as_units()),
            Distribution::Exponential { mean } => *mean,
        }
    }
}

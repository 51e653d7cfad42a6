//! Setups: what a run starts from, as given in the address bar: `algo=maekawa&n=9&load=closed&rate=0.2&seed=7&until=300`.

use std::collections::BTreeMap;
use std::fmt;

use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::{Cluster, Holders, PlanError, SiteId, Spec};
use meshlock_sim::Time;
use meshlock_sim::draw::Distribution;

use crate::act::{Acts, ActsError};

/// The largest number of sites: a diagram with more lines is not readable, and a step of some algorithms costs the square of it.
pub(crate) const MAX_SITES: usize = 64;

/// The largest number of steps; `meshlock sim` takes more.
pub(crate) const MAX_STEPS: usize = 60_000;

/// The load: when sites request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadPattern {
    /// Sites request only when a person lets them.
    ByHand,
    /// Each site requests once, soon after the start.
    Once,
    /// Requests arrive at each site whatever happens, and queue there.
    Open,
    /// A site thinks for a while after each critical section, then requests.
    Closed,
    /// A site requests again as soon as it has left.
    Saturated,
}

impl LoadPattern {
    const NAMES: [(&'static str, LoadPattern); 5] = [
        ("hand", LoadPattern::ByHand),
        ("once", LoadPattern::Once),
        ("open", LoadPattern::Open),
        ("closed", LoadPattern::Closed),
        ("saturated", LoadPattern::Saturated),
    ];
}

/// The transmission time of a message. The unit of time is the longest delay, T of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delays {
    /// Always T.
    Same,
    /// Uniform from T/5 to T.
    Spread,
    /// Exponential with mean T/2.
    Wild,
}

impl Delays {
    const NAMES: [(&'static str, Delays); 3] =
        [("same", Delays::Same), ("spread", Delays::Spread), ("wild", Delays::Wild)];

    /// The distribution.
    pub(crate) fn distribution(self) -> Distribution {
        match self {
            Delays::Same => Distribution::Constant(Time::units(1.0)),
            Delays::Spread => Distribution::Uniform { least: Time::units(0.2), most: Time::units(1.0) },
            Delays::Wild => Distribution::Exponential { mean: 0.5 },
        }
    }
}

/// Everything that a run starts from.
#[derive(Clone, Debug)]
pub struct RunSetup {
    /// The algorithm and its options, as a spec.
    pub(crate) algorithm: String,
    pub(crate) cluster: Cluster,
    /// The sites that are inside at the start.
    pub(crate) holders: Vec<usize>,
    pub(crate) load: LoadPattern,
    /// The rate of requests of each site, per unit of time.
    pub(crate) rate: f64,
    /// The transmission time of a message.
    pub(crate) delays: Delays,
    /// The time that a process stays inside; `None`: until a person lets it leave.
    pub(crate) stay: Option<f64>,
    /// Whether messages between two sites keep their order.
    pub(crate) fifo: bool,
    /// The seed of all random numbers.
    pub(crate) seed: u64,
    /// The number of steps to play.
    pub(crate) until: usize,
    pub(crate) acts: Acts,
}

/// Why an address does not describe a run. The message says what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// There is no algorithm of this name, or it has no such option.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The algorithm cannot start with this setup.
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Acts(#[from] ActsError),
    /// A value is not one of those that are possible.
    #[error("{name} cannot be '{given}'; it is {takes}")]
    Value {
        /// The part of the address.
        name: &'static str,
        given: String,
        /// The possible values.
        takes: String,
    },
}

impl SetupError {
    fn value(name: &'static str, given: &str, takes: impl Into<String>) -> Self {
        SetupError::Value { name, given: given.chars().take(60).collect(), takes: takes.into() }
    }
}

/// The parts of an address, by name.
pub type Parts = BTreeMap<String, String>;

impl RunSetup {
    /// A run in which nothing happens by itself, except that messages arrive.
    pub(crate) fn by_hand(algorithm: &str, cluster: Cluster) -> Self {
        RunSetup {
            algorithm: algorithm.to_owned(),
            cluster,
            holders: Vec::new(),
            load: LoadPattern::ByHand,
            rate: 0.1,
            delays: Delays::Same,
            stay: None,
            fifo: true,
            seed: 1,
            until: 0,
            acts: Acts::none(),
        }
    }

    /// Parses the parts of an address; missing parts have their defaults.
    pub fn read(parts: &Parts) -> Result<Self, SetupError> {
        let given = |name: &str| parts.get(name).map(String::as_str);
        let algorithm = given("algo").unwrap_or("ricart-agrawala").to_owned();
        let sites = number(parts, "n", 4, 1..=MAX_SITES)?;
        let permits = number(parts, "k", 1, 1..=MAX_SITES)?;
        let load = word(parts, "load", &LoadPattern::NAMES, LoadPattern::Closed)?;
        let stay = match given("stay") {
            Some("hand") => None,
            None if load == LoadPattern::ByHand => None,
            _ => Some(real(parts, "stay", 0.5, 0.0, 1000.0)?),
        };
        Ok(RunSetup {
            algorithm,
            cluster: Cluster { sites, permits },
            holders: holders(given("holders").unwrap_or_default())?,
            load,
            rate: real(parts, "rate", 0.2, 1e-6, 1e3)?,
            delays: word(parts, "delay", &Delays::NAMES, Delays::Spread)?,
            stay,
            fifo: word(parts, "channels", &[("fifo", true), ("any", false)], true)?,
            seed: number(parts, "seed", 1, 0..=usize::MAX)? as u64,
            until: number(parts, "until", 120, 0..=MAX_STEPS)?,
            acts: given("acts").unwrap_or_default().parse()?,
        })
    }

    /// The algorithm with its options: a registered one, or one that only the errata use.
    pub(crate) fn spec(&self) -> Result<Spec, SpecError> {
        meshlock_check::errata::spec(&self.algorithm)
    }

    /// The sites that are inside at the start, checked.
    pub(crate) fn holders(&self) -> Result<Holders, PlanError> {
        Holders::new(self.cluster, self.holders.iter().map(|&site| SiteId::new(site)))
    }
}

impl fmt::Display for RunSetup {
    /// Writes the address with all its parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cluster { sites, permits } = self.cluster;
        // In an address a plus sign stands for a space. Structures have some.
        let algorithm = self.algorithm.replace('+', "%2B");
        write!(f, "algo={algorithm}&n={sites}&k={permits}")?;
        if !self.holders.is_empty() {
            let holders: Vec<String> = self.holders.iter().map(ToString::to_string).collect();
            write!(f, "&holders={}", holders.join("-"))?;
        }
        write!(
            f,
            "&load={}&delay={}",
            name_of(&LoadPattern::NAMES, self.load),
            name_of(&Delays::NAMES, self.delays)
        )?;
        match self.stay {
            Some(stay) => write!(f, "&stay={stay}")?,
            None => write!(f, "&stay=hand")?,
        }
        let channels = if self.fifo { "fifo" } else { "any" };
        write!(f, "&rate={}&channels={channels}&seed={}&until={}", self.rate, self.seed, self.until)?;
        write!(f, "&acts={}", self.acts)
    }
}

fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, named)| *named == value).map_or("", |&(name, _)| name)
}

fn word<T: Copy>(
    parts: &Parts,
    name: &'static str,
    names: &[(&'static str, T)],
    default: T,
) -> Result<T, SetupError> {
    let Some(given) = parts.get(name) else { return Ok(default) };
    let found = names.iter().find(|(word, _)| word == given);
    let all = || names.iter().map(|&(word, _)| word).collect::<Vec<_>>().join(" or ");
    found.map(|&(_, value)| value).ok_or_else(|| SetupError::value(name, given, all()))
}

fn number(
    parts: &Parts,
    name: &'static str,
    default: usize,
    range: std::ops::RangeInclusive<usize>,
) -> Result<usize, SetupError> {
    let Some(given) = parts.get(name) else { return Ok(default) };
    let parsed = given.parse().ok().filter(|number| range.contains(number));
    let takes = || format!("a whole number from {} to {}", range.start(), range.end());
    parsed.ok_or_else(|| SetupError::value(name, given, takes()))
}

fn real(parts: &Parts, name: &'static str, default: f64, least: f64, most: f64) -> Result<f64, SetupError> {
    let Some(given) = parts.get(name) else { return Ok(default) };
    let parsed = given.parse().ok().filter(|number| (least..=most).contains(number));
    parsed.ok_or_else(|| SetupError::value(name, given, format!("a number from {least} to {most}")))
}

fn holders(given: &str) -> Result<Vec<usize>, SetupError> {
    let words = given.split('-').filter(|word| !word.is_empty());
    let sites: Result<Vec<usize>, _> = words.map(str::parse).collect();
    sites.map_err(|_| SetupError::value("holders", given, "sites with '-' between them, as in 0-2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Parts {
        let pairs = text.split('&').filter_map(|part| part.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_setup_prints_as_it_is_read() {
        let text = "algo=raymond:tree=line&n=7&k=1&holders=6&load=hand&delay=same&stay=hand&rate=0.1&channels=fifo&seed=3\
                    &until=12&acts=0q0.d0-1";
        assert_eq!(RunSetup::read(&parts(text)).unwrap().to_string(), text);
    }

    #[test]
    fn what_makes_no_sense_is_answered_with_what_would() {
        for (text, answer) in [
            ("n=1000000", "n cannot be '1000000'; it is a whole number from 1 to 64"),
            ("load=heavy", "load cannot be 'heavy'; it is hand or once or open or closed or saturated"),
            ("stay=long", "stay cannot be 'long'; it is a number from 0 to 1000"),
            ("rate=NaN", "rate cannot be 'NaN'; it is a number from 0.000001 to 1000"),
            ("holders=x", "holders cannot be 'x'; it is sites with '-' between them, as in 0-2"),
        ] {
            assert_eq!(RunSetup::read(&parts(text)).unwrap_err().to_string(), answer);
        }
    }
}

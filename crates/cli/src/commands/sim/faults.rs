//! The flags for faults in a simulation.

use clap::Args;
use meshlock_protocol::{SiteId, SiteSet};
use meshlock_sim::Time;
use meshlock_sim::faults::{DrawnFaults, DrawnOutages, FaultEvent, FaultPlan, Link};

use super::model::{number, span};
use crate::output::UsageError;

/// Faults at given times, or drawn at random.
#[derive(Clone, Debug, Args)]
pub(crate) struct FaultFlags {
    /// Let a site fail at a time, such as 3@100.5; can be repeated
    #[arg(long, value_name = "SITE@TIME")]
    fail: Vec<String>,
    /// Let a failed site recover at a time, such as 3@200; can be repeated
    #[arg(long, value_name = "SITE@TIME")]
    recover: Vec<String>,
    /// Partition the network into these sites and the rest, such as 0,1@100; can be repeated
    #[arg(long, value_name = "SITES@TIME")]
    split: Vec<String>,
    /// Heal the partition at a time, such as 200; can be repeated
    #[arg(long, value_name = "TIME")]
    heal: Vec<String>,
    /// Cut the link between two sites, such as 0,1@100: messages wait until it is mended, and no site is told; can be repeated
    #[arg(long, value_name = "SITE,SITE@TIME")]
    cut: Vec<String>,
    /// Mend the link, such as 0,1@200: the waiting messages are sent in their order; can be repeated
    #[arg(long, value_name = "SITE,SITE@TIME")]
    mend: Vec<String>,
    /// How long after a failure or recovery the other sites know of it
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    detection: f64,
    /// Let sites fail at random, one at a time: the mean time until a failure
    #[arg(long, value_name = "TIME", requires = "mean_time_to_recovery", allow_negative_numbers = true)]
    mean_time_to_failure: Option<f64>,
    /// The mean time until a site that failed at random recovers
    #[arg(long, value_name = "TIME", requires = "mean_time_to_failure", allow_negative_numbers = true)]
    mean_time_to_recovery: Option<f64>,
    /// Partition the network at random, in two: the mean time until a partition
    #[arg(long, value_name = "TIME", requires = "mean_time_to_heal", allow_negative_numbers = true)]
    mean_time_to_split: Option<f64>,
    /// The mean time until a random partition heals
    #[arg(long, value_name = "TIME", requires = "mean_time_to_split", allow_negative_numbers = true)]
    mean_time_to_heal: Option<f64>,
    /// Cut links at random: the mean time until a cut of some link
    #[arg(long, value_name = "TIME", requires = "mean_time_to_mend", allow_negative_numbers = true)]
    mean_time_to_cut: Option<f64>,
    /// The mean time until a link that was cut at random is mended
    #[arg(long, value_name = "TIME", requires = "mean_time_to_cut", allow_negative_numbers = true)]
    mean_time_to_mend: Option<f64>,
}

impl FaultFlags {
    /// Returns the faults that the flags describe, for this number of sites.
    pub(super) fn plan(&self, sites: usize) -> Result<FaultPlan, UsageError> {
        let failures = means(
            ("--mean-time-to-failure", self.mean_time_to_failure),
            ("--mean-time-to-recovery", self.mean_time_to_recovery),
        )?;
        let splits = means(
            ("--mean-time-to-split", self.mean_time_to_split),
            ("--mean-time-to-heal", self.mean_time_to_heal),
        )?;
        let cuts = means(
            ("--mean-time-to-cut", self.mean_time_to_cut),
            ("--mean-time-to-mend", self.mean_time_to_mend),
        )?;
        let outages =
            |(between, repair)| DrawnOutages { mean_time_between: between, mean_time_to_repair: repair };
        let plan = FaultPlan {
            at: self.at_given_times(sites)?,
            detection: span("--detection", self.detection)?,
            drawn: failures.map(|(failure, recovery)| DrawnFaults {
                mean_time_to_failure: failure,
                mean_time_to_recovery: recovery,
            }),
            splits: splits.map(outages),
            cuts: cuts.map(outages),
        };
        if let Some(link) = plan.never_mended() {
            let [one, other] = link.ends().map(SiteId::index);
            return Err(UsageError::new(format!(
                "--cut {one},{other}: the link is never mended; add a later --mend {one},{other}@TIME"
            )));
        }
        Ok(plan)
    }

    fn at_given_times(&self, sites: usize) -> Result<Vec<(Time, FaultEvent)>, UsageError> {
        let mut at = Vec::new();
        for text in &self.fail {
            let (word, time) = before_at("--fail", text)?;
            at.push((time, FaultEvent::Fail(site("--fail", word, sites)?)));
        }
        for text in &self.recover {
            let (word, time) = before_at("--recover", text)?;
            at.push((time, FaultEvent::Recover(site("--recover", word, sites)?)));
        }
        for text in &self.split {
            let (words, time) = before_at("--split", text)?;
            let away =
                words.split(',').map(|word| site("--split", word, sites)).collect::<Result<SiteSet, _>>()?;
            at.push((time, FaultEvent::Split(away)));
        }
        for text in &self.heal {
            at.push((span("--heal", number("--heal", text)?)?, FaultEvent::Heal));
        }
        for text in &self.cut {
            let (link, time) = link("--cut", text, sites)?;
            at.push((time, FaultEvent::Cut(link)));
        }
        for text in &self.mend {
            let (link, time) = link("--mend", text, sites)?;
            at.push((time, FaultEvent::Mend(link)));
        }
        Ok(at)
    }
}

/// Shortest mean time between faults: with a shorter one a run would consist of faults only.
const MIN_MEAN: f64 = 0.001;

/// Checks the two mean times of a random fault and its repair: both or none are given.
fn means(first: (&str, Option<f64>), second: (&str, Option<f64>)) -> Result<Option<(f64, f64)>, UsageError> {
    let mean = |(flag, given): (&str, Option<f64>)| match given {
        Some(mean) if !(MIN_MEAN..=Time::MAX_UNITS).contains(&mean) => {
            Err(UsageError::new(format!("{flag} {mean}: a time from {MIN_MEAN} to {}", Time::MAX_UNITS)))
        }
        given => Ok(given),
    };
    Ok(mean(first)?.zip(mean(second)?))
}

/// Parses `0,1@100`.
fn link(flag: &str, text: &str, sites: usize) -> Result<(Link, Time), UsageError> {
    let (words, time) = before_at(flag, text)?;
    let Some((one, other)) = words.split_once(',') else {
        return Err(UsageError::new(format!("{flag} {text}: a link has two ends, such as 0,1@100")));
    };
    let link = Link::between(site(flag, one, sites)?, site(flag, other, sites)?);
    let link =
        link.ok_or_else(|| UsageError::new(format!("{flag} {text}: a link joins two different sites")))?;
    Ok((link, time))
}

fn site(flag: &str, word: &str, sites: usize) -> Result<SiteId, UsageError> {
    let last = sites - 1;
    let site = word.parse::<usize>().ok().filter(|site| *site <= last);
    site.map(SiteId::new)
        .ok_or_else(|| UsageError::new(format!("{flag}: '{word}' is no site; they are 0 to {last}")))
}

fn before_at<'a>(flag: &str, text: &'a str) -> Result<(&'a str, Time), UsageError> {
    let Some((what, time)) = text.split_once('@') else {
        return Err(UsageError::new(format!("{flag} {text}: write it as WHAT@TIME, such as 3@100")));
    };
    Ok((what, span(flag, number(flag, time)?)?))
}

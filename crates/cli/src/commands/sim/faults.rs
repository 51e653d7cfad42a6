//! The flags that say what fails in a simulation, and when.

use clap::Args;
use meshlock_protocol::{SiteId, SiteSet};
use meshlock_sim::Time;
use meshlock_sim::faults::{DrawnFaults, DrawnOutages, FaultEvent, FaultPlan, Link};

use super::model::{number, span};
use crate::output::Usage;

/// What fails, at given times or drawn from rates.
#[derive(Clone, Debug, Args)]
pub(crate) struct FaultFlags {
    /// A site fails at a time: `3@100.5`; may be given several times
    #[arg(long, value_name = "SITE@TIME")]
    fail: Vec<String>,
    /// A failed site runs again: `3@200`
    #[arg(long, value_name = "SITE@TIME")]
    recover: Vec<String>,
    /// The network splits into these sites and the rest: `0,1@100`
    #[arg(long, value_name = "SITES@TIME")]
    split: Vec<String>,
    /// The network is whole again: `200`
    #[arg(long, value_name = "TIME")]
    heal: Vec<String>,
    /// The link between two sites is cut: `0,1@100`; what is sent over it waits until it is mended, and nobody is told
    #[arg(long, value_name = "SITE,SITE@TIME")]
    cut: Vec<String>,
    /// The link is mended: `0,1@200`; what waited goes out, in its order
    #[arg(long, value_name = "SITE,SITE@TIME")]
    mend: Vec<String>,
    /// How long after a failure or a recovery the peers know of it
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    detection: f64,
    /// Sites fail at random, one at a time: how long a site runs before it fails, on average
    #[arg(long, value_name = "TIME", requires = "mean_time_to_recovery", allow_negative_numbers = true)]
    mean_time_to_failure: Option<f64>,
    /// How long a site that failed at random stays down, on average
    #[arg(long, value_name = "TIME", requires = "mean_time_to_failure", allow_negative_numbers = true)]
    mean_time_to_recovery: Option<f64>,
    /// The network splits at random, in two: how long it is until the next split, on average
    #[arg(long, value_name = "TIME", requires = "mean_time_to_heal", allow_negative_numbers = true)]
    mean_time_to_split: Option<f64>,
    /// How long a random split lasts, on average
    #[arg(long, value_name = "TIME", requires = "mean_time_to_split", allow_negative_numbers = true)]
    mean_time_to_heal: Option<f64>,
    /// Links are cut at random: how long it is until the next cut of some link, on average
    #[arg(long, value_name = "TIME", requires = "mean_time_to_mend", allow_negative_numbers = true)]
    mean_time_to_cut: Option<f64>,
    /// How long a link that was cut at random stays cut, on average
    #[arg(long, value_name = "TIME", requires = "mean_time_to_cut", allow_negative_numbers = true)]
    mean_time_to_mend: Option<f64>,
}

impl FaultFlags {
    /// What these flags describe, for so many sites.
    pub(super) fn plan(&self, sites: usize) -> Result<FaultPlan, Usage> {
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
            return Err(Usage::new(format!(
                "--cut {one},{other}: the link must be mended some day; give a later --mend {one},{other}@TIME"
            )));
        }
        Ok(plan)
    }

    fn at_given_times(&self, sites: usize) -> Result<Vec<(Time, FaultEvent)>, Usage> {
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

/// The shortest mean that is drawn from: with shorter ones a run would be about nothing else.
const LEAST_MEAN: f64 = 0.001;

/// Reads the two means of something that breaks at random and is repaired, of which both or none are given.
fn means(first: (&str, Option<f64>), second: (&str, Option<f64>)) -> Result<Option<(f64, f64)>, Usage> {
    let mean = |(flag, given): (&str, Option<f64>)| match given {
        Some(mean) if !(LEAST_MEAN..=Time::MAX_UNITS).contains(&mean) => {
            Err(Usage::new(format!("{flag} {mean}: a time from {LEAST_MEAN} to {}", Time::MAX_UNITS)))
        }
        given => Ok(given),
    };
    Ok(mean(first)?.zip(mean(second)?))
}

/// Reads `0,1@100`.
fn link(flag: &str, text: &str, sites: usize) -> Result<(Link, Time), Usage> {
    let (words, time) = before_at(flag, text)?;
    let Some((one, other)) = words.split_once(',') else {
        return Err(Usage::new(format!("{flag} {text}: a link has two ends, such as 0,1@100")));
    };
    let link = Link::between(site(flag, one, sites)?, site(flag, other, sites)?);
    let link = link.ok_or_else(|| Usage::new(format!("{flag} {text}: a link joins two different sites")))?;
    Ok((link, time))
}

fn site(flag: &str, word: &str, sites: usize) -> Result<SiteId, Usage> {
    let last = sites - 1;
    let site = word.parse::<usize>().ok().filter(|site| *site <= last);
    site.map(SiteId::new)
        .ok_or_else(|| Usage::new(format!("{flag}: '{word}' is no site; they are 0 to {last}")))
}

fn before_at<'a>(flag: &str, text: &'a str) -> Result<(&'a str, Time), Usage> {
    let Some((what, time)) = text.split_once('@') else {
        return Err(Usage::new(format!("{flag} {text}: write it as WHAT@TIME, such as 3@100")));
    };
    Ok((what, span(flag, number(flag, time)?)?))
}

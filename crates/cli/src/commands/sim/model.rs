//! The flags that define a simulation, which `sim` and `compare` share.

use std::fs::File;
use std::path::Path;

use clap::{Args, ValueEnum};
use meshlock_protocol::Cluster;
use meshlock_sim::draw::Distribution;
use meshlock_sim::network::Delay;
use meshlock_sim::settings::{Load, Rates, SiteProcessor, WarmUp};
use meshlock_sim::{Settings, Time};

use super::faults::FaultFlags;
use crate::output::{UsageError, read_text};

/// When sites request.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LoadKind {
    /// Poisson arrivals that queue at each site
    Open,
    /// Each site waits for an exponential time after each critical section
    Closed,
    /// Each site requests again at once
    Saturated,
}

impl From<LoadKind> for Load {
    fn from(kind: LoadKind) -> Load {
        match kind {
            LoadKind::Open => Load::Open,
            LoadKind::Closed => Load::Closed,
            LoadKind::Saturated => Load::Saturated,
        }
    }
}

/// How a site spends the time that messages cost it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProcessorKind {
    /// A site sends and receives one message after the other
    Shared,
    /// Sending and receiving do not hinder each other
    Separate,
}

impl From<ProcessorKind> for SiteProcessor {
    fn from(kind: ProcessorKind) -> SiteProcessor {
        match kind {
            ProcessorKind::Shared => SiteProcessor::Shared,
            ProcessorKind::Separate => SiteProcessor::Separate,
        }
    }
}

/// The flags of a simulation.
#[derive(Clone, Debug, Args)]
pub(crate) struct Model {
    /// How many sites may be inside the critical section at once
    #[arg(long, default_value_t = 1, value_parser = count, allow_negative_numbers = true)]
    pub(crate) permits: usize,
    /// When sites request
    #[arg(long, value_enum, default_value_t = LoadKind::Open)]
    load: LoadKind,
    /// The delay of a message: 1.0, uniform:0.5..1.5, exponential:1.0, or @FILE with a matrix of site-to-site delays (one row per
    /// sender, numbers separated by spaces or commas)
    #[arg(long, default_value = "1.0", allow_negative_numbers = true)]
    delay: String,
    /// The time that a sender needs for each message; it sends one after the other
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    send_cost: f64,
    /// The time that a receiver needs for each message; it handles one after the other
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    receive_cost: f64,
    /// Whether a site that sends can receive meanwhile; has an effect only if sending or receiving takes time
    #[arg(long, value_enum, default_value_t = ProcessorKind::Shared)]
    processor: ProcessorKind,
    /// Let messages between two sites overtake each other; has an effect only with a random delay
    #[arg(long)]
    unordered: bool,
    /// The time in the critical section: 0.0002, uniform:0..1 or exponential:0.5
    #[arg(long, default_value = "0.0002", allow_negative_numbers = true)]
    cs: String,
    /// The share of the requests that are shared, from 0 to 1, for algorithms that know modes; the others are exclusive. `compare` takes
    /// several, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0",
        value_name = "SHARE",
        allow_negative_numbers = true
    )]
    pub(crate) readers: Vec<f64>,
    /// How many entries into the critical section to simulate
    #[arg(long, default_value_t = 100_000, value_parser = count, allow_negative_numbers = true)]
    entries: usize,
    /// Include the beginning of the run in the measurement, instead of detecting and dropping the warm-up
    #[arg(long)]
    keep_warm_up: bool,
    /// The seed of all random numbers; the same seed gives the same run
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    faults: FaultFlags,
}

impl Model {
    /// Returns the settings that the flags describe, for this number of sites and these rates.
    pub(crate) fn settings(&self, sites: usize, rates: Rates) -> Result<Settings, UsageError> {
        self.check_sizes(sites)?;
        Ok(Settings {
            cluster: Cluster::of(sites).with_permits(self.permits),
            load: self.load.into(),
            rates,
            delay: self.delay(sites)?,
            send_cost: span("--send-cost", self.send_cost)?,
            receive_cost: span("--receive-cost", self.receive_cost)?,
            processor: self.processor.into(),
            fifo: !self.unordered,
            inside: distribution("--cs", &self.cs)?,
            readers: self.only_readers()?,
            faults: self.faults.plan(sites)?,
            entries: self.entries as u64,
            warm_up: if self.keep_warm_up { WarmUp::Keep } else { WarmUp::Found },
            seed: self.seed,
        })
    }

    /// Returns the one share of readers of a simulation.
    fn only_readers(&self) -> Result<f64, UsageError> {
        if let Some(share) = self.readers.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(UsageError::new(format!("--readers {share}: a share from 0 to 1")));
        }
        match self.readers.as_slice() {
            [share] => Ok(*share),
            _ => Err(UsageError::new(
                "--readers: one share for a simulation; `meshlock compare` takes several",
            )),
        }
    }

    /// The same flags with this one share of readers.
    pub(crate) fn with_readers(&self, share: f64) -> Self {
        Model { readers: vec![share], ..self.clone() }
    }

    fn check_sizes(&self, sites: usize) -> Result<(), UsageError> {
        if sites == 0 {
            return Err(UsageError::new("--sites 0: at least one site is needed"));
        }
        if self.permits == 0 || self.permits > sites {
            let permits = self.permits;
            return Err(UsageError::new(format!("--permits {permits}: from 1 to --sites, which is {sites}")));
        }
        if self.entries == 0 {
            return Err(UsageError::new("--entries 0: at least one entry is needed"));
        }
        Ok(())
    }

    fn delay(&self, sites: usize) -> Result<Delay, UsageError> {
        match self.delay.strip_prefix('@') {
            Some(path) => matrix(Path::new(path), sites),
            None => distribution("--delay", &self.delay).map(Delay::Same),
        }
    }
}

/// Parses a whole number.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "a whole number is needed, 1 or larger".to_owned())
}

/// Parses the rates that `flag` gives: one number for all sites, or one for each.
pub(crate) fn rates(flag: &str, text: &str, sites: usize) -> Result<Rates, UsageError> {
    let rates: Vec<f64> = text.split(',').map(|word| number(flag, word)).collect::<Result<_, _>>()?;
    match rates.as_slice() {
        [rate] if *rate > 0.0 => Ok(Rates::Same(*rate)),
        [rate] => Err(UsageError::new(format!("{flag} {rate}: must be positive, or no site ever requests"))),
        _ if rates.len() != sites => {
            let given = rates.len();
            Err(UsageError::new(format!(
                "{flag}: {given} rates for {sites} sites; give one, or one for each"
            )))
        }
        _ if rates.iter().any(|rate| *rate < 0.0) || rates.iter().all(|rate| *rate == 0.0) => {
            Err(UsageError::new(format!("{flag} {text}: no rate may be negative, and not all may be zero")))
        }
        _ => Ok(Rates::Each(rates)),
    }
}

pub(super) fn number(flag: &str, word: &str) -> Result<f64, UsageError> {
    let value = word.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| UsageError::new(format!("{flag}: '{word}' is no number; write one such as 0.5")))
}

pub(super) fn span(flag: &str, units: f64) -> Result<Time, UsageError> {
    if (0.0..=Time::MAX_UNITS).contains(&units) {
        return Ok(Time::units(units));
    }
    Err(UsageError::new(format!("{flag} {units}: a time from 0 to {}", Time::MAX_UNITS)))
}

/// Parses `1.0`, `uniform:0.5..1.5` or `exponential:1.0`.
fn distribution(flag: &str, text: &str) -> Result<Distribution, UsageError> {
    let (kind, rest) = text.split_once(':').unwrap_or(("constant", text));
    match (kind, rest.split_once("..")) {
        ("constant", None) => Ok(Distribution::Constant(span(flag, number(flag, rest)?)?)),
        ("exponential", None) => {
            let mean = span(flag, number(flag, rest)?)?.as_units();
            Ok(Distribution::Exponential { mean })
        }
        ("uniform", Some((least, most))) => {
            let (least, most) = (span(flag, number(flag, least)?)?, span(flag, number(flag, most)?)?);
            if least > most {
                return Err(UsageError::new(format!(
                    "{flag} {text}: the first bound is larger than the second"
                )));
            }
            Ok(Distribution::Uniform { least, most })
        }
        _ => Err(UsageError::new(format!("{flag} {text}: write 1.0, uniform:0.5..1.5 or exponential:1.0"))),
    }
}

/// Largest file with a matrix of delays, in bytes: enough for a few thousand sites.
const MAX_MATRIX_BYTES: u64 = 256 << 20;

/// Reads a matrix of delays: one row per sender, numbers separated by spaces or commas, `#` begins a comment.
fn matrix(path: &Path, sites: usize) -> Result<Delay, UsageError> {
    let shown = path.display();
    let text = File::open(path).and_then(|file| read_text(file, MAX_MATRIX_BYTES));
    let text =
        text.map_err(|error| UsageError::new(format!("--delay @{shown}: cannot read the file: {error}")))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let mut rows = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let words = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
        let row: Vec<Time> = words
            .map(|word| span("--delay", number("--delay", word)?))
            .collect::<Result<_, UsageError>>()
            .map_err(|error| UsageError::new(format!("--delay @{shown}, row {}: {error}", rows.len())))?;
        if row.len() != sites {
            let (at, given) = (rows.len(), row.len());
            return Err(UsageError::new(format!(
                "--delay @{shown}, row {at}: {given} delays, but there are {sites} sites; give one for each"
            )));
        }
        rows.push(row);
    }
    if rows.len() != sites {
        let given = rows.len();
        return Err(UsageError::new(format!(
            "--delay @{shown}: {given} rows, but there are {sites} sites; give a row for each"
        )));
    }
    Ok(Delay::Matrix(rows))
}

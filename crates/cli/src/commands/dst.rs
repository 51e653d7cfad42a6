//! `meshlock dst`: deterministic simulation tests of whole clusters under faults, one cluster per seed.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use comfy_table::CellAlignment;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use meshlock_cluster_sim::{Coverage, RunOptions, SeedReport, fault_kinds, fewest_faults, run as run_seed};
use rayon::prelude::*;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::output::{self, CommandOutcome, UsageError};

/// How many seeds run before the command checks whether one has failed or the time is over.
const AT_ONCE: u64 = 64;

/// Arguments of `meshlock dst`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seeds to run; the last number is not included
    #[arg(long, default_value = "0..1000", value_name = "FROM..TO", value_parser = parse_seeds, conflicts_with = "one")]
    seeds: Range<u64>,
    /// Run only this seed
    #[arg(long, value_name = "SEED")]
    one: Option<u64>,
    /// Run fresh seeds for so long, from a first one that is drawn and printed; for machines that test by night
    #[arg(long, value_name = "MINUTES", value_parser = parse_minutes, conflicts_with_all = ["seeds", "one"])]
    minutes: Option<Duration>,
    /// With --minutes: begin with this seed, to run the same ones again
    #[arg(long, value_name = "SEED", requires = "minutes")]
    first: Option<u64>,
    /// With --one: inject only the first COUNT faults of the seed
    #[arg(long, value_name = "COUNT", requires = "one")]
    faults: Option<usize>,
    /// With --one: write every event to this file, one JSON object per line
    #[arg(long, value_name = "FILE", requires = "one")]
    trace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let example = "give two numbers, as in 0..1000";
    let (from, to) = text.split_once("..").ok_or(example)?;
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().map_err(|_| example.to_owned());
    let (from, to) = (number(from)?, number(to)?);
    if from >= to {
        return Err(format!("there is no seed from {from} up to {to}; the second number must be larger"));
    }
    Ok(from..to)
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0);
    let length = minutes.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    length.ok_or_else(|| "give a number of minutes above 0, as in 60 or 0.5".to_owned())
}

/// Seeds that are drawn are below this, so that they are short to write.
const DRAWN_BELOW: u64 = 1_000_000_000_000;

/// Which seeds run, and for how long.
#[derive(Clone, Debug)]
struct Plan {
    seeds: Range<u64>,
    /// No seeds but the first few begin after this time, if it is set.
    minutes: Option<Duration>,
}

impl Plan {
    fn new(arguments: &Arguments) -> Self {
        let Some(minutes) = arguments.minutes else {
            return Plan { seeds: arguments.seeds.clone(), minutes: None };
        };
        let first = arguments.first.unwrap_or_else(|| fastrand::u64(..DRAWN_BELOW));
        Plan { seeds: first..u64::MAX, minutes: Some(minutes) }
    }

    /// Returns whether no more seeds begin this long after the start.
    fn is_over(&self, elapsed: Duration) -> bool {
        self.minutes.is_some_and(|minutes| elapsed >= minutes)
    }
}

/// The results of all seeds together.
#[derive(Debug, Default, Serialize)]
struct Summary {
    seeds: u64,
    /// Number of seeds that were to run, if the user interrupted the command before all of them had.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<u64>,
    /// The first seed, and the one after the last that was begun, where they depend on the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<SeedRange>,
    #[serde(skip)]
    interrupted: bool,
    events: u64,
    node_seconds: u64,
    seconds: f64,
    seeds_per_second: f64,
    coverage: Vec<Exercised>,
    /// The seed that came closest to the time limit within which every request must be granted.
    slowest: Option<Slowest>,
    failure: Option<Failure>,
}

/// The seeds that were run, without the last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct SeedRange {
    from: u64,
    to: u64,
}

/// The time that a seed took after its faults to grant every request, and the limit for it.
#[derive(Clone, Copy, Debug, Serialize)]
struct Slowest {
    seed: u64,
    seconds: f64,
    allowed: f64,
}

impl Slowest {
    fn part(self) -> f64 {
        self.seconds / self.allowed
    }
}

/// How often the runs exercised something.
#[derive(Debug, Serialize)]
struct Exercised {
    group: &'static str,
    what: &'static str,
    /// The kind, if there are several.
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    times: u64,
}

/// The smallest seed that failed, with the fewest faults that make it fail.
#[derive(Debug, Serialize)]
struct Failure {
    seed: u64,
    violation: String,
    /// How many of its first faults are enough to make it fail.
    faults: usize,
    of: usize,
    reproduce: String,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let (summary, interrupted) = if let Some(seed) = arguments.one {
        (run_one(seed, arguments)?, None)
    } else {
        let interrupt = Interrupt::watch()?;
        let plan = Plan::new(arguments);
        if plan.minutes.is_some() {
            eprintln!("meshlock: the first seed is {}; --first {0} begins with it again", plan.seeds.start);
        }
        (run_all(&plan, &interrupt), interrupt.signal())
    };
    if arguments.json {
        output::json(out, &summary)?;
    } else {
        print(&summary, out)?;
    }
    Ok(match interrupted {
        _ if summary.failure.is_some() => CommandOutcome::Refuted,
        Some(signal) => CommandOutcome::Exit(signal.exit_code()),
        None => CommandOutcome::Done,
    })
}

/// The result of a seed: its report, unless it panicked, and the violation, if there was one.
type Attempt = (Option<SeedReport>, Option<String>);

/// Runs one seed. A panic is a failed assertion, and counts as a violation.
fn attempt(seed: u64, options: &RunOptions) -> Attempt {
    judged(|| run_seed(seed, options))
}

fn judged(run: impl FnOnce() -> SeedReport) -> Attempt {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(report) => {
            let violation = report.violation.as_ref().map(ToString::to_string);
            (Some(report), violation)
        }
        Err(_) => (None, Some("it panicked; the message is above".to_owned())),
    }
}

fn run_one(seed: u64, arguments: &Arguments) -> anyhow::Result<Summary> {
    let started = Instant::now();
    let options = RunOptions { faults: arguments.faults, trace: arguments.trace.is_some() };
    let (report, violation) = attempt(seed, &options);
    if let (Some(path), Some(report)) = (&arguments.trace, &report) {
        let mut lines = report.trace.join("\n");
        lines.push('\n');
        std::fs::write(path, lines)
            .map_err(|error| UsageError::new(format!("--trace {}: {error}", path.display())))?;
    }
    let mut tally = SeedTally::default();
    if let Some(report) = &report {
        tally.add(report);
    }
    let failure = violation.map(|violation| {
        let of = faults_of(seed);
        failure(seed, violation, arguments.faults.unwrap_or(of).min(of), of)
    });
    Ok(tally.summary(started, failure))
}

fn failure(seed: u64, violation: String, faults: usize, of: usize) -> Failure {
    let reproduce = format!("meshlock dst --one {seed} --faults {faults} --trace trace.jsonl");
    Failure { seed, violation, faults, of, reproduce }
}

/// Runs seeds on all cores until all are done, one has failed or the user interrupts, and then shrinks the failure.
fn run_all(plan: &Plan, interrupt: &Interrupt) -> Summary {
    let started = Instant::now();
    let seeds = &plan.seeds;
    let bar = progress_bar(plan);
    let mut tally = SeedTally::default();
    let mut from = seeds.start;
    let mut failed = None;
    while from < seeds.end
        && failed.is_none()
        && interrupt.signal().is_none()
        && (from == seeds.start || !plan.is_over(started.elapsed()))
    {
        let to = seeds.end.min(from.saturating_add(AT_ONCE));
        let reports: Vec<(u64, Attempt)> = (from..to)
            .into_par_iter()
            .filter(|_| interrupt.signal().is_none())
            .map(|seed| {
                let report = attempt(seed, &RunOptions::default());
                bar.inc(1);
                (seed, report)
            })
            .collect();
        for (seed, (report, violation)) in reports {
            if let Some(report) = &report {
                tally.add(report);
            }
            failed = failed.or(violation.map(|violation| (seed, violation)));
        }
        from = to;
    }
    bar.finish_and_clear();
    let failure = failed.map(|(seed, violation)| {
        let run = |faults| attempt(seed, &RunOptions { faults: Some(faults), ..RunOptions::default() });
        shrink(seed, violation, run)
    });
    let interrupted = interrupt.signal().is_some();
    let asked = Some(seeds.end - seeds.start).filter(|_| interrupted && plan.minutes.is_none());
    let range = plan.minutes.map(|_| SeedRange { from: seeds.start, to: from });
    Summary { asked, range, interrupted, ..tally.summary(started, failure) }
}

fn progress_bar(plan: &Plan) -> ProgressBar {
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{:.0} seeds/s", state.per_sec());
    };
    let (template, length) = if let Some(minutes) = plan.minutes {
        let minutes = minutes.as_secs_f64() / 60.0;
        (format!("{{spinner}} {{pos}} seeds, {{rate}}, {{elapsed}} of {minutes} minutes"), None)
    } else {
        let seeds = plan.seeds.end - plan.seeds.start;
        ("{bar:40} {pos}/{len} seeds, {rate}, {eta} left".to_owned(), Some(seeds))
    };
    let style = ProgressStyle::with_template(&template);
    let style = style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.with_key("rate", rate));
    length.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style)
}

/// Finds the fewest faults with which the seed still fails; `run` runs the seed with that many.
fn shrink(seed: u64, violation: String, run: impl Fn(usize) -> Attempt) -> Failure {
    let of = faults_of(seed);
    let (faults, violation) = fewest_faults(seed, |faults| run(faults).1).unwrap_or((of, violation));
    failure(seed, violation, faults, of)
}

/// Returns the number of faults of a seed.
fn faults_of(seed: u64) -> usize {
    fault_kinds(seed).len()
}

/// Sums over the seeds that have run.
#[derive(Default)]
struct SeedTally {
    /// Number of seeds without a violation.
    seeds: u64,
    events: u64,
    node_micros: u64,
    coverage: Coverage,
    slowest: Option<Slowest>,
}

impl SeedTally {
    fn add(&mut self, report: &SeedReport) {
        self.seeds += u64::from(report.violation.is_none());
        self.events += report.events;
        self.node_micros += report.node_micros;
        self.coverage.add(&report.coverage);
        let seconds = |micros: u64| micros as f64 / 1e6;
        let Some(took) = report.served_micros.map(seconds) else { return };
        let this = Slowest { seed: report.seed, seconds: took, allowed: seconds(report.bound_micros) };
        if self.slowest.is_none_or(|slowest| slowest.part() < this.part()) {
            self.slowest = Some(this);
        }
    }

    fn summary(self, started: Instant, failure: Option<Failure>) -> Summary {
        let seconds = started.elapsed().as_secs_f64();
        Summary {
            seeds: self.seeds,
            asked: None,
            range: None,
            interrupted: false,
            events: self.events,
            node_seconds: self.node_micros / 1_000_000,
            seconds,
            seeds_per_second: self.seeds as f64 / seconds.max(1e-9),
            coverage: self
                .coverage
                .iter()
                .map(|(group, what, kind, times)| Exercised { group: group.name(), what, kind, times })
                .collect(),
            slowest: self.slowest,
            failure,
        }
    }
}

fn print(summary: &Summary, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&["", "what was exercised", "kind", "times"]);
    for Exercised { group, what, kind, times } in &summary.coverage {
        table.add_row([*group, *what, *kind, &times.to_string()]);
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")?;
    let Summary { seeds, events, node_seconds, seconds, seeds_per_second, failure, .. } = summary;
    let but =
        failure.as_ref().map_or_else(String::new, |failure| format!(", but seed {} does not", failure.seed));
    writeln!(
        out,
        "{seeds} seeds hold{but}: {events} events, {node_seconds} simulated node-seconds, {seconds:.1} s, {seeds_per_second:.0} seeds/s"
    )?;
    if let Some(asked) = summary.asked {
        writeln!(out, "interrupted: this is what was done of the {asked} seeds that were asked for")?;
    }
    if let Some(SeedRange { from, to }) = summary.range {
        let why = if summary.interrupted {
            "interrupted; to run all of these and a few more"
        } else {
            "to run the same seeds again"
        };
        writeln!(out, "{why}: meshlock dst --seeds {from}..{to}")?;
    }
    if let Some(slowest @ Slowest { seed, seconds, allowed }) = summary.slowest {
        let percent = slowest.part() * 100.0;
        writeln!(
            out,
            "seed {seed} came closest to the time limit: all requests were granted {seconds:.1} s after its faults, of {allowed:.1} s allowed ({percent:.0} %)"
        )?;
    }
    if let Some(Failure { seed, violation, faults, of, reproduce }) = failure {
        writeln!(out, "seed {seed} fails: {violation}")?;
        writeln!(out, "the first {faults} of its {of} faults are enough; to see it again:\n  {reproduce}")?;
    }
    out.flush().context("the output could not be written")
}

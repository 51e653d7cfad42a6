//! `meshlock dst`: deterministic simulation tests of whole clusters under faults, one cluster per seed.

use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use comfy_table::CellAlignment;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use meshlock_cluster_sim::{Coverage, RunOptions, SeedReport, fault_kinds, fewest_faults, run as run_seed};
use rayon::prelude::*;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::output::{self, CommandOutcome, UsageError};

/// How many seeds run before the command checks whether one has failed.
const AT_ONCE: u64 = 256;

/// Arguments of `meshlock dst`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The seeds to run; the last number is not included
    #[arg(long, default_value = "0..1000", value_name = "FROM..TO", value_parser = parse_seeds, conflicts_with = "one")]
    seeds: Range<u64>,
    /// Run only this seed
    #[arg(long, value_name = "SEED")]
    one: Option<u64>,
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

/// The results of all seeds together.
#[derive(Debug, Default, Serialize)]
struct Summary {
    seeds: u64,
    /// Number of seeds that were to run, if the user interrupted the command before all of them had.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<u64>,
    events: u64,
    node_seconds: u64,
    seconds: f64,
    seeds_per_second: f64,
    coverage: Vec<Exercised>,
    /// The seed that came closest to the time limit within which every request must be granted.
    slowest: Option<Slowest>,
    failure: Option<Failure>,
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
        (run_all(arguments.seeds.clone(), &interrupt), interrupt.signal())
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
fn run_all(seeds: Range<u64>, interrupt: &Interrupt) -> Summary {
    let started = Instant::now();
    let asked = seeds.end - seeds.start;
    let bar = progress_bar(asked);
    let mut tally = SeedTally::default();
    let mut from = seeds.start;
    let mut failed = None;
    while from < seeds.end && failed.is_none() && interrupt.signal().is_none() {
        let to = seeds.end.min(from + AT_ONCE);
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
    Summary { asked: interrupted.then_some(asked), ..tally.summary(started, failure) }
}

fn progress_bar(seeds: u64) -> ProgressBar {
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{:.0} seeds/s", state.per_sec());
    };
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {rate}, {eta} left");
    let style = style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.with_key("rate", rate));
    ProgressBar::new(seeds).with_style(style)
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
        let (took, allowed) = (seconds(report.calm_micros), seconds(report.bound_micros));
        let this = Slowest { seed: report.seed, seconds: took, allowed };
        if self.slowest.is_none_or(|slowest| slowest.part() < this.part()) {
            self.slowest = Some(this);
        }
    }

    fn summary(self, started: Instant, failure: Option<Failure>) -> Summary {
        let seconds = started.elapsed().as_secs_f64();
        Summary {
            seeds: self.seeds,
            asked: None,
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

#[cfg(test)]
mod tests {
    use meshlock_cluster_sim::{CoverageGroup, Moment, PropertyViolation};

    use super::*;

    #[test]
    fn seeds_are_a_range_with_something_in_it() {
        assert_eq!(parse_seeds("0..10_000"), Ok(0..10_000));
        assert!(parse_seeds("5").unwrap_err().contains("as in 0..1000"));
        assert!(parse_seeds("a..b").unwrap_err().contains("as in 0..1000"));
        assert!(parse_seeds("7..7").unwrap_err().contains("must be larger"));
    }

    #[test]
    fn a_seed_that_panics_fails_like_any_other() {
        let (report, violation) = judged(|| panic!("as a check of our own would"));
        assert!(report.is_none() && violation.is_some_and(|violation| violation.contains("panicked")));
    }

    #[test]
    fn a_summary_with_a_failure_does_not_say_that_all_seeds_hold() {
        let said = |failure| {
            let mut out = Vec::new();
            print(&Summary { seeds: 4, failure, ..Summary::default() }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(said(None).contains("4 seeds hold: "));
        let failed = said(Some(failure(7, "exclusion".to_owned(), 2, 9)));
        assert!(failed.contains("4 seeds hold, but seed 7 does not: "), "{failed}");
    }

    /// Runs a seed, and counts every crash of a process as a violation.
    fn with_a_bug(seed: u64, faults: usize) -> Attempt {
        judged(|| {
            let mut report = run_seed(seed, &RunOptions { faults: Some(faults), ..RunOptions::default() });
            if report.coverage.of(CoverageGroup::Fault, "crash") > 0 {
                let what = "a process crashed".to_owned();
                report.violation = Some(PropertyViolation { property: "bug", what, at: Moment(1) });
            }
            report
        })
    }

    #[test]
    fn a_failure_is_shrunk_to_the_first_fault_that_causes_it_and_one_less_holds() {
        let first_crash = |seed| fault_kinds(seed).iter().position(|kind| *kind == "crash");
        let seed = (0..100).find(|seed| first_crash(*seed) > Some(2)).unwrap();
        let all = with_a_bug(seed, faults_of(seed)).1.unwrap();
        let failure = shrink(seed, all, |faults| with_a_bug(seed, faults));
        assert_eq!(Some(failure.faults), first_crash(seed).map(|at| at + 1));
        assert_eq!(failure.of, faults_of(seed));
        assert!(failure.violation.contains("a process crashed"), "{}", failure.violation);
        assert!(with_a_bug(seed, failure.faults).1.is_some());
        assert_eq!(with_a_bug(seed, failure.faults - 1).1, None);
        let line = format!("meshlock dst --one {seed} --faults {} --trace trace.jsonl", failure.faults);
        assert_eq!(failure.reproduce, line);
    }

    #[test]
    fn a_failure_says_how_to_see_it_again() {
        let failure = failure(7, "exclusion".to_owned(), 2, 9);
        assert_eq!(failure.reproduce, "meshlock dst --one 7 --faults 2 --trace trace.jsonl");
    }
}

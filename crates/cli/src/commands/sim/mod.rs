//! `meshlock sim ALGO`: simulates one algorithm under load, and measures it.

mod faults;
pub(crate) mod model;
mod progress;

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use meshlock_protocol::Spec;
use meshlock_sim::report::{ByMode, Duration, ModeReport, OrderClock};
use meshlock_sim::trace::JsonLines;
use meshlock_sim::violation::Stopped;
use meshlock_sim::{Report, Settings};
use serde_json::Value;

use self::progress::{Progress, TraceWithProgress};
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock sim`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The algorithm and its options, such as maekawa or singhal-heuristic:arbitration=nearest
    algorithm: String,
    /// How many sites
    #[arg(long, default_value_t = 10, value_parser = model::count, allow_negative_numbers = true)]
    sites: usize,
    /// Requests per site and unit of time: one number, or one for each site, such as 0.1,0.1,2
    #[arg(long, default_value = "0.1", allow_negative_numbers = true)]
    rate: String,
    #[command(flatten)]
    model: model::Model,
    /// Write every event to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Include the state of the site in each line of the trace
    #[arg(long, requires = "trace")]
    trace_state: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let spec: Spec = arguments.algorithm.parse().map_err(UsageError::new)?;
    let settings = arguments
        .model
        .settings(arguments.sites, model::rates("--rate", &arguments.rate, arguments.sites)?)?;
    let start = Instant::now();
    let report = match &arguments.trace {
        None => {
            let mut progress = Progress::new(&spec.to_string(), settings.entries);
            let report =
                meshlock_sim::measure_with(&spec, &settings, &mut |entries| progress.entered(entries));
            report.map_err(|stopped| explain(&spec, stopped))?
        }
        Some(path) => {
            let file = output::create("--trace", path)?;
            let mut trace = JsonLines::new(BufWriter::new(file), arguments.trace_state);
            let progress = Progress::new(&spec.to_string(), settings.entries);
            let report = meshlock_sim::traced(
                &spec,
                &settings,
                &mut TraceWithProgress { trace: &mut trace, progress },
            );
            trace.finish().with_context(|| format!("cannot write the trace to {}", path.display()))?;
            report.map_err(|stopped| explain(&spec, stopped))?
        }
    };
    let wall = start.elapsed().as_secs_f64();
    if arguments.json {
        let mut document = serde_json::to_value(&report)?;
        if let Value::Object(fields) = &mut document {
            fields.insert("spec".to_owned(), spec.to_string().into());
            fields.insert("wall_seconds".to_owned(), wall.into());
        }
        output::json(out, &document)?;
    } else {
        print(&spec, &report, wall, out)?;
    }
    Ok(CommandOutcome::Done)
}

/// Runs one simulation without a trace.
pub(crate) fn measure(spec: &Spec, settings: &Settings) -> anyhow::Result<Report> {
    meshlock_sim::measure(spec, settings).map_err(|stopped| explain(spec, stopped))
}

/// Converts what stopped a run to an error: a mistake in the arguments, or a violation.
fn explain(spec: &Spec, stopped: Stopped) -> anyhow::Error {
    match stopped {
        Stopped::Plan(_) | Stopped::CannotFail { .. } | Stopped::NeverMended { .. } => {
            UsageError::new(stopped).into()
        }
        // With the options: the seed alone does not reproduce the run.
        Stopped::Violated { .. } => anyhow::Error::new(stopped).context(spec.to_string()),
    }
}

fn print(spec: &Spec, report: &Report, wall: f64, out: &mut dyn Write) -> anyhow::Result<()> {
    let Report { sites, permits, entries, warm_up, events, seed, .. } = report;
    writeln!(
        out,
        "{spec}: {sites} sites, {permits} permit{}, seed {seed}; {entries} entries measured after {warm_up} of warm-up",
        if *permits == 1 { "" } else { "s" }
    )?;
    writeln!(out, "{events} events in {wall:.2} s")?;
    if !report.steady_state {
        writeln!(
            out,
            "no steady state: the response time still grows at the end of the run, so the means describe this run only; \
             requests come faster than they are served, or the run is too short"
        )?;
    }
    let mut table = output::table(&["", "mean", "± 95 %", "p50", "p99", "max"]);
    let messages = &report.messages_per_entry;
    table.add_row(["messages per entry", &number(messages.mean), &half_width(messages.ci95), "", "", ""]);
    for (kind, mean) in &messages.by_kind {
        table.add_row([&format!("  {kind}"), &number(*mean), "", "", "", ""]);
    }
    table.add_row(["words per message", &number(report.words_per_message.mean), "", "", "", ""]);
    for (label, duration) in
        [("wait", report.wait), ("response", report.response), ("synchronisation delay", report.sync_delay)]
    {
        let Duration { mean, ci95, p50, p99, max } = duration;
        table.add_row([label, &number(mean), &half_width(ci95), &number(p50), &number(p99), &number(max)]);
    }
    if let Some(ByMode { shared, exclusive }) = report.by_mode {
        for (label, ModeReport { entries, wait }) in [("readers", shared), ("writers", exclusive)] {
            let label = format!("wait of {entries} {label}");
            let Duration { mean, p50, p99, max, .. } = wait;
            table.add_row([&label, &number(mean), "", &number(p50), &number(p99), &number(max)]);
        }
    }
    let throughput = report.throughput;
    table.add_row([
        "entries per time unit",
        &number(throughput.mean),
        &half_width(throughput.ci95),
        "",
        "",
        "",
    ]);
    for column in 1..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    print_fairness(report, out)?;
    let load = &report.site_load;
    writeln!(
        out,
        "messages of one site per entry: sent {:.2} to {:.2}, received {:.2} to {:.2}",
        load.sent_least, load.sent_most, load.received_least, load.received_most
    )?;
    writeln!(
        out,
        "checked at every event: at most K inside, fences increase, tokens conserved; all requests were granted"
    )?;
    Ok(())
}

fn print_fairness(report: &Report, out: &mut dyn Write) -> anyhow::Result<()> {
    let fairness = report.fairness;
    let counted = |count: Option<u64>| count.map_or("not measured".to_owned(), |count| count.to_string());
    writeln!(
        out,
        "fairness: Jain's index {:.4}; entries that overtook a request that is earlier by {}: {}; longest bypass: {}",
        fairness.jain,
        match fairness.clock {
            OrderClock::Algorithm => "the algorithm's own timestamps",
            OrderClock::Host => "the host's Lamport clock (the algorithm gives requests no timestamps)",
        },
        counted(fairness.overtakes),
        counted(fairness.max_bypass)
    )?;
    Ok(())
}

fn number(value: f64) -> String {
    format!("{value:.3}")
}

fn half_width(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

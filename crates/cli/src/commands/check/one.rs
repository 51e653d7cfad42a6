//! `meshlock check ALGO`: explores one run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use meshlock_check::{
    Bounds, Bypass, BypassBound, Entries, Report, SiteSymmetry, Step, Verdict, command, story_spec,
};
use meshlock_protocol::{Demand, Mode, SiteId, Spec};
use serde_json::{Value, json};

use super::bounds::{ResourceLimits, Scope, checked};
use super::explore::{Timed, explore, rate, size};
use super::{named, replay_test, trace};
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock check ALGO`.
#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct Arguments {
    /// The algorithm and its options, such as maekawa or lamport:omit-replies
    pub(super) algorithm: Option<String>,
    /// Drop the assumptions of papers one by one, and show which of them this algorithm really needs
    #[arg(long, value_name = "ALGO", conflicts_with_all = ["algorithm", "Scope", "trace", "as_test"])]
    pub(super) assumptions: Option<String>,
    /// With --assumptions: random walks in each run that is too large to be explored
    #[arg(long, value_name = "N", default_value_t = 500, requires = "assumptions")]
    pub(super) walks: u32,
    /// With --assumptions: the seed of the random walks
    #[arg(long, value_name = "SEED", default_value_t = 1, requires = "assumptions")]
    pub(super) seed: u64,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    pub(super) limits: ResourceLimits,
    /// Write the counterexample to this file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Include the state of the site in each line of the trace
    #[arg(long, requires = "trace")]
    trace_state: bool,
    /// Print the counterexample as a Rust test, and nothing else
    #[arg(long, conflicts_with = "json")]
    as_test: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let spec: Spec = named(arguments.algorithm.as_deref())?.parse().map_err(UsageError::new)?;
    let bounds = arguments.scope.bounds(&spec)?;
    let bounds = Bounds { max_memory: arguments.limits.memory()?, ..bounds };
    // Before the exploration, so that a mistyped path does not waste an hour.
    let file = arguments.trace.as_deref().map(create).transpose()?;
    let found = explore(&spec, &bounds, arguments.limits.threads()?, &spec.to_string())?;
    if let (Some(file), Some(path)) = (file, &arguments.trace) {
        let written =
            trace::write(&spec, &bounds, &found.report.path, arguments.trace_state, BufWriter::new(file));
        written.map_err(|error| unwritable(path, &error))?;
    }
    if arguments.as_test {
        write!(out, "{}", replay_test::source(&spec, &bounds, &found.report).map_err(UsageError::new)?)?;
    } else if arguments.json {
        output::json(out, &document(&spec, &bounds, &found)?)?;
    } else {
        print(&spec, &bounds, &found, out)?;
    }
    Ok(outcome(&found.report.verdict))
}

fn create(path: &Path) -> Result<File, UsageError> {
    File::create(path).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> UsageError {
    UsageError::new(format!("--trace {}: cannot be written: {error}", path.display()))
}

/// Returns how the command ends for a verdict.
pub(super) fn outcome(verdict: &Verdict) -> CommandOutcome {
    match (verdict.property(), verdict) {
        (Some(_), _) => CommandOutcome::Refuted,
        (None, Verdict::Unfinished) => CommandOutcome::Unfinished,
        (None, _) => CommandOutcome::Done,
    }
}

/// Returns the verdict in one word, for JSON.
pub(super) fn result(verdict: &Verdict) -> &'static str {
    match (verdict.property(), verdict) {
        (Some(_), _) => "violated",
        (None, Verdict::Unfinished) => "unfinished",
        (None, _) => "holds",
    }
}

/// Returns the smallest and the largest number of messages of a complete run, divided by its entries.
pub(super) fn messages_per_entry(bounds: &Bounds, report: &Report) -> Option<(f64, f64)> {
    let (least, most) = report.messages?;
    let Entries::Each(entries) = bounds.entries else { return None };
    let entries = (bounds.cluster.sites * usize::from(entries)) as f64;
    // A site that crashes does not complete its entries, so that the number of entries is not known.
    (bounds.crashes == 0).then(|| (least as f64 / entries, most as f64 / entries))
}

/// Returns the number of requests of each site as JSON.
pub(super) fn entries(bounds: &Bounds) -> Value {
    match bounds.entries {
        Entries::Each(entries) => json!(entries),
        Entries::Endless => json!("endless"),
    }
}

/// Returns the bypass bounds as JSON.
pub(super) fn bypass(bypass: &Bypass) -> Value {
    let bound = |bound| match bound {
        BypassBound::AtMost(entries) => json!(entries),
        BypassBound::Unbounded => json!("unbounded"),
    };
    json!({"from_call": bound(bypass.from_call), "once_heard": bound(bypass.once_heard)})
}

/// Returns the memory per state in bytes, if all states are in memory.
fn bytes_per_state(report: &Report) -> Option<usize> {
    report.swept.is_none().then(|| report.memory / report.states.max(1))
}

/// Returns everything about one exploration as JSON.
pub(super) fn document(spec: &Spec, bounds: &Bounds, found: &Timed) -> anyhow::Result<Value> {
    let Timed { report, seconds } = found;
    let property = report.verdict.property();
    let messages =
        messages_per_entry(bounds, report).map(|(least, most)| json!({"least": least, "most": most}));
    Ok(json!({
        "algorithm": spec.to_string(),
        "sites": bounds.cluster.sites,
        "permits": bounds.cluster.permits,
        "holders": bounds.holders.iter().map(|site| site.index()).collect::<Vec<_>>(),
        "entries": entries(bounds),
        "demands": bounds.demands.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "changes": bounds.changes,
        "window": bounds.window,
        "network": bounds.network().name(),
        "duplicates": bounds.duplicates,
        "losses": bounds.losses,
        "crashes": bounds.crashes,
        "recover": bounds.recoveries,
        "news_overtake": bounds.news.overtake,
        "news_late": bounds.news.late,
        "news_first": bounds.news_first,
        "return": bounds.returns,
        "properties": checked(spec, bounds),
        "states": report.states,
        "depth": report.depth,
        "edges": report.edges,
        "local_states": report.local_states,
        "bytes_per_state": bytes_per_state(report),
        "memory": report.memory,
        "swept": report.swept,
        "seconds": seconds,
        "result": result(&report.verdict),
        "property": property.map(|property| property.name()),
        "finding": property.map(|_| report.verdict.to_string()),
        "messages_per_entry": messages,
        "bypass": report.bypass.as_ref().map(bypass),
        "withheld_requests": report.withheld,
        "reduced": bounds.reduces,
        "passed": report.passed,
        "symmetries": report.symmetry.as_ref().map(|symmetry| symmetry.permutations),
        "asymmetry": report.symmetry.as_ref().and_then(|symmetry| symmetry.asymmetry.as_ref()).map(|why| why.to_string()),
        "story": story_spec(spec, bounds, &report.path).lines,
        "trace": trace::values(spec, bounds, &report.path)?,
        "round": report.round,
        "replay": command(spec, bounds),
    }))
}

fn print(spec: &Spec, bounds: &Bounds, found: &Timed, out: &mut dyn Write) -> anyhow::Result<()> {
    let Timed { report, seconds } = found;
    match report.verdict.property() {
        Some(property) => {
            let steps = report.path.len();
            writeln!(out, "{spec}: violated after {steps} steps: {}", report.verdict)?;
            writeln!(out, "  {}: {}", property.name(), property.sentence())?;
        }
        None if report.verdict == Verdict::Unfinished => writeln!(
            out,
            "{spec}: not finished: the limit of {} was reached; nothing is violated so far. Raise --memory, or lower \
             --sites or --entries",
            size(bounds.max_memory)
        )?,
        None => writeln!(out, "{spec}: holds in every schedule")?,
    }
    writeln!(out, "  run       {}", describe(bounds))?;
    writeln!(out, "  checked   {}", checked(spec, bounds).join(", "))?;
    let Report { states, depth, edges, local_states, .. } = report;
    writeln!(out, "  explored  {states} states, depth {depth}, {edges} edges, {local_states} local states")?;
    if let Some(passed) = report.passed {
        writeln!(out, "  reduced   {passed} further states were looked at and not kept")?;
    }
    if let Some(SiteSymmetry { permutations, asymmetry }) = &report.symmetry {
        let used = match permutations {
            1 => "no symmetry was found, so that all states were kept".to_owned(),
            count => format!(
                "one state was kept of those that {count} permutations of the sites make of each other"
            ),
        };
        let why = asymmetry.as_ref().map_or_else(String::new, |why| format!("; not a symmetry is {why}"));
        writeln!(out, "  symmetry  {used}{why}")?;
    }
    let each = bytes_per_state(report).map_or_else(String::new, |bytes| format!(", {bytes} bytes a state"));
    writeln!(out, "  cost      {seconds:.2} s, {} states/s{each}", rate(*states, *seconds))?;
    if let Some(level) = report.swept.filter(|_| report.verdict != Verdict::Unfinished) {
        writeln!(
            out,
            "  swept     {} were used at depth {level}; from there on the oldest levels were dropped, which misses no state",
            size(bounds.max_memory)
        )?;
    }
    if let Some((least, most)) = messages_per_entry(bounds, report) {
        writeln!(out, "  messages  {least:.2} to {most:.2} per entry, whatever the schedule")?;
    }
    if let Some(Bypass { from_call, once_heard }) = report.bypass {
        writeln!(
            out,
            "  bypass    while a site waits others enter at most: {from_call} times from its request on, {once_heard} times once all that it \
             sent has arrived"
        )?;
    }
    if report.withheld == Some(true) {
        writeln!(out, "  window    some requests were left out: what follows them was not explored")?;
    }
    if report.verdict.property().is_some() {
        tell(spec, bounds, (&report.verdict, &report.path[..], report.round), out)?;
        writeln!(out, "replay: {}", command(spec, bounds))?;
        writeln!(out, "as a test: the same with --as-test")?;
    }
    Ok(())
}

/// Prints the numbered steps of the counterexample.
pub(super) fn tell(
    spec: &Spec,
    bounds: &Bounds,
    (verdict, path, round): (&Verdict, &[Step], Option<usize>),
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for (line, number) in story_spec(spec, bounds, path).lines.iter().zip(1..) {
        if round == Some(number - 1) {
            writeln!(out, "       and from here the steps repeat for ever:")?;
        }
        writeln!(out, "  {number:>3}. {line}")?;
    }
    writeln!(out, "       {verdict}")?;
    Ok(())
}

/// Describes what is explored, in one line.
pub(super) fn describe(bounds: &Bounds) -> String {
    let mut parts = vec![match bounds.entries {
        Entries::Each(entries) => format!("{} sites × {entries} entries", bounds.cluster.sites),
        Entries::Endless => format!("{} sites that request for ever", bounds.cluster.sites),
    }];
    parts.extend(bounds.window.map(|window| format!("within a window of {window}")));
    if bounds.cluster.permits > 1 {
        parts.push(format!("{} permits", bounds.cluster.permits));
    }
    if bounds.demands != [Demand::PLAIN] {
        let asked: Vec<String> = bounds.demands.iter().map(ToString::to_string).collect();
        parts.push(format!("each {}", asked.join(" or ")));
    }
    if bounds.changes > 0 {
        parts.push(format!("up to {} changes of mode while inside", bounds.changes));
    }
    let holder = |(site, mode): (SiteId, Mode)| match mode {
        Mode::Exclusive => site.to_string(),
        Mode::Shared | Mode::Upgradeable => format!("{site} ({mode})"),
    };
    let holders: Vec<String> = bounds.holders.with_modes().map(holder).collect();
    if !holders.is_empty() {
        parts.push(format!("{} inside at the start", holders.join(", ")));
    }
    parts.push(format!("{} network", bounds.network().name()));
    for (count, what) in
        [(bounds.duplicates, "duplicates"), (bounds.losses, "losses"), (bounds.crashes, "crashes")]
    {
        if count > 0 {
            parts.push(format!("up to {count} {what}"));
        }
    }
    for (on, what) in [
        (bounds.recoveries, "failed sites recover"),
        (bounds.news.overtake, "news of failures overtake messages"),
        (bounds.news.late, "failed sites may recover before all know"),
        (bounds.news_first, "all know of a failure before anything else happens"),
        (bounds.returns, "sites may leave and request again in one step"),
        (bounds.survivors, "survivors must be served"),
        (bounds.reduces, "reduced"),
        (bounds.up_to_symmetry, "up to symmetry"),
    ] {
        if on {
            parts.push(what.to_owned());
        }
    }
    parts.join(", ")
}

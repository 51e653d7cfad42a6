//! `meshlock errata [ID]`: shows the errors in the published texts, and verifies each by exploration every time.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use meshlock_check::Progress;
use meshlock_check::errata::{self, Erratum, Finding, Judgement, Run};
use meshlock_protocol::registry::spec::did_you_mean;
use serde_json::{Value, json};

use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock errata`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The erratum to verify and show; without it all are verified and listed
    id: Option<String>,
    /// Print one JSON document
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print all errata as Markdown: the contents of docs/ERRATA.md
    #[arg(long, conflicts_with = "id")]
    markdown: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let chosen: Vec<&Erratum> = match &arguments.id {
        Some(id) => vec![errata::find(id).ok_or_else(|| unknown(id))?],
        None => errata::all().collect(),
    };
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let findings: Vec<(&Erratum, Finding)> =
        chosen.iter().map(|&erratum| (erratum, investigate(erratum, &bar))).collect();
    bar.finish_and_clear();
    if arguments.markdown {
        write!(out, "{}", errata::markdown(&findings))?;
    } else if arguments.json {
        let mut documents: Vec<Value> = findings.iter().map(document).collect();
        // One erratum is one object; without an id it is a list of them.
        let document =
            if arguments.id.is_some() { documents.swap_remove(0) } else { Value::Array(documents) };
        output::json(out, &document)?;
    } else if let (Some(_), [(erratum, finding)]) = (&arguments.id, findings.as_slice()) {
        write!(out, "{}", finding.section(erratum))?;
    } else {
        list(&findings, out)?;
    }
    let broken = findings.iter().any(|(_, finding)| finding.judgement == Judgement::NotRepaired);
    Ok(if broken { CommandOutcome::Refuted } else { CommandOutcome::Done })
}

fn unknown(id: &str) -> UsageError {
    let ids: Vec<&str> = errata::all().map(|erratum| erratum.id).collect();
    let nearest = did_you_mean(id, &ids);
    UsageError::new(format!("unknown erratum '{id}'{nearest}; `meshlock errata` lists them all"))
}

fn investigate(erratum: &Erratum, bar: &ProgressBar) -> Finding {
    erratum.investigate(|run: &Run, progress: &Progress| {
        let Progress { states, depth, .. } = progress;
        bar.set_message(format!("{}: {}: {states} states, depth {depth}", erratum.id, run.spec));
    })
}

fn list(findings: &[(&Erratum, Finding)], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&["id", "verdict", "steps", "what"]);
    for (erratum, finding) in findings {
        table.add_row([erratum.id, finding.judgement.name(), &finding.steps(), erratum.title]);
    }
    writeln!(out, "{table}")?;
    let confirmed = findings.iter().filter(|(_, found)| found.judgement == Judgement::Confirmed).count();
    writeln!(out, "{confirmed} of {} confirmed; `meshlock errata ID` shows one in full.", findings.len())?;
    Ok(())
}

fn document((erratum, finding): &(&Erratum, Finding)) -> Value {
    let run = |run: &Run| {
        json!({
            "spec": run.spec,
            "sites": run.sites,
            "entries": run.entries,
            "permits": run.permits,
            "network": if run.unordered { "unordered" } else { "fifo" },
            "crashes": run.crashes,
            "duplicates": run.duplicates,
            "recoveries": run.recoveries,
        })
    };
    let counterexample = finding.counterexample.as_ref().map(|found| {
        json!({
            "run": run(&found.run),
            "property": found.property.name(),
            "outcome": found.outcome,
            "steps": found.lines.len(),
            "trace": found.lines,
        })
    });
    let explored = finding.explored.iter().map(|explored| {
        json!({
            "run": run(&explored.run),
            "holds": explored.holds,
            "finished": explored.finished,
            "states": explored.states,
            "depth": explored.depth,
        })
    });
    let calculated = finding.calculated.iter().map(|row| {
        json!({ "what": row.what, "claimed": row.claimed, "printed": row.printed, "repaired": row.right })
    });
    json!({
        "id": erratum.id,
        "source": erratum.source,
        "title": erratum.title,
        "printed": erratum.printed,
        "wrong": erratum.wrong,
        "repair": erratum.repair,
        "verdict": finding.judgement.name(),
        "counterexample": counterexample,
        "explored": explored.collect::<Vec<Value>>(),
        "calculated": calculated.collect::<Vec<Value>>(),
    })
}

//! `meshlock errata [ID]`: shows the errors in the published texts. The verdicts are those of docs/ERRATA.md, which a test holds to
//! what exploration finds; `--verify` explores again.

mod recorded;

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
    /// The erratum to show in full; without it all are listed
    id: Option<String>,
    /// Explore again instead of showing the recorded verdicts: seconds for one erratum, a minute or more for all
    #[arg(long)]
    verify: bool,
    /// Print one JSON document; with --verify it includes counterexamples and explored runs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Verify all errata and print them as Markdown: the contents of docs/ERRATA.md
    #[arg(long, conflicts_with = "id")]
    markdown: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let chosen: Vec<&'static Erratum> = match &arguments.id {
        Some(id) => vec![errata::find(id).ok_or_else(|| unknown(id))?],
        None => errata::all().collect(),
    };
    if arguments.verify || arguments.markdown {
        verify(arguments, &chosen, out)
    } else {
        show_recorded(arguments, &chosen, out)
    }
}

/// Shows what was found when docs/ERRATA.md was written.
fn show_recorded(
    arguments: &Arguments,
    chosen: &[&'static Erratum],
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let verdicts: Vec<_> = chosen.iter().filter_map(|erratum| recorded::verdict(erratum.id)).collect();
    if arguments.json {
        let documents = chosen.iter().zip(&verdicts).map(|(erratum, recorded)| {
            let mut document = texts(erratum);
            document["verdict"] = json!(recorded.verdict);
            document["steps"] = json!(recorded.steps.parse::<usize>().ok());
            document["verified"] = json!(false);
            document
        });
        write_json(arguments, documents.collect(), out)?;
    } else if let Some(id) = &arguments.id {
        write!(out, "{}", recorded::section(id).unwrap_or_default())?;
        writeln!(out, "\nAs recorded; `meshlock errata {id} --verify` explores it again.")?;
    } else {
        let rows = chosen.iter().zip(&verdicts).map(|(erratum, recorded)| Row {
            erratum,
            verdict: recorded.verdict,
            steps: recorded.steps.to_owned(),
        });
        list(&rows.collect::<Vec<_>>(), out)?;
        writeln!(out, "As recorded; `meshlock errata --verify` explores all of them again.")?;
    }
    Ok(CommandOutcome::Done)
}

/// Investigates errata again and shows what is found.
fn verify(
    arguments: &Arguments,
    chosen: &[&'static Erratum],
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let bar = ProgressBar::new(chosen.len() as u64);
    bar.set_style(ProgressStyle::with_template("{spinner} {pos}/{len} {msg} ({elapsed})")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let investigated = |&erratum: &&'static Erratum| {
        let finding = investigate(erratum, &bar);
        bar.inc(1);
        (erratum, finding)
    };
    let findings: Vec<(&Erratum, Finding)> = chosen.iter().map(investigated).collect();
    bar.finish_and_clear();
    if arguments.markdown {
        write!(out, "{}", errata::markdown(&findings))?;
    } else if arguments.json {
        write_json(arguments, findings.iter().map(document).collect(), out)?;
    } else if let (Some(_), [(erratum, finding)]) = (&arguments.id, findings.as_slice()) {
        write!(out, "{}", finding.section(erratum))?;
    } else {
        let rows = findings.iter().map(|(erratum, finding)| Row {
            erratum,
            verdict: finding.judgement.name(),
            steps: finding.steps(),
        });
        list(&rows.collect::<Vec<_>>(), out)?;
    }
    let broken = findings.iter().any(|(_, finding)| finding.judgement == Judgement::NotRepaired);
    Ok(if broken { CommandOutcome::Refuted } else { CommandOutcome::Done })
}

/// Writes one object for one erratum, and a list of objects if no erratum was named.
fn write_json(arguments: &Arguments, mut documents: Vec<Value>, out: &mut dyn Write) -> anyhow::Result<()> {
    let document = if arguments.id.is_some() { documents.swap_remove(0) } else { Value::Array(documents) };
    output::json(out, &document)
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

/// One line of the list.
struct Row<'a> {
    erratum: &'a Erratum,
    verdict: &'a str,
    /// The length of the shortest counterexample, if there is one.
    steps: String,
}

fn list(rows: &[Row<'_>], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&["id", "verdict", "steps", "what"]);
    for Row { erratum, verdict, steps } in rows {
        table.add_row([erratum.id, verdict, steps, erratum.title]);
    }
    writeln!(out, "{table}")?;
    let confirmed = rows.iter().filter(|row| row.verdict == Judgement::Confirmed.name()).count();
    writeln!(out, "{confirmed} of {} confirmed; `meshlock errata ID` shows one in full.", rows.len())?;
    Ok(())
}

/// Returns what the erratum itself says.
fn texts(erratum: &Erratum) -> Value {
    json!({
        "id": erratum.id,
        "source": erratum.source,
        "title": erratum.title,
        "kind": erratum.kind.name(),
        "quote": erratum.quote,
        "reading": erratum.reading,
        "printed": erratum.printed,
        "wrong": erratum.wrong,
        "repair": erratum.repair,
    })
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
    let mut document = texts(erratum);
    document["verdict"] = json!(finding.judgement.name());
    document["steps"] = json!(finding.counterexample.as_ref().map(|found| found.lines.len()));
    document["verified"] = json!(true);
    document["counterexample"] = json!(counterexample);
    document["explored"] = explored.collect();
    document["calculated"] = calculated.collect();
    document
}

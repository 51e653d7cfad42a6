//! `meshlock reproduce [ID]`: repeats a table or figure of a paper, with published and measured values side by side.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment;
use meshlock_sim::experiments::{ALL, ComparisonRow, Experiment, Findings, RowVerdict, Work};
use serde_json::{Value, json};

use crate::output::{self, CommandOutcome, UsageError};
use crate::{jobs, plot};

/// Arguments of `meshlock reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The table or figure to reproduce, or `all`; without it they are listed
    id: Option<String>,
    /// Write the figures into this folder, as SVG
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let Some(id) = &arguments.id else {
        list(arguments, out)?;
        return Ok(CommandOutcome::Done);
    };
    let chosen: Vec<&Experiment> =
        ALL.iter().filter(|experiment| id == "all" || experiment.id == id).collect();
    if chosen.is_empty() {
        let ids: Vec<&str> = ALL.iter().map(|experiment| experiment.id).collect();
        return Err(UsageError::new(format!(
            "unknown table or figure '{id}'; there are: all, {}",
            ids.join(", ")
        ))
        .into());
    }
    if let Some(folder) = &arguments.svg {
        output::check_folder("--svg", folder)?;
    }
    let mut documents = Vec::new();
    for experiment in chosen {
        let findings = match experiment.work {
            Work::Runs { jobs, read } => read(&jobs::run_all(&jobs(), experiment.id)?),
            Work::Followed(run) => run()?,
            Work::Scripted(run) => run(),
        };
        if let Some(folder) = &arguments.svg {
            for figure in &findings.plots {
                eprintln!("meshlock: wrote {}", plot::write(folder, figure)?.display());
            }
        }
        if arguments.json {
            documents.push(document(experiment, &findings));
        } else {
            print(experiment, &findings, out)?;
            out.flush()?;
        }
    }
    if arguments.json {
        // One experiment is one object; `all` is a list of them.
        let document = if id == "all" { Value::Array(documents) } else { documents.swap_remove(0) };
        output::json(out, &document)?;
    }
    Ok(CommandOutcome::Done)
}

fn list(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    if arguments.json {
        let entry = |e: &Experiment| json!({ "id": e.id, "source": e.source, "about": e.about });
        return output::json(out, &ALL.iter().map(entry).collect::<Vec<Value>>());
    }
    let mut table = output::table(&["id", "from", "shows"]);
    for experiment in ALL {
        table.add_row([experiment.id, experiment.source, experiment.about]);
    }
    writeln!(out, "{table}")?;
    writeln!(out, "`meshlock reproduce ID` runs one, `meshlock reproduce all` every one.")?;
    Ok(())
}

fn document(experiment: &Experiment, findings: &Findings) -> Value {
    json!({
        "id": experiment.id,
        "source": experiment.source,
        "rows": findings.rows,
        "notes": findings.notes,
    })
}

fn print(experiment: &Experiment, findings: &Findings, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "\n{}: {}\n{}", experiment.id, experiment.about, experiment.source)?;
    let columns = ["", "quantity", "published", "derived", "measured", "± 95 %", "error", "z", "verdict"];
    let mut table = output::table(&columns);
    for row in &findings.rows {
        let ComparisonRow { label, quantity, published, derived, measured, ci95, error, z, verdict } = row;
        table.add_row([
            label.clone(),
            quantity.clone(),
            published.clone(),
            derived.clone(),
            format!("{measured:.3}"),
            ci95.map_or_else(String::new, |half| format!("{half:.3}")),
            error.map_or_else(String::new, |error| format!("{:+.1} %", 100.0 * error)),
            z.map_or_else(String::new, |z| format!("{z:+.1}")),
            verdict.name().to_owned(),
        ]);
    }
    for column in 2..=7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    writeln!(out, "{}", counts(findings))?;
    writeln!(out, "{}", RowVerdict::LEGEND)?;
    for note in &findings.notes {
        writeln!(out, "- {note}")?;
    }
    Ok(())
}

/// The number of rows of each verdict.
fn counts(findings: &Findings) -> String {
    let count = |verdict| findings.rows.iter().filter(|row| row.verdict == verdict).count();
    format!(
        "figures: {} agree, {} differ; statements: {} hold, {} fail, {} undecided",
        count(RowVerdict::Agrees),
        count(RowVerdict::Differs),
        count(RowVerdict::Holds),
        count(RowVerdict::Fails),
        count(RowVerdict::Undecided),
    )
}

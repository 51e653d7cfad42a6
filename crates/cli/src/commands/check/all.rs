//! `meshlock check all`: runs the matrix of `docs/CHECKED.md`, and records the results.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::CellAlignment;
use meshlock_check::Bounds;
use meshlock_check::matrix::{self, Case, CaseEnding, CaseOutcome, CaseRecord, HEADS};
use meshlock_protocol::Spec;
use serde_json::{Value, json};

use super::bounds::ResourceLimits;
use super::explore::{Timed, explore};
use crate::output::{self, CommandOutcome, UsageError};

/// The committed results, which say which runs are small.
const CHECKED: &str = include_str!("../../../../../docs/CHECKED.md");

/// Arguments of `meshlock check all`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct Arguments {
    /// Run only this algorithm with its variants, or only this variant (NAME:OPTION=VALUE); can be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run only what docs/CHECKED.md records as small, as the tests do
    #[arg(long)]
    small: bool,
    /// Add the results to this file, which keeps those of other runs; it is written after each run
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Skip the runs that the file already has with a final result and all figures
    #[arg(long, requires = "record")]
    resume: bool,
    #[command(flatten)]
    limits: ResourceLimits,
    /// Print the results as Markdown, in the form of docs/CHECKED.md
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let mut record_file = RecordFile::open(arguments.record.as_deref())?;
    let cases = chosen(arguments, &record_file)?;
    let (memory, threads) = (arguments.limits.memory()?, arguments.limits.threads()?);
    let mut documents = Vec::new();
    let mut records = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let spec: Spec = case.spec.parse().map_err(UsageError::new)?;
        let bounds = Bounds { max_memory: memory, ..case.bounds() };
        let title = format!("{}/{} {spec}", number + 1, cases.len());
        let timed = explore(&spec, &bounds, threads, &title)?;
        let record = CaseRecord { case: case.clone(), outcome: CaseOutcome::of(&timed.report, memory) };
        record_file.enter(&record)?;
        documents.push(document(&spec, &record, &bounds, &timed));
        records.push(record);
    }
    if arguments.json {
        output::json(out, &documents)?;
    } else if arguments.markdown {
        write!(out, "{}", matrix::write(&records))?;
    } else {
        print(&records, out)?;
    }
    Ok(outcome(&records))
}

/// Returns the runs that the flags select.
fn chosen(arguments: &Arguments, record_file: &RecordFile) -> anyhow::Result<Vec<Case>> {
    let mut cases = matrix::cases();
    for name in &arguments.only {
        if !cases.iter().any(|case| case.is_named(name)) {
            let _: Spec = name.parse().map_err(UsageError::new)?;
            return Err(UsageError::new(format!(
                "--only {name}: not among the runs of docs/CHECKED.md; `meshlock check {name}` explores it"
            ))
            .into());
        }
    }
    cases.retain(|case| arguments.only.is_empty() || arguments.only.iter().any(|name| case.is_named(name)));
    if arguments.small {
        let recorded = matrix::read(CHECKED)?;
        let is_small = |case: &Case| recorded.iter().any(|record| record.case == *case && record.is_small());
        cases.retain(is_small);
    }
    if arguments.resume {
        cases.retain(|case| !record_file.is_done(case));
    }
    Ok(cases)
}

/// The file of `--record`, which keeps results from one run of the command to the next.
struct RecordFile<'a> {
    path: Option<&'a Path>,
    records: Vec<CaseRecord>,
}

impl<'a> RecordFile<'a> {
    fn open(path: Option<&'a Path>) -> anyhow::Result<Self> {
        let unusable = |path: &Path, why: &dyn std::fmt::Display| {
            UsageError::new(format!(
                "--record {}: {why}; name a file that this command wrote, or a new one",
                path.display()
            ))
        };
        let records = match path {
            Some(path) if path.exists() => {
                let text = std::fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
                let records = matrix::read(&text).map_err(|error| unusable(path, &error))?;
                // Results that were obtained with other properties than today's are not valid any more.
                if matrix::is_current(&text) { records } else { Vec::new() }
            }
            _ => Vec::new(),
        };
        Ok(RecordFile { path, records })
    }

    fn is_done(&self, case: &Case) -> bool {
        let done = |record: &CaseRecord| record.case == *case && record.is_complete();
        self.records.iter().any(done)
    }

    /// Adds a result, or replaces the earlier result of the same run, and saves the file.
    fn enter(&mut self, record: &CaseRecord) -> anyhow::Result<()> {
        self.records.retain(|other| other.case != record.case);
        self.records.push(record.clone());
        self.save()
    }

    /// Writes the file atomically, if there is one, without runs that the matrix no longer has.
    fn save(&mut self) -> anyhow::Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        let order = matrix::cases();
        self.records.retain(|record| order.contains(&record.case));
        self.records.sort_by_key(|record| order.iter().position(|case| *case == record.case));
        let beside = path.with_extension("new");
        std::fs::write(&beside, matrix::write(&self.records))?;
        std::fs::rename(&beside, path)?;
        Ok(())
    }
}

fn document(spec: &Spec, record: &CaseRecord, bounds: &Bounds, timed: &Timed) -> Value {
    let CaseRecord { case, outcome } = record;
    let (result, property) = match outcome.ending {
        CaseEnding::Holds => ("holds", None),
        CaseEnding::Violated(property) => ("violated", Some(property.name())),
        CaseEnding::Unfinished { .. } => ("unfinished", None),
    };
    let messages = super::one::messages_per_entry(bounds, &timed.report);
    json!({
        "algorithm": spec.to_string(),
        "sites": case.sites,
        "entries": super::one::entries(bounds),
        "demands": bounds.demands.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "changes": case.changes,
        "window": case.window,
        "permits": case.permits,
        "holder": case.holder,
        "network": case.network.name(),
        "crashes": case.crashes,
        "recover": case.recovers,
        "return": case.returns,
        "reduced": case.reduces,
        "up_to_symmetry": case.up_to_symmetry,
        "states": outcome.states,
        "depth": outcome.depth,
        "seconds": timed.seconds,
        "memory": timed.report.memory,
        "swept": timed.report.swept,
        "result": result,
        "property": property,
        "bypass": outcome.bypass.as_ref().map(super::one::bypass),
        "messages_per_entry": messages.map(|(least, most)| json!({"least": least, "most": most})),
        "replay": meshlock_check::command(spec, bounds),
    })
}

fn print(records: &[CaseRecord], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&HEADS);
    for record in records {
        table.add_row(record.cells());
    }
    for column in [1, 2, 3, 9, 10] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    let count =
        |is_so: fn(CaseEnding) -> bool| records.iter().filter(|record| is_so(record.outcome.ending)).count();
    writeln!(
        out,
        "{} runs: {} hold, {} are violated, {} did not fit into memory; {} states in all",
        records.len(),
        count(|ending| ending == CaseEnding::Holds),
        count(|ending| matches!(ending, CaseEnding::Violated(_))),
        count(|ending| matches!(ending, CaseEnding::Unfinished { .. })),
        records.iter().map(|record| record.outcome.states).sum::<usize>()
    )?;
    Ok(())
}

fn outcome(records: &[CaseRecord]) -> CommandOutcome {
    let any = |is_so: fn(CaseEnding) -> bool| records.iter().any(|record| is_so(record.outcome.ending));
    if any(|ending| matches!(ending, CaseEnding::Violated(_))) {
        CommandOutcome::Refuted
    } else if any(|ending| matches!(ending, CaseEnding::Unfinished { .. })) {
        CommandOutcome::Unfinished
    } else {
        CommandOutcome::Done
    }
}

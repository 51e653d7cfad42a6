//! `meshlock check --assumptions ALGO`: finds out which of the assumptions of papers the algorithm really needs.

use std::io::Write;

use meshlock_check::assumptions::{Assumption, Trial, Weakening, weaken};
use meshlock_check::{Bounds, Verdict, command, story_spec};
use meshlock_protocol::Spec;
use serde_json::{Value, json};

use super::explore::{ProgressLine, on};
use super::one::{Arguments, describe, tell};
use super::{named, trace};
use crate::output::{self, CommandOutcome, UsageError};

/// Limit on the states of a run, which is then left unfinished: counterexamples appear in far smaller runs.
const MAX_STATES: usize = 1_000_000;

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let spec: Spec = named(arguments.assumptions.as_deref())?.parse().map_err(UsageError::new)?;
    let limits =
        Bounds { max_states: MAX_STATES, max_memory: arguments.limits.memory()?, ..Bounds::new(1, 1) };
    let line = ProgressLine::new(&spec.to_string());
    let weakenings = on(arguments.limits.threads()?, || weaken(&spec, &limits, |_, now| line.show(now)))?;
    let weakenings = weakenings.map_err(UsageError::new)?;
    drop(line);
    if arguments.json {
        let documents: anyhow::Result<Vec<Value>> =
            weakenings.iter().map(|weakening| document(&spec, weakening)).collect();
        let document = json!({
            "algorithm": spec.to_string(),
            "paper_assumes": spec.info.assumes,
            "failures_handled": {"crash": spec.info.failures.crash, "recovery": spec.info.failures.recovery},
            "assumptions": documents?,
        });
        output::json(out, &document)?;
    } else {
        print(&spec, &weakenings, out)?;
    }
    // With all assumptions the algorithm must hold; that it needs some of them is not a failure.
    let broken = weakenings[0].broken().is_some();
    Ok(if broken { CommandOutcome::Refuted } else { CommandOutcome::Done })
}

fn document(spec: &Spec, weakening: &Weakening) -> anyhow::Result<Value> {
    let run = |trial: &Trial| {
        let Trial { bounds, report } = trial;
        json!({
            "sites": bounds.cluster.sites,
            "permits": bounds.cluster.permits,
            "replay": command(spec, bounds),
            "states": report.states,
            "depth": report.depth,
            "result": super::one::result(&report.verdict),
        })
    };
    let broken = weakening.broken();
    let path = broken.map_or(&[][..], |trial| &trial.report.path);
    Ok(json!({
        "assumption": weakening.assumption.name(),
        "without_it": weakening.assumption.about(),
        "needed": broken.is_some(),
        "property": broken.and_then(|trial| trial.report.verdict.property()).map(|property| property.name()),
        "finding": broken.map(|trial| trial.report.verdict.to_string()),
        "runs": weakening.trials.iter().map(run).collect::<Vec<_>>(),
        "story": broken.map(|trial| story_spec(spec, &trial.bounds, path).lines),
        "trace": broken.map(|trial| trace::values(spec, &trial.bounds, path)).transpose()?,
    }))
}

fn print(spec: &Spec, weakenings: &[Weakening], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{spec}: its paper assumes: {}", spec.info.assumes)?;
    let mut table = output::table(&["without the assumption", "", "shown by"]);
    for weakening in weakenings {
        let about = weakening.assumption.about();
        table.add_row([about, verdict(weakening), &evidence(weakening)]);
    }
    writeln!(out, "{table}")?;
    for weakening in weakenings {
        if let Some(Trial { bounds, report }) = weakening.broken() {
            let property = report.verdict.property().map_or("", |property| property.name());
            writeln!(
                out,
                "\n{}: {property} is violated after {} steps",
                weakening.assumption.about(),
                report.path.len()
            )?;
            tell(spec, bounds, report, out)?;
            writeln!(out, "replay: {}", command(spec, bounds))?;
        }
    }
    Ok(())
}

fn verdict(weakening: &Weakening) -> &'static str {
    match (weakening.assumption, weakening.broken().is_some()) {
        (Assumption::None, false) => "holds",
        (Assumption::None, true) => "violated",
        (_, true) => "needed",
        (_, false) => "not needed",
    }
}

fn evidence(weakening: &Weakening) -> String {
    if let Some(Trial { bounds, report }) = weakening.broken() {
        return format!("{}: {}", describe(bounds), report.verdict);
    }
    let held = weakening.largest().map_or_else(String::new, |Trial { bounds, report }| {
        format!("holds up to {} ({} states)", describe(bounds), report.states)
    });
    let unfinished = weakening.trials.iter().filter(|trial| trial.report.verdict == Verdict::Unfinished);
    match unfinished.count() {
        0 => held,
        count => format!("{held}; {count} larger runs stopped after {MAX_STATES} states, nothing found"),
    }
}

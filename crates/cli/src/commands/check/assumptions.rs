//! `meshlock check --assumptions ALGO`: finds out which of the assumptions of papers the algorithm really needs.

use std::io::Write;

use meshlock_check::assumptions::{Assumption, Need, Trial, WalkTrial, Weakening, weaken};
use meshlock_check::walk::Walks;
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
    let walks = Walks { count: arguments.walks, seed: arguments.seed };
    let weakenings =
        on(arguments.limits.threads()?, || weaken(&spec, &limits, walks, |_, now| line.show(now)))?;
    let weakenings = weakenings.map_err(UsageError::new)?;
    drop(line);
    if arguments.json {
        let documents: anyhow::Result<Vec<Value>> = weakenings.iter().map(document).collect();
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
    // With all assumptions the algorithm must hold; that it needs those that it makes is not a failure.
    let is_wrong = weakenings.iter().any(Weakening::contradicts_registry);
    Ok(if is_wrong { CommandOutcome::Refuted } else { CommandOutcome::Done })
}

fn document(weakening: &Weakening) -> anyhow::Result<Value> {
    let run = |trial: &Trial| {
        let Trial { spec, bounds, report } = trial;
        json!({
            "sites": bounds.cluster.sites,
            "permits": bounds.cluster.permits,
            "replay": command(spec, bounds),
            "states": report.states,
            "depth": report.depth,
            "result": super::one::result(&report.verdict),
        })
    };
    let walk = |trial: &WalkTrial| {
        let WalkTrial { spec, bounds, walked } = trial;
        json!({
            "algorithm": spec.to_string(),
            "sites": bounds.cluster.sites,
            "permits": bounds.cluster.permits,
            "walks": walked.walks,
            "steps": walked.steps,
            "found": walked.found.is_some(),
        })
    };
    let need = weakening.need();
    let property = need.and_then(|need| need.verdict.property());
    Ok(json!({
        "assumption": weakening.assumption.name(),
        "without_it": weakening.assumption.about(),
        "result": verdict(weakening),
        "made": weakening.is_made,
        "property": property.map(|property| property.name()),
        "finding": need.map(|need| need.verdict.to_string()),
        "algorithm": need.map(|need| need.spec.to_string()),
        "runs": weakening.trials.iter().map(run).collect::<Vec<_>>(),
        "walks": weakening.walks.iter().map(walk).collect::<Vec<_>>(),
        "story": need.map(|need| story_spec(need.spec, need.bounds, need.path).lines),
        "trace": need.map(|need| trace::values(need.spec, need.bounds, need.path)).transpose()?,
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
        if let Some(need @ Need { spec, bounds, verdict, path, .. }) = weakening.need() {
            let property = verdict.property().map_or("", |property| property.name());
            let about = weakening.assumption.about();
            writeln!(out, "\n{about}: {property} of {spec} is violated after {} steps", path.len())?;
            tell(spec, bounds, (verdict, path, need.round), out)?;
            if need.is_walked {
                writeln!(out, "met by a random walk in: {}", describe(bounds))?;
            } else {
                writeln!(out, "replay: {}", command(spec, bounds))?;
            }
        }
    }
    Ok(())
}

fn verdict(weakening: &Weakening) -> &'static str {
    match (weakening.assumption, weakening.need().is_some()) {
        (Assumption::None, false) => "holds",
        (Assumption::None, true) => "violated",
        (_, true) if weakening.contradicts_registry() => "needed, and not assumed",
        (_, true) => "needed",
        (_, false) if weakening.is_made => "assumed, not shown to be needed",
        (_, false) => "not shown to be needed",
    }
}

fn evidence(weakening: &Weakening) -> String {
    if let Some(Need { spec, bounds, verdict, is_walked, .. }) = weakening.need() {
        let how = if is_walked { "a random walk of " } else { "" };
        return format!("{how}{spec}, {}: {verdict}", describe(bounds));
    }
    let held = weakening.largest().map_or_else(String::new, |Trial { spec, bounds, report }| {
        format!("explored up to {spec}, {} ({} states)", describe(bounds), report.states)
    });
    let unfinished = weakening.trials.iter().filter(|trial| trial.report.verdict == Verdict::Unfinished);
    let held = match unfinished.count() {
        0 => held,
        count => format!("{held}; {count} runs stopped after {MAX_STATES} states, nothing found"),
    };
    let walks: u64 = weakening.walks.iter().map(|trial| u64::from(trial.walked.walks)).sum();
    match weakening.walks.last() {
        None => held,
        Some(last) => format!("{held}; nothing met by {walks} random walks up to {}", describe(&last.bounds)),
    }
}

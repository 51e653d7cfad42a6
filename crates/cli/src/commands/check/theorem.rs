//! `meshlock check theorem`: verifies Sanders' theorem by exploration.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use clap::Args;
use comfy_table::CellAlignment;
use indicatif::ProgressBar;
use meshlock_check::theorem::{JudgedStructure, STRUCTURES, judge, structure};
use meshlock_protocol::information::Flaw;
use serde_json::json;

use crate::output::{self, CommandOutcome};

/// Arguments of `meshlock check theorem`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// List every structure with its result
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The two repairs of the plain rules, which can deadlock: with FAIL and INQUIRE (section 5), or always giving back.
const RULES: [&str; 2] = ["fail", "yield"];

/// The results for the structures about which the theorem says the same.
#[derive(Default)]
struct StructureGroup {
    structures: usize,
    agree: usize,
    states: usize,
    paths: Vec<usize>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let start = Instant::now();
    let bar = ProgressBar::new((RULES.len() * STRUCTURES) as u64);
    let mut judged = Vec::new();
    for rules in RULES {
        for number in 0..STRUCTURES {
            judged.push((rules, judge(structure(number), rules)));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let agree = judged.iter().all(|(_, judged)| judged.agrees());
    let mut groups: BTreeMap<(&str, &str), StructureGroup> = BTreeMap::new();
    for (rules, judged) in &judged {
        groups.entry((rules, says(judged))).or_default().add(judged);
    }
    if arguments.json {
        let list = judged.iter().filter(|_| arguments.list);
        output::json(
            out,
            &json!({
                "agrees": agree,
                "seconds": start.elapsed().as_secs_f64(),
                "groups": groups.iter().map(group_document).collect::<Vec<_>>(),
                "structures": list.map(|(rules, judged)| structure_document(rules, judged)).collect::<Vec<_>>(),
            }),
        )?;
    } else {
        if arguments.list {
            list(&judged, out)?;
        }
        print(&groups, agree, out)?;
    }
    Ok(if agree { CommandOutcome::Done } else { CommandOutcome::Refuted })
}

/// Returns what the theorem says about a structure.
fn says(judged: &JudgedStructure) -> &'static str {
    match &judged.flaw {
        None => "a and b hold",
        Some(Flaw::Strangers { .. }) => "b fails",
        Some(Flaw::InformsUnasked { .. } | Flaw::ForgetsItself { .. }) => "a fails",
    }
}

impl StructureGroup {
    fn add(&mut self, judged: &JudgedStructure) {
        self.structures += 1;
        self.agree += usize::from(judged.agrees());
        self.states += judged.report.states;
        self.paths.extend(judged.flaw.is_some().then_some(judged.report.path.len()));
    }

    /// Returns the smallest and the largest number of steps of a shortest counterexample.
    fn steps(&self) -> Option<(usize, usize)> {
        Some((*self.paths.iter().min()?, *self.paths.iter().max()?))
    }
}

fn group_document((&(rules, says), group): (&(&str, &str), &StructureGroup)) -> serde_json::Value {
    json!({
        "rules": rules,
        "theorem": says,
        "structures": group.structures,
        "agree": group.agree,
        "states": group.states,
        "counterexample_steps": group.steps().map(|(least, most)| json!({"least": least, "most": most})),
    })
}

fn structure_document(rules: &str, judged: &JudgedStructure) -> serde_json::Value {
    json!({
        "rules": rules,
        "structure": judged.structure.to_string(),
        "flaw": judged.flaw.as_ref().map(ToString::to_string),
        "result": super::one::result(&judged.report.verdict),
        "property": judged.report.verdict.property().map(|property| property.name()),
        "states": judged.report.states,
        "steps": judged.report.path.len(),
        "agrees": judged.agrees(),
    })
}

fn list(judged: &[(&str, JudgedStructure)], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&["structure", "rules", "theorem", "machine", "states", "steps"]);
    for (rules, judged) in judged {
        let report = &judged.report;
        table.add_row([
            judged.structure.to_string(),
            (*rules).to_owned(),
            says(judged).to_owned(),
            report.verdict.to_string(),
            report.states.to_string(),
            report.path.len().to_string(),
        ]);
    }
    writeln!(out, "{table}\n")?;
    Ok(())
}

fn print(
    groups: &BTreeMap<(&str, &str), StructureGroup>,
    agree: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "Sanders' theorem (section 4): a structure excludes if and only if (a) I_i ⊆ R_i and (b) for all i ≠ j, I_i and I_j meet or\n\
         each of i and j asks the other. The {STRUCTURES} structures of three sites with i ∈ I_i ⊆ R_i, each site enters once:"
    )?;
    let mut table = output::table(&[
        "deadlock=",
        "the theorem says",
        "structures",
        "the machine finds",
        "states",
        "shortest way there",
    ]);
    for ((rules, says), group) in groups {
        let finds = if *says == "a and b hold" { "safe and live" } else { "two inside at once" };
        table.add_row([
            (*rules).to_owned(),
            (*says).to_owned(),
            group.structures.to_string(),
            format!("{finds}: {} of {}", group.agree, group.structures),
            group.states.to_string(),
            group.steps().map_or_else(String::new, |(least, most)| format!("{least} to {most} steps")),
        ]);
    }
    for column in [2, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{}",
        if agree { "theorem and machine agree on every one" } else { "theorem and machine DISAGREE" }
    )?;
    Ok(())
}

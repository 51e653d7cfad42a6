//! `meshlock prove [NAME|all]`: proves algorithms for every number of sites, and compares their code with the models.

mod counterexamples;
mod json;
mod lease;
#[cfg(test)]
mod tests;
mod wrong;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use meshlock_proof::counterexample::{self, Breaking};
use meshlock_proof::document;
use meshlock_proof::examine::{Doing, Examined, TieEffort, examine};
use meshlock_proof::inequality::JudgedInequality;
use meshlock_proof::model::ProofModel;
use meshlock_proof::models::{self, Covered};
use meshlock_proof::prove::{Judged, Judgement};
use meshlock_proof::query::Query;
use meshlock_proof::recorded;
use meshlock_proof::solver::{Solver, SolverAnswer, SolverError};
use meshlock_proof::tie::{TieBreak, TieReport, TieRun};
use meshlock_protocol::registry::spec::did_you_mean;
use serde_json::Value;

use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock prove`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The algorithm, `census`, `lease`, or `all`
    #[arg(default_value = "all")]
    name: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Compare the code with the model in the larger runs, too: minutes
    #[arg(long)]
    long: bool,
    /// Show instead how each wrong model fails, also those of printed texts with errors: the clause, with a state and a step that break it
    #[arg(long, conflicts_with = "long")]
    wrong: bool,
    /// Write the counterexamples to induction to this file, too: `meshlock lab FILE` draws each state, step and broken clause
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    counterexamples: Option<PathBuf>,
    /// Write docs/PROVED.md, or with a NAME only what it says of that model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "long", "wrong"])]
    record: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Beside algorithms there are `census`, why no two members of a node's view act on machines of different views, and `lease`,
the inequality of leases as real arithmetic.

Needs z3 and cvc5 (Debian's packages have these names).

Exit codes:
  0   everything is proved, and code and models agree
  1   a clause is refuted, or the code differs from its model; the output shows where
  2   unfinished: a question that no solver could answer, or a solver is missing
  64  invalid arguments; the message says what is expected";

/// One algorithm with the time that it took.
struct TimedProof {
    examined: Examined,
    took: Duration,
    unproved: Vec<Unproved>,
}

/// A question that is not proved, with a small counterexample to induction if there is one.
struct Unproved {
    query: Query,
    found: Option<Breaking>,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let name = arguments.name.as_str();
    let chosen: Vec<&'static Covered> = match name {
        "all" => models::all().collect(),
        lease::NAME => Vec::new(),
        name => vec![models::find(name).ok_or_else(|| unknown(name))?],
    };
    if arguments.record.is_some() && name == lease::NAME {
        return Err(UsageError::new("--record writes the document of `all`, or of one model").into());
    }
    if let Some(path) = &arguments.counterexamples {
        output::check_file("--counterexamples", path)?;
    }
    let effort = if arguments.long { TieEffort::Long } else { TieEffort::Short };
    let told = if arguments.wrong {
        wrong::tell(&chosen, arguments, out)
    } else {
        prove(&chosen, effort, matches!(name, "all" | lease::NAME))
            .and_then(|proved| proved.tell(arguments, out))
    };
    match told {
        Ok(outcome) => Ok(outcome),
        Err(error) if error.downcast_ref::<SolverError>().is_some() => {
            eprintln!("meshlock: {error}");
            Ok(CommandOutcome::Unfinished)
        }
        Err(error) => Err(error),
    }
}

/// What was found.
struct Proved {
    models: Vec<TimedProof>,
    inequalities: Vec<JudgedInequality>,
}

fn prove(chosen: &[&'static Covered], effort: TieEffort, with_leases: bool) -> anyhow::Result<Proved> {
    let models = chosen.iter().map(|&covered| timed(covered, effort)).collect::<Result<_, _>>()?;
    let inequalities = if with_leases { lease::judge()? } else { Vec::new() };
    Ok(Proved { models, inequalities })
}

impl Proved {
    /// Writes it as it was asked for.
    fn tell(self, arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
        let outcome = self.outcome();
        if let Some(path) = &arguments.counterexamples {
            counterexamples::write(path, &self.counterexamples())?;
        }
        if let Some(path) = &arguments.record {
            let document = self.document(arguments, path)?;
            output::create("--record", path)?.write_all(document.as_bytes())?;
        } else if arguments.json {
            let models = self.models.iter().map(json::describe);
            let inequalities = self.inequalities.iter().map(lease::describe);
            let documents: Vec<Value> = models.chain(inequalities).collect();
            output::json(out, &documents)?;
        } else {
            for timed in &self.models {
                show(timed, out)?;
            }
            if !self.inequalities.is_empty() {
                lease::show(&self.inequalities, out)?;
            }
        }
        Ok(outcome)
    }

    /// Every counterexample that was found, as the file has it.
    fn counterexamples(&self) -> Vec<Value> {
        let unproved = self.models.iter().flat_map(|TimedProof { examined, unproved, .. }| {
            unproved.iter().filter_map(|unproved| Some((examined.covered.name, unproved.found.as_ref()?)))
        });
        unproved.map(|(model, breaking)| counterexamples::describe(model, None, breaking)).collect()
    }

    /// The whole document, or the one that is there with one model's part written anew.
    fn document(self, arguments: &Arguments, path: &Path) -> anyhow::Result<String> {
        let examined: Vec<Examined> = self.models.into_iter().map(|timed| timed.examined).collect();
        let ([one], false) = (examined.as_slice(), arguments.name == "all") else {
            return Ok(document::markdown(&examined, &self.inequalities));
        };
        let there =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        recorded::renewed(&there, one).ok_or_else(|| {
            let (name, path) = (one.covered.name, path.display());
            UsageError::new(format!(
                "{path} says nothing of {name}; `meshlock prove all --record {path}` writes all"
            ))
            .into()
        })
    }

    fn outcome(&self) -> CommandOutcome {
        let outcome = outcome(self.models.iter().map(|timed| &timed.examined));
        let has_failed = self.inequalities.iter().any(|judged| !judged.holds());
        if has_failed { CommandOutcome::Refuted } else { outcome }
    }
}

fn unknown(name: &str) -> UsageError {
    let names: Vec<&str> = models::all().flat_map(Covered::names).chain([lease::NAME]).collect();
    let nearest = did_you_mean(name, &names);
    UsageError::new(format!("no model of '{name}'{nearest}; there are models of {}", names.join(", ")))
}

fn outcome<'a>(examined: impl Iterator<Item = &'a Examined>) -> CommandOutcome {
    let mut outcome = CommandOutcome::Done;
    for examined in examined {
        let is_wrong =
            |judged: &Judged| matches!(judged.judgement(), Judgement::Refuted | Judgement::Contradictory);
        if examined.judged.iter().any(is_wrong) || examined.ties.iter().any(|(_, tie)| tie.is_err()) {
            return CommandOutcome::Refuted;
        }
        if !examined.holds() {
            outcome = CommandOutcome::Unfinished;
        }
    }
    outcome
}

fn timed(covered: &'static Covered, effort: TieEffort) -> anyhow::Result<TimedProof> {
    let start = Instant::now();
    let model = covered.model();
    let bar = ProgressBar::new((Query::all(&model).len() * Solver::ALL.len()) as u64);
    bar.set_style(ProgressStyle::with_template("{spinner} {pos}/{len} {msg} ({elapsed})")?);
    bar.enable_steady_tick(Duration::from_millis(200));
    let examined = examine(covered, effort, &mut |doing| match doing {
        Doing::Asking(solver, query) => {
            let (action, clause) = (query.action_name(&model), query.clause_name(&model));
            bar.set_message(format!("{}: {}: {action}, {clause}", covered.name, solver.program()));
            bar.inc(1);
        }
        Doing::Looking(what) => {
            bar.set_message(format!("{}: is {} possible?", covered.name, what.name(&model)));
        }
        Doing::Comparing(TieRun { sites, entries, .. }) => {
            bar.set_message(format!("{}: the code, {sites} sites, {entries} entries each", covered.name));
        }
    });
    bar.finish_and_clear();
    let (examined, took) = (examined?, start.elapsed());
    let unproved = unproved(&examined)?;
    Ok(TimedProof { examined, took, unproved })
}

/// Looks for a small counterexample to each question that is not proved.
fn unproved(examined: &Examined) -> Result<Vec<Unproved>, SolverError> {
    let open = examined.judged.iter().filter(|judged| judged.judgement() != Judgement::Proved);
    let find = |&Judged { query, .. }: &_| {
        Ok(Unproved { query, found: counterexample::find(&examined.model, query)? })
    };
    open.map(find).collect()
}

/// Prints the table of clauses and actions, what is not proved, and how the code compares.
fn show(TimedProof { examined, took, unproved }: &TimedProof, out: &mut dyn Write) -> anyhow::Result<()> {
    let (model, name) = (&examined.model, examined.covered.name);
    writeln!(out, "{name}\n{}\n", examined.covered.scope)?;
    let numbers: Vec<String> = (1..=model.actions.len()).map(|number| number.to_string()).collect();
    let mut heads = vec!["clause", "start"];
    heads.extend(numbers.iter().map(String::as_str));
    let mut table = output::table(&heads);
    for (clause, named) in model.clauses.iter().enumerate() {
        let mut row = vec![named.name.clone(), mark(examined, Query::Start { clause }).to_owned()];
        let actions = 0..model.actions.len();
        row.extend(actions.map(|action| mark(examined, Query::Step { action, clause }).to_owned()));
        table.add_row(row);
    }
    writeln!(out, "{table}")?;
    for (number, action) in numbers.iter().zip(&model.actions) {
        writeln!(out, "{number:>3}  {}: {}", action.name, action.rule)?;
    }
    for (theorem, named) in model.theorems.iter().enumerate() {
        writeln!(out, "  {}  {}: {}", mark(examined, Query::Theorem { theorem }), named.name, named.why)?;
    }
    writeln!(out, "\n✓ by both solvers, z by z3 only, c by cvc5 only, ✗ refuted, ? open, · not touched")?;
    for unproved in unproved {
        show_failure(model, unproved, out)?;
    }
    for what in examined.empty() {
        writeln!(out, "\na proof about nothing: no small instance of {}", what.name(model))?;
    }
    for solver in Solver::ALL {
        if let Some((query, steps)) = examined.hardest(solver) {
            let (action, clause) = (query.action_name(model), query.clause_name(model));
            let (program, limit) = (solver.program(), solver.limit());
            writeln!(out, "hardest for {program}: {action}, {clause}: {steps} steps of {limit}")?;
        }
    }
    for (run, tie) in &examined.ties {
        writeln!(out, "code, {}: {}", describe_run(run), describe_tie(tie))?;
    }
    let (questions, z3, cvc5) =
        (examined.judged.len(), examined.proved_by(Solver::Z3), examined.proved_by(Solver::Cvc5));
    let verdict = match (examined.holds(), examined.ties.is_empty()) {
        (true, false) => "proved for every N in the model; code and model agree on every step of these runs",
        (true, true) => "proved for every N in the model",
        (false, _) => "NOT proved",
    };
    writeln!(
        out,
        "{name}: {verdict}: {questions} questions, z3 {z3}, cvc5 {cvc5}, {:.1} s\n",
        took.as_secs_f64()
    )?;
    Ok(())
}

/// One cell of the table.
fn mark(examined: &Examined, query: Query) -> &'static str {
    let Some(judged) = examined.judged.iter().find(|judged| judged.query == query) else { return "·" };
    let proved = judged.replies.iter().map(|reply| reply.answer == SolverAnswer::Impossible);
    match (judged.judgement(), proved.collect::<Vec<_>>().as_slice()) {
        (Judgement::Proved, [true, true]) => "✓",
        (Judgement::Proved, [true, _]) => "z",
        (Judgement::Proved, _) => "c",
        (Judgement::Refuted, _) => "✗",
        (Judgement::Open, _) => "?",
        (Judgement::Contradictory, _) => "solvers disagree",
    }
}

fn show_failure(
    model: &ProofModel,
    Unproved { query, found }: &Unproved,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(out, "\nnot proved: {}, {}", query.action_name(model), query.clause_name(model))?;
    match found {
        None => writeln!(out, "  no small counterexample to induction")?,
        Some(breaking) => show_breaking(breaking, out)?,
    }
    Ok(())
}

/// A counterexample to induction.
fn show_breaking(breaking: &Breaking, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "  in this state: {}", breaking.before().join(", "))?;
    if let Some(step) = breaking.step() {
        writeln!(out, "  {step} breaks it: {}", breaking.change().join(", "))?;
    }
    Ok(())
}

fn describe_run(TieRun { sites, permits, entries, inside, returns, spec, .. }: &TieRun) -> String {
    let permits = if *permits == 1 { String::new() } else { format!(", {permits} permits") };
    let inside = inside.map_or(String::new(), |site| format!(", site {site} inside at the start"));
    let returns = if *returns { ", which may leave and request again in one step" } else { "" };
    let spec = spec.map_or(String::new(), |spec| format!("{spec}, "));
    format!("{spec}{} with {entries} each{permits}{inside}{returns}", output::counted(*sites as u64, "site"))
}

fn describe_tie(tie: &Result<TieReport, TieBreak>) -> String {
    match tie {
        Ok(TieReport { is_whole, states, steps, .. }) => {
            let extent = if *is_whole { "" } else { ", the first ones only" };
            format!("agrees in {states} states and {steps} steps{extent}")
        }
        Err(why) => format!("DIFFERS: {why}"),
    }
}

//! `meshlock rules`: shows and changes which algorithm each lock runs, while the cluster runs.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use meshlock_cluster::rules::deadlock::with_option;
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_wire::clients::{ToClient, ToNode};

use super::rules_document::{self, RuleDocument, RulesDocument};
use super::target::{self, ANSWER_WITHIN, Target, unexpected};
use crate::output::{self, CommandOutcome, Printable, UsageError};
use meshlock_client::{Connection, ConnectionError};

/// Arguments of `meshlock rules`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: RulesCommand,
}

/// What happens to the youngest request of a deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnDeadlock {
    /// It waits, as do the others
    Wait,
    /// It is refused, with an error of its own
    Refuse,
}

#[derive(Debug, Subcommand)]
enum RulesCommand {
    /// Show the current rules
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Add or replace a rule; locks stay held meanwhile
    Set {
        /// The name of a lock, a prefix of names followed by '*', or '*' for all locks that no other rule names
        pattern: String,
        /// The algorithm and its options, such as raymond or raymond:tree=star; `meshlock algorithms` lists them
        algorithm: String,
        /// How many clients may hold such a lock at once; `run` then needs the same --permits. After a change nobody enters
        /// before those have left who hold it with the old number
        #[arg(long, default_value_t = 1)]
        permits: u32,
        /// How many of them at one site, at most 128 [default: as many as --permits]
        #[arg(long)]
        per_site: Option<u32>,
        /// What happens to a request for such a lock that is the youngest one of a deadlock; it is found within about 3 s
        #[arg(long, value_name = "WHAT", default_value = "wait")]
        deadlock: OnDeadlock,
        #[command(flatten)]
        target: Target,
    },
    /// Replace all rules by those of a file; locks stay held meanwhile
    Load {
        /// What `meshlock rules show --json` has written
        file: PathBuf,
        #[command(flatten)]
        target: Target,
    },
    /// Remove a rule; the locks that it named then run the default algorithm ('*')
    Unset {
        /// The pattern, as `rules show` prints it
        pattern: String,
        #[command(flatten)]
        target: Target,
    },
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    match &arguments.command {
        RulesCommand::Show { target } => {
            let status = target::status(&mut target.connect("rules show")?)?;
            show(target, &status.view.rules, status.view.epoch.number(), out)
        }
        RulesCommand::Set { pattern, algorithm, permits, per_site, deadlock, target } => {
            let per_site = per_site.unwrap_or(*permits);
            let algorithm = match deadlock {
                // It may be among the options, as `rules show` prints it.
                OnDeadlock::Wait => algorithm.clone(),
                OnDeadlock::Refuse => with_option(algorithm, true),
            };
            let clause = Clause { algorithm, permits: *permits, per_site };
            let mut remote = target.connect("rules set")?;
            let mut rules = target::status(&mut remote)?.view.rules;
            put(&mut rules, pattern, clause);
            change(target, &mut remote, rules, out)
        }
        RulesCommand::Load { file, target } => {
            let rules = rules_document::read(file)?;
            change(target, &mut target.connect("rules load")?, rules, out)
        }
        RulesCommand::Unset { pattern, target } => {
            let mut remote = target.connect("rules unset")?;
            let mut rules = target::status(&mut remote)?.view.rules;
            take(&mut rules, pattern)?;
            change(target, &mut remote, rules, out)
        }
    }
}

fn put(rules: &mut RulesText, pattern: &str, clause: Clause) {
    if pattern == "*" {
        rules.default = clause;
    } else if let Some((_, old)) = rules.rules.iter_mut().find(|(old, _)| old == pattern) {
        *old = clause;
    } else {
        rules.rules.push((pattern.to_owned(), clause));
    }
}

fn take(rules: &mut RulesText, pattern: &str) -> Result<(), UsageError> {
    let before = rules.rules.len();
    rules.rules.retain(|(old, _)| old != pattern);
    if rules.rules.len() < before {
        return Ok(());
    }
    if pattern == "*" {
        return Err(UsageError::new(
            "'*' is the rule for all other locks and cannot be removed; change it with `meshlock rules set '*' ALGORITHM`",
        ));
    }
    let names: Vec<&str> = rules.rules.iter().map(|(old, _)| old.as_str()).collect();
    let near = meshlock_protocol::registry::spec::did_you_mean(pattern, &names);
    Err(UsageError::new(format!("there is no rule '{pattern}'{near}; `meshlock rules show` lists them")))
}

/// Replaces the rules of the cluster.
pub(super) fn change(
    target: &Target,
    remote: &mut Connection,
    rules: RulesText,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let wanted = rules.clone();
    match remote.ask(ANSWER_WITHIN, |tag| ToNode::SetRules { tag, rules }) {
        Ok(ToClient::RulesSet { epoch, .. }) => show(target, &wanted, epoch, out),
        Ok(other) => Err(unexpected(remote, &other)),
        Err(error) if error.is_unavailable() => Err(error.into()),
        // The cluster refuses invalid rules, which the caller can mend.
        Err(ConnectionError::Refused { why, .. }) => Err(UsageError::new(why).into()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn show(
    target: &Target,
    rules: &RulesText,
    epoch: u32,
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let all = || {
        rules.rules.iter().map(|(pattern, clause)| (pattern.as_str(), clause)).chain([("*", &rules.default)])
    };
    if target.json {
        output::json(out, &RulesDocument { epoch, rules: RuleDocument::all(rules) })?;
        return Ok(CommandOutcome::Done);
    }
    writeln!(out, "Rules of view {epoch}:")?;
    let mut table = output::table(&["locks", "algorithm", "permits", "at one site"]);
    for (pattern, Clause { algorithm, permits, per_site }) in all() {
        let (pattern, algorithm) = (Printable(pattern).to_string(), Printable(algorithm).to_string());
        table.add_row([pattern, algorithm, permits.to_string(), per_site.to_string()]);
    }
    writeln!(out, "{table}")?;
    Ok(CommandOutcome::Done)
}

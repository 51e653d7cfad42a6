//! `meshlock break`: takes a lock away from whoever holds it.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{Age, CutOff};
use meshlock_wire::clients::{ToClient, ToNode};
use serde_json::json;

use super::queue;
use super::status::who;
use super::target::{ANSWER_WITHIN, Target, lock_name, unexpected};
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock break`.
#[derive(Debug, Args)]
#[command(after_help = "\
The holder is told to stop, and has the margin of a lease to do so (500 ms by default). A holder on another machine, which the
message may not reach, has until its session expires (session_ttl in the configuration). Nobody else gets the lock before that.
The resource that the lock protects should reject requests with a smaller fence than the largest that it has seen.")]
pub(crate) struct Arguments {
    /// The name of the lock
    #[arg(value_parser = lock_name)]
    name: LockName,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let Arguments { name, yes, target } = arguments;
    if !yes && !io::stdin().is_terminal() {
        return Err(UsageError::new(format!(
            "{name}: there is no terminal to ask on; say --yes to take it away"
        ))
        .into());
    }
    let mut remote = target.connect("break")?;
    if !yes {
        let found = queue::ask(&mut remote, name)?;
        for (site, holder) in queue::holders(&found) {
            let (who, age) = (who(holder.label.as_ref()), Age(holder.age));
            eprintln!("{name} is held by {who} of {site}, for {age} (fence {}).", holder.fence.value());
        }
        if !output::is_confirmed(&format!("Take {name} away?"))? {
            eprintln!("Nothing was done.");
            return Ok(CommandOutcome::Refuted);
        }
    }
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Break { tag, lock: name.clone() })?;
    if let ToClient::Broken { cut_off, missing, .. } = &answer {
        tell(arguments, cut_off, missing, out)
    } else {
        Err(unexpected(&remote, &answer))
    }
}

fn tell(
    arguments: &Arguments,
    cut_off: &[CutOff],
    missing: &[SiteName],
    out: &mut dyn Write,
) -> anyhow::Result<CommandOutcome> {
    let name = &arguments.name;
    // Sites that did not answer may not have carried out the order.
    let outcome = if missing.is_empty() { CommandOutcome::Done } else { CommandOutcome::Unfinished };
    if arguments.target.json {
        let client = |CutOff { site, label, fence }: &CutOff| json!({ "site": site, "who": label, "fence": fence.value().to_string() });
        let cut_off: Vec<_> = cut_off.iter().map(client).collect();
        output::json(out, &json!({ "lock": name, "cut_off": cut_off, "missing": missing }))?;
        return Ok(outcome);
    }
    for CutOff { site, label, fence } in cut_off {
        writeln!(out, "{name} was taken from {} of {site} (fence {}).", who(label.as_ref()), fence.value())?;
    }
    if cut_off.is_empty() {
        writeln!(out, "Nobody who answered held {name}.")?;
    }
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.iter().map(SiteName::as_str).collect();
        writeln!(
            out,
            "No answer from {}: repeat the command, unless these sites are gone for good.",
            missing.join(", ")
        )?;
    }
    Ok(outcome)
}

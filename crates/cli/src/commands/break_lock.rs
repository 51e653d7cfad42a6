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
use crate::output::{self, Outcome, Usage};

/// Arguments of `meshlock break`.
#[derive(Debug, Args)]
#[command(after_help = "\
The holder is told, and has the margin of a lease to stop (500 ms unless the cluster is configured otherwise); one that is connected
over a network, and may not hear it, as long as its session lasts without a word (session_ttl). Nobody else has the lock before. What the lock protects should refuse a fence smaller than one that it has seen.")]
pub(crate) struct Arguments {
    /// The lock
    #[arg(value_parser = lock_name)]
    name: LockName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let Arguments { name, yes, target } = arguments;
    if !yes && !io::stdin().is_terminal() {
        return Err(
            Usage::new(format!("{name}: there is no terminal to ask on; say --yes to take it away")).into()
        );
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
            return Ok(Outcome::Refuted);
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
) -> anyhow::Result<Outcome> {
    let name = &arguments.name;
    // An order that some did not hear has not been carried out.
    let outcome = if missing.is_empty() { Outcome::Done } else { Outcome::Unfinished };
    if arguments.target.json {
        let client = |CutOff { site, label, fence }: &CutOff| json!({ "site": site, "who": label, "fence": fence.value() });
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
        writeln!(out, "No answer from {}: say it again, if they are not gone.", missing.join(", "))?;
    }
    Ok(outcome)
}

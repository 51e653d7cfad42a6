//! `meshlock deadlocks`: names clients that wait for each other's locks, across the whole cluster.

use std::io::Write;

use clap::Args;
use meshlock_client::Connection;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{Age, Deadlock, Deadlocks};
use meshlock_cluster::report::{PartyHold, PartyWait, StuckParty};
use meshlock_cluster::time::Span;
use meshlock_wire::clients::{ToClient, ToNode};
use serde_json::{Value, json};

use super::locks::check_version;
use super::status::who;
use super::target::{ANSWER_WITHIN, Target, unexpected};
use crate::output::{self, CommandOutcome, counted};

/// Arguments of `meshlock deadlocks`.
#[derive(Debug, Args)]
#[command(after_help = "\
A session that holds a and waits for b, and another one that holds b and waits for a, wait for ever: this names them, who holds what, and
since when. All members are asked twice, and only what both answers show is named. A semaphore is part of it only if all of its holders are.
Sessions are those of the APIs, and `meshlock run` with all that runs below it; programs that use the Rust library are not seen.
To end one: end a client, `meshlock break` a lock, or let it end by itself: meshlock rules set PATTERN ALGORITHM --deadlock refuse

Exit codes:
  0    there is none
  1    there is at least one
  2    none was found, but not all sites answered")]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let mut remote = arguments.target.connect("deadlocks")?;
    check_version(&remote)?;
    let deadlocks = ask(&mut remote)?;
    if arguments.target.json {
        output::json(out, &document(&deadlocks))?;
    } else {
        print(&deadlocks, out)?;
    }
    Ok(if !deadlocks.found.is_empty() {
        CommandOutcome::Refuted
    } else if deadlocks.missing.is_empty() && !deadlocks.is_cut {
        CommandOutcome::Done
    } else {
        CommandOutcome::Unfinished
    })
}

/// Asks the cluster for its deadlocks.
pub(super) fn ask(remote: &mut Connection) -> anyhow::Result<Deadlocks> {
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Deadlocks { tag })?;
    if let ToClient::Deadlocks { deadlocks, .. } = answer {
        Ok(*deadlocks)
    } else {
        Err(unexpected(remote, &answer))
    }
}

/// Returns those deadlocks that a lock is part of.
pub(super) fn of_lock<'a>(deadlocks: &'a Deadlocks, lock: &LockName) -> Vec<&'a Deadlock> {
    deadlocks.found.iter().filter(|deadlock| deadlock.locks().contains(lock)).collect()
}

fn millis(span: Span) -> u64 {
    span.micros() / 1000
}

fn document(deadlocks: &Deadlocks) -> Value {
    json!({
        "deadlocks": deadlocks.found.iter().map(document_of).collect::<Vec<_>>(),
        "missing": deadlocks.missing,
        "complete": deadlocks.missing.is_empty() && !deadlocks.is_cut,
    })
}

/// Returns one deadlock as JSON.
pub(super) fn document_of(deadlock: &Deadlock) -> Value {
    let wait = |wait: &PartyWait| json!({ "lock": wait.lock, "waited_ms": millis(wait.waited) });
    let hold = |hold: &PartyHold| {
        let fence = hold.fence.value().to_string();
        json!({ "lock": hold.lock, "held_ms": millis(hold.held), "fence": fence, "slot": hold.slot })
    };
    let party = |stuck: &StuckParty| {
        json!({
            "site": stuck.site,
            "who": stuck.who,
            "holds": stuck.holds.iter().map(hold).collect::<Vec<_>>(),
            "waits": stuck.waits.iter().map(wait).collect::<Vec<_>>(),
        })
    };
    json!({ "parties": deadlock.parties.iter().map(party).collect::<Vec<_>>() })
}

fn print(deadlocks: &Deadlocks, out: &mut dyn Write) -> anyhow::Result<()> {
    match deadlocks.found.len() {
        0 => writeln!(out, "No clients wait for each other's locks.")?,
        found => writeln!(out, "{}:", counted(found as u64, "deadlock"))?,
    }
    for deadlock in &deadlocks.found {
        print_one(deadlock, out)?;
    }
    if deadlocks.is_cut {
        writeln!(out, "A site has more clients that hold something and wait than it lists.")?;
    }
    if !deadlocks.missing.is_empty() {
        let missing: Vec<&str> = deadlocks.missing.iter().map(SiteName::as_str).collect();
        writeln!(
            out,
            "No answer from {}: deadlocks with clients of these sites are not seen.",
            missing.join(", ")
        )?;
    }
    Ok(())
}

/// Prints one deadlock: a line for each client.
pub(super) fn print_one(deadlock: &Deadlock, out: &mut dyn Write) -> anyhow::Result<()> {
    for stuck in &deadlock.parties {
        let holds: Vec<String> = stuck.holds.iter().map(held).collect();
        let waits: Vec<String> = stuck.waits.iter().map(waited).collect();
        let (who, site) = (who(stuck.who.as_ref()), &stuck.site);
        writeln!(out, "  {who} of {site} holds {}, and waits for {}", holds.join(", "), waits.join(", "))?;
    }
    Ok(())
}

fn held(hold: &PartyHold) -> String {
    format!("{} (for {}, fence {})", hold.lock, Age(hold.held), hold.fence.value())
}

fn waited(wait: &PartyWait) -> String {
    format!("{} (for {})", wait.lock, Age(wait.waited))
}

//! `meshlock queue`: shows who holds a lock, who waits for it, and why.

use std::io::Write;

use clap::Args;
use meshlock_cluster::names::{LockName, SiteName};
use meshlock_cluster::node::{Age, Deadlocks, InLine, LockQueue, line};
use meshlock_cluster::table::HolderReport;
use meshlock_wire::clients::{HAS_LISTINGS, ToClient, ToNode};
use serde_json::{Value, json};

use super::deadlocks;
use super::status::who;
use super::target::{ANSWER_WITHIN, Target, lock_name, unexpected};
use crate::output::{self, CommandOutcome, Printable};
use meshlock_client::Connection;

/// Arguments of `meshlock queue`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The name of the lock
    #[arg(value_parser = lock_name)]
    name: LockName,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let Arguments { name, target } = arguments;
    let mut remote = target.connect("queue")?;
    let queue = ask(&mut remote, name)?;
    // Nobody is in a deadlock who waits for nothing.
    let deadlocks = if totals(&queue).1 > 0 && remote.version() >= HAS_LISTINGS {
        deadlocks::ask(&mut remote)?
    } else {
        Deadlocks::default()
    };
    let deadlocks = deadlocks::of_lock(&deadlocks, name);
    if target.json {
        let mut document = document(name, &queue);
        document["deadlocks"] = deadlocks.into_iter().map(deadlocks::document_of).collect();
        output::json(out, &document)?;
    } else {
        print(name, &queue, out)?;
        for deadlock in deadlocks {
            writeln!(out, "These wait for each other, and none of them gets what it waits for:")?;
            deadlocks::print_one(deadlock, out)?;
        }
    }
    Ok(CommandOutcome::Done)
}

/// Asks the cluster for the holders and waiters of a lock.
pub(super) fn ask(remote: &mut Connection, lock: &LockName) -> anyhow::Result<LockQueue> {
    let answer = remote.ask(ANSWER_WITHIN, |tag| ToNode::Queue { tag, lock: lock.clone() })?;
    if let ToClient::Queue { queue, .. } = answer { Ok(queue) } else { Err(unexpected(remote, &answer)) }
}

/// Returns all holders with their sites.
pub(super) fn holders(queue: &LockQueue) -> impl Iterator<Item = (&SiteName, &HolderReport)> {
    queue.sites.iter().flat_map(|site| site.lock.holders.iter().map(|holder| (&site.site, holder)))
}

fn document(name: &LockName, queue: &LockQueue) -> Value {
    let millis = |span: meshlock_cluster::time::Span| span.micros() / 1000;
    let holder = |(site, holder): (&SiteName, &HolderReport)| {
        json!({
            "site": site,
            "who": holder.label,
            "fence": holder.fence.value().to_string(),
            "slot": holder.slot,
            "held_ms": millis(holder.age),
            "lost": holder.lost,
        })
    };
    let waiter = |InLine { site, waiter, why }: &InLine| json!({ "site": site, "who": waiter.label, "waited_ms": millis(waiter.age), "why": why.to_string() });
    let (holding, waiting) = totals(queue);
    json!({
        "lock": name,
        "algorithm": queue.algorithm,
        "permits": queue.permits,
        "epoch": queue.epoch,
        "holders": holders(queue).map(holder).collect::<Vec<_>>(),
        "holders_in_all": holding,
        "waiters": line(&queue.sites, &queue.missing, queue.permits).iter().map(waiter).collect::<Vec<_>>(),
        "waiters_in_all": waiting,
        "missing": queue.missing,
    })
}

/// Returns the numbers of holders and waiters, including those that are not listed.
fn totals(queue: &LockQueue) -> (u64, u64) {
    let sum = |of: fn(&meshlock_cluster::table::LockReport) -> u64| {
        queue.sites.iter().fold(0_u64, |sum, site| sum.saturating_add(of(&site.lock)))
    };
    (sum(|lock| lock.holders_in_all), sum(|lock| lock.waiters_in_all))
}

fn print(name: &LockName, queue: &LockQueue, out: &mut dyn Write) -> anyhow::Result<()> {
    let algorithm = queue.algorithm.as_deref().unwrap_or("an algorithm that this node does not know");
    let permits = if queue.permits == 1 { String::new() } else { format!(", {} permits", queue.permits) };
    let (holding, waiting) = totals(queue);
    let algorithm = Printable(algorithm);
    writeln!(out, "{name}: {algorithm}{permits}; {holding} hold it, {waiting} wait.")?;
    let mut holding = output::table(&["held by", "at", "for", "fence", ""]);
    for (site, holder) in holders(queue) {
        let lost = if holder.lost { "told to stop" } else { "" };
        let (who, age) = (who(holder.label.as_ref()), Age(holder.age).to_string());
        holding.add_row([who, site.to_string(), age, holder.fence.value().to_string(), lost.to_owned()]);
    }
    if !holding.is_empty() {
        writeln!(out, "{holding}")?;
    }
    let line = line(&queue.sites, &queue.missing, queue.permits);
    let mut waiting = output::table(&["waits", "at", "since", "why"]);
    for InLine { site, waiter, why } in &line {
        let (who, age) = (who(waiter.label.as_ref()), Age(waiter.age).to_string());
        waiting.add_row([who, site.to_string(), age, format!("it waits {why}")]);
    }
    if !waiting.is_empty() {
        writeln!(out, "{waiting}")?;
    }
    if !queue.missing.is_empty() {
        let missing: Vec<&str> = queue.missing.iter().map(SiteName::as_str).collect();
        writeln!(
            out,
            "No answer from {}: what the clients of these sites hold and wait for is not listed.",
            missing.join(", ")
        )?;
    }
    Ok(())
}

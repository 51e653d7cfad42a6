//! What `meshlock locks` prints.

use std::io::Write;

use meshlock_cluster::node::{Age, LockSummary, SiteChange};
use meshlock_cluster::time::Span;
use meshlock_system::wall;
use serde_json::{Value, json};

use super::Listing;
use crate::commands::status::who;
use crate::output::{self, Printable, PrintableJson, counted};

/// How a lock is held: by one client at a time, or by as many as it has permits.
const MODE: &str = "exclusive";

fn millis(span: Span) -> u64 {
    span.micros() / 1000
}

pub(super) fn document(listing: &Listing) -> Value {
    json!({
        "locks": listing.locks.iter().map(lock).collect::<Vec<_>>(),
        "more": listing.says_more(),
        "missing": listing.missing,
    })
}

fn lock(lock: &LockSummary) -> Value {
    let holders = lock.holders.iter().map(|held| {
        json!({
            "site": held.site,
            "who": held.holder.label,
            "mode": MODE,
            "fence": held.holder.fence.value().to_string(),
            "slot": held.holder.slot,
            "held_ms": millis(held.holder.age),
            "lost": held.holder.lost,
        })
    });
    json!({
        "lock": lock.lock,
        "algorithm": lock.algorithm,
        "permits": lock.permits,
        "holders": holders.collect::<Vec<_>>(),
        "holders_in_all": lock.holders_in_all,
        "waiters_in_all": lock.waiters,
        "waited_ms": if lock.waiters == 0 { None } else { Some(millis(lock.waited)) },
    })
}

/// Writes one JSON object as a line.
pub(super) fn line(out: &mut dyn Write, value: &Value) -> anyhow::Result<()> {
    serde_json::to_writer(PrintableJson(&mut *out), value)?;
    writeln!(out)?;
    Ok(())
}

pub(super) fn table(listing: &Listing, out: &mut dyn Write) -> anyhow::Result<()> {
    let heads = ["lock", "mode", "held by", "at", "for", "fence", "wait", "longest", "algorithm"];
    let mut table = output::table(&heads);
    for lock in &listing.locks {
        table.add_row(row(lock));
    }
    if table.is_empty() {
        writeln!(out, "No lock is held or waited for.")?;
    } else {
        writeln!(out, "{table}")?;
    }
    if listing.is_cut {
        writeln!(out, "There are more: say --limit, or give the beginning of their names.")?;
    } else if listing.left_out > 0 {
        writeln!(
            out,
            "{} more: say --limit, or give the beginning of their names.",
            counted(listing.left_out, "lock")
        )?;
    }
    if !listing.missing.is_empty() {
        let missing: Vec<&str> =
            listing.missing.iter().map(meshlock_cluster::names::SiteName::as_str).collect();
        writeln!(
            out,
            "No answer from {}: what the clients of these sites hold and wait for is not listed.",
            missing.join(", ")
        )?;
    }
    Ok(())
}

fn row(lock: &LockSummary) -> [String; 9] {
    let first = lock.holders.first();
    let others = lock.holders_in_all.saturating_sub(1);
    let mut by = first.map(|held| who(held.holder.label.as_ref())).unwrap_or_default();
    if first.is_some_and(|held| held.holder.lost) {
        by += " (told to stop)";
    }
    if others > 0 {
        by = format!("{by} and {others} more of {}", lock.permits);
    }
    [
        lock.lock.to_string(),
        if first.is_some() { MODE.to_owned() } else { String::new() },
        by,
        first.map(|held| held.site.to_string()).unwrap_or_default(),
        first.map(|held| Age(held.holder.age).to_string()).unwrap_or_default(),
        first.map(|held| held.holder.fence.value().to_string()).unwrap_or_default(),
        lock.waiters.to_string(),
        if lock.waiters == 0 { String::new() } else { Age(lock.waited).to_string() },
        lock.algorithm.as_ref().map_or_else(|| "unknown".to_owned(), |name| Printable(name).to_string()),
    ]
}

/// Prints changes of locks, each with the calendar time of this machine.
pub(super) fn changes(
    changes: &[SiteChange],
    missed: u64,
    json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if missed > 0 && json {
        line(out, &json!({ "missed": missed }))?;
    } else if missed > 0 {
        writeln!(
            out,
            "At least {} missed.",
            if missed == 1 { "1 change was".to_owned() } else { format!("{missed} changes were") }
        )?;
    }
    for change in changes {
        let at = wall().saturating_sub(change.change.ago.micros()) / 1000;
        if json {
            line(out, &change_document(change, at))?;
        } else {
            writeln!(out, "{}", change_text(change, at))?;
        }
    }
    Ok(())
}

fn change_document(SiteChange { site, change }: &SiteChange, at: u64) -> Value {
    json!({
        "change": change.kind.name(),
        "lock": change.lock,
        "mode": MODE,
        "site": site,
        "who": change.who,
        "fence": change.fence.value().to_string(),
        "slot": change.slot,
        "at_ms": at,
    })
}

/// Returns a line for people; `at` is in milliseconds since 1970.
pub(super) fn change_text(SiteChange { site, change }: &SiteChange, at: u64) -> String {
    let (day, millis) = (at / 1000 % 86_400, at % 1000);
    let time = format!("{:02}:{:02}:{:02}.{millis:03}Z", day / 3600, day / 60 % 60, day % 60);
    let (kind, fence) = (change.kind.name(), change.fence.value());
    format!("{time} {kind:<8} {} by {} of {site} (fence {fence})", change.lock, who(change.who.as_ref()))
}

//! `meshlock status`: shows the state of a site, and of the cluster as this site sees it.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use meshlock_cluster::fence_floor;
use meshlock_cluster::names::{ClientLabel, Incarnation, SiteName};
use meshlock_cluster::node::{Age, Standing};
use meshlock_wire::clients::Status;
use serde_json::{Value, json};

use super::target::{self, Target};
use super::voters::{self, role};
use crate::output::{self, CommandOutcome, Printable, counted};

/// Arguments of `meshlock status`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Exit with 69 unless the site grants locks now, as a readiness probe wants it
    #[arg(long)]
    ready: bool,
}

/// Exit code of `--ready` if the site does not grant locks.
const EXIT_NOT_READY: u8 = 69;

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let (location, mut remote) = arguments.target.find_and_connect("status")?;
    let status = target::status(&mut remote)?;
    let (at, why) = (location.to_string(), location.found_by.to_string());
    if arguments.target.json {
        let mut document = document(&status);
        document["asked"] = json!({ "node": at, "why": why });
        output::json(out, &document)?;
    } else {
        print(&status, out)?;
        writeln!(out, "\nThis was asked of the node at {at}: {why}.")?;
    }
    let grants = status.standing == Standing::Open && status.lease_left.is_some() && !status.leaving;
    Ok(if grants || !arguments.ready { CommandOutcome::Done } else { CommandOutcome::Exit(EXIT_NOT_READY) })
}

fn document(status: &Status) -> Value {
    let member = |member: &meshlock_cluster::names::Member| {
        let address = status.view.address(&member.site);
        json!({
            "site": member.site,
            "incarnation": member.incarnation.number().to_string(),
            "address": address,
            "leader": status.leader.as_ref() == Some(&member.site),
            "votes": role(status.voters.as_ref(), &member.site).map(voters::Role::label),
        })
    };
    let held = |held: &meshlock_wire::clients::HeldEntry| json!({ "lock": held.lock, "who": held.who, "fence": held.fence.to_string(), "held_ms": held.age.micros() / 1000 });
    json!({
        "site": status.site,
        "cluster": status.cluster,
        "incarnation": status.incarnation.to_string(),
        "standing": standing(&status.standing),
        "leader": status.leader,
        "lease_left_ms": status.lease_left.map(|left| left.micros() / 1000),
        "leaving": status.leaving,
        "disk": status.disk,
        "voters": status.voters.as_ref().map(voters::document),
        "view": {
            "epoch": status.view.epoch.number(),
            "epochs_ahead_of_clock": ahead(status),
            "rules_version": status.view.rules_version,
            "members": status.view.members.iter().map(member).collect::<Vec<_>>(),
        },
        "locks": status.locks,
        "holders": status.holders,
        "waiters": status.waiters,
        "sessions": status.sessions,
        "held": status.held.iter().map(held).collect::<Vec<_>>(),
    })
}

/// Returns by how many epochs the cluster is ahead of this machine's clock.
fn ahead(status: &Status) -> Option<u32> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    fence_floor::ahead(status.view.epoch, seconds)
}

/// Describes the standing of a site, as the end of a sentence.
pub(crate) fn standing(standing: &Standing) -> String {
    let names = |sites: &[SiteName]| sites.iter().map(SiteName::as_str).collect::<Vec<_>>().join(", ");
    match standing {
        Standing::Open => "is a member of the cluster".to_owned(),
        Standing::Awaits(sites) => format!("changes views, and waits for {}", names(sites)),
        Standing::CannotOpen => {
            "cannot apply the cluster's rules: its meshlock is too old and must be upgraded".to_owned()
        }
        Standing::Outside => "is not a member of the cluster".to_owned(),
    }
}

/// Returns the label of a client, to be printed.
pub(super) fn who(label: Option<&ClientLabel>) -> String {
    label.map_or_else(|| "(no name)".to_owned(), ToString::to_string)
}

fn print(status: &Status, out: &mut dyn Write) -> anyhow::Result<()> {
    let leaving = if status.leaving { ", and is about to leave" } else { "" };
    // An incarnation is shown as the millisecond in which the program started, and a counter since then.
    let incarnation = Incarnation::new(status.incarnation);
    writeln!(out, "{} (incarnation {incarnation}) {}{leaving}.", status.site, standing(&status.standing))?;
    match status.lease_left {
        Some(left) => writeln!(out, "Its lease ends in {} unless it is renewed.", Age(left))?,
        None => writeln!(out, "It has no lease: it is cut off, or the cluster has no leader.")?,
    }
    if let Some(why) = &status.disk {
        let is_slow = why.starts_with("the disk is slow");
        let why = Printable(why);
        if is_slow {
            writeln!(out, "Its disk is in the way of voting and leading: {why}.")?;
        } else {
            writeln!(
                out,
                "It cannot write to its disk, and so not vote or lead: {why}. Make room, or replace the disk."
            )?;
        }
    }
    writeln!(out)?;
    if let Some(ahead) = ahead(status).filter(|ahead| *ahead > fence_floor::MUCH) {
        writeln!(
            out,
            "The cluster is {ahead} views ahead of the clock: founded again, it would need the fence floor of a backup. Make one \
             with `meshlock backup`.\n"
        )?;
    }
    writeln!(out, "View {} of the cluster {}:", status.view.epoch.number(), status.cluster)?;
    let mut members = output::table(&["site", "incarnation", "address", ""]);
    for member in &status.view.members {
        let address = status
            .view
            .address(&member.site)
            .map(|address| Printable(address).to_string())
            .unwrap_or_default();
        let leads = (status.leader.as_ref() == Some(&member.site)).then(|| "leads".to_owned());
        let votes = role(status.voters.as_ref(), &member.site).map(|role| role.to_string());
        let does = leads.into_iter().chain(votes).collect::<Vec<_>>().join(", ");
        members.add_row([member.site.to_string(), member.incarnation.to_string(), address, does]);
    }
    writeln!(out, "{members}")?;
    writeln!(out)?;
    voters::print(status.voters.as_ref(), &status.view, out)?;
    let Status { locks, holders, waiters, sessions, .. } = status;
    writeln!(
        out,
        "At {}: {}, {holders} held, {waiters} waiting, {}.",
        status.site,
        counted(*locks, "lock"),
        counted(*sessions, "client")
    )?;
    if !status.held.is_empty() {
        let mut table = output::table(&["lock", "held by", "for", "fence"]);
        for held in &status.held {
            let (who, age) = (who(held.who.as_ref()), Age(held.age).to_string());
            table.add_row([held.lock.to_string(), who, age, held.fence.to_string()]);
        }
        writeln!(out, "{table}")?;
    }
    Ok(())
}

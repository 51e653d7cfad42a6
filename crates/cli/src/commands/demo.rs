//! `meshlock demo`: runs every algorithm through the same short contended run, in one process, and prints a row for each.

use std::io::Write;

use clap::Args;
use comfy_table::CellAlignment;
use meshlock_protocol::registry::info::{Order, Permits};
use meshlock_protocol::registry::{ALL, AnySite};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Cluster, Holders, SiteId, Spec};
use serde::Serialize;

use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock demo`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many sites take part
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=30))]
    sites: u16,
    /// How often each site enters the critical section
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    entries: u32,
    /// How many sites may be inside at once, for algorithms with several permits [default: 2, or 1 for one site]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    permits: Option<u16>,
    /// The seed of the schedule; the same seed gives the same output
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The result of one algorithm.
#[derive(Debug, Serialize)]
struct DemoRow {
    algorithm: &'static str,
    permits: usize,
    entries: usize,
    messages: u64,
    messages_per_entry: f64,
    /// Number of entries that overtook an earlier request, by the host's clock.
    overtakes: usize,
    promises_order: bool,
    steps_checked: u64,
    /// The first property that failed, if any did.
    violation: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let sites = arguments.sites;
    if let Some(permits) = arguments.permits.filter(|&permits| permits > sites) {
        return Err(UsageError::new(format!("--permits {permits}: at most --sites, which is {sites}")).into());
    }
    let rows: Vec<DemoRow> = ALL.iter().map(|info| contended(&Spec::plain(info), arguments)).collect();
    let sound = rows.iter().all(|row| row.violation.is_none());
    if arguments.json {
        output::json(out, &rows)?;
    } else {
        print(arguments, &rows, out)?;
    }
    Ok(if sound { CommandOutcome::Done } else { CommandOutcome::Refuted })
}

fn print(arguments: &Arguments, rows: &[DemoRow], out: &mut dyn Write) -> anyhow::Result<()> {
    let Arguments { sites, entries, seed, .. } = arguments;
    writeln!(
        out,
        "{sites} sites, {entries} entries each, every site asks again at once; schedule drawn from seed {seed}"
    )?;
    let mut table = output::table(&["algorithm", "K", "entries", "messages per entry", "order", "checks"]);
    for row in rows {
        table.add_row([
            row.algorithm.to_owned(),
            row.permits.to_string(),
            row.entries.to_string(),
            format!("{:.2}", row.messages_per_entry),
            order(row),
            row.violation
                .clone()
                .unwrap_or_else(|| format!("passed after each of {} steps", row.steps_checked)),
        ]);
    }
    for column in 1..=3 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "checks: at most K inside, everyone served, fences increase, tokens conserved, every invariant of the"
    )?;
    writeln!(out, "algorithm, timestamp order where it is promised, and nothing owed at the end")?;
    Ok(())
}

fn order(row: &DemoRow) -> String {
    match (row.promises_order, row.overtakes) {
        (true, _) => "by timestamp".to_owned(),
        (false, 0) => "as asked".to_owned(),
        (false, overtakes) => format!("{overtakes} overtook"),
    }
}

/// Runs one algorithm; every site requests again as soon as it has left.
fn contended(spec: &Spec, arguments: &Arguments) -> DemoRow {
    let permits = match spec.info.permits {
        Permits::One => 1,
        Permits::Many | Permits::Chosen => usize::from(arguments.permits.unwrap_or(2).min(arguments.sites)),
    };
    let cluster = Cluster::of(usize::from(arguments.sites)).with_permits(permits);
    let world = World::<AnySite>::new(cluster, &spec.values, &Holders::none());
    let mut world = world.expect("the defaults fit any cluster").tolerant();
    let finished = contend(&mut world, arguments);
    let entries = world.entries().len();
    let violation = world.violation().map(ToString::to_string);
    DemoRow {
        algorithm: spec.info.name,
        permits,
        entries,
        messages: world.messages(),
        messages_per_entry: world.messages() as f64 / entries.max(1) as f64,
        overtakes: world.entries().iter().filter(|entry| entry.overtook > 0).count(),
        promises_order: spec.info.order == Order::Timestamp,
        steps_checked: world.steps(),
        violation: violation.or_else(|| finished.err()),
    }
}

/// Takes random steps, drawn from the seed, until all sites have had their entries or a property fails.
fn contend(world: &mut World<AnySite>, arguments: &Arguments) -> Result<(), String> {
    let mut draw = fastrand::Rng::with_seed(arguments.seed);
    let mut left = vec![arguments.entries; usize::from(arguments.sites)];
    let mut actions = Vec::new();
    while world.violation().is_none() {
        let may_ask = |action: &Action| matches!(action, Action::Request(site) if left[site.index()] > 0);
        actions.clear();
        actions.extend(world.deliveries(Delivery::Fifo).chain(world.releases()));
        actions.extend(world.requests().filter(may_ask));
        let Some(&action) = actions.get(draw.usize(..actions.len().max(1))) else {
            return finish(world);
        };
        if let Action::Request(site) = action {
            left[site.index()] -= 1;
        }
        let _ = world.apply(action);
    }
    Ok(())
}

fn finish(world: &World<AnySite>) -> Result<(), String> {
    if let Some(site) = SiteId::all(world.cluster().sites).find(|&site| world.is_waiting(site)) {
        return Err(format!("{site} waits for ever"));
    }
    if world.is_quiet() { Ok(()) } else { Err("something is still owed at the end".to_owned()) }
}

//! The results, as tables and as JSON.

use std::fmt::Write as _;

use comfy_table::CellAlignment;
use serde::Serialize;

use super::machine::MachineInfo;
use super::workload::WorkloadRow;
use crate::output;

/// One measurement, and what it is compared with.
#[derive(Debug, Serialize)]
pub(super) struct GoalRow {
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) ours: f64,
    /// A bare round trip, or the result of another lock service.
    pub(super) reference: Option<Reference>,
    /// The goal for the ratio ours ÷ reference, or for our own figure.
    pub(super) goal: Option<Goal>,
}

/// What a measurement is compared with.
#[derive(Debug, Serialize)]
pub(super) struct Reference {
    pub(super) what: String,
    pub(super) value: f64,
}

/// The goal of a measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Goal {
    /// At most this multiple of the reference.
    RatioAtMost(f64),
    /// At least this multiple of the reference.
    RatioAtLeast(f64),
    Below(f64),
    AtLeast(f64),
}

/// One lock service, with all its measurements.
#[derive(Debug, Default, Serialize)]
pub(super) struct Side {
    pub(super) name: &'static str,
    /// Microseconds for one client alone to acquire and release a lock.
    pub(super) uncontended: Option<f64>,
    /// Entries per second on one lock, by the number of clients.
    pub(super) contended: Vec<(usize, f64)>,
    /// Jain's fairness index of the clients' entries, in the run that has a goal.
    pub(super) jain: Option<f64>,
    /// Entries per second on many locks.
    pub(super) many_locks: Option<f64>,
    /// Resident memory of the servers after that, in MiB.
    pub(super) memory: Option<f64>,
    /// Seconds until another client gets the lock of a killed client.
    pub(super) client_killed: Option<f64>,
    /// The same if the client's site or server was killed as well.
    pub(super) site_killed: Option<f64>,
}

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    pub(super) machine: MachineInfo,
    pub(super) goals: Vec<GoalRow>,
    pub(super) side_by_side: Vec<Side>,
    pub(super) workload: Vec<WorkloadRow>,
    /// The median time of a bare TCP round trip of this run, in microseconds, if something is given in round trips.
    pub(super) bare_round_trip: Option<f64>,
    /// What could not be measured, and how the figures were obtained.
    pub(super) notes: Vec<String>,
}

impl GoalRow {
    pub(super) fn ratio(&self) -> Option<f64> {
        self.reference.as_ref().map(|reference| self.ours / reference.value)
    }

    pub(super) fn is_met(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::RatioAtMost(most) => self.ratio()? <= most,
            Goal::RatioAtLeast(least) => self.ratio()? >= least,
            Goal::Below(most) => self.ours < most,
            Goal::AtLeast(least) => self.ours >= least,
        })
    }
}

impl Side {
    /// Returns the entries per second with this number of clients.
    pub(super) fn contended_with(&self, clients: usize) -> Option<f64> {
        self.contended.iter().find(|(with, _)| *with == clients).map(|(_, entries)| *entries)
    }
}

impl BenchReport {
    /// Names a version of another lock service, once.
    pub(super) fn add_version(&mut self, version: String) {
        if !self.machine.peers.contains(&version) {
            self.machine.peers.push(version);
        }
    }

    /// Returns the report as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", self.machine);
        if !self.goals.is_empty() {
            let _ = writeln!(text, "\nGoals\n{}", self.goal_table());
        }
        if !self.side_by_side.is_empty() {
            let _ = writeln!(text, "\nSide by side\n{}", self.side_table());
            if let Some(trip) = self.bare_round_trip {
                let _ = writeln!(text, "\nOne entry, in bare round trips\n{}", self.entry_table(trip));
            }
        }
        if let Some(first) = self.workload.first() {
            let (clients, locks) = (first.clients, first.locks);
            let _ = writeln!(text, "\nWorkload: {clients} clients, {locks} locks\n{}", self.workload_table());
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    fn goal_table(&self) -> comfy_table::Table {
        let mut table = output::table(&["", "Meshlock", "unit", "beside it", "", "ratio", "goal", "met"]);
        for row in &self.goals {
            let (beside, value) = row
                .reference
                .as_ref()
                .map_or_else(Default::default, |reference| (reference.what.clone(), number(reference.value)));
            let goal = row.goal.map_or_else(String::new, |goal| match goal {
                Goal::RatioAtMost(most) => format!("≤ {most} times"),
                Goal::RatioAtLeast(least) => format!("≥ {least} times"),
                Goal::Below(most) => format!("< {most}"),
                Goal::AtLeast(least) => format!("≥ {least}"),
            });
            table.add_row([
                row.what.clone(),
                number(row.ours),
                row.unit.to_owned(),
                beside,
                value,
                row.ratio().map_or_else(String::new, number),
                goal,
                row.is_met().map_or("", |met| if met { "yes" } else { "no" }).to_owned(),
            ]);
        }
        align_right(&mut table, &[1, 4, 5]);
        table
    }

    fn side_table(&self) -> comfy_table::Table {
        let clients = self.numbers_of_clients();
        let mut heads = vec![String::new(), "alone, µs".to_owned()];
        heads.extend(clients.iter().map(|clients| format!("{clients} clients, /s")));
        let rest = ["Jain", "10,000 locks, /s", "servers, MiB", "client killed, s", "site killed, s"];
        heads.extend(rest.map(str::to_owned));
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut table = output::table(&heads);
        for side in &self.side_by_side {
            let mut cells = vec![side.name.to_owned(), shown(side.uncontended)];
            cells.extend(clients.iter().map(|clients| shown(side.contended_with(*clients))));
            cells.push(side.jain.map_or_else(|| "–".to_owned(), index));
            let rest = [side.many_locks, side.memory, side.client_killed, side.site_killed];
            cells.extend(rest.map(shown));
            table.add_row(cells);
        }
        let right: Vec<usize> = (1..heads.len()).collect();
        align_right(&mut table, &right);
        table
    }

    fn numbers_of_clients(&self) -> Vec<usize> {
        let first = self.side_by_side.first();
        first.map_or_else(Vec::new, |side| side.contended.iter().map(|(clients, _)| *clients).collect())
    }

    /// Returns the time that one entry takes, by the number of clients, as a multiple of a round trip of this many microseconds.
    fn entry_table(&self, trip: f64) -> comfy_table::Table {
        let clients = self.numbers_of_clients();
        let mut heads = vec![String::new(), "alone".to_owned()];
        heads.extend(clients.iter().map(|clients| format!("{clients} clients")));
        heads.push("10,000 locks".to_owned());
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut table = output::table(&heads);
        let trips_of = |per_second: Option<f64>| shown(per_second.map(|entries| 1e6 / entries / trip));
        for side in &self.side_by_side {
            let mut cells = vec![side.name.to_owned(), shown(side.uncontended.map(|micros| micros / trip))];
            cells.extend(clients.iter().map(|clients| trips_of(side.contended_with(*clients))));
            cells.push(trips_of(side.many_locks));
            table.add_row(cells);
        }
        let right: Vec<usize> = (1..heads.len()).collect();
        align_right(&mut table, &right);
        table
    }

    fn workload_table(&self) -> comfy_table::Table {
        let heads = [
            "locks",
            "held",
            "",
            "entries/s",
            "p50, µs",
            "p99, µs",
            "p99.9, µs",
            "Jain",
            "round trips: an entry",
            "p50",
            "p99",
            "p99.9",
        ];
        let mut table = output::table(&heads);
        let mut last = None;
        for row in &self.workload {
            let run = &row.run;
            let workload = (row.popularity, row.held_micros);
            let is_new = last.replace(workload) != Some(workload);
            let held = format!("{} µs", row.held_micros);
            let mut cells =
                if is_new { vec![row.popularity.to_owned(), held] } else { vec![String::new(); 2] };
            cells.push(row.system.to_owned());
            cells.extend([run.entries_per_second, run.p50, run.p99, run.p999].map(number));
            cells.push(index(run.jain));
            let micros = [1e6 / run.entries_per_second, run.p50, run.p99, run.p999];
            cells.extend(micros.map(|micros| shown(self.bare_round_trip.map(|trip| micros / trip))));
            table.add_row(cells);
        }
        align_right(&mut table, &[1, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        table
    }
}

/// Formats a figure, or says that there is none.
fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// Formats Jain's index.
fn index(jain: f64) -> String {
    format!("{jain:.3}")
}

fn align_right(table: &mut comfy_table::Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Formats a figure with as many decimals as are meaningful.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

//! The results, as tables and as JSON.

use std::fmt::Write as _;

use comfy_table::CellAlignment;
use serde::Serialize;

use super::machine::MachineInfo;
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
        let clients: Vec<usize> =
            self.side_by_side[0].contended.iter().map(|(clients, _)| *clients).collect();
        let mut heads = vec![String::new(), "alone, µs".to_owned()];
        heads.extend(clients.iter().map(|clients| format!("{clients} clients, /s")));
        let rest = ["Jain", "10,000 locks, /s", "servers, MiB", "client killed, s", "site killed, s"];
        heads.extend(rest.map(str::to_owned));
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut table = output::table(&heads);
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
        for side in &self.side_by_side {
            let mut cells = vec![side.name.to_owned(), shown(side.uncontended)];
            cells.extend(clients.iter().map(|clients| shown(side.contended_with(*clients))));
            cells.push(side.jain.map_or_else(|| "–".to_owned(), |jain| format!("{jain:.3}")));
            let rest = [side.many_locks, side.memory, side.client_killed, side.site_killed];
            cells.extend(rest.map(shown));
            table.add_row(cells);
        }
        let right: Vec<usize> = (1..heads.len()).collect();
        align_right(&mut table, &right);
        table
    }
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

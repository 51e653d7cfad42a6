//! `meshlock bench`: what locks cost on this machine, beside the least that the machine itself can do, in one run.

mod contended;
mod handover;
mod reference;
mod socket;
mod uncontended;

use std::io::Write;

use clap::Args;
use comfy_table::CellAlignment;
use serde::Serialize;

use crate::output::{self, Outcome};

/// Arguments of `meshlock bench`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How much work each measurement does, compared with the usual
    #[arg(long, default_value_t = 1.0, value_parser = effort)]
    effort: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn effort(text: &str) -> Result<f64, String> {
    let effort: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (0.001..=1000.0).contains(&effort) { Ok(effort) } else { Err("give 0.001 to 1000".to_owned()) }
}

/// One measurement, and what it is compared with.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    ours: f64,
    /// The least that the machine can do, or what stands in for others.
    reference: Option<Reference>,
    /// What we want of the ratio ours ÷ reference, or of ours itself.
    goal: Option<Goal>,
}

#[derive(Debug, Serialize)]
struct Reference {
    what: &'static str,
    value: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
enum Goal {
    /// At most so much of the reference.
    RatioAtMost(f64),
    /// At least so much of the reference.
    RatioAtLeast(f64),
    /// Less than so much.
    Below(f64),
    /// At least so much.
    AtLeast(f64),
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.reference.as_ref().map(|reference| self.ours / reference.value)
    }

    fn is_met(&self) -> Option<bool> {
        Some(match self.goal? {
            Goal::RatioAtMost(most) => self.ratio()? <= most,
            Goal::RatioAtLeast(least) => self.ratio()? >= least,
            Goal::Below(most) => self.ours < most,
            Goal::AtLeast(least) => self.ours >= least,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let effort = |usual: u32| -> usize {
        // From a few to a few billion: exact enough, and never none.
        let count = (f64::from(usual) * arguments.effort).clamp(1.0, 1e9);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and a billion"
        )]
        let count = count as usize;
        count
    };
    let mut rows = Vec::new();
    let note = |what: &str| eprintln!("measuring: {what}");
    note("a lock whose token is here");
    rows.push(uncontended::measure(effort(300_000))?);
    note("the same over the Unix socket");
    rows.push(socket::measure(effort(20_000))?);
    for secured in [false, true] {
        note(if secured {
            "handing over between two sites, TLS"
        } else {
            "handing over between two sites, TCP"
        });
        rows.push(handover::measure(effort(2_000), secured)?);
    }
    note("three sites with eight clients each on one lock");
    rows.extend(contended::measure(effort(60_000))?);
    if arguments.json {
        output::json(out, &rows)?;
    } else {
        print(&rows, out)?;
    }
    Ok(Outcome::Done)
}

fn print(rows: &[Row], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = output::table(&["", "Meshlock", "unit", "beside it", "", "ratio", "goal", "met"]);
    for row in rows {
        let (beside, value) = row
            .reference
            .as_ref()
            .map_or_else(Default::default, |reference| (reference.what, format!("{:.2}", reference.value)));
        let goal = row.goal.map_or_else(String::new, |goal| match goal {
            Goal::RatioAtMost(most) => format!("≤ {most} times"),
            Goal::RatioAtLeast(least) => format!("≥ {least} times"),
            Goal::Below(most) => format!("< {most}"),
            Goal::AtLeast(least) => format!("≥ {least}"),
        });
        let met = row.is_met().map_or("", |met| if met { "yes" } else { "no" });
        table.add_row([
            row.what.clone(),
            format!("{:.2}", row.ours),
            row.unit.to_owned(),
            beside.to_owned(),
            value,
            row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            goal,
            met.to_owned(),
        ]);
    }
    for column in [1, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "Everything was measured in this run; figures of a busy machine differ from run to run, ratios less."
    )?;
    Ok(())
}

/// The middle one of some measurements.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Waits for a future of the library, on a small runtime of its own.
fn wait_for<F: Future>(future: F) -> std::io::Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

//! `meshlock compare`: simulates algorithms over a range of loads or cluster sizes, and compares them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use comfy_table::CellAlignment;
use meshlock_lab::compare::split_specs;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::{Demand, Info, Mode, Spec};
use meshlock_sim::Report;
use meshlock_sim::experiments::{Curve, Job, Plot};
use serde_json::{Value, json};

use super::sim::model;
use crate::output::{self, CommandOutcome, UsageError};
use crate::{jobs, plot};

/// Arguments of `meshlock compare`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The algorithms with their options, separated by commas; `all` for every algorithm that supports --permits
    #[arg(long, default_value = "all")]
    algorithms: String,
    /// The rates to simulate: requests per site and unit of time
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.01,0.02,0.05,0.08,0.1,0.2",
        allow_negative_numbers = true
    )]
    rates: Vec<f64>,
    /// The numbers of sites to simulate; if there are several, the plots are over the number of sites
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10",
        value_parser = model::count,
        allow_negative_numbers = true
    )]
    sites: Vec<usize>,
    #[command(flatten)]
    model: model::Model,
    /// Write the table to this file as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write plots of messages and waiting time into this folder, as SVG
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One measured point of the sweep.
struct SweepPoint {
    spec: String,
    rate: f64,
    /// The share of readers.
    readers: f64,
    report: Report,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let specs = specs(arguments)?;
    let (jobs, places) = sweep(arguments, &specs)?;
    if let Some(path) = &arguments.csv {
        output::check_file("--csv", path)?;
    }
    if let Some(folder) = &arguments.svg {
        output::check_folder("--svg", folder)?;
    }
    let reports = jobs::run_all(&jobs, "compare")?;
    let points: Vec<SweepPoint> = places
        .into_iter()
        .zip(reports)
        .map(|((spec, rate, readers), report)| SweepPoint { spec, rate, readers, report })
        .collect();
    if let Some(path) = &arguments.csv {
        write_csv(path, &points)?;
    }
    if let Some(folder) = &arguments.svg {
        for figure in plots(arguments, &points) {
            eprintln!("meshlock: wrote {}", plot::write(folder, &figure)?.display());
        }
    }
    if arguments.json {
        output::json(out, &documents(&points)?)?;
    } else {
        print(&points, out)?;
    }
    Ok(CommandOutcome::Done)
}

fn specs(arguments: &Arguments) -> Result<Vec<Spec>, UsageError> {
    let fits = |info: &&&'static Info| arguments.model.permits == 1 || info.permits != Permits::One;
    if arguments.algorithms == "all" && arguments.model.readers.iter().any(|share| *share > 0.0) {
        let specs = ALL.iter().filter(fits).flat_map(|info| info.specs());
        let specs = specs.map(|spec| spec.parse::<Spec>().map_err(UsageError::new));
        let shares = |spec: &Spec| spec.values.know(Demand::of(Mode::Shared));
        return specs.filter(|spec| spec.as_ref().map_or(true, shares)).collect();
    }
    if arguments.algorithms == "all" {
        return Ok(ALL.iter().filter(fits).map(|info| Spec::plain(info)).collect());
    }
    split_specs(&arguments.algorithms).iter().map(|word| word.parse().map_err(UsageError::new)).collect()
}

/// The runs of the sweep, and for each its algorithm, its rate and its share of readers.
type Sweep = (Vec<Job>, Vec<(String, f64, f64)>);

fn sweep(arguments: &Arguments, specs: &[Spec]) -> anyhow::Result<Sweep> {
    let (mut jobs, mut places) = (Vec::new(), Vec::new());
    for spec in specs {
        for &sites in &arguments.sites {
            for &rate in &arguments.rates {
                for &share in &arguments.model.readers {
                    let rates = model::rates("--rates", &rate.to_string(), sites)?;
                    let settings = arguments.model.with_readers(share).settings(sites, rates)?;
                    jobs.push(Job { spec: spec.to_string(), settings });
                    places.push((spec.to_string(), rate, share));
                }
            }
        }
    }
    Ok((jobs, places))
}

fn print(points: &[SweepPoint], out: &mut dyn Write) -> anyhow::Result<()> {
    let heads = [
        "algorithm",
        "N",
        "rate",
        "readers",
        "messages",
        "± 95 %",
        "wait",
        "± 95 %",
        "sync delay",
        "throughput",
        "Jain",
    ];
    let mut table = output::table(&heads);
    for SweepPoint { spec, rate, readers, report } in points {
        let half = |ci95: Option<f64>| ci95.map_or_else(String::new, |half| format!("{half:.3}"));
        table.add_row([
            spec.clone(),
            report.sites.to_string(),
            rate.to_string(),
            readers.to_string(),
            format!("{:.3}", report.messages_per_entry.mean),
            half(report.messages_per_entry.ci95),
            format!("{:.3}", report.wait.mean),
            half(report.wait.ci95),
            format!("{:.3}", report.sync_delay.mean),
            format!("{:.3}", report.throughput.mean),
            format!("{:.4}", report.fairness.jain),
        ]);
    }
    for column in 1..heads.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn documents(points: &[SweepPoint]) -> anyhow::Result<Vec<Value>> {
    let document = |point: &SweepPoint| {
        let report = serde_json::to_value(&point.report)?;
        Ok(json!({ "spec": point.spec, "rate": point.rate, "readers": point.readers, "report": report }))
    };
    points.iter().map(document).collect()
}

fn write_csv(path: &Path, points: &[SweepPoint]) -> anyhow::Result<()> {
    let mut text = String::from(
        "algorithm,sites,permits,rate,messages_per_entry,messages_ci95,wait,wait_ci95,sync_delay,throughput,jain,readers\n",
    );
    for SweepPoint { spec, rate, readers, report } in points {
        let half = |ci95: Option<f64>| ci95.map_or_else(String::new, |half| half.to_string());
        let fields = [
            // A spec can contain commas between its options.
            format!("\"{spec}\""),
            report.sites.to_string(),
            report.permits.to_string(),
            rate.to_string(),
            report.messages_per_entry.mean.to_string(),
            half(report.messages_per_entry.ci95),
            report.wait.mean.to_string(),
            half(report.wait.ci95),
            report.sync_delay.mean.to_string(),
            report.throughput.mean.to_string(),
            report.fairness.jain.to_string(),
            readers.to_string(),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns a mean and the half-width of its confidence interval.
type Metric = fn(&Report) -> (f64, f64);

/// What the plots are over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Load,
    Sites,
    Readers,
}

impl Axis {
    fn of(arguments: &Arguments) -> Axis {
        match (arguments.sites.len(), arguments.model.readers.len()) {
            (_, 2..) => Axis::Readers,
            (2.., _) => Axis::Sites,
            _ => Axis::Load,
        }
    }

    /// Its name in files, and its label.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Axis::Load => ("load", "λ, requests per site and unit of time"),
            Axis::Sites => ("sites", "N"),
            Axis::Readers => ("readers", "the share of readers"),
        }
    }

    fn at(self, point: &SweepPoint) -> f64 {
        match self {
            Axis::Load => point.rate,
            Axis::Sites => point.report.sites as f64,
            Axis::Readers => point.readers,
        }
    }
}

/// Plots messages and waiting time over the load, or over the number of sites or the share of readers if there are several. Over the share
/// of readers the throughput, too, which the load does not fix if it is saturated.
fn plots(arguments: &Arguments, points: &[SweepPoint]) -> Vec<Plot> {
    let chosen = Axis::of(arguments);
    let (axis, across) = chosen.names();
    let measures: [(&str, &str, Metric); 3] = [
        ("messages", "messages per entry", |r| {
            (r.messages_per_entry.mean, r.messages_per_entry.ci95.unwrap_or_default())
        }),
        ("wait", "waiting time", |r| (r.wait.mean, r.wait.ci95.unwrap_or_default())),
        ("throughput", "entries per unit of time", |r| {
            (r.throughput.mean, r.throughput.ci95.unwrap_or_default())
        }),
    ];
    let measures = &measures[..if chosen == Axis::Readers { 3 } else { 2 }];
    let by_rate = chosen != Axis::Load;
    let rates: &[f64] = if by_rate { &arguments.rates } else { &[f64::NAN] };
    let mut plots = Vec::new();
    for &(name, label, measure) in measures {
        for &rate in rates {
            let here = |point: &&SweepPoint| !by_rate || (point.rate - rate).abs() < f64::EPSILON;
            let at = if by_rate { format!(" at λ = {rate}") } else { String::new() };
            let file = if by_rate {
                format!("{name}-against-{axis}-{rate}")
            } else {
                format!("{name}-against-{axis}")
            };
            plots.push(Plot {
                name: file,
                title: format!("{label} against {axis}{at}"),
                x: across.to_owned(),
                y: label.to_owned(),
                curves: curves(points.iter().filter(here), chosen, measure),
            });
        }
    }
    plots
}

fn curves<'a>(points: impl Iterator<Item = &'a SweepPoint>, axis: Axis, measure: Metric) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for point in points {
        let (x, (y, half)) = (axis.at(point), measure(&point.report));
        match curves.iter_mut().find(|curve| curve.name == point.spec) {
            Some(curve) => curve.points.push((x, y, half)),
            None => {
                curves.push(Curve { name: point.spec.clone(), points: vec![(x, y, half)], published: false });
            }
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_between_the_options_of_one_algorithm_do_not_split_it() {
        assert_eq!(split_specs("ricart-agrawala"), ["ricart-agrawala"]);
        assert_eq!(
            split_specs("ricart-agrawala:text=printed,x=1,ricart-agrawala"),
            ["ricart-agrawala:text=printed,x=1", "ricart-agrawala"]
        );
        assert_eq!(split_specs("nonsense,ricart-agrawala"), ["nonsense", "ricart-agrawala"]);
    }
}

//! `meshlock quorum analyse`: computes the costs of a family of sets, and which failures it survives.

use std::io::Write;

use clap::Args;
use comfy_table::CellAlignment;
use meshlock_protocol::quorum::QuorumSystem;
use meshlock_protocol::quorum::analysis::{Analysis, AvailabilityPoint, Method, Sampling};
use meshlock_protocol::quorum::check::{Property, QuorumVerdict};
use serde_json::{Value, json};

use super::source::{FamilySource, QuorumFamily};
use super::{Printing, curves, write_picture};
use crate::output::{self, CommandOutcome, UsageError};

/// Arguments of `meshlock quorum analyse`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    source: FamilySource,
    /// Probabilities that a site is down, for which the availability is computed, separated by commas
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        value_parser = probability,
        default_value = "0.001,0.01,0.05,0.1,0.2,0.3,0.4,0.5",
        global = true
    )]
    down: Vec<f64>,
    /// How many samples to draw if the availability cannot be computed exactly
    #[arg(long, default_value_t = Sampling::default().samples, value_parser = clap::value_parser!(u32).range(100..), global = true)]
    samples: u32,
    /// The seed of the samples; the same seed gives the same output
    #[arg(long, default_value_t = Sampling::default().seed, global = true)]
    seed: u64,
    #[command(flatten)]
    printing: Printing,
}

fn probability(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a probability is a number from 0 to 1".to_owned())
}

/// Facts about the family that need no analysis.
struct Facts {
    title: String,
    sites: usize,
    /// The number of sets; `None` if there are too many to list.
    sets: Option<usize>,
    /// Why the sets are not quorums, if they are not.
    flaw: Option<String>,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<CommandOutcome> {
    let wants_picture = arguments.printing.svg.is_some();
    let mut down = arguments.down.clone();
    if wants_picture {
        down.extend(curves::PROBABILITIES);
    }
    let (facts, mut figures) = analysed(arguments, &down)?;
    let curve = figures.availability.points.split_off(arguments.down.len());
    if let Some(path) = &arguments.printing.svg {
        write_picture(path, &curves::draw(&facts.title, &figures, &curve))?;
    }
    if arguments.printing.json {
        output::json(out, &document(&facts, &figures))?;
    } else {
        print(&facts, &figures, out)?;
    }
    Ok(CommandOutcome::Done)
}

fn analysed(arguments: &Arguments, down: &[f64]) -> anyhow::Result<(Facts, Analysis)> {
    let sampling = Sampling { samples: arguments.samples, seed: arguments.seed };
    if let Some(construction) = arguments.source.construction()
        && let Some(rule) = construction.rule()?
    {
        let figures = Analysis::of_rule(&rule, down, sampling).map_err(UsageError::new)?;
        let flaw = if construction.always_meets() { None } else { flaw(&construction.family()?.system) };
        let sets = figures.load.strategy.as_ref().map(Vec::len);
        return Ok((Facts { title: construction.to_string(), sites: rule.sites(), sets, flaw }, figures));
    }
    let QuorumFamily { title, system, .. } = arguments.source.family()?;
    let (sites, sets, flaw) = (system.sites(), Some(system.quorums().len()), flaw(&system));
    Ok((Facts { title, sites, sets, flaw }, Analysis::of(&system, down, sampling)))
}

/// Returns why the sets are not quorums, if they are not.
fn flaw(system: &QuorumSystem) -> Option<String> {
    match Property::Intersection.check(system) {
        QuorumVerdict::Fails(violation) => Some(violation.to_string()),
        QuorumVerdict::Holds | QuorumVerdict::Undecided => None,
    }
}

fn print(facts: &Facts, figures: &Analysis, out: &mut dyn Write) -> anyhow::Result<()> {
    let sets =
        facts.sets.map_or_else(|| "sets by rule, not listed".to_owned(), |sets| format!("{sets} sets"));
    writeln!(out, "{}: {} sites, {sets}", facts.title, facts.sites)?;
    if let Some(flaw) = &facts.flaw {
        writeln!(out, "These are no quorums: {flaw}.")?;
    }
    let (sizes, messages, load) = (&figures.sizes, &figures.messages, &figures.load);
    let mut rows = vec![
        ("sites asked", range(sizes.least, sizes.mean, sizes.most)),
        ("messages alone", range(messages.least, messages.mean, messages.most)),
        ("load, best strategy", format!("{:.4}", load.best)),
    ];
    rows.extend(load.even.map(|even| ("load, all sets alike", format!("{even:.4}"))));
    rows.push(("failures survived", resilience(figures)));
    let mut table = output::table(&["figure", "value"]);
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    writeln!(out, "{table}\n")?;
    print_loads(&load.of_sites, out)?;
    print_availability(figures, out)
}

fn range(least: usize, mean: f64, most: usize) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}, mean {mean:.2}") }
}

fn resilience(figures: &Analysis) -> String {
    let resilience = figures.resilience;
    if resilience.is_exact() {
        resilience.at_least.to_string()
    } else {
        format!("at least {}, at most {}", resilience.at_least, resilience.at_most)
    }
}

/// Maximum number of rows in the table of loads; each row has the sites with the same load.
const MAX_LOAD_ROWS: usize = 12;

fn print_loads(of_sites: &[f64], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    let mut order: Vec<usize> = (0..of_sites.len()).collect();
    order.sort_by(|&one, &other| of_sites[other].total_cmp(&of_sites[one]));
    for site in order {
        let shown = format!("{:.4}", of_sites[site]);
        match groups.last_mut().filter(|(load, _)| *load == shown) {
            Some((_, sites)) => sites.push(site),
            None => groups.push((shown, vec![site])),
        }
    }
    let mut table = output::table(&["load", "sites"]);
    for (load, sites) in groups.iter_mut().take(MAX_LOAD_ROWS) {
        sites.sort_unstable();
        table.add_row([load.clone(), runs(sites)]);
    }
    writeln!(out, "{table}")?;
    if let Some(rest) = groups.len().checked_sub(MAX_LOAD_ROWS).filter(|&rest| rest > 0) {
        writeln!(out, "and {rest} smaller loads; --json lists the load of every site")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Formats sites in ascending order, with ranges as `3–7`.
fn runs(sites: &[usize]) -> String {
    let shown = sites.chunk_by(|one, other| one + 1 == *other).map(|run| match run {
        [] => String::new(),
        [one] => one.to_string(),
        [one, other] => format!("{one}, {other}"),
        [first, .., last] => format!("{first}–{last}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn print_availability(figures: &Analysis, out: &mut dyn Write) -> anyhow::Result<()> {
    let sampled = matches!(figures.availability.method, Method::Sampled(_));
    let mut table = output::table(&["each site down", "a quorum up", if sampled { "±" } else { "none up" }]);
    for AvailabilityPoint { failing, available, error } in &figures.availability.points {
        let last = if sampled { format!("{error:.4}") } else { format!("{:.2e}", 1.0 - available) };
        table.add_row([failing.to_string(), format!("{available:.6}"), last]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "{table}")?;
    writeln!(out, "{}", how(figures.availability.method))?;
    Ok(())
}

fn how(method: Method) -> String {
    match method {
        Method::Subsets => "exact, from all subsets of the sites".to_owned(),
        Method::InclusionExclusion => "exact, by inclusion and exclusion".to_owned(),
        Method::Rule => "exact, by the rule of the construction".to_owned(),
        Method::Sampled(Sampling { samples, seed }) => {
            format!("from {samples} samples of seed {seed}; ± at 95 % confidence")
        }
    }
}

fn document(facts: &Facts, figures: &Analysis) -> Value {
    let point = |point: &AvailabilityPoint| json!({ "down": point.failing, "up": point.available, "error": point.error });
    let points: Vec<Value> = figures.availability.points.iter().map(point).collect();
    let (method, sampling) = match figures.availability.method {
        Method::Subsets => ("subsets", None),
        Method::InclusionExclusion => ("inclusion-exclusion", None),
        Method::Rule => ("rule", None),
        Method::Sampled(sampling) => ("sampled", Some(sampling)),
    };
    let Analysis { sizes, messages, load, resilience, .. } = figures;
    json!({
        "family": facts.title,
        "sites": facts.sites,
        "sets": facts.sets,
        "no_quorums_because": facts.flaw,
        "sites_asked": { "least": sizes.least, "mean": sizes.mean, "most": sizes.most },
        "messages_alone": { "least": messages.least, "mean": messages.mean, "most": messages.most },
        "load": {
            "best": load.best,
            "all_sets_alike": load.even,
            "of_sites": load.of_sites,
            "best_strategy": load.strategy,
        },
        "failures_survived": { "at_least": resilience.at_least, "at_most": resilience.at_most },
        "availability": {
            "method": method,
            "samples": sampling.map(|sampling| sampling.samples),
            "seed": sampling.map(|sampling| sampling.seed),
            "points": points,
        },
    })
}

//! Comparisons: algorithms over a sweep of load or size, and the papers' tables and figures.

use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Scale;
use meshlock_protocol::registry::spec::SpecError;
use meshlock_protocol::{Cluster, Spec};
use meshlock_sim::Report;
use meshlock_sim::draw::Distribution;
use meshlock_sim::experiments::{self, Experiment, Findings, Job, Plot, Work};
use meshlock_sim::network::Delay;
use meshlock_sim::settings::{Load, Rates, Settings};
use meshlock_sim::{Time, measure};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use crate::setup::Parts;

/// The largest number of points of a sweep on the page; `meshlock compare` takes more.
const MAX_POINTS: usize = 240;
/// The largest number of sites of a point.
const MAX_SITES: usize = 100;
/// The largest number of entries of a point.
const MAX_ENTRIES: u64 = 20_000;
/// The number of entries of a paper's point on the page; `meshlock reproduce` takes as many as the paper.
const QUICK: u64 = 3_000;

/// Why a sweep cannot be made. The message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CompareError(String);

/// One measured point.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MeasuredPoint {
    pub(crate) spec: String,
    /// N.
    pub(crate) sites: usize,
    /// The rate of requests of each site.
    pub(crate) rate: f64,
    /// The paper's formula for heavy load, and its value at this N.
    pub(crate) heavy: (&'static str, f64),
    pub(crate) report: Report,
}

/// Runs the sweep of an address.
pub(crate) fn sweep(parts: &Parts) -> Result<Vec<MeasuredPoint>, CompareError> {
    let text = |name: &str, default: &str| parts.get(name).map_or(default, String::as_str).to_owned();
    let specs = specs(&text("algos", "lamport,ricart-agrawala,maekawa,suzuki-kasami,raymond"))?;
    let sites: Vec<usize> = numbers("n", &text("n", "10"), |&sites| (1..=MAX_SITES).contains(&sites))?;
    let rates: Vec<f64> =
        numbers("rates", &text("rates", "0.01,0.03,0.1,0.3"), |rate| (1e-6..=1e3).contains(rate))?;
    let permits = numbers("k", &text("k", "1"), |&permits: &usize| (1..=MAX_SITES).contains(&permits))?[0];
    let entries =
        numbers("entries", &text("entries", "2000"), |entries| (100..=MAX_ENTRIES).contains(entries))?[0];
    let seed = numbers("seed", &text("seed", "1"), |_: &u64| true)?[0];
    let load = match text("load", "open").as_str() {
        "open" => Load::Open,
        "closed" => Load::Closed,
        other => return Err(CompareError(format!("load cannot be '{other}'; it is open or closed"))),
    };
    if specs.len() * sites.len() * rates.len() > MAX_POINTS {
        return Err(CompareError(format!(
            "more than {MAX_POINTS} points; `meshlock compare` has no such limit"
        )));
    }
    let mut jobs = Vec::new();
    for spec in &specs {
        for &sites in &sites {
            for &rate in &rates {
                let cluster = Cluster { sites, permits };
                let delay = Delay::Same(Distribution::Constant(Time::units(1.0)));
                let settings = Settings {
                    load,
                    rates: Rates::Same(rate),
                    delay,
                    entries,
                    seed,
                    ..Settings::new(cluster)
                };
                jobs.push((spec, rate, settings));
            }
        }
    }
    jobs.par_iter().map(|(spec, rate, settings)| point(spec, *rate, settings)).collect()
}

fn point(spec: &Spec, rate: f64, settings: &Settings) -> Result<MeasuredPoint, CompareError> {
    let report = measure(spec, settings).map_err(|stopped| CompareError(format!("{spec}: {stopped}")))?;
    let sites = settings.cluster.sites;
    let scale = Scale { sites, permits: settings.cluster.permits, quorum: sites };
    let heavy = &spec.info.costs.heavy;
    Ok(MeasuredPoint {
        spec: spec.to_string(),
        sites,
        rate,
        heavy: (heavy.text, (heavy.messages)(scale)),
        report,
    })
}

/// Splits a list of specs at its commas, but not at those between the options of one spec: what has the form of an
/// option and follows a spec with options belongs to it.
pub fn split_specs(list: &str) -> Vec<String> {
    let mut specs: Vec<String> = Vec::new();
    for word in list.split(',') {
        let known = ALL.iter().any(|info| Some(info.name) == word.split(':').next());
        match specs.last_mut() {
            Some(last) if !known && last.contains(':') => {
                last.push(',');
                last.push_str(word);
            }
            _ => specs.push(word.to_owned()),
        }
    }
    specs
}

fn specs(list: &str) -> Result<Vec<Spec>, CompareError> {
    if list.is_empty() {
        return Err(CompareError("choose at least one algorithm".to_owned()));
    }
    split_specs(list).iter().map(|word| parsed(word)).collect()
}

fn parsed(spec: &str) -> Result<Spec, CompareError> {
    spec.parse().map_err(|error: SpecError| CompareError(error.to_string()))
}

fn numbers<T: std::str::FromStr>(
    name: &str,
    list: &str,
    allowed: impl Fn(&T) -> bool,
) -> Result<Vec<T>, CompareError> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let read = |word: &str| {
        let number = word.parse().ok().filter(&allowed);
        number.ok_or_else(|| {
            CompareError(format!(
                "{name}: '{}' is no number in its range",
                word.chars().take(40).collect::<String>()
            ))
        })
    };
    let all = words.map(read).collect::<Result<Vec<T>, _>>()?;
    if all.is_empty() { Err(CompareError(format!("{name}: give at least one number"))) } else { Ok(all) }
}

/// The papers' tables and figures, by name.
pub(crate) fn experiments() -> Vec<Value> {
    let about = |one: &Experiment| json!({ "id": one.id, "source": one.source, "about": one.about });
    experiments::ALL.iter().map(about).collect()
}

/// Runs a paper's table or figure, with fewer entries.
pub(crate) fn experiment(id: &str) -> Result<Value, CompareError> {
    let found = experiments::ALL.iter().find(|one| one.id == id);
    let shown: String = id.chars().take(60).collect();
    let Experiment { source, about, work, .. } =
        found.ok_or_else(|| CompareError(format!("there is no experiment '{shown}'")))?;
    let (findings, entries) = match work {
        Work::Runs { jobs, read } => {
            let reports: Result<Vec<Report>, CompareError> = jobs().into_par_iter().map(quick).collect();
            (read(&reports?), Some(QUICK))
        }
        Work::Followed(follow) => (follow().map_err(|stopped| CompareError(stopped.to_string()))?, None),
        Work::Scripted(script) => (script(), None),
    };
    let Findings { rows, plots, notes } = findings;
    let plots: Vec<Value> = plots.iter().map(plot).collect();
    Ok(
        json!({ "id": id, "source": source, "about": about, "entries": entries, "rows": rows, "plots": plots, "notes": notes }),
    )
}

fn quick(mut job: Job) -> Result<Report, CompareError> {
    job.settings.entries = job.settings.entries.min(QUICK);
    let spec = parsed(&job.spec)?;
    measure(&spec, &job.settings).map_err(|stopped| CompareError(format!("{spec}: {stopped}")))
}

fn plot(plot: &Plot) -> Value {
    let curves: Vec<Value> = plot
        .curves
        .iter()
        .map(|curve| json!({ "name": curve.name, "published": curve.published, "points": curve.points }))
        .collect();
    json!({ "title": plot.title, "x": plot.x, "y": plot.y, "curves": curves })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Parts {
        let pairs = text.split('&').filter_map(|part| part.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_sweep_has_a_point_for_each_algorithm_size_and_rate() {
        let points =
            sweep(&parts("algos=central,maekawa:quorums=grid,deadlock=fail&n=4,6&rates=0.1,0.5&entries=200"))
                .unwrap();
        assert_eq!(points.len(), 8);
        assert_eq!(points[7].spec, "maekawa:quorums=grid,deadlock=fail");
        assert!(points.iter().all(|point| point.report.messages_per_entry.mean > 0.0));
    }

    #[test]
    fn nonsense_is_answered_with_its_name() {
        for (text, answer) in [
            ("algos=", "choose at least one algorithm"),
            ("rates=fast", "rates: 'fast' is no number in its range"),
            ("n=1000000", "n: '1000000' is no number in its range"),
            ("load=hand", "load cannot be 'hand'; it is open or closed"),
        ] {
            assert_eq!(sweep(&parts(text)).unwrap_err().to_string(), answer);
        }
        assert!(experiment("none").is_err());
    }
}

//! Bulgannawar and Vaidya 1994, section 5: delay, messages and words per message of four algorithms for K permits.
//!
//! The model (section 4): N = 30, K = 3, ν = 2, E = 0.0002. A site thinks for an exponential time of mean 1/λ after each
//! critical section (closed load). A sender pays `T_s` for each copy, a receiver `T_r` for each message.
//!
//! The curves are only drawn in the report. So the rows check what its text says, and nothing is read off the drawings.

mod notes;

use meshlock_protocol::Cluster;

use self::notes::{NOTES_3A, NOTES_3B, NOTES_4, NOTES_5, READING};
use super::singhal::{of_messages, of_wait};
use super::{ComparisonRow, Curve, Experiment, Findings, Job, Measure, Measured, Plot, Work};
use crate::draw::Distribution;
use crate::network::Delay;
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};
use crate::time::Time;

/// N, K and the entries of a run.
const SITES: usize = 30;
const PERMITS: usize = 3;
const ENTRIES: u64 = 20_000;

/// The values of λ.
const LOADS: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.3, 1.0];
/// The last of them: heavy load.
const HEAVY: usize = LOADS.len() - 1;
/// How many of them, from the first on, are "small λ": the sites want to enter for less than a tenth of what can be served.
const SMALL: usize = 3;

/// The algorithms: how they are run, and their names in the report.
const ALGORITHMS: [(&str, &str); 5] = [
    ("bulgannawar-vaidya:inform=2,choice=last-seen", "new+heuristic"),
    ("bulgannawar-vaidya:inform=2,choice=random", "new+random token"),
    ("raymond-k", "Raymond"),
    ("srimani-reddy", "Srimani–Reddy"),
    ("makki", "Makki"),
];
const HEURISTIC: usize = 0;
const RANDOM: usize = 1;
const RAYMOND: usize = 2;
const SRIMANI: usize = 3;
const MAKKI: usize = 4;
/// The algorithms that the new one is compared with.
const OTHERS: [usize; 3] = [RAYMOND, SRIMANI, MAKKI];

/// `T_s` = `T_r`, and `T_t`: with costs for sender and receiver, with half of them, and with none.
type Costs = (f64, f64);
const COSTLY: Costs = (0.1, 0.8);
const HALF: Costs = (0.05, 0.9);
const FREE: Costs = (0.0, 1.0);

/// Two curves that are as near as this (relative) count as the same: "equally well", "practically the same".
const SAME: f64 = 0.05;

pub(super) const FIGURE_3A: Experiment = Experiment {
    id: "bulgannawar-1994-figure-3a",
    source: "Bulgannawar and Vaidya 1994, Figure 3(a)",
    about: "delay of four algorithms for K permits; sending and receiving cost 0.1",
    work: Work::Runs { jobs: || jobs(COSTLY), read: read_3a },
};

pub(super) const FIGURE_3B: Experiment = Experiment {
    id: "bulgannawar-1994-figure-3b",
    source: "Bulgannawar and Vaidya 1994, Figure 3(b)",
    about: "delay of four algorithms for K permits; sending and receiving are free",
    work: Work::Runs { jobs: || jobs(FREE), read: read_3b },
};

pub(super) const FIGURE_4: Experiment = Experiment {
    id: "bulgannawar-1994-figure-4",
    source: "Bulgannawar and Vaidya 1994, Figure 4",
    about: "messages per entry of four algorithms for K permits",
    work: Work::Runs { jobs: || [COSTLY, HALF, FREE].into_iter().flat_map(jobs).collect(), read: read_4 },
};

pub(super) const FIGURE_5: Experiment = Experiment {
    id: "bulgannawar-1994-figure-5",
    source: "Bulgannawar and Vaidya 1994, Figure 5",
    about: "words per message of four algorithms for K permits",
    work: Work::Runs { jobs: || jobs(COSTLY), read: read_5 },
};

/// A run for each λ and, inside that, each algorithm.
fn jobs((cost, transmission): Costs) -> Vec<Job> {
    let settings = |rate| {
        let mut settings = Settings::new(Cluster { sites: SITES, permits: PERMITS });
        settings.load = Load::Closed;
        settings.rates = Rates::Same(rate);
        settings.delay = Delay::Same(Distribution::Constant(Time::units(transmission)));
        settings.send_cost = Time::units(cost);
        settings.receive_cost = Time::units(cost);
        settings.entries = ENTRIES;
        settings
    };
    let runs =
        |&rate: &f64| ALGORITHMS.map(|(spec, _)| Job { spec: spec.to_owned(), settings: settings(rate) });
    LOADS.iter().flat_map(runs).collect()
}

/// The reports of one set of costs.
#[derive(Clone, Copy)]
struct CostRuns<'a>(&'a [Report]);

impl CostRuns<'_> {
    /// The run of an algorithm for one load, both by index.
    fn at(&self, algorithm: usize, load: usize) -> &Report {
        &self.0[load * ALGORITHMS.len() + algorithm]
    }

    /// What an algorithm has for each load.
    fn curve(&self, algorithm: usize, measure: Measure) -> [f64; LOADS.len()] {
        std::array::from_fn(|load| measure(self.at(algorithm, load)).0)
    }

    /// For how many loads `algorithm` is below all of `others`.
    fn below(&self, algorithm: usize, others: &[usize], measure: Measure) -> usize {
        let value = |algorithm, load| measure(self.at(algorithm, load)).0;
        (0..LOADS.len())
            .filter(|&load| others.iter().all(|&other| value(algorithm, load) < value(other, load)))
            .count()
    }

    /// A curve for each algorithm.
    fn plot(&self, figure: &str, y: &str, measure: Measure) -> Plot {
        let point = |algorithm, load: usize| {
            let (mean, ci95) = measure(self.at(algorithm, load));
            (LOADS[load], mean, ci95.unwrap_or_default())
        };
        let curve = |(algorithm, (_, name)): (usize, &(&str, &str))| Curve {
            name: (*name).to_owned(),
            points: (0..LOADS.len()).map(|load| point(algorithm, load)).collect(),
            published: false,
        };
        Plot {
            name: format!("bulgannawar-1994-figure-{figure}"),
            title: format!("Bulgannawar and Vaidya 1994, Figure {figure}: {y}"),
            x: "λ, 1 / mean time between a site's exit and its next request".to_owned(),
            y: y.to_owned(),
            curves: ALGORITHMS.iter().enumerate().map(curve).collect(),
        }
    }

    /// Every point of the curves, to be read beside the plot.
    fn points(&self, quantity: &str, measure: Measure) -> Vec<ComparisonRow> {
        let label =
            |algorithm: usize, load: usize| format!("{}, λ = {}", ALGORITHMS[algorithm].1, LOADS[load]);
        let row = |algorithm, load| {
            ComparisonRow::shown(label(algorithm, load), quantity, measure(self.at(algorithm, load)))
        };
        (0..ALGORITHMS.len())
            .flat_map(|algorithm| (0..LOADS.len()).map(move |load| row(algorithm, load)))
            .collect()
    }
}

/// A figure that the text gives in steps of `step`: ours agrees if it rounds to the same.
fn rounded(label: String, quantity: &str, published: f64, step: f64, measured: Measured) -> ComparisonRow {
    ComparisonRow::compared(label, quantity, published, measured, step / 2.0 / published)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn heavy(algorithm: usize) -> String {
    format!("{}, λ = {}", ALGORITHMS[algorithm].1, LOADS[HEAVY])
}

fn notes(lists: &[&[&str]]) -> Vec<String> {
    lists.concat().into_iter().map(str::to_owned).collect()
}

/// A row that counts the loads for which `algorithm` is below the three older algorithms.
fn best_for_most(runs: CostRuns, algorithm: usize, quantity: &str, measure: Measure) -> ComparisonRow {
    let count = runs.below(algorithm, &OTHERS, measure);
    ComparisonRow::stated(
        ALGORITHMS[algorithm].1,
        quantity,
        "most",
        (count as f64, None),
        2 * count > LOADS.len(),
    )
}

/// Entries per site and unit of time.
fn of_rate(report: &Report) -> Measured {
    let sites = SITES as f64;
    (report.throughput.mean / sites, report.throughput.ci95.map(|half| half / sites))
}

/// What the text says of both parts of Figure 3: saturation, and who is slowest.
fn common_to_3(runs: CostRuns) -> Vec<ComparisonRow> {
    let mut rows = Vec::new();
    for algorithm in 0..ALGORITHMS.len() {
        let rate = of_rate(runs.at(algorithm, HEAVY));
        let holds = rate.0 <= 0.1;
        rows.push(ComparisonRow::stated(
            heavy(algorithm),
            "entries per site and time",
            "at most 1/10",
            rate,
            holds,
        ));
    }
    let slowest = (0..LOADS.len())
        .filter(|&load| {
            let wait = |algorithm| of_wait(runs.at(algorithm, load)).0;
            (0..MAKKI).all(|other| wait(other) < wait(MAKKI))
        })
        .count();
    rows.push(ComparisonRow::stated(
        ALGORITHMS[MAKKI].1,
        "loads (of 8) with the longest delay",
        "all",
        (slowest as f64, None),
        slowest == LOADS.len(),
    ));
    rows
}

fn read_3a(reports: &[Report]) -> Findings {
    let runs = CostRuns(reports);
    let quantity = "loads (of 8) with less delay than the older three";
    let mut rows = vec![
        best_for_most(runs, HEURISTIC, quantity, of_wait),
        best_for_most(runs, RANDOM, quantity, of_wait),
    ];
    let (heuristic, random) = (runs.curve(HEURISTIC, of_wait), runs.curve(RANDOM, of_wait));
    let saved = 1.0 - mean(&heuristic) / mean(&random);
    rows.push(ComparisonRow::stated(
        "heuristic instead of random token",
        "share of the delay saved, all loads",
        "only a small amount",
        (saved, None),
        saved > 0.0 && saved < 0.1,
    ));
    for algorithm in 0..ALGORITHMS.len() {
        let wait = runs.curve(algorithm, of_wait);
        let slope = |from: usize| (wait[from + 1] - wait[from]) / (LOADS[from + 1] - LOADS[from]);
        let share = slope(HEAVY - 1) / most(&std::array::from_fn::<f64, HEAVY, _>(slope));
        let holds = share < 0.1 && wait[HEAVY] > wait[0];
        let quantity = "slope of the delay, to the steepest";
        rows.push(ComparisonRow::stated(
            heavy(algorithm),
            quantity,
            "rises, then flattens",
            (share, None),
            holds,
        ));
        let rate = runs.curve(algorithm, of_rate);
        let gain = rate[HEAVY] / rate[HEAVY - 1] - 1.0;
        let quantity = "change of the rate since λ = 0.3 (share)";
        rows.push(ComparisonRow::stated(
            heavy(algorithm),
            quantity,
            "almost none",
            (gain, None),
            gain.abs() <= SAME,
        ));
    }
    rows.extend(common_to_3(runs));
    rows.extend(runs.points("delay", of_wait));
    let plots = vec![runs.plot("3a", "delay", of_wait)];
    Findings { rows, plots, notes: notes(&[&READING, &NOTES_3A]) }
}

fn read_3b(reports: &[Report]) -> Findings {
    let runs = CostRuns(reports);
    let mut rows = Vec::new();
    for (load, rate) in LOADS.iter().enumerate().take(SMALL) {
        let ours = of_wait(runs.at(HEURISTIC, load)).0;
        let raymond = of_wait(runs.at(RAYMOND, load));
        let label = format!("Raymond, λ = {rate}");
        let holds = raymond.0 < ours;
        rows.push(ComparisonRow::stated(
            label,
            "delay",
            format!("below new+heuristic ({ours:.3})"),
            raymond,
            holds,
        ));
    }
    let ours = of_wait(runs.at(HEURISTIC, HEAVY)).0;
    let raymond = of_wait(runs.at(RAYMOND, HEAVY));
    let holds = (raymond.0 / ours - 1.0).abs() <= SAME;
    rows.push(ComparisonRow::stated(
        heavy(RAYMOND),
        "delay",
        format!("equal to new+heuristic ({ours:.3})"),
        raymond,
        holds,
    ));
    rows.extend(common_to_3(runs));
    rows.extend(runs.points("delay", of_wait));
    let plots = vec![runs.plot("3b", "delay", of_wait)];
    Findings { rows, plots, notes: notes(&[&READING, &NOTES_3B]) }
}

fn read_4(reports: &[Report]) -> Findings {
    let mut sets = reports.chunks(LOADS.len() * ALGORITHMS.len()).map(CostRuns);
    let runs = sets.next().expect("the first set of costs");
    let quantity = "loads (of 8) with fewer messages than the older three";
    let mut rows = vec![
        best_for_most(runs, HEURISTIC, quantity, of_messages),
        best_for_most(runs, RANDOM, quantity, of_messages),
    ];
    let (ours, random) = (of_messages(runs.at(HEURISTIC, HEAVY)), of_messages(runs.at(RANDOM, HEAVY)).0);
    let published = format!("below new+random token ({random:.3})");
    rows.push(ComparisonRow::stated(heavy(HEURISTIC), "messages", published, ours, ours.0 < random));
    rows.extend(older_messages(runs));
    for (set, costs) in sets.zip(["0.05", "0"]) {
        for (algorithm, (_, name)) in ALGORITHMS.iter().enumerate() {
            let (these, those) = (runs.curve(algorithm, of_messages), set.curve(algorithm, of_messages));
            let off: [f64; LOADS.len()] = std::array::from_fn(|load| (those[load] / these[load] - 1.0).abs());
            let label = format!("{name}, T_s = T_r = {costs}");
            let quantity = "largest change of messages (share)";
            rows.push(ComparisonRow::stated(
                label,
                quantity,
                "practically the same",
                (most(&off), None),
                most(&off) <= SAME,
            ));
        }
    }
    rows.extend(runs.points("messages", of_messages));
    let plots = vec![runs.plot("4", "messages per entry", of_messages)];
    Findings { rows, plots, notes: notes(&[&READING, &NOTES_4]) }
}

/// What the text says of the messages of the three older algorithms.
fn older_messages(runs: CostRuns) -> Vec<ComparisonRow> {
    let curve = |algorithm| runs.curve(algorithm, of_messages);
    let (raymond, srimani, makki) = (curve(RAYMOND), curve(SRIMANI), curve(MAKKI));
    let all = |algorithm: usize| format!("{}, all loads", ALGORITHMS[algorithm].1);
    let (low, high) = (least(&raymond), most(&raymond));
    let falls = makki.is_sorted_by(|light, heavier| light >= heavier);
    vec![
        ComparisonRow::stated(
            all(RAYMOND),
            "least messages",
            "at least 2N−K−1 = 56",
            (low, None),
            low >= 56.0,
        ),
        ComparisonRow::stated(
            all(RAYMOND),
            "most messages",
            "at most 2(N−1) = 58",
            (high, None),
            high <= 58.0,
        ),
        rounded(all(RAYMOND), "mean of messages", 57.0, 1.0, (mean(&raymond), None)),
        ComparisonRow::stated(
            all(SRIMANI),
            "most messages",
            "at most N+K−1 = 32",
            (most(&srimani), None),
            most(&srimani) <= 32.0,
        ),
        rounded(all(SRIMANI), "mean of messages", 31.0, 1.0, (mean(&srimani), None)),
        ComparisonRow::stated(
            format!("{}, λ = {}", ALGORITHMS[MAKKI].1, LOADS[0]),
            "messages",
            "quite large, smaller with increasing λ",
            of_messages(runs.at(MAKKI, 0)),
            falls,
        ),
        rounded(heavy(MAKKI), "messages", 3.0, 1.0, of_messages(runs.at(MAKKI, HEAVY))),
    ]
}

fn of_words(report: &Report) -> Measured {
    (report.words_per_message.mean, None)
}

fn read_5(reports: &[Report]) -> Findings {
    let runs = CostRuns(reports);
    let words = |algorithm| of_words(runs.at(algorithm, HEAVY));
    let stated = [
        (HEURISTIC, 9.0, 1.0),
        (RANDOM, 9.0, 1.0),
        (RAYMOND, 4.0, 1.0),
        (SRIMANI, 6.5, 0.5),
        (MAKKI, 8.0, 1.0),
    ];
    let mut rows: Vec<ComparisonRow> = stated
        .into_iter()
        .map(|(algorithm, published, step)| {
            rounded(heavy(algorithm), "words", published, step, words(algorithm))
        })
        .collect();
    let raymond = runs.curve(RAYMOND, of_words);
    let level = raymond.iter().all(|words| (words - 4.0).abs() < 1e-9);
    rows.push(ComparisonRow::stated(
        "Raymond, all loads",
        "most words",
        "4, a horizontal line",
        (most(&raymond), None),
        level,
    ));
    let (with, without) = (runs.curve(HEURISTIC, of_words), runs.curve(RANDOM, of_words));
    let off: [f64; LOADS.len()] = std::array::from_fn(|load| (with[load] / without[load] - 1.0).abs());
    let quantity = "largest change of words (share)";
    rows.push(ComparisonRow::stated(
        "with and without heuristic",
        quantity,
        "the same",
        (most(&off), None),
        most(&off) <= SAME,
    ));
    rows.extend(runs.points("words", of_words));
    let plots = vec![runs.plot("5", "words per message", of_words)];
    Findings { rows, plots, notes: notes(&[&READING, &NOTES_5]) }
}

//! Bulgannawar and Vaidya 1994, section 5: delay, messages and words per message of four algorithms for K permits.
//!
//! The model (section 4): N = 30, K = 3, ν = 2, E = 0.0002. A site thinks for an exponential time of mean 1/λ after each
//! critical section (closed load). A sender pays `T_s` for each copy, a receiver `T_r` for each message, and a site is one
//! processor: it does not send and receive at once.
//!
//! The curves are only drawn in the report. So the rows check what its text says, and nothing is read off the drawings.
//! [`claims`] has what the text says beside the figures.

mod claims;
mod notes;

pub(super) use claims::{CHECKS, INFORM, LARGER_E, SATURATION};

use meshlock_protocol::Cluster;

use self::notes::{NOTES_3A, NOTES_3B, NOTES_4, NOTES_5, READING};
use super::singhal::{of_messages, of_wait};
use super::{ComparisonRow, Curve, Experiment, Findings, Interval, Job, Measure, Measured, Plot, Work};
use crate::draw::Distribution;
use crate::network::Delay;
use crate::report::Report;
use crate::settings::{Load, Rates, Settings, SiteProcessor};
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
    work: Work::Runs {
        jobs: || [jobs(COSTLY), with_separate_processors(jobs(COSTLY))].concat(),
        read: read_3a,
    },
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

/// The model of section 4 for one λ.
fn model((cost, transmission): Costs, rate: f64) -> Settings {
    let mut settings = Settings::new(Cluster { sites: SITES, permits: PERMITS });
    settings.load = Load::Closed;
    settings.rates = Rates::Same(rate);
    settings.delay = Delay::Same(Distribution::Constant(Time::units(transmission)));
    settings.send_cost = Time::units(cost);
    settings.receive_cost = Time::units(cost);
    settings.processor = SiteProcessor::Shared;
    settings.entries = ENTRIES;
    settings
}

/// A run for each λ and, inside that, each algorithm.
fn jobs(costs: Costs) -> Vec<Job> {
    let runs =
        |&rate: &f64| ALGORITHMS.map(|(spec, _)| Job { spec: spec.to_owned(), settings: model(costs, rate) });
    LOADS.iter().flat_map(runs).collect()
}

/// The same where sending and receiving do not hinder each other.
fn with_separate_processors(mut jobs: Vec<Job>) -> Vec<Job> {
    for job in &mut jobs {
        job.settings.processor = SiteProcessor::Separate;
    }
    jobs
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
    fn curve(&self, algorithm: usize, measure: Measure) -> [Interval; LOADS.len()] {
        std::array::from_fn(|load| measure(self.at(algorithm, load)).into())
    }

    /// For how many loads `algorithm` is below all of `others`, and for how many more it may be.
    fn below(&self, algorithm: usize, others: &[usize], measure: Measure) -> (usize, usize) {
        let value = |algorithm, load| Interval::from(measure(self.at(algorithm, load)));
        let (mut sure, mut open) = (0, 0);
        for load in 0..LOADS.len() {
            let behind = |other: &usize| value(algorithm, load).minus(value(*other, load));
            if others.iter().all(|other| behind(other).high < 0.0) {
                sure += 1;
            } else if others.iter().all(|other| behind(other).low < 0.0) {
                open += 1;
            }
        }
        (sure, open)
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

fn heavy(algorithm: usize) -> String {
    format!("{}, λ = {}", ALGORITHMS[algorithm].1, LOADS[HEAVY])
}

fn notes(lists: &[&[&str]]) -> Vec<String> {
    lists.concat().into_iter().map(str::to_owned).collect()
}

/// A row that counts the loads for which `algorithm` is below the three older algorithms.
fn best_for_most(runs: CostRuns, algorithm: usize, quantity: &str, measure: Measure) -> ComparisonRow {
    let (sure, open) = runs.below(algorithm, &OTHERS, measure);
    ComparisonRow::most_of(ALGORITHMS[algorithm].1, quantity, (sure, open, LOADS.len()))
}

/// Entries per site and unit of time.
fn of_rate(report: &Report) -> Measured {
    let sites = SITES as f64;
    (report.throughput.mean / sites, report.throughput.ci95.map(|half| half / sites))
}

/// The relative change from one estimate to another.
fn change(from: Interval, to: Interval) -> Interval {
    to.over(from).minus(Interval::point(1.0))
}

/// The largest relative difference of two curves.
fn largest_change(these: &[Interval], those: &[Interval]) -> Interval {
    let changes: Vec<Interval> =
        these.iter().zip(those).map(|(&from, &to)| change(from, to).size()).collect();
    Interval::most(&changes)
}

/// What the text says of both parts of Figure 3: who is slowest.
fn slowest(runs: CostRuns) -> ComparisonRow {
    let wait = |algorithm, load| Interval::from(of_wait(runs.at(algorithm, load)));
    let leads: Vec<Interval> = (0..LOADS.len())
        .flat_map(|load| (0..MAKKI).map(move |other| wait(MAKKI, load).minus(wait(other, load))))
        .collect();
    let longest = |load: usize| (0..MAKKI).all(|other| wait(MAKKI, load).low > wait(other, load).high);
    let count = (0..LOADS.len()).filter(|&load| longest(load)).count();
    let mut row = ComparisonRow::claimed(
        ALGORITHMS[MAKKI].1,
        "least lead in delay over any other at any load",
        "the longest at all loads",
        Interval::least(&leads),
        0.0..=f64::INFINITY,
    );
    row.label = format!("{} (longest at {count} of {} loads)", row.label, LOADS.len());
    row
}

fn read_3a(reports: &[Report]) -> Findings {
    let (one, apart) = reports.split_at(reports.len() / 2);
    let (runs, apart) = (CostRuns(one), CostRuns(apart));
    let quantity = "loads (of 8) with less delay than the older three";
    let mut rows = vec![
        best_for_most(runs, HEURISTIC, quantity, of_wait),
        best_for_most(runs, RANDOM, quantity, of_wait),
    ];
    let [heuristic, random] = [HEURISTIC, RANDOM].map(|of| Interval::mean(&runs.curve(of, of_wait)));
    rows.push(ComparisonRow::claimed(
        "heuristic instead of random token",
        "share of the delay saved, all loads",
        "only a small amount",
        Interval::point(1.0).minus(heuristic.over(random)),
        0.0..=0.1,
    ));
    for algorithm in 0..ALGORITHMS.len() {
        rows.extend(saturation(runs, algorithm));
    }
    rows.push(slowest(runs));
    rows.extend(runs.points("delay", of_wait));
    for (algorithm, (_, name)) in ALGORITHMS.iter().enumerate() {
        let other = largest_change(&runs.curve(algorithm, of_wait), &apart.curve(algorithm, of_wait));
        let label = format!("{name}, sending and receiving at once");
        rows.push(ComparisonRow::shown(label, "largest change of the delay (share)", other.measured()));
    }
    let plots = vec![runs.plot("3a", "delay", of_wait)];
    Findings { rows, plots, notes: notes(&[&READING, &NOTES_3A]) }
}

/// "The curve gradually flatten out": the slope of the delay, and the rate of entries, at the two largest loads.
fn saturation(runs: CostRuns, algorithm: usize) -> [ComparisonRow; 2] {
    let wait = runs.curve(algorithm, of_wait);
    let slope = |from: usize| {
        let rise = wait[from + 1].minus(wait[from]);
        rise.over(Interval::point(LOADS[from + 1] - LOADS[from]))
    };
    let slopes: [Interval; HEAVY] = std::array::from_fn(slope);
    let rate = runs.curve(algorithm, of_rate);
    [
        ComparisonRow::claimed(
            heavy(algorithm),
            "slope of the delay, to the steepest",
            "rises, then flattens",
            slopes[HEAVY - 1].over(Interval::most(&slopes)),
            f64::NEG_INFINITY..=0.1,
        ),
        ComparisonRow::claimed(
            heavy(algorithm),
            "change of the rate since λ = 0.3 (share)",
            "almost none",
            change(rate[HEAVY - 1], rate[HEAVY]),
            -SAME..=SAME,
        ),
    ]
}

fn read_3b(reports: &[Report]) -> Findings {
    let runs = CostRuns(reports);
    let mut rows = Vec::new();
    let [ours, raymond] = [HEURISTIC, RAYMOND].map(|algorithm| runs.curve(algorithm, of_wait));
    for load in 0..SMALL {
        rows.push(ComparisonRow::claimed(
            format!("Raymond, λ = {}", LOADS[load]),
            "delay, less that of new+heuristic",
            "below",
            raymond[load].minus(ours[load]),
            f64::NEG_INFINITY..=0.0,
        ));
    }
    rows.push(ComparisonRow::claimed(
        heavy(RAYMOND),
        "delay, to that of new+heuristic",
        "equally well",
        raymond[HEAVY].over(ours[HEAVY]),
        1.0 - SAME..=1.0 + SAME,
    ));
    rows.push(slowest(runs));
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
    let [ours, random] = [HEURISTIC, RANDOM].map(|of| Interval::from(of_messages(runs.at(of, HEAVY))));
    rows.push(ComparisonRow::claimed(
        heavy(HEURISTIC),
        "messages, less those of new+random token",
        "fewer",
        ours.minus(random),
        f64::NEG_INFINITY..=0.0,
    ));
    rows.extend(older_messages(runs));
    for (set, costs) in sets.zip(["0.05", "0"]) {
        for (algorithm, (_, name)) in ALGORITHMS.iter().enumerate() {
            rows.push(ComparisonRow::claimed(
                format!("{name}, T_s = T_r = {costs}"),
                "largest change of messages (share)",
                "practically the same",
                largest_change(&runs.curve(algorithm, of_messages), &set.curve(algorithm, of_messages)),
                0.0..=SAME,
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
    let rises: Vec<Interval> = makki.windows(2).map(|pair| pair[1].minus(pair[0])).collect();
    vec![
        ComparisonRow::claimed(
            all(RAYMOND),
            "least messages",
            "at least 2N−K−1 = 56",
            Interval::least(&raymond),
            56.0..=f64::INFINITY,
        ),
        ComparisonRow::claimed(
            all(RAYMOND),
            "most messages",
            "at most 2(N−1) = 58",
            Interval::most(&raymond),
            0.0..=58.0,
        ),
        ComparisonRow::compared(
            all(RAYMOND),
            "mean of messages, \"around\"",
            57.0,
            Interval::mean(&raymond).measured(),
        ),
        ComparisonRow::claimed(
            all(SRIMANI),
            "most messages",
            "at most N+K−1 = 32",
            Interval::most(&srimani),
            0.0..=32.0,
        ),
        ComparisonRow::compared(
            all(SRIMANI),
            "mean of messages, \"around\"",
            31.0,
            Interval::mean(&srimani).measured(),
        ),
        ComparisonRow::claimed(
            all(MAKKI),
            "largest rise of messages from one load to the next",
            "smaller with increasing λ",
            Interval::most(&rises),
            f64::NEG_INFINITY..=0.0,
        ),
        ComparisonRow::compared(
            heavy(MAKKI),
            "messages, \"only three\"",
            3.0,
            of_messages(runs.at(MAKKI, HEAVY)),
        ),
    ]
}

fn of_words(report: &Report) -> Measured {
    (report.words_per_message.mean, report.words_per_message.ci95)
}

fn read_5(reports: &[Report]) -> Findings {
    let runs = CostRuns(reports);
    let stated = [(HEURISTIC, 9.0), (RANDOM, 9.0), (RAYMOND, 4.0), (SRIMANI, 6.5), (MAKKI, 8.0)];
    let mut rows: Vec<ComparisonRow> = stated
        .into_iter()
        .map(|(algorithm, published)| {
            let words = of_words(runs.at(algorithm, HEAVY));
            ComparisonRow::compared(heavy(algorithm), "words, \"about\"", published, words)
        })
        .collect();
    rows.push(ComparisonRow::compared(
        heavy(MAKKI),
        "words without the numbers that only our form carries",
        8.0,
        claims::makki_words(runs.at(MAKKI, HEAVY)),
    ));
    let raymond =
        Interval::most(&runs.curve(RAYMOND, of_words).map(|words| words.minus(Interval::point(4.0)).size()));
    rows.push(ComparisonRow::claimed(
        "Raymond, all loads",
        "largest distance from 4 words",
        "a horizontal line",
        raymond,
        0.0..=0.0,
    ));
    rows.push(ComparisonRow::claimed(
        "with and without heuristic",
        "largest change of words (share)",
        "the same",
        largest_change(&runs.curve(RANDOM, of_words), &runs.curve(HEURISTIC, of_words)),
        0.0..=SAME,
    ));
    for other in OTHERS {
        // Makki's as the report counts them.
        let theirs: Measure = if other == MAKKI { claims::makki_words } else { of_words };
        let ratio = |load| {
            Interval::from(of_words(runs.at(HEURISTIC, load))).over(theirs(runs.at(other, load)).into())
        };
        rows.push(ComparisonRow::claimed(
            format!("new+heuristic to {}, λ = {}", ALGORITHMS[other].1, LOADS[HEAVY]),
            "ratio of the words",
            "about 1.5 to 2 times larger",
            ratio(HEAVY),
            1.5..=2.0,
        ));
        for (load, rate) in LOADS.iter().enumerate().take(HEAVY) {
            let label = format!("  the same, λ = {rate}");
            rows.push(ComparisonRow::shown(label, "ratio of the words", ratio(load).measured()));
        }
    }
    rows.extend(runs.points("words", of_words));
    let plots = vec![runs.plot("5", "words per message", of_words)];
    Findings { rows, plots, notes: notes(&[&READING, &NOTES_5]) }
}

//! Singhal 1989, section V: Table II, the analytic limits, and the adaptivity to uneven traffic.
//!
//! The model (section V-A): requests arrive at each of ten sites as a Poisson stream and are processed one by one, T = 1,
//! E = 0.0002. The reading that comes nearest to Table II: arrivals queue at their site (open load), W runs from the moment
//! a request heads its site's queue and invokes step 1, to its entry, and a site that leaves hands the token on before it
//! makes its own next request. [`table`] shows the other readings beside it.

mod table;

use meshlock_protocol::Cluster;

use super::{ComparisonRow, Experiment, Findings, Interval, Job, Measured, Work};
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};
use crate::statistics::{Mean, mean_of_runs};

/// The sites of the paper's simulation.
const SITES: usize = 10;

pub(super) const TABLE: Experiment = Experiment {
    id: "singhal-1989-table-2",
    source: "Singhal 1989, Table II",
    about: "messages and waiting time of the heuristic algorithm for 20 loads",
    work: Work::Runs { jobs: table::jobs, read: table::read },
};

pub(super) const LIMITS: Experiment = Experiment {
    id: "singhal-1989-limits",
    source: "Singhal 1989, section V-C",
    about: "the analytic results for low and heavy traffic",
    work: Work::Runs { jobs: limit_jobs, read: read_limits },
};

pub(super) const ADAPTIVITY: Experiment = Experiment {
    id: "singhal-1989-adaptivity",
    source: "Singhal 1989, section V-D",
    about: "hot sites drift to the low end of the staircase and pay fewer messages",
    work: Work::Runs { jobs: adaptivity_jobs, read: read_adaptivity },
};

fn open(sites: usize, rate: f64, entries: u64) -> Settings {
    let mut settings = Settings::new(Cluster::of(sites));
    settings.rates = Rates::Same(rate);
    settings.entries = entries;
    settings
}

pub(super) fn of_messages(report: &Report) -> Measured {
    (report.messages_per_entry.mean, report.messages_per_entry.ci95)
}

pub(super) fn of_wait(report: &Report) -> Measured {
    (report.wait.mean, report.wait.ci95)
}

const LIMIT_SIZES: [usize; 3] = [5, 10, 25];

/// Requests of all sites per unit of time in low traffic: of 50,000 requests about ten meet another one.
const LOW: f64 = 0.0001;

fn limit_jobs() -> Vec<Job> {
    let spec = "singhal-heuristic".to_owned();
    let runs = |sites: usize| {
        let low = open(sites, LOW / sites as f64, 50_000);
        let mut heavy = open(sites, 1.0, 50_000);
        heavy.load = Load::Saturated;
        [Job { spec: spec.clone(), settings: low }, Job { spec: spec.clone(), settings: heavy }]
    };
    LIMIT_SIZES.iter().flat_map(|&sites| runs(sites)).collect()
}

fn read_limits(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    let stay = Settings::new(Cluster::of(1)).inside.mean();
    for (sites, runs) in LIMIT_SIZES.into_iter().zip(reports.chunks(2)) {
        let n = sites as f64;
        let [low, heavy] = ["low", "heavy"].map(|traffic| format!("{traffic} traffic, n = {sites}"));
        let (messages, wait) = (of_messages(&runs[0]), of_wait(&runs[0]));
        rows.push(ComparisonRow::compared(
            low.clone(),
            "M = (n+1)/2·(1−1/n)",
            f64::midpoint(n, 1.0) * (1.0 - 1.0 / n),
            messages,
        ));
        rows.push(ComparisonRow::derived(
            low.clone(),
            "M = (n−1)(n+2)/2n",
            (n - 1.0) * (n + 2.0) / (2.0 * n),
            messages,
        ));
        rows.push(ComparisonRow::compared(low, "W = 2T(1−1/n)", 2.0 * (1.0 - 1.0 / n), wait));
        rows.push(ComparisonRow::compared(heavy.clone(), "M = n", n, of_messages(&runs[1])));
        rows.push(ComparisonRow::claimed(
            heavy,
            "W = nT, \"strictly speaking T + E\" for each",
            format!("{n} to {:.3}", n * (1.0 + stay)),
            of_wait(&runs[1]).into(),
            n..=n * (1.0 + stay),
        ));
    }
    Findings { rows, plots: Vec::new(), notes: LIMIT_NOTES.iter().map(|&note| note.to_owned()).collect() }
}

const LIMIT_NOTES: [&str; 2] = [
    "Low traffic: the paper has (n+1)/2 messages and 2T, and then says that both \"should be reduced by a factor (≈ 1 − 1/n)\". \
     For W that is exact. For M it is not: of n requesters, the one that has the token is the one that sends no request, so only \
     the token's message is saved for it, not the mean of (n+1)/2. With 0, 1, …, n−1 requests and a token for all but the \
     first, M = (n−1)/2 + (n−1)/n = (n−1)(n+2)/2n: 5.4 for n = 10, where the factor gives 4.95. Table II has 5.44 at its \
     lowest load.",
    "Heavy traffic: every site asks again as it leaves. The runs are without chance, so M is compared exactly. From one entry \
     to the next of the same site n(T+E) pass; W begins with its exit, E later.",
];

/// How many of the ten sites are hot, and how much hotter.
const HOT: usize = 3;
const HEAT: f64 = 20.0;

/// The number of runs with uneven and with even traffic, and their length.
const ADAPTIVITY_RUNS: u64 = 20;
const ADAPTIVITY_ENTRIES: u64 = 20_000;

fn adaptivity_jobs() -> Vec<Job> {
    let base = 0.001;
    let rate = |site: usize| if site < HOT { base * HEAT } else { base };
    let mut uneven = open(SITES, base, ADAPTIVITY_ENTRIES);
    uneven.rates = Rates::Each((0..SITES).map(rate).collect());
    let total: f64 = (0..SITES).map(rate).sum();
    let even = open(SITES, total / SITES as f64, ADAPTIVITY_ENTRIES);
    let job = |settings: &Settings, seed| Job {
        spec: "singhal-heuristic".to_owned(),
        settings: Settings { seed, ..settings.clone() },
    };
    [&uneven, &even]
        .into_iter()
        .flat_map(|settings| (1..=ADAPTIVITY_RUNS).map(move |seed| job(settings, seed)))
        .collect()
}

/// Request messages that these sites sent for each entry of theirs.
fn requests_per_entry(run: &Report, sites: std::ops::Range<usize>) -> f64 {
    let sent: u64 = run.requests_by_site[sites.clone()].iter().sum();
    let entries: u64 = run.entries_by_site[sites].iter().sum();
    sent as f64 / entries as f64
}

fn read_adaptivity(reports: &[Report]) -> Findings {
    let (uneven, even) = reports.split_at(reports.len() / 2);
    let over = |runs: &[Report], value: &dyn Fn(&Report) -> f64| -> Measured {
        let Mean { mean, ci95 } = mean_of_runs(&runs.iter().map(value).collect::<Vec<_>>());
        (mean, ci95)
    };
    let messages = |runs| over(runs, &|run| of_messages(run).0);
    let wait = |runs| over(runs, &|run| of_wait(run).0);
    let hot = over(uneven, &|run| requests_per_entry(run, 0..HOT));
    let cold = over(uneven, &|run| requests_per_entry(run, HOT..SITES));
    let less = |label: &str, quantity: &str, of: &str, one: Measured, other: Measured| {
        let difference = Interval::from(one).minus(other.into());
        let published = format!("fewer than {of}");
        ComparisonRow::claimed(label, quantity, published, difference, f64::NEG_INFINITY..=0.0)
    };
    let [all, same, heated] = [
        "uneven traffic".to_owned(),
        "even traffic, the same in all".to_owned(),
        format!("{HOT} hot sites ({HEAT} times the rate)"),
    ];
    let rows = vec![
        ComparisonRow::shown(&same, "M", messages(even)),
        ComparisonRow::shown(&all, "M", messages(uneven)),
        less(&all, "M, difference", "with even traffic", messages(uneven), messages(even)),
        ComparisonRow::shown(&same, "W", wait(even)),
        ComparisonRow::shown(&all, "W", wait(uneven)),
        less(&all, "W, difference", "with even traffic", wait(uneven), wait(even)),
        ComparisonRow::shown(&heated, "requests sent per own entry", hot),
        ComparisonRow::shown(format!("{} cold sites", SITES - HOT), "requests sent per own entry", cold),
        less(&heated, "requests sent per own entry, difference", "at the cold sites", hot, cold),
    ];
    Findings { rows, plots: Vec::new(), notes: Vec::new() }
}

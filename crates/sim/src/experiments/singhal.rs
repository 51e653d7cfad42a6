//! Singhal 1989, section V: Table II, the analytic limits, and the adaptivity to uneven traffic.
//!
//! The model (section V-A): requests arrive at each of ten sites as a Poisson stream and are processed one by one, T = 1,
//! E = 0.0002. The reading that comes nearest to Table II: arrivals queue at their site (open load), W runs from the moment
//! a request heads its site's queue and invokes step 1, to its entry, and a site that leaves hands the token on before it
//! makes its own next request. [`table`] shows the other readings beside it.

mod table;

use meshlock_protocol::Cluster;

use super::{ComparisonRow, Experiment, Findings, Job, Measured, Work};
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};

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

fn limit_jobs() -> Vec<Job> {
    let spec = "singhal-heuristic".to_owned();
    let runs = |sites: usize| {
        let low = open(sites, 0.001 / sites as f64, 50_000);
        let mut heavy = open(sites, 1.0, 50_000);
        heavy.load = Load::Saturated;
        [Job { spec: spec.clone(), settings: low }, Job { spec: spec.clone(), settings: heavy }]
    };
    LIMIT_SIZES.iter().flat_map(|&sites| runs(sites)).collect()
}

fn read_limits(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    for (sites, runs) in LIMIT_SIZES.into_iter().zip(reports.chunks(2)) {
        let n = sites as f64;
        // A site sends 0, 1, …, n−1 requests with equal likelihood, and one message is the token, unless it has it.
        let low = (n - 1.0) * (n + 2.0) / (2.0 * n);
        let label = |traffic: &str| format!("{traffic} traffic, n = {sites}");
        rows.push(ComparisonRow::compared(
            label("low"),
            "M = (n−1)(n+2)/2n",
            low,
            of_messages(&runs[0]),
            0.02,
        ));
        rows.push(ComparisonRow::compared(
            label("low"),
            "W = 2T(1−1/n)",
            2.0 * (1.0 - 1.0 / n),
            of_wait(&runs[0]),
            0.02,
        ));
        rows.push(ComparisonRow::compared(label("heavy"), "M = n", n, of_messages(&runs[1]), 0.02));
        rows.push(ComparisonRow::compared(label("heavy"), "W = nT", n, of_wait(&runs[1]), 0.02));
    }
    let note = "The paper's low-traffic results are (n+1)/2 messages and 2T, both \"reduced by a factor\" because the \
                requester may have the token already; the rows have the reduction worked out: a requester that has it \
                (1 in n) pays and waits nothing, the others send 1 to n−1 requests and get one token.";
    Findings { rows, plots: Vec::new(), notes: vec![note.to_owned()] }
}

/// How many of the ten sites are hot, and how much hotter.
const HOT: usize = 3;
const HEAT: f64 = 20.0;

fn adaptivity_jobs() -> Vec<Job> {
    let base = 0.001;
    let rate = |site: usize| if site < HOT { base * HEAT } else { base };
    let mut uneven = open(SITES, base, 200_000);
    uneven.rates = Rates::Each((0..SITES).map(rate).collect());
    let total: f64 = (0..SITES).map(rate).sum();
    let even = open(SITES, total / SITES as f64, 200_000);
    let job = |settings| Job { spec: "singhal-heuristic".to_owned(), settings };
    vec![job(uneven), job(even)]
}

fn read_adaptivity(reports: &[Report]) -> Findings {
    let (uneven, even) = (&reports[0], &reports[1]);
    let requests = |sites: std::ops::Range<usize>| {
        let sent: u64 = uneven.requests_by_site[sites.clone()].iter().sum();
        let entries: u64 = uneven.entries_by_site[sites].iter().sum();
        sent as f64 / entries as f64
    };
    let (hot, cold) = (requests(0..HOT), requests(HOT..SITES));
    let all = of_messages(uneven);
    let saved = all.0 < of_messages(even).0;
    let rows = vec![
        ComparisonRow::shown("even traffic, the same in all", "M", of_messages(even)),
        ComparisonRow::stated("uneven traffic", "M", "fewer than with even traffic", all, saved),
        ComparisonRow::stated(
            format!("{HOT} hot sites ({HEAT} times the rate)"),
            "requests sent per own entry",
            "fewer than at the cold sites",
            (hot, None),
            hot < cold,
        ),
        ComparisonRow::shown(
            format!("{} cold sites", SITES - HOT),
            "requests sent per own entry",
            (cold, None),
        ),
    ];
    Findings { rows, plots: Vec::new(), notes: Vec::new() }
}

//! What the report says beside its figures: the bound on the rate of entries, what INFORM saves, the two sanity checks, and
//! that its results hold for other lengths of runs and of the critical section.

use super::super::singhal::{of_messages, of_wait};
use super::notes::{NOTES_CHECKS, NOTES_INFORM, NOTES_LARGER_E, NOTES_SATURATION, READING};
use super::{ALGORITHMS, COSTLY, FREE, LOADS, change, model, notes, of_rate};
use crate::draw::Distribution;
use crate::experiments::{
    ComparisonRow, Experiment, Findings, Interval, Job, Measure, Measured, RowVerdict, Work,
};
use crate::report::Report;
use crate::statistics::average;
use crate::time::Time;

pub(in crate::experiments) const SATURATION: Experiment = Experiment {
    id: "bulgannawar-1994-saturation",
    source: "Bulgannawar and Vaidya 1994, section 5, on Figure 3(a)",
    about: "the bound of 1/10 on the entries per site and unit of time, up to λ = 30",
    work: Work::Runs { jobs: saturation_jobs, read: read_saturation },
};

pub(in crate::experiments) const INFORM: Experiment = Experiment {
    id: "bulgannawar-1994-inform",
    source: "Bulgannawar and Vaidya 1994, section 3",
    about: "messages and delay with two INFORMs and with none",
    work: Work::Runs { jobs: inform_jobs, read: read_inform },
};

pub(in crate::experiments) const CHECKS: Experiment = Experiment {
    id: "bulgannawar-1994-checks",
    source: "Bulgannawar and Vaidya 1994, section 5",
    about: "convergence by 5,000 entries, and the entries and the delay of each node",
    work: Work::Runs { jobs: check_jobs, read: read_checks },
};

pub(in crate::experiments) const LARGER_E: Experiment = Experiment {
    id: "bulgannawar-1994-larger-e",
    source: "Bulgannawar and Vaidya 1994, section 5",
    about: "the order of the algorithms for longer critical sections",
    work: Work::Runs { jobs: larger_e_jobs, read: read_larger_e },
};

/// Loads from where the system is saturated to far beyond what the report mentions.
const SATURATED: [f64; 6] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

fn job(spec: &str, settings: crate::Settings) -> Job {
    Job { spec: spec.to_owned(), settings }
}

fn saturation_jobs() -> Vec<Job> {
    let of = |costs| {
        SATURATED.into_iter().flat_map(move |rate| ALGORITHMS.map(|(spec, _)| job(spec, model(costs, rate))))
    };
    of(COSTLY).chain(of(FREE)).collect()
}

fn read_saturation(reports: &[Report]) -> Findings {
    let costs = ["T_s = T_r = 0.1", "T_s = T_r = 0"];
    let cases = costs.into_iter().flat_map(|costs| {
        SATURATED.into_iter().flat_map(move |rate| ALGORITHMS.map(|(_, name)| (costs, rate, name)))
    });
    let rows = cases.zip(reports).map(|((costs, rate, name), run)| {
        ComparisonRow::claimed(
            format!("{name}, {costs}, λ = {rate}"),
            "entries per site and time",
            "at most 1/10, whatever λ",
            of_rate(run).into(),
            0.0..=0.1,
        )
    });
    Findings { rows: rows.collect(), plots: Vec::new(), notes: notes(&[&READING, &NOTES_SATURATION]) }
}

/// How a token is chosen.
const CHOICES: [(&str, &str); 2] = [("last-seen", "new+heuristic"), ("random", "new+random token")];

fn inform_jobs() -> Vec<Job> {
    let runs = |rate: f64| {
        CHOICES.into_iter().flat_map(move |(choice, _)| {
            [2, 0].map(|inform| {
                let spec = format!("bulgannawar-vaidya:inform={inform},choice={choice}");
                job(&spec, model(COSTLY, rate))
            })
        })
    };
    LOADS.into_iter().flat_map(runs).collect()
}

fn read_inform(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    for (at, (_, name)) in CHOICES.into_iter().enumerate() {
        let differences = |measure: Measure| -> Vec<Interval> {
            let pairs = reports.chunks(2).skip(at).step_by(CHOICES.len());
            pairs.map(|pair| Interval::from(measure(&pair[0])).minus(measure(&pair[1]).into())).collect()
        };
        let messages = differences(of_messages);
        let fewer = messages.iter().filter(|difference| difference.high < 0.0).count();
        let more = messages.iter().filter(|difference| difference.low > 0.0).count();
        rows.push(often(name, fewer, LOADS.len() - fewer - more));
        for (quantity, all) in [("messages", messages), ("delay", differences(of_wait))] {
            for (rate, difference) in LOADS.into_iter().zip(all) {
                let label = format!("  {name}, λ = {rate}");
                let quantity = format!("{quantity}, with two INFORMs less with none");
                rows.push(ComparisonRow::shown(label, &quantity, difference.measured()));
            }
        }
    }
    Findings { rows, plots: Vec::new(), notes: notes(&[&READING, &NOTES_INFORM]) }
}

/// "Often" is read as at no fewer than two of the eight loads.
fn often(name: &str, fewer: usize, open: usize) -> ComparisonRow {
    let quantity = "loads (of 8) with fewer messages with two INFORMs than with none";
    let mut row = ComparisonRow::stated(name, quantity, "often", fewer as f64, fewer >= 2);
    if fewer < 2 && fewer + open >= 2 {
        row.verdict = RowVerdict::Undecided;
    }
    row
}

/// Loads at which runs of the report's length are compared with long ones.
const CHECKED: [f64; 3] = [0.01, 0.1, 1.0];
const REPORTS_LENGTH: u64 = 5_000;
const LONG: u64 = 200_000;

fn check_jobs() -> Vec<Job> {
    let runs = |rate: f64| {
        ALGORITHMS.into_iter().flat_map(move |(spec, _)| {
            [REPORTS_LENGTH, LONG].map(|entries| {
                let mut settings = model(COSTLY, rate);
                settings.entries = entries;
                // Another seed than the long run's, which begins with the short one otherwise.
                settings.seed = entries;
                job(spec, settings)
            })
        })
    };
    CHECKED.into_iter().flat_map(runs).collect()
}

fn read_checks(reports: &[Report]) -> Findings {
    let cases = CHECKED.into_iter().flat_map(|rate| ALGORITHMS.map(|(_, name)| (rate, name)));
    let mut rows = Vec::new();
    for ((rate, name), pair) in cases.zip(reports.chunks(2)) {
        let (short, long) = (&pair[0], &pair[1]);
        for (quantity, measure) in [("delay", of_wait as Measure), ("messages", of_messages)] {
            rows.push(ComparisonRow::claimed(
                format!("{name}, λ = {rate}"),
                &format!("change of {quantity} from {REPORTS_LENGTH} to {LONG} entries (share)"),
                "converged",
                change(measure(short).into(), measure(long).into()),
                -super::SAME..=super::SAME,
            ));
        }
        let label = || format!("{name}, λ = {rate}, {REPORTS_LENGTH} entries");
        rows.push(evenness(
            label(),
            "entries of a node, largest distance from the mean (share)",
            &counts(short),
        ));
        rows.push(evenness(
            label(),
            "delay of a node, largest distance from the mean (share)",
            &short.wait_by_site,
        ));
    }
    Findings { rows, plots: Vec::new(), notes: notes(&[&READING, &NOTES_CHECKS]) }
}

fn counts(report: &Report) -> Vec<f64> {
    report.entries_by_site.iter().map(|&entries| entries as f64).collect()
}

/// "Roughly equal", "comparable" are read as within a quarter of the mean of all.
const ROUGHLY: f64 = 0.25;

fn evenness(label: String, quantity: &str, by_site: &[f64]) -> ComparisonRow {
    let mean = average(by_site);
    let farthest = by_site.iter().map(|value| (value / mean - 1.0).abs()).fold(0.0, f64::max);
    ComparisonRow::stated(label, quantity, "roughly equal", farthest, farthest <= ROUGHLY)
}

/// Critical sections of a hundredth of a message delay, a tenth, and a whole one.
const STAYS: [f64; 4] = [0.0002, 0.01, 0.1, 1.0];

fn larger_e_jobs() -> Vec<Job> {
    let runs = |stay: f64| {
        LOADS.into_iter().flat_map(move |rate| {
            ALGORITHMS.map(|(spec, _)| {
                let mut settings = model(COSTLY, rate);
                settings.inside = Distribution::Constant(Time::units(stay));
                job(spec, settings)
            })
        })
    };
    STAYS.into_iter().flat_map(runs).collect()
}

fn read_larger_e(reports: &[Report]) -> Findings {
    let mut sets = reports.chunks(LOADS.len() * ALGORITHMS.len());
    let short = sets.next().expect("the shortest critical section");
    let mut rows = Vec::new();
    for (set, stay) in sets.zip(&STAYS[1..]) {
        for (quantity, measure) in [("delay", of_wait as Measure), ("messages", of_messages)] {
            let (turned, pairs) = turned(short, set, measure);
            rows.push(ComparisonRow::stated(
                format!("E = {stay}, all loads"),
                &format!("share of the {pairs} ordered pairs of algorithms that {quantity} order otherwise"),
                "similar",
                turned as f64 / pairs as f64,
                turned * 10 <= pairs,
            ));
        }
    }
    Findings { rows, plots: Vec::new(), notes: notes(&[&READING, &NOTES_LARGER_E]) }
}

/// How many pairs of algorithms, over all loads, have one order in `these` runs and the other in `those`; of how many that have an
/// order in `these`. Estimates whose intervals meet have none.
fn turned(these: &[Report], those: &[Report], measure: Measure) -> (usize, usize) {
    let order = |one: &Report, other: &Report| {
        let difference = Interval::from(measure(one)).minus(measure(other).into());
        (difference.high < 0.0).then_some(true).or((difference.low > 0.0).then_some(false))
    };
    let (mut turned, mut pairs) = (0, 0);
    for (before, after) in these.chunks(ALGORITHMS.len()).zip(those.chunks(ALGORITHMS.len())) {
        for one in 0..ALGORITHMS.len() {
            for other in one + 1..ALGORITHMS.len() {
                let Some(was) = order(&before[one], &before[other]) else { continue };
                pairs += 1;
                turned += usize::from(order(&after[one], &after[other]).is_some_and(|is| is != was));
            }
        }
    }
    (turned, pairs)
}

/// Words of Makki's messages as the report must have counted them: source, destination and type; a REQUEST names its site, a
/// TOKEN the semaphore and each waiter, a RELEASE and an ANNOUNCE nothing more. Ours carry numbers besides, so that no bound on
/// delays is needed.
pub(super) fn makki_words(report: &Report) -> Measured {
    let messages = &report.messages_per_entry;
    let of = |kind: &str| messages.by_kind.get(kind).copied().unwrap_or_default();
    let [request, token, release, announce] = ["REQUEST", "TOKEN", "RELEASE", "ANNOUNCE"].map(of);
    let all = request + token + release + announce;
    let ours = report.words_per_message.mean * all;
    // Ours: 6, 8 and 2 for each waiter, 5, 4.
    let waiters = (ours - 6.0 * request - 8.0 * token - 5.0 * release - 4.0 * announce) / 2.0;
    let theirs = 4.0 * request + 4.0 * token + waiters + 3.0 * (release + announce);
    // A word of theirs is at most one of ours, so their mean varies no more than ours.
    (theirs / all, report.words_per_message.ci95)
}

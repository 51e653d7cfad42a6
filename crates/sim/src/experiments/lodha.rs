//! Lodha and Kshemkalyani 2000: the example of section 3.4.1, and section 4.1: messages as a function of concurrency.
//!
//! A request costs N−1 REQUESTs and N−|CSet| REPLYs, where CSet holds it and all requests concurrent with it; and one
//! FLUSH, if one of these comes after it. So x, the mean number of other concurrent requests, is read off the REPLYs:
//! x = N−1 less the REPLYs per entry.

use std::collections::BTreeMap;

use meshlock_protocol::algorithms::lodha_kshemkalyani::LodhaKshemkalyani;
use meshlock_protocol::algorithms::ricart_agrawala::RicartAgrawala;
use meshlock_protocol::world::{Entry, World};
use meshlock_protocol::{Algorithm, Cluster, Described, SiteId};

use super::singhal::of_messages;
use super::{ComparisonRow, Curve, Experiment, Findings, Interval, Job, Plot, Work};
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};

pub(super) const EXAMPLE: Experiment = Experiment {
    id: "lodha-2000-example",
    source: "Lodha and Kshemkalyani 2000, section 3.4.1 and Figure 3",
    about: "three requests that cross: 8 messages, against 12 of Ricart and Agrawala",
    work: Work::Scripted(example),
};

pub(super) const MESSAGES: Experiment = Experiment {
    id: "lodha-2000-messages",
    source: "Lodha and Kshemkalyani 2000, section 4.1",
    about: "messages per entry as a function of concurrency",
    work: Work::Runs { jobs, read },
};

/// N.
const SITES: usize = 10;

/// Requests per unit of time, of all sites.
const LOADS: [f64; 7] = [0.001, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9];

fn jobs() -> Vec<Job> {
    let run = |spec: &str, load, total: f64| {
        let mut settings = Settings::new(Cluster::of(SITES));
        settings.rates = Rates::Same(total / SITES as f64);
        settings.load = load;
        settings.entries = 20_000;
        Job { spec: spec.to_owned(), settings }
    };
    let plain = "lodha-kshemkalyani";
    let mut jobs: Vec<Job> = LOADS.iter().map(|&total| run(plain, Load::Open, total)).collect();
    jobs.push(run(plain, Load::Saturated, 1.0));
    jobs.push(run("lodha-kshemkalyani:keep-deferred", Load::Saturated, 1.0));
    jobs
}

/// Figure 3: all of `sites` request before any receives a message; then everything arrives, and each site that is inside leaves, until
/// nothing is left.
fn crossing<A: Algorithm + Described>(sites: usize) -> World<A> {
    let mut world = World::of(sites);
    for site in SiteId::all(sites) {
        let _ = world.request(site);
    }
    world.settle();
    loop {
        let Some(site) = world.inside().first() else { return world };
        let _ = world.release(site);
        world.settle();
    }
}

/// Figure 3's P1, P2 and P3.
const PROCESSES: usize = 3;

fn example() -> Findings {
    let (fair, plain) = (crossing::<LodhaKshemkalyani>(PROCESSES), crossing::<RicartAgrawala>(PROCESSES));
    let sent = |world: &BTreeMap<&str, u64>, kind: &str| world.get(kind).copied().unwrap_or_default() as f64;
    let exact = |label: &str, quantity: &str, published: f64, measured: f64| {
        ComparisonRow::exact(label, quantity, published, measured)
    };
    let (ours, theirs) = ("lodha-kshemkalyani", "ricart-agrawala");
    let (fewer, more) = (fair.messages() as f64, plain.messages() as f64);
    let saved = 1.0 - fewer / more;
    let in_order = |entries: &[Entry]| entries.iter().map(|entry| entry.site).eq(SiteId::all(PROCESSES));
    let mut rows = vec![
        exact(ours, "messages", 8.0, fewer),
        exact(theirs, "messages: 3·2(N−1)", 12.0, more),
        ComparisonRow::stated(
            "",
            "share saved",
            "33 % (4 of 12)",
            saved,
            (fair.messages(), plain.messages()) == (8, 12),
        ),
        exact(ours, "REQUESTs", 6.0, sent(fair.sent(), "REQUEST")),
        exact(ours, "REPLYs", 0.0, sent(fair.sent(), "REPLY")),
        exact(ours, "FLUSHes", 2.0, sent(fair.sent(), "FLUSH")),
        exact(theirs, "REQUESTs", 6.0, sent(plain.sent(), "REQUEST")),
        exact(theirs, "REPLYs", 6.0, sent(plain.sent(), "REPLY")),
    ];
    for (name, entries) in [(ours, fair.entries()), (theirs, plain.entries())] {
        let served = entries.len() as f64;
        rows.push(ComparisonRow::stated(
            name,
            "entries, in this order",
            "P1, P2, P3",
            served,
            in_order(entries),
        ));
    }
    let note = "The schedule of Figure 3: all three ask before any REQUEST arrives. Both algorithms run through it step by step, \
                and every message they send is counted; nothing is timed or drawn.";
    Findings { rows, plots: Vec::new(), notes: vec![note.to_owned()] }
}

/// Messages of one kind per entry.
fn of_kind(report: &Report, kind: &str) -> f64 {
    report.messages_per_entry.by_kind.get(kind).copied().unwrap_or_default()
}

/// x: the mean number of other requests that are concurrent with a request.
fn concurrent(report: &Report) -> f64 {
    (SITES - 1) as f64 - of_kind(report, "REPLY")
}

fn read(reports: &[Report]) -> Findings {
    let n = SITES as f64;
    let worst = 2.0 * (n - 1.0);
    let mut rows = Vec::new();
    for (total, run) in LOADS.into_iter().zip(reports) {
        let (x, flushes) = (concurrent(run), of_kind(run, "FLUSH"));
        let label = format!("Nλ = {total}, x = {x:.3}");
        let messages = of_messages(run);
        // x and M are of the same messages: what is left over is no chance.
        rows.push(ComparisonRow::exact(label.clone(), "M = 2(N−1)−x", worst - x, messages.0));
        rows.push(ComparisonRow::shown(label.clone(), "FLUSHes", (flushes, None)));
        rows.push(ComparisonRow::derived(
            label.clone(),
            "M = 2(N−1)−x+FLUSHes",
            worst - x + flushes,
            (messages.0, None),
        ));
        rows.push(ComparisonRow::claimed(
            label,
            "M from N−1 to 2(N−1)",
            format!("{} to {worst}", n - 1.0),
            Interval::point(messages.0),
            n - 1.0..=worst,
        ));
    }
    let (serial, crossing) = (&reports[LOADS.len()], &reports[LOADS.len() + 1]);
    let label = "each site asks again as it leaves";
    rows.push(ComparisonRow::compared(label, "M = 2(N−1), all serialised", worst, of_messages(serial)));
    let label = "the same, keep-deferred: all requests cross";
    rows.push(ComparisonRow::compared(label, "M = N", n, of_messages(crossing)));
    rows.push(ComparisonRow::derived(label, "M = N, for the last N−1", n - 1.0 / n, of_messages(crossing)));
    Findings { rows, plots: vec![plot(reports)], notes: NOTES.iter().map(|&note| note.to_owned()).collect() }
}

const NOTES: [&str; 4] = [
    "x is read off the REPLYs, of which section 4.1 counts N−1−x for a request, so that 2(N−1)−x can be off by the \
     FLUSHes only. A check that does not use them: while few requests wait, x is the number of requests that others make \
     within T before or after, 2Tλ(N−1): 0.18 for Nλ = 0.1, 0.54 for 0.3.",
    "The paper's 2(N−1)−x leaves out the FLUSH, and so is too low by the FLUSHes per entry: section 4.1 itself counts \
     2N−|CSet| = 2(N−1)−x+1 messages for a request that a concurrent one follows. Both are counted of the same run, so nothing \
     here is chance: with the FLUSHes nothing is left over.",
    "A site that asks again as it leaves has been answered by all who wait and has answered them: nothing crosses, and \
     heavy load is the worst case.",
    "With `keep-deferred` (section 5) all requests of a round cross: N messages, for the last one N−1. The row of M = N has \
     the mean of both, which is derived in the next row.",
];

fn plot(reports: &[Report]) -> Plot {
    let worst = 2.0 * (SITES - 1) as f64;
    let runs = || LOADS.iter().zip(reports).map(|(_, run)| run);
    let ours = runs().map(|run| {
        let (mean, ci95) = of_messages(run);
        (concurrent(run), mean, ci95.unwrap_or_default())
    });
    let formula = runs().map(|run| (concurrent(run), worst - concurrent(run), 0.0));
    Plot {
        name: "lodha-2000-messages".to_owned(),
        title: "Lodha and Kshemkalyani 2000, section 4.1: messages per entry".to_owned(),
        x: "x, other concurrent requests".to_owned(),
        y: "messages per entry".to_owned(),
        curves: vec![
            Curve { name: "lodha-kshemkalyani".to_owned(), points: ours.collect(), published: false },
            Curve { name: "2(N−1)−x".to_owned(), points: formula.collect(), published: true },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::RowVerdict;

    fn is_right(row: &ComparisonRow) -> bool {
        matches!(row.verdict, RowVerdict::Agrees | RowVerdict::Holds)
    }

    /// Reference: section 3.4.1.
    #[test]
    fn three_requests_that_cross_take_eight_messages_and_twelve_with_ricart_and_agrawala() {
        let rows = example().rows;
        let measured: Vec<f64> = rows.iter().take(2).map(|row| row.measured).collect();
        assert_eq!(measured, [8.0, 12.0]);
        assert!(rows.iter().all(is_right), "{rows:#?}");
    }
}

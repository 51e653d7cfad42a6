//! Kshemkalyani and Singhal, chapter 9, section 9.8.1: what the handling of deadlocks costs Maekawa's algorithm.
//!
//! Delays are exponential, so that requests arrive in another order at each member of a quorum; and the rules against deadlock are the
//! chapter's, with FAILED. Either every site requests again as it leaves, or after a pause of about three delays: then more
//! requests cross. The sizes are those of planes, where every request set has k sites and N = k(k−1) + 1.

use meshlock_protocol::Cluster;

use super::singhal::of_messages;
use super::{ComparisonRow, Experiment, Findings, Job, Work};
use crate::draw::Distribution;
use crate::network::Delay;
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};

pub(super) const DEADLOCKS: Experiment = Experiment {
    id: "chapter-9-maekawa-deadlocks",
    source: "Kshemkalyani and Singhal, chapter 9, section 9.8.1",
    about: "messages per entry of Maekawa's algorithm when many requests conflict",
    work: Work::Runs { jobs, read },
};

const SIZES: [usize; 4] = [7, 13, 31, 57];
const ENTRIES: u64 = 10_000;

/// The loads, and their names in the rows.
const LOADS: [(Load, &str); 2] = [(Load::Saturated, "saturated"), (Load::Closed, "λ = 0.3")];

fn jobs() -> Vec<Job> {
    let job = |sites, load| Job {
        spec: "maekawa:deadlock=fail".to_owned(),
        settings: Settings {
            load,
            rates: Rates::Same(0.3),
            delay: Delay::Same(Distribution::Exponential { mean: 1.0 }),
            entries: ENTRIES,
            ..Settings::new(Cluster::of(sites))
        },
    };
    SIZES.into_iter().flat_map(|sites| LOADS.map(|(load, _)| job(sites, load))).collect()
}

fn read(reports: &[Report]) -> Findings {
    let mut findings = Findings::default();
    for (report, (_, load)) in reports.iter().zip(LOADS.iter().cycle()) {
        let (label, root) = (format!("N = {}, {load}", report.sites), (report.sites as f64).sqrt());
        findings.rows.push(ComparisonRow::claimed(
            &label,
            "messages, mean of all entries",
            format!("5√N = {:.1} at most", 5.0 * root),
            of_messages(report).into(),
            0.0..=5.0 * root,
        ));
        for kind in ["FAILED", "INQUIRE", "YIELD"] {
            let count = report.messages_per_entry.by_kind.get(kind).copied().unwrap_or_default();
            findings.rows.push(ComparisonRow::shown(format!("  {label}"), kind, (count, None)));
        }
    }
    findings.notes = NOTES.iter().map(|&note| note.to_owned()).collect();
    findings
}

const NOTES: [&str; 2] = [
    "The chapter's 5√N is \"the maximum number of messages required per CS execution\". Only the mean is compared: a mean above it \
     refutes it, one below does not prove it.",
    "5√N is one of REQUEST, INQUIRE, YIELD, REPLY and RELEASE for each of √N sites. It counts no FAILED, and nobody says that a \
     site inquires only once: a lock that was given back can be asked back again from the next.",
];

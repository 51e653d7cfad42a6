//! Cao and Singhal 2001, the claim of the abstract: a synchronisation delay of T instead of Maekawa's 2T, and O(K) messages.
//!
//! The quorums are the same: those of planes, where every one has K sites and N = K(K−1) + 1. Delays are exponential with mean T. Either
//! every site requests again as it leaves, or after a pause of about three delays. A third load is so low that requests hardly meet.

use meshlock_protocol::Cluster;

use super::singhal::of_messages;
use super::{ComparisonRow, Experiment, Findings, Job, Measured, Work};
use crate::draw::Distribution;
use crate::network::Delay;
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};

pub(super) const CLAIM: Experiment = Experiment {
    id: "cao-singhal-2001",
    source: "Cao and Singhal 2001, abstract",
    about: "messages and synchronisation delay of Cao and Singhal's algorithm beside Maekawa's",
    work: Work::Runs { jobs, read },
};

/// The sizes of the quorums; N = K(K−1) + 1.
const QUORUMS: [usize; 3] = [3, 4, 6];
const ENTRIES: u64 = 10_000;

/// The loads, with the rate of a site, and their names in the rows.
const LOADS: [(Load, f64, &str); 3] = [
    (Load::Saturated, 0.3, "saturated"),
    (Load::Closed, 0.3, "λ = 0.3"),
    (Load::Closed, 0.000_1, "λ = 0.0001"),
];

/// Maekawa's algorithm with refusals, as Cao and Singhal's has them; theirs; and theirs without refusals, which is ours.
const SPECS: [&str; 3] = ["maekawa:deadlock=fail", "cao-singhal", "cao-singhal:deadlock=yield"];

fn jobs() -> Vec<Job> {
    let job = |quorum: usize, (load, rate, _): (Load, f64, &str), spec: &str| Job {
        spec: spec.to_owned(),
        settings: Settings {
            load,
            rates: Rates::Same(rate),
            delay: Delay::Same(Distribution::Exponential { mean: 1.0 }),
            entries: ENTRIES,
            ..Settings::new(Cluster::of(quorum * (quorum - 1) + 1))
        },
    };
    let of_size = |quorum| LOADS.into_iter().flat_map(move |load| SPECS.map(|spec| job(quorum, load, spec)));
    QUORUMS.into_iter().flat_map(of_size).collect()
}

fn read(reports: &[Report]) -> Findings {
    let mut findings = Findings::default();
    let cases = QUORUMS.into_iter().flat_map(|quorum| LOADS.map(|(_, rate, load)| (quorum, rate, load)));
    for ((quorum, rate, load), runs) in cases.zip(reports.chunks(SPECS.len())) {
        let [maekawa, theirs, without] = runs else { continue };
        let label = format!("N = {}, K = {quorum}, {load}", theirs.sites);
        let others = (quorum - 1) as f64;
        let range = 3.0 * others..=6.0 * others;
        let published = format!("{} to {}", range.start(), range.end());
        findings.rows.push(ComparisonRow::claimed(
            &label,
            "messages: 3(K−1) to 6(K−1)",
            published,
            of_messages(theirs).into(),
            range,
        ));
        findings.rows.push(ComparisonRow::compared(
            &label,
            "messages, in those of Maekawa's with FAILED: as few",
            1.0,
            ratio(of_messages(theirs), of_messages(maekawa)),
        ));
        findings.rows.push(ComparisonRow::shown(
            format!("  {label}"),
            "the same without FAILED",
            ratio(of_messages(without), of_messages(maekawa)),
        ));
        // At the low load hardly anyone waits while another is inside.
        if rate > 0.01 {
            findings.rows.extend(delays(&label, maekawa, theirs));
        }
    }
    findings.notes = NOTES.iter().map(|&note| note.to_owned()).collect();
    findings
}

/// The rows about the synchronisation delay.
fn delays(label: &str, maekawa: &Report, theirs: &Report) -> [ComparisonRow; 3] {
    let (of_maekawa, of_theirs) = (of_sync_delay(maekawa), of_sync_delay(theirs));
    [
        ComparisonRow::compared(label, "synchronisation delay: T", 1.0, of_theirs),
        ComparisonRow::compared(label, "the same of Maekawa's: 2T", 2.0, of_maekawa),
        ComparisonRow::compared(label, "one in the other: half", 0.5, ratio(of_theirs, of_maekawa)),
    ]
}

fn of_sync_delay(report: &Report) -> Measured {
    (report.sync_delay.mean, report.sync_delay.ci95)
}

/// One mean in another. The runs are independent, so that the squares of the relative errors are added.
fn ratio((above, above_ci): Measured, (below, below_ci): Measured) -> Measured {
    let ratio = above / below;
    let error = |mean: f64, ci: Option<f64>| ci.map(|ci| ci / mean);
    let error = error(above, above_ci).zip(error(below, below_ci));
    (ratio, error.map(|(above, below)| ratio * above.hypot(below)))
}

const NOTES: [&str; 5] = [
    "We have the papers' abstracts, not their texts: T, 2T and O(K) are said there; 3(K−1) to 6(K−1), and \"as few messages as Maekawa's\", \
     are what is generally said of the algorithm.",
    "Messages under load: a request costs a REQUEST, a FAILED, a REPLY and a RELEASE for each other member, as Maekawa's with FAILED does, \
     and a TRANSFER: 5(K−1) − 1 with constant delays. So it is not as few, but a quarter more. Without FAILED it is 4(K−1) − 1.",
    "Delay: Maekawa's is 2T if a third site is the arbiter. If the site that leaves, or the next one, is in both quorums, it is T.",
    "With random delays a site enters after the last of several REPLYs, which takes longer than T on average; and a permission whose \
     TRANSFER has not arrived in time takes Maekawa's way. So the delay is well below Maekawa's, but not half.",
    "λ = 0.0001: what is in flight at the ends of a run is counted in part, so that the mean can be a little below 3(K−1).",
];

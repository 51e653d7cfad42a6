//! Kshemkalyani and Singhal, chapter 9, exercise 9.6: what Lamport's algorithm has for its 3(N−1) messages that one site which
//! grants for 3 has not.
//!
//! Every site requests again as it leaves; messages take from half a unit to one and a half, so that they overtake each other
//! on different channels. What the exercise asks for is a discussion; the rows measure what can be measured of it.

use meshlock_protocol::Cluster;

use super::{ComparisonRow, Experiment, Findings, Job, Work};
use crate::draw::Distribution;
use crate::network::Delay;
use crate::report::Report;
use crate::settings::{Load, Settings};
use crate::time::Time;

pub(super) const NINE_6: Experiment = Experiment {
    id: "chapter-9-exercise-9-6",
    source: "Kshemkalyani and Singhal, chapter 9, exercise 9.6",
    about: "what Lamport's algorithm has for its 3(N−1) messages that a centralized one has not",
    work: Work::Runs { jobs, read },
};

const SIZES: [usize; 3] = [5, 10, 25];
const ENTRIES: u64 = 5_000;

fn jobs() -> Vec<Job> {
    let delay = Distribution::Uniform { least: Time::units(0.5), most: Time::units(1.5) };
    let job = |spec: &str, sites| Job {
        spec: spec.to_owned(),
        settings: Settings {
            load: Load::Saturated,
            delay: Delay::Same(delay),
            entries: ENTRIES,
            ..Settings::new(Cluster::of(sites))
        },
    };
    SIZES.into_iter().flat_map(|sites| ["central", "lamport"].map(|spec| job(spec, sites))).collect()
}

/// The share of all sending and receiving that the busiest site does.
fn busiest(report: &Report) -> f64 {
    let load = &report.site_load;
    let by_site = load.sent.iter().zip(&load.received).map(|(sent, received)| sent + received);
    let (most, all) = by_site.fold((0.0_f64, 0.0), |(most, all), one| (most.max(one), all + one));
    most / all
}

fn read(reports: &[Report]) -> Findings {
    let mut findings = Findings::default();
    for report in reports {
        let (label, sites) = (format!("{}, N = {}", report.algorithm, report.sites), report.sites as f64);
        let is_central = report.algorithm == "central";
        let messages = (report.messages_per_entry.mean, report.messages_per_entry.ci95);
        // The site that grants asks itself for nothing.
        let (costs, share) =
            if is_central { (3.0 * (sites - 1.0) / sites, 0.5) } else { (3.0 * (sites - 1.0), 1.0 / sites) };
        let overtakes = report.fairness.overtakes.unwrap_or(0) as f64;
        findings.rows.extend([
            ComparisonRow::derived(&label, "messages per entry", costs, messages),
            ComparisonRow::shown(
                &label,
                "from an exit to the next entry, T = 1",
                (report.sync_delay.mean, report.sync_delay.ci95),
            ),
            ComparisonRow::beside(
                &label,
                "share of the messages that the busiest site handles",
                share,
                (busiest(report), None),
            ),
            ComparisonRow::stated(
                &label,
                "entries that overtake an earlier timestamp",
                if is_central { "some" } else { "none" },
                overtakes,
                (overtakes > 0.0) == is_central,
            )
            .claimed_by_us(),
        ]);
    }
    findings.notes = vec![
        "The exercise asks what prompted Lamport's algorithm although it takes 3(N−1) messages and a central site 3. The rows show what the \
         messages buy: requests are served in the order of their timestamps, which respects what happened before what, while a central \
         site serves them as they arrive; no site handles more than its share of the messages, while the central one has a part in \
         each; and the next site enters one delay after an exit, not two."
            .to_owned(),
        "Not measured here: no site has to be chosen or replaced. But if any site fails Lamport's algorithm stops, and the central one only \
         if that one does: the 3(N−1) messages do not buy tolerance of failures."
            .to_owned(),
    ];
    findings
}

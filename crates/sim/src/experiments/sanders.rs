//! Sanders 1987, section 6: bounds on the messages per entry, and the synchronisation delay, of Figures 1a, 1b, 1c and 2.
//!
//! Both are functions of the information structure (see `information/metrics.rs` of the protocol, where two slips of the
//! print are repaired). Here they are compared with runs of the algorithm, site by site and pair by pair, as
//! [`attribution`] counts it.

mod attribution;

use std::collections::BTreeMap;

use meshlock_protocol::information::InformationStructure;
use meshlock_protocol::{Cluster, SiteId, Spec};

use self::attribution::{Attribution, Spread};
use super::{ComparisonRow, Experiment, Findings, Interval, Work};
use crate::draw::Distribution;
use crate::engine::traced;
use crate::network::Delay;
use crate::settings::{Load, Rates, Settings};
use crate::statistics::average;
use crate::time::Time;
use crate::violation::Stopped;

pub(super) const BOUNDS: Experiment = Experiment {
    id: "sanders-1987-bounds",
    source: "Sanders 1987, section 6",
    about: "bounds on messages per entry, and synchronisation delay, of the structures of Figures 1a, 1b, 1c and 2",
    work: Work::Followed(bounds),
};

/// A figure: its name, its structure, and how it is run.
type Figure = (&'static str, fn() -> InformationStructure, &'static str);

const FIGURES: [Figure; 4] = [
    ("Figure 1a", InformationStructure::figure_1a, "sanders:structure=figure-1a"),
    ("Figure 1b", InformationStructure::figure_1b, "sanders:structure=figure-1b"),
    ("Figure 1c", InformationStructure::figure_1c, "sanders:structure=figure-1c"),
    ("Figure 2", InformationStructure::figure_2, "sanders:structure=figure-2"),
];

/// All of them have four sites.
const SITES: usize = 4;

/// The time inside, in T: so long that a site that waits has received all messages before the exit.
const LONG: f64 = 20.0;

/// No other site requests: on average a million T lie between two requests of a site.
fn alone() -> Settings {
    let mut settings = Settings::new(Cluster::of(SITES));
    settings.rates = Rates::Same(1e-6);
    settings.entries = 2_000;
    settings
}

/// Requests overlap now and then; sites 0 and 1 request twenty times as often as the others.
fn light() -> Settings {
    let mut settings = alone();
    settings.rates = Rates::Each(vec![0.02, 0.02, 0.001, 0.001]);
    settings.entries = 50_000;
    settings
}

/// Every site always requests, and message delays differ so much that requests arrive in any order.
fn saturated() -> Settings {
    let mut settings = alone();
    settings.load = Load::Saturated;
    settings.delay = Delay::Same(Distribution::Exponential { mean: 1.0 });
    settings.inside = Distribution::Exponential { mean: 1.0 };
    settings.entries = 200_000;
    settings
}

/// Sites request again after a pause about as long as a message takes: then most requests cross.
fn crossing() -> Settings {
    let mut settings = saturated();
    settings.load = Load::Closed;
    settings.rates = Rates::Same(0.3);
    settings.inside = Distribution::Exponential { mean: 0.1 };
    settings
}

/// Sites wait while one is inside for long, and every pair follows each other at times.
fn patient() -> Settings {
    let mut settings = alone();
    settings.load = Load::Closed;
    settings.rates = Rates::Same(0.02);
    settings.inside = Distribution::Constant(Time::units(LONG));
    settings.entries = 20_000;
    settings
}

/// The runs of one figure.
struct FigureRuns {
    alone: Attribution,
    light: Attribution,
    saturated: Attribution,
    crossing: Attribution,
    patient: Attribution,
}

impl FigureRuns {
    fn of(spec: &str) -> Result<Self, Stopped> {
        let spec: Spec = spec.parse().expect("a spec that this file writes");
        let follow = |settings: Settings| follow(&spec, &settings);
        Ok(FigureRuns {
            alone: follow(alone())?,
            light: follow(light())?,
            saturated: follow(saturated())?,
            crossing: follow(crossing())?,
            patient: follow(patient())?,
        })
    }

    /// The messages of the requests of these sites, under all loads.
    fn messages(&self, sites: &[SiteId]) -> Spread {
        let all = [&self.alone, &self.light, &self.saturated, &self.crossing, &self.patient];
        Spread::of(all.into_iter().flat_map(|run| run.messages(sites)))
    }
}

fn follow(spec: &Spec, settings: &Settings) -> Result<Attribution, Stopped> {
    let mut attribution = Attribution::new(SITES);
    traced(spec, settings, &mut attribution)?;
    Ok(attribution)
}

fn bounds() -> Result<Findings, Stopped> {
    let mut rows = Vec::new();
    for (name, structure, spec) in FIGURES {
        let (structure, runs) = (structure(), FigureRuns::of(spec)?);
        for sites in alike(&structure) {
            rows.extend(message_rows(name, &structure, &sites, &runs));
        }
        rows.extend(delay_rows(name, &structure, &runs.patient));
    }
    Ok(Findings { rows, plots: Vec::new(), notes: NOTES.iter().map(|&note| note.to_owned()).collect() })
}

/// The sites, those with the same bounds together.
fn alike(structure: &InformationStructure) -> Vec<Vec<SiteId>> {
    let mut groups: BTreeMap<(usize, usize), Vec<SiteId>> = BTreeMap::new();
    for i in structure.all() {
        groups.entry((structure.min_messages(i), structure.max_messages(i))).or_default().push(i);
    }
    groups.into_values().collect()
}

fn message_rows(
    name: &str,
    structure: &InformationStructure,
    sites: &[SiteId],
    runs: &FigureRuns,
) -> Vec<ComparisonRow> {
    let (least, most) = (structure.min_messages(sites[0]), structure.max_messages(sites[0]));
    let ids: Vec<String> = sites.iter().map(|site| site.index().to_string()).collect();
    let label = format!("{name}, site {}", ids.join(", "));
    let all = runs.messages(sites);
    let of = |run: &Attribution| Spread::of(run.messages(sites));
    let exact = |quantity: &str, formula: usize, measured: f64| {
        ComparisonRow::exact(label.clone(), quantity, formula as f64, measured)
    };
    let alone = of(&runs.alone);
    let mut rows = vec![
        exact("NM, least of all runs: |I−i|+2|R−i|", least, all.least),
        exact("NM alone, mean", least, alone.mean),
        exact("NM alone, most", least, alone.most),
        ComparisonRow::beside(label.clone(), "NM light, mean", least as f64, (of(&runs.light).mean, None)),
        ComparisonRow::shown(label.clone(), "NM saturated, mean", (of(&runs.saturated).mean, None)),
        ComparisonRow::shown(label.clone(), "NM crossing, mean", (of(&runs.crossing).mean, None)),
    ];
    rows.push(ComparisonRow::claimed(
        label.clone(),
        "NM, most of all runs",
        format!("at most {most}"),
        Interval::point(all.most),
        0.0..=most as f64,
    ));
    if structure.cannot_deadlock() {
        rows.push(exact("NM, most of all runs, without deadlock recovery", least, all.most));
    }
    rows
}

fn delay_rows(name: &str, structure: &InformationStructure, patient: &Attribution) -> Vec<ComparisonRow> {
    let pairs = || structure.all().flat_map(|i| structure.all().map(move |j| (i, j))).filter(|(i, j)| i != j);
    // Pairs with the same D_ij, by the paper's formula and by ours.
    let mut groups: BTreeMap<(usize, usize), Vec<(SiteId, SiteId)>> = BTreeMap::new();
    for (i, j) in pairs() {
        groups.entry((structure.delay(i, j), structure.hand_over(i, j))).or_default().push((i, j));
    }
    let mut rows = Vec::new();
    for ((published, derived), these) in groups {
        let label = format!("{name}, {} pairs i, j", these.len());
        let spread = Spread::of(these.iter().flat_map(|&pair| patient.delays(pair)));
        rows.push(ComparisonRow::exact(label.clone(), "D_ij, most", published as f64, spread.most));
        if derived != published {
            let most = (spread.most, None);
            rows.push(ComparisonRow::derived(
                label.clone(),
                "D_ij, most: by R_i ∩ I_j",
                derived as f64,
                most,
            ));
        }
        rows.push(ComparisonRow::shown(label.clone(), "D_ij, mean", (spread.mean, None)));
        rows.push(ComparisonRow::shown(label.clone(), "D_ij, least", (spread.least, None)));
    }
    // As the formula has it: the most of each pair, and every pair weighs the same, however often it occurred.
    let most: Vec<f64> = pairs().map(|pair| Spread::of(patient.delays(pair)).most).collect();
    let mean = average(&most);
    rows.push(ComparisonRow::exact(name, "D, mean of the most of all pairs", structure.mean_delay(), mean));
    let derived: Vec<f64> = pairs().map(|(i, j)| structure.hand_over(i, j) as f64).collect();
    if derived != pairs().map(|(i, j)| structure.delay(i, j) as f64).collect::<Vec<f64>>() {
        rows.push(ComparisonRow::derived(name, "D, the same: by R_i ∩ I_j", average(&derived), (mean, None)));
    }
    rows
}

const NOTES: [&str; 7] = [
    "NM: each message is booked to one request, as section 6.1 does it: REQUEST, FAIL, RELEASE and the first GRANT of a site \
     to the request they are about; INQUIRE, YIELD and the new GRANT to the request that made the site inquire.",
    "Loads: alone (λ = 10⁻⁶), light (λ = 0.02 for sites 0 and 1, 0.001 for the others), saturated with exponential delays and \
     stays of mean T, crossing (closed, λ = 0.3, exponential delays, stays of mean 0.1), and the long stays of the delays. The \
     least and the most are over all of them.",
    "The upper bound is the paper's sum without the FAIL of a site to itself, since messages to oneself are not counted; only \
     so is DM = N−1 for Figure 1b, as the paper says. It is a bound, which need not be reached.",
    "Light load: \"will tend toward the lower bound\", and NM_0 = NM_1 = 2 in Figure 2, are limits. They are compared where no \
     other site requests, exactly; the means at light load are shown beside them.",
    "Figures 1a and 1b cannot deadlock and run without FAIL, INQUIRE and YIELD, as section 5 suggests: the lower bound always.",
    "D: from an exit to the next entry, T = 1, if that site was waiting and nothing was on its way at the exit. The print has \
     D_ij = 2 wherever inform sets meet; it is 2 only if a third site is in both, else the paper's own D for Figure 1a does \
     not come out.",
    "Figure 2: the paper has D_0j = D_1j = 1 for j = 2 and 3, since only 0 itself is in both inform sets. But 2 and 3 inform 1 as \
     well, whom 0 asks. If 0's REQUEST reached 1 after 1 had granted 2, 1 answers when 2's RELEASE has come: two messages. What \
     counts is a third site in R_i ∩ I_j, not in I_i ∩ I_j; where R = I, as in Figures 1a and 1c, it is the same.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    fn run(spec: &str, settings: &Settings) -> (Attribution, Report) {
        let spec: Spec = spec.parse().expect("a registered name");
        let mut attribution = Attribution::new(SITES);
        let report = traced(&spec, settings, &mut attribution).expect("a run without violations");
        (attribution, report)
    }

    /// The whole of a run is counted, including what is sent until all are served.
    #[test]
    fn every_message_is_attributed_once_and_every_request_stays_within_the_bounds() {
        for (name, structure, spec) in FIGURES {
            let structure = structure();
            let mut settings = crossing();
            settings.entries = 3_000;
            settings.warm_up = crate::settings::WarmUp::Keep;
            let (attribution, report) = run(spec, &settings);
            let attributed: f64 =
                structure.all().flat_map(|site| attribution.messages(&[site]).collect::<Vec<_>>()).sum();
            // The report ends with the load; a few entries and their messages can come after it. It gives the mean, of
            // which the whole number of messages is that many times, but for the rounding of the division.
            let counted = (report.messages_per_entry.mean * report.entries as f64).round();
            assert!(
                attributed >= counted && attributed <= counted + 100.0,
                "{name}: {attributed} attributed, {counted} counted"
            );
            for site in structure.all() {
                let spread = Spread::of(attribution.messages(&[site]));
                assert!(spread.least >= structure.min_messages(site) as f64, "{name}, {site}: {spread:?}");
                assert!(spread.most <= structure.max_messages(site) as f64, "{name}, {site}: {spread:?}");
            }
        }
    }

    #[test]
    fn a_hand_over_takes_as_many_messages_as_the_structure_says() {
        for (name, structure, spec) in FIGURES {
            let structure = structure();
            let mut settings = patient();
            settings.entries = 3_000;
            let (attribution, _) = run(spec, &settings);
            for (i, j) in
                structure.all().flat_map(|i| structure.all().map(move |j| (i, j))).filter(|(i, j)| i != j)
            {
                let most = Spread::of(attribution.delays((i, j))).most;
                assert!(
                    (most - structure.hand_over(i, j) as f64).abs() < 1e-6,
                    "{name}, {i} after {j}: {most}"
                );
            }
        }
    }
}

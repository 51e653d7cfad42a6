//! Kshemkalyani and Singhal, chapter 9: what the chapter says that each of its algorithms costs, and exercise 9.1.
//!
//! The model: T = 1, E = 0.0002, so that an exit follows its entry at once. At low load requests arrive as a Poisson
//! stream of so low a rate that there is seldom more than one at a time; at heavy load every site requests again as it leaves.
//! Figures that the chapter gives are compared with it. Where it only gives the rule that a figure follows from (the
//! size of a quorum, the distance in a tree, a token that the requester may have already), the figure is worked out
//! here, and the row says so.

use meshlock_protocol::{Cluster, SiteSet, quorum::QuorumSystem};

use super::singhal::of_messages;
use super::{ComparisonRow, Experiment, Findings, Interval, Job, Measured, Work};
use crate::draw::Distribution;
use crate::report::Report;
use crate::settings::{Load, Rates, Settings};
use crate::time::Time;

pub(super) const MESSAGES: Experiment = Experiment {
    id: "chapter-9-messages",
    source: "Kshemkalyani and Singhal, chapter 9, the paragraphs on performance",
    about: "messages per entry of the chapter's algorithms, at low and heavy load",
    work: Work::Runs { jobs: both_loads, read: read_messages },
};

pub(super) const DELAYS: Experiment = Experiment {
    id: "chapter-9-delays",
    source: "Kshemkalyani and Singhal, chapter 9, the paragraphs on performance",
    about: "synchronisation delay at heavy load, response time at low load",
    work: Work::Runs { jobs: both_loads, read: read_delays },
};

pub(super) const RING: Experiment = Experiment {
    id: "chapter-9-exercise-9-1",
    source: "Kshemkalyani and Singhal, chapter 9, exercise 9.1",
    about: "response time of a token that circulates on a ring, at low and heavy load",
    work: Work::Runs { jobs: ring_jobs, read: read_ring },
};

/// N of the runs.
const SIZES: [usize; 3] = [5, 10, 25];

/// Entries of each run.
const ENTRIES: u64 = 20_000;

/// The time that a process stays inside, except on the ring: as in Singhal 1989.
const INSIDE: f64 = 0.0002;

/// Requests of all sites per unit of time at low load: in most runs no two of them meet.
const LOW: f64 = 0.000_005;

/// The expected value, as a function of N.
#[derive(Clone, Copy)]
enum Claim {
    /// The chapter gives the value.
    Is(&'static str, fn(usize) -> f64),
    /// The chapter gives the rule that the value follows from.
    Derived(&'static str, fn(usize) -> f64),
    /// The chapter gives bounds.
    Within(&'static str, fn(usize) -> (f64, f64)),
    /// The chapter gives nothing.
    Nothing,
}

/// An algorithm and what the chapter says of it.
struct Subject {
    spec: &'static str,
    /// Messages per entry at low load.
    low: Claim,
    /// Messages per entry at heavy load.
    heavy: Claim,
    /// From an exit to the next entry at heavy load.
    sync: Claim,
    /// From the request to the exit at low load.
    response: Claim,
}

const T: Claim = Claim::Is("T", |_| 1.0);
const TWO_T: Claim = Claim::Is("2T", |_| 2.0);
const ROUND_TRIP: Claim = Claim::Is("2T+E", |_| 2.0 + INSIDE);
const ROUND_TRIP_OR_NONE: Claim =
    Claim::Derived("2T(1−1/N)+E", |sites| 2.0 * others(sites) / sites as f64 + INSIDE);
const TWICE: Claim = Claim::Is("2(N−1)", |sites| 2.0 * others(sites));
const THRICE: Claim = Claim::Is("3(N−1)", |sites| 3.0 * others(sites));
const RAYMOND_HEAVY: Claim = Claim::Is("4(N−1)/N", |sites| 4.0 * others(sites) / sites as f64);

const SUBJECTS: [Subject; 11] = [
    Subject { spec: "lamport", low: THRICE, heavy: THRICE, sync: T, response: ROUND_TRIP },
    Subject {
        spec: "lamport:omit-replies",
        low: Claim::Within("2(N−1) to 3(N−1)", |sites| (2.0 * others(sites), 3.0 * others(sites))),
        heavy: Claim::Within("2(N−1) to 3(N−1)", |sites| (2.0 * others(sites), 3.0 * others(sites))),
        sync: T,
        response: ROUND_TRIP,
    },
    Subject { spec: "ricart-agrawala", low: TWICE, heavy: TWICE, sync: T, response: ROUND_TRIP },
    Subject {
        spec: "singhal-dynamic",
        low: Claim::Is("N−1", others),
        heavy: Claim::Is("3(N−1)/2", |sites| 1.5 * others(sites)),
        sync: T,
        response: ROUND_TRIP_OR_NONE,
    },
    Subject {
        spec: "lodha-kshemkalyani",
        low: TWICE,
        heavy: Claim::Within("N−1 to 2(N−1)", |sites| (others(sites), 2.0 * others(sites))),
        sync: Claim::Nothing,
        response: ROUND_TRIP,
    },
    Subject {
        spec: "maekawa",
        low: Claim::Derived("3(k−1), k = |R|", |sites| 3.0 * (request_set(sites) - 1.0)),
        heavy: Claim::Derived("3(k−1), k = |R|", |sites| 3.0 * (request_set(sites) - 1.0)),
        sync: TWO_T,
        response: ROUND_TRIP,
    },
    Subject {
        spec: "maekawa:quorums=grid",
        low: Claim::Derived("3(k−1), k = |R|", |sites| 3.0 * (cross(sites) - 1.0)),
        heavy: Claim::Derived("3(k−1), k = |R|", |sites| 3.0 * (cross(sites) - 1.0)),
        sync: TWO_T,
        response: ROUND_TRIP,
    },
    Subject {
        spec: "tree-quorum",
        low: Claim::Within("3(k−1), k on a path", path),
        heavy: Claim::Within("3(k−1), k on a path", path),
        sync: Claim::Nothing,
        response: ROUND_TRIP,
    },
    Subject {
        spec: "suzuki-kasami",
        low: Claim::Derived("N(1−1/N)", others),
        heavy: Claim::Is("N", |sites| sites as f64),
        sync: T,
        response: ROUND_TRIP_OR_NONE,
    },
    Subject {
        spec: "raymond",
        low: Claim::Derived("2d, d = mean distance", |sites| 2.0 * distance(sites)),
        heavy: RAYMOND_HEAVY,
        sync: Claim::Nothing,
        response: Claim::Derived("2dT+E, d = mean distance", |sites| 2.0 * distance(sites) + INSIDE),
    },
    Subject {
        spec: "raymond:tree=line",
        low: Claim::Is("2N/3", |sites| 2.0 * sites as f64 / 3.0),
        heavy: RAYMOND_HEAVY,
        sync: Claim::Nothing,
        response: Claim::Nothing,
    },
];

/// N−1.
fn others(sites: usize) -> f64 {
    (sites - 1) as f64
}

/// The mean size of the request sets that Maekawa's algorithm has by default.
fn request_set(sites: usize) -> f64 {
    mean_size(&QuorumSystem::folded_plane(sites).expect("there are planes for so few sites"))
}

/// The mean size of its request sets in a grid.
fn cross(sites: usize) -> f64 {
    mean_size(&QuorumSystem::grid(sites).expect("there are grids for so few sites"))
}

fn mean_size(sets: &QuorumSystem) -> f64 {
    let sizes = sets.quorums().iter().map(SiteSet::len);
    sizes.sum::<usize>() as f64 / sets.sites() as f64
}

/// The least and the most that a path from the root to a leaf costs: 3 for each site but the requester.
fn path(sites: usize) -> (f64, f64) {
    let depth = |site: usize| 3.0 * f64::from((site + 1).ilog2());
    // Leaves are the sites from N/2 on; the first is nowhere lower than the last.
    (depth(sites / 2), depth(sites - 1))
}

/// The mean distance of two sites of the balanced binary tree, which may be the same.
fn distance(sites: usize) -> f64 {
    let between = |mut a: usize, mut b: usize| {
        let mut steps = 0_u32;
        while a != b {
            if a > b {
                a /= 2;
            } else {
                b /= 2;
            }
            steps += 1;
        }
        f64::from(steps)
    };
    let sum: f64 = (1..=sites).flat_map(|a| (1..=sites).map(move |b| between(a, b))).sum();
    sum / (sites * sites) as f64
}

/// A low rate of requests at `sites` sites, `total` of them per unit of time in all.
fn low(sites: usize, total: f64) -> Settings {
    let mut settings = Settings::new(Cluster::of(sites));
    settings.rates = Rates::Same(total / sites as f64);
    settings.inside = Distribution::Constant(Time::units(INSIDE));
    settings.entries = ENTRIES;
    settings
}

/// Every site requests again at once.
fn heavy(sites: usize) -> Settings {
    let mut settings = low(sites, 1.0);
    settings.load = Load::Saturated;
    settings
}

/// For each algorithm and each N a run at low and one at heavy load.
fn both_loads() -> Vec<Job> {
    let runs = |spec: &'static str, sites| {
        [low(sites, LOW), heavy(sites)].map(|settings| Job { spec: spec.to_owned(), settings })
    };
    SUBJECTS
        .iter()
        .flat_map(|subject| SIZES.into_iter().flat_map(move |sites| runs(subject.spec, sites)))
        .collect()
}

impl Claim {
    /// The row of this claim.
    fn row(self, label: String, sites: usize, what: &str, measured: Measured) -> ComparisonRow {
        match self {
            Claim::Is(text, value) => {
                ComparisonRow::compared(label, &format!("{what}: {text}"), value(sites), measured)
            }
            Claim::Derived(text, value) => {
                ComparisonRow::derived(label, &format!("{what}: {text}"), value(sites), measured)
            }
            Claim::Within(text, bounds) => {
                let (least, most) = bounds(sites);
                let published = if least < most { format!("{least} to {most}") } else { format!("{least}") };
                let quantity = format!("{what}: {text}");
                // Every entry is within them, so the mean of the run must be, whatever its interval.
                ComparisonRow::claimed(label, &quantity, published, Interval::point(measured.0), least..=most)
            }
            Claim::Nothing => ComparisonRow::shown(label, what, measured),
        }
    }
}

/// Calls `rows` with each algorithm, N, and its runs at low and at heavy load.
fn each_subject(reports: &[Report], mut rows: impl FnMut(&Subject, usize, &Report, &Report)) {
    let subjects = SUBJECTS.iter().flat_map(|subject| SIZES.map(|sites| (subject, sites)));
    for ((subject, sites), runs) in subjects.zip(reports.chunks(2)) {
        rows(subject, sites, &runs[0], &runs[1]);
    }
}

fn label(subject: &Subject, sites: usize, load: &str) -> String {
    format!("{}, N = {sites}, {load}", subject.spec)
}

fn read_messages(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    each_subject(reports, |subject, sites, quiet, busy| {
        let at = |load| label(subject, sites, load);
        rows.push(subject.low.row(at("low"), sites, "messages", of_messages(quiet)));
        if subject.spec == "maekawa" {
            let printed = Claim::Is("3√N", |sites| 3.0 * (sites as f64).sqrt());
            rows.push(printed.row(at("low"), sites, "messages", of_messages(quiet)));
        }
        rows.push(subject.heavy.row(at("heavy"), sites, "messages", of_messages(busy)));
    });
    Findings { rows, plots: Vec::new(), notes: MESSAGE_NOTES.iter().map(|&note| note.to_owned()).collect() }
}

const MESSAGE_NOTES: [&str; 5] = [
    "singhal-dynamic, heavy: the chapter's 3(N−1)/2 rests on an average over priorities that saturation does not give. \
     Whoever has just left owed a REPLY to everyone, so its next request asks everyone: 2(N−1) with constant delays.",
    "maekawa: the chapter's 3√N takes every request set for √N sites and counts the three messages of a site to itself. \
     Sets of q+1 sites exist only for N = q²+q+1; elsewhere the plane is folded, with k sites on average. A site sends \
     nothing to itself, hence 3(k−1), which the derived rows compare.",
    "tree-quorum: the chapter gives the size of a quorum (a path from the root to a leaf) and the three messages for \
     each other member. Where N is no 2^h−1 the paths have two lengths, hence a range.",
    "suzuki-kasami, singhal-dynamic and raymond, low: the requester is the last that entered in one case of N, and pays \
     nothing. raymond: each edge on the way costs a REQUEST and a PRIVILEGE.",
    "raymond:tree=line: the chapter's 2N/3 is approximate, from a mean distance of (N+1)/3 between two different sites. \
     With the requester that has the privilege it is (N²−1)/(3N): 3.2 messages instead of 3.33 for N = 5, and the \
     difference vanishes with N.",
];

fn of_sync_delay(report: &Report) -> Measured {
    (report.sync_delay.mean, report.sync_delay.ci95)
}

fn of_response(report: &Report) -> Measured {
    (report.response.mean, report.response.ci95)
}

fn read_delays(reports: &[Report]) -> Findings {
    let mut rows = Vec::new();
    each_subject(reports, |subject, sites, quiet, busy| {
        let at = |load| label(subject, sites, load);
        rows.push(subject.sync.row(at("heavy"), sites, "synchronisation delay", of_sync_delay(busy)));
        rows.push(subject.response.row(at("low"), sites, "response time", of_response(quiet)));
    });
    Findings { rows, plots: Vec::new(), notes: DELAY_NOTES.iter().map(|&note| note.to_owned()).collect() }
}

const DELAY_NOTES: [&str; 5] = [
    "maekawa, heavy: 2T are a RELEASE to a member of both sets and its REPLY to the next site. One of the two is not \
     sent if that member is the site that leaves or the next one. Sites that always wait are served in the order of \
     their ids, and the sets of the plane are translates of a difference set that has 0 and 1: those of i and i+1 share \
     i+1 alone, hence T. (For N = 25 the folds make 3 of the 25 pairs share another site: 1.12T.) In a grid neighbours \
     share a third site, hence 2T; but for N = 5, where the order settles at 0 4 1 2 3 and two pairs of it do not.",
    "tree-quorum, heavy: the chapter gives no figure. The root is in all quorums, so that 2T becomes T where the root \
     leaves or enters.",
    "raymond, heavy: the chapter gives no figure. The privilege crosses each of N−1 edges twice in a round of N entries: \
     2(N−1)/N.",
    "2T+E is the chapter's best value for most algorithms (section 9.2). Where the requester may have the token already, \
     or need not ask, in one case of N, it is 2T(1−1/N)+E.",
    "E = 0.0002. Until the first request reaches it, after T, a site that has the token or need not ask enters T/E times \
     without delay: a quarter of such a run, and it is cut off as warm-up. With E = 0.01 every verdict is the same.",
];

/// The time that a process stays inside on the ring: long enough to be visible in the response time.
const RING_INSIDE: f64 = 0.1;

fn ring_jobs() -> Vec<Job> {
    let run = |mut settings: Settings| {
        settings.inside = Distribution::Constant(Time::units(RING_INSIDE));
        Job { spec: "token-ring:idle=circulate".to_owned(), settings }
    };
    SIZES.into_iter().flat_map(|sites| [run(low(sites, 0.005)), run(heavy(sites))]).collect()
}

fn read_ring(reports: &[Report]) -> Findings {
    let quiet = Claim::Derived("NT/2+E", |sites| sites as f64 / 2.0 + RING_INSIDE);
    let busy = Claim::Derived("N(T+E)", |sites| sites as f64 * (1.0 + RING_INSIDE));
    let mut rows = Vec::new();
    for (sites, runs) in SIZES.into_iter().zip(reports.chunks(2)) {
        let at = |load: &str| format!("N = {sites}, {load} load");
        rows.push(quiet.row(at("low"), sites, "response time", of_response(&runs[0])));
        rows.push(busy.row(at("heavy"), sites, "response time", of_response(&runs[1])));
    }
    let note = "The exercise asks for both response times and the chapter prints no answer: the formulas are ours. At low \
                load the token is anywhere on its way round, so it comes after 0 to NT, NT/2 on average. At heavy load \
                a site that leaves waits for a whole round in which all others enter. E = 0.1 here, to be seen.";
    Findings { rows, plots: Vec::new(), notes: vec![note.to_owned()] }
}

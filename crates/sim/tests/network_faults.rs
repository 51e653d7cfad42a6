//! Failures of links, partitions, and failures of sites, all with repair, at given times and at random rates. Every run asserts that
//! all requests were served.

use std::collections::{BTreeMap, VecDeque};

use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::{Cluster, SiteId, Spec};
use meshlock_sim::draw::Distribution;
use meshlock_sim::faults::{DrawnFaults, DrawnOutages, FaultEvent, FaultPlan, Link};
use meshlock_sim::network::Delay;
use meshlock_sim::settings::{Load, Rates};
use meshlock_sim::trace::{Trace, TraceKind, TracedEvent};
use meshlock_sim::violation::Stopped;
use meshlock_sim::{Report, Settings, Time, measure, traced};

fn spec(spec: &str) -> Spec {
    spec.parse().expect("a registered name")
}

fn served(name: &str, settings: &Settings) -> Report {
    measure(&spec(name), settings).unwrap_or_else(|stopped| panic!("{name}: {stopped}"))
}

fn served_and_traced(name: &str, settings: &Settings, trace: &mut dyn Trace) {
    traced(&spec(name), settings, trace).unwrap_or_else(|stopped| panic!("{name}: {stopped}"));
}

fn settings(sites: usize, load: Load, rate: f64, entries: u64) -> Settings {
    Settings { load, rates: Rates::Same(rate), entries, ..Settings::new(Cluster::of(sites)) }
}

fn site(number: usize) -> SiteId {
    SiteId::new(number)
}

fn link(one: usize, other: usize) -> Link {
    Link::between(site(one), site(other)).expect("two different sites")
}

/// A rate at which several links are cut at once.
fn frequent_cuts() -> FaultPlan {
    let cuts = DrawnOutages { mean_time_between: 5.0, mean_time_to_repair: 10.0 };
    FaultPlan { cuts: Some(cuts), ..FaultPlan::default() }
}

/// Records every message from its sending to its arrival.
#[derive(Default)]
struct Channels {
    /// Messages on their way between two sites: when each was sent, and its text.
    under_way: BTreeMap<(SiteId, SiteId), VecDeque<(Time, String)>>,
    arrivals: Vec<Time>,
    longest: Time,
}

impl Trace for Channels {
    fn line(&mut self, line: TracedEvent<'_>) {
        let TracedEvent { time, kind, site, .. } = line;
        let (Some(peer), Some(message)) = (line.peer, line.message) else { return };
        let text = format!("{message:?}");
        if kind == TraceKind::Send {
            self.under_way.entry((site, peer)).or_default().push_back((time, text));
            return;
        }
        let next = self.under_way.get_mut(&(peer, site)).and_then(VecDeque::pop_front);
        let (sent, said) = next.expect("nothing arrives that was not sent");
        assert_eq!(text, said, "from {peer} to {site}, in the order of sending");
        self.longest = self.longest.max(time - sent);
        self.arrivals.push(time);
    }
}

#[test]
fn every_algorithm_survives_links_that_are_cut_and_repaired() {
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        let parsed: Spec = spec.parse().expect("a registered name");
        for (load, seed) in [(Load::Open, 1), (Load::Closed, 2), (Load::Saturated, 3)] {
            let mut cut = settings(7, load, 0.1, 300);
            cut.delay = Delay::Same(Distribution::Uniform { least: Time::ZERO, most: Time::units(2.0) });
            // Processes stay inside so long that a run lasts for many cuts, even if the last site enters again without messages.
            cut.inside = Distribution::Exponential { mean: 1.0 };
            (cut.faults, cut.seed) = (frequent_cuts(), seed);
            if parsed.info.permits != Permits::One {
                cut.cluster.permits = 2;
            }
            let mut channels = Channels::default();
            served_and_traced(spec, &cut, &mut channels);
            // Of hundreds of messages at least one must have waited for a cut link.
            assert!(channels.longest > Time::units(2.0), "{spec}, {load:?}: {:?}", channels.longest);
        }
    }
}

#[test]
fn a_message_over_a_cut_link_arrives_when_the_link_is_repaired() {
    let mut cut = settings(2, Load::Saturated, 1.0, 3);
    let at = |time, fault| (Time::units(time), fault);
    cut.faults.at = vec![at(0.0, FaultEvent::Cut(link(1, 0))), at(50.0, FaultEvent::Mend(link(0, 1)))];
    let mut channels = Channels::default();
    served_and_traced("ricart-agrawala", &cut, &mut channels);
    assert_eq!(channels.arrivals.first(), Some(&Time::units(51.0)));
    assert_eq!(channels.longest, Time::units(51.0));
}

#[test]
fn a_link_that_is_never_repaired_is_rejected() {
    let mut cut = settings(3, Load::Closed, 0.2, 100);
    cut.faults.at = vec![
        (Time::units(5.0), FaultEvent::Cut(link(0, 2))),
        (Time::units(4.0), FaultEvent::Mend(link(0, 2))),
        (Time::units(9.0), FaultEvent::Mend(link(0, 1))),
    ];
    let refused = measure(&spec("central"), &cut);
    assert_eq!(refused, Err(Stopped::NeverMended { link: link(2, 0) }));
    assert_eq!(Link::between(site(1), site(1)), None);
}

#[test]
fn algorithms_that_handle_failures_survive_them_while_links_are_cut() {
    for info in ALL.iter().filter(|info| info.failures.recovery) {
        for seed in 1..=5 {
            let mut failing = settings(5, Load::Closed, 0.2, 1_000);
            let drawn = DrawnFaults { mean_time_to_failure: 500.0, mean_time_to_recovery: 20.0 };
            failing.faults = FaultPlan { detection: Time::units(3.0), drawn: Some(drawn), ..frequent_cuts() };
            failing.seed = seed;
            served(info.name, &failing);
        }
    }
}

#[test]
fn algorithms_survive_random_partitions_or_reject_them() {
    let mut split = settings(5, Load::Closed, 0.2, 2_000);
    split.faults.splits = Some(DrawnOutages { mean_time_between: 60.0, mean_time_to_repair: 30.0 });
    for info in ALL {
        if !info.failures.partition {
            let refused = measure(&spec(info.name), &split);
            assert_eq!(refused, Err(Stopped::CannotFail { algorithm: info.name }));
            continue;
        }
        for seed in 1..=10 {
            split.seed = seed;
            let report = served(info.name, &split);
            // Every site is on either side of a partition with the same probability.
            assert!(report.fairness.jain > 0.9, "{}: {:?}", info.name, report.fairness);
        }
    }
}

/// Counts the requests of each site.
struct Requests(Vec<u32>, Time);

impl Trace for Requests {
    fn line(&mut self, line: TracedEvent<'_>) {
        self.1 = line.time;
        if line.kind == TraceKind::Request {
            self.0[line.site.index()] += 1;
        }
    }
}

#[test]
fn requests_arrive_at_the_same_rate_after_every_recovery() {
    // 50,000 units of time; site 0 is down for the last tenth of each 1,000.
    let (rate, period, down) = (0.02, 1_000.0, 100.0);
    let mut failing = settings(5, Load::Open, rate, 5_000);
    for round in 1..=60 {
        let end = period * f64::from(round);
        failing.faults.at.push((Time::units(end - down), FaultEvent::Fail(site(0))));
        failing.faults.at.push((Time::units(end), FaultEvent::Recover(site(0))));
    }
    for info in ALL.iter().filter(|info| info.failures.recovery) {
        let mut requests = Requests(vec![0; 5], Time::ZERO);
        served_and_traced(info.name, &failing, &mut requests);
        let time = requests.1.as_units();
        assert!(time < 60.0 * period, "{}: all of the run has failures in it: {time}", info.name);
        // The standard deviation of a Poisson process is the square root of the number, here about 3 %.
        let expected = rate * time * (1.0 - down / period);
        let found = f64::from(requests.0[0]);
        assert!((found - expected).abs() < 4.0 * expected.sqrt(), "{}: {found}, not {expected}", info.name);
    }
}

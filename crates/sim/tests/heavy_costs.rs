//! Compares the cost of an entry under load that the registry states with saturated runs, for every algorithm.
//!
//! The conditions, as `Costs::heavy` states them: every site requests again in the call in which it leaves, a message takes T,
//! and a process stays inside for less than T. The runs use no random numbers, so they are the same everywhere. The counts are exact
//! except for the messages of the first and last entries, hence [`EXACT`].

use meshlock_protocol::registry::info::{Permits, Scale};
use meshlock_protocol::registry::{ALL, AnyPlan};
use meshlock_protocol::{Algorithm, Cluster, Holders, SiteId, Spec};
use meshlock_sim::draw::Distribution;
use meshlock_sim::settings::{Load, Rates};
use meshlock_sim::{Settings, Time, measure};

/// Relative error because the first and last entries of N sites, of 5,000 entries, are counted only in part.
const EXACT: f64 = 0.005;

/// How far the formula may be off with one permit, relative. Tree quorums: a site near the root chooses among paths of two
/// lengths as it goes; the formula takes the path that it starts with.
fn tolerance_for_one(name: &str) -> f64 {
    if name == "tree-quorum" { 0.02 } else { EXACT }
}

/// How far the formula may be off with more permits, relative. Delegated: chains do not all come home once a round. Makki: a
/// RELEASE goes on from site to site where the token is ahead of it, which depends on how K divides the round.
fn tolerance_for_many(name: &str) -> f64 {
    match name {
        "delegated" => 0.1,
        "makki" => 0.25,
        _ => EXACT,
    }
}

/// Every site always requests; a process stays inside for `inside` T.
fn saturated(sites: usize, permits: usize, inside: f64) -> Settings {
    let mut settings = Settings::new(Cluster { sites, permits });
    settings.load = Load::Saturated;
    settings.inside = Distribution::Constant(Time::units(inside));
    settings.entries = 5_000;
    settings
}

/// Runs the algorithm, and returns the measured and the stated messages per entry: the mean over the sites, whose quorums may differ
/// in size.
fn messages_per_entry(name: &str, settings: &Settings) -> (f64, f64) {
    let spec: Spec = name.parse().expect("a registered name");
    let Cluster { sites, permits } = settings.cluster;
    let plan = AnyPlan::new(&spec, settings.cluster).expect("defaults fit");
    let stated = SiteId::all(sites).map(|me| {
        let quorum = plan.start(me, &Holders::none()).quorum().unwrap_or(sites);
        (spec.info.costs.heavy.messages)(Scale { sites, permits, quorum })
    });
    let stated = stated.sum::<f64>() / sites as f64;
    let report = measure(&spec, settings).unwrap_or_else(|stopped| panic!("{spec}: {stopped}"));
    (report.messages_per_entry.mean, stated)
}

fn assert_near(what: &str, (measured, stated): (f64, f64), tolerance: f64) {
    assert!((measured - stated).abs() <= tolerance * stated, "{what}: {measured} measured, {stated} stated");
}

#[test]
fn with_one_permit_an_entry_under_load_costs_what_the_registry_says() {
    for info in ALL {
        for sites in [2, 3, 7, 10, 13] {
            let cost = messages_per_entry(info.name, &saturated(sites, 1, 0.3));
            assert_near(&format!("{}, N = {sites}", info.name), cost, tolerance_for_one(info.name));
        }
    }
}

#[test]
fn with_more_permits_an_entry_under_load_costs_what_the_registry_says() {
    for info in ALL.iter().filter(|info| info.permits != Permits::One) {
        for (sites, permits) in [(10, 2), (10, 3), (10, 4), (10, 5), (13, 2), (13, 3)] {
            let cost = messages_per_entry(info.name, &saturated(sites, permits, 0.3));
            assert_near(
                &format!("{}, N = {sites}, K = {permits}", info.name),
                cost,
                tolerance_for_many(info.name),
            );
        }
    }
}

/// The lower end of "N to N+K−1": no token comes in vain when the others have been heard of before it is passed on.
#[test]
fn srimani_and_reddys_tokens_all_serve_when_processes_stay_longer_than_a_message_takes() {
    for (sites, permits) in [(10, 2), (10, 5), (13, 3)] {
        let (measured, _) = messages_per_entry("srimani-reddy", &saturated(sites, permits, 1.5));
        assert_near(&format!("N = {sites}, K = {permits}"), (measured, sites as f64), EXACT);
    }
}

#[test]
fn makkis_algorithm_costs_more_when_processes_stay_long_inside() {
    let short = messages_per_entry("makki", &saturated(10, 3, 0.3)).0;
    let long = messages_per_entry("makki", &saturated(10, 3, 4.0)).0;
    assert!(long > 1.5 * short, "{short} and {long}");
}

/// The other half of its text: a site that pauses asks the leader anew.
#[test]
fn delegated_requests_that_join_no_chain_cost_one_more_message() {
    for sites in [3, 7, 10, 13] {
        let mut settings = saturated(sites, 1, 1.0);
        (settings.load, settings.rates) = (Load::Closed, Rates::Same(1_000.0));
        let (measured, _) = messages_per_entry("delegated", &settings);
        let most = 2.0 + 1.0 / sites as f64;
        assert!(measured >= 2.0 - EXACT && measured <= most + EXACT, "N = {sites}: {measured}");
    }
}

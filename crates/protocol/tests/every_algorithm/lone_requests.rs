//! The exact number of messages of a request without contention, for every algorithm, and the kinds of its messages.

use meshlock_protocol::registry::info::Scale;
use meshlock_protocol::registry::{ALL, AnySite};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Algorithm, Cluster, Demand, Holders, SiteId, Spec};
use meshlock_testing::within_steps;

use crate::runs::demands;

/// The measured number of messages, and the least and the greatest number that the registry states.
struct Cost {
    messages: u64,
    stated: (f64, f64),
}

/// Lets the site enter with this demand and leave alone in a new world, and returns the messages that this took.
fn alone_as(demand: Demand, spec: &Spec, cluster: Cluster, site: SiteId) -> Cost {
    let world = World::<AnySite>::new(cluster, &spec.values, &Holders::none());
    let world = world.expect("the defaults fit any cluster");
    let mut world = world.demanding(&spec.values, &[demand]).expect("the algorithm knows it");
    let _ = world.request_as(site, demand);
    settle(&mut world);
    assert!(world.inside().contains(site), "{spec}: {site} of {} enters alone", cluster.sites);
    let _ = world.release(site);
    settle(&mut world);
    assert!(world.is_quiet(), "{spec}: all is quiet after {site} of {} was in", cluster.sites);
    for kind in world.sent().keys() {
        let listed = spec.info.messages.iter().any(|message| message.kind == *kind);
        assert!(listed, "{spec} does not list {kind}");
    }
    let quorum = world.site(site).quorum().unwrap_or(cluster.sites);
    let scale = Scale { sites: cluster.sites, permits: cluster.permits, quorum };
    let costs = &spec.info.costs;
    let stated = ((costs.lone_least.messages)(scale), (costs.lone_most.messages)(scale));
    Cost { messages: world.messages(), stated }
}

fn alone(spec: &Spec, cluster: Cluster, site: SiteId) -> Cost {
    alone_as(Demand::PLAIN, spec, cluster, site)
}

fn settle(world: &mut World<AnySite>) {
    within_steps("all messages are delivered", || {
        let next = world.deliveries(Delivery::Fifo).next();
        assert!(!matches!(next, Some(Action::Request(_) | Action::Release(_))));
        next.map(|action| world.apply(action)).is_none()
    });
}

#[test]
fn a_lone_request_costs_exactly_what_the_registry_says() {
    for info in ALL {
        let spec = Spec::plain(info);
        for sites in [1, 2, 3, 7, 31] {
            let costs: Vec<Cost> =
                SiteId::all(sites).map(|site| alone(&spec, Cluster::of(sites), site)).collect();
            for cost in &costs {
                let messages = cost.messages as f64;
                let (least, most) = cost.stated;
                assert!(
                    (least..=most).contains(&messages),
                    "{spec}, N={sites}: {messages} not in {least}..={most}"
                );
            }
            // Some site reaches each bound, so both are tight.
            let reached = |bound: fn(&Cost) -> f64| {
                costs.iter().any(|cost| (cost.messages as f64 - bound(cost)).abs() < 1e-9)
            };
            assert!(reached(|cost| cost.stated.0), "{spec}, N={sites}: no site costs the stated least");
            assert!(reached(|cost| cost.stated.1), "{spec}, N={sites}: no site costs the stated most");
        }
    }
}

#[test]
fn one_site_enters_and_leaves_without_a_message() {
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        let spec: Spec = spec.parse().unwrap();
        let cost = alone(&spec, Cluster::of(1), SiteId::new(0));
        assert_eq!(cost.messages, 0, "{spec}");
    }
}

#[test]
fn a_lone_request_costs_no_more_in_any_mode_and_with_any_priority() {
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        let spec: Spec = spec.parse().unwrap();
        for demand in demands().filter(|demand| *demand != Demand::PLAIN && spec.values.know(*demand)) {
            for site in SiteId::all(4) {
                let Cost { messages, stated: (least, most) } = alone_as(demand, &spec, Cluster::of(4), site);
                assert!((least..=most).contains(&(messages as f64)), "{spec}, {demand}: {messages}");
            }
        }
    }
}

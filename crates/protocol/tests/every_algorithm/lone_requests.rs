//! What a request costs when all is quiet, to the message, for every algorithm; and its kinds of messages.

use meshlock_protocol::registry::info::Scale;
use meshlock_protocol::registry::{ALL, Visitor};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Algorithm, Cluster, Holders, SiteId, Spec};

/// Lets the site enter and leave alone, from the start of a world of its own; gives the messages that it cost.
struct Alone {
    cluster: Cluster,
    site: SiteId,
}

/// What it cost, and what the registry says it costs at least and at most.
struct Cost {
    messages: u64,
    stated: (f64, f64),
}

impl Visitor for Alone {
    type Output = Cost;

    fn visit<A: Algorithm>(self, spec: &Spec) -> Cost {
        let Alone { cluster, site } = self;
        let mut world =
            World::<A>::new(cluster, &spec.values, &Holders::none()).expect("the defaults fit any cluster");
        let _ = world.request(site);
        settle(&mut world);
        assert!(world.inside().contains(site), "{spec}: {site} of {} enters alone", cluster.sites);
        let _ = world.release(site);
        settle(&mut world);
        assert!(world.is_quiet(), "{spec}: all is quiet after {site} of {} was in", cluster.sites);
        for kind in world.sent().keys() {
            assert!(
                A::INFO.messages.iter().any(|message| message.kind == *kind),
                "{spec} does not list {kind}"
            );
        }
        let quorum = world.site(site).quorum().unwrap_or(cluster.sites);
        let scale = Scale { sites: cluster.sites, permits: cluster.permits, quorum };
        let costs = &A::INFO.costs;
        let stated = ((costs.lone_least.messages)(scale), (costs.lone_most.messages)(scale));
        Cost { messages: world.messages(), stated }
    }
}

fn settle<A: Algorithm>(world: &mut World<A>) {
    while let Some(action) = { world.deliveries(Delivery::Fifo).next() } {
        assert!(!matches!(action, Action::Request(_) | Action::Release(_)));
        let _ = world.apply(action);
    }
}

#[test]
fn a_lone_request_costs_exactly_what_the_registry_says() {
    for info in ALL {
        let spec = Spec::plain(info);
        for sites in [1, 2, 3, 7, 31] {
            let costs: Vec<Cost> = SiteId::all(sites)
                .map(|site| spec.visit(Alone { cluster: Cluster::of(sites), site }))
                .collect();
            for cost in &costs {
                let messages = cost.messages as f64;
                let (least, most) = cost.stated;
                assert!(
                    (least..=most).contains(&messages),
                    "{spec}, N={sites}: {messages} not in {least}..={most}"
                );
            }
            // Both bounds are reached by some site, so that neither can be loose.
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
        let cost = spec.visit(Alone { cluster: Cluster::of(1), site: SiteId::new(0) });
        assert_eq!(cost.messages, 0, "{spec}");
    }
}

//! The bypass bound, counted a second time: along every schedule, by whoever walks it in the world.

use std::collections::BTreeSet;

use meshlock_check::{Bounds, Bypass, BypassBound, NetworkModel, explore_spec};
use meshlock_protocol::registry::AnySite;
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{SiteId, Spec};

use crate::toy::explored;

/// What has happened to one site that waits: the entries of others since its request, and since it was heard first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    since_call: u32,
    since_heard: Option<u32>,
}

/// Walks through all schedules in which each site requests so often. Two ways to the same state are told apart by what those who wait have seen.
struct Walk {
    delivery: Delivery,
    entries: u8,
    seen: BTreeSet<String>,
    from_call: u32,
    once_heard: u32,
}

impl Walk {
    fn go(&mut self, world: &World<AnySite>, requests: &[u8], waits: &[Option<Wait>]) {
        let sites = || SiteId::all(requests.len());
        let states: Vec<String> = sites().map(|site| format!("{:?}", world.site(site))).collect();
        let mut in_flight: Vec<String> = Vec::new();
        for (from, to) in sites().flat_map(|from| sites().map(move |to| (from, to))) {
            let mut channel: Vec<String> =
                world.packets(from, to).map(|packet| format!("{:?}", packet.message)).collect();
            if self.delivery == Delivery::Unordered {
                channel.sort_unstable();
            }
            in_flight.push(channel.join(","));
        }
        if !self.seen.insert(format!("{states:?} {in_flight:?} {requests:?} {waits:?}")) {
            return;
        }
        let requested = sites().filter(|&site| world.is_idle(site) && requests[site.index()] < self.entries);
        let mut actions: Vec<Action> = requested.map(Action::Request).collect();
        actions.extend(world.deliveries(self.delivery));
        actions.extend(world.releases());
        for action in actions {
            let (mut next, mut requests, mut waits) = (world.clone(), requests.to_vec(), waits.to_vec());
            let before = next.entries().len();
            let _ = next.apply(action);
            if let Action::Request(site) = action {
                requests[site.index()] += 1;
                waits[site.index()] = Some(Wait::default());
            }
            let entered: Vec<SiteId> = next.entries()[before..].iter().map(|entry| entry.site).collect();
            for site in sites() {
                self.look(&next, site, &entered, &mut waits[site.index()]);
            }
            self.go(&next, &requests, &waits);
        }
    }

    /// Counts the entries of the last step for `site`, if it waits.
    fn look(&mut self, world: &World<AnySite>, site: SiteId, entered: &[SiteId], wait: &mut Option<Wait>) {
        if !world.is_waiting(site) {
            return *wait = None;
        }
        let Some(wait) = wait else { return };
        let others = u32::try_from(entered.iter().filter(|&&other| other != site).count()).expect("a few");
        wait.since_call += others;
        wait.since_heard = wait.since_heard.map(|since| since + others);
        let unheard = SiteId::all(world.cluster().sites).any(|to| world.packets(site, to).next().is_some());
        if !unheard {
            wait.since_heard.get_or_insert(0);
        }
        self.from_call = self.from_call.max(wait.since_call);
        self.once_heard = self.once_heard.max(wait.since_heard.unwrap_or(0));
    }
}

/// The bounds by walking and by the graph.
fn both(spec: &str, sites: usize, entries: u8) -> (Option<Bypass>, Option<Bypass>) {
    let spec: Spec = spec.parse().expect("a registered name");
    let bounds = Bounds::new(sites, entries).over(NetworkModel::from(spec.info.channels));
    let world =
        World::<AnySite>::new(bounds.cluster, &spec.values, &bounds.holders).expect("three sites at most");
    let mut walk =
        Walk { delivery: bounds.delivery, entries, seen: BTreeSet::new(), from_call: 0, once_heard: 0 };
    walk.go(&world, &vec![0; sites], &vec![None; sites]);
    let at_most = BypassBound::AtMost;
    let walked = Bypass { from_call: at_most(walk.from_call), once_heard: at_most(walk.once_heard) };
    (Some(walked), explore_spec(&spec, &bounds).bypass)
}

#[test]
fn whoever_walks_all_schedules_counts_the_same() {
    for (spec, sites, entries) in
        [("central", 3, 1), ("central", 2, 3), ("naimi-trehel", 3, 1), ("raymond", 3, 1), ("lamport", 2, 2)]
    {
        let (walked, computed) = both(spec, sites, entries);
        assert_eq!(walked, computed, "{spec} with {sites} sites that request {entries} times");
    }
}

#[test]
fn a_server_in_order_is_told_from_one_that_prefers_the_smallest_only_once_it_has_heard() {
    let bypass =
        |fair: &str, bounds: &Bounds| explored(&[("fair", fair)], bounds).bypass.expect("a small graph");
    let (bounded, endless) = (Bounds::new(3, 2), Bounds::new(3, 1).endless());
    let [in_order, smallest] = ["yes", "no"].map(|fair| bypass(fair, &bounded));
    assert_eq!(in_order.from_call, BypassBound::AtMost(4), "all entries of the two others");
    assert_eq!(smallest.from_call, in_order.from_call);
    assert_eq!(in_order.once_heard, BypassBound::AtMost(2));
    assert_eq!(smallest.once_heard, BypassBound::AtMost(4));
    let [in_order, smallest] = ["yes", "no"].map(|fair| bypass(fair, &endless));
    assert_eq!((in_order.from_call, in_order.once_heard), (BypassBound::Unbounded, BypassBound::AtMost(2)));
    assert_eq!(smallest.once_heard, BypassBound::Unbounded);
}

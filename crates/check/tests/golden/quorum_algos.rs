//! The quorum algorithms: every interleaving of a few sites, with golden state counts (if a count changes, the algorithm has changed;
//! say why in the commit), and the most expensive schedules.

use foldhash::quality::FixedState;
use meshlock_check::{Bounds, Report, Verdict, explore_spec};
use meshlock_protocol::registry::AnySite;
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Cluster, Effect, Holders, LookupMap, SiteId, SiteSet, Spec};

fn report(spec: &str, bounds: Bounds) -> Report {
    let spec: Spec = spec.parse().expect("a registered name");
    explore_spec(&spec, &bounds)
}

/// Returns the number of states, and asserts that there is no violation.
fn states(spec: &str, bounds: Bounds) -> usize {
    let report = report(spec, bounds);
    assert_eq!(report.verdict, Verdict::Holds, "{spec}: {:#?}", report.path);
    report.states
}

fn unordered(sites: usize, entries: u8) -> Bounds {
    Bounds { delivery: Delivery::Unordered, ..crate::bounds(sites, entries) }
}

fn held_by(site: usize, bounds: Bounds) -> Bounds {
    let holders = Holders::new(bounds.cluster, [SiteId::new(site)]).expect("a site of the run");
    Bounds { holders, ..bounds }
}

#[test]
fn a_site_with_most_of_the_votes_or_any_other_may_be_inside_at_the_start() {
    let counts = |spec| [0, 1, 2].map(|holder| states(spec, held_by(holder, unordered(3, 1))));
    assert_eq!(counts("majority:votes=3.1.1"), [163, 279, 315]);
}

/// Reference: chapter 9, section 9.8.1: the rules as printed.
#[test]
fn as_printed_three_sites_deadlock_after_seven_steps() {
    let found = report("maekawa:text=printed", crate::bounds(3, 1));
    assert_eq!(found.verdict, Verdict::Deadlock(SiteId::all(3).collect()));
    assert_eq!(found.path.len(), 7);
}

/// A state, and the sites that have not requested yet.
type Key = (u64, u64, SiteSet);

/// Returns the most messages that any schedule sends until each of `to_ask` has entered once: the longest path in the graph of states,
/// which has no cycles.
fn dearest(world: &World<AnySite>, to_ask: &SiteSet, known: &mut LookupMap<Key, u64>) -> u64 {
    let hash = |seed| world.hash_future(Delivery::Fifo, &FixedState::with_seed(seed));
    let key = (hash(1), hash(2), to_ask.clone());
    if let Some(&most) = known.get(&key) {
        return most;
    }
    let asks = to_ask.iter().map(Action::Request);
    let actions = world.deliveries(Delivery::Fifo).chain(world.releases()).chain(asks);
    let costs = actions.map(|action| {
        let (mut next, mut to_ask) = (world.clone(), to_ask.clone());
        if let Action::Request(site) = action {
            to_ask.remove(site);
        }
        let effects = next.apply(action);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Misbehaved { .. })), "{effects:?}");
        next.messages() - world.messages() + dearest(&next, &to_ask, known)
    });
    let most = costs.max().unwrap_or(0);
    known.insert(key, most);
    most
}

/// Reference: chapter 9, section 9.8.1: "the maximum number of messages required per CS execution in this case is 5√N".
/// Found are at most 4.5(k−1) an entry, with four sites; alone it is 3(k−1).
#[test]
fn the_most_expensive_schedules_cost_up_to_one_and_a_half_times_lone_requests() {
    let dearest = |spec: &str, sites, asking| {
        let spec: Spec = spec.parse().expect("a registered name");
        let world = World::new(Cluster::of(sites), &spec.values, &Holders::none());
        dearest(&world.expect("a valid run"), &SiteId::all(asking).collect(), &mut LookupMap::default())
    };
    // k = 2: alone three requests cost 9. k = 3: alone three cost 18; all four explored cost 36 at most.
    assert_eq!([dearest("maekawa", 3, 3), dearest("maekawa:deadlock=fail", 3, 3)], [9, 11]);
    assert_eq!([dearest("maekawa", 4, 3), dearest("maekawa:deadlock=fail", 4, 3)], [24, 25]);
    assert_eq!([dearest("tree-quorum", 3, 3), dearest("tree-quorum:deadlock=fail", 3, 3)], [10, 11]);
}

//! Every interleaving of a few sites that share, change their modes, leave and ask again, over channels that keep no order.
//!
//! The world checks every step; here every end is checked: nobody waits, and all is quiet.

use std::collections::BTreeSet;

use rustc_hash::FxBuildHasher;

use super::*;

const ALL: [Demand; 3] = [SHARED, UPGRADEABLE, Demand::PLAIN];

/// A moment of the search: the world, and how many more requests and changes of mode each site may make.
#[derive(Clone)]
pub(super) struct Moment {
    world: World<Delegated>,
    requests: Vec<u8>,
    changes: Vec<u8>,
}

impl Moment {
    pub(super) fn new(values: &Values, holders: &[(SiteId, Mode)], requests: &[u8], changes: &[u8]) -> Self {
        let cluster = Cluster::of(requests.len());
        let holders = Holders::sharing(cluster, holders.iter().copied()).unwrap();
        let world =
            World::new(cluster, values, &holders).unwrap().demanding(values, &ALL).unwrap().tolerant();
        Moment { world, requests: requests.to_vec(), changes: changes.to_vec() }
    }

    fn key(&self) -> (u64, Vec<u8>, Vec<u8>) {
        let hash = self.world.hash_future(Delivery::Unordered, &FxBuildHasher);
        (hash, self.requests.clone(), self.changes.clone())
    }

    /// What can happen next; whether it must, or is only asked for.
    fn actions(&self) -> Vec<(Action, bool)> {
        let world = &self.world;
        let must = world.deliveries(Delivery::Unordered).chain(world.releases());
        let may = world.requests().chain(world.returns()).chain(world.changes());
        must.map(|action| (action, true)).chain(may.map(|action| (action, false))).collect()
    }

    /// The moment after `action`, if its site may still do that.
    fn after(&self, action: Action) -> Option<Moment> {
        let mut next = self.clone();
        let left = match action {
            Action::Request(site)
            | Action::RequestAs(site, _)
            | Action::Return(site)
            | Action::ReturnAs(site, _) => Some(&mut next.requests[site.index()]),
            Action::ChangeMode(site, _) => Some(&mut next.changes[site.index()]),
            Action::Release(_)
            | Action::Deliver { .. }
            | Action::Duplicate { .. }
            | Action::Lose { .. }
            | Action::Wake(_)
            | Action::Tell { .. } => None,
        };
        if let Some(left) = left {
            *left = left.checked_sub(1)?;
        }
        let _ = next.world.apply(action);
        Some(next)
    }
}

/// Follows every path from `start`. Gives the number of different moments, or what is wrong with the first that is wrong.
pub(super) fn explore(start: Moment) -> Result<usize, String> {
    let mut seen: BTreeSet<_> = [start.key()].into_iter().collect();
    let mut open = vec![start];
    while let Some(moment) = open.pop() {
        let (world, actions) = (&moment.world, moment.actions());
        if let Some(violation) = world.violation() {
            return Err(violation.to_string());
        }
        if !actions.iter().any(|(_, must)| *must) {
            if let Some(site) = SiteId::all(world.cluster().sites).find(|site| world.is_waiting(*site)) {
                return Err(format!("{site} waits for ever"));
            }
            if !world.is_quiet() {
                return Err("at the end something is owed".to_owned());
            }
        }
        for next in actions.into_iter().filter_map(|(action, _)| moment.after(action)) {
            if seen.insert(next.key()) {
                open.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn two_sites_that_enter_twice_and_change_once_are_served() {
    for options in [&[][..], &[("leader", "1")], &[("chain", "1"), ("share", "asked")]] {
        let moments = explore(Moment::new(&values(options), &[], &[2, 2], &[1, 1])).unwrap();
        assert!(moments > 10_000, "{options:?}: {moments}");
    }
}

#[test]
fn two_sites_of_which_one_changes_its_mode_three_times_are_served() {
    // The leader and another; only there do changes overtake each other.
    for holders in [&[][..], &[(SiteId::new(1), Mode::Upgradeable)], &[(SiteId::new(1), Mode::Exclusive)]] {
        let moments = explore(Moment::new(&values(&[]), holders, &[1, 2], &[0, 3])).unwrap();
        assert!(moments > 1_000, "{holders:?}: {moments}");
    }
}

#[test]
fn three_sites_that_enter_once_are_served() {
    for options in [&[][..], &[("chain", "2")]] {
        let moments = explore(Moment::new(&values(options), &[], &[1, 1, 1], &[1, 1, 1])).unwrap();
        assert!(moments > 30_000, "{options:?}: {moments}");
    }
}

#[test]
fn three_sites_of_which_some_share_at_the_start_are_served() {
    let [s0, s1, s2] = SiteId::first();
    let (shared, upgradeable) = (Mode::Shared, Mode::Upgradeable);
    for holders in [&[(s0, upgradeable), (s1, shared)][..], &[(s1, upgradeable), (s2, shared)]] {
        let moments = explore(Moment::new(&values(&[]), holders, &[0, 1, 1], &[1, 1, 0])).unwrap();
        assert!(moments > 10_000, "{holders:?}: {moments}");
    }
}

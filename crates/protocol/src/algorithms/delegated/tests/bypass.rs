//! How often anyone is bypassed, in random runs.

use super::*;

/// When the leader came to know of the request that waits at a site (or when it began to ride), and how many have
/// entered since on requests that came later, and that exclude it.
#[derive(Clone, Copy, Default)]
struct Known {
    at: Option<usize>,
    bypassed: usize,
}

/// A random run; gives the most that anyone was bypassed.
fn most_bypassed(world: &mut World<Delegated>, seed: u64) -> usize {
    let sites = world.cluster().sites;
    let leader = SiteId::new(0);
    let mut known = vec![Known::default(); sites];
    let (mut random, mut most) = (seed, 0);
    for step in 0..5_000 {
        let all: Vec<Action> = world
            .deliveries(Delivery::Unordered)
            .chain(world.releases())
            .chain(world.returns())
            .chain(world.requests())
            .chain(world.changes())
            .collect();
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let action = all[usize::try_from(random >> 33).unwrap() % all.len()];
        let learnt = match action {
            Action::Request(site)
            | Action::RequestAs(site, _)
            | Action::ReturnAs(site, _)
            | Action::Return(site)
                if site == leader =>
            {
                Some(site)
            }
            Action::Return(site) if matches!(world.site(site).state, DelegatedState::Executing { .. }) => {
                Some(site)
            }
            Action::Deliver { from, to, nth } => {
                let mut channel = world.in_flight().filter(|&(a, b, _)| (a, b) == (from, to));
                let message = channel.nth(nth).map(|(_, _, message)| message);
                matches!(message, Some(Message::Request { .. } | Message::Ask { .. })).then_some(from)
            }
            Action::Request(_)
            | Action::RequestAs(..)
            | Action::Return(_)
            | Action::ReturnAs(..)
            | Action::ChangeMode(..)
            | Action::Release(_)
            | Action::Duplicate { .. }
            | Action::Lose { .. }
            | Action::Wake(_)
            | Action::Tell { .. } => None,
        };
        if let Some(site) = learnt {
            known[site.index()] = Known { at: Some(step), bypassed: 0 };
        }
        let entries = world.entries().len();
        let _ = world.apply(action);
        for entry in &world.entries()[entries..] {
            let mine = known[entry.site.index()].at.take();
            let mode = world.mode(entry.site);
            // Whoever may be inside together with the other takes nothing from it.
            let passes = |site: SiteId, other: &Known| {
                other.at.is_some() && other.at < mine && !world.mode(site).admits(mode)
            };
            for (site, other) in SiteId::all(sites).zip(&mut known) {
                if passes(site, other) {
                    other.bypassed += 1;
                    most = most.max(other.bypassed);
                }
            }
        }
    }
    most
}

#[test]
fn nobody_is_bypassed_more_than_b_times() {
    for (chain, b) in [("1", 1), ("2", 2), ("3", 3), ("sites", 5), ("9", 9)] {
        let most = (1..=8).map(|seed| most_bypassed(&mut world(5, 1, chain, &[]), seed)).max().unwrap();
        assert!((1..=b).contains(&most), "chain={chain}: {most}");
    }
}

/// Eight random runs of five sites that ask in every mode, with priorities up to `highest`.
fn most_bypassed_with(options: &[(&str, &str)], highest: u8) -> usize {
    let priorities = 0..=highest;
    let demands =
        priorities.flat_map(|priority| Mode::ALL.map(|mode| Demand::of(mode).with_priority(priority)));
    let demands: Vec<Demand> = demands.collect();
    let values = values(options);
    let most = |seed: u64| {
        let world = World::new(Cluster::of(5), &values, &Holders::none()).unwrap();
        most_bypassed(&mut world.demanding(&values, &demands).unwrap(), seed)
    };
    (1..=8).map(most).max().unwrap()
}

#[test]
fn nobody_is_bypassed_more_than_b_times_whatever_the_modes() {
    for (chain, b) in [("1", 1), ("2", 2), ("sites", 5)] {
        let most = most_bypassed_with(&[("chain", chain)], 0);
        assert!((1..=b).contains(&most), "chain={chain}: {most}");
    }
}

#[test]
fn priorities_that_age_let_few_more_pass_for_each_level() {
    for (chain, b) in [("1", 1), ("sites", 5)] {
        for highest in [1, 3] {
            let most = most_bypassed_with(&[("chain", chain)], highest);
            let bound = b + 4 * (usize::from(highest) + 1);
            // Long chains leave few in the queue, where priorities count.
            let least = if chain == "1" { b + 1 } else { 1 };
            assert!((least..=bound).contains(&most), "chain={chain}, priorities up to {highest}: {most}");
        }
    }
}

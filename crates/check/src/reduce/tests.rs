//! The reduced search sees what the full search sees.

use std::collections::BTreeSet;

use meshlock_protocol::Spec;
use meshlock_protocol::registry::ALL;

use super::{Ahead, Lookahead};
use crate::graph::Graph;
use crate::moves::Taken;
use crate::property::Verdict;
use crate::search::Search;
use crate::state::GlobalState;
use crate::{Bounds, NetworkModel, sites_of};

/// Everything that one search has seen, in words that do not depend on the order in which it met its local states.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sights {
    /// The local states of all sites.
    locals: BTreeSet<String>,
    /// What the properties look at in each state: the phase, the timestamp and the tokens of each site.
    views: BTreeSet<String>,
    /// The packets, each with what its sender knew.
    packets: BTreeSet<String>,
    /// The states in which nothing happens by itself.
    ends: BTreeSet<String>,
}

impl Sights {
    fn of(search: &Search) -> Self {
        let facts = |local: u32| search.table.facts(local);
        let told = |local: u32| format!("{:?}", facts(local));
        let view =
            |local: u32| format!("{:?}", (facts(local).phase, facts(local).timestamp, facts(local).tokens));
        let all = |state: &GlobalState, each: &dyn Fn(u32) -> String| -> String {
            state.locals.iter().map(|&local| each(local)).collect()
        };
        let locals = u32::try_from(search.table.local_states()).expect("a small run");
        let mut sights = Sights { locals: (0..locals).map(told).collect(), ..Sights::default() };
        let mut moves = Vec::new();
        for place in Graph::of(search, None).places {
            let state = search.state_at(place);
            sights.views.insert(all(&state, &view));
            sights.packets.extend(state.packets.iter().map(|&code| {
                let (packet, knew) = search.layout.split(code);
                let label = search.table.label(packet);
                format!("{} {} {} {knew}", label.from, label.to, label.message)
            }));
            if !search.table.bounds.reduces {
                if !search.table.moves(search.layout, &state, &mut moves) {
                    sights.ends.insert(all(&state, &told));
                }
                continue;
            }
            Lookahead::default().run(&search.table, search.layout, &state, &mut |_, seen| {
                if let Ahead::End(end) = seen {
                    assert!(!search.table.moves(search.layout, end, &mut Vec::new()), "this is an end");
                    sights.ends.insert(all(end, &told));
                }
            });
        }
        sights
    }
}

/// Explores in full and reduced. Returns the number of states of each, unless there are too many.
fn both(spec: &Spec, bounds: &Bounds) -> Option<(usize, usize)> {
    let bounds = Bounds { max_states: 12_000, ..bounds.clone() };
    let mut full = Search::new(&bounds, sites_of(spec, &bounds).ok()?);
    if full.run(&mut |_| {}).verdict != Verdict::Holds {
        return None;
    }
    let (seen, states) = (Sights::of(&full), full.progress.states);
    let mut reduced = Search::new(&bounds.reduced(), full.into_sites());
    assert_eq!(reduced.run(&mut |_| {}).verdict, Verdict::Holds, "{spec}");
    let (again, fewer) = (Sights::of(&reduced), reduced.progress.states);
    assert!(!seen.ends.is_empty());
    assert!(seen.locals == again.locals, "{spec}: local states");
    assert!(seen.views == again.views, "{spec}: what the properties look at");
    assert!(seen.packets == again.packets, "{spec}: packets");
    assert!(seen.ends == again.ends, "{spec}: ends");
    Some((states, fewer))
}

/// Every algorithm and variant, without failures, on the network that it claims to need.
#[test]
fn a_reduced_search_sees_the_same_local_states_phases_and_ends() {
    for info in ALL {
        let (mut full, mut reduced) = (0, 0);
        for spec in info.specs() {
            let spec: Spec = spec.parse().expect("a registered name");
            let runs = [
                Bounds::new(2, 2),
                Bounds::new(3, 1),
                Bounds::new(3, 1).with_permits(2),
                Bounds::new(2, 2).with_returns(),
            ];
            let over = |bounds: Bounds| bounds.over(NetworkModel::from(info.channels));
            let compared: Vec<_> = runs.into_iter().filter_map(|bounds| both(&spec, &over(bounds))).collect();
            assert!(!compared.is_empty(), "{spec}: every run is too large");
            for (states, fewer) in compared {
                (full, reduced) = (full + states, reduced + fewer);
            }
        }
        println!("{}: {full} states, reduced {reduced}", info.name);
        assert!(0 < reduced && reduced < full, "{}: {full} states, reduced {reduced}", info.name);
    }
}

/// Everything that is found from a state: the steps, and the state after them.
fn ahead(mut lookahead: Lookahead, search: &Search, state: &GlobalState) -> Vec<(Vec<Taken>, GlobalState)> {
    let mut found = Vec::new();
    lookahead.run(&search.table, search.layout, state, &mut |steps, seen| {
        let (Ahead::Burst { next, .. } | Ahead::End(next)) = seen;
        found.push((steps.taken(), next.clone()));
    });
    assert!(!lookahead.is_unknown, "the search has seen this state");
    found
}

/// What is kept of a situation was worked out in the first state in which a site was in it. It is the same in every other.
#[test]
fn what_a_site_can_do_depends_on_its_situation_alone() {
    let (mut looked, mut situations) = (0, 0);
    for info in ALL {
        let spec: Spec = info.name.parse().expect("a registered name");
        let bounds = Bounds::new(3, 1).over(NetworkModel::from(info.channels)).reduced();
        let mut search = Search::new(&bounds, sites_of(&spec, &bounds).expect("three sites"));
        assert_eq!(search.run(&mut |_| {}).verdict, Verdict::Holds, "{spec}");
        for place in Graph::of(&search, None).places {
            let state = search.state_at(place);
            let kept = ahead(Lookahead::default(), &search, &state);
            assert_eq!(kept, ahead(Lookahead::that_looks_itself(), &search, &state), "{spec}");
            looked += state.locals.len();
        }
        situations += search.table.prospects.count();
    }
    assert!(looked > situations, "{situations} situations, looked at {looked} times");
}

#[test]
fn runs_with_faults_or_without_end_are_not_reduced() {
    let bounds = Bounds::new(3, 1);
    assert!(bounds.can_be_reduced());
    for other in [
        bounds.clone().with_crashes(1),
        bounds.clone().with_losses(1),
        bounds.clone().with_duplicates(1),
        bounds.clone().endless(),
    ] {
        assert!(!other.can_be_reduced(), "{other:?}");
    }
}

//! Which algorithms treat sites alike, and whether a search up to symmetry sees what the full search sees.

use std::collections::BTreeSet;

use meshlock_protocol::Spec;
use meshlock_protocol::mutant::{self, Mutant};
use meshlock_protocol::registry::ALL;

use super::*;
use crate::graph::Graph;
use crate::property::Verdict;
use crate::search::Search;
use crate::{Bounds, NetworkModel, explore_spec, sites_of};

/// The algorithms and variants with symmetries: the number of permutations with three sites that request twice and with four that request
/// once, over the network that they claim to need. Where the token starts at S0 that site stays where it is. All others have none, or none
/// that can be found: of several choices it is not always known which corresponds to which.
const SYMMETRIC: [(&str, usize, usize); 19] = [
    ("suzuki-kasami:append=any", 2, 1),
    ("raymond", 2, 1),
    ("raymond:tree=star", 2, 6),
    ("naimi-trehel", 2, 6),
    ("central", 2, 6),
    ("delegated", 2, 6),
    ("delegated:chain=1", 2, 6),
    ("delegated:chain=2", 2, 6),
    ("delegated:leader=1", 2, 6),
    ("bulgannawar-vaidya", 2, 2),
    ("bulgannawar-vaidya:inform=0", 2, 6),
    ("bulgannawar-vaidya:inform=1", 1, 2),
    ("bulgannawar-vaidya:choice=random", 2, 2),
    ("bulgannawar-vaidya:inform=0,choice=random", 2, 6),
    ("bulgannawar-vaidya:choice=random,informed=any", 2, 6),
    ("srimani-reddy:append=any,token=any", 2, 1),
    ("makki", 2, 6),
    ("neilsen-mizuno", 2, 6),
    ("neilsen-mizuno:tree=balanced", 2, 1),
];

fn spec(name: &str) -> Spec {
    name.parse().expect("a registered name")
}

fn over(spec: &Spec, bounds: Bounds) -> Bounds {
    bounds.over(NetworkModel::from(spec.info.channels))
}

/// All variants, and those with every choice.
fn specs() -> impl Iterator<Item = String> {
    ALL.iter().flat_map(|info| info.specs().map(str::to_owned).chain(info.open_spec()))
}

/// The algorithm of every variant is followed through its steps with the sites exchanged, and most differ from themselves.
#[test]
fn these_algorithms_treat_sites_alike_and_the_others_do_not() {
    let mut symmetric = Vec::new();
    for name in specs() {
        let spec = spec(&name);
        let permutations = [(3, 2), (4, 1)].map(|(sites, entries)| {
            let Ok(found) = site_symmetry(&spec, &over(&spec, Bounds::new(sites, entries))) else { return 1 };
            let all: usize = (1..=sites).product();
            assert_eq!(found.asymmetry.is_some(), found.permutations < all, "{name}: {found:?}");
            found.permutations
        });
        if permutations != [1, 1] {
            symmetric.push((name, permutations[0], permutations[1]));
        }
    }
    let listed: Vec<_> =
        SYMMETRIC.iter().map(|&(name, three, four)| (name.to_owned(), three, four)).collect();
    assert_eq!(symmetric, listed);
}

#[test]
fn whoever_ends_ties_by_ids_is_told_by_the_step_that_shows_it() {
    for (name, step) in [
        (
            "ricart-agrawala",
            "S1→S2→S1: S2 takes Request { clock: Clock(1) } from S1, and S1 takes Request { clock: Clock(1) } from S2: ",
        ),
        (
            "suzuki-kasami",
            "S1→S2→S1: S0 leaves, and S0 leaves: they do not send the same number of messages to the same sites",
        ),
        ("token-ring", "S1→S2→S1: S1 requests, and S2 requests: they do not send"),
    ] {
        let spec = spec(name);
        let found = site_symmetry(&spec, &over(&spec, Bounds::new(3, 2))).expect("three sites");
        let why = found.asymmetry.map(|why| why.to_string()).unwrap_or_default();
        assert!(why.starts_with(step), "{name}: {why}");
    }
}

/// A server that serves the smallest id first is a bug that treats sites differently.
#[test]
fn a_server_that_prefers_small_ids_is_not_symmetric() {
    let spec = spec("central");
    let permutations =
        || site_symmetry(&spec, &over(&spec, Bounds::new(4, 2))).expect("four sites").permutations;
    assert_eq!(permutations(), 6);
    assert_eq!(mutant::with(Mutant::CentralSmallestFirst, permutations), 1);
}

/// A state in words that do not depend on the order in which a search met its local states and packets.
fn in_words(search: &Search, state: &GlobalState) -> String {
    let locals: String = state.locals.iter().map(|&local| search.table.local_in_words(local)).collect();
    let mut packets: Vec<String> = Vec::new();
    for &code in &state.packets {
        let (packet, knew) = search.layout.split(code);
        let label = search.table.label(packet);
        packets.push(format!("{}→{} {} {knew}", label.from, label.to, label.message));
    }
    if search.table.bounds.delivery == Delivery::Unordered {
        packets.sort_unstable();
    } else {
        packets.sort_by(|one, other| one[..7].cmp(&other[..7]));
    }
    format!("{locals} {} {packets:?}", state.knows)
}

/// The images of a state under all symmetries, itself among them.
fn images(search: &Search, state: &GlobalState) -> Vec<GlobalState> {
    let symmetry = search.table.symmetry.as_ref().expect("a search up to symmetry");
    let image = |element: usize| {
        let mut image = state.clone();
        for site in SiteId::all(state.locals.len()) {
            let local = symmetry
                .group
                .factors(element)
                .iter()
                .fold(state.locals[site.index()], |local, &generator| {
                    symmetry.generators[generator].local(local)
                });
            image.locals[symmetry.group.elements[element].permutation.of(site).index()] = local;
        }
        image.knows = symmetry.knowledge(search.layout, state, element);
        search.table.exchange_packets(search.layout, symmetry, state, element, &mut image.packets);
        image
    };
    (0..symmetry.group.elements.len()).map(image).collect()
}

/// Explores fully and up to symmetry, both reduced or not, and compares the states. Returns the numbers of states, unless there is no
/// symmetry or there are too many states.
fn both(spec: &Spec, bounds: &Bounds) -> Option<(usize, usize)> {
    let bounds = Bounds { max_states: 12_000, ..bounds.clone() };
    let mut full = Search::new(&bounds, sites_of(spec, &bounds).ok()?);
    if full.run(&mut |_| {}).verdict != Verdict::Holds {
        return None;
    }
    let states = |search: &Search| -> Vec<GlobalState> {
        Graph::of(search, None).places.into_iter().map(|place| search.state_at(place)).collect()
    };
    let of_all: BTreeSet<String> = states(&full).iter().map(|state| in_words(&full, state)).collect();
    let depth = full.progress.depth;
    let (sites, group, _) = symmetry_of(full.into_sites(), &bounds, PROBED);
    if group.is_trivial() {
        return None;
    }
    let mut alike = Search::up_to(&bounds.clone().up_to_symmetry(), sites, group);
    assert_eq!(alike.run(&mut |_| {}).verdict, Verdict::Holds, "{spec}");
    assert_eq!(alike.table.asymmetry(), None, "{spec}");
    let kept = states(&alike);
    let mut of_kept: BTreeSet<String> = BTreeSet::new();
    for state in &kept {
        let images: BTreeSet<String> =
            images(&alike, state).iter().map(|state| in_words(&alike, state)).collect();
        assert!(
            images.iter().all(|image| !of_kept.contains(image)),
            "{spec}: two kept states stand for the same"
        );
        of_kept.extend(images);
    }
    assert!(of_all == of_kept, "{spec}: {} states, {} by symmetry", of_all.len(), of_kept.len());
    assert_eq!(alike.progress.depth, depth, "{spec}");
    Some((of_all.len(), kept.len()))
}

/// The kept states and their images are all states, each once, for everything small that has a symmetry.
#[test]
fn the_kept_states_stand_for_all_states() {
    for (name, ..) in &SYMMETRIC {
        let spec = spec(name);
        let runs = [
            Bounds::new(3, 1),
            Bounds::new(3, 2),
            Bounds::new(3, 1).with_permits(2),
            Bounds::new(3, 1).with_returns(),
            Bounds::new(3, 2).held_by(&[2]).expect("one of three sites"),
            Bounds::new(3, 1).held_by(&[0]).expect("one of three sites"),
            Bounds::new(4, 1),
        ];
        let both_ways = runs.into_iter().flat_map(|run| [run.clone(), run.reduced()]);
        let compared: Vec<_> = both_ways.filter_map(|bounds| both(&spec, &over(&spec, bounds))).collect();
        let sum = |which: fn(&(usize, usize)) -> usize| compared.iter().map(which).sum::<usize>();
        let (all, kept) = (sum(|&(all, _)| all), sum(|&(_, kept)| kept));
        println!("{name}: {all} states in {} runs, {kept} kept", compared.len());
        assert!(0 < kept && kept < all, "{name}: {all} states, {kept} kept");
    }
}

/// Permutations that are none of a run's symmetries are found out by the search itself.
#[test]
fn a_search_notices_that_a_permutation_is_no_symmetry() {
    for name in specs().filter(|name| SYMMETRIC.iter().all(|(known, ..)| known != name)) {
        let spec = spec(&name);
        let bounds = over(&spec, Bounds::new(3, 1)).up_to_symmetry();
        let Ok(sites) = sites_of(&spec, &bounds) else { continue };
        let mut search = Search::up_to(&bounds, sites, Group::within(3, Permutation::all(3)));
        let _ = search.run(&mut |_| {});
        assert!(search.table.asymmetry().is_some(), "{name}");
    }
}

/// If too little of a run was tried before the search, it starts again without symmetries.
#[test]
fn a_search_that_meets_a_contradiction_starts_again_without_symmetries() {
    let spec = spec("suzuki-kasami");
    let bounds = over(&spec, Bounds::new(3, 1));
    let alike = bounds.clone().up_to_symmetry();
    let sites = || sites_of(&spec, &alike).expect("three sites");
    assert!(!symmetry_of(sites(), &alike, 1).1.is_trivial(), "one state does not show it");
    let report = crate::explore_alike(sites(), &alike, 1, &mut |_| {});
    let found = report.symmetry.expect("it was asked for");
    assert_eq!(found.permutations, 1);
    assert!(found.asymmetry.is_some());
    assert_eq!(report.states, explore_spec(&spec, &bounds).states);
}

#[test]
fn runs_with_faults_without_end_or_with_many_sites_are_not_explored_up_to_symmetry() {
    let bounds = Bounds::new(3, 1);
    assert!(bounds.can_be_explored_alike());
    for other in [bounds.clone().with_crashes(1), bounds.clone().endless(), Bounds::new(MAX_SITES + 1, 1)] {
        assert!(!other.can_be_explored_alike(), "{other:?}");
        let spec = spec("central");
        let found = site_symmetry(&spec, &over(&spec, other)).expect("a plan");
        assert_eq!((found.permutations, found.asymmetry.is_some()), (1, true));
    }
}

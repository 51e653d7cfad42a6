//! The runs of searches that keep fewer states: what is too large for a full search, or was never tried in full.

use meshlock_protocol::Spec;

use super::{Case, case_of};

/// The runs of reduced searches: the spec, the number of sites, the number of requests of each.
const REDUCED: [(&str, usize, u8); 23] = [
    ("ricart-agrawala", 5, 1),
    ("carvalho-roucairol", 5, 1),
    ("singhal-dynamic", 5, 1),
    ("lodha-kshemkalyani", 5, 1),
    ("maekawa", 5, 1),
    ("tree-quorum", 5, 1),
    ("majority", 5, 1),
    ("suzuki-kasami", 5, 1),
    ("singhal-heuristic", 5, 1),
    ("raymond", 4, 2),
    ("raymond", 5, 1),
    ("naimi-trehel", 4, 2),
    ("naimi-trehel", 5, 1),
    ("central", 4, 2),
    ("central", 5, 1),
    ("token-ring", 4, 2),
    ("token-ring", 5, 1),
    ("delegated", 5, 1),
    ("bulgannawar-vaidya", 5, 1),
    ("raymond-k", 5, 1),
    ("srimani-reddy", 5, 1),
    ("neilsen-mizuno", 4, 2),
    ("neilsen-mizuno", 5, 1),
];

/// The runs of reduced searches up to symmetry, in the same way.
const ALIKE: [(&str, usize, u8); 6] = [
    ("raymond:tree=star", 5, 2),
    ("naimi-trehel", 5, 2),
    ("naimi-trehel", 6, 1),
    ("central", 5, 2),
    ("central", 6, 1),
    ("makki", 5, 1),
];

/// All of them, with one permit, on the network that the algorithm claims to need.
pub(super) fn cases() -> impl Iterator<Item = Case> {
    let case = |(spec, sites, entries): (&str, usize, u8), up_to_symmetry| {
        let parsed: Spec = spec.parse().expect("a spec of the registry");
        Case { reduces: true, up_to_symmetry, ..case_of(parsed.info, spec, (sites, entries, 1)) }
    };
    let reduced = REDUCED.into_iter().map(move |run| case(run, false));
    reduced.chain(ALIKE.into_iter().map(move |run| case(run, true)))
}

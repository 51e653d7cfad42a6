//! The runs of reduced searches: what is too large for a full search, or was never tried in full.

use meshlock_protocol::Spec;

use super::{Case, case_of};

/// The runs: the spec, the number of sites, the number of requests of each, who is inside at the start.
const RUNS: [(&str, usize, u8, Option<usize>); 14] = [
    ("suzuki-kasami", 5, 1, None),
    ("singhal-heuristic", 5, 1, None),
    ("raymond", 4, 2, None),
    ("raymond", 5, 1, None),
    ("naimi-trehel", 4, 2, None),
    ("naimi-trehel", 5, 1, None),
    ("central", 4, 2, None),
    ("central", 5, 1, None),
    ("token-ring", 4, 2, None),
    ("token-ring", 5, 1, None),
    ("delegated", 5, 1, None),
    ("srimani-reddy", 5, 1, None),
    ("neilsen-mizuno", 4, 2, None),
    ("neilsen-mizuno", 5, 1, None),
];

/// All of them, with one permit, on the network that the algorithm claims to need.
pub(super) fn cases() -> impl Iterator<Item = Case> {
    RUNS.into_iter().map(|(spec, sites, entries, holder)| {
        let parsed: Spec = spec.parse().expect("a spec of the registry");
        Case { holder, reduces: true, ..case_of(parsed.info, spec, (sites, entries, 1)) }
    })
}

//! The matrix: which runs of which algorithms are explored for `docs/CHECKED.md`.
//!
//! Every registered algorithm and each of its listed variants, on the network that it claims to need:
//!
//! - two and three sites that request twice, four that request once; nobody, the first or the last of three inside at the start;
//! - three sites that may leave and request again in one step;
//! - every mix of modes where the algorithm knows modes, with and without changes of mode, as far as such runs fit into memory;
//! - K permits where the algorithm gives them: one and two, with four sites three as well;
//! - two and three sites that request without end, where such a run ends by itself or within a window;
//! - one failure where its paper handles failures, and a failure with a recovery where its paper handles that.
//!
//! Where a paper leaves choices open, its algorithm is explored with every choice as well: two sites that request twice, three that
//! request once and three that request twice, with one and two permits, but for three runs of the last kind that have more than four
//! million states: no bypass bound is computed for so many.
//!
//! Larger runs are explored by reduced searches, and still larger ones up to symmetry as well, in tables of their own.

mod record;
mod reduced;
mod sharing;

pub use record::{CaseEnding, CaseOutcome, CaseRecord, HEADS, Malformed, is_current, read, write};

use meshlock_protocol::registry::info::{Info, Permits};
use meshlock_protocol::registry::{ALL, AnyPlan};
use meshlock_protocol::{Cluster, Mode, Spec};

use crate::{Bounds, Entries, NetworkModel};

/// Runs with at most this many states are explored by every run of the tests, and by `meshlock check all --small`.
pub(crate) const SMALL: usize = 100_000;

/// The same for a reduced search, which takes longer for each state that it keeps.
pub(crate) const SMALL_REDUCED: usize = 10_000;

/// Larger runs with at most this many states are explored by a test that is left to `cargo xtask soak`.
pub(crate) const MEDIUM: usize = 300_000;

/// The runs in which sites request without end, each with its window: those that end.
const ENDLESS: [(&str, usize, Option<u8>); 34] = [
    ("lamport", 2, None),
    ("lamport:omit-replies", 2, None),
    ("ricart-agrawala", 2, None),
    ("ricart-agrawala", 3, None),
    ("carvalho-roucairol", 2, Some(3)),
    ("carvalho-roucairol", 3, Some(3)),
    ("singhal-dynamic", 2, Some(3)),
    ("singhal-dynamic", 3, Some(3)),
    ("lodha-kshemkalyani", 2, None),
    ("maekawa", 2, Some(3)),
    ("maekawa", 3, Some(2)),
    ("majority", 2, Some(3)),
    ("majority", 3, Some(2)),
    ("sanders", 2, Some(3)),
    ("suzuki-kasami", 2, None),
    ("raymond", 2, None),
    ("raymond", 3, None),
    ("naimi-trehel", 2, None),
    ("naimi-trehel", 3, None),
    ("central", 2, None),
    ("central", 3, None),
    ("token-ring", 2, None),
    ("token-ring", 3, None),
    ("delegated", 2, Some(3)),
    ("delegated", 3, Some(2)),
    ("raymond-k", 2, None),
    ("raymond-k", 3, None),
    ("srimani-reddy", 2, None),
    ("neilsen-mizuno", 2, None),
    ("neilsen-mizuno", 3, None),
    ("neilsen-mizuno:tree=line", 3, None),
    ("cao-singhal", 2, Some(3)),
    ("cao-singhal:deadlock=yield", 2, None),
    ("cao-singhal:deadlock=yield", 3, Some(2)),
];

/// The algorithms, with permits, of which three sites that request twice are not explored with every choice.
const TOO_LARGE: [(&str, usize); 3] = [("tree-quorum", 1), ("majority", 1), ("srimani-reddy", 2)];

/// One run of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one condition of a run")]
pub struct Case {
    /// The algorithm with its options, as a spec.
    pub spec: String,
    pub sites: usize,
    /// The number of requests of each site.
    pub entries: Entries,
    /// The window of an endless run.
    pub window: Option<u8>,
    pub permits: usize,
    /// The modes that processes ask for.
    pub modes: Vec<Mode>,
    /// How often a process that is inside may change its mode.
    pub changes: u8,
    /// The site that is inside at the start.
    pub holder: Option<usize>,
    /// The mode in which it is.
    pub held: Mode,
    pub network: NetworkModel,
    /// The number of sites that may fail.
    pub crashes: u8,
    pub recovers: bool,
    /// Whether sites may leave and request again in one step.
    pub returns: bool,
    /// Whether the search is reduced.
    pub reduces: bool,
    /// Whether the search is up to symmetry.
    pub up_to_symmetry: bool,
}

impl Case {
    /// The bounds of the exploration.
    pub fn bounds(&self) -> Bounds {
        let bounds = Bounds::new(self.sites, 1).with_permits(self.permits).over(self.network);
        let holders: Vec<(usize, Mode)> = self.holder.map(|site| (site, self.held)).into_iter().collect();
        let bounds = bounds.shared_by(&holders).expect("one of the sites");
        let bounds = bounds.with_modes(&self.modes).with_changes(self.changes);
        let Case { entries, window, crashes, returns, .. } = *self;
        let bounds = Bounds { entries, window, crashes, recoveries: self.recovers, returns, ..bounds };
        let bounds = if self.reduces { bounds.reduced() } else { bounds };
        if self.up_to_symmetry { bounds.up_to_symmetry() } else { bounds }
    }

    /// The algorithm's name, without its options.
    pub fn algorithm(&self) -> &str {
        self.spec.split(':').next().unwrap_or(&self.spec)
    }

    /// Whether `name` stands for this run: the name of the algorithm stands for all its variants, a spec for itself.
    pub fn is_named(&self, name: &str) -> bool {
        self.algorithm() == name || self.spec == name
    }
}

/// Every run, in the order in which the registry lists the algorithms.
pub fn cases() -> Vec<Case> {
    let cases = |info: &'static Info| {
        let open = info.open_spec().into_iter().flat_map(move |spec| open_cases_of(info, &spec));
        info.specs().flat_map(move |spec| cases_of(info, spec)).chain(open)
    };
    ALL.iter().copied().flat_map(cases).chain(reduced::cases()).collect()
}

/// The runs of a spec with every choice, which has far more states than one with a policy.
fn open_cases_of(info: &Info, spec: &str) -> Vec<Case> {
    let sizes = [(2, 2), (3, 1), (3, 2)].into_iter();
    let cases = sizes.flat_map(|(sites, entries)| permits(info, 2).map(move |k| (sites, entries, k)));
    let cases = cases
        .filter(|&(sites, entries, k)| (sites, entries) != (3, 2) || !TOO_LARGE.contains(&(info.name, k)));
    cases.map(|(sites, entries, k)| case_of(info, spec, (sites, entries, k))).collect()
}

/// A run without failures, with nobody inside at the start: its sites, their entries, the permits.
fn case_of(info: &Info, spec: &str, (sites, entries, permits): (usize, u8, usize)) -> Case {
    Case {
        spec: spec.to_owned(),
        sites,
        entries: Entries::Each(entries),
        window: None,
        permits,
        modes: vec![Mode::Exclusive],
        changes: 0,
        holder: None,
        held: Mode::Exclusive,
        network: info.channels.into(),
        crashes: 0,
        recovers: false,
        returns: false,
        reduces: false,
        up_to_symmetry: false,
    }
}

/// The runs of one spec.
fn cases_of(info: &Info, spec: &str) -> Vec<Case> {
    let case = |sites, entries, permits| case_of(info, spec, (sites, entries, permits));
    let mut cases = Vec::new();
    cases.extend(permits(info, 2).map(|k| case(2, 2, k)));
    for holder in [None, Some(0), Some(2)] {
        cases.extend(permits(info, 2).map(|k| Case { holder, ..case(3, 2, k) }));
    }
    cases.extend(permits(info, 2).map(|k| Case { returns: true, ..case(3, 2, k) }));
    cases.extend(permits(info, 3).map(|k| case(4, 1, k)));
    if info.failures.crash {
        cases.extend([1, 2].map(|entries| Case { crashes: 1, ..case(3, entries, 1) }));
    }
    if info.failures.recovery {
        // The papers that let a failed site recover assume FIFO channels for it.
        let back = |case| Case { crashes: 1, recovers: true, network: NetworkModel::Fifo, ..case };
        cases.extend([back(case(2, 2, 1)), back(case(3, 1, 1)), back(case(3, 2, 1))]);
    }
    let endless = ENDLESS.iter().filter(|(listed, ..)| *listed == spec);
    cases.extend(endless.map(|&(_, sites, window)| Case {
        entries: Entries::Endless,
        window,
        ..case(sites, 1, 1)
    }));
    let parsed: Spec = spec.parse().expect("a spec of the registry");
    cases.extend(sharing::cases(info, spec));
    // Not every algorithm runs in every cluster: a plane, for example, exists for some numbers of sites only.
    cases.retain(|case| AnyPlan::new(&parsed, Cluster::of(case.sites).with_permits(case.permits)).is_ok());
    cases
}

/// One permit, or as many as `most` where the algorithm gives K.
fn permits(info: &Info, most: usize) -> impl Iterator<Item = usize> + use<> {
    match info.permits {
        Permits::One => 1..=1,
        Permits::Many | Permits::Chosen => 1..=most,
    }
}

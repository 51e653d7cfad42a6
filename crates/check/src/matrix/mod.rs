//! The matrix: which runs of which algorithms are explored for `docs/CHECKED.md`.
//!
//! Every registered algorithm and each of its listed variants, on the network that it claims to need:
//!
//! - two and three sites that request twice, four that request once; nobody, the first or the last of three inside at the start;
//! - three sites that may leave and request again in one step;
//! - K permits where the algorithm gives them: one and two, with four sites three as well;
//! - one failure where its paper handles failures, and a failure with a recovery where its paper handles that.

mod record;

pub use record::{CaseEnding, CaseOutcome, CaseRecord, HEADS, Malformed, is_current, read, write};

use meshlock_protocol::registry::info::{Info, Permits};
use meshlock_protocol::registry::{ALL, AnyPlan};
use meshlock_protocol::{Cluster, Spec};

use crate::{Bounds, NetworkModel};

/// Runs with at most this many states are explored by every run of the tests, and by `meshlock check all --small`.
pub(crate) const SMALL: usize = 100_000;

/// Larger runs with at most this many states are explored by a test that is left to `cargo xtask soak`.
pub(crate) const MEDIUM: usize = 300_000;

/// One run of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The algorithm with its options, as a spec.
    pub spec: String,
    pub sites: usize,
    /// The number of requests of each site.
    pub entries: u8,
    pub permits: usize,
    /// The site that is inside at the start.
    pub holder: Option<usize>,
    pub network: NetworkModel,
    /// The number of sites that may fail.
    pub crashes: u8,
    pub recovers: bool,
    /// Whether sites may leave and request again in one step.
    pub returns: bool,
}

impl Case {
    /// The bounds of the exploration.
    pub fn bounds(&self) -> Bounds {
        let bounds = Bounds::new(self.sites, self.entries).with_permits(self.permits).over(self.network);
        let holders: Vec<usize> = self.holder.into_iter().collect();
        let bounds = bounds.held_by(&holders).expect("one of the sites");
        Bounds { crashes: self.crashes, recoveries: self.recovers, returns: self.returns, ..bounds }
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
    ALL.iter().flat_map(|info| info.specs().flat_map(move |spec| cases_of(info, spec))).collect()
}

/// The runs of one spec.
fn cases_of(info: &Info, spec: &str) -> Vec<Case> {
    let case = |sites, entries, permits| Case {
        spec: spec.to_owned(),
        sites,
        entries,
        permits,
        holder: None,
        network: info.channels.into(),
        crashes: 0,
        recovers: false,
        returns: false,
    };
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
    let parsed: Spec = spec.parse().expect("a spec of the registry");
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

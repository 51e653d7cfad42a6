//! Which of the usual assumptions an algorithm really needs: each is dropped in turn, and small runs are explored
//! without it.
//!
//! It starts with the most favourable network: messages keep their order, none is lost or duplicated, no site fails.
//! Then the order is dropped; if the algorithm does without it, everything after that is tried without it too. On that
//! network one message may arrive twice, then one may be lost, then one site may fail. An assumption is needed if a
//! property is violated in a small run without it; the smallest such run is reported with its shortest path. If nothing
//! is violated, that shows only that no run of the sizes tried needs the assumption.

use meshlock_protocol::registry::info::Permits;
use meshlock_protocol::{PlanError, Spec};

use crate::{Bounds, NetworkModel, Progress, Report, Verdict, explore_spec_with};

/// An assumption of papers about network and sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// Nothing is dropped: the algorithm under all assumptions.
    None,
    /// Messages between two sites keep their order.
    Order,
    /// No message arrives twice.
    NoDuplicates,
    NoLosses,
    NoFailures,
}

impl Assumption {
    /// All assumptions, in the order in which they are dropped.
    pub const ALL: [Assumption; 5] = [
        Assumption::None,
        Assumption::Order,
        Assumption::NoDuplicates,
        Assumption::NoLosses,
        Assumption::NoFailures,
    ];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Assumption::None => "none",
            Assumption::Order => "order",
            Assumption::NoDuplicates => "no-duplicates",
            Assumption::NoLosses => "no-losses",
            Assumption::NoFailures => "no-failures",
        }
    }

    /// Describes what is explored without the assumption.
    pub const fn about(self) -> &'static str {
        match self {
            Assumption::None => "FIFO channels, nothing lost, doubled or failing",
            Assumption::Order => "messages overtake each other",
            Assumption::NoDuplicates => "one message arrives twice",
            Assumption::NoLosses => "one message is lost",
            Assumption::NoFailures => "one site fails",
        }
    }

    /// `bounds` without this assumption.
    fn dropped_from(self, bounds: Bounds, survivors: bool) -> Bounds {
        match self {
            Assumption::None => bounds,
            Assumption::Order => bounds.unordered(),
            Assumption::NoDuplicates => bounds.with_duplicates(1),
            Assumption::NoLosses => bounds.with_losses(1),
            Assumption::NoFailures => Bounds { crashes: 1, survivors, ..bounds },
        }
    }
}

/// One exploration without an assumption.
#[derive(Clone, Debug)]
pub struct Trial {
    pub bounds: Bounds,
    pub report: Report,
}

/// The result of dropping one assumption: every run that was tried, the smallest first, up to the first one with a
/// violation.
#[derive(Clone, Debug)]
pub struct Weakening {
    pub assumption: Assumption,
    pub trials: Vec<Trial>,
}

impl Weakening {
    /// The run with a violation, if there is one.
    pub fn broken(&self) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.report.verdict.property().is_some())
    }

    /// The largest run that was explored completely and holds.
    pub fn largest(&self) -> Option<&Trial> {
        self.trials.iter().rev().find(|trial| trial.report.verdict == Verdict::Holds)
    }
}

/// Sites and entries of the runs that are tried.
const SIZES: [(usize, u8); 4] = [(2, 1), (2, 2), (3, 1), (3, 2)];

/// Drops one assumption after the other. Each run may take `max_states` and `max_memory` of `limits`; a run that
/// reaches them counts neither as holding nor as violated.
pub fn weaken(
    spec: &Spec,
    limits: &Bounds,
    mut progress: impl FnMut(Assumption, &Progress),
) -> Result<Vec<Weakening>, PlanError> {
    let mut network = NetworkModel::Fifo;
    let mut weakenings = Vec::new();
    for assumption in Assumption::ALL {
        let trials = trials(spec, assumption, network, limits, &mut |now| progress(assumption, now))?;
        let weakening = Weakening { assumption, trials };
        let is_needed = weakening.broken().is_some();
        weakenings.push(weakening);
        if assumption == Assumption::None && is_needed {
            break;
        }
        if assumption == Assumption::Order && !is_needed {
            network = NetworkModel::Unordered;
        }
    }
    Ok(weakenings)
}

fn trials(
    spec: &Spec,
    assumption: Assumption,
    network: NetworkModel,
    limits: &Bounds,
    progress: &mut impl FnMut(&Progress),
) -> Result<Vec<Trial>, PlanError> {
    let max_permits = if spec.info.permits == Permits::One { 1 } else { 2 };
    let mut trials = Vec::new();
    for (sites, entries) in SIZES {
        for permits in (1..=max_permits).filter(|&permits| permits < sites) {
            let bounds = Bounds::new(sites, entries).with_permits(permits).over(network);
            let bounds = Bounds {
                max_states: limits.max_states,
                max_memory: limits.max_memory,
                ..assumption.dropped_from(bounds, !spec.info.failures.crash)
            };
            let report = explore_spec_with(spec, &bounds, &mut *progress)?;
            let is_broken = report.verdict.property().is_some();
            trials.push(Trial { bounds, report });
            if is_broken {
                return Ok(trials);
            }
        }
    }
    Ok(trials)
}

//! Which of the usual assumptions an algorithm really needs: each is dropped in turn, and small runs are explored
//! without it.
//!
//! It starts with the most favourable network: messages keep their order, none is lost or duplicated, no site fails.
//! Then the order is dropped; if nothing shows that the algorithm needs it, and the registry does not say so, everything after that is
//! tried without it too. On that network one message may arrive twice, then one may be lost, then one site may fail.
//!
//! Small runs are explored completely, as the algorithm is asked for and then with every choice that its paper leaves open. If a property is
//! violated in one of them, the assumption is needed, and the smallest such run is reported with its shortest path. If
//! not, random walks look for a violation in larger runs. If they find none either, that shows only that the runs which were explored
//! do not need the assumption: nothing here ever shows that an assumption is *not* needed.

use meshlock_protocol::registry::info::{Channels, Info, Permits};
use meshlock_protocol::{PlanError, Spec};

use crate::walk::{Walked, Walks, walk};
use crate::{Bounds, NetworkModel, Progress, Report, Step, Verdict, explore_spec_with};

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

    /// Whether the registry says that the algorithm makes this assumption.
    pub fn is_made_by(self, info: &Info) -> bool {
        match self {
            Assumption::None => false,
            Assumption::Order => info.channels == Channels::Fifo,
            // "Reliable channels" neither lose nor double anything, and every algorithm assumes them.
            Assumption::NoDuplicates | Assumption::NoLosses => true,
            Assumption::NoFailures => !info.failures.crash,
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
    /// The algorithm, as asked for or with every choice.
    pub spec: Spec,
    pub bounds: Bounds,
    pub report: Report,
}

/// Random walks without an assumption, in a run that is too large to be explored.
#[derive(Clone, Debug)]
pub struct WalkTrial {
    /// The algorithm, as asked for or with every choice.
    pub spec: Spec,
    pub bounds: Bounds,
    pub walked: Walked,
}

/// A violation that shows that an assumption is needed.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    pub spec: &'a Spec,
    pub bounds: &'a Bounds,
    pub verdict: &'a Verdict,
    /// The path to it: a shortest one, unless `is_walked`.
    pub path: &'a [Step],
    /// The position in the path where the cycle begins that can repeat for ever, if a site starves.
    pub round: Option<usize>,
    /// Whether a random walk has met it.
    pub is_walked: bool,
}

/// The result of dropping one assumption: every run that was tried, the smallest first, up to the first one with a
/// violation.
#[derive(Clone, Debug)]
pub struct Weakening {
    pub assumption: Assumption,
    /// Whether the registry says that the algorithm makes it.
    pub is_made: bool,
    pub trials: Vec<Trial>,
    /// What was tried after those, in larger runs.
    pub walks: Vec<WalkTrial>,
}

impl Weakening {
    /// The violation that shows the need, if there is one.
    pub fn need(&self) -> Option<Need<'_>> {
        let explored = self.trials.iter().find_map(|Trial { spec, bounds, report }| {
            report.verdict.property()?;
            let Report { verdict, path, round, .. } = report;
            Some(Need { spec, bounds, verdict, path, round: *round, is_walked: false })
        });
        let met = self.walks.iter().find_map(|WalkTrial { spec, bounds, walked }| {
            let (verdict, path) = walked.found.as_ref()?;
            Some(Need { spec, bounds, verdict, path, round: None, is_walked: true })
        });
        explored.or(met)
    }

    /// Whether the registry is wrong: the algorithm needs what it does not assume, or does not even hold with all assumptions.
    pub fn contradicts_registry(&self) -> bool {
        self.need().is_some() && !self.is_made
    }

    /// The largest run that was explored completely and holds.
    pub fn largest(&self) -> Option<&Trial> {
        self.trials.iter().rev().find(|trial| trial.report.verdict == Verdict::Holds)
    }
}

/// Sites and entries of the runs that are explored.
const SIZES: [(usize, u8); 4] = [(2, 1), (2, 2), (3, 1), (3, 2)];

/// Sites and entries of the runs in which random walks look for what exploration did not find.
const WALK_SIZES: [(usize, u8); 4] = [(3, 3), (4, 2), (5, 1), (5, 2)];

/// Drops one assumption after the other. Each run may take `max_states` and `max_memory` of `limits`; a run that
/// reaches them counts neither as holding nor as violated. In each of the larger runs so many `walks` are made.
pub fn weaken(
    spec: &Spec,
    limits: &Bounds,
    walks: Walks,
    mut progress: impl FnMut(Assumption, &Progress),
) -> Result<Vec<Weakening>, PlanError> {
    let mut network = NetworkModel::Fifo;
    let mut weakenings = Vec::new();
    for assumption in Assumption::ALL {
        let dropped = DroppedAssumption { assumption, network, limits, walks, specs: specs(spec) };
        let weakening = dropped.tried(&mut |now| progress(assumption, now))?;
        let (is_needed, is_made) = (weakening.need().is_some(), weakening.is_made);
        weakenings.push(weakening);
        if assumption == Assumption::None && is_needed {
            break;
        }
        if assumption == Assumption::Order && !is_needed && !is_made {
            network = NetworkModel::Unordered;
        }
    }
    Ok(weakenings)
}

/// The algorithm as it is asked for, and with every choice that its paper leaves open.
fn specs(spec: &Spec) -> Vec<Spec> {
    let open = spec.clone().with_every_choice();
    if open.to_string() == spec.to_string() { vec![open] } else { vec![spec.clone(), open] }
}

/// An assumption to drop, and how far to look for a need of it.
struct DroppedAssumption<'a> {
    assumption: Assumption,
    network: NetworkModel,
    limits: &'a Bounds,
    walks: Walks,
    specs: Vec<Spec>,
}

impl DroppedAssumption<'_> {
    fn tried(&self, progress: &mut dyn FnMut(&Progress)) -> Result<Weakening, PlanError> {
        let (assumption, is_made) = (self.assumption, self.assumption.is_made_by(self.specs[0].info));
        let mut weakening = Weakening { assumption, is_made, trials: Vec::new(), walks: Vec::new() };
        for (spec, bounds) in self.runs(&SIZES) {
            let report = explore_spec_with(&spec, &bounds, &mut *progress)?;
            weakening.trials.push(Trial { spec, bounds, report });
            if weakening.need().is_some() {
                return Ok(weakening);
            }
        }
        for (spec, bounds) in self.runs(&WALK_SIZES) {
            let walked = walk(&spec, &bounds, self.walks)?;
            weakening.walks.push(WalkTrial { spec, bounds, walked });
            if weakening.need().is_some() {
                break;
            }
        }
        Ok(weakening)
    }

    /// The runs of these sizes, the smallest first.
    fn runs(&self, sizes: &'static [(usize, u8)]) -> impl Iterator<Item = (Spec, Bounds)> {
        let info = self.specs[0].info;
        let max_permits = if info.permits == Permits::One { 1 } else { 2 };
        sizes.iter().flat_map(move |&(sites, entries)| {
            let permits = (1..=max_permits).filter(move |&permits| permits < sites);
            permits.flat_map(move |permits| {
                let bounds = Bounds::new(sites, entries).with_permits(permits).over(self.network);
                let bounds = Bounds {
                    max_states: self.limits.max_states,
                    max_memory: self.limits.max_memory,
                    ..self.assumption.dropped_from(bounds, !info.failures.crash)
                };
                self.specs.iter().map(move |spec| (spec.clone(), bounds.clone()))
            })
        })
    }
}

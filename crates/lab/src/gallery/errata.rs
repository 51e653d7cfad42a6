//! The errata: their texts, and their counterexamples as runs, which the checker finds again on request.

use meshlock_check::errata::{Erratum, Evidence, all, find};
use meshlock_check::{Step, StepEvent};
use meshlock_protocol::Cluster;
use meshlock_protocol::world::Action;
use serde::Serialize;

use crate::act::{Acts, ChosenAct, MessagePlace, UserAct};
use crate::setup::RunSetup;

/// An erratum as the gallery lists it.
#[derive(Clone, Debug, Serialize)]
pub struct ErratumEntry {
    pub id: &'static str,
    /// The paper and the place in it.
    pub(crate) source: &'static str,
    /// The error in a few words.
    pub title: &'static str,
    pub(crate) printed: &'static str,
    pub(crate) wrong: &'static str,
    pub(crate) repair: &'static str,
    /// Whether it is shown by a run rather than by a calculation.
    pub has_run: bool,
}

/// The counterexample of an erratum.
#[derive(Clone, Debug, Serialize)]
pub struct ErratumRun {
    #[serde(flatten)]
    pub(crate) entry: ErratumEntry,
    /// The run as an address, if there is a violation.
    pub address: Option<String>,
    /// The property that it violates.
    pub property: Option<&'static str>,
    /// The verdict at its end.
    pub(crate) outcome: Option<String>,
    pub steps: usize,
    /// The step where the cycle begins that can repeat for ever, if a site starves.
    pub(crate) round: Option<usize>,
    /// The calculated quantities: name, printed value, right value.
    pub calculated: Vec<[String; 3]>,
}

/// Every erratum, by paper.
pub fn errata() -> impl Iterator<Item = ErratumEntry> {
    all().map(listed)
}

fn listed(erratum: &Erratum) -> ErratumEntry {
    let Erratum { id, source, title, printed, wrong, repair, ref evidence, .. } = *erratum;
    let has_run = !matches!(evidence, Evidence::Calculation(_));
    ErratumEntry { id, source, title, printed, wrong, repair, has_run }
}

/// Investigates the erratum of this name: explores until the printed rules violate a property, or calculates.
pub fn erratum(id: &str) -> Option<ErratumRun> {
    let erratum = find(id)?;
    let found = erratum.counterexample();
    let calculated = match &erratum.evidence {
        Evidence::Calculation(calculate) => {
            calculate().into_iter().map(|row| [row.what, row.printed, row.right]).collect()
        }
        Evidence::Exploration { .. } | Evidence::Assumption { .. } | Evidence::Suspicion { .. } => Vec::new(),
    };
    let address = found.as_ref().map(|found| {
        let cluster = Cluster::of(found.run.sites).with_permits(found.run.permits);
        let plain = RunSetup::by_hand(found.run.spec, cluster);
        let acts = Acts::script(found.path.iter().map(act).collect());
        RunSetup { fifo: !found.run.unordered, until: found.path.len(), acts, ..plain }.to_string()
    });
    Some(ErratumRun {
        entry: listed(erratum),
        address,
        property: found.as_ref().map(|found| found.property.name()),
        outcome: found.as_ref().map(|found| found.outcome.clone()),
        steps: found.as_ref().map_or(0, |found| found.path.len()),
        round: found.as_ref().and_then(|found| found.round),
        calculated,
    })
}

/// A step of the checker as an act.
fn act(step: &Step) -> ChosenAct {
    let act = match step.event {
        StepEvent::Fail(site) => UserAct::Fail(site),
        StepEvent::Recover(site) => UserAct::Recover(site),
        StepEvent::Act(action) => match action {
            Action::Request(site) => UserAct::Request(site),
            Action::Release(site) => UserAct::Release(site),
            Action::Return(site) => UserAct::Return(site),
            Action::Deliver { from, to, nth } => UserAct::Deliver(MessagePlace { from, to, nth }),
            Action::Duplicate { from, to, nth } => UserAct::Duplicate(MessagePlace { from, to, nth }),
            Action::Lose { from, to, nth } => UserAct::Drop(MessagePlace { from, to, nth }),
            Action::Wake(site) => UserAct::Wake(site),
            Action::Tell { to, about } => UserAct::Tell { to, about },
            Action::RequestAs(..) | Action::ReturnAs(..) | Action::ChangeMode(..) => {
                panic!("no erratum is about an algorithm with modes")
            }
        },
    };
    ChosenAct { act, answers: step.answers.clone() }
}

//! The gallery: the papers' worked examples and figures as prepared runs, and the errata's counterexamples.
//!
//! An entry is a run like any other: a setup and acts, which the page puts into the address bar. Its scenes say what happens at
//! which step, and its facts what the figure shows; they are checked against the run each time it is shown, so that a caption
//! cannot claim what the run does not do.

mod bulgannawar;
mod chapter;
mod errata;
mod fact;
mod lodha;
mod sanders;
mod singhal;

pub use errata::{ErratumEntry, errata, erratum};
pub use fact::{Fact, See};

use meshlock_protocol::Cluster;
use serde::Serialize;

use crate::run::Run;
use crate::setup::{RunSetup, SetupError};

/// A description of what happens from a step on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scene {
    pub step: usize,
    pub text: &'static str,
}

/// A prepared run.
#[derive(Clone, Copy, Debug)]
pub struct PreparedRun {
    /// Its name in addresses.
    pub id: &'static str,
    /// The paper and the place in it.
    pub(crate) source: &'static str,
    /// What it shows, in one line.
    pub title: &'static str,
    pub(crate) caption: &'static str,
    /// The algorithm and its options.
    pub(crate) algorithm: &'static str,
    pub(crate) sites: usize,
    /// The sites that are inside at the start.
    pub(crate) holders: &'static [usize],
    pub(crate) acts: &'static str,
    pub(crate) until: usize,
    pub scenes: &'static [Scene],
    /// The facts that must hold.
    pub facts: &'static [Fact],
}

/// The result of checking a fact.
#[derive(Clone, Debug, Serialize)]
pub struct FactResult {
    pub says: &'static str,
    pub step: usize,
    /// Whether it holds; `None` in a run that does not get to its step.
    pub holds: Option<bool>,
}

/// Every prepared run, by paper.
pub fn entries() -> impl Iterator<Item = &'static PreparedRun> {
    [chapter::ENTRIES, lodha::ENTRIES, sanders::ENTRIES, singhal::ENTRIES, bulgannawar::ENTRIES]
        .into_iter()
        .flatten()
}

/// The prepared run with this name.
pub fn entry(id: &str) -> Option<&'static PreparedRun> {
    entries().find(|entry| entry.id == id)
}

impl PreparedRun {
    /// An entry with nothing filled in.
    const PLAIN: PreparedRun = PreparedRun {
        id: "",
        source: "",
        title: "",
        caption: "",
        algorithm: "",
        sites: 3,
        holders: &[],
        acts: "",
        until: 0,
        scenes: &[],
        facts: &[],
    };

    /// The run as a setup.
    pub fn setup(&self) -> Result<RunSetup, SetupError> {
        let plain = RunSetup::by_hand(self.algorithm, Cluster::of(self.sites));
        Ok(RunSetup { holders: self.holders.to_vec(), acts: self.acts.parse()?, until: self.until, ..plain })
    }

    /// Checks each fact in a run: this one, or one that a person has made of it.
    pub fn judge(&self, run: &dyn Run) -> Vec<FactResult> {
        let judged = |&Fact { step, says, see }: &Fact| {
            let holds = (step <= run.steps()).then(|| see.is_in(&run.moment(step)));
            FactResult { says, step, holds }
        };
        self.facts.iter().map(judged).collect()
    }
}

/// A scene, in one line of a table.
const fn scene(step: usize, text: &'static str) -> Scene {
    Scene { step, text }
}

/// A fact, in one line of a table.
const fn fact(step: usize, says: &'static str, see: See) -> Fact {
    Fact { step, says, see }
}

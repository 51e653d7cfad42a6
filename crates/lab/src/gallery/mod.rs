//! The papers' worked examples and figures as prepared runs, and the errata's counterexamples, each one click away.
//!
//! An entry is a run like any other: a setup and acts, which the page puts into the address bar. Its scenes say what to see at
//! which step, and its facts what the figure shows; they are checked against the run each time it is shown, so that a caption
//! cannot say what the machine does not do.

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

use crate::run::{Run, play};
use crate::setup::{Setup, SetupError};

/// What to see from a step on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scene {
    /// After so many steps.
    pub step: usize,
    /// What is seen there.
    pub text: &'static str,
}

/// A prepared run.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name in addresses.
    pub id: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// What to know before it.
    pub caption: &'static str,
    /// The algorithm and its options.
    pub algorithm: &'static str,
    /// How many sites.
    pub sites: usize,
    /// Who is inside at the start.
    pub holders: &'static [usize],
    /// What is done, and when.
    pub acts: &'static str,
    /// How many steps.
    pub until: usize,
    /// What to see, in order.
    pub scenes: &'static [Scene],
    /// What must be so.
    pub facts: &'static [Fact],
}

/// What became of a fact.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What it says.
    pub says: &'static str,
    /// After how many steps.
    pub step: usize,
    /// Whether it is so.
    pub holds: bool,
}

/// Every prepared run, by paper.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    [chapter::ENTRIES, lodha::ENTRIES, sanders::ENTRIES, singhal::ENTRIES, bulgannawar::ENTRIES]
        .into_iter()
        .flatten()
}

/// The one with this name.
pub fn entry(id: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.id == id)
}

impl Entry {
    /// Nothing said yet.
    const PLAIN: Entry = Entry {
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
    pub fn setup(&self) -> Result<Setup, SetupError> {
        let plain = Setup::by_hand(self.algorithm, Cluster::of(self.sites));
        Ok(Setup { holders: self.holders.to_vec(), acts: self.acts.parse()?, until: self.until, ..plain })
    }

    /// Plays it and looks at each fact.
    pub fn judge(&self) -> Result<Vec<Judged>, SetupError> {
        let run = play(self.setup()?)?;
        Ok(self.facts.iter().map(|fact| judged(&*run, fact)).collect())
    }
}

fn judged(run: &dyn Run, fact: &Fact) -> Judged {
    let Fact { step, says, see } = *fact;
    Judged { says, step, holds: step <= run.steps() && see.is_in(&run.moment(step)) }
}

/// A scene, in one line of a table.
const fn scene(step: usize, text: &'static str) -> Scene {
    Scene { step, text }
}

/// A fact, in one line of a table.
const fn fact(step: usize, says: &'static str, see: See) -> Fact {
    Fact { step, says, see }
}

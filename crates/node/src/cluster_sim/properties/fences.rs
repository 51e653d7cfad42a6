//! Fences of a lock strictly increase: per slot where permits are numbered, per site where they are not.

use std::collections::BTreeMap;

use meshlock_protocol::Fence;

use super::{Verdict, broken};
use crate::cluster_sim::clock::Moment;
use crate::names::LockName;

/// Which fences increase together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Slot(u32),
    Site(usize),
}

/// The last fence of every line of every lock.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster_sim) struct Fences(BTreeMap<(LockName, Line), Fence>);

impl Fences {
    pub(in crate::cluster_sim) fn on_granted(
        &mut self,
        lock: &LockName,
        machine: usize,
        slot: Option<u32>,
        fence: Fence,
        now: Moment,
    ) -> Verdict {
        let line = slot.map_or(Line::Site(machine), Line::Slot);
        match self.0.insert((lock.clone(), line), fence) {
            Some(last) if last >= fence => {
                broken("fences", now, format!("{lock} {line:?}: {fence} at s{machine} follows {last}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

//! Fences of a lock strictly increase: per slot where permits are numbered, per site where they are not.

use std::collections::BTreeMap;

use meshlock_protocol::Fence;

use super::{Verdict, broken};
use crate::clock::Moment;
use meshlock_cluster::names::LockName;

/// Which fences increase together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Slot(u32),
    Site(usize),
}

/// The last fence of every line of every lock.
#[derive(Clone, Debug)]
pub(crate) struct Fences {
    last: BTreeMap<(LockName, Line), Fence>,
    /// Whether clocks keep to the bound. If not, a site that was left out may grant once more, with an old fence: what the
    /// lock protects will reject it, which [`super::updates`] checks.
    strict: bool,
}

impl Fences {
    pub(crate) fn new(strict: bool) -> Self {
        Fences { last: BTreeMap::new(), strict }
    }

    pub(crate) fn on_granted(
        &mut self,
        lock: &LockName,
        machine: usize,
        slot: Option<u32>,
        fence: Fence,
        now: Moment,
    ) -> Verdict {
        let line = slot.map_or(Line::Site(machine), Line::Slot);
        match self.last.insert((lock.clone(), line), fence) {
            Some(last) if last >= fence && self.strict => {
                broken("fences", now, format!("{lock} {line:?}: {fence} at s{machine} follows {last}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

//! Fences of a lock strictly increase: per slot where permits are numbered, per site where they are not, and over
//! everything that came before and comes after for a holder that is alone.

use std::collections::BTreeMap;

use meshlock_protocol::Fence;

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::names::LockName;

/// A sequence of fences that must increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FenceSequence {
    Slot(u32),
    Site(usize),
}

/// The last fence of every sequence of every lock.
#[derive(Clone, Debug)]
pub(crate) struct Fences {
    last: BTreeMap<(LockName, FenceSequence), Fence>,
    /// The highest fence of every lock, and the highest of a holder that was alone.
    highest: BTreeMap<LockName, (Fence, Option<Fence>)>,
    /// Whether clocks are within the drift bound. If not, an excluded site may grant once more, with an old fence: the
    /// resource that the lock protects rejects it, which [`super::updates`] checks.
    strict: bool,
}

impl Fences {
    pub(crate) fn new(strict: bool) -> Self {
        Fences { last: BTreeMap::new(), highest: BTreeMap::new(), strict }
    }

    /// Checks a lock with one permit that was claimed and is settled: nobody was granted it meanwhile.
    pub(crate) fn on_settled(
        &self,
        lock: &LockName,
        machine: usize,
        fence: Fence,
        now: Moment,
    ) -> CheckResult {
        let highest = self.highest.get(lock).map(|(all, _)| *all);
        if highest == Some(fence) || !self.strict {
            return Ok(());
        }
        let what = format!("{lock}: the claim with fence {fence} at s{machine} is settled after {highest:?}");
        broken("fences", now, what)
    }

    pub(crate) fn on_granted(
        &mut self,
        lock: &LockName,
        machine: usize,
        (permits, slot): (u32, Option<u32>),
        fence: Fence,
        now: Moment,
    ) -> CheckResult {
        let (highest, alone) =
            self.highest.get(lock).map_or((None, None), |(all, alone)| (Some(*all), *alone));
        let before = if permits == 1 { highest } else { alone };
        if before.is_some_and(|before| before >= fence) && self.strict {
            let what = format!("{lock}: {fence} at s{machine} with {permits} permits follows {before:?}");
            return broken("fences", now, what);
        }
        let alone = if permits == 1 { Some(fence) } else { alone };
        self.highest.insert(lock.clone(), (highest.map_or(fence, |highest| highest.max(fence)), alone));
        let line = slot.map_or(FenceSequence::Site(machine), FenceSequence::Slot);
        match self.last.insert((lock.clone(), line), fence) {
            Some(last) if last >= fence && self.strict => {
                broken("fences", now, format!("{lock} {line:?}: {fence} at s{machine} follows {last}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

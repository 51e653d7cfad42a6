//! Fences of a lock strictly increase: per slot where permits are numbered, per site where they are not, and over
//! everything that came before and comes after for a holder that is alone. Where clients share a permit, the fence of each grant is larger
//! than all those before whose modes exclude it, and than those of its own site.

use std::collections::BTreeMap;

use meshlock_protocol::{Fence, Mode};

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_cluster::names::LockName;

/// A sequence of fences that must increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FenceSequence {
    Slot(u32),
    Site(usize),
}

/// The highest fences of a lock.
#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    /// Of holders of one of several permits.
    semaphore: Option<Fence>,
    /// Of holders of the one permit, by mode.
    modes: [Option<Fence>; 3],
}

impl Highest {
    /// Returns the highest fence of those with the one permit that exclude this mode.
    fn excluding(&self, mode: Mode) -> Option<Fence> {
        let excluding = Mode::ALL.into_iter().filter(|other| !other.admits(mode));
        excluding.filter_map(|other| self.modes[other as usize]).max()
    }
}

/// The last fence of every sequence of every lock.
#[derive(Clone, Debug)]
pub(crate) struct Fences {
    last: BTreeMap<(LockName, FenceSequence), Fence>,
    highest: BTreeMap<LockName, Highest>,
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
        let highest = self.highest.get(lock).map(|of| of.semaphore.max(of.excluding(Mode::Exclusive)));
        if highest == Some(Some(fence)) || !self.strict {
            return Ok(());
        }
        let what = format!("{lock}: the claim with fence {fence} at s{machine} is settled after {highest:?}");
        broken("fences", now, what)
    }

    pub(crate) fn on_granted(
        &mut self,
        lock: &LockName,
        machine: usize,
        (permits, slot, mode): (u32, Option<u32>, Mode),
        fence: Fence,
        now: Moment,
    ) -> CheckResult {
        let highest = self.highest.entry(lock.clone()).or_default();
        let before = match permits {
            1 => highest.semaphore.max(highest.excluding(mode)),
            _ => highest.modes.into_iter().max().flatten(),
        };
        if before.is_some_and(|before| before >= fence) && self.strict {
            let what = format!("{lock}: {fence} at s{machine} with {permits} permits follows {before:?}");
            return broken("fences", now, what);
        }
        let of_its_kind =
            if permits == 1 { &mut highest.modes[mode as usize] } else { &mut highest.semaphore };
        *of_its_kind = (*of_its_kind).max(Some(fence));
        let slot = slot.filter(|_| permits > 1 || mode == Mode::Exclusive);
        let line = slot.map_or(FenceSequence::Site(machine), FenceSequence::Slot);
        match self.last.insert((lock.clone(), line), fence) {
            Some(last) if last >= fence && self.strict => {
                broken("fences", now, format!("{lock} {line:?}: {fence} at s{machine} follows {last}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

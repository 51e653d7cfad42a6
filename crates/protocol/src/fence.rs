//! Fences for every algorithm, carried by the host.
//!
//! In any correct algorithm for one permit the exit of one critical section happens before the entry of the next:
//! information must have flowed between them. So if the host sends a Lamport clock with every message of a lock
//! and ticks it at each entry, the clock at entry strictly increases from holder to holder, whatever the
//! algorithm. That value, below the view's epoch, is the grant's fencing token. No algorithm knows of it and no
//! message is added.
//!
//! With K numbered permits the same holds slot by slot. With K permits that are not numbered two grants that
//! overlap may carry the same number; each site's own fences still increase.

use std::fmt;

use crate::mutant::{self, Mutant};

/// The number of bits of a fence that the clock takes. The epoch is above them, and the sign bit stays clear.
pub const CLOCK_BITS: u32 = 40;

/// The number of a view. At most 2²³ − 1, so that a fence is a positive `i64`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "u32", try_from = "u32"))]
pub struct Epoch(u32);

impl From<Epoch> for u32 {
    fn from(epoch: Epoch) -> u32 {
        epoch.0
    }
}

impl TryFrom<u32> for Epoch {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        Epoch::new(number).ok_or("an epoch beyond the bits that a fence has for it")
    }
}

impl Epoch {
    /// The largest epoch that fits a fence.
    pub const MAX: Epoch = Epoch((1 << (63 - CLOCK_BITS)) - 1);

    /// The epoch `number`, if a fence can hold it.
    pub fn new(number: u32) -> Option<Self> {
        (number <= Epoch::MAX.0).then_some(Epoch(number))
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The fencing token of a grant: `epoch << 40 | clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fence(i64);

impl Fence {
    /// The number to pass to the resource that the lock protects.
    pub const fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What the host sends with each message of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stamp(u64);

/// A stamp that is larger than any that a run could reach. The peer is faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fence clock {0} is beyond its {CLOCK_BITS} bits")]
pub struct StampOutOfRange(u64);

/// One site's fence clock for one lock in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceClock {
    epoch: Epoch,
    clock: u64,
}

impl FenceClock {
    /// Half of the range: stamps above it are refused, so that no peer can push an honest site's clock out of
    /// its bits. (2³⁹ grants within one view take 17 years at a thousand a second.) A peer that lies right up to the
    /// limit makes the next honest stamps refused: the lock stalls until the next view, and no fence falls back.
    const MAX_STAMP: u64 = 1 << (CLOCK_BITS - 1);

    /// The clock at the start of `epoch`.
    pub const fn new(epoch: Epoch) -> Self {
        FenceClock { epoch, clock: 0 }
    }

    /// The stamp to send with a message.
    pub const fn stamp(&self) -> Stamp {
        Stamp(self.clock)
    }

    /// Observes the stamp of a message that has arrived. A stamp that is refused changes nothing.
    #[inline]
    pub fn observe(&mut self, stamp: Stamp) -> Result<(), StampOutOfRange> {
        if stamp.0 > Self::MAX_STAMP {
            return Err(StampOutOfRange(stamp.0));
        }
        if !mutant::is_on(Mutant::FenceClockDeaf) {
            self.clock = self.clock.max(stamp.0);
        }
        Ok(())
    }

    /// Notes that the process of this site enters. Returns the fence of its grant.
    #[inline]
    pub fn enter(&mut self) -> Fence {
        self.clock += 1;
        assert!(self.clock >> CLOCK_BITS == 0, "an epoch ends before 2^{CLOCK_BITS} grants");
        let value = u64::from(self.epoch.0) << CLOCK_BITS | self.clock;
        Fence(i64::try_from(value).expect("epoch and clock fit 63 bits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_holder_has_a_larger_fence_whatever_its_own_clock_was() {
        let mut first = FenceClock::new(Epoch::default());
        let mut second = FenceClock::new(Epoch::default());
        let fences = [first.enter(), first.enter()];
        second.observe(first.stamp()).unwrap();
        assert!(fences[0] < fences[1] && fences[1] < second.enter());
    }

    #[test]
    fn a_new_epoch_beats_every_clock_of_the_old_one() {
        let mut old = FenceClock { epoch: Epoch(6), clock: (1 << CLOCK_BITS) - 2 };
        let mut new = FenceClock::new(Epoch(7));
        assert!(old.enter() < new.enter());
    }

    #[test]
    fn the_largest_fence_is_a_positive_i64() {
        let mut last = FenceClock { epoch: Epoch::MAX, clock: (1 << CLOCK_BITS) - 2 };
        assert_eq!(last.enter().value(), i64::MAX);
        assert_eq!(Epoch::new(Epoch::MAX.number() + 1), None);
    }

    #[test]
    fn a_stamp_out_of_range_is_refused_and_changes_nothing() {
        let mut clock = FenceClock::new(Epoch::default());
        assert!(clock.observe(Stamp(u64::MAX)).is_err());
        assert_eq!(clock, FenceClock::new(Epoch::default()));
    }
}

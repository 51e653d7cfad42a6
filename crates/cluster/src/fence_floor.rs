//! Fence floors: why the fences of a cluster that is founded again are above those of the one that was lost.
//!
//! A fence is `epoch << 40 | clock`, and each view has an epoch one higher than the last. A cluster that has lost everything does not know
//! how far it had counted. So the first view of a cluster need not have the epoch 1: it has one that the *wall clock* gives, unless an
//! operator names a fence that is to be passed. (The wall clock is read by whoever runs the node; here it is a number of seconds.)
//!
//! **The unit.** An epoch has 23 bits. The clock counts periods of [`UNIT_SECONDS`] since [`ZERO`], the beginning of 2026: they last until
//! 2089. A smaller unit would leave fewer years, a larger one would be passed sooner by a cluster whose views change often.
//!
//! **What holds.** A cluster that was founded by the clock in the period `p` has the epoch `p + n` after `n` further views. If it is lost and
//! founded again by the clock in the period `q`, its fences are above all earlier ones if `p + n < q`: fewer views were agreed on than periods
//! have passed, 360 a day on average. A cluster that has had more is *ahead of the clock* ([`ahead`]): a metric counts by how much, and from a
//! day on ([`MUCH`]) nodes say so in their log and in `meshlock status`, because then only a backup, or a fence that an operator knows, gives a floor.

use meshlock_protocol::CLOCK_BITS;
pub use meshlock_protocol::Epoch;

/// The length of a period of the wall clock, in seconds.
pub const UNIT_SECONDS: u64 = 240;

/// The beginning of the first period, in seconds since 1970: 2026-01-01, 00:00 UTC.
pub const ZERO: u64 = 1_767_225_600;

/// Number of epochs that are left out when a site is made the first of a new cluster: views that it does not know of.
pub const RECOVERY_JUMP: u32 = 1 << 13;

/// Number of epochs by which a cluster may be ahead of the clock before people are told: the periods of a day. Every cluster is a little
/// ahead just after its founding.
pub const MUCH: u32 = 360;

/// Number of views that there must be room for above a floor.
const MIN_ROOM: u32 = 1 << 16;

/// The reason why a cluster cannot begin with an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FloorError {
    /// The wall clock cannot be right.
    #[error(
        "the clock of this machine shows a time before 2026, and a new cluster takes its first fence from it; set the clock, or give \
         a fence that is to be passed (fence_floor)"
    )]
    ClockTooEarly,
    /// So few epochs are left above it that the cluster would soon have no number for its next view.
    #[error("fences have 63 bits, and above {0} there is no room for views; give a smaller one")]
    NoRoom(u64),
}

/// Returns the first epoch of a cluster that is founded at this time, in seconds since 1970.
pub fn by_clock(seconds: u64) -> Result<Epoch, FloorError> {
    let since = seconds.checked_sub(ZERO).ok_or(FloorError::ClockTooEarly)?;
    let period = u32::try_from(since / UNIT_SECONDS).unwrap_or(u32::MAX).saturating_add(1);
    checked(period).ok_or(FloorError::NoRoom(highest_fence(Epoch::MAX)))
}

/// Returns the lowest epoch whose fences are all above this one.
pub fn above(fence: u64) -> Result<Epoch, FloorError> {
    let epoch = u32::try_from(fence >> CLOCK_BITS).ok().and_then(|epoch| checked(epoch.checked_add(1)?));
    epoch.ok_or(FloorError::NoRoom(fence))
}

fn checked(epoch: u32) -> Option<Epoch> {
    Epoch::new(epoch).filter(|epoch| epoch.number() <= Epoch::MAX.number() - MIN_ROOM)
}

/// Returns the highest fence that a grant can have in this epoch.
pub const fn highest_fence(epoch: Epoch) -> u64 {
    ((epoch.number() as u64 + 1) << CLOCK_BITS) - 1
}

/// Returns the number of epochs by which this one is ahead of the clock at this time: if it is not 0, a cluster that were founded again
/// by the clock now could give fences that this one has given. `None` if the clock cannot be right.
pub fn ahead(epoch: Epoch, seconds: u64) -> Option<u32> {
    let clock = match by_clock(seconds) {
        Ok(clock) => clock.number(),
        Err(FloorError::ClockTooEarly) => return None,
        Err(FloorError::NoRoom(_)) => Epoch::MAX.number() - MIN_ROOM,
    };
    Some((epoch.number() + 1).saturating_sub(clock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_protocol::FenceClock;

    const DAY: u64 = 86_400;
    const YEAR: u64 = 365 * DAY;

    fn epoch(number: u32) -> Epoch {
        Epoch::new(number).unwrap()
    }

    #[test]
    fn the_clock_counts_periods_for_sixty_years_and_refuses_times_that_cannot_be() {
        assert_eq!(by_clock(ZERO), Ok(epoch(1)));
        assert_eq!(by_clock(ZERO + UNIT_SECONDS - 1), Ok(epoch(1)));
        assert_eq!(by_clock(ZERO + DAY), Ok(epoch(361)));
        assert!(by_clock(ZERO + 63 * YEAR).is_ok());
        assert_eq!(by_clock(ZERO - 1), Err(FloorError::ClockTooEarly));
        assert_eq!(by_clock(0), Err(FloorError::ClockTooEarly));
        for late in [ZERO + 70 * YEAR, u64::MAX] {
            assert!(matches!(by_clock(late), Err(FloorError::NoRoom(_))), "{late}");
        }
    }

    #[test]
    fn every_fence_of_the_epoch_above_a_fence_is_larger() {
        let last = FenceClock::new(epoch(77)).enter();
        let given = u64::try_from(last.value()).unwrap();
        let next = above(given).unwrap();
        assert!(FenceClock::new(next).enter() > last);
        assert_eq!((next, above(highest_fence(epoch(77)))), (epoch(78), Ok(epoch(78))));
        assert_eq!(above(0), Ok(epoch(1)));
        for hopeless in [u64::MAX, u64::MAX >> 1, highest_fence(epoch(Epoch::MAX.number() - MIN_ROOM))] {
            assert_eq!(above(hopeless), Err(FloorError::NoRoom(hopeless)));
        }
    }

    #[test]
    fn a_cluster_is_ahead_of_the_clock_as_soon_as_a_founding_would_not_pass_it() {
        let now = ZERO + DAY;
        let founded = by_clock(now).unwrap();
        assert_eq!(ahead(epoch(founded.number() - 1), now), Some(0));
        assert_eq!(ahead(founded, now), Some(1), "a founding at this moment would begin with the same epoch");
        assert_eq!(ahead(founded, now + UNIT_SECONDS), Some(0));
        assert_eq!(ahead(epoch(founded.number() + 9), now), Some(10));
        assert_eq!(ahead(founded, 0), None);
    }
}

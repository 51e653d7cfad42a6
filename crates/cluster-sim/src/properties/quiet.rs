//! Where nothing fails and nobody wants anything, the view stays as it is.
//!
//! When every client has been served in the calm, and views have had the time to settle that the property [`starvation`](super::starvation)
//! derives, the run goes on for as long as it takes at most to leave a member out and to let it in again. No view is installed in that time:
//! a cluster in which sites are left out and come back without a cause, or in which some lock or table asks for one view after the other,
//! does so then, however slowly it goes in circles.
//!
//! **Where it is not judged.** A leader whose clock runs faster than the leases allow for measures a lease shorter than it is. If by its clock a
//! lease is over before a healthy member can have renewed it, it leaves that member out again and again, and rightly so: it cannot know better.
//! So the property is judged where
//!
//! > L · (rate of the right clock) / (rate of the fastest clock) ≥ renew_every + grant
//!
//! with *grant*, the longest time that a grant takes: 8 trips (the renewal, a round that had begun, the round, the grant) and 4 writes. Clocks
//! that keep the drift never come near that.

use super::{CheckResult, broken};
use crate::clock::{Clock, Moment};
use meshlock_protocol::Epoch;

/// The time in which a clock's rate is measured, in microseconds.
const MEASURED: u64 = 10_000_000;

/// Returns whether every leader, by the fastest of these clocks as they run from `calm` on, measures a lease of `length` microseconds as long as
/// it takes a member to renew its lease, which is done within `renewal` microseconds.
pub(crate) fn lease_outlasts_renewal(clocks: &[&Clock], calm: Moment, length: u64, renewal: u64) -> bool {
    let gained = |clock: &&Clock| clock.at(calm.after(MEASURED)).since(clock.at(calm)).micros();
    let fastest = clocks.iter().map(gained).max().unwrap_or(MEASURED);
    u128::from(length) * u128::from(MEASURED) >= u128::from(renewal) * u128::from(fastest)
}

/// The time in which nothing happens any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    begins: Moment,
    ends: Moment,
}

impl Quiet {
    /// Returns the quiet time of a run whose clients have all been served `now`: views settle by `settled`, and a site is left out and
    /// comes back within `round` microseconds.
    pub(crate) fn after(now: Moment, settled: Moment, round: u64) -> Self {
        let begins = now.max(settled);
        Quiet { begins, ends: begins.after(round) }
    }

    pub(crate) fn is_over(&self, now: Moment) -> bool {
        now >= self.ends
    }

    /// Checks a view that is installed.
    pub(crate) fn on_view(&self, epoch: Epoch, now: Moment) -> CheckResult {
        if now < self.begins {
            return Ok(());
        }
        let ms = (now.0 - self.begins.0) / 1000;
        let what = format!(
            "view {} is installed, though nobody has wanted anything for {ms} ms and nothing fails",
            epoch.number()
        );
        broken("quiet", now, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_clock_is_so_fast_that_leases_end_before_they_can_be_renewed_nothing_is_judged() {
        let clock = |ppm| Clock::new(5, ppm);
        let judged = |ppm| lease_outlasts_renewal(&[&clock(0), &clock(ppm)], Moment(7), 1_500_000, 720_000);
        assert!(judged(0) && judged(50_000) && judged(1_083_000));
        assert!(!judged(1_084_000) && !judged(1_500_000));
    }

    #[test]
    fn a_view_in_the_quiet_time_is_a_violation_and_one_before_it_is_none() {
        let quiet = Quiet::after(Moment(2_000), Moment(5_000), 3_000);
        assert_eq!(quiet.on_view(Epoch::default(), Moment(4_999)), Ok(()));
        assert!(quiet.on_view(Epoch::default(), Moment(5_000)).is_err());
        assert!(!quiet.is_over(Moment(7_999)) && quiet.is_over(Moment(8_000)));
    }
}

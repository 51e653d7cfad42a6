//! Where nothing fails and nobody wants anything, the view stays as it is.
//!
//! When every client has been served in the calm, and views have had the time to settle that the property [`starvation`](super::starvation)
//! derives, the run goes on for as long as it takes at most to leave a member out and to let it in again. No view is installed in that time:
//! a cluster in which sites are left out and come back without a cause, or in which some lock or table asks for one view after the other,
//! does so then, however slowly it goes in circles.

use super::{CheckResult, broken};
use crate::clock::Moment;
use meshlock_protocol::Epoch;

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
    fn a_view_in_the_quiet_time_is_a_violation_and_one_before_it_is_none() {
        let quiet = Quiet::after(Moment(2_000), Moment(5_000), 3_000);
        assert_eq!(quiet.on_view(Epoch::default(), Moment(4_999)), Ok(()));
        assert!(quiet.on_view(Epoch::default(), Moment(5_000)).is_err());
        assert!(!quiet.is_over(Moment(7_999)) && quiet.is_over(Moment(8_000)));
    }
}

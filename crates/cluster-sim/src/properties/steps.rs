//! Nothing goes in circles: views and events are bounded in every simulated second.
//!
//! A *fresh* view has the members and rules of the one before it. Nothing but a lock with fewer holders than before, or a full
//! table, asks for one. A site that has asked for room asks again after a pause of a second, or after grants: so in one second, and
//! until somebody is granted a lock, there is at most one for each lock and one for each site. Any other view needs a site that
//! joins, leaves or is left out, or new rules.

use super::{CheckResult, broken};
use crate::clock::Moment;
use crate::settings::SeedSettings;
use meshlock_cluster::view::View;

/// Maximum number of events in one simulated second. Nine sites with four clients each that enter as fast as they can stay well
/// below it.
const MAX_EVENTS: u64 = 1_000_000;

/// What happened in the current second.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    max_fresh: u64,
    max_views: u64,
    second: u64,
    events: u64,
    grants: u64,
    views: u64,
    /// Fresh views since the last grant.
    fresh: u64,
}

impl Steps {
    pub(crate) fn new(settings: &SeedSettings) -> Self {
        let (machines, locks) = (settings.machines as u64, settings.locks.len() as u64);
        let max_fresh = machines + locks;
        // In one second a site joins and leaves again once at most: leaving out takes a lease, which is longer.
        let max_views = max_fresh + 2 * machines + settings.faults.len() as u64;
        Steps { max_fresh, max_views, second: 0, events: 0, fresh: 0, views: 0, grants: 0 }
    }

    pub(crate) fn on_granted(&mut self) {
        self.grants += 1;
        self.fresh = 0;
    }

    pub(crate) fn on_event(&mut self, now: Moment) -> CheckResult {
        let second = now.0 / 1_000_000;
        if second != self.second {
            (self.second, self.events) = (second, 0);
            (self.fresh, self.views, self.grants) = (0, 0, 0);
        }
        self.events += 1;
        if self.events > MAX_EVENTS {
            return broken("steps", now, format!("more than {MAX_EVENTS} events in one second"));
        }
        Ok(())
    }

    /// Counts the view that follows `last`.
    pub(crate) fn on_view(&mut self, last: &View, next: &View, now: Moment) -> CheckResult {
        self.views += 1;
        self.fresh += u64::from(last.members == next.members && last.rules == next.rules);
        let (fresh, views, epoch) = (self.fresh, self.views, next.epoch.number());
        if fresh > self.max_fresh || views > self.max_views + self.grants {
            let what = format!(
                "{views} views in one second up to view {epoch}; the last {fresh} that change neither members nor rules came \
                 without a grant between them"
            );
            return broken("steps", now, what);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::settings::rules;

    const SECOND: Moment = Moment(1_000_000);

    #[test]
    fn too_many_events_in_one_second_are_a_violation() {
        let mut steps = Steps::new(&SeedSettings::draw(1));
        assert!((0..MAX_EVENTS).all(|_| steps.on_event(SECOND).is_ok()));
        assert!(steps.on_event(SECOND).is_err());
        assert!(steps.on_event(SECOND.after(1_000_000)).is_ok(), "the next second");
    }

    #[test]
    fn too_many_views_in_one_second_are_a_violation_also_if_each_changes_the_rules() {
        let mut steps = Steps::new(&SeedSettings::draw(1));
        let view = |seed| View { rules: rules(&mut Rng::with_seed(seed), seed, 3), ..View::default() };
        let (one, other) = (view(1), view(2));
        assert_ne!(one.rules, other.rules);
        let most = steps.max_views;
        assert!((0..most).all(|_| steps.on_view(&one, &other, SECOND).is_ok()));
        assert!(steps.on_view(&one, &other, SECOND).is_err());
    }
}

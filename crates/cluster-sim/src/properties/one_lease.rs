//! One failure costs one lease: a member whose process has died is left out of the view L·(1+drift) after its death, also if the leader has
//! changed meanwhile, or was the one that died.
//!
//! That is promised where nothing else hinders the voters. So the time is counted from the last disturbance of any kind: a fault as long as it lasts,
//! a connection that breaks or is made, a site that starts, a packet that comes late. Then the member must be left out, by the
//! leader's clock, at the latest after
//!
//! > L·(1+drift) + 2·L·drift + slack, or 2·renew_every + slack after the election
//!
//! | what | why |
//! |---|---|
//! | 2·L·drift | ages that voters say are measured on their clocks |
//! | slack | 3 ticks, 12 trips, 6 writes: the last renewal of the member is confirmed, another view is completed, this one is agreed on |

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::starvation::MAX_SLOW_WRITE;
use super::{CheckResult, broken};
use crate::clock::{Clock, Moment};
use crate::faults::ClusterFault;
use crate::settings::SeedSettings;
use meshlock_cluster::names::Member;
use meshlock_cluster::time::Span;
use meshlock_cluster::view::View;

/// Which members have died, and since when nothing hinders the voters.
#[derive(Clone, Debug)]
pub(crate) struct OneLease {
    /// Whether it is judged: clocks are within the drift bound, and all sites run the newest program.
    strict: bool,
    clocks: Vec<Clock>,
    /// Maximum time until a dead member is left out, without the slack.
    lease: Span,
    first_contact: Span,
    slack: Span,
    quiet_since: Moment,
    leader: Option<(usize, Moment)>,
    died: BTreeMap<Member, Moment>,
    /// Longest time from a death until the member was left out, in microseconds.
    pub(crate) longest: u64,
}

impl OneLease {
    pub(crate) fn new(settings: &SeedSettings, clocks: Vec<Clock>) -> Self {
        let terms = settings.terms;
        let lease = terms.drift.stretch(terms.length);
        let drifted = lease.micros() - terms.length.micros();
        let slack = settings.config(0, 1).tick.times(3).micros() + 12 * settings.trip() + 6 * settings.disk;
        OneLease {
            strict: settings.keeps_drift(usize::MAX) && !settings.environment.is_mixed(),
            clocks,
            lease: lease + Span::from_micros(2 * drifted),
            first_contact: terms.first_contact(),
            slack: Span::from_micros(slack),
            quiet_since: Moment::default(),
            leader: None,
            died: BTreeMap::new(),
            longest: 0,
        }
    }

    /// Records that something hinders sites until then.
    pub(crate) fn on_disturbed(&mut self, until: Moment) {
        self.quiet_since = self.quiet_since.max(until);
    }

    /// Records a fault, as long as it lasts.
    pub(crate) fn on_fault(&mut self, fault: &ClusterFault, now: Moment) {
        let length = match fault {
            ClusterFault::Pause { length, .. }
            | ClusterFault::Suspend { length, .. }
            | ClusterFault::Partition { length, .. }
            | ClusterFault::LossyLink { length, .. } => *length,
            ClusterFault::SlowDisk { length, .. } | ClusterFault::StuckDisk { length, .. } => {
                length + MAX_SLOW_WRITE
            }
            ClusterFault::SlowLink { more, length, .. } => length + more,
            ClusterFault::StuckForGood { .. } => u64::MAX,
            ClusterFault::LostDisk { .. }
            | ClusterFault::LostVoterDisk { .. }
            | ClusterFault::Voters { .. }
            | ClusterFault::Access { .. }
            | ClusterFault::StartRemoved { .. }
            | ClusterFault::OldDisk { .. }
            | ClusterFault::UnreadableDisk { .. }
            | ClusterFault::Crash { .. }
            | ClusterFault::Break { .. }
            | ClusterFault::ClientCrash { .. }
            | ClusterFault::Leave { .. }
            | ClusterFault::Rules { .. }
            | ClusterFault::OtherCluster { .. }
            | ClusterFault::TakeAway { .. }
            | ClusterFault::ClockRate { .. }
            | ClusterFault::ClockJump { .. } => 0,
        };
        self.on_disturbed(now.after(length));
    }

    pub(crate) fn on_died(&mut self, member: &Member, now: Moment) {
        self.died.insert(member.clone(), now);
        self.on_disturbed(now);
    }

    pub(crate) fn on_leads(&mut self, machine: usize, now: Moment) {
        self.leader = Some((machine, now));
    }

    /// Checks a view that is installed somewhere for the first time.
    pub(crate) fn on_view(&mut self, view: &View, now: Moment) -> CheckResult {
        let gone: Vec<Member> = self.died.keys().filter(|member| !view.contains(member)).cloned().collect();
        for member in gone {
            let died = self.died.remove(&member).unwrap_or_default();
            self.longest = self.longest.max(now.0 - died.0);
            let Some((leader, elected)) = self.leader.filter(|_| self.strict) else { continue };
            let clock = &self.clocks[leader];
            let over = clock.at(died.max(self.quiet_since)) + self.lease;
            let latest = over.max(clock.at(elected) + self.first_contact) + self.slack;
            if clock.at(now) > latest {
                let late = clock.at(now).since(latest).micros() / 1000;
                let what = format!("{member} is left out {late} ms later than one lease after its death");
                return broken("one lease", now, what);
            }
        }
        Ok(())
    }
}

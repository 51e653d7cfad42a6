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
//!
//! If only one site votes, nobody remembers the leases that it granted before its process ended; and voters who became voters less than a
//! lease before do not know all leases. Then it counts from the election.
//!
//! A site that dies while it asks to join may be let in, because the leader cannot know that it is dead. But no leader lets a site in that has not
//! asked it within the length of a lease, by its own clock, whatever else happens. And a dead site that is let in has no lease: it must be left out
//!
//! > 2·renew_every + slack
//!
//! after the view that lets it in, or L·(1+drift) + 2·L·drift + slack after an election.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::starvation::MAX_SLOW_WRITE;
use super::{CheckResult, broken};
use crate::clock::{Clock, Moment};
use crate::faults::ClusterFault;
use crate::settings::SeedSettings;
use meshlock_cluster::names::Member;
use meshlock_cluster::node::Node;
use meshlock_cluster::time::Span;
use meshlock_cluster::view::View;

/// The site that was elected last.
#[derive(Clone, Copy, Debug)]
struct ElectedLeader {
    machine: usize,
    at: Moment,
    /// Whether those who elected it need not remember the leases before.
    is_untold: bool,
}

/// Which members have died, and since when nothing hinders the voters.
#[derive(Clone, Debug)]
pub(crate) struct OneLease {
    /// Whether it is judged: clocks are within the drift bound, and all sites run the newest program.
    strict: bool,
    clocks: Vec<Clock>,
    /// Maximum time until a dead member is left out, without the slack.
    lease: Span,
    first_contact: Span,
    /// After what time a leader forgets a site that has asked to join.
    forgotten_after: Span,
    slack: Span,
    quiet_since: Moment,
    leader: Option<ElectedLeader>,
    /// When the voters have changed last.
    voters_changed: Option<Moment>,
    died: BTreeMap<Member, Death>,
    /// When each site has last asked to join, at each machine.
    asked: BTreeMap<(usize, Member), Moment>,
    /// Longest time from a death until the member was left out, in microseconds.
    pub(crate) longest: u64,
}

/// The death of an incarnation of a site.
#[derive(Clone, Copy, Debug)]
struct Death {
    at: Moment,
    /// When a view let it in after that, if one did.
    let_in: Option<Moment>,
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
            forgotten_after: terms.length,
            slack: Span::from_micros(slack),
            quiet_since: Moment::default(),
            leader: None,
            voters_changed: None,
            died: BTreeMap::new(),
            asked: BTreeMap::new(),
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
            | ClusterFault::Mover(_)
            | ClusterFault::AtMirror(_)
            | ClusterFault::Leave { .. }
            | ClusterFault::Rules { .. }
            | ClusterFault::OtherCluster { .. }
            | ClusterFault::TakeAway { .. }
            | ClusterFault::SecondProcess { .. }
            | ClusterFault::ClockRate { .. }
            | ClusterFault::ClockJump { .. } => 0,
        };
        self.on_disturbed(now.after(length));
    }

    pub(crate) fn on_died(&mut self, member: &Member, now: Moment) {
        self.died.insert(member.clone(), Death { at: now, let_in: None });
        self.on_disturbed(now);
    }

    /// Records who was elected, and whether nobody else votes.
    pub(crate) fn on_leads(&mut self, machine: usize, is_alone: bool, now: Moment) {
        let clock = &self.clocks[machine];
        let have_changed =
            self.voters_changed.is_some_and(|at| clock.at(now) < clock.at(at) + self.lease + self.slack);
        self.leader = Some(ElectedLeader { machine, at: now, is_untold: is_alone || have_changed });
    }

    /// Records that other sites vote: what voters have noted of leases was about other majorities.
    pub(crate) fn on_voters_changed(&mut self, now: Moment) {
        self.voters_changed = Some(now);
        self.on_disturbed(now);
    }

    /// Records that a machine has received a site's request to join.
    pub(crate) fn on_asked(&mut self, machine: usize, member: Member, now: Moment) {
        self.asked.insert((machine, member), now);
    }

    /// Checks that whoever a leader lets in has asked it within the length of a lease. (It asks itself without a packet.)
    pub(crate) fn on_proposed(&self, leader: &Node, machine: usize, view: &View, now: Moment) -> CheckResult {
        let came = |member: &&Member| !leader.view().contains(member) && member.site != leader.me().site;
        for member in view.members.iter().filter(came) {
            let clock = &self.clocks[machine];
            let asked = self.asked.get(&(machine, member.clone())).map(|asked| clock.at(*asked));
            if asked.is_none_or(|asked| clock.at(now).since(asked) >= self.forgotten_after) {
                let what = format!("s{machine} lets {member} in, which has not asked it for one lease");
                return broken("one lease", now, what);
            }
        }
        Ok(())
    }

    /// Checks a view that is installed somewhere for the first time, after `before`.
    pub(crate) fn on_view(&mut self, before: &View, view: &View, now: Moment) -> CheckResult {
        for (member, death) in &mut self.died {
            if !before.contains(member) && view.contains(member) {
                death.let_in = Some(now);
            }
        }
        let left = |member: &&Member| before.contains(member) && !view.contains(member);
        let gone: Vec<Member> = self.died.keys().filter(left).cloned().collect();
        for member in gone {
            let Some(died) = self.died.remove(&member) else { continue };
            self.longest = self.longest.max(now.0 - died.at.0);
            let (late, of) = match died.let_in {
                None => {
                    (self.late(died.at, self.lease, self.first_contact, now), "one lease after its death")
                }
                Some(let_in) => (
                    self.late(let_in, self.first_contact, self.lease, now),
                    "two renewals after it was let in",
                ),
            };
            if let Some(late) = late {
                let what = format!("{member} is left out {late} ms later than {of}");
                return broken("one lease", now, what);
            }
        }
        Ok(())
    }

    /// Returns by how many milliseconds it is later than `within` after `from` and the last disturbance, and later than `elected_within` after
    /// the election, by the leader's clock. The slack is not counted.
    fn late(&self, from: Moment, within: Span, elected_within: Span, now: Moment) -> Option<u64> {
        let ElectedLeader { machine, at: elected, is_untold } = self.leader.filter(|_| self.strict)?;
        let elected_within = if is_untold { self.lease } else { elected_within };
        let clock = &self.clocks[machine];
        let over = clock.at(from.max(self.quiet_since)) + within;
        let latest = over.max(clock.at(elected) + elected_within) + self.slack;
        let now = clock.at(now);
        (now > latest).then(|| now.since(latest).micros() / 1000)
    }
}

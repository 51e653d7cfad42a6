//! No needless loss: a site that can reach the leader, which can reach a majority, does not lose what its clients hold.
//!
//! A site must be granted a renewal within L − margin of the last one. It asks after `renew_every`, and when it gets no answer it asks
//! again and again. So if nothing hinders it for the *recovery* before the end of that time, it is renewed, whatever happened before:
//!
//! > recovery = wait + work, where work = 2 ticks + 8 trips + 4 writes
//!
//! | what | why |
//! |---|---|
//! | wait | the last attempt that was lost, until the next one: at most a sixth of the work, because attempts come more often as the end approaches, but at least renew_every / 40 and at most renew_every / 4 |
//! | 2 ticks | until a heartbeat says who leads, and until one confirms a round that was under way |
//! | 8 trips | the wrong site is asked and says who leads; the renewal; the round before it and its own; the grant |
//! | 4 writes | a leader that was just elected commits an entry before it confirms anything |
//!
//! (The next attempt comes within a seventh of the recovery, by the header of `lease/mod.rs`, and that is a sixth of the rest of it.)
//!
//! It follows that a site that was stopped or cut off for less than L − margin − renew_every − recovery, and so is renewed right before and
//! right after, loses nothing: neither if it led, nor if it did not, nor if another one did.
//!
//! **What is judged.** Whenever a client is told that its lock is lost because the lease ends or the site is excluded, and whenever a leader
//! proposes a view without a member that runs and does not leave, it was needless if all of this has been so for at least the recovery:
//! - its site runs, is not paused, and its disk is not slow;
//! - the site that was elected last still leads, and runs in the same way;
//! - packets pass both ways between the two, without additional delay;
//! - the same holds for a majority of the voters and their ways to the leader and back. A voter that has lost its disk does not count.
//!
//! One thing excuses a loss longer: packets did not pass between the site and another one for longer than the site may be cut off, in one
//! direction or both, and no third one carries them. (If one of the two was stopped right before the cut, from then on.) Then one of the two must go, even if both reach the leader. It counts until their link has
//! recovered, and cuts that follow one another so closely count as one. A third one carries their packets if it votes, all sites know
//! how, and nothing has hindered the three, nor the ways between it and them, for *long*: a lease, and what a link takes to recover.
//! *Stopped* or dead sites excuse nothing: whoever waits for them stays.
//!
//! Clocks beyond the drift that the terms allow for excuse everything.

#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::starvation::MAX_SLOW_WRITE;
use super::{CheckResult, broken};
use crate::clock::Moment;
use crate::coverage::Occurrence;
use crate::faults::ClusterFault;
use crate::network::Way;
use crate::settings::SeedSettings;
use meshlock_cluster::membership::{MAX_VOTERS, Term};
use meshlock_cluster::table::LossReason;
use meshlock_cluster::time::Time;

/// Time in which a site or a direction was hindered, from the first of several disturbances to the end of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct Disturbed {
    since: Moment,
    until: Moment,
}

impl Disturbed {
    /// Adds a disturbance from now on. It continues the last one if that has ended less than `gap` ago.
    fn extend(&mut self, now: Moment, until: Moment, gap: u64) {
        if now > self.until.after(gap) {
            self.since = now;
        }
        self.until = self.until.max(until);
    }

    fn length(self) -> u64 {
        self.until.0.saturating_sub(self.since.0)
    }
}

#[derive(Clone, Debug)]
struct ObservedSite {
    disturbed: Disturbed,
    runs: bool,
    votes: bool,
    /// Since when it has known that it takes part.
    member_since: Option<Moment>,
    /// The end of its lease, and when it was last prolonged.
    lease: Option<(Time, Moment)>,
}

/// What hinders which site, and since when nothing does.
#[derive(Clone, Debug)]
pub(crate) struct Needless {
    /// Whether clocks are within the drift bound.
    strict: bool,
    recovery: u64,
    renew_every: u64,
    /// Maximum time for which two members may be cut off from each other.
    max_cut: u64,
    /// Time after such a cut in which their link recovers.
    link_recovery: u64,
    /// For how long nothing must have hindered whoever carries the packets of two members, and those; `None` if not all sites know how.
    carrying: Option<u64>,
    /// The voters; while they change, those before and those after the change, which both decide.
    voters: Vec<Vec<usize>>,
    calm: Moment,
    sites: Vec<ObservedSite>,
    ways: BTreeMap<Way, Disturbed>,
    /// Sites between which there is no connection.
    down: BTreeSet<Way>,
    /// The site that was elected last, if it has not given up, and when.
    leader: Option<(Term, usize, Moment)>,
}

impl Needless {
    pub(crate) fn new(settings: &SeedSettings) -> Self {
        let (config, terms) = (settings.config(0, 1), settings.terms);
        let renew_every = terms.renew_every.micros();
        let work = config.tick.times(2).micros() + 8 * settings.trip() + 4 * settings.disk;
        let wait = (work / 6 + 1).clamp(terms.shortest_retry().micros(), terms.retry_every().micros());
        let recovery = wait + work;
        let most = terms.length.micros() - terms.margin.micros() - renew_every;
        let voters = settings.founders.min(MAX_VOTERS);
        let link_recovery = config.link_timeouts.resend_after.times(8).micros() + renew_every + recovery;
        let carrying = terms.drift.stretch(terms.length).micros() + link_recovery;
        let site = |at: usize| ObservedSite {
            disturbed: Disturbed::default(),
            runs: false,
            votes: at < voters,
            member_since: None,
            lease: None,
        };
        Needless {
            strict: settings.keeps_drift(usize::MAX),
            recovery,
            renew_every,
            max_cut: most.saturating_sub(recovery),
            link_recovery,
            carrying: (!settings.environment.is_mixed()).then_some(carrying),
            voters: vec![(0..voters).collect()],
            calm: Moment(settings.calm),
            sites: (0..settings.machines).map(site).collect(),
            ways: BTreeMap::new(),
            down: BTreeSet::new(),
            leader: None,
        }
    }

    /// Records what a fault hinders, and until when.
    pub(crate) fn on_fault(&mut self, fault: &ClusterFault, now: Moment) {
        match fault {
            ClusterFault::Pause { machine, length } | ClusterFault::Suspend { machine, length, .. } => {
                self.disturb_site(*machine, now, *length);
            }
            ClusterFault::SlowDisk { machine, length } | ClusterFault::StuckDisk { machine, length } => {
                // What was written before the calm may still be slow in it.
                let until = now.after(*length).min(self.calm).after(MAX_SLOW_WRITE);
                self.sites[*machine].disturbed.extend(now, until, 0);
            }
            ClusterFault::Partition { cut, length, .. } => {
                cut.blocked.iter().for_each(|way| self.disturb_way(*way, now, *length));
            }
            ClusterFault::SlowLink { from, to, more, length } => {
                self.disturb_way((*from, *to), now, length + more);
            }
            ClusterFault::StuckForGood { machine } => {
                self.sites[*machine].votes = false;
                self.sites[*machine].disturbed.extend(now, Moment(u64::MAX), 0);
            }
            ClusterFault::LossyLink { from, to, length, .. } => self.disturb_way((*from, *to), now, *length),
            ClusterFault::LostDisk { machine, .. }
            | ClusterFault::OldDisk { machine, .. }
            | ClusterFault::LostVoterDisk { machine, .. }
            | ClusterFault::UnreadableDisk { machine, .. } => self.sites[*machine].votes = false,
            // Crashes and connections that break are observed where they happen. The rest hinders nobody.
            ClusterFault::Crash { .. }
            | ClusterFault::Break { .. }
            | ClusterFault::ClientCrash { .. }
            | ClusterFault::Mover(_)
            | ClusterFault::AtMirror(_)
            | ClusterFault::Leave { .. }
            | ClusterFault::Rules { .. }
            | ClusterFault::Voters { .. }
            | ClusterFault::Access { .. }
            | ClusterFault::StartRemoved { .. }
            | ClusterFault::OtherCluster { .. }
            | ClusterFault::TakeAway { .. }
            | ClusterFault::SecondProcess { .. }
            | ClusterFault::ClockRate { .. }
            | ClusterFault::ClockJump { .. } => {}
        }
    }

    fn disturb_site(&mut self, machine: usize, now: Moment, length: u64) {
        self.sites[machine].disturbed.extend(now, now.after(length).min(self.calm), 0);
    }

    fn disturb_way(&mut self, way: Way, now: Moment, length: u64) {
        self.disturb_way_until(way, now, now.after(length).min(self.calm));
    }

    fn disturb_way_until(&mut self, way: Way, now: Moment, until: Moment) {
        let disturbed = self.ways.entry(way).or_insert(Disturbed { since: now, until: now });
        disturbed.extend(now, until, self.link_recovery);
    }

    /// Records that faults have stopped, except for these cuts.
    pub(crate) fn on_calm(&mut self, lasting_cuts: &[Way], now: Moment) {
        for way in lasting_cuts {
            self.disturb_way_until(*way, now, Moment(u64::MAX));
        }
    }

    pub(crate) fn on_started(&mut self, machine: usize, now: Moment) {
        self.sites[machine].disturbed.extend(now, now, 0);
        self.sites[machine].runs = true;
    }

    pub(crate) fn on_crashed(&mut self, machine: usize) {
        (self.sites[machine].runs, self.sites[machine].lease) = (false, None);
        self.sites[machine].member_since = None;
        self.on_follows(machine);
    }

    /// Records that the connection between two sites has broken, or that there is one again.
    pub(crate) fn on_connection(&mut self, a: usize, b: usize, is_up: bool, now: Moment) {
        for way in [(a, b), (b, a)] {
            self.disturb_way_until(way, now, now);
            if is_up {
                self.down.remove(&way);
            } else {
                self.down.insert(way);
            }
        }
    }

    /// Records who votes: all of `groups` decide, and the sites `whole` have the disks that they vote with.
    pub(crate) fn on_voters(&mut self, groups: &[Vec<usize>], whole: &[usize]) {
        self.voters = groups.iter().filter(|group| !group.is_empty()).cloned().collect();
        for site in whole {
            self.sites[*site].votes = true;
        }
    }

    /// Returns whether nobody but this site votes.
    pub(crate) fn is_only_voter(&self, machine: usize) -> bool {
        self.voters.iter().all(|group| *group == [machine])
    }

    pub(crate) fn on_leads(&mut self, term: Term, machine: usize, now: Moment) {
        if self.leader.is_none_or(|(last, ..)| last < term) {
            self.leader = Some((term, machine, now));
        }
    }

    /// Records that a site does not lead: also one that leaves or has crashed does not say so.
    pub(crate) fn on_follows(&mut self, machine: usize) {
        self.leader.take_if(|(_, leader, _)| *leader == machine);
    }

    /// Records the lease of a site that holds locks. Returns what it survived, if that was longer than a renewal.
    pub(crate) fn on_lease(&mut self, machine: usize, end: Option<Time>, now: Moment) -> Option<Occurrence> {
        let before = std::mem::replace(&mut self.sites[machine].lease, end.map(|end| (end, now)));
        let ((last_end, last_at), end) = (before?, end?);
        if end <= last_end {
            self.sites[machine].lease = before;
            return None;
        }
        let survived =
            |disturbed: Disturbed| disturbed.until >= last_at && disturbed.length() >= self.renew_every;
        if survived(self.sites[machine].disturbed) {
            return Some(Occurrence::PauseSurvived);
        }
        let (_, leader, _) = self.leader?;
        let mut cuts = self.between(machine, leader);
        cuts.any(survived).then_some(Occurrence::CutSurvived)
    }

    /// Returns whether nothing has hindered it for as long as it takes to recover.
    fn has_recovered(&self, disturbed: Disturbed, now: Moment) -> bool {
        now >= disturbed.until.after(self.recovery)
    }

    fn runs_well(&self, machine: usize, now: Moment) -> bool {
        self.sites[machine].runs && self.has_recovered(self.sites[machine].disturbed, now)
    }

    /// Returns what has disturbed the two directions between these sites.
    fn between(&self, a: usize, b: usize) -> impl Iterator<Item = Disturbed> {
        [(a, b), (b, a)].into_iter().filter_map(|way| self.ways.get(&way).copied())
    }

    fn reach_each_other(&self, a: usize, b: usize, now: Moment) -> bool {
        !self.down.contains(&(a, b)) && self.between(a, b).all(|way| self.has_recovered(way, now))
    }

    /// Returns whether a cut between the two was so long that one of them may have to go. If one of the two was stopped right before it, it
    /// counts from then on: the other one has not been answered since.
    fn were_cut(&self, a: usize, b: usize, now: Moment) -> bool {
        let stopped = [a, b].map(|site| self.sites[site].disturbed);
        let began = |way: Disturbed| {
            let before = stopped.iter().filter(|stop| way.since < stop.until.after(self.link_recovery));
            before.map(|stop| stop.since).fold(way.since, Moment::min)
        };
        let is_long = |way: Disturbed| {
            now < way.until.after(self.link_recovery) && now.min(way.until) > began(way).after(self.max_cut)
        };
        self.between(a, b).any(is_long) && !self.are_carried(a, b, now)
    }

    /// Returns whether packets between the two must have found a way through a third one.
    fn are_carried(&self, a: usize, b: usize, now: Moment) -> bool {
        let Some(long) = self.carrying else { return false };
        let is_well = |disturbed: Disturbed| now >= disturbed.until.after(long);
        let runs = |site: usize| self.sites[site].runs && is_well(self.sites[site].disturbed);
        let reaches = |carrier: usize, other: usize| {
            !self.down.contains(&(carrier, other)) && self.between(carrier, other).all(is_well)
        };
        let carries = |at: usize| {
            at != a && at != b && self.sites[at].votes && runs(at) && reaches(at, a) && reaches(at, b)
        };
        runs(a) && runs(b) && (0..self.sites.len()).any(carries)
    }

    /// Returns the leader that must have renewed a site's lease by now, since nothing has hindered either of them, nor the voters, for
    /// long enough.
    fn must_be_renewed_by(&self, machine: usize, now: Moment) -> Option<usize> {
        let (_, leader, elected) = self.leader.filter(|_| self.strict)?;
        let voter = |voter: &usize| {
            self.sites[*voter].votes
                && self.runs_well(*voter, now)
                && self.reach_each_other(*voter, leader, now)
        };
        let decides = |group: &Vec<usize>| group.iter().copied().filter(voter).count() > group.len() / 2;
        let is_well = self.voters.iter().all(decides)
            && now >= elected.after(self.recovery)
            && self.runs_well(leader, now)
            && self.runs_well(machine, now)
            && self.reach_each_other(machine, leader, now)
            && (0..self.sites.len()).all(|other| !self.were_cut(machine, other, now));
        is_well.then_some(leader)
    }

    /// Checks the loss of a lock at a site.
    pub(crate) fn on_lost(&self, machine: usize, why: LossReason, now: Moment) -> CheckResult {
        match (why, self.must_be_renewed_by(machine, now)) {
            (LossReason::LeaseEnd | LossReason::Excluded, Some(leader)) => {
                let ms = self.recovery / 1000;
                let what = format!(
                    "s{machine} loses a lock ({why:?}), though it has reached the leader s{leader} for {ms} ms"
                );
                broken("needless", now, what)
            }
            _ => Ok(()),
        }
    }

    /// Records that a site has installed a view, and whether it takes part in it.
    pub(crate) fn on_installed(&mut self, machine: usize, takes_part: bool, now: Moment) {
        let since = &mut self.sites[machine].member_since;
        *since = if takes_part { since.or(Some(now)) } else { None };
    }

    /// Checks a view that a leader proposes without a member that runs and does not leave. It must have known for long enough that it takes part:
    /// before, it asks for no renewal.
    pub(crate) fn on_left_out(&self, machine: usize, by: usize, now: Moment) -> CheckResult {
        let knows = self.sites[machine].member_since.is_some_and(|since| now >= since.after(self.recovery));
        if !knows || self.must_be_renewed_by(machine, now) != Some(by) {
            return Ok(());
        }
        let ms = self.recovery / 1000;
        let what = format!("s{by} leaves out s{machine}, though they have reached each other for {ms} ms");
        broken("needless", now, what)
    }
}

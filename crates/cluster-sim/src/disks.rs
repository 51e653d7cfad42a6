//! What happens to disks: batches complete, and disks are stuck, lost, put back from a copy, or cannot be read.

use super::clock::Moment;
use super::coverage::Occurrence;
use super::event::Event;
use super::faults::ClusterFault;
use super::properties::starvation::MAX_SLOW_WRITE;
use super::properties::{CheckResult, sound};
use super::world::World;
use meshlock_cluster::founding::Founding;
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::node::{Input, WriteToken};

impl World {
    /// Hands a batch to a machine's disk.
    pub(super) fn persist(&mut self, machine: usize, token: WriteToken, writes: Vec<DiskWrite>) {
        for write in &writes {
            if matches!(write, DiskWrite::Install(_)) {
                self.coverage.record(Occurrence::SnapshotInstalled);
            }
            if matches!(write, DiskWrite::Compact(_)) {
                self.coverage.record(Occurrence::LogCut);
            }
        }
        let slow = self.machines[machine].slow_until > self.now;
        let delay = self.within(if slow { MAX_SLOW_WRITE } else { self.settings.disk });
        let host = &mut self.machines[machine];
        host.unsynced.push_back((token, writes));
        host.writing_since.get_or_insert(self.now);
        let incarnation = host.incarnation;
        self.after(delay, Event::Synced { machine, incarnation, token });
    }

    /// Completes a batch, unless the disk is stuck.
    pub(super) fn synced(&mut self, machine: usize, incarnation: u64, token: WriteToken) -> CheckResult {
        let host = &mut self.machines[machine];
        if host.incarnation != incarnation || host.node.is_none() {
            return Ok(());
        }
        if host.stuck_until > self.now {
            let until = host.stuck_until;
            self.coverage.record(Occurrence::WriteStuck);
            if until < Moment(u64::MAX) {
                self.at(until, Event::Synced { machine, incarnation, token });
            }
            return Ok(());
        }
        // Batches complete in order: everything that was handed to the disk before is complete too.
        let mut last = None;
        while host.unsynced.front().is_some_and(|(first, _)| *first <= token) {
            let (done, writes) = host.unsynced.pop_front().expect("there is a first");
            for write in &writes {
                host.disk.apply(write);
            }
            last = Some(done);
        }
        host.writing_since = host.writing_since.filter(|_| !host.unsynced.is_empty()).map(|_| self.now);
        last.map_or(Ok(()), |token| self.drive(machine, Input::Persisted(token)))
    }

    /// Crashes a site's process, if it runs, and loses its disk.
    pub(super) fn lose_disk(&mut self, machine: usize, down: u64) {
        self.crash(machine, down);
        (self.machines[machine].disk, self.machines[machine].lost_disk) = (Disk::default(), true);
    }

    /// Lets a disk complete nothing any more, if all first voters vote or have voted: at the very first start nearly all disks are needed. And
    /// where voters change only if the others can decide without it.
    pub(super) fn stick_for_good(&mut self, machine: usize) {
        let voters = self.settings.founders.min(MAX_VOTERS);
        let changes = self.settings.changes_voters();
        let has_begun = |host: &super::machine::SiteMachine| {
            let votes = host.node.as_ref().is_some_and(|node| node.has_vote());
            votes || changes && host.disk.knows_other_voters()
        };
        if self.machines[..voters].iter().all(has_begun) && (!changes || self.survives_loss_of(machine)) {
            self.coverage.record(Occurrence::DiskStuckForGood);
            self.machines[machine].stuck_until = Moment(u64::MAX);
        }
    }

    /// Copies the disk that the fault will put back.
    pub(super) fn copy_disk(&mut self, at: usize) {
        if let ClusterFault::OldDisk { machine, .. } = self.settings.faults[at].1 {
            let host = &mut self.machines[machine];
            host.copies.push((at, host.disk.clone()));
        }
    }

    /// Crashes a site's process, if it runs, and puts the copy of its disk back that was made for this fault.
    pub(super) fn put_back(&mut self, at: usize, machine: usize, down: u64) {
        self.crash(machine, down);
        let voted = self.votes_with_disk(machine);
        let host = &mut self.machines[machine];
        let Some((_, copy)) = host.copies.iter().find(|(of, _)| *of == at) else { return };
        if host.disk != *copy {
            host.disk = copy.clone();
            host.lost_disk |= host.disk == Disk::default();
            // The newer disk may have been lost before, so that it did not vote just now.
            let votes = voted || self.votes_with_disk(machine);
            self.forgetful_voter |= votes;
            let what = if votes { Occurrence::OldDiskOfVoter } else { Occurrence::OldDiskOfMember };
            self.coverage.record(what);
        }
    }

    /// Crashes a site's process, if it runs, and spoils its disk: it cannot be read any more, and takes the time `repair`
    /// to replace.
    pub(super) fn spoil_disk(&mut self, machine: usize, down: u64, repair: u64) {
        self.crash(machine, down);
        self.machines[machine].spoilt = Some(repair);
    }

    /// Checks that a site does not start with a spoilt disk, and gives it an empty one after the time `repair`.
    pub(super) fn refuse_start(&mut self, machine: usize, repair: u64) -> CheckResult {
        self.coverage.record(Occurrence::StartRefused);
        // Which bytes are damage is for the host to tell (`crates/host/src/store`). What a node tells by itself is that
        // a disk is another cluster's.
        let name = "elsewhere".parse().expect("a fixed name");
        let elsewhere = Founding::new(name, &self.names[machine..=machine]);
        let mut disk = self.machines[machine].disk.clone();
        disk.apply(&DiskWrite::Founding(elsewhere));
        sound::check_refused(&self.settings.config(machine, 1), disk, self.now)?;
        (self.machines[machine].disk, self.machines[machine].lost_disk) = (Disk::default(), true);
        let left = self.settings.calm.saturating_sub(self.now.0);
        self.after(repair.min(left), Event::Start(machine));
        Ok(())
    }
}

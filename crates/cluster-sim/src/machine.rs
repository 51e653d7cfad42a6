//! A site's machine: the process of its node, its disk, its clock.

use std::collections::VecDeque;

use fastrand::Rng;
use meshlock_protocol::Epoch;

use super::clock::{Clock, Moment};
use super::coverage::{Occurrence, OccurrenceCounter};
use super::event::Event;
use super::faults::CrashPoint;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::node::{Node, WriteToken};

/// Returns whether disks keep parts of batches, which is a deliberate bug.
#[cfg(test)]
fn keeps_torn_batch() -> bool {
    use meshlock_cluster::mutant::{self, Mutant};
    mutant::is_on(Mutant::TornBatchKept)
}

/// Returns whether disks keep parts of batches: never, in this build.
#[cfg(not(test))]
const fn keeps_torn_batch() -> bool {
    false
}

/// A site's machine: the process of its node, its disk, its clock.
#[expect(clippy::struct_excessive_bools, reason = "each says something else about the machine")]
pub(super) struct SiteMachine {
    pub(super) node: Option<Node>,
    /// The number of the process.
    pub(super) incarnation: u64,
    pub(super) disk: Disk,
    /// Whether it has ever lost its disk.
    pub(super) lost_disk: bool,
    pub(super) unsynced: VecDeque<(WriteToken, Vec<DiskWrite>)>,
    pub(super) clock: Clock,
    /// The view that its process has installed last, as it reported.
    pub(super) installed: Option<Epoch>,
    pub(super) paused_until: Option<Moment>,
    /// Events that came for it during a pause.
    pub(super) postponed: VecDeque<Event>,
    /// Until when its clients are paused with it, if they are.
    pub(super) suspended_until: Option<Moment>,
    pub(super) slow_until: Moment,
    /// Its disk completes nothing before this.
    pub(super) stuck_until: Moment,
    /// Since when its disk has been writing the oldest batch that is not complete.
    pub(super) writing_since: Option<Moment>,
    /// How long it takes to replace its disk, if that cannot be read.
    pub(super) spoilt: Option<u64>,
    /// Copies of its disk, each with the fault that puts it back.
    pub(super) copies: Vec<(usize, Disk)>,
    /// The wake-up that is valid.
    pub(super) wake: Option<Moment>,
    /// When it crashes, and how long it stays down.
    pub(super) dying: Option<(CrashPoint, u64)>,
    /// Whether its process has said that it leaves, and gives up nothing any more that was proved.
    pub(super) frozen: bool,
    /// Whether an operator has removed it.
    pub(super) left: bool,
    /// Whether an operator lets it come back after it has left.
    pub(super) comes_back: bool,
    /// Whether an operator has removed it and it has not joined again yet.
    pub(super) is_out: bool,
}

impl SiteMachine {
    pub(super) fn new(clock: Clock) -> Self {
        SiteMachine {
            node: None,
            incarnation: 0,
            disk: Disk::default(),
            lost_disk: false,
            unsynced: VecDeque::new(),
            clock,
            installed: None,
            paused_until: None,
            postponed: VecDeque::new(),
            suspended_until: None,
            slow_until: Moment::default(),
            stuck_until: Moment::default(),
            writing_since: None,
            spoilt: None,
            copies: Vec::new(),
            wake: None,
            dying: None,
            frozen: false,
            left: false,
            comes_back: false,
            is_out: false,
        }
    }

    /// Loses batches because the process crashed. Of the batches that the disk has not completed, any number of the
    /// first ones are written. The next one may have been written in part: a disk that writes only whole batches
    /// detects that, and discards it.
    pub(super) fn lose_tail(&mut self, draw: &mut Rng, coverage: &mut OccurrenceCounter) {
        let mut tail = std::mem::take(&mut self.unsynced);
        self.writing_since = None;
        let lost = tail.split_off(draw.usize(..=tail.len()));
        if !tail.is_empty() {
            coverage.record(Occurrence::TailSurvived);
        }
        if !lost.is_empty() {
            coverage.record(Occurrence::TailLost);
        }
        for (_, writes) in &tail {
            self.write(writes);
        }
        if let Some((_, writes)) = lost.front().filter(|(_, writes)| writes.len() > 1 && draw.bool()) {
            coverage.record(Occurrence::BatchTorn);
            if keeps_torn_batch() {
                // The last one: a ballot that knows of entries which the disk does not have.
                self.write(&writes[writes.len() - 1..]);
            }
        }
    }

    /// Returns whether its disk completes nothing any more.
    pub(super) fn is_stuck_for_good(&self) -> bool {
        self.stuck_until == Moment(u64::MAX)
    }

    fn write(&mut self, writes: &[DiskWrite]) {
        for write in writes {
            self.disk.apply(write);
        }
    }
}

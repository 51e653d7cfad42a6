//! A site's machine: the process of its node, its disk, its clock.

use std::collections::VecDeque;

use fastrand::Rng;
use meshlock_protocol::Epoch;

use super::clock::{Clock, Moment};
use super::coverage::{Coverage, Rare};
use super::event::Event;
use super::faults::Death;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::node::{Node, WriteToken};

/// A site's machine: the process of its node, its disk, its clock.
pub(super) struct Machine {
    pub(super) node: Option<Node>,
    /// Which process.
    pub(super) incarnation: u64,
    pub(super) disk: Disk,
    /// Whether it has lost its disk, once or more.
    pub(super) lost_disk: bool,
    pub(super) unsynced: VecDeque<(WriteToken, Vec<DiskWrite>)>,
    pub(super) clock: Clock,
    /// The view that its process has installed last, as it said.
    pub(super) installed: Option<Epoch>,
    pub(super) paused_until: Option<Moment>,
    /// What has come for it meanwhile.
    pub(super) postponed: VecDeque<Event>,
    pub(super) slow_until: Moment,
    /// The wake-up that counts.
    pub(super) wake: Option<Moment>,
    /// When it dies, and how long it stays down.
    pub(super) dying: Option<(Death, u64)>,
    /// An operator has taken it out.
    pub(super) left: bool,
    /// It has been out, because an operator wanted it, and is not back yet.
    pub(super) is_out: bool,
}

impl Machine {
    pub(super) fn new(clock: Clock) -> Self {
        Machine {
            node: None,
            incarnation: 0,
            disk: Disk::default(),
            lost_disk: false,
            unsynced: VecDeque::new(),
            clock,
            installed: None,
            paused_until: None,
            postponed: VecDeque::new(),
            slow_until: Moment::default(),
            wake: None,
            dying: None,
            left: false,
            is_out: false,
        }
    }

    /// The process dies. Of the batches that the disk has not completed any number of the first ones have got there. The next one may
    /// have been written in part: a disk that writes whole batches only finds that out, and it is as if nothing of it had been.
    pub(super) fn lose_tail(&mut self, draw: &mut Rng, coverage: &mut Coverage) {
        let mut tail = std::mem::take(&mut self.unsynced);
        let lost = tail.split_off(draw.usize(..=tail.len()));
        if !tail.is_empty() {
            coverage.saw(Rare::TailSurvived);
        }
        if !lost.is_empty() {
            coverage.saw(Rare::TailLost);
        }
        for (_, writes) in &tail {
            self.write(writes);
        }
        if let Some((_, writes)) = lost.front().filter(|(_, writes)| writes.len() > 1 && draw.bool()) {
            coverage.saw(Rare::BatchTorn);
            if mutant::is_on(Mutant::TornBatchKept) {
                self.write(&writes[1..]);
            }
        }
    }

    fn write(&mut self, writes: &[DiskWrite]) {
        for write in writes {
            self.disk.apply(write);
        }
    }
}

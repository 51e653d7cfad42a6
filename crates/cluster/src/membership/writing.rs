//! Batches that a voter has handed to its disk, and the messages that may be sent only when the disk has them.

use std::collections::VecDeque;

use raft::eraftpb;

use super::RaftToken;

/// Maximum number of messages that wait for one write. Beyond that the oldest are dropped; for Raft they are lost on
/// the way.
pub(super) const MAX_WAITING: usize = 64;

/// A batch on its way to the disk, or messages that wait for the batches before it.
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) needs_disk: bool,
    /// The index of the snapshot among the writes, which replaces the log.
    pub(super) installs: Option<u64>,
    pub(super) then_send: Vec<eraftpb::Message>,
}

/// The batches that the disk does not have yet, oldest first. The oldest needs the disk; a batch that needs no disk and
/// has none before it is never queued here.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) batches: VecDeque<Batch>,
    /// Number of ticks that the oldest has waited.
    ticks: usize,
}

impl Writing {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Adds a batch. A full disk accepts nothing for an unlimited time, while others go on sending messages to this
    /// voter: so batches that need no write are merged into one, whose size is bounded.
    pub(super) fn push(&mut self, batch: Batch) {
        let last = self.batches.back_mut().filter(|last| !last.needs_disk && !batch.needs_disk);
        let Some(last) = last else { return self.batches.push_back(batch) };
        last.number = batch.number;
        last.then_send.extend(batch.then_send);
        let surplus = last.then_send.len().saturating_sub(MAX_WAITING);
        last.then_send.drain(..surplus);
    }

    /// Removes and returns the oldest batch, if it is done now that the disk has the batch `token` and all before it.
    pub(super) fn take_done(&mut self, token: RaftToken) -> Option<Batch> {
        let first = self.batches.front()?;
        if first.needs_disk && first.number > token.0 {
            return None;
        }
        self.ticks = 0;
        self.batches.pop_front()
    }

    /// Counts a tick, and returns for how many ticks the oldest batch has waited.
    pub(super) fn on_tick(&mut self) -> usize {
        self.ticks = if self.is_empty() { 0 } else { self.ticks + 1 };
        self.ticks
    }
}

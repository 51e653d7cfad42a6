//! What a voter has handed to its disk, and what may be sent only when the disk has it.

use std::collections::VecDeque;

use raft::eraftpb;

use super::Token;

/// How many messages wait for one write at most. Of more, the oldest are dropped: Raft takes them for lost on the way.
pub(super) const MAX_WAITING: usize = 64;

/// A batch on its way to the disk, or what waits for the batches before it.
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) needs_disk: bool,
    /// The state up to this entry is among the writes, in place of the log.
    pub(super) installs: Option<u64>,
    pub(super) then_send: Vec<eraftpb::Message>,
}

/// The batches that the disk does not have yet, oldest first. The oldest needs the disk; what needs none and follows on nothing
/// does not come here.
#[derive(Default)]
pub(super) struct Writing {
    pub(super) batches: VecDeque<Batch>,
    /// How many ticks the oldest has waited.
    ticks: usize,
}

impl Writing {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Adds a batch. A disk that is full takes nothing for however long, while others go on talking to this voter: what only
    /// waits is one batch with what waits already, and bounded.
    pub(super) fn push(&mut self, batch: Batch) {
        let last = self.batches.back_mut().filter(|last| !last.needs_disk && !batch.needs_disk);
        let Some(last) = last else { return self.batches.push_back(batch) };
        last.number = batch.number;
        last.then_send.extend(batch.then_send);
        let surplus = last.then_send.len().saturating_sub(MAX_WAITING);
        last.then_send.drain(..surplus);
    }

    /// Takes out the oldest, if it is done now that the disk has the batch `token` and all before it.
    pub(super) fn take_done(&mut self, token: Token) -> Option<Batch> {
        let first = self.batches.front()?;
        if first.needs_disk && first.number > token.0 {
            return None;
        }
        self.ticks = 0;
        self.batches.pop_front()
    }

    /// A tick has passed: for how many the oldest has waited now.
    pub(super) fn on_tick(&mut self) -> usize {
        self.ticks = if self.is_empty() { 0 } else { self.ticks + 1 };
        self.ticks
    }
}

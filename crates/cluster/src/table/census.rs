//! The end of a view in the lock table: machines stop, and every member reports what its clients hold. How the next one
//! starts from that is in `opening.rs`.

use serde::{Deserialize, Serialize};

use super::holdings::{Holdings, HoldingsWriter};
use super::lock::Machines;
use super::{LockTable, TableAlarm};

/// What the clients of one member hold, in the pieces in which it is sent, at least one; the same is sent to every
/// other member.
pub(crate) type Census = Vec<Holdings>;

/// A part of a census, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CensusPiece {
    pub holdings: Holdings,
    /// Whether this is the last piece.
    pub last: bool,
    /// Whether the sender says the number of permits of each holding, and understands messages about permits. Older
    /// programs do not.
    #[serde(skip)]
    pub has_permits: bool,
}

/// Collects a census, and begins a new piece when one has its length.
struct CensusWriter {
    pieces: Census,
    piece: HoldingsWriter,
    bytes: usize,
    /// The length of a piece in bytes.
    longest: usize,
}

impl CensusWriter {
    fn new(longest: usize) -> Self {
        CensusWriter { pieces: Census::new(), piece: HoldingsWriter::default(), bytes: 0, longest }
    }

    fn push(&mut self, lock: &str, slots: impl Iterator<Item = Option<u32>>, permits: u32) {
        let length = self.piece.push(lock, slots, Some(permits));
        // A length, for each slot whether it is numbered and a number of 32 bits in groups of 7, and the number of
        // permits.
        self.bytes += lock.len() + 9 + 6 * length;
        if self.bytes > self.longest {
            self.end_piece();
        }
    }

    fn end_piece(&mut self) {
        self.pieces.push(std::mem::take(&mut self.piece).finish());
        self.bytes = 0;
    }

    fn finish(mut self) -> Census {
        if self.bytes > 0 || self.pieces.is_empty() {
            self.end_piece();
        }
        self.pieces
    }
}

impl LockTable {
    /// Ends the view, with a census in one piece.
    #[cfg(test)]
    pub(crate) fn stop(&mut self) -> Census {
        self.stop_in_pieces(usize::MAX)
    }

    /// Ends the view: stops all machines and returns what clients of this site hold, in pieces of about `longest` bytes. The
    /// clients keep it.
    pub(crate) fn stop_in_pieces(&mut self, longest: usize) -> Census {
        self.local_view = None;
        self.tally.views_installed += 1;
        self.draining.clear();
        self.has_drained = false;
        self.marks.clear();
        self.homes.clear();
        self.inbox.clear();
        self.elsewhere.clear();
        self.left.clear();
        self.unsought.clear();
        self.room.on_view_ended();
        self.alarms.retain(|(_, alarm)| !matches!(alarm, TableAlarm::Timer(..)));
        let (unsought, mut census) = (&mut self.unsought, CensusWriter::new(longest));
        self.locks.retain(|key, lock| {
            lock.machines = Machines::Stopped;
            if lock.clients.holds.is_empty() && lock.clients.waiters.is_empty() {
                return false;
            }
            let clients = &mut *lock.clients;
            clients.asked.reset();
            if !clients.waiters.is_empty() {
                unsought.insert(key.clone());
            }
            for (lane, hold) in clients.holds.iter_mut().enumerate() {
                hold.lane = lane;
            }
            if !clients.holds.is_empty() {
                census.push(key.name.as_str(), clients.holds.iter().map(|hold| hold.slot), key.permits);
            }
            true
        });
        self.locks.shrink_to(2 * self.locks.len());
        self.shared.retain(|key| self.locks.contains_key(key));
        census.finish()
    }
}

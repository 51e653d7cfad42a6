//! The end of a view in the lock table: machines stop, and every member reports what its clients hold. How the next one
//! starts from that is in `opening.rs`.

use serde::{Deserialize, Serialize};

use meshlock_protocol::Mode;

use super::clients::Hold;
use super::holdings::{HeldLane, Holdings, HoldingsWriter};
use super::lock::Machines;
use super::{LockKey, LockTable, TableAlarm};
use crate::claim::ClaimKey;
use crate::mutant::{self, Mutant};
use crate::rules::Rules;

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
    /// Whether the sender says the modes of holders, and understands modes and priorities. Older programs do not.
    #[serde(skip)]
    pub has_modes: bool,
    /// In the last piece, the key with which the sender proves what its clients hold. Versions 1 to 5 do not have it.
    #[serde(skip)]
    pub key: Option<ClaimKey>,
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

    fn push(&mut self, lock: &str, lanes: impl Iterator<Item = HeldLane>, permits: u32, more: u32) {
        let length = self.piece.push(lock, lanes, Some(permits));
        if more > 0 {
            self.piece.mark_off_rule(more);
        }
        // A length, for each slot whether it is numbered, a number of 32 bits in groups of 7 and a mode, and the number
        // of permits.
        self.bytes += lock.len() + 9 + 7 * length + more as usize;
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

/// Returns by how many slots a member whose program knows only the rules is told more than there are holders, so that it lets nobody in
/// beside them: none if they count on the number of the rule. It admits nobody while one site has more than its share. If the rules of the
/// next view are not known here, that is any share.
fn more_for_older(lock: &LockKey, next: Option<&Rules>) -> u32 {
    if mutant::is_on(Mutant::OlderMemberMisled) {
        return 0;
    }
    let rule = next.map(|rules| rules.rule(&lock.name));
    match rule {
        Some(rule) if rule.permits == lock.permits => 0,
        Some(rule) => rule.per_site + 1,
        None => Rules::MAX_PER_SITE + 1,
    }
}

/// Gives each holder the lane that it has when the next view opens: those that share it have one together.
fn number_lanes(holds: &mut [Hold]) {
    let (mut next, mut shared) = (0, None);
    for hold in holds {
        let joins = hold.mode == Mode::Shared && !mutant::is_on(Mutant::ReadersCountApart);
        hold.lane = shared.filter(|_| joins).unwrap_or(next);
        if hold.lane == next {
            next += 1;
        }
        if joins {
            shared = Some(hold.lane);
        }
    }
}

/// Returns the lanes of holders whose lanes are numbered in their order.
pub(super) fn held_lanes(holds: &[Hold]) -> impl Iterator<Item = HeldLane> {
    let forgotten = mutant::is_on(Mutant::ModesNotInCensus);
    let mut next = 0;
    holds.iter().filter_map(move |hold| {
        let is_first = hold.lane >= next;
        next = next.max(hold.lane + 1);
        let mode = if forgotten { Mode::Exclusive } else { hold.mode };
        is_first.then_some(HeldLane { slot: hold.slot, mode })
    })
}

impl LockTable {
    /// Ends the view, with a census in one piece for a view with the same rules.
    #[cfg(test)]
    pub(crate) fn stop(&mut self) -> Census {
        let rules = self.rules().cloned();
        self.stop_in_pieces(usize::MAX, rules.as_ref())
    }

    /// Ends the view: stops all machines and returns what clients of this site hold, in pieces of about `longest` bytes. The
    /// clients keep it. The `next` view has these rules, if they are known here.
    pub(crate) fn stop_in_pieces(&mut self, longest: usize, next: Option<&Rules>) -> Census {
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
            if clients.need_asking() {
                unsought.insert(key.clone());
            }
            number_lanes(&mut clients.holds);
            if !clients.holds.is_empty() {
                let lanes = held_lanes(&clients.holds);
                census.push(key.name.as_str(), lanes, key.permits, more_for_older(key, next));
            }
            true
        });
        self.locks.shrink_to(2 * self.locks.len());
        self.shared.retain(|key| self.locks.contains_key(key));
        census.finish()
    }
}

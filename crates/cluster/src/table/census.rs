//! The end of a view in the lock table: machines stop, and every member reports what its clients hold. How the next one
//! starts from that is in `opening.rs`.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::lock::Machines;
use super::{LockTable, TableAlarm};
use crate::names::LockName;

/// Maximum length of a piece of a census in bytes: far below the limit of a packet, so that nothing else waits long for
/// it.
const PIECE: usize = 128 << 10;

/// For each holder of a lock the number of its permit, where permits were numbered. Nearly all locks have one holder,
/// which takes no memory of its own.
pub type Slots = SmallVec<[Option<u32>; 1]>;

/// One lock that clients of a site hold when its machines stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holding {
    pub lock: LockName,
    /// For each holder the number of its permit, where permits were numbered.
    #[serde(with = "slots")]
    pub slots: Slots,
    /// The number of clients that may hold the lock at a time, as these understand it; `None` if the sender runs an
    /// older program, which knows only what the rules say. It follows everything else on the wire.
    #[serde(skip)]
    pub permits: Option<u32>,
}

/// Reads and writes [`Slots`] in the format of a `Vec`. A length that a peer claims reserves no memory.
mod slots {
    use serde::de::{SeqAccess, Visitor};
    use serde::{Deserializer, Serializer};

    use super::Slots;

    pub(super) fn serialize<S: Serializer>(slots: &Slots, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(slots)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Slots, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Slots;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the numbers of permits")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<Slots, A::Error> {
                let mut slots = Slots::new();
                while let Some(slot) = read.next_element()? {
                    slots.push(slot);
                }
                Ok(slots)
            }
        }

        deserializer.deserialize_seq(Reader)
    }
}

/// Some of the locks that clients of a site hold. All members are sent the same, so copies share one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holdings(Arc<Vec<Holding>>);

impl Holdings {
    /// Returns the holdings mutably; they are copied if others share them.
    pub fn make_mut(&mut self) -> &mut Vec<Holding> {
        Arc::make_mut(&mut self.0)
    }
}

impl Deref for Holdings {
    type Target = [Holding];
    fn deref(&self) -> &[Holding] {
        &self.0
    }
}

impl From<Vec<Holding>> for Holdings {
    fn from(holdings: Vec<Holding>) -> Self {
        Holdings(Arc::new(holdings))
    }
}

impl FromIterator<Holding> for Holdings {
    fn from_iter<I: IntoIterator<Item = Holding>>(holdings: I) -> Self {
        holdings.into_iter().collect::<Vec<_>>().into()
    }
}

impl Serialize for Holdings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Holdings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Holdings::from)
    }
}

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
#[derive(Default)]
struct CensusWriter {
    pieces: Census,
    piece: Vec<Holding>,
    bytes: usize,
}

impl CensusWriter {
    fn push(&mut self, holding: Holding) {
        // A length, for each slot whether it is numbered and a number of 32 bits in groups of 7, and the number of
        // permits.
        let bytes = holding.lock.as_str().len() + 9 + 6 * holding.slots.len();
        if self.bytes + bytes > PIECE && !self.piece.is_empty() {
            self.end_piece();
        }
        self.bytes += bytes;
        self.piece.push(holding);
    }

    fn end_piece(&mut self) {
        self.pieces.push(std::mem::take(&mut self.piece).into());
        self.bytes = 0;
    }

    fn finish(mut self) -> Census {
        self.end_piece();
        self.pieces
    }
}

impl LockTable {
    /// Ends the view: stops all machines and returns what clients of this site hold. The clients keep it.
    pub(crate) fn stop(&mut self) -> Census {
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
        let (unsought, mut census) = (&mut self.unsought, CensusWriter::default());
        self.locks.retain(|key, lock| {
            lock.machines = Machines::Stopped;
            if lock.clients.holds.is_empty() && lock.clients.waiters.is_empty() {
                return false;
            }
            let clients = &mut *lock.clients;
            clients.asked.clear();
            if !clients.waiters.is_empty() {
                unsought.insert(key.clone());
            }
            for (lane, hold) in clients.holds.iter_mut().enumerate() {
                hold.lane = lane;
            }
            if !clients.holds.is_empty() {
                let slots = clients.holds.iter().map(|hold| hold.slot).collect();
                census.push(Holding { lock: key.name.clone(), slots, permits: Some(key.permits) });
            }
            true
        });
        self.locks.shrink_to(2 * self.locks.len());
        self.shared.retain(|key| self.locks.contains_key(key));
        census.finish()
    }
}

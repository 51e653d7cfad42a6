//! The store of all states seen so far, exactly: their encodings one after the other, and a hash table of their offsets.
//!
//! A record is its length, the state it was first reached from, and its encoding. A slot of the table has eight bytes: the offset of the
//! record and 28 bits of its hash, so that two encodings are compared only when they are almost certainly equal. The table grows by
//! half when it is 85 % full. The store is divided into shards by hash; each grows on its own.

#![allow(
    clippy::cast_possible_truncation,
    reason = "offsets and hashes are cut into the bits of a slot on purpose; a 64-bit machine is assumed"
)]

use std::hash::BuildHasher;

use foldhash::quality::FixedState;

/// The number of shards. It does not depend on the number of threads, so that every run goes the same way.
pub(crate) const SHARDS: usize = 16;

/// The number of states that are looked up together.
pub(crate) const TOUCHED: usize = 16;

const CHUNK: usize = 1 << 16;
const MIN_SLOTS: usize = 64;
const OFFSET_BITS: u32 = 36;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// The place of a state in the store: shard and offset in 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatePlace(u64);

impl StatePlace {
    /// The place that the first state was reached from.
    pub(crate) const NOWHERE: StatePlace = StatePlace(0);
    /// Its size in a record, in bytes.
    pub(crate) const BYTES: usize = 5;

    pub(crate) fn new(shard: usize, offset: u64) -> Self {
        StatePlace((shard as u64) << OFFSET_BITS | offset)
    }

    pub(crate) fn shard(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 & OFFSET_MASK
    }

    pub(crate) fn to_bytes(self) -> [u8; StatePlace::BYTES] {
        *self.0.to_le_bytes().first_chunk().expect("five of eight bytes")
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        StatePlace(
            bytes[..StatePlace::BYTES].iter().rev().fold(0, |place, &byte| place << 8 | u64::from(byte)),
        )
    }
}

/// The hash of an encoded state. Its lowest 28 bits go into the slot, the next four choose the shard, the upper half the slot.
pub(crate) fn hash(body: &[u8]) -> u64 {
    FixedState::with_seed(0).hash_one(body)
}

pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 28) as usize % SHARDS
}

/// One part of the store.
#[derive(Debug)]
pub(crate) struct Shard {
    chunks: Vec<Vec<u8>>,
    /// 28 bits of hash above 36 bits of offset; 0 is empty.
    slots: Vec<u64>,
    /// The number of states that were inserted.
    states: usize,
    /// The offset of the first record that is still kept.
    first: u64,
    /// The offset from which on the records are in the table, and their number.
    known_from: u64,
    known: usize,
}

/// The result of inserting a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The state is new, and is at this offset now.
    New(u64),
    /// The state was there already, at this offset.
    Known(u64),
}

impl Shard {
    /// The offset of the first record.
    pub(crate) const FIRST: u64 = 1;
    /// No record has fewer bytes: its length, its origin, and one byte for a single site.
    pub(crate) const SHORTEST: usize = 2 + StatePlace::BYTES + 1;

    pub(crate) fn new() -> Self {
        // No record begins at offset 0, so that 0 can mean an empty slot.
        let mut first = Vec::with_capacity(CHUNK);
        first.push(0);
        Shard {
            chunks: vec![first],
            slots: vec![0; MIN_SLOTS],
            states: 0,
            first: Shard::FIRST,
            known_from: Shard::FIRST,
            known: 0,
        }
    }

    /// The number of different states; after [`Shard::know_from`] those that are inserted again count again.
    pub(crate) fn states(&self) -> usize {
        self.states
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len().saturating_sub(self.first as usize / CHUNK) * CHUNK
            + self.slots.len() * size_of::<u64>()
    }

    /// The offset behind the last record.
    pub(crate) fn end(&self) -> u64 {
        let last = self.chunks.len() - 1;
        (last * CHUNK + self.chunks[last].len()) as u64
    }

    /// The offset of the first record at or behind `offset`: a chunk whose rest was too short ends early.
    pub(crate) fn settle(&self, offset: u64) -> u64 {
        let (chunk, at) = (offset as usize / CHUNK, offset as usize % CHUNK);
        let is_over = at == self.chunks[chunk].len() && chunk + 1 < self.chunks.len();
        if is_over { ((chunk + 1) * CHUNK) as u64 } else { offset }
    }

    /// The record at `offset`: the state it was reached from, its encoding, and the offset of its end.
    pub(crate) fn record(&self, offset: u64) -> (StatePlace, &[u8], u64) {
        let (chunk, at) = (offset as usize / CHUNK, offset as usize % CHUNK);
        let bytes = &self.chunks[chunk];
        let length = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let body = at + 2 + StatePlace::BYTES;
        let end = body + length;
        (StatePlace::from_bytes(&bytes[at + 2..]), &bytes[body..end], (chunk * CHUNK + end) as u64)
    }

    /// Reads what [`Shard::insert`] will read for up to [`TOUCHED`] of these hashes. The reads do not depend on each other, so that the
    /// processor waits for memory once and not once for each state.
    pub(crate) fn touch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        let mut slots = [0; TOUCHED];
        slots.iter_mut().zip(hashes.clone()).for_each(|(slot, hash)| *slot = self.slots[self.home(hash)]);
        let known =
            slots.iter().zip(hashes).filter(|&(slot, hash)| slot & !OFFSET_MASK == hash << OFFSET_BITS);
        std::hint::black_box(known.fold(0, |sum, (slot, _)| sum ^ self.first_byte(slot & OFFSET_MASK)));
    }

    fn first_byte(&self, offset: u64) -> u8 {
        self.chunks[offset as usize / CHUNK].get(offset as usize % CHUNK).copied().unwrap_or(0)
    }

    /// Inserts `body`, if it is new.
    pub(crate) fn insert(&mut self, hash: u64, parent: StatePlace, body: &[u8]) -> Inserted {
        match self.find(hash, body) {
            Ok(slot) => Inserted::Known(self.slots[slot] & OFFSET_MASK),
            Err(free) => {
                let offset = self.append(parent, body);
                self.slots[free] = slot_of(hash, offset);
                self.states += 1;
                self.known += 1;
                if self.known * 20 > self.slots.len() * 17 {
                    self.place_all(self.slots.len() * 3 / 2);
                }
                Inserted::New(offset)
            }
        }
    }

    /// The slot of `body`, or the free slot where it belongs.
    fn find(&self, hash: u64, body: &[u8]) -> Result<usize, usize> {
        let tag = hash << OFFSET_BITS;
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return Err(at);
            }
            if slot & !OFFSET_MASK == tag && self.record(slot & OFFSET_MASK).1 == body {
                return Ok(at);
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    /// The offset of the record of `body`.
    pub(crate) fn offset_of(&self, hash: u64, body: &[u8]) -> Option<u64> {
        self.find(hash, body).ok().map(|slot| self.slots[slot] & OFFSET_MASK)
    }

    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.slots.len() as u64) >> 32) as usize
    }

    fn append(&mut self, parent: StatePlace, body: &[u8]) -> u64 {
        let length = u16::try_from(body.len()).expect("a state of a few sites takes a few bytes");
        if self.chunks[self.chunks.len() - 1].len() + 2 + StatePlace::BYTES + body.len() > CHUNK {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let offset = self.end();
        assert!(offset <= OFFSET_MASK, "a shard holds 64 GiB");
        let chunk = self.chunks.last_mut().expect("there is always one");
        chunk.extend_from_slice(&length.to_le_bytes());
        chunk.extend_from_slice(&parent.to_bytes());
        chunk.extend_from_slice(body);
        offset
    }

    /// Frees all records before `offset`, as far as they fill chunks.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        let last = self.chunks.len() - 1;
        let (from, to) = (self.first as usize / CHUNK, (offset as usize / CHUNK).min(last));
        // Not `fill`, which would keep the capacity of the vectors.
        self.chunks[from.min(to)..to].iter_mut().for_each(|chunk| *chunk = Vec::new());
        self.first = offset;
    }

    /// The offset from which on records are in the table.
    pub(crate) fn known_from(&self) -> u64 {
        self.known_from
    }

    /// Keeps only the records from `offset` on in the table; a record begins there, or the last one ends.
    pub(crate) fn know_from(&mut self, offset: u64) {
        (self.known_from, self.known) = (offset, 0);
        let (mut at, end) = (offset, self.end());
        while at < end {
            at = self.record(self.settle(at)).2;
            self.known += 1;
        }
        self.place_all((self.known * 3 / 2).max(MIN_SLOTS));
    }

    /// Makes a new table with this number of slots for the records from `known_from` on.
    fn place_all(&mut self, slots: usize) {
        self.slots = vec![0; slots];
        let mut offset = self.known_from;
        for _ in 0..self.known {
            offset = self.settle(offset);
            let (_, body, next) = self.record(offset);
            let hash = hash(body);
            let mut at = self.home(hash);
            while self.slots[at] != 0 {
                at = if at + 1 == slots { 0 } else { at + 1 };
            }
            self.slots[at] = slot_of(hash, offset);
            offset = next;
        }
    }
}

fn slot_of(hash: u64, offset: u64) -> u64 {
    hash << OFFSET_BITS | offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_takes_no_memory() {
        let mut shard = Shard::new();
        for number in 0..50_000_u32 {
            let body = number.to_le_bytes();
            let inserted = shard.insert(hash(&body), StatePlace::NOWHERE, &body);
            assert!(matches!(inserted, Inserted::New(_)));
        }
        let (before, end) = (shard.bytes(), shard.end());
        shard.know_from(end);
        shard.forget_before(end);
        let held =
            shard.chunks.iter().map(Vec::capacity).sum::<usize>() + shard.slots.capacity() * size_of::<u64>();
        assert_eq!(shard.bytes(), held);
        assert!(held < before / 10, "{held} of {before} bytes are left");
    }
}

//! What clients of a site hold, as it is sent when a view changes.
//!
//! A census may list a million locks, and is written, read and looked through while every lock waits. So the names are one
//! text and the rest is two lists: reading one takes a few allocations, not one for each lock. On the wire it is a list
//! of holdings, each a name and its slots.
//!
//! Clients that share a lock at one site count as one: they are in one machine, and have one slot.

use std::fmt;
use std::sync::Arc;

use meshlock_protocol::Mode;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::names::LockName;

/// One lock that clients of a site hold when its machines stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub lock: LockName,
    /// For each holder the number of its permit, where permits were numbered.
    pub slots: Vec<Option<u32>>,
    /// The mode of each of them, as far as one that is not exclusive: all behind are. It follows everything else on the wire, in versions
    /// that know modes.
    pub modes: Vec<Mode>,
    /// The number of clients that may hold the lock at a time, as these understand it; `None` if the sender runs an
    /// older program, which knows only what the rules say. It follows everything else on the wire.
    pub permits: Option<u32>,
}

/// One slot of a holding: a client that holds the lock, or all clients of its site that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldLane {
    pub(super) slot: Option<u32>,
    pub(super) mode: Mode,
}

impl HeldLane {
    /// Returns whether several slots of one permit go together.
    pub(super) fn admit_each_other(modes: impl Iterator<Item = Mode> + Clone) -> bool {
        let count = |mode| modes.clone().filter(|other| *other == mode).count();
        let (shared, upgradeable, exclusive) =
            (count(Mode::Shared), count(Mode::Upgradeable), count(Mode::Exclusive));
        upgradeable <= 1 && (exclusive == 0 || (shared, upgradeable, exclusive) == (0, 0, 1))
    }
}

/// A [`Holding`] in a list of them. Its name is a valid name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename = "Holding")]
pub struct HoldingRef<'a> {
    pub lock: &'a str,
    pub slots: &'a [Option<u32>],
    /// The mode of each slot, as far as one that is not exclusive.
    #[serde(skip)]
    pub modes: &'a [Mode],
    #[serde(skip)]
    pub permits: Option<u32>,
}

impl HoldingRef<'_> {
    /// Returns the lock's name.
    pub(crate) fn name(&self) -> LockName {
        self.lock.parse().expect("names were checked when the list was made")
    }

    /// Returns the slots with their modes.
    pub(super) fn lanes(self) -> impl Iterator<Item = HeldLane> {
        let mode = move |at: usize| self.modes.get(at).copied().unwrap_or_default();
        self.slots.iter().enumerate().map(move |(at, slot)| HeldLane { slot: *slot, mode: mode(at) })
    }
}

/// Some of the locks that clients of a site hold. All members are sent the same, so copies share one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holdings(Arc<Packed>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Packed {
    /// The names, one after the other.
    names: String,
    /// The slots, one after the other.
    slots: Vec<Option<u32>>,
    /// The modes of the slots, as far as one that is not exclusive: mostly none.
    modes: Vec<Mode>,
    entries: Vec<Entry>,
    /// The holdings that count on another number of permits than the rules give, by index, each with the number of slots by which a
    /// reader that knows only the rules is told more.
    off_rule: Vec<(u32, u32)>,
}

/// Where the parts of a holding end; they begin where those of the one before end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    name_end: u32,
    slots_end: u32,
    permits: Option<u32>,
}

impl Holdings {
    /// Returns the number of locks.
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    /// Returns the holding at an index below [`len`](Holdings::len).
    pub fn get(&self, at: usize) -> HoldingRef<'_> {
        let Packed { names, slots, modes, entries, .. } = &*self.0;
        let Entry { name_end, slots_end, permits } = entries[at];
        let (name, slot) =
            at.checked_sub(1).map_or((0, 0), |last| (entries[last].name_end, entries[last].slots_end));
        HoldingRef {
            lock: &names[name as usize..name_end as usize],
            slots: &slots[slot as usize..slots_end as usize],
            modes: trimmed(&modes[modes.len().min(slot as usize)..modes.len().min(slots_end as usize)]),
            permits,
        }
    }

    /// Returns the modes of all slots, one after the other, as far as one that is not exclusive.
    pub fn modes(&self) -> &[Mode] {
        &self.0.modes
    }

    /// Sets the modes of all slots, in order; those behind are exclusive. Returns whether there are that many slots.
    pub fn set_modes(&mut self, modes: &[Mode]) -> bool {
        let fits = modes.len() <= self.0.slots.len();
        if fits && *modes != self.0.modes[..] {
            Arc::make_mut(&mut self.0).modes = trimmed(modes).to_vec();
        }
        fits
    }

    /// Returns all of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = HoldingRef<'_>> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Sets the numbers of permits, in order.
    pub fn set_permits(&mut self, permits: impl IntoIterator<Item = Option<u32>>) {
        for (entry, permits) in Arc::make_mut(&mut self.0).entries.iter_mut().zip(permits) {
            entry.permits = permits;
        }
    }

    /// Notes that the holding at an index counts on another number of permits than the rules give: a reader that knows only the rules is
    /// told `more` slots than there are. Indexes are given in rising order.
    pub fn set_off_rule(&mut self, at: usize, more: u32) {
        let at = u32::try_from(at).expect("a piece is far shorter");
        Arc::make_mut(&mut self.0).off_rule.push((at, more));
    }

    /// Returns what a reader is told that knows numbers of permits.
    #[must_use]
    pub fn for_newer(&self) -> Holdings {
        let mut same = self.clone();
        if !same.0.off_rule.is_empty() {
            Arc::make_mut(&mut same.0).off_rule.clear();
        }
        same
    }

    /// Returns what a reader is told whose program takes every holder for one by the rules. So that it lets nobody in beside holders
    /// that count on another number, it is told of so many of them that by any rule there are too many: it admits nobody until a view in
    /// which they have gone.
    #[must_use]
    pub fn for_older(&self) -> Holdings {
        let mut writer = HoldingsWriter::default();
        let mut off_rule = self.0.off_rule.iter().peekable();
        for (at, holding) in self.iter().enumerate() {
            let more = off_rule.next_if(|(of, _)| *of as usize == at).map_or(0, |(_, more)| *more);
            let more = (0..more).map(|_| None);
            let slots = holding.slots.iter().copied().chain(more);
            writer.push(holding.lock, slots.map(|slot| HeldLane { slot, mode: Mode::Exclusive }), None);
        }
        writer.finish()
    }
}

impl FromIterator<Holding> for Holdings {
    fn from_iter<I: IntoIterator<Item = Holding>>(holdings: I) -> Self {
        let mut writer = HoldingsWriter::default();
        for Holding { lock, slots, modes, permits } in holdings {
            let modes = modes.into_iter().chain(std::iter::repeat(Mode::Exclusive));
            let lanes = slots.into_iter().zip(modes).map(|(slot, mode)| HeldLane { slot, mode });
            writer.push(lock.as_str(), lanes, permits);
        }
        writer.finish()
    }
}

impl From<Vec<Holding>> for Holdings {
    fn from(holdings: Vec<Holding>) -> Self {
        holdings.into_iter().collect()
    }
}

/// Returns the modes as far as one that is not exclusive.
fn trimmed(modes: &[Mode]) -> &[Mode] {
    let end = modes.iter().rposition(|mode| *mode != Mode::Exclusive).map_or(0, |last| last + 1);
    &modes[..end]
}

/// Makes a list of holdings.
#[derive(Default)]
pub(super) struct HoldingsWriter(Packed);

impl HoldingsWriter {
    /// Appends a holding of a lock with a valid name. Returns its number of slots.
    pub(super) fn push(
        &mut self,
        lock: &str,
        lanes: impl Iterator<Item = HeldLane>,
        permits: Option<u32>,
    ) -> usize {
        let before = self.0.slots.len();
        self.0.names.push_str(lock);
        for HeldLane { slot, mode } in lanes {
            if mode != Mode::Exclusive {
                self.0.modes.resize(self.0.slots.len(), Mode::Exclusive);
                self.0.modes.push(mode);
            }
            self.0.slots.push(slot);
        }
        self.end(permits);
        self.0.slots.len() - before
    }

    /// Notes that the last holding counts on another number of permits than the rules give ([`Holdings::set_off_rule`]).
    pub(super) fn mark_off_rule(&mut self, more: u32) {
        let last = self.0.entries.len().checked_sub(1).expect("there is a last one");
        self.0.off_rule.push((u32::try_from(last).expect("a piece is far shorter"), more));
    }

    /// Ends a holding whose parts were appended.
    fn end(&mut self, permits: Option<u32>) {
        let end = |length: usize| u32::try_from(length).expect("a piece is far shorter");
        let (name_end, slots_end) = (end(self.0.names.len()), end(self.0.slots.len()));
        self.0.entries.push(Entry { name_end, slots_end, permits });
    }

    pub(super) fn finish(self) -> Holdings {
        Holdings(Arc::new(self.0))
    }
}

impl Serialize for Holdings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Holdings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut writer = HoldingsWriter::default();
        deserializer.deserialize_seq(List(&mut writer))?;
        Ok(writer.finish())
    }
}

/// Reads a list of holdings. Whatever length a peer claims, memory is taken only for what it has sent.
struct List<'a>(&'a mut HoldingsWriter);

/// Reads one of them.
struct One<'a>(&'a mut HoldingsWriter);

/// Reads its name.
struct Name<'a>(&'a mut String);

/// Reads its slots.
struct SlotList<'a>(&'a mut Vec<Option<u32>>);

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("holdings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<(), A::Error> {
        while read.next_element_seed(One(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_struct("Holding", &["lock", "slots"], self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a lock and its slots")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<(), A::Error> {
        let name = read.next_element_seed(Name(&mut self.0.0.names))?;
        let slots = read.next_element_seed(SlotList(&mut self.0.0.slots))?;
        if name.is_none() || slots.is_none() {
            return Err(A::Error::invalid_length(1, &"a lock and its slots"));
        }
        self.0.end(None);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a lock")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        LockName::check(name).map_err(E::custom)?;
        self.0.push_str(name);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for SlotList<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SlotList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the numbers of permits")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<(), A::Error> {
        while let Some(slot) = read.next_element()? {
            self.0.push(slot);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(lock: &str, slots: &[Option<u32>]) -> Holding {
        Holding { lock: lock.parse().unwrap(), slots: slots.to_vec(), modes: Vec::new(), permits: None }
    }

    #[test]
    fn modes_are_kept_beside_the_slots_and_take_nothing_where_all_are_exclusive() {
        let plain = Holdings::from(vec![holding("a", &[Some(0)]), holding("b", &[Some(0)])]);
        assert_eq!(plain.modes(), []);
        let (x, s, u) = (Mode::Exclusive, Mode::Shared, Mode::Upgradeable);
        let shared = Holding { modes: vec![s, u], ..holding("b", &[Some(0), Some(0)]) };
        let holdings: Holdings = vec![holding("a", &[Some(0)]), shared.clone(), holding("c", &[None])].into();
        assert_eq!(holdings.modes(), [x, s, u]);
        assert_eq!([0, 1, 2].map(|at| holdings.get(at).modes), [&[][..], &[s, u], &[]]);
        let mut read: Holdings = postcard::from_bytes(&postcard::to_stdvec(&holdings).unwrap()).unwrap();
        assert!(read.set_modes(&[x, s, u, x]) && !read.set_modes(&[x; 5]));
        assert_eq!(read, holdings);
        assert_eq!(read.for_older().modes(), [], "an older reader takes them for exclusive");
    }

    #[test]
    fn holders_of_one_permit_go_together_if_no_two_exclude_each_other() {
        let (x, s, u) = (Mode::Exclusive, Mode::Shared, Mode::Upgradeable);
        let together = |modes: &[Mode]| HeldLane::admit_each_other(modes.iter().copied());
        assert!(together(&[]) && together(&[x]) && together(&[s, u, s]));
        assert!(![[x, s], [x, u], [x, x], [u, u]].iter().any(|modes| together(modes)));
    }

    #[test]
    fn holdings_are_read_as_they_were_written_and_as_a_list_of_names_and_slots() {
        let list = vec![holding("a", &[Some(0)]), holding("b/ü", &[]), holding("c", &[None, Some(300)])];
        let holdings = Holdings::from(list.clone());
        let plain: Vec<(&str, &[Option<u32>])> =
            list.iter().map(|holding| (holding.lock.as_str(), &holding.slots[..])).collect();
        let bytes = postcard::to_stdvec(&holdings).unwrap();
        assert_eq!(bytes, postcard::to_stdvec(&plain).unwrap());
        assert_eq!(postcard::from_bytes::<Holdings>(&bytes), Ok(holdings.clone()));
        assert_eq!(
            holdings.get(2),
            HoldingRef { lock: "c", slots: &[None, Some(300)], modes: &[], permits: None }
        );
        assert_eq!(holdings.iter().map(|holding| holding.name()).collect::<Vec<_>>().len(), 3);
    }

    #[test]
    fn a_reader_that_knows_only_the_rules_is_told_more_holders_where_they_count_on_another_number() {
        let mut holdings = Holdings::from(vec![holding("a", &[Some(0)]), holding("b", &[Some(4), None])]);
        holdings.set_permits([Some(1), Some(7)]);
        let plain = holdings.clone();
        holdings.set_off_rule(1, 2);
        assert_eq!(holdings.for_newer(), plain);
        let told = vec![holding("a", &[Some(0)]), holding("b", &[Some(4), None, None, None])];
        assert_eq!(holdings.for_older(), Holdings::from(told));
    }

    #[test]
    fn what_is_no_name_of_a_lock_is_refused_and_a_length_that_is_only_claimed_costs_nothing() {
        for name in [String::new(), "x".repeat(256)] {
            let bytes = postcard::to_stdvec(&vec![(name, vec![Some(1_u32)])]).unwrap();
            assert!(postcard::from_bytes::<Holdings>(&bytes).is_err());
        }
        let claimed = postcard::to_stdvec(&u64::MAX).unwrap();
        assert!(postcard::from_bytes::<Holdings>(&claimed).is_err());
    }
}

//! Messages of members that have arrived and cannot be handled yet.
//!
//! A message is *early* if its view is not open here: its sender has the census of all members, this site has not. It is *roomless*
//! if it is for a lock that this site does not have, and the table is full. Both wait here, and the link brings what comes after
//! them: a full table delays no lock that has room. Messages about one lock stay in order.
//!
//! What waits is counted in bytes for each member. Above a limit the member is held back: it is not sent acknowledgements, so that
//! its window fills. Nothing of a correct member is refused, because a window more is kept. With the next view all of it is void.

use std::collections::{BTreeMap, VecDeque};

use meshlock_protocol::Message;

use super::packet::LinkPayload;
use super::{Node, NodeOutput};
use crate::links::{Acceptance, LinkLimits, LinkTally, Weigh};
use crate::names::{LockName, Member, SiteName};
use crate::table::LockTable;

/// About how many bytes a message takes besides its lock's name and its numbers.
const FIXED_BYTES: usize = 128;

impl Weigh for LinkPayload {
    fn weight(&self) -> usize {
        let name = |lock: &LockName| FIXED_BYTES + lock.as_str().len();
        match self {
            LinkPayload::Lock(of) => name(&of.lock) + 8 * of.message.words(),
            LinkPayload::Left(lock) => name(lock),
            LinkPayload::Permits(of) => name(&of.lock),
            LinkPayload::Census(piece) => {
                let bytes = piece.holdings.iter().map(|held| 16 + held.lock.len() + 8 * held.slots.len());
                FIXED_BYTES + bytes.sum::<usize>()
            }
        }
    }
}

/// A message that waits.
#[derive(Debug)]
struct Letter {
    from: Member,
    payload: LinkPayload,
    /// Its number on the link.
    number: u64,
}

/// Messages for which the table has no room, by lock.
type ByLock = BTreeMap<LockName, VecDeque<Letter>>;

/// All messages that wait.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Those that came before the view opened, in order.
    early: VecDeque<Letter>,
    /// Those for which the table has no room, in order for each lock; by what the first of them needs, which are two limits.
    for_machines: ByLock,
    for_permits: ByLock,
    /// The bytes of both together, for each member that has sent some.
    bytes: BTreeMap<SiteName, usize>,
    /// Whether roomless messages are being handled.
    handles_roomless: bool,
    /// How many messages had to wait for room, since the start of the incarnation.
    roomless_in_all: u64,
}

/// Returns the lock that a message is about; `None` for a census.
fn lock_of(payload: &LinkPayload) -> Option<&LockName> {
    match payload {
        LinkPayload::Lock(of) => Some(&of.lock),
        LinkPayload::Left(lock) => Some(lock),
        LinkPayload::Permits(of) => Some(&of.lock),
        LinkPayload::Census(_) => None,
    }
}

impl Letters {
    fn has_roomless(&self) -> bool {
        !self.for_machines.is_empty() || !self.for_permits.is_empty()
    }

    /// Returns whether messages about the same lock wait for room.
    pub(super) fn await_room(&self, payload: &LinkPayload) -> bool {
        let awaits = |lock| self.for_machines.contains_key(lock) || self.for_permits.contains_key(lock);
        self.has_roomless() && lock_of(payload).is_some_and(awaits)
    }

    /// Returns whether a message can be kept, and whether the member is held back from now on.
    pub(super) fn acceptance(
        &self,
        from: &SiteName,
        payload: &LinkPayload,
        limits: &LinkLimits,
    ) -> Acceptance {
        limits.keep(self.bytes_of(from), payload.weight())
    }

    fn bytes_of(&self, site: &SiteName) -> usize {
        self.bytes.get(site).copied().unwrap_or(0)
    }

    fn add(&mut self, letter: &Letter) {
        *self.bytes.entry(letter.from.site.clone()).or_default() += letter.payload.weight();
    }

    fn subtract(&mut self, letter: &Letter) {
        if let Some(bytes) = self.bytes.get_mut(&letter.from.site) {
            *bytes = bytes.saturating_sub(letter.payload.weight());
        }
    }

    fn keep_early(&mut self, letter: Letter) {
        self.add(&letter);
        self.early.push_back(letter);
    }

    fn keep_roomless(&mut self, letter: Letter) {
        self.add(&letter);
        self.roomless_in_all += 1;
        let Some(lock) = lock_of(&letter.payload).cloned() else { return };
        let is_first = !self.await_room(&letter.payload);
        let by_lock = if is_first { needs_permits(&letter) } else { self.for_permits.contains_key(&lock) };
        let by_lock = if by_lock { &mut self.for_permits } else { &mut self.for_machines };
        by_lock.entry(lock).or_insert_with(|| VecDeque::with_capacity(1)).push_back(letter);
    }

    /// Takes out the first message about a lock for which there is room.
    fn take_roomless(&mut self, table: &LockTable) -> Option<Letter> {
        // If there is no room for the first lock, there is none for the others: all of them are new to the table.
        if self.for_machines.keys().next().is_some_and(|lock| table.has_room(lock)) {
            self.take_first(false)
        } else if self.for_permits.keys().next().is_some_and(|lock| table.has_room_for_permits(lock)) {
            self.take_first(true)
        } else {
            None
        }
    }

    fn take_first(&mut self, permits: bool) -> Option<Letter> {
        let by_lock = if permits { &mut self.for_permits } else { &mut self.for_machines };
        let (lock, mut letters) = by_lock.pop_first()?;
        let letter = letters.pop_front()?;
        if let Some(next) = letters.front() {
            let by_lock = if needs_permits(next) { &mut self.for_permits } else { &mut self.for_machines };
            by_lock.insert(lock, letters);
        }
        self.subtract(&letter);
        Some(letter)
    }
}

/// Returns whether the table needs room to remember a number of permits for the message, and not for a lock's machines.
fn needs_permits(letter: &Letter) -> bool {
    matches!(letter.payload, LinkPayload::Permits(_))
}

impl Node {
    /// Returns what the links of this site have counted since its start.
    pub fn link_tally(&self) -> LinkTally {
        *self.links.tally()
    }

    /// Returns how many messages had to wait for room in the lock table, since the start of this incarnation.
    pub fn roomless_messages(&self) -> u64 {
        self.change.letters.roomless_in_all
    }

    /// Handles a message of the view that is installed, or keeps it until it can be handled.
    pub(super) fn on_letter(&mut self, from: Member, payload: LinkPayload, out: &mut Vec<NodeOutput>) {
        if !self.change.must_wait(&payload, &self.table) {
            return self.on_payload(&from, payload, out);
        }
        let letter = Letter { from, payload, number: self.arrived };
        if self.change.is_open() {
            self.change.letters.keep_roomless(letter);
        } else {
            self.change.letters.keep_early(letter);
        }
    }

    /// Handles what came before the view opened, which has happened now.
    pub(super) fn handle_early(&mut self, out: &mut Vec<NodeOutput>) {
        for letter in std::mem::take(&mut self.change.letters.early) {
            self.change.letters.subtract(&letter);
            self.arrived = letter.number;
            self.on_letter(letter.from, letter.payload, out);
        }
        let members: Vec<SiteName> = self.view.members.iter().map(|member| member.site.clone()).collect();
        for site in members {
            self.release_if_few_wait(&site);
        }
    }

    /// Handles messages that had to wait for room in the table, as far as there is some.
    pub(super) fn handle_roomless(&mut self, out: &mut Vec<NodeOutput>) {
        if !self.change.letters.has_roomless() || self.change.letters.handles_roomless {
            return;
        }
        self.change.letters.handles_roomless = true;
        while let Some(letter) = self.change.letters.take_roomless(&self.table) {
            self.arrived = letter.number;
            self.on_payload(&letter.from, letter.payload, out);
            self.release_if_few_wait(&letter.from.site);
        }
        self.change.letters.handles_roomless = false;
    }

    /// Forgets all messages that wait: a new view has been installed.
    pub(super) fn drop_letters(&mut self) {
        let letters = &mut self.change.letters;
        letters.early.clear();
        letters.for_machines.clear();
        letters.for_permits.clear();
        for site in std::mem::take(&mut letters.bytes).into_keys() {
            self.links.release(&site, self.now);
        }
    }

    fn release_if_few_wait(&mut self, site: &SiteName) {
        if self.change.letters.bytes_of(site) <= self.links.limits().early_bytes {
            self.links.release(site, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Incarnation;
    use crate::node::Config;
    use crate::table::{PermitMessage, PermitsOf};

    fn table() -> LockTable {
        LockTable::new(Config::new("a".parse().unwrap(), vec!["a".parse().unwrap()]).table_config)
    }

    fn letter(from: &str, lock: &str, permits: Option<u32>, number: u64) -> Letter {
        let from = Member { site: from.parse().unwrap(), incarnation: Incarnation::new(1) };
        let lock: LockName = lock.parse().unwrap();
        let payload = match permits {
            Some(permits) => {
                LinkPayload::Permits(PermitsOf { lock, message: PermitMessage::Want { permits } })
            }
            None => LinkPayload::Left(lock),
        };
        Letter { from, payload, number }
    }

    #[test]
    fn messages_about_one_lock_stay_in_order_whatever_they_need_room_for() {
        let mut letters = Letters::default();
        let kinds = [None, Some(3), None, None, Some(4), Some(5)];
        for (number, permits) in (1..).zip(kinds) {
            letters.keep_roomless(letter("b", "x", permits, number));
            letters.keep_roomless(letter("c", "y", permits, number + 10));
        }
        assert!(letters.await_room(&letter("b", "x", None, 0).payload));
        assert!(!letters.await_room(&letter("b", "z", None, 0).payload));
        let mut taken = [Vec::new(), Vec::new()];
        while let Some(letter) = letters.take_roomless(&table()) {
            taken[usize::from(letter.number > 10)].push(letter.number);
        }
        assert_eq!(taken, [vec![1, 2, 3, 4, 5, 6], vec![11, 12, 13, 14, 15, 16]]);
        assert!(!letters.has_roomless() && letters.bytes.values().all(|bytes| *bytes == 0));
    }

    #[test]
    fn what_waits_is_counted_in_bytes_and_first_held_back_then_refused() {
        let mut letters = Letters::default();
        let limits = LinkLimits { early_bytes: 300, window_bytes: 200, ..LinkLimits::default() };
        let mut taken = Vec::new();
        for number in 1..=9 {
            let next = letter("b", "x", None, number);
            let acceptance = letters.acceptance(&next.from.site, &next.payload, &limits);
            taken.push(acceptance);
            if acceptance != Acceptance::Refuse {
                letters.keep_early(next);
            }
        }
        // Each weighs 129 bytes.
        let (take, hold) = (vec![Acceptance::Take; 2], vec![Acceptance::Hold; 4]);
        assert_eq!(taken, [take, hold, vec![Acceptance::Refuse; 3]].concat());
        let other = letter("c", "x", None, 1);
        assert_eq!(letters.acceptance(&other.from.site, &other.payload, &limits), Acceptance::Take);
    }
}

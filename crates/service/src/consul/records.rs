//! What this site remembers of Consul sessions besides their leases: their options, and the content of their keys.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Span;

use super::names::Form;
use crate::sessions::registry::LeaseId;

/// The options that a client gave when it created a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionOptions {
    pub(super) name: String,
    pub(super) behavior: &'static str,
    pub(super) lock_delay: Span,
    /// As the client wrote it.
    /// As the client gave it.
    pub(super) ttl: String,
    pub(super) lasts: Span,
    /// The index of its creation.
    pub(super) created: u64,
}

/// The content of a session's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyContent {
    pub(super) key: String,
    pub(super) flags: u64,
    pub(super) value: Vec<u8>,
}

/// A session.
#[derive(Debug)]
struct SessionRecord {
    options: SessionOptions,
    /// Locks and permits that it holds or held; the registry knows which it still holds.
    held: BTreeMap<LockName, (Form, KeyContent)>,
    /// Semaphores of which it wants a permit.
    contends: BTreeMap<LockName, KeyContent>,
}

/// All sessions of this site. Those that are over are forgotten from time to time.
#[derive(Debug, Default)]
pub(super) struct Records {
    all: BTreeMap<LeaseId, SessionRecord>,
    /// Number of sessions at which those that are over are to be forgotten.
    cleanup_at: usize,
    contenders: usize,
}

/// The limit of requested permits at this site is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyContenders;

impl Records {
    /// Returns whether it is time to forget sessions that are over.
    pub(super) fn needs_cleanup(&self) -> bool {
        self.all.len() >= self.cleanup_at
    }

    /// Adds a session.
    pub(super) fn add(&mut self, lease: LeaseId, options: SessionOptions) {
        self.all.insert(lease, SessionRecord { options, held: BTreeMap::new(), contends: BTreeMap::new() });
    }

    /// Forgets sessions that are over.
    pub(super) fn forget(&mut self, over: &BTreeSet<LeaseId>) {
        self.all.retain(|lease, _| !over.contains(lease));
        self.contenders = self.all.values().map(|record| record.contends.len()).sum();
        self.cleanup_at = 2 * self.all.len() + 64;
    }

    pub(super) fn options(&self, lease: LeaseId) -> Option<&SessionOptions> {
        self.all.get(&lease).map(|record| &record.options)
    }

    pub(super) fn ids(&self) -> BTreeSet<LeaseId> {
        self.all.keys().copied().collect()
    }

    /// Returns the content of the key by which a session holds a lock.
    pub(super) fn held(&self, lease: LeaseId, lock: &LockName) -> Option<&(Form, KeyContent)> {
        self.all.get(&lease)?.held.get(lock)
    }

    /// Records that a session holds a lock.
    pub(super) fn set_held(&mut self, lease: LeaseId, lock: LockName, form: Form, mark: KeyContent) {
        if let Some(record) = self.all.get_mut(&lease) {
            record.held.insert(lock, (form, mark));
        }
    }

    pub(super) fn remove_held(&mut self, lease: LeaseId, lock: &LockName) {
        if let Some(record) = self.all.get_mut(&lease) {
            record.held.remove(lock);
        }
    }

    /// Returns the content of the key by which a session requests a permit.
    pub(super) fn contender(&self, lease: LeaseId, lock: &LockName) -> Option<&KeyContent> {
        self.all.get(&lease)?.contends.get(lock)
    }

    /// Records that a session wants a permit; fails if all sessions together want `max` already.
    pub(super) fn add_contender(
        &mut self,
        lease: LeaseId,
        lock: LockName,
        mark: KeyContent,
        max: usize,
    ) -> Result<(), TooManyContenders> {
        let Some(record) = self.all.get_mut(&lease) else { return Ok(()) };
        if !record.contends.contains_key(&lock) {
            if self.contenders >= max {
                return Err(TooManyContenders);
            }
            self.contenders += 1;
        }
        record.contends.insert(lock, mark);
        Ok(())
    }

    pub(super) fn remove_contender(&mut self, lease: LeaseId, lock: &LockName) -> bool {
        let removed = self.all.get_mut(&lease).and_then(|record| record.contends.remove(lock));
        self.contenders -= usize::from(removed.is_some());
        removed.is_some()
    }

    /// Returns the keys of sessions that start with `prefix`: requests for permits, and locks that are or were held.
    pub(super) fn keys_from(&self, prefix: &str) -> Vec<(LeaseId, LockName, Option<Form>)> {
        let of = |(&lease, record): (&LeaseId, &SessionRecord)| {
            let begins = |mark: &KeyContent| mark.key.starts_with(prefix);
            let held = record.held.iter().filter(|(_, (_, mark))| begins(mark));
            let held = held.map(|(lock, (form, _))| (lease, lock.clone(), Some(*form)));
            let contends = record.contends.iter().filter(|(_, mark)| begins(mark));
            let contends = contends.map(|(lock, _)| (lease, lock.clone(), None));
            held.chain(contends).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SessionOptions {
        let (name, ttl) = (String::new(), String::new());
        SessionOptions {
            name,
            behavior: "release",
            lock_delay: Span::ZERO,
            ttl,
            lasts: Span::ZERO,
            created: 1,
        }
    }

    fn mark(key: &str) -> KeyContent {
        KeyContent { key: key.to_owned(), flags: 0, value: Vec::new() }
    }

    #[test]
    fn sessions_that_are_over_are_forgotten() {
        let mut records = Records::default();
        for number in 1..10_000 {
            let lease = LeaseId::new(number).unwrap();
            if records.needs_cleanup() {
                let over = records.ids();
                records.forget(&over);
            }
            records.add(lease, options());
            records.add_contender(lease, "a".parse().unwrap(), mark("a/s"), 1000).unwrap();
        }
        assert!(records.all.len() < 200 && records.contenders == records.all.len());
    }

    #[test]
    fn the_number_of_contenders_is_limited() {
        let (mut records, lease) = (Records::default(), LeaseId::new(1).unwrap());
        records.add(lease, options());
        let mut add = |name: &str| records.add_contender(lease, name.parse().unwrap(), mark(name), 2);
        assert_eq!(
            (add("a"), add("b"), add("a"), add("c")),
            (Ok(()), Ok(()), Ok(()), Err(TooManyContenders))
        );
        assert!(records.remove_contender(lease, &"a".parse().unwrap()));
        assert!(!records.remove_contender(lease, &"a".parse().unwrap()));
        assert_eq!(records.add_contender(lease, "c".parse().unwrap(), mark("c"), 2), Ok(()));
        let over = records.ids();
        records.forget(&over);
        assert_eq!(records.contenders, 0);
    }
}

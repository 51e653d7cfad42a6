//! What this site remembers of its sessions besides their leases: what clients said of them, and what they show in their keys. Pure.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_cluster::names::LockName;
use meshlock_cluster::time::Span;

use super::names::Form;
use crate::sessions::registry::LeaseId;

/// What a client said of its session when it created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: String,
    pub(super) behavior: &'static str,
    pub(super) lock_delay: Span,
    /// As it was written.
    pub(super) ttl: String,
    /// The number of its creation.
    pub(super) created: u64,
}

/// What a session shows in one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) key: String,
    pub(super) flags: u64,
    pub(super) value: Vec<u8>,
}

#[derive(Debug)]
struct Record {
    about: About,
    /// Locks and permits that it has, or had: whether it still does is the registry's to say.
    held: BTreeMap<LockName, (Form, Mark)>,
    /// Semaphores of which it wants a permit.
    contends: BTreeMap<LockName, Mark>,
}

/// All sessions of this site. Those that are over are forgotten now and then.
#[derive(Debug, Default)]
pub(super) struct Records {
    all: BTreeMap<LeaseId, Record>,
    /// With so many it is time to forget those that are over.
    crowded: usize,
    contenders: usize,
}

/// No more semaphores can be wanted at this site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Records {
    /// Whether it is time to forget sessions that are over.
    pub(super) fn is_crowded(&self) -> bool {
        self.all.len() >= self.crowded
    }

    /// A session was created.
    pub(super) fn add(&mut self, lease: LeaseId, about: About) {
        self.all.insert(lease, Record { about, held: BTreeMap::new(), contends: BTreeMap::new() });
    }

    /// Forgets sessions that are over.
    pub(super) fn forget(&mut self, over: &BTreeSet<LeaseId>) {
        self.all.retain(|lease, _| !over.contains(lease));
        self.contenders = self.all.values().map(|record| record.contends.len()).sum();
        self.crowded = 2 * self.all.len() + 64;
    }

    pub(super) fn about(&self, lease: LeaseId) -> Option<&About> {
        self.all.get(&lease).map(|record| &record.about)
    }

    pub(super) fn ids(&self) -> BTreeSet<LeaseId> {
        self.all.keys().copied().collect()
    }

    /// What the session shows of a lock that it holds.
    pub(super) fn held(&self, lease: LeaseId, lock: &LockName) -> Option<&(Form, Mark)> {
        self.all.get(&lease)?.held.get(lock)
    }

    /// The session holds a lock.
    pub(super) fn set_held(&mut self, lease: LeaseId, lock: LockName, form: Form, mark: Mark) {
        if let Some(record) = self.all.get_mut(&lease) {
            record.held.insert(lock, (form, mark));
        }
    }

    pub(super) fn remove_held(&mut self, lease: LeaseId, lock: &LockName) {
        if let Some(record) = self.all.get_mut(&lease) {
            record.held.remove(lock);
        }
    }

    /// What the session shows while it wants a permit.
    pub(super) fn contender(&self, lease: LeaseId, lock: &LockName) -> Option<&Mark> {
        self.all.get(&lease)?.contends.get(lock)
    }

    /// The session wants a permit; at most so many are wanted by all.
    pub(super) fn add_contender(
        &mut self,
        lease: LeaseId,
        lock: LockName,
        mark: Mark,
        most: usize,
    ) -> Result<(), Full> {
        let Some(record) = self.all.get_mut(&lease) else { return Ok(()) };
        if !record.contends.contains_key(&lock) {
            if self.contenders >= most {
                return Err(Full);
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

    /// All keys of sessions that begin so: those of contenders, and the locks of those that hold, or held, them.
    pub(super) fn keys_from(&self, prefix: &str) -> Vec<(LeaseId, LockName, Option<Form>)> {
        let of = |(&lease, record): (&LeaseId, &Record)| {
            let begins = |mark: &Mark| mark.key.starts_with(prefix);
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

    fn about() -> About {
        let (name, ttl) = (String::new(), String::new());
        About { name, behavior: "release", lock_delay: Span::ZERO, ttl, created: 1 }
    }

    fn mark(key: &str) -> Mark {
        Mark { key: key.to_owned(), flags: 0, value: Vec::new() }
    }

    #[test]
    fn sessions_that_are_over_are_forgotten() {
        let mut records = Records::default();
        for number in 1..10_000 {
            let lease = LeaseId::new(number).unwrap();
            if records.is_crowded() {
                let over = records.ids();
                records.forget(&over);
            }
            records.add(lease, about());
            records.add_contender(lease, "a".parse().unwrap(), mark("a/s"), 1000).unwrap();
        }
        assert!(records.all.len() < 200 && records.contenders == records.all.len());
    }

    #[test]
    fn so_many_contenders_and_no_more() {
        let (mut records, lease) = (Records::default(), LeaseId::new(1).unwrap());
        records.add(lease, about());
        let mut add = |name: &str| records.add_contender(lease, name.parse().unwrap(), mark(name), 2);
        assert_eq!((add("a"), add("b"), add("a"), add("c")), (Ok(()), Ok(()), Ok(()), Err(Full)));
        assert!(records.remove_contender(lease, &"a".parse().unwrap()));
        assert!(!records.remove_contender(lease, &"a".parse().unwrap()));
        assert_eq!(records.add_contender(lease, "c".parse().unwrap(), mark("c"), 2), Ok(()));
        let over = records.ids();
        records.forget(&over);
        assert_eq!(records.contenders, 0);
    }
}

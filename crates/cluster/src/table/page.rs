//! What this site adds to a page of all locks.

use std::cmp::Reverse;

use super::report::MAX_LISTED;
use super::{HolderReport, LockTable};
use crate::names::LockName;
use crate::report::{FirstNames, LockEntry, MAX_PAGE_BYTES, MAX_PAGE_HOLDERS, PageQuestion};
use crate::time::{Span, Time};

impl LockTable {
    /// Returns the first locks in use here that the question means, and whether there are more. Takes time linear in the number of locks,
    /// and memory for the ones that are returned.
    pub(crate) fn page(&self, question: &PageQuestion, now: Time) -> (Vec<LockEntry>, bool) {
        let mut first = FirstNames::new(question.most());
        let is_meant = |name: &LockName| {
            question.after.as_ref().is_none_or(|after| name > after) && question.names.admits(name)
        };
        for (key, lock) in &self.locks {
            let in_use = !lock.clients.waiters.is_empty() || !lock.clients.holds.is_empty();
            if in_use && is_meant(&key.name) {
                first.offer(&key.name);
            }
        }
        // A standing claim is one of a lock that another site lists.
        let claimed =
            self.claims.locks().into_iter().filter(|name| {
                is_meant(name) && self.claims.shown(name).any(|(_, claim)| !claim.is_standing)
            });
        claimed.for_each(|name| first.offer(name));
        let (names, mut more) = first.finish();
        let (mut entries, mut bytes) = (Vec::with_capacity(names.len()), 0);
        for name in names {
            if bytes >= MAX_PAGE_BYTES {
                more = true;
                break;
            }
            let entry = self.entry(name, now);
            bytes += entry.bytes();
            entries.push(entry);
        }
        (entries, more)
    }

    fn entry(&self, name: &LockName, now: Time) -> LockEntry {
        let keys = self.keys_of(name);
        let locks = || keys.iter().filter_map(|key| Some((key, self.locks.get(key)?)));
        let held = locks().find(|(_, lock)| !lock.clients.holds.is_empty()).or_else(|| locks().next());
        let permits = held.map_or(1, |(key, _)| key.permits);
        let holds = locks().flat_map(|(_, lock)| &lock.clients.holds);
        let mut holders: Vec<HolderReport> =
            holds.take(MAX_LISTED).map(|hold| self.holder(hold, now)).collect();
        let held = locks().map(|(_, lock)| lock.clients.holds.len()).sum::<usize>();
        let claims: Vec<HolderReport> = self.claimants(name, now, |claim| !claim.is_standing).collect();
        let holders_in_all = (held + claims.len()) as u64;
        holders.extend(claims);
        holders.sort_by_key(|holder| Reverse(holder.age));
        holders.truncate(MAX_PAGE_HOLDERS);
        let waiters = || locks().flat_map(|(_, lock)| lock.clients.waiters.iter());
        LockEntry {
            lock: name.clone(),
            permits,
            holders,
            holders_in_all,
            waiters: waiters().count() as u64,
            waited: waiters().map(|waiter| now.since(waiter.since)).max().unwrap_or(Span::ZERO),
        }
    }
}

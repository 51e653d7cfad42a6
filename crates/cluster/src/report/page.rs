//! Pages of all locks in use in the whole cluster, in the order of their names.
//!
//! ```text
//!  a page after "jobs/7", of at most 100 locks
//!      every member ─▶ its first 100 locks in use after that name, and whether it has more
//!      whoever asks ─▶ merges them; a name counts up to where every member has listed all that it has
//! ```
//!
//! The cursor is the last name of a page, so nothing has to be remembered between two pages: a lock that is in use all the while is listed
//! once, whatever is acquired and released meanwhile. A site never lists a name that the caller may not see, and so no cursor is one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::names::{LockName, SiteName};
use crate::rules::Pattern;
use crate::table::HolderReport;
use crate::time::Span;

/// Maximum number of locks of a page.
pub const MAX_PAGE: u32 = 1000;

/// Maximum number of holders of one lock that a page lists; of more it has only the number.
pub const MAX_PAGE_HOLDERS: usize = 8;

/// A page ends with the lock with which its texts reach this length.
pub(crate) const MAX_PAGE_BYTES: usize = 256 << 10;

/// The names that are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NameFilter {
    /// Only those that match this pattern.
    pub pattern: Option<Pattern>,
    /// Only those that match one of these: what the caller may watch. `None` if it may watch all.
    pub visible: Option<Vec<Pattern>>,
}

impl NameFilter {
    /// Returns whether the name is meant.
    pub fn admits(&self, name: &LockName) -> bool {
        let matches = |pattern: &Pattern| pattern.matches(name.as_str());
        self.pattern.as_ref().is_none_or(matches)
            && (mutant::is_on(Mutant::InvisibleListed) || self.is_visible(matches))
    }

    fn is_visible(&self, matches: impl Fn(&Pattern) -> bool) -> bool {
        self.visible.as_ref().is_none_or(|visible| visible.iter().any(matches))
    }
}

/// A question for a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PageQuestion {
    pub names: NameFilter,
    /// Only names after this one.
    pub after: Option<LockName>,
    /// Maximum number of locks; more than [`MAX_PAGE`] are never listed.
    pub limit: u32,
}

impl PageQuestion {
    /// Returns the maximum number of locks: at least one, so that every page leads on.
    pub(crate) fn most(&self) -> usize {
        self.limit.clamp(1, MAX_PAGE) as usize
    }
}

/// A lock that clients of one site hold or wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockEntry {
    pub lock: LockName,
    /// How many may hold it at a time, as its clients at the site understand it.
    pub permits: u32,
    /// Those who have held it longest, at most [`MAX_PAGE_HOLDERS`].
    pub holders: Vec<HolderReport>,
    /// Number of holders, listed or not.
    pub holders_in_all: u64,
    /// Number of waiters.
    pub waiters: u64,
    /// How long the one that has waited longest has waited.
    pub waited: Span,
}

impl LockEntry {
    /// Returns about how long the texts of the entry are.
    pub(crate) fn bytes(&self) -> usize {
        self.lock.as_str().len() + self.holders.iter().map(bytes_of).sum::<usize>()
    }
}

fn bytes_of(holder: &HolderReport) -> usize {
    holder.label.as_ref().map_or(0, |label| label.as_str().len())
}

/// What one site adds to a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SitePage {
    pub site: SiteName,
    /// In the order of their names.
    pub entries: Vec<LockEntry>,
    /// Whether there are more, all with later names.
    pub more: bool,
}

impl SitePage {
    /// Returns whether it is what a correct site says to this question.
    pub(crate) fn answers(&self, question: &PageQuestion) -> bool {
        let names = || self.entries.iter().map(|entry| &entry.lock);
        let rises = names().zip(names().skip(1)).all(|(first, second)| first < second);
        let is_meant = |name: &LockName| {
            question.names.admits(name) && question.after.as_ref().is_none_or(|after| name > after)
        };
        let is_bounded = |entry: &LockEntry| {
            entry.holders.len() <= MAX_PAGE_HOLDERS && entry.holders.len() as u64 <= entry.holders_in_all
        };
        self.entries.len() <= question.most()
            && (!self.more || !self.entries.is_empty())
            && rises
            && names().all(is_meant)
            && self.entries.iter().all(is_bounded)
    }
}

/// A holder of a lock, and its site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteHolder {
    pub site: SiteName,
    pub holder: HolderReport,
}

/// A lock that is held or waited for, in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockSummary {
    pub lock: LockName,
    /// The algorithm that it runs; `None` if the site that was asked does not know the view's rules.
    pub algorithm: Option<String>,
    /// Maximum number of concurrent holders.
    pub permits: u32,
    /// Those who have held it longest, at most [`MAX_PAGE_HOLDERS`].
    pub holders: Vec<SiteHolder>,
    /// Number of holders, listed or not.
    pub holders_in_all: u64,
    /// Number of waiters.
    pub waiters: u64,
    /// How long the one that has waited longest has waited.
    pub waited: Span,
}

impl LockSummary {
    /// Returns how long it has been held by the one that has held it longest.
    pub fn held(&self) -> Option<Span> {
        self.holders.first().map(|first| first.holder.age)
    }

    fn bytes(&self) -> usize {
        self.lock.as_str().len() + self.holders.iter().map(|held| bytes_of(&held.holder)).sum::<usize>()
    }
}

/// A page of locks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockPage {
    /// In the order of their names.
    pub locks: Vec<LockSummary>,
    /// Where the next page begins: give it as `after`. `None` if this is the last one.
    pub next: Option<LockName>,
    /// The members that did not reply. What is held and waited for there is not listed.
    pub missing: Vec<SiteName>,
}

/// Merges what the members have said. `algorithm` says what a lock with so many permits runs.
pub(crate) fn merge(
    question: &PageQuestion,
    sites: Vec<SitePage>,
    missing: Vec<SiteName>,
    algorithm: impl Fn(&LockName, u32) -> Option<String>,
) -> LockPage {
    // A site with more locks has listed all that it has up to its last one, and beyond that nothing is known.
    let ends = sites.iter().filter(|site| site.more).filter_map(|site| site.entries.last());
    let end = ends.map(|last| last.lock.clone()).min();
    let mut merged: BTreeMap<LockName, LockSummary> = BTreeMap::new();
    let mut is_cut = false;
    for SitePage { site, entries, .. } in sites {
        for entry in entries {
            let is_known = end.as_ref().is_none_or(|end| entry.lock <= *end);
            if !is_known && !mutant::is_on(Mutant::PageBeyondKnown) {
                is_cut = true;
                continue;
            }
            add(&mut merged, &site, entry);
        }
    }
    let more = end.is_some() || is_cut;
    let (mut locks, mut bytes) = (Vec::new(), 0);
    let all = merged.len();
    for mut summary in merged.into_values().take(question.most()) {
        summary.holders.sort_by_key(|held| std::cmp::Reverse(held.holder.age));
        summary.holders.truncate(MAX_PAGE_HOLDERS);
        summary.algorithm = algorithm(&summary.lock, summary.permits);
        bytes += summary.bytes();
        locks.push(summary);
        if bytes >= MAX_PAGE_BYTES {
            break;
        }
    }
    let next = locks.last().filter(|_| more || locks.len() < all).map(|last| last.lock.clone());
    LockPage { locks, next, missing }
}

fn add(merged: &mut BTreeMap<LockName, LockSummary>, site: &SiteName, entry: LockEntry) {
    let LockEntry { lock, permits, holders, holders_in_all, waiters, waited } = entry;
    let summary = merged.entry(lock.clone()).or_insert_with(|| LockSummary {
        lock,
        algorithm: None,
        permits,
        holders: Vec::new(),
        holders_in_all: 0,
        waiters: 0,
        waited: Span::ZERO,
    });
    // Who holds it counts on the number that is used; somebody who only waits may have asked for another one.
    if summary.holders_in_all == 0 && holders_in_all > 0 {
        summary.permits = permits;
    }
    summary.holders.extend(holders.into_iter().map(|holder| SiteHolder { site: site.clone(), holder }));
    summary.holders_in_all = summary.holders_in_all.saturating_add(holders_in_all);
    summary.waiters = summary.waiters.saturating_add(waiters);
    summary.waited = summary.waited.max(waited);
}

/// The first names of many, in order: of whatever it is given it keeps only as many as it may.
pub(crate) struct FirstNames<'a> {
    most: usize,
    names: BTreeSet<&'a LockName>,
    left_out: bool,
}

impl<'a> FirstNames<'a> {
    pub(crate) fn new(most: usize) -> Self {
        FirstNames { most, names: BTreeSet::new(), left_out: false }
    }

    pub(crate) fn offer(&mut self, name: &'a LockName) {
        if self.names.len() >= self.most && self.names.last().is_some_and(|last| name > *last) {
            self.left_out = true;
            return;
        }
        self.names.insert(name);
        if self.names.len() > self.most {
            self.names.pop_last();
            self.left_out = true;
        }
    }

    /// Returns the names in order, and whether there are more.
    pub(crate) fn finish(self) -> (BTreeSet<&'a LockName>, bool) {
        (self.names, self.left_out)
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;

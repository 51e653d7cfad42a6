//! A lock's queue over the whole cluster, from its members' reports; and why each waiter waits.

use meshlock_protocol::numbered;
use std::fmt;

use meshlock_protocol::Epoch;
use serde::{Deserialize, Serialize};

use crate::names::{ClientLabel, SiteName};
use crate::rules::Rules;
use crate::table::{HolderReport, LockInUse, LockReport, MAX_LISTED, Machinery, WaiterReport};
use crate::time::Span;

/// A lock's queue over the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockQueue {
    /// The view of the site that was asked.
    pub epoch: Epoch,
    /// The algorithm that the lock runs; `None` if the site that was asked does not know the view's rules.
    pub algorithm: Option<String>,
    /// Maximum number of concurrent holders.
    pub permits: u32,
    /// The reports of the members that replied in time, in the order of their names; [`line()`] merges them into one
    /// queue.
    pub sites: Vec<SiteQueue>,
    /// The members that did not reply.
    pub missing: Vec<SiteName>,
}

/// A site's progress with the view that it has installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It takes part, and its machines run.
    Open,
    /// It takes part, and waits for the census of these sites (the first [`MAX_LISTED`]).
    Awaits(Vec<SiteName>),
    /// The view has rules that its program does not know.
    CannotOpen,
    /// It does not take part.
    Outside,
}

numbered! { Standing {
    0 => Open,
    1 => Awaits(value),
    2 => CannotOpen,
    3 => Outside,
} }

/// One site's report about a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteQueue {
    pub site: SiteName,
    /// The view that it has installed.
    pub epoch: Epoch,
    /// Its progress with that view.
    pub standing: Standing,
    /// Whether it has a lease on which it may grant locks.
    pub leased: bool,
    /// Whether it grants nothing because it leaves the cluster.
    pub leaving: bool,
    pub lock: LockReport,
    /// The number of permits that was settled for the name, as far as the site knows, where no rule gives it. It follows the packet in
    /// which a site reports; clients read it in [`LockQueue::permits`].
    #[serde(skip)]
    pub settled: Option<u32>,
}

impl SiteQueue {
    /// Returns whether it lists no more than a correct site does.
    pub(crate) fn is_bounded(&self) -> bool {
        let possible = 1..=Rules::MAX_PERMITS;
        let is_possible = self.settled.is_none_or(|permits| possible.contains(&permits));
        self.standing.is_bounded() && self.lock.is_bounded() && is_possible
    }
}

impl Standing {
    fn is_bounded(&self) -> bool {
        match self {
            Standing::Awaits(sites) => sites.len() <= MAX_LISTED,
            Standing::Open | Standing::CannotOpen | Standing::Outside => true,
        }
    }
}

/// Removes holders that two sites report, of which one only mirrors the other: the one that has held it longer stays.
///
/// A hold is recognized by its fence. Permits that are not numbered are left as they are, because two of them may have the same fence: a
/// session that is about to move to another site may then be listed twice for a moment, but no holder is hidden.
pub(crate) fn drop_mirrored(sites: &mut [SiteQueue], permits: u32) {
    let holders = |site: &SiteQueue| {
        let at = site.site.clone();
        let hold = move |holder: &HolderReport| (holder.fence, holder.slot, holder.age, at.clone());
        site.lock.holders.iter().map(hold).collect::<Vec<_>>()
    };
    let all: Vec<_> = sites.iter().flat_map(holders).collect();
    for queue in sites {
        let SiteQueue { site, lock, .. } = queue;
        let is_mirrored = |holder: &HolderReport| {
            let is_older = |(fence, slot, age, at): &(_, _, Span, SiteName)| {
                (*fence, *slot) == (holder.fence, holder.slot)
                    && at != site
                    && (*age, &*site) > (holder.age, at)
            };
            (permits == 1 || holder.slot.is_some()) && all.iter().any(is_older)
        };
        let before = lock.holders.len();
        lock.holders.retain(|holder| !is_mirrored(holder));
        lock.holders_in_all -= (before - lock.holders.len()) as u64;
    }
}

/// The state of one site, and which of its locks are in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteLocks {
    pub site: SiteName,
    /// Its progress with its view.
    pub standing: Standing,
    /// How long its lease still lasts.
    pub lease_left: Option<Span>,
    /// Whether it is leaving.
    pub leaving: bool,
    /// Number of connected clients.
    pub sessions: u64,
    /// Number of grants since it was started.
    pub granted: u64,
    /// Locks that its clients hold or wait for: the first [`MAX_LISTED`], those with the most waiters first.
    pub locks: Vec<LockInUse>,
    /// Number of such locks, listed or not.
    pub locks_in_all: u64,
}

impl SiteLocks {
    /// Returns whether it lists no more than a correct site does.
    pub(crate) fn is_bounded(&self) -> bool {
        self.standing.is_bounded()
            && self.locks.len() <= MAX_LISTED
            && self.locks.len() as u64 <= self.locks_in_all
    }
}

/// The reason why a client waits. It prints as the end of a sentence: "it waits …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The lock is held. Of all holders that it could wait for, this is the one that has held it longest.
    Behind { site: SiteName, holder: HolderReport },
    /// Its site changes views and has to receive the census of others first.
    ChangesView {
        site: SiteName,
        /// The sites whose census is missing.
        census_of: Vec<SiteName>,
    },
    /// Its site has rules that its program does not know.
    CannotOpen { site: SiteName },
    /// Its site does not take part in the cluster (yet, or any more).
    Outside { site: SiteName },
    /// Its site has no lease to grant anything on: it is cut off, or the cluster has no leader.
    NoLease { site: SiteName },
    /// The lock has more holders than permits since its rules were changed.
    Draining,
    /// None of the sites that replied holds it; these have not replied.
    Unanswered { missing: Vec<SiteName> },
    /// Nobody holds it: it is being requested, or handed over.
    OnItsWay,
}

/// A client in the merged queue of all waiters, and why it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InLine {
    pub site: SiteName,
    pub waiter: WaiterReport,
    pub why: Why,
}

/// Returns all waiters of a lock with `permits`, those who have waited longest first. The algorithm decides who enters
/// next.
pub fn line(sites: &[SiteQueue], missing: &[SiteName], permits: u32) -> Vec<InLine> {
    let mut line = Vec::new();
    for queue in sites.iter().filter(|queue| !queue.lock.waiters.is_empty()) {
        let why = why(queue, sites, missing, permits);
        let in_line = |waiter: &WaiterReport| InLine {
            site: queue.site.clone(),
            waiter: waiter.clone(),
            why: why.clone(),
        };
        line.extend(queue.lock.waiters.iter().map(in_line));
    }
    line.sort_by_key(|waiting| std::cmp::Reverse(waiting.waiter.age));
    line
}

/// Returns why clients of a site wait: reasons of the site itself come first, then the holders.
fn why(queue: &SiteQueue, sites: &[SiteQueue], missing: &[SiteName], permits: u32) -> Why {
    let site = queue.site.clone();
    match &queue.standing {
        Standing::Outside => return Why::Outside { site },
        Standing::CannotOpen => return Why::CannotOpen { site },
        Standing::Awaits(census_of) => return Why::ChangesView { site, census_of: census_of.clone() },
        Standing::Open if !queue.leased => return Why::NoLease { site },
        Standing::Open => {}
    }
    let full_here = match queue.lock.machines {
        Machinery::Draining => return Why::Draining,
        Machinery::Running { idle: 0, waiting: 0, .. } => oldest(std::slice::from_ref(queue)),
        Machinery::Running { .. } | Machinery::Stopped => None,
    };
    let holders: u64 = sites.iter().map(|queue| queue.lock.holders_in_all).fold(0, u64::saturating_add);
    let full = || if holders >= u64::from(permits) { oldest(sites) } else { None };
    match full_here.or_else(full) {
        Some((site, holder)) => Why::Behind { site, holder },
        None if missing.is_empty() => Why::OnItsWay,
        None => Why::Unanswered { missing: missing.to_vec() },
    }
}

/// Returns the holder that has held the lock longest.
fn oldest(sites: &[SiteQueue]) -> Option<(SiteName, HolderReport)> {
    let holders =
        sites.iter().flat_map(|queue| queue.lock.holders.iter().map(|holder| (&queue.site, holder)));
    let (site, holder) = holders.max_by_key(|(_, holder)| holder.age)?;
    Some((site.clone(), holder.clone()))
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Behind { site, holder } => {
                let (who, fence) = (named(holder.label.as_ref()), holder.fence.value());
                let told_to_stop = if holder.lost { ", which was told to stop" } else { "" };
                write!(
                    f,
                    "behind {who} of {site}, which has held it for {} (fence {fence}){told_to_stop}",
                    Age(holder.age)
                )
            }
            Why::ChangesView { site, census_of } => {
                write!(f, "because {site} changes views and waits to hear from {}", Names(census_of))
            }
            Why::CannotOpen { site } => {
                write!(f, "because {site} does not know the cluster's rules; give it a newer program")
            }
            Why::Outside { site } => write!(f, "because {site} is not a member of the cluster yet"),
            Why::NoLease { site } => {
                write!(f, "because {site} has no lease: it is cut off, or the cluster has no leader")
            }
            Why::Draining => {
                write!(f, "because the lock has more holders than permits since its rules were changed")
            }
            Why::Unanswered { missing } => {
                write!(f, "and nobody who answered holds it; no answer from {}", Names(missing))
            }
            Why::OnItsWay => write!(f, "and nobody holds it: it is being handed over"),
        }
    }
}

fn named(label: Option<&ClientLabel>) -> String {
    label.map_or_else(|| "a client".to_owned(), ToString::to_string)
}

/// Prints names, separated by commas.
pub(crate) struct Names<'a>(pub(crate) &'a [SiteName]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, site) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{site}")?;
        }
        Ok(())
    }
}

/// Prints a duration for people: to the tenth of a second, or in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Age(pub Span);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.micros() / 1000;
        match millis {
            0..1000 => write!(f, "{millis} ms"),
            _ => write!(f, "{}.{} s", millis / 1000, millis % 1000 / 100),
        }
    }
}

#[cfg(test)]
mod tests {
    use meshlock_protocol::{Demand, FenceClock, Mode};

    use super::*;

    fn holder(age: u64) -> HolderReport {
        let fence = FenceClock::new(Epoch::default()).enter();
        let (label, age) = (Some("backup.sh".parse().unwrap()), Span::from_millis(age));
        HolderReport { label, fence, slot: None, age, lost: false, mode: Mode::Exclusive }
    }

    fn queue(site: &str, holders: &[u64], waiters: &[u64]) -> SiteQueue {
        let waiter =
            |age: &u64| WaiterReport { label: None, age: Span::from_millis(*age), demand: Demand::PLAIN };
        let executing = u32::try_from(holders.len()).unwrap();
        SiteQueue {
            site: site.parse().unwrap(),
            epoch: Epoch::default(),
            standing: Standing::Open,
            leased: true,
            leaving: false,
            lock: LockReport {
                machines: Machinery::Running { idle: 0, waiting: 1 - executing, executing },
                holders: holders.iter().map(|age| holder(*age)).collect(),
                holders_in_all: holders.len() as u64,
                waiters: waiters.iter().map(waiter).collect(),
                waiters_in_all: waiters.len() as u64,
            },
            settled: None,
        }
    }

    fn reasons(sites: &[SiteQueue], missing: &[SiteName], permits: u32) -> Vec<String> {
        line(sites, missing, permits)
            .iter()
            .map(|waiting| format!("{} {}", waiting.site, waiting.why))
            .collect()
    }

    #[test]
    fn a_holder_that_another_site_mirrors_is_listed_once_and_with_its_own_site() {
        for names in [["a", "b"], ["b", "a"]] {
            for [own, mirrored] in [[500, 20], [500, 500]] {
                let mut sites = [queue(names[0], &[own], &[]), queue(names[1], &[mirrored], &[])];
                drop_mirrored(&mut sites, 1);
                let left: Vec<u64> = sites.iter().map(|site| site.lock.holders_in_all).collect();
                assert_eq!(left.iter().sum::<u64>(), 1);
                assert!(own == mirrored || left == [1, 0], "{names:?}: the one that has had it longer stays");
            }
        }
    }

    #[test]
    fn two_permits_with_the_same_fence_are_two_holders_unless_their_number_says_otherwise() {
        let left = |slots: [Option<u32>; 2], permits| {
            let mut sites = [queue("a", &[500], &[]), queue("b", &[20], &[])];
            for (site, slot) in sites.iter_mut().zip(slots) {
                site.lock.holders[0].slot = slot;
            }
            drop_mirrored(&mut sites, permits);
            sites.iter().map(|site| site.lock.holders_in_all).sum::<u64>()
        };
        assert_eq!(left([None, None], 2), 2, "permits without numbers may have the same fence");
        assert_eq!(left([Some(0), Some(1)], 2), 2, "these are two permits");
        assert_eq!(left([Some(1), Some(1)], 2), 1, "one of them mirrors the other");
        assert_eq!(left([None, None], 1), 1, "a lock has one holder");
    }

    #[test]
    fn everyone_is_in_one_line_by_age_and_behind_the_holder() {
        let sites = [queue("a", &[1234], &[50, 10]), queue("b", &[], &[30])];
        let behind = "behind backup.sh of a, which has held it for 1.2 s (fence 1)";
        assert_eq!(reasons(&sites, &[], 1), ["a", "b", "a"].map(|site| format!("{site} {behind}")));
    }

    #[test]
    fn who_holds_as_much_as_one_site_may_is_what_its_clients_wait_for() {
        let sites = [queue("a", &[70], &[5]), queue("b", &[900], &[])];
        assert!(
            reasons(&sites, &[], 3)[0].starts_with("a behind backup.sh of a, which has held it for 70 ms")
        );
        assert_eq!(
            reasons(&[queue("c", &[], &[5])], &[], 3),
            ["c and nobody holds it: it is being handed over"]
        );
    }

    #[test]
    fn what_keeps_a_whole_site_waiting_is_said_before_who_is_inside() {
        let b: SiteName = "b".parse().unwrap();
        let mut sites = [queue("a", &[], &[5]), queue("b", &[7], &[])];
        sites[0].leased = false;
        assert_eq!(
            reasons(&sites, &[], 1),
            ["a because a has no lease: it is cut off, or the cluster has no leader"]
        );
        sites[0].standing = Standing::Awaits(vec![b.clone()]);
        assert_eq!(reasons(&sites, &[], 1), ["a because a changes views and waits to hear from b"]);
        let alone = [queue("a", &[], &[5])];
        assert_eq!(reasons(&alone, &[b], 1), ["a and nobody who answered holds it; no answer from b"]);
    }
}

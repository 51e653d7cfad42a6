//! Who waits for whom: what each site says of clients that hold something and wait for something else, and the deadlocks among them.
//!
//! A *party* is whoever waits for one thing at a time and keeps what it has meanwhile: a session of the wire APIs, or a `meshlock run` with
//! all that runs below it. A party is *stuck* if each of its waits is for a lock all of whose permits are held by parties that are stuck. So a
//! semaphore with K permits takes part only with all K of its holders (the graph has *and* and *or* edges), and one holder that may go on is
//! enough for nobody to be stuck. Stuck parties that wait for each other in a circle are a *deadlock*.
//!
//! **Why two questions.** Sites are asked at different moments, so what they say may never have been true at once. Two rounds are made, the
//! second one when all replies of the first are there. A request keeps its number and a hold its fence for as long as it lasts. So what both
//! rounds show with the same numbers was so all the while in between, everywhere at once.
//!
//! What is shown is that none of these requests is granted unless a client gives something up before it gets what it waits for. A client
//! that shares its session among several threads may do that.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Fence;
use serde::{Deserialize, Serialize};

use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, Incarnation, LockName, SiteName};
use crate::time::Span;

/// Maximum number of parties that one site lists: those that have waited longest.
pub(crate) const MAX_PARTIES: usize = 500;

/// Maximum number of waits, and of holds, of one party that are listed.
pub(crate) const MAX_OF_PARTY: usize = 50;

/// Identifies a party in the whole cluster. It is a number by chance, or made of one, so that two parties do not have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Party(pub u64);

/// A request of a party that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartyWait {
    /// The number of the request at its site, which is never used again.
    pub request: u64,
    pub lock: LockName,
    /// How many may hold the lock at a time, as the party understands it.
    pub permits: u32,
    /// How long it has waited.
    pub waited: Span,
    /// Whether the lock's rule says that the youngest request of a deadlock is refused.
    pub is_refusable: bool,
}

/// A lock that a party holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartyHold {
    pub lock: LockName,
    /// How many may hold the lock at a time, as the party understands it.
    pub permits: u32,
    pub fence: Fence,
    /// Which of K permits, where they are numbered.
    pub slot: Option<u32>,
    /// How long it has held it.
    pub held: Span,
}

/// A party that holds something and waits for something at one site.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartyWaits {
    pub party: Party,
    /// The label of its client.
    pub who: Option<ClientLabel>,
    pub waits: Vec<PartyWait>,
    pub holds: Vec<PartyHold>,
}

/// What a site says of its parties.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SiteWaits {
    pub site: SiteName,
    pub incarnation: Incarnation,
    /// Those that hold something and wait for something, at most 500.
    pub parties: Vec<PartyWaits>,
    /// Whether there are more.
    pub more: bool,
}

impl SiteWaits {
    /// Returns whether it lists no more than a correct site does.
    pub(crate) fn is_bounded(&self) -> bool {
        let is_bounded =
            |party: &PartyWaits| party.waits.len() <= MAX_OF_PARTY && party.holds.len() <= MAX_OF_PARTY;
        self.parties.len() <= MAX_PARTIES && self.parties.iter().all(is_bounded)
    }
}

/// A party of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StuckParty {
    pub site: SiteName,
    pub incarnation: Incarnation,
    pub party: Party,
    pub who: Option<ClientLabel>,
    /// What it waits for.
    pub waits: Vec<PartyWait>,
    /// What it holds and others of the deadlock wait for.
    pub holds: Vec<PartyHold>,
}

/// Parties that wait for each other, so that each follows the one that it waits for, as far as that is possible.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deadlock {
    pub parties: Vec<StuckParty>,
}

/// The deadlocks of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlocks {
    pub found: Vec<Deadlock>,
    /// The members that did not reply: there may be deadlocks that these take part in.
    pub missing: Vec<SiteName>,
    /// Whether a site has more waiting parties than it lists.
    pub is_cut: bool,
}

/// What makes a deadlock the same in two rounds: its requests, and its holds.
type Marks<'a> =
    (BTreeSet<(&'a SiteName, Incarnation, u64)>, BTreeSet<(&'a LockName, Fence, Option<u32>, Party)>);

impl Deadlock {
    fn marks(&self) -> Marks<'_> {
        let waits = self
            .parties
            .iter()
            .flat_map(|stuck| stuck.waits.iter().map(|wait| (&stuck.site, stuck.incarnation, wait.request)));
        let holds = self.parties.iter().flat_map(|stuck| {
            stuck.holds.iter().map(|hold| (&hold.lock, hold.fence, hold.slot, stuck.party))
        });
        (waits.collect(), holds.collect())
    }

    /// Returns whether this is the deadlock that an earlier round has shown: the same requests wait, and the same holds last.
    pub(crate) fn is_same(&self, earlier: &Deadlock) -> bool {
        mutant::is_on(Mutant::DeadlockUnconfirmed) || self.marks() == earlier.marks()
    }

    /// Returns all locks of it.
    pub fn locks(&self) -> BTreeSet<&LockName> {
        let held = self.parties.iter().flat_map(|stuck| stuck.holds.iter().map(|hold| &hold.lock));
        let waited = self.parties.iter().flat_map(|stuck| stuck.waits.iter().map(|wait| &wait.lock));
        held.chain(waited).collect()
    }

    /// Returns the request that is refused: of those that may be, the one that has waited for the shortest time. And the site that says
    /// so, which is one for all, so that no second request is refused.
    pub(crate) fn victim(&self) -> Option<(&SiteName, &StuckParty, &PartyWait)> {
        let refusable = || {
            self.parties.iter().flat_map(|stuck| {
                stuck.waits.iter().filter(|wait| wait.is_refusable).map(move |wait| (stuck, wait))
            })
        };
        let decider = refusable().map(|(stuck, _)| &stuck.site).min()?;
        // Of two that have waited for equally long, the one with the later number.
        let youngest = |(stuck, wait): &(&StuckParty, &PartyWait)| {
            (wait.waited, Reverse((wait.request, stuck.site.clone())))
        };
        let (stuck, wait) = if mutant::is_on(Mutant::OldestRefused) {
            refusable().max_by_key(youngest)?
        } else {
            refusable().min_by_key(youngest)?
        };
        Some((decider, stuck, wait))
    }
}

/// A lock as it is waited for.
type Waited<'a> = (&'a LockName, u32);

/// Who waits for whom. Its nodes are first the parties and then the locks: a party leads to the locks that it waits for, and a lock to the
/// parties that hold it. So it has no more edges than there are waits and holds.
struct Graph {
    next: Vec<Vec<usize>>,
    /// Whether a node is stuck.
    stuck: Vec<bool>,
}

/// Returns the deadlocks among what the sites say. Takes time nearly linear in how much that is.
pub(crate) fn deadlocks(sites: &[SiteWaits]) -> Vec<Deadlock> {
    let parties = parties_of(sites);
    let graph = Graph::new(&parties);
    let circles = graph.circles();
    let of_parties = circles
        .into_iter()
        .map(|circle| circle.into_iter().filter(|&at| at < parties.len()).collect::<Vec<_>>());
    of_parties.map(|circle| deadlock(&parties, &circle)).collect()
}

/// Returns all parties. A session that has just moved may be listed by two sites.
fn parties_of(sites: &[SiteWaits]) -> Vec<StuckParty> {
    let mut parties: Vec<StuckParty> = Vec::new();
    let mut known: BTreeMap<Party, usize> = BTreeMap::new();
    for (site, said) in sites.iter().flat_map(|site| site.parties.iter().map(move |said| (site, said))) {
        let at = *known.entry(said.party).or_insert_with(|| {
            let (site, incarnation, who) = (site.site.clone(), site.incarnation, said.who.clone());
            let (waits, holds) = (Vec::new(), Vec::new());
            parties.push(StuckParty { site, incarnation, party: said.party, who, waits, holds });
            parties.len() - 1
        });
        parties[at].waits.extend(said.waits.iter().cloned());
        parties[at].holds.extend(said.holds.iter().cloned());
    }
    parties
}

/// Returns the deadlock of a circle of parties: of what each holds, only what others of it wait for.
fn deadlock(parties: &[StuckParty], circle: &[usize]) -> Deadlock {
    let waits = circle.iter().flat_map(|&at| &parties[at].waits);
    let waited: BTreeSet<Waited<'_>> = waits.map(|wait| (&wait.lock, wait.permits)).collect();
    let stuck = |&at: &usize| {
        let mut party = parties[at].clone();
        party.holds.retain(|hold| waited.contains(&(&hold.lock, hold.permits)));
        party
    };
    Deadlock { parties: circle.iter().map(stuck).collect() }
}

impl Graph {
    fn new(parties: &[StuckParty]) -> Self {
        let mut next = vec![Vec::new(); parties.len()];
        let mut locks: BTreeMap<Waited<'_>, usize> = BTreeMap::new();
        let mut permits = Vec::new();
        for (at, party) in parties.iter().enumerate() {
            for wait in &party.waits {
                let lock = *locks.entry((&wait.lock, wait.permits)).or_insert_with(|| {
                    next.push(Vec::new());
                    permits.push(wait.permits as usize);
                    next.len() - 1
                });
                next[at].push(lock);
            }
        }
        for (at, party) in parties.iter().enumerate() {
            for hold in &party.holds {
                if let Some(&lock) = locks.get(&(&hold.lock, hold.permits)) {
                    next[lock].push(at);
                }
            }
        }
        // Whoever holds a permit and is not listed may go on.
        let is_covered = |at: usize| match at.checked_sub(parties.len()) {
            Some(lock) if mutant::is_on(Mutant::OneHolderIsEnough) => {
                permits[lock] > 0 && !next[at].is_empty()
            }
            Some(lock) => next[at].len() >= permits[lock],
            None => !next[at].is_empty(),
        };
        let stuck = (0..next.len()).map(is_covered).collect();
        let mut graph = Graph { next, stuck };
        graph.free_those_behind();
        graph
    }

    /// Returns who leads to each node.
    fn before(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.next.len()];
        for (at, next) in self.next.iter().enumerate() {
            for &next in next {
                before[next].push(at);
            }
        }
        before
    }

    /// Frees whoever waits for a lock that becomes free, and the locks that such parties hold.
    fn free_those_behind(&mut self) {
        let before = self.before();
        let mut free: Vec<usize> = (0..self.stuck.len()).filter(|&at| !self.stuck[at]).collect();
        while let Some(at) = free.pop() {
            for &behind in &before[at] {
                if std::mem::replace(&mut self.stuck[behind], false) {
                    free.push(behind);
                }
            }
        }
    }

    /// Returns the stuck nodes in the order in which a walk leaves them, all of whose steps lead along `next`.
    fn left_in_order(&self) -> Vec<usize> {
        let (mut left, mut seen) = (Vec::new(), vec![false; self.next.len()]);
        for from in (0..self.next.len()).filter(|&at| self.stuck[at]) {
            let mut way = vec![(from, 0)];
            if std::mem::replace(&mut seen[from], true) {
                continue;
            }
            while let Some((at, step)) = way.last_mut() {
                let Some(&next) = self.next[*at].get(*step) else {
                    left.push(*at);
                    way.pop();
                    continue;
                };
                *step += 1;
                if self.stuck[next] && !std::mem::replace(&mut seen[next], true) {
                    way.push((next, 0));
                }
            }
        }
        left
    }

    /// Returns the circles of stuck nodes: the largest sets of which each node is reached from each (Kosaraju's algorithm), in the order
    /// in which one walks through them.
    fn circles(&self) -> Vec<Vec<usize>> {
        let before = self.before();
        let (mut circles, mut circle_of) = (Vec::new(), vec![usize::MAX; self.next.len()]);
        for from in self.left_in_order().into_iter().rev() {
            if circle_of[from] != usize::MAX {
                continue;
            }
            let (number, mut size, mut ahead) = (circles.len(), 0, vec![from]);
            circle_of[from] = number;
            while let Some(at) = ahead.pop() {
                size += 1;
                for &behind in &before[at] {
                    if self.stuck[behind] && circle_of[behind] == usize::MAX {
                        circle_of[behind] = number;
                        ahead.push(behind);
                    }
                }
            }
            circles.push((from, size));
        }
        let found = circles.into_iter().enumerate().filter(|(_, (_, size))| *size > 1);
        found.map(|(number, (from, _))| self.walk(from, |at| circle_of[at] == number)).collect()
    }

    /// Returns the nodes of a circle, so that each follows one that leads to it where that is possible.
    fn walk(&self, from: usize, is_within: impl Fn(usize) -> bool) -> Vec<usize> {
        let (mut walked, mut seen, mut ahead) = (Vec::new(), BTreeSet::new(), vec![from]);
        while let Some(at) = ahead.pop() {
            if seen.insert(at) {
                walked.push(at);
                ahead.extend(self.next[at].iter().copied().filter(|&next| is_within(next)));
            }
        }
        walked
    }
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;

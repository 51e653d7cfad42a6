//! The fault state: what has gone wrong so far and who knows of it. It is the part of a global state that no site holds.

use std::collections::BTreeMap;

use meshlock_protocol::{SiteId, SiteSet};

/// Failures, duplicates and losses so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FaultState {
    pub(crate) crashes: u8,
    pub(crate) duplicates: u8,
    pub(crate) losses: u8,
    pub(crate) down: SiteSet,
    /// For each site that has failed, the sites that have not been told of it yet.
    pub(crate) untold: BTreeMap<SiteId, SiteSet>,
    /// For each site that has recovered, the sites that have not been told of it yet.
    pub(crate) untold_return: BTreeMap<SiteId, SiteSet>,
}

/// One change of the fault state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FaultChange {
    Failed(SiteId),
    Recovered(SiteId),
    Told { to: SiteId, about: SiteId },
    Duplicated,
    Lost,
}

impl FaultState {
    /// Whether nothing has gone wrong yet.
    pub(crate) fn is_fault_free(&self) -> bool {
        self.crashes == 0 && self.duplicates == 0 && self.losses == 0
    }

    /// Whether there is a fault now that the invariants across sites need not survive.
    pub(crate) fn is_amid_fault(&self) -> bool {
        !self.down.is_empty() || !self.untold.is_empty() || self.losses > 0
    }

    /// Whether the next news about `about` for `to` are those of its failure.
    pub(crate) fn has_missed_failure(&self, to: SiteId, about: SiteId) -> bool {
        self.untold.get(&about).is_some_and(|untold| untold.contains(to))
    }

    /// The fault state after `change`.
    pub(crate) fn after(&self, change: FaultChange, sites: usize) -> FaultState {
        let mut next = self.clone();
        match change {
            FaultChange::Failed(site) => {
                next.crashes += 1;
                next.down.insert(site);
                for untold in next.untold.values_mut().chain(next.untold_return.values_mut()) {
                    untold.remove(site);
                }
                next.untold_return.remove(&site);
                next.untold.insert(site, next.others_up(site, sites));
            }
            FaultChange::Recovered(site) => {
                next.down.remove(site);
                next.untold_return.insert(site, next.others_up(site, sites));
            }
            FaultChange::Told { to, about } => {
                let of_return = !self.has_missed_failure(to, about);
                let untold = if of_return { &mut next.untold_return } else { &mut next.untold };
                if let Some(untold) = untold.get_mut(&about) {
                    untold.remove(to);
                }
            }
            FaultChange::Duplicated => next.duplicates += 1,
            FaultChange::Lost => next.losses += 1,
        }
        next.untold.retain(|_, untold| !untold.is_empty());
        next.untold_return.retain(|_, untold| !untold.is_empty());
        next
    }

    fn others_up(&self, site: SiteId, sites: usize) -> SiteSet {
        let mut others = SiteSet::all_but(site, sites);
        others.subtract(&self.down);
        others
    }
}

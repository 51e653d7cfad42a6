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
    /// For each failed or recovered site, the sites that have not been told yet.
    pub(crate) untold: BTreeMap<SiteId, SiteSet>,
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
        !self.down.is_empty() || self.losses > 0
    }

    /// The fault state after `change`.
    pub(crate) fn after(&self, change: FaultChange, sites: usize) -> FaultState {
        let mut next = self.clone();
        match change {
            FaultChange::Failed(site) => {
                next.crashes += 1;
                next.down.insert(site);
                for untold in next.untold.values_mut() {
                    untold.remove(site);
                }
                next.untold.insert(site, next.others_up(site, sites));
            }
            FaultChange::Recovered(site) => {
                next.down.remove(site);
                next.untold.insert(site, next.others_up(site, sites));
            }
            FaultChange::Told { to, about } => {
                if let Some(untold) = next.untold.get_mut(&about) {
                    untold.remove(to);
                }
            }
            FaultChange::Duplicated => next.duplicates += 1,
            FaultChange::Lost => next.losses += 1,
        }
        next.untold.retain(|_, untold| !untold.is_empty());
        next
    }

    fn others_up(&self, site: SiteId, sites: usize) -> SiteSet {
        let mut others = SiteSet::all_but(site, sites);
        others.subtract(&self.down);
        others
    }
}

//! The start of a run: the number of sites, the number of permits, and the sites in the critical section.

use crate::{Mode, SiteId, SiteSet};

/// The size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// The number of sites: N, at least 1.
    pub sites: usize,
    /// The number of processes that may be inside at once: K, at least 1.
    pub permits: usize,
}

impl Cluster {
    /// N sites that share one permit.
    pub const fn of(sites: usize) -> Self {
        Cluster { sites, permits: 1 }
    }

    /// Whether `from` can have sent a message to `me`: it is in the view, and another site.
    pub fn is_peer(self, me: SiteId, from: SiteId) -> bool {
        from != me && from.index() < self.sites
    }

    /// The same sites with K permits.
    #[must_use]
    pub const fn with_permits(self, permits: usize) -> Self {
        Cluster { sites: self.sites, permits }
    }
}

/// Why an algorithm cannot be started. It is always the caller's fault; the message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("a cluster needs at least one site")]
    NoSites,
    /// Ids and slots have 32 bits.
    #[error("{sites} sites and {permits} permits are more than 4294967295")]
    TooLarge { sites: usize, permits: usize },
    #[error("a lock needs at least one permit")]
    NoPermits,
    /// The algorithm supports one permit only.
    #[error("{algorithm} gives one permit, not {permits}; for K permits take one of: {instead}")]
    OnePermitOnly {
        algorithm: &'static str,
        permits: usize,
        /// The algorithms that support more.
        instead: String,
    },
    /// The algorithm, with these options, does not let processes share.
    #[error("{algorithm} knows no mode but exclusive; for {mode} take one of: {instead}")]
    ExclusiveOnly {
        algorithm: String,
        mode: Mode,
        /// The algorithms that know modes.
        instead: String,
    },
    /// The algorithm, with these options, serves all requests alike.
    #[error("{algorithm} knows no priorities; take one of: {instead}")]
    NoPriorities {
        algorithm: String,
        /// The algorithms that know priorities.
        instead: String,
    },
    /// Modes say who may share one permit.
    #[error(
        "a lock with {permits} permits is only exclusive, not {mode}; modes are for locks with one permit"
    )]
    ModeOfMany { permits: usize, mode: Mode },
    /// Two holders at the start may not be inside together.
    #[error("{one} and {other} cannot both be inside at the start")]
    HoldersExclude { one: SiteId, other: SiteId },
    /// A site that does not exist was named. Ids start at 0.
    #[error("site {site} does not exist: the sites are 0 to {}", sites.saturating_sub(1))]
    NoSuchSite { site: usize, sites: usize },
    /// There are more holders than permits.
    #[error("{holders} holders at the start, but only {permits} permits")]
    TooManyHolders { holders: usize, permits: usize },
    /// An option does not fit this cluster.
    #[error("option {option}: {why}")]
    Option {
        option: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
}

/// The sites that are in the critical section at the start, each on a permit of its own: the `i`-th one, in order
/// of ids, holds slot `i`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    sites: SiteSet,
    /// Those in shared mode, and those in upgradeable mode; the others are exclusive.
    shared: SiteSet,
    upgradeable: SiteSet,
    /// The first of them. It is stored because each of a million sites asks for it at the start.
    first: Option<SiteId>,
}

impl Holders {
    /// Nobody is inside.
    pub fn none() -> Self {
        Holders::default()
    }

    /// Exactly these sites are inside.
    pub fn new(cluster: Cluster, sites: impl IntoIterator<Item = SiteId>) -> Result<Self, PlanError> {
        let mut set = SiteSet::new();
        for site in sites {
            if site.index() >= cluster.sites {
                return Err(PlanError::NoSuchSite { site: site.index(), sites: cluster.sites });
            }
            set.insert(site);
        }
        if set.len() > cluster.permits {
            return Err(PlanError::TooManyHolders { holders: set.len(), permits: cluster.permits });
        }
        let (shared, upgradeable) = (SiteSet::new(), SiteSet::new());
        Ok(Holders { first: set.first(), shared, upgradeable, sites: set })
    }

    /// Exactly these sites are inside, each in its mode; they share one permit.
    pub fn sharing(
        cluster: Cluster,
        holders: impl IntoIterator<Item = (SiteId, Mode)>,
    ) -> Result<Self, PlanError> {
        let mut inside = Holders::none();
        for (site, mode) in holders {
            if site.index() >= cluster.sites {
                return Err(PlanError::NoSuchSite { site: site.index(), sites: cluster.sites });
            }
            if mode != Mode::Exclusive && cluster.permits > 1 {
                return Err(PlanError::ModeOfMany { permits: cluster.permits, mode });
            }
            let excludes = |&(other, theirs): &(SiteId, Mode)| other != site && !theirs.admits(mode);
            if cluster.permits == 1
                && let Some((other, _)) = inside.with_modes().find(excludes)
            {
                return Err(PlanError::HoldersExclude { one: other, other: site });
            }
            inside.sites.insert(site);
            match mode {
                Mode::Shared => inside.shared.insert(site),
                Mode::Upgradeable => inside.upgradeable.insert(site),
                Mode::Exclusive => false,
            };
        }
        if cluster.permits > 1 && inside.len() > cluster.permits {
            return Err(PlanError::TooManyHolders { holders: inside.len(), permits: cluster.permits });
        }
        inside.first = inside.sites.first();
        Ok(inside)
    }

    /// The mode in which `site` is inside, if it is.
    pub fn mode(&self, site: SiteId) -> Option<Mode> {
        match () {
            () if self.shared.contains(site) => Some(Mode::Shared),
            () if self.upgradeable.contains(site) => Some(Mode::Upgradeable),
            () => self.sites.contains(site).then_some(Mode::Exclusive),
        }
    }

    /// The sites inside, in order, each with its mode.
    pub fn with_modes(&self) -> impl Iterator<Item = (SiteId, Mode)> + '_ {
        self.iter().filter_map(|site| Some((site, self.mode(site)?)))
    }

    /// Whether `site` is inside.
    pub fn contains(&self, site: SiteId) -> bool {
        self.sites.contains(site)
    }

    /// The sites inside, in order.
    pub fn iter(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.sites.iter()
    }

    /// The number of sites inside.
    pub fn len(&self) -> usize {
        self.sites.len()
    }

    /// Whether nobody is inside.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// The one holder of a lock with one permit.
    pub fn only(&self) -> Option<SiteId> {
        self.first
    }

    /// Where the token of a one-permit token algorithm is at the start: at the holder, or at site 0 as the
    /// papers' "initially at S1".
    pub fn token_home(&self) -> SiteId {
        self.only().unwrap_or(SiteId::new(0))
    }

    /// Where the token `slot` of K is at the start, in a cluster of `sites`: the first tokens are at the holders,
    /// the idle ones are spread over the sites that hold none, and only where K exceeds N does a site get more.
    pub fn slot_home(&self, slot: usize, sites: usize) -> SiteId {
        if let Some(holder) = self.iter().nth(slot) {
            return holder;
        }
        let idle = slot - self.len();
        let free: SiteSet = SiteId::all(sites).filter(|&site| !self.contains(site)).collect();
        match free.len() {
            0 => SiteId::new(idle % sites),
            count => free.iter().nth(idle % count).expect("the index is below the length"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_holders_than_permits_are_refused() {
        let both = [SiteId::new(0), SiteId::new(1)];
        assert_eq!(
            Holders::new(Cluster::of(3), both),
            Err(PlanError::TooManyHolders { holders: 2, permits: 1 })
        );
        assert!(Holders::new(Cluster::of(3).with_permits(2), both).is_ok());
    }

    #[test]
    fn a_holder_outside_the_view_is_refused_by_name() {
        let error = Holders::new(Cluster::of(3), [SiteId::new(3)]).unwrap_err();
        assert_eq!(error.to_string(), "site 3 does not exist: the sites are 0 to 2");
    }

    #[test]
    fn holders_share_only_if_their_modes_admit_each_other() {
        let sharing = |modes: &[Mode]| {
            let holders = modes.iter().enumerate().map(|(site, mode)| (SiteId::new(site), *mode));
            Holders::sharing(Cluster::of(3), holders)
        };
        let readers = sharing(&[Mode::Shared, Mode::Upgradeable, Mode::Shared]).unwrap();
        assert_eq!(readers.mode(SiteId::new(1)), Some(Mode::Upgradeable));
        assert_eq!(readers.len(), 3);
        let (one, other) = (SiteId::new(0), SiteId::new(1));
        for modes in
            [[Mode::Shared, Mode::Exclusive], [Mode::Upgradeable; 2], [Mode::Exclusive, Mode::Shared]]
        {
            assert_eq!(sharing(&modes), Err(PlanError::HoldersExclude { one, other }));
        }
        assert_eq!(
            Holders::sharing(Cluster::of(3).with_permits(2), [(one, Mode::Shared)]),
            Err(PlanError::ModeOfMany { permits: 2, mode: Mode::Shared })
        );
    }

    #[test]
    fn idle_tokens_start_at_sites_without_one() {
        let holders = Holders::new(Cluster::of(4).with_permits(3), [SiteId::new(1)]).unwrap();
        let homes: Vec<usize> = (0..3).map(|slot| holders.slot_home(slot, 4).index()).collect();
        assert_eq!(homes, [1, 0, 2]);
    }
}

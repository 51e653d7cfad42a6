//! The configuration of a node, and its checks.

use meshlock_protocol::Epoch;

use crate::access::{Admission, ShownToken};
use crate::address::Address;
use crate::claim::ClaimKey;
use crate::lease::{MAX_RENEWALS, Terms, TermsError};
use crate::links::{LinkLimits, LinkTimeouts};
use crate::membership::{MAX_LOG_ENTRIES, Pace};
use crate::names::{ClusterName, SiteName};
use crate::rules::{Rules, RulesError, RulesText};
use crate::table::TableConfig;
use crate::time::Span;
use crate::view::{MAX_PAST, SitesError, check_sites};

/// The configuration of a node. `cluster`, `sites`, `pace` and `tick` are the same at all sites of a cluster.
#[derive(Clone, Debug)]
pub struct Config {
    pub cluster: ClusterName,
    pub site: SiteName,
    /// The host's stamp of this start: different from that of any earlier start of this site, and larger as far as the
    /// host can tell, such as the milliseconds of its calendar clock. It distinguishes a site that has lost its disk
    /// from what it was before; clocks that were set back are allowed for.
    pub start_stamp: u64,
    /// The address of this site, which the view tells the others.
    pub address: Address,
    /// The initial sites of the cluster, in the same order everywhere; the first few of them vote, and never change.
    /// This site need not be among them.
    pub sites: Vec<SiteName>,
    /// The initial rules of the cluster; later the view has them.
    pub rules: RulesText,
    /// The epoch of the first view of the cluster, if this site makes it ([`fence_floor`](crate::fence_floor)).
    pub first_epoch: Epoch,
    /// The initial terms of leases; later the view has them, and this site follows those.
    pub terms: Terms,
    /// Timeouts of links. A peer counts as unreachable after `unreachable_after`, and not before a member that was stopped for
    /// [as long as its lease allows](Terms::longest_pause) could answer again, whichever is longer.
    pub link_timeouts: LinkTimeouts,
    /// Limits of links.
    pub link_limits: LinkLimits,
    /// Intervals of elections.
    pub pace: Pace,
    /// Length of a tick of elections.
    pub tick: Span,
    /// Maximum number of entries in the log of views before its older half is replaced by a snapshot.
    pub max_log_entries: usize,
    /// Maximum number of former members that a view lists.
    pub max_past: usize,
    /// The token with which this site joins for the first time, if its operator was given one.
    pub join_token: Option<ShownToken>,
    /// Who may join while the cluster has no access document. If it is closed, the leader makes the first document, which closes it.
    pub admission: Admission,
    /// Who changes the voters: only operators, or the leader as well.
    pub voting: Voting,
    /// How this site treats its clients.
    pub table_config: TableConfig,
    /// Bounds of what this site sends and keeps.
    pub limits: NodeLimits,
    /// Seed of everything that is random.
    pub seed: u64,
    /// The key with which this start of the site proves to other members what its clients hold: random, and never used before. Without
    /// one clients are given no proofs.
    pub claim_key: Option<ClaimKey>,
}

/// Who changes the voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voting {
    /// Only operators.
    Fixed,
    /// The leader, too: it keeps as many voters as the number of members allows, and replaces those that are gone.
    Auto {
        /// For how long a voter must not have been a member before another member takes its place.
        replace_after: Span,
        /// For how long a site must have been a member before it becomes a voter without being asked, and a leader must have led before it
        /// changes anything.
        stable_after: Span,
    },
}

/// Bounds of what a node sends and keeps. Their defaults suit every cluster; the simulation makes them small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Maximum length of a piece of a census in bytes, as long as it has more than one lock: far below the limit of a
    /// packet, so that nothing else waits long for it.
    pub census_piece: usize,
    /// Maximum number of questions to other sites that wait for replies.
    pub questions: usize,
    /// Maximum number of inquiries about locks that wait for replies. Of more the oldest are forgotten.
    pub inquiries: usize,
    /// Maximum number of renewals of the lease that wait for an answer. Of more the oldest are forgotten.
    pub renewals: usize,
}

impl Default for NodeLimits {
    fn default() -> Self {
        NodeLimits { census_piece: 128 << 10, questions: 64, inquiries: 4096, renewals: MAX_RENEWALS }
    }
}

/// The reason why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The list of sites is invalid.
    #[error(transparent)]
    Sites(#[from] SitesError),
    /// The rules are invalid.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The terms of leases are invalid.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// Elections need ticks, and more of them than heartbeats.
    #[error(
        "a heartbeat every {heartbeat} ticks and an election after {election}: give 1 or more, and more for the election"
    )]
    Pace { heartbeat: usize, election: usize },
    /// A lease that ends before a new leader can be elected would end with every leader.
    #[error(
        "a lease of {lease} µs ends before a lost leader is replaced, which takes up to {election} µs; lengthen it"
    )]
    LeaseShorterThanElection {
        lease: u64,
        /// The longest election timeout.
        election: u64,
    },
}

/// A configuration that has been checked.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(super) config: Config,
    pub(super) rules: Rules,
}

impl Config {
    /// Returns sensible defaults for a local network: leases of five seconds, a new leader within one. The address is
    /// the site's name.
    pub fn new(site: SiteName, sites: Vec<SiteName>) -> Self {
        let terms = Terms::default();
        Config {
            cluster: ClusterName::default(),
            start_stamp: 0,
            address: Address::from(&site),
            site,
            sites,
            rules: RulesText::default(),
            first_epoch: Epoch::new(1).expect("a small number"),
            terms,
            link_timeouts: LinkTimeouts {
                ack_within: Span::from_millis(20),
                resend_after: Span::from_millis(500),
                unreachable_after: Span::ZERO,
            },
            link_limits: LinkLimits::default(),
            pace: Pace { heartbeat: 1, election: 5 },
            tick: Span::from_millis(100),
            max_log_entries: MAX_LOG_ENTRIES,
            max_past: MAX_PAST / 4,
            join_token: None,
            admission: Admission::Open,
            voting: Voting::Fixed,
            table_config: TableConfig {
                local_turns: 16,
                message_delay: Span::from_millis(50),
                try_within: None,
                max_locks: 1_000_000,
                max_claims: 1_000_000,
                max_claims_per_session: 1 << 16,
                margin: terms.margin,
                resume_window: terms.drift.stretch(terms.resume_window()),
            },
            limits: NodeLimits::default(),
            seed: 0,
            claim_key: None,
        }
    }

    /// Returns the timeouts of links in a cluster with these terms of leases.
    pub fn link_timeouts_by(&self, terms: Terms) -> LinkTimeouts {
        let unreachable_after = self.link_timeouts.unreachable_after.max(terms.longest_pause());
        LinkTimeouts { unreachable_after, ..self.link_timeouts }
    }

    /// Checks the configuration.
    pub fn check(mut self) -> Result<Checked, ConfigError> {
        check_sites(&self.sites)?;
        let rules = Rules::new(self.rules.clone())?;
        let terms = self.terms.check()?;
        let Pace { heartbeat, election } = self.pace;
        if heartbeat == 0 || election <= heartbeat {
            return Err(ConfigError::Pace { heartbeat, election });
        }
        let longest = self.tick.times(2 * election as u64);
        if terms.length <= longest + terms.margin {
            let (lease, election) = (terms.length.micros(), longest.micros());
            return Err(ConfigError::LeaseShorterThanElection { lease, election });
        }
        self.max_past = self.max_past.min(MAX_PAST);
        self.link_limits = self.link_limits.made_sound();
        self.table_config.margin = terms.margin;
        self.table_config.resume_window = terms.drift.stretch(terms.resume_window());
        Ok(Checked { config: self, rules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Clause;

    fn config() -> Config {
        Config::new("a".parse().unwrap(), vec!["a".parse().unwrap(), "b".parse().unwrap()])
    }

    #[test]
    fn the_defaults_are_sound() {
        assert!(config().check().is_ok());
    }

    #[test]
    fn nobody_is_unreachable_before_the_longest_pause_is_over_whatever_is_configured() {
        for millis in [2_000, 5_000, 60_000] {
            let terms = Terms { length: Span::from_millis(millis), ..Terms::default() };
            let pause = terms.longest_pause();
            assert_eq!(config().link_timeouts_by(terms).unreachable_after, pause);
            let mut patient = config();
            patient.link_timeouts.unreachable_after = pause + Span::TICK;
            assert_eq!(patient.link_timeouts_by(terms).unreachable_after, pause + Span::TICK);
        }
    }

    #[test]
    fn invalid_configurations_are_rejected_with_the_reason() {
        let refused = |config: Config| config.check().unwrap_err();
        assert_eq!(refused(Config { sites: vec![], ..config() }), ConfigError::Sites(SitesError::Empty));
        let twice = vec!["a".parse().unwrap(), "a".parse().unwrap()];
        assert!(matches!(refused(Config { sites: twice, ..config() }), ConfigError::Sites(_)));
        let default = Clause::exclusive("paxos");
        let rules = RulesText { default, ..RulesText::default() };
        assert!(matches!(refused(Config { rules, ..config() }), ConfigError::Rules(_)));
        let pace = Pace { heartbeat: 5, election: 5 };
        assert!(matches!(refused(Config { pace, ..config() }), ConfigError::Pace { .. }));
        let slow = Config { tick: Span::from_millis(1000), ..config() };
        assert!(matches!(refused(slow), ConfigError::LeaseShorterThanElection { .. }));
    }
}

//! Resolves a builder: applies defaults, parses names and addresses, and checks that the settings fit together.

use std::collections::BTreeMap;

use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{Config, ConfigError};
use meshlock_cluster::time::Span;
use meshlock_host::door::PRIVATE as OWNER_ONLY;
use meshlock_host::gate::Policy;
use meshlock_tls::{Bearer, Revoked, Security};

use super::{NodeBuilder, founding};
use crate::config::{Admission, policy, revoked, rules, span};
use crate::error::StartError;

/// Default and minimum of how long the session of a client on another machine lasts without a message.
const SESSION_TTL: Span = Span::from_millis(5000);
const MIN_SESSION_TTL: Span = Span::from_millis(1000);

/// Where a site listens that has no `listen` setting and is not in the list of sites.
const ANYWHERE: &str = "0.0.0.0:7400";

/// The settings of a site, with defaults applied and checked.
pub(super) struct Resolved {
    pub(super) config: Config,
    pub(super) listen: Option<Address>,
    pub(super) addresses: BTreeMap<SiteName, String>,
    pub(super) security: Security,
    pub(super) revoked: Revoked,
    pub(super) clients: Option<Address>,
    pub(super) session_ttl: Span,
    pub(super) policy: Policy,
}

impl NodeBuilder {
    /// Applies defaults and checks all settings.
    /// Returns the permissions of the socket.
    pub(super) fn mode_of_socket(&self) -> u32 {
        self.socket_mode.unwrap_or(OWNER_ONLY)
    }

    pub(super) fn resolve(self) -> Result<Resolved, StartError> {
        let sites = self.parse_sites()?;
        let site = self.own_name(&sites)?;
        let listed = sites.iter().find(|(name, _)| *name == site).map(|(_, address)| address);
        let is_alone = self.is_alone(&site, &sites);
        let listen = address("listen", self.listen.as_deref())?.or_else(|| listed.cloned());
        let listen = if is_alone { listen } else { listen.or_else(|| ANYWHERE.parse().ok()) };
        let advertise = address("advertise", self.advertise.as_deref())?;
        let reached = advertise.or_else(|| listed.cloned()).or_else(|| listen.clone());
        if listed.is_none() && !is_alone && reached.as_ref().is_none_or(is_wildcard) {
            let why = "this site is not in the list of sites: say where the others reach it, 'host:port'";
            return Err(StartError::setting("advertise", why));
        }
        if !self.in_memory && self.data.is_none() && !is_alone {
            let why = "give the directory for the durable state of this site; a test may keep it in memory (`in_memory`)";
            return Err(StartError::setting("data", why));
        }
        let mode = self.mode_of_socket();
        if mode & OWNER_ONLY != OWNER_ONLY || mode > 0o777 {
            let why = format!(
                "{mode:04o} are not permissions of a socket that its own user can open; say 0600, 0660 or 0666"
            );
            return Err(StartError::setting("socket_mode", why));
        }
        let clients = address("clients", self.clients.as_deref())?;
        let security = self.security(&site, is_alone && clients.is_none())?;
        let names = self.founding_names(&sites, &site)?;
        let mut config = Config::new(site, names);
        if let Some(cluster) = &self.cluster {
            config.cluster = cluster.parse().map_err(|error| StartError::setting("cluster", error))?;
        }
        if let Some(reached) = reached {
            config.address = reached;
        }
        self.lease.apply(&mut config.terms);
        if let Some(turns) = self.local_turns {
            if turns == 0 {
                return Err(StartError::setting("local_turns", "give 1 or more"));
            }
            config.table_config.local_turns = turns;
        }
        if self.try_within.is_some_and(|limit| limit.is_zero()) {
            return Err(StartError::setting("try_within", "give a positive duration, such as '1s'"));
        }
        config.table_config.try_within = self.try_within.map(span);
        config.table_config.max_locks = self.max_locks.unwrap_or(config.table_config.max_locks);
        self.apply_voting(&mut config)?;
        self.limits.check()?;
        self.audit.check()?;
        let session_ttl = self.session_ttl.map_or(SESSION_TTL, span);
        if session_ttl < MIN_SESSION_TTL.max(config.terms.margin.times(2)) {
            let why = "a client needs time to end its command: give 1s or more, and at least twice the margin of a lease";
            return Err(StartError::setting("session_ttl", why));
        }
        let policy = policy(&self.access, &self.tokens)?;
        let revoked = revoked(&self.revoked)?;
        let is_served = self.api.is_some() || clients.is_some();
        if is_served && matches!(security, Security::Tls(_)) && policy.access.is_empty() {
            tracing::warn!(
                "there are no [[access]] rules: clients with certificates or tokens may do nothing yet; \
                 `meshlock node --example-config` explains them"
            );
        }
        config.rules = rules(self.default_rule, self.rules);
        check(&config)?;
        let addresses = sites.into_iter().map(|(name, address)| (name, address.to_string())).collect();
        Ok(Resolved { config, listen, addresses, security, revoked, clients, session_ttl, policy })
    }

    /// Sets who changes the voters, and with which epoch the cluster begins.
    fn apply_voting(&self, config: &mut Config) -> Result<(), StartError> {
        if self.replace_voter_after.is_some_and(|away| span(away) < config.terms.length.times(2)) {
            let why = "a voter that restarts is away for a while: give at least twice the length of a lease";
            return Err(StartError::setting("replace_voter_after", why));
        }
        if self.promote_voter_after.is_some_and(|stable| span(stable) < config.terms.length.times(2)) {
            let why = "whoever is a member may be gone for as long as its lease lasts: give at least twice the length of a lease";
            return Err(StartError::setting("promote_voter_after", why));
        }
        config.voting = self.voters.voting(self.replace_voter_after, self.promote_voter_after);
        config.admission = match self.admission {
            Admission::Open => meshlock_cluster::access::Admission::Open,
            Admission::Closed => meshlock_cluster::access::Admission::Closed,
        };
        config.join_token.clone_from(&self.join_token);
        if let Some(epoch) = founding::above(self.fence_floor)? {
            config.first_epoch = epoch;
        }
        Ok(())
    }

    /// Returns whether the site is a cluster of its own.
    fn is_alone(&self, site: &SiteName, sites: &[(SiteName, Address)]) -> bool {
        let is_founder = self.founders.is_empty() || self.founders == [site.to_string()];
        is_founder && sites.iter().all(|(name, _)| name == site)
    }

    pub(super) fn parse_sites(&self) -> Result<Vec<(SiteName, Address)>, StartError> {
        let mut sites = Vec::with_capacity(self.sites.len());
        for (at, (name, address)) in self.sites.iter().enumerate() {
            let key = |field: &str| format!("sites[{}].{field}", at + 1);
            let name = name.parse().map_err(|error| StartError::setting(key("name"), error))?;
            let address = address.parse().map_err(|error| StartError::setting(key("address"), error))?;
            sites.push((name, address));
        }
        Ok(sites)
    }

    /// Returns the name of this site: the configured one, or the only possible one.
    pub(super) fn own_name(&self, sites: &[(SiteName, Address)]) -> Result<SiteName, StartError> {
        match (&self.site, sites) {
            (Some(name), _) => name.parse().map_err(|error| StartError::setting("site", error)),
            (None, []) => Ok("local".parse().expect("a name")),
            (None, [(only, _)]) => Ok(only.clone()),
            (None, _) => Err(StartError::setting("site", "say which of the sites this one is: set `site`")),
        }
    }

    /// Returns the sites that the cluster was founded with.
    fn founding_names(
        &self,
        sites: &[(SiteName, Address)],
        site: &SiteName,
    ) -> Result<Vec<SiteName>, StartError> {
        if !self.founders.is_empty() {
            let parsed: Result<_, _> = self.founders.iter().map(|name| name.parse()).collect();
            return parsed
                .map_err(|error: meshlock_cluster::names::NameError| StartError::setting("sites", error));
        }
        let names: Vec<SiteName> = sites.iter().map(|(name, _)| name.clone()).collect();
        Ok(if names.is_empty() { vec![site.clone()] } else { names })
    }

    /// Returns how connections are protected. That must be configured unless nobody else can connect.
    pub(super) fn security(&self, site: &SiteName, nobody_connects: bool) -> Result<Security, StartError> {
        match &self.security {
            Some(Security::Tls(identity)) => match identity.bearer() {
                Bearer::Site(name) if name == site => Ok(Security::Tls(identity.clone())),
                other @ (Bearer::Site(_) | Bearer::Client(_)) => Err(StartError::setting(
                    "tls.cert",
                    format!(
                        "it is the certificate of {other}, and this is the site '{site}'; give it its own: \
                         meshlock ca issue {site}"
                    ),
                )),
            },
            Some(Security::Plain) => Ok(Security::Plain),
            None if nobody_connects => Ok(Security::Plain),
            None => Err(StartError::setting(
                "tls",
                format!(
                    "say where the files of `meshlock ca issue {site}` are, or trust the network with `plaintext`"
                ),
            )),
        }
    }
}

fn address(key: &str, text: Option<&str>) -> Result<Option<Address>, StartError> {
    text.map(|text| text.parse().map_err(|error| StartError::setting(key, error))).transpose()
}

fn is_wildcard(address: &Address) -> bool {
    ["0.0.0.0:", "[::]:"].iter().any(|any| address.as_str().starts_with(any))
}

/// Checks the node's configuration; an error names the setting.
fn check(config: &Config) -> Result<(), StartError> {
    let Err(error) = config.clone().check() else { return Ok(()) };
    let key = match &error {
        ConfigError::Sites(_) => "sites",
        ConfigError::Rules(_) => "rules",
        ConfigError::Terms(_) | ConfigError::LeaseShorterThanElection { .. } | ConfigError::Pace { .. } => {
            "lease"
        }
    };
    Err(StartError::setting(key, error))
}

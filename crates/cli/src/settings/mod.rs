//! What a node is told to be: its configuration file, its flags, and the places that it uses where neither says anything.

pub(crate) mod example;
pub(crate) mod file;
pub(crate) mod guard;
pub(crate) mod lasting;
pub(crate) mod places;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use meshlock_cluster::address::Address;
use meshlock_cluster::names::{ClusterName, SiteName};
use meshlock_cluster::node::{Config, ConfigError};
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::time::{Drift, Span};
use meshlock_host::gate::{Each, Place, Policy};
use meshlock_service::Limits;
use meshlock_tls::Security;
use meshlock_tls::{Bearer, Files, Identity};

use crate::output::Usage;
use file::{File, ListedSite, NamedRule, RuleEntry, Source, Tls};

/// How long clients may keep what they hold when a node is told to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// After how long without a word the session of a client on another machine ends; and the least that can be said.
const SESSION_TTL: Span = Span::from_millis(5000);
const LEAST_TTL: Span = Span::from_millis(1000);

/// A site that listens where nothing is said: where it calls itself reachable.
const ANYWHERE: &str = "0.0.0.0:7400";

/// What flags say, each before what the file says.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) site: Option<SiteName>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) listen: Option<Address>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) api: Option<Address>,
    pub(crate) clients: Option<Address>,
    pub(crate) join: Vec<ListedSite>,
    /// What the cluster that is joined is called, and all sites that it began with.
    pub(crate) cluster: Option<ClusterName>,
    pub(crate) founders: Vec<SiteName>,
    pub(crate) plain: bool,
}

/// All that a node needs to know before it starts; everything has been checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// Where to listen for other sites; nowhere for a cluster of one.
    pub(crate) listen: Option<Address>,
    pub(crate) addresses: BTreeMap<SiteName, String>,
    pub(crate) security: Security,
    pub(crate) data: PathBuf,
    pub(crate) socket: PathBuf,
    /// Where the wire APIs are served; nowhere if nothing is said.
    pub(crate) api: Option<Address>,
    /// Where to listen for clients on other machines, if anywhere.
    pub(crate) clients: Option<Address>,
    /// After how long without a word their sessions end.
    pub(crate) session_ttl: Span,
    pub(crate) shutdown_grace: Duration,
    /// Who may do what.
    pub(crate) policy: Policy,
    /// Where it is written down.
    pub(crate) audit: Place,
    /// How much clients may have.
    pub(crate) limits: Limits,
    pub(crate) each: Each,
}

impl Settings {
    /// Puts together what the file and the flags say, and checks it.
    pub(crate) fn new(file: File, source: &Source, flags: Flags) -> anyhow::Result<Self> {
        let sites = if flags.join.is_empty() { file.sites } else { flags.join };
        let site = own_name(flags.site.or(file.site), &sites, source)?;
        let listed = sites.iter().find(|listed| listed.name == site).map(|listed| &listed.address);
        let is_alone = sites.is_empty() || (sites.len() == 1 && listed.is_some());
        let listen = flags.listen.or(file.listen).or_else(|| listed.cloned());
        let listen = if is_alone { listen } else { listen.or_else(|| ANYWHERE.parse().ok()) };
        let address = file.advertise.or_else(|| listed.cloned()).or_else(|| listen.clone());
        if listed.is_none() && !is_alone && address.as_ref().is_none_or(is_wildcard) {
            return Err(source
                .wrong(
                    "advertise",
                    "this site is not in the list of sites: say where the others reach it, 'host:port'",
                )
                .into());
        }
        let tls = if flags.plain { Some(Tls::Off(file::Off::Off)) } else { file.tls };
        let clients = flags.clients.or(file.clients);
        let security = security(tls, &site, is_alone && clients.is_none(), source)?;
        let names: Vec<SiteName> = sites.iter().map(|listed| listed.name.clone()).collect();
        let names = if flags.founders.is_empty() { names } else { flags.founders };
        let names = if names.is_empty() { vec![site.clone()] } else { names };
        let mut config = Config::new(site.clone(), names);
        if let (Some(said), Some(found)) = (&file.cluster, &flags.cluster)
            && said != found
        {
            let why = format!("the site that --join names is of the cluster '{found}'; compare the two");
            return Err(source.wrong("cluster", why).into());
        }
        if let Some(cluster) = flags.cluster.or(file.cluster) {
            config.cluster = cluster;
        }
        if let Some(address) = address {
            config.address = address;
        }
        config.rules = rules(file.default_rule, file.rules);
        lease(&mut config, file.lease);
        if let Some(turns) = file.local_turns {
            if turns == 0 {
                return Err(source.wrong("local_turns", "give 1 or more").into());
            }
            config.habits.local_turns = turns;
        }
        check(&config, source)?;
        let session_ttl = file.session_ttl.map_or(SESSION_TTL, |ttl| ttl.span());
        if session_ttl < LEAST_TTL.max(config.terms.margin.times(2)) {
            let why = "a client needs time to end its command: give 1s or more, and at least twice the margin of a lease";
            return Err(source.wrong("session_ttl", why).into());
        }
        let (limits, each) = guard::limits(file.limits, source)?;
        let data = flags.data.or_else(|| file.data.map(|path| source.resolve(path)));
        let socket = flags.socket.or_else(|| file.socket.map(|path| source.resolve(path)));
        Ok(Settings {
            addresses: sites.into_iter().map(|listed| (listed.name, listed.address.to_string())).collect(),
            listen,
            security,
            data: data.map_or_else(|| places::data_of(&site), Ok)?,
            socket: socket.map_or_else(|| places::socket_of(&site), Ok)?,
            api: flags.api.or(file.api),
            clients,
            session_ttl,
            shutdown_grace: file.shutdown_grace.map_or(SHUTDOWN_GRACE, |grace| grace.duration()),
            policy: guard::policy(&file.access, file.tokens, source)?,
            audit: guard::audit(file.audit, source)?,
            limits,
            each,
            config,
        })
    }
}

/// Who joins a cluster of which nothing is known yet, and how its connections are protected.
pub(crate) fn who_joins(file: &File, source: &Source, flags: &Flags) -> anyhow::Result<(SiteName, Security)> {
    let said = flags.site.clone().or_else(|| file.site.clone());
    let site = said.ok_or_else(|| source.wrong("site", "say with --site what this site is called"))?;
    let tls = if flags.plain { Some(Tls::Off(file::Off::Off)) } else { file.tls.clone() };
    let security = security(tls, &site, false, source)?;
    Ok((site, security))
}

/// The name of this site: what is said, or the only one that it can be.
fn own_name(said: Option<SiteName>, sites: &[ListedSite], source: &Source) -> Result<SiteName, Usage> {
    match (said, sites) {
        (Some(name), _) => Ok(name),
        (None, []) => "local".parse().map_err(Usage::new),
        (None, [only]) => Ok(only.name.clone()),
        (None, _) => Err(source.wrong("site", "say which of the sites this one is, here or with --site")),
    }
}

fn is_wildcard(address: &Address) -> bool {
    ["0.0.0.0:", "[::]:"].iter().any(|any| address.as_str().starts_with(any))
}

fn security(tls: Option<Tls>, site: &SiteName, is_alone: bool, source: &Source) -> Result<Security, Usage> {
    match tls {
        Some(Tls::Off(_)) => Ok(Security::Plain),
        None if is_alone => Ok(Security::Plain),
        None => Err(source.wrong(
            "tls",
            format!("say where the files of `meshlock ca issue {site}` are, or tls = \"off\" where the network is trusted"),
        )),
        Some(Tls::Files { ca, cert, key }) => {
            let (authority, certificate, key) =
                (source.resolve(ca), source.resolve(cert), source.resolve(key));
            let files = Files { authority, certificate, key };
            let identity = Identity::load(&files).map_err(|error| source.wrong("tls", error))?;
            match identity.bearer() {
                Bearer::Site(name) if name == site => Ok(Security::Tls(identity)),
                other @ (Bearer::Site(_) | Bearer::Client(_)) => Err(source.wrong(
                    "tls.cert",
                    format!(
                        "{} is the certificate of {other}, and this is the site '{site}'; give it its own: meshlock ca issue {site}",
                        files.certificate.display()
                    ),
                )),
            }
        }
    }
}

fn rules(default: Option<RuleEntry>, named: Vec<NamedRule>) -> RulesText {
    let clause = |entry: RuleEntry| {
        let permits = entry.permits.unwrap_or(1);
        Clause { algorithm: entry.algorithm, permits, per_site: entry.per_site.unwrap_or(permits) }
    };
    RulesText {
        default: default.map_or_else(|| RulesText::default().default, clause),
        rules: named.into_iter().map(|named| (named.pattern, clause(named.rule))).collect(),
    }
}

fn lease(config: &mut Config, lease: file::Lease) {
    let terms = &mut config.terms;
    terms.length = lease.length.map_or(terms.length, |length| length.span());
    terms.margin = lease.margin.map_or(terms.margin, |margin| margin.span());
    terms.renew_every = lease.renew_every.map_or(terms.renew_every, |every| every.span());
    terms.drift = lease.drift_ppm.map_or(terms.drift, Drift::from_ppm);
}

/// Says which key is behind what the node would not accept.
fn check(config: &Config, source: &Source) -> Result<(), Usage> {
    let Err(error) = config.clone().check() else { return Ok(()) };
    let key = match &error {
        ConfigError::Sites(_) => "sites",
        ConfigError::Rules(_) => "rules",
        ConfigError::Terms(_) | ConfigError::LeaseShorterThanElection { .. } | ConfigError::Pace { .. } => {
            "lease"
        }
    };
    Err(source.wrong(key, error))
}

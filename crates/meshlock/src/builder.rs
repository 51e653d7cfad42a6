//! A site of a cluster, described in code: everything that a configuration file can say.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{Config, ConfigError};
use meshlock_cluster::time::Span;
use meshlock_host::front::Front;
use meshlock_host::gate::{Audit as AuditLog, Gate, Policy};
use meshlock_host::{Engine, Setup, StartError as HostError, door, listen};
use meshlock_tls::{Bearer, Security};

use crate::config::{AccessRule, Audit, Lease, Limits, Rule, Token, policy, rules, span};
use crate::error::StartError;
use crate::join;
use crate::node::{DoorServing, Node};
use crate::tls::Tls;

/// After how long without a message the session of a client on another machine ends, and the least that can be said.
const SESSION_TTL: Span = Span::from_millis(5000);
const MIN_SESSION_TTL: Span = Span::from_millis(1000);

/// Where a site listens that neither says so nor is in the list.
const ANYWHERE: &str = "0.0.0.0:7400";

/// Describes a site of a cluster; made by [`Node::builder`]. What it can be told is what a configuration file can say, by the same
/// names (`meshlock node --example-config` explains each).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use meshlock::{Node, Tls};
///
/// let node = Node::builder()
///     .site("db-1")
///     .sites([("db-1", "db-1.example:7400"), ("db-2", "db-2.example:7400"), ("db-3", "db-3.example:7400")])
///     .tls(Tls::from_dir("site-db-1")?)
///     .data("/var/lib/meshlock/db-1")
///     .start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a site runs once it is started"]
pub struct NodeBuilder {
    cluster: Option<String>,
    site: Option<String>,
    sites: Vec<(String, String)>,
    /// All sites that the cluster began with, where they were learnt; not all of them may have a known address.
    founders: Vec<String>,
    join: Vec<String>,
    listen: Option<String>,
    advertise: Option<String>,
    data: Option<PathBuf>,
    in_memory: bool,
    socket: Option<PathBuf>,
    clients: Option<String>,
    api: Option<String>,
    session_ttl: Option<Duration>,
    security: Option<Security>,
    local_turns: Option<u32>,
    max_locks: Option<usize>,
    lease: Lease,
    default_rule: Option<Rule>,
    rules: Vec<(String, Rule)>,
    access: Vec<AccessRule>,
    tokens: Vec<Token>,
    audit: Audit,
    limits: Limits,
    wire_versions: Option<u16>,
}

/// What serves the clients of a node, until it is dropped.
pub(crate) struct Served {
    #[cfg(feature = "api")]
    pub(crate) api: Option<meshlock_service::Serving>,
    doors: Vec<DoorServing>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) clients: Option<SocketAddr>,
}

impl Served {
    /// Takes no more clients; those who are connected stay so. Nothing looks as if one could connect.
    pub(crate) fn stop_accepting(&self) {
        self.doors.iter().for_each(DoorServing::stop);
        #[cfg(feature = "api")]
        if let Some(api) = &self.api {
            api.stop_accepting();
        }
        if let Some(socket) = &self.socket {
            // One that is not there is as good.
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// What was said, put together and checked.
struct Resolved {
    config: Config,
    listen: Option<Address>,
    addresses: BTreeMap<SiteName, String>,
    security: Security,
    clients: Option<Address>,
    session_ttl: Span,
    policy: Policy,
}

impl NodeBuilder {
    pub(crate) fn new() -> Self {
        NodeBuilder::default()
    }

    /// The name of the cluster, the same at all its sites, for ever. Default: `meshlock`.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = Some(name.into());
        self
    }

    /// The name of this site. Default: the only one of [`sites`](NodeBuilder::sites), or `local`.
    pub fn site(mut self, name: impl Into<String>) -> Self {
        self.site = Some(name.into());
        self
    }

    /// The sites that the cluster begins with, by name and address, in the same order at all of them. The first seven vote on who
    /// takes part, and never change; others may come and go. Without them the site is a cluster of its own.
    pub fn sites<N: Into<String>, A: Into<String>>(
        mut self,
        sites: impl IntoIterator<Item = (N, A)>,
    ) -> Self {
        self.sites = sites.into_iter().map(|(name, address)| (name.into(), address.into())).collect();
        self
    }

    /// Joins the cluster of which one of these addresses is a running site: it says the rest. [`start`](NodeBuilder::start) waits
    /// until one of them answers.
    pub fn join<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.join = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Where this site listens for the others. Default: its address in the list of sites.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Where the others reach this site. Default: its address in the list of sites, or where it listens.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Where this site keeps what it must not forget: a directory of its own, never copied or emptied while the site exists.
    pub fn data(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data = Some(dir.into());
        self
    }

    /// Keeps nothing: fences begin anew with each start. For a cluster of one process, and for tests.
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Serves clients of this machine and user on this Unix socket ([`Client`](crate::Client), `meshlock run --socket`).
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Serves clients of other machines at this address ([`Client`](crate::Client), `meshlock run --node`).
    pub fn clients(mut self, address: impl Into<String>) -> Self {
        self.clients = Some(address.into());
        self
    }

    /// Serves the API of other languages, and of etcd's and Consul's clients, at this address; and `/metrics`.
    #[cfg(feature = "api")]
    pub fn api(mut self, address: impl Into<String>) -> Self {
        self.api = Some(address.into());
        self
    }

    /// After how long without a message the session of a client on another machine ends. Default: 5 s.
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = Some(ttl);
        self
    }

    /// Protects connections between sites, and those of clients on other machines, by certificates.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.security = Some(Security::Tls(tls.identity().clone()));
        self
    }

    /// Trusts the network: nothing is protected, and whoever reaches the port can say that it is any site.
    pub fn plaintext(mut self) -> Self {
        self.security = Some(Security::Plain);
        self
    }

    /// How often in a row clients of this site get a lock before those of other sites do, if both wait. Default: 16.
    pub fn local_turns(mut self, turns: u32) -> Self {
        self.local_turns = Some(turns);
        self
    }

    /// How many locks the site keeps at most, in use or idle. Default: a million.
    pub fn max_locks(mut self, locks: usize) -> Self {
        self.max_locks = Some(locks);
        self
    }

    /// How long leases are.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// What locks run that no other rule names, at the first start of the cluster; later `meshlock rules` changes it.
    pub fn default_rule(mut self, rule: Rule) -> Self {
        self.default_rule = Some(rule);
        self
    }

    /// What locks of this name run, or, with `*` at its end, of names that begin so.
    pub fn rule(mut self, pattern: impl Into<String>, rule: Rule) -> Self {
        self.rules.push((pattern.into(), rule));
        self
    }

    /// Lets principals do something over [`clients`](NodeBuilder::clients) and the API.
    pub fn access(mut self, rule: AccessRule) -> Self {
        self.access.push(rule);
        self
    }

    /// Knows a token that clients of the API show.
    pub fn token(mut self, token: Token) -> Self {
        self.tokens.push(token);
        self
    }

    /// Where it is written down who was granted, denied or took what.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// How much clients may have.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Speaks no newer version with other sites than this one: for tests of upgrades.
    #[doc(hidden)]
    pub fn speak_up_to(mut self, version: u16) -> Self {
        self.wire_versions = Some(version);
        self
    }

    /// Checks everything that can be checked without starting anything.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().sites([("a", "a.example:7400"), ("b", "b.example:7400")]);
    /// let error = builder.site("a").check().unwrap_err();
    /// assert_eq!(error.key(), Some("tls")); // say how it is protected, or that the network is trusted
    /// ```
    pub fn check(&self) -> Result<(), StartError> {
        if !self.join.is_empty() {
            // The rest is learnt from the cluster.
            return self.newcomer().map(drop);
        }
        self.clone().resolve().map(drop)
    }

    /// The name of this site.
    pub fn site_name(&self) -> Result<String, StartError> {
        if self.site.is_none() && !self.join.is_empty() {
            return Err(StartError::setting("site", "say with --site what this site is called"));
        }
        Ok(self.own_name(&self.parse_sites()?)?.to_string())
    }

    /// All that the site is told, as text: for tests.
    #[doc(hidden)]
    pub fn describe(&self) -> Result<String, StartError> {
        let limits = self.limits.clone();
        let Resolved { config, listen, addresses, clients, session_ttl, .. } = self.clone().resolve()?;
        Ok(format!("{config:?} {listen:?} {addresses:?} {clients:?} {session_ttl:?} {limits:?}"))
    }

    /// The name of the site and of the cluster, as far as they can be told.
    pub fn names(&self) -> Result<(String, String), StartError> {
        let resolved = self.clone().resolve()?;
        Ok((resolved.config.site.to_string(), resolved.config.cluster.to_string()))
    }

    /// Starts the site. It takes part as soon as it reaches enough others; locks wait for that by themselves.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::builder().in_memory().start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(self) -> Result<Node, StartError> {
        self.start_on(None)
    }

    /// Starts the site on a port that is open already, or opens the one that was said.
    pub(crate) fn start_on(mut self, opened: Option<TcpListener>) -> Result<Node, StartError> {
        if !self.join.is_empty() {
            self = join::learn(self)?;
        }
        let speaks = self.wire_versions;
        let (data, socket, api) = (self.data.clone(), self.socket.clone(), self.api.clone());
        let (limits, audit) = (self.limits.clone(), self.audit.clone().target());
        let Resolved { config, listen: at, addresses, security, clients, session_ttl, policy } =
            self.resolve()?;
        let open = |address: &Address| {
            listen(address.as_str()).map_err(|error| StartError::Listen(error.to_string()))
        };
        let mut setup = Setup::new(config);
        setup.config.seed = fastrand::u64(..);
        setup.listen = match opened {
            Some(listener) => Some(listener),
            None => at.as_ref().map(open).transpose()?,
        };
        (setup.addresses, setup.security, setup.data) = (addresses, security.clone(), data);
        if let Some(highest) = speaks {
            setup.speaks = meshlock_wire::sites::Versions::up_to(highest);
        }
        let clients = clients.as_ref().map(open).transpose()?;
        let engine = Engine::start(setup).map_err(of_host)?;
        let audit = AuditLog::open(&audit)
            .map_err(|error| StartError::setting("audit", format!("cannot be opened: {error}")))?;
        let front = Front::new(engine.clone(), Arc::new(Gate::new(policy, limits.each(), audit)));
        let served = serve(&front, socket, clients, &security, session_ttl, api, &limits)?;
        Ok(Node::new(engine, front, served))
    }

    fn resolve(self) -> Result<Resolved, StartError> {
        let sites = self.parse_sites()?;
        let site = self.own_name(&sites)?;
        let listed = sites.iter().find(|(name, _)| *name == site).map(|(_, address)| address);
        let is_alone = sites.is_empty() || (sites.len() == 1 && listed.is_some());
        let listen = address("listen", self.listen.as_deref())?.or_else(|| listed.cloned());
        let listen = if is_alone { listen } else { listen.or_else(|| ANYWHERE.parse().ok()) };
        let advertise = address("advertise", self.advertise.as_deref())?;
        let reached = advertise.or_else(|| listed.cloned()).or_else(|| listen.clone());
        if listed.is_none() && !is_alone && reached.as_ref().is_none_or(is_wildcard) {
            let why = "this site is not in the list of sites: say where the others reach it, 'host:port'";
            return Err(StartError::setting("advertise", why));
        }
        if !self.in_memory && self.data.is_none() && !is_alone {
            let why = "say where this site keeps what it must not forget; a test may keep it in memory";
            return Err(StartError::setting("data", why));
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
        config.table_config.max_locks = self.max_locks.unwrap_or(config.table_config.max_locks);
        self.limits.check()?;
        let session_ttl = self.session_ttl.map_or(SESSION_TTL, span);
        if session_ttl < MIN_SESSION_TTL.max(config.terms.margin.times(2)) {
            let why = "a client needs time to end its command: give 1s or more, and at least twice the margin of a lease";
            return Err(StartError::setting("session_ttl", why));
        }
        let policy = policy(&self.access, &self.tokens)?;
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
        Ok(Resolved { config, listen, addresses, security, clients, session_ttl, policy })
    }

    fn parse_sites(&self) -> Result<Vec<(SiteName, Address)>, StartError> {
        let mut sites = Vec::with_capacity(self.sites.len());
        for (at, (name, address)) in self.sites.iter().enumerate() {
            let key = |field: &str| format!("sites[{}].{field}", at + 1);
            let name = name.parse().map_err(|error| StartError::setting(key("name"), error))?;
            let address = address.parse().map_err(|error| StartError::setting(key("address"), error))?;
            sites.push((name, address));
        }
        Ok(sites)
    }

    /// The name of this site: what is said, or the only one that it can be.
    fn own_name(&self, sites: &[(SiteName, Address)]) -> Result<SiteName, StartError> {
        match (&self.site, sites) {
            (Some(name), _) => name.parse().map_err(|error| StartError::setting("site", error)),
            (None, []) => Ok("local".parse().expect("a name")),
            (None, [(only, _)]) => Ok(only.clone()),
            (None, _) => {
                Err(StartError::setting("site", "say which of the sites this one is, here or with --site"))
            }
        }
    }

    /// The sites that the cluster began with.
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

    /// How connections are protected, if that was said or nobody else can connect.
    fn security(&self, site: &SiteName, nobody_connects: bool) -> Result<Security, StartError> {
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
                    "say where the files of `meshlock ca issue {site}` are, or tls = \"off\" where the network is trusted"
                ),
            )),
        }
    }

    /// The name of this site and how it is protected, for whoever joins a cluster of which nothing is known yet.
    pub(crate) fn newcomer(&self) -> Result<(SiteName, Security), StartError> {
        let site = self.site.as_deref();
        let site =
            site.ok_or_else(|| StartError::setting("site", "say with --site what this site is called"))?;
        let site = site.parse().map_err(|error| StartError::setting("site", error))?;
        let security = self.security(&site, false)?;
        Ok((site, security))
    }

    pub(crate) fn places_to_join(&self) -> &[String] {
        &self.join
    }

    /// What was learnt of the cluster that is joined.
    pub(crate) fn learnt(
        mut self,
        cluster: String,
        sites: Vec<(String, Option<String>)>,
    ) -> Result<Self, StartError> {
        if self.cluster.as_ref().is_some_and(|said| *said != cluster) {
            let why = format!("the site that --join names is of the cluster '{cluster}'; compare the two");
            return Err(StartError::setting("cluster", why));
        }
        self.cluster = Some(cluster);
        self.founders = sites.iter().map(|(name, _)| name.clone()).collect();
        // A view says where the others are reached.
        self.sites = sites.into_iter().filter_map(|(name, address)| Some((name, address?))).collect();
        Ok(self)
    }
}

fn address(key: &str, text: Option<&str>) -> Result<Option<Address>, StartError> {
    text.map(|text| text.parse().map_err(|error| StartError::setting(key, error))).transpose()
}

fn is_wildcard(address: &Address) -> bool {
    ["0.0.0.0:", "[::]:"].iter().any(|any| address.as_str().starts_with(any))
}

/// Says which setting is behind what the node would not accept.
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

fn of_host(error: HostError) -> StartError {
    match error {
        HostError::Config(error) => StartError::setting("site", error),
        HostError::Store(error) => StartError::Data(error.to_string()),
        HostError::Founding(error) => StartError::Founding(error.to_string()),
        HostError::Threads(error) => StartError::System(error),
    }
}

/// Opens the doors that were asked for.
fn serve(
    front: &Front,
    socket: Option<PathBuf>,
    clients: Option<TcpListener>,
    security: &Security,
    session_ttl: Span,
    api: Option<String>,
    limits: &Limits,
) -> Result<Served, StartError> {
    let refused = |error: &dyn std::fmt::Display| StartError::Listen(error.to_string());
    let mut doors = Vec::new();
    if let Some(path) = &socket {
        let listener = door::listen(path).map_err(|error| refused(&error))?;
        doors.push(door::serve(front, listener, |_| {}));
    }
    let address = clients.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = clients {
        doors.push(door::serve_network(front, listener, security.clone(), session_ttl)?);
    }
    #[cfg(feature = "api")]
    let api = match api {
        None => None,
        Some(address) => {
            let listener = listen(&address).map_err(|error| refused(&error))?;
            let setup =
                meshlock_service::ApiSetup { listener, security: security.clone(), limits: limits.of_api() };
            Some(meshlock_service::Serving::start(front, setup).map_err(|error| refused(&error))?)
        }
    };
    #[cfg(not(feature = "api"))]
    let _ = (api, limits);
    Ok(Served {
        #[cfg(feature = "api")]
        api,
        doors,
        socket,
        clients: address,
    })
}

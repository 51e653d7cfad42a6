//! The description of a site of a cluster in code: everything that a configuration file can contain.

mod audit;
mod doors;
mod founding;
mod protection;
mod resolve;
mod tuning;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meshlock_cluster::access::ShownToken;
use meshlock_cluster::address::Address;
use meshlock_cluster::names::SiteName;
use meshlock_host::front::Front;
use meshlock_host::gate::{Audit as AuditLog, Gate};
use meshlock_host::{Engine, JoinPlace, NodeSetup, founding_in, listen};
use meshlock_tls::Security;

use crate::config::{AccessRule, AccessToken, Admission, Lease, Limits, Rule, Voters};
use crate::error::StartError;
use crate::join;
use crate::node::Node;

use audit::AuditSettings;
pub(crate) use doors::OpenDoors;
use doors::{OwnSocket, serve};
use resolve::Resolved;

/// The error of a site that joins a cluster without a name of its own.
const UNNAMED: &str = "say what this site is called: set `site`";

/// Describes a site of a cluster; created by [`Node::builder`]. Its settings have the names of the configuration file's settings
/// (`meshlock node --example-config` explains each).
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
    /// All sites that the cluster was founded with, if they were learnt by joining; some of them may have no known address.
    founders: Vec<String>,
    join: Vec<String>,
    listen: Option<String>,
    advertise: Option<String>,
    data: Option<PathBuf>,
    in_memory: bool,
    socket: Option<PathBuf>,
    socket_mode: Option<u32>,
    clients: Option<String>,
    api: Option<String>,
    session_ttl: Option<Duration>,
    security: Option<Security>,
    local_turns: Option<u32>,
    try_within: Option<Duration>,
    max_locks: Option<usize>,
    busy_poll: Option<bool>,
    voters: Voters,
    replace_voter_after: Option<Duration>,
    promote_voter_after: Option<Duration>,
    admission: Admission,
    fence_floor: Option<u64>,
    lease: Lease,
    default_rule: Option<Rule>,
    rules: Vec<(String, Rule)>,
    access: Vec<AccessRule>,
    tokens: Vec<AccessToken>,
    revoked: Vec<String>,
    join_token: Option<ShownToken>,
    audit: AuditSettings,
    limits: Limits,
    wire_versions: Option<u16>,
}

impl NodeBuilder {
    pub(crate) fn new() -> Self {
        NodeBuilder::default()
    }

    /// Sets the name of the cluster, which is the same at all its sites and never changes. Default: `meshlock`.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().cluster("orders");
    /// ```
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = Some(name.into());
        self
    }

    /// Sets the name of this site. Default: the only one of [`sites`](NodeBuilder::sites), or `local`.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().site("db-1");
    /// ```
    pub fn site(mut self, name: impl Into<String>) -> Self {
        self.site = Some(name.into());
        self
    }

    /// Sets the sites that the cluster is founded with, by name and address, in the same order at all of them. The first seven vote at first on
    /// the members, and never change; others may come and go. Without this setting the site is a cluster of its own.
    ///
    /// ```
    /// let builder = meshlock::Node::builder()
    ///     .site("db-1")
    ///     .sites([("db-1", "db-1.example:7400"), ("db-2", "db-2.example:7400")]);
    /// ```
    pub fn sites<N: Into<String>, A: Into<String>>(
        mut self,
        sites: impl IntoIterator<Item = (N, A)>,
    ) -> Self {
        self.sites = sites.into_iter().map(|(name, address)| (name.into(), address.into())).collect();
        self
    }

    /// Joins the cluster of a running site at one of these places, which provides the cluster's name and sites: `HOST:PORT`,
    /// `dns:NAME:PORT` for a site at every address of the name, or `dns+srv:NAME` for the sites that its `SRV` records list. Names are looked
    /// up again and again. [`start`](NodeBuilder::start) waits until a site answers, unless this one has been a member before.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().site("db-9").join(["db-1.example:7400"]);
    /// ```
    pub fn join<A: Into<String>>(mut self, addresses: impl IntoIterator<Item = A>) -> Self {
        self.join = addresses.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the address on which this site listens for other sites. Default: its address in the list of sites.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().listen("0.0.0.0:7400");
    /// ```
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self
    }

    /// Sets the address at which other sites reach this one. Default: its address in the list of sites, or where it listens.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().listen("0.0.0.0:7400").advertise("db-1.example:7400");
    /// ```
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertise = Some(address.into());
        self
    }

    /// Sets the directory of this site's durable state. It belongs to this site alone, and must never be copied or emptied while the site
    /// exists.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().data("/var/lib/meshlock/db-1");
    /// ```
    pub fn data(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data = Some(dir.into());
        self
    }

    /// Keeps no durable state: fences of two starts within four minutes may be the same. For a cluster of one process, and for tests.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = meshlock::Node::builder().in_memory().start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Serves clients of this machine on this Unix socket ([`Client`](crate::Client), `meshlock run --socket`). Only root and the user that
    /// this program runs as can open it, unless [`socket_mode`](NodeBuilder::socket_mode) says otherwise.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().socket("/run/meshlock/db-1.sock");
    /// ```
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Sets which users of this machine can open the socket, as the permissions of its file: `0o600` (the default) for the user that this
    /// program runs as, `0o660` for its group as well, `0o666` for everyone. No access rule binds root and the program's own user. Every
    /// other user is the principal `uid:` and the user's number, and may do what the rules give it.
    ///
    /// ```
    /// use meshlock::config::{AccessRule, Verb};
    ///
    /// let builder = meshlock::Node::builder()
    ///     .socket("/run/meshlock/node.sock")
    ///     .socket_mode(0o666)
    ///     .access(AccessRule::new("uid:*", "*", [Verb::Acquire, Verb::Watch]));
    /// ```
    pub fn socket_mode(mut self, mode: u32) -> Self {
        self.socket_mode = Some(mode);
        self
    }

    /// Serves clients of other machines at this address ([`Client`](crate::Client), `meshlock run --node`).
    ///
    /// ```
    /// let builder = meshlock::Node::builder().clients("0.0.0.0:7401");
    /// ```
    pub fn clients(mut self, address: impl Into<String>) -> Self {
        self.clients = Some(address.into());
        self
    }

    /// Serves the API for other languages and for clients of etcd and Consul at this address, and the page `/metrics`.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().api("127.0.0.1:7402");
    /// ```
    #[cfg(feature = "api")]
    pub fn api(mut self, address: impl Into<String>) -> Self {
        self.api = Some(address.into());
        self
    }

    /// Sets after how long without a message the session of a client on another machine ends. Default: 5 s.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().session_ttl(std::time::Duration::from_secs(10));
    /// ```
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = Some(ttl);
        self
    }

    /// Sets the length of leases and their other terms.
    ///
    /// ```
    /// use meshlock::config::Lease;
    ///
    /// let builder = meshlock::Node::builder().lease(Lease::of(std::time::Duration::from_secs(10)));
    /// ```
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the rule of locks that no other rule names. It is used at the first start of the cluster; `meshlock rules` changes it later.
    ///
    /// ```
    /// use meshlock::config::Rule;
    ///
    /// let builder = meshlock::Node::builder().default_rule(Rule::new("naimi-trehel"));
    /// ```
    pub fn default_rule(mut self, rule: Rule) -> Self {
        self.default_rule = Some(rule);
        self
    }

    /// Adds a rule for locks of this name, or, with `*` at its end, of names that begin with it.
    ///
    /// ```
    /// use meshlock::config::Rule;
    ///
    /// let builder = meshlock::Node::builder().rule("pool/*", Rule::new("srimani-reddy").permits(3));
    /// ```
    pub fn rule(mut self, pattern: impl Into<String>, rule: Rule) -> Self {
        self.rules.push((pattern.into(), rule));
        self
    }

    /// Sets the limits of clients.
    ///
    /// ```
    /// let mut limits = meshlock::config::Limits::default();
    /// limits.each.rate = 100;
    /// let builder = meshlock::Node::builder().limits(limits);
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits the versions of the wire format that are spoken with other sites, for tests of upgrades.
    #[doc(hidden)]
    pub fn speak_up_to(mut self, version: u16) -> Self {
        self.wire_versions = Some(version);
        self
    }

    /// Checks all settings that can be checked without starting the site.
    ///
    /// ```
    /// let builder = meshlock::Node::builder().sites([("a", "a.example:7400"), ("b", "b.example:7400")]);
    /// let error = builder.site("a").in_memory().check().unwrap_err();
    /// assert_eq!(error.key(), Some("tls")); // neither `tls` nor `plaintext` was set
    /// ```
    pub fn check(&self) -> Result<(), StartError> {
        if !self.join.is_empty() {
            // The other settings are learnt from the cluster.
            self.places_to_join()?;
            return self.newcomer().map(drop);
        }
        self.clone().resolve().map(drop)
    }

    /// Returns the name of this site.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = meshlock::Node::builder().sites([("db-1", "db-1.example:7400")]);
    /// assert_eq!(builder.site_name()?, "db-1");
    /// # Ok(())
    /// # }
    /// ```
    pub fn site_name(&self) -> Result<String, StartError> {
        if self.site.is_none() && !self.join.is_empty() {
            return Err(StartError::setting("site", UNNAMED));
        }
        Ok(self.own_name(&self.parse_sites()?)?.to_string())
    }

    /// Returns all settings as text, for tests.
    #[doc(hidden)]
    pub fn describe(&self) -> Result<String, StartError> {
        let (limits, audit, mode) = (self.limits.clone(), self.audit.target(), self.mode_of_socket());
        let Resolved { config, listen, addresses, clients, session_ttl, .. } = self.clone().resolve()?;
        Ok(format!(
            "{config:?} {listen:?} {addresses:?} {clients:?} {session_ttl:?} {limits:?} {audit:?} {mode:o}"
        ))
    }

    /// Returns the names of the site and of the cluster, after checking all settings.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// assert_eq!(meshlock::Node::builder().names()?, ("local".to_owned(), "meshlock".to_owned()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn names(&self) -> Result<(String, String), StartError> {
        let resolved = self.clone().resolve()?;
        Ok((resolved.config.site.to_string(), resolved.config.cluster.to_string()))
    }

    /// Starts the site. It takes part as soon as it reaches enough other sites; the lock methods wait for that themselves. This blocks: it
    /// opens files and ports, and with [`join`](NodeBuilder::join) it waits up to 30 seconds for an answer (an async program calls it on a
    /// thread where it may block).
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

    /// Starts the site on an open port, or opens the configured one.
    pub(crate) fn start_on(mut self, opened: Option<TcpListener>) -> Result<Node, StartError> {
        let seeds = self.places_to_join()?;
        if !seeds.is_empty() {
            self = match self.remembered()? {
                Some(remembered) => remembered,
                None => join::learn(self, &seeds)?,
            };
        }
        let (speaks, busy_poll) = (self.wire_versions, self.busy_poll.unwrap_or(false));
        let (data, api) = (self.data.clone(), self.api.clone());
        let mode = self.mode_of_socket();
        let socket = self.socket.clone().map(|path| OwnSocket { path, mode });
        let (limits, audit) = (self.limits.clone(), self.audit.target());
        let Resolved { config, listen: at, addresses, security, revoked, clients, session_ttl, policy } =
            self.resolve()?;
        let open = |address: &Address| listen(address.as_str()).map_err(StartError::of_listen);
        let mut setup = NodeSetup::new(config);
        setup.config.seed = fastrand::u64(..);
        setup.config.first_epoch = founding::first_epoch(&setup.config, data.as_deref())?;
        setup.busy_poll = busy_poll;
        setup.listen = match opened {
            Some(listener) => Some(listener),
            None => at.as_ref().map(open).transpose()?,
        };
        (setup.addresses, setup.trust, setup.data) = (addresses, security.into(), data);
        setup.seeds = seeds;
        setup.trust.set_revoked(revoked);
        if let Some(highest) = speaks {
            setup.speaks = meshlock_wire::sites::Versions::up_to(highest);
        }
        let clients = clients.as_ref().map(open).transpose()?;
        let engine = Engine::start(setup).map_err(StartError::of_host)?;
        let audit = AuditLog::open(&audit)
            .map_err(|error| StartError::setting("audit", format!("cannot be opened: {error}")))?;
        let gate = Gate::new(policy, limits.each(), audit).with_buffered_bytes(limits.buffered_bytes);
        let front = Front::new(engine.clone(), Arc::new(gate));
        let served = serve(&front, socket, clients, session_ttl, api, &limits)?;
        Ok(Node::new(engine, front, served))
    }

    /// Returns the site's name and security, which must be known before joining a cluster.
    pub(crate) fn newcomer(&self) -> Result<(SiteName, Security), StartError> {
        let site = self.site.as_deref();
        let site = site.ok_or_else(|| StartError::setting("site", UNNAMED))?;
        let site = site.parse().map_err(|error| StartError::setting("site", error))?;
        let security = self.security(&site, false)?;
        Ok((site, security))
    }

    /// Returns where to look for the cluster that is joined.
    pub(crate) fn places_to_join(&self) -> Result<Vec<JoinPlace>, StartError> {
        let place = |text: &String| text.parse().map_err(|error| StartError::setting("join", error));
        self.join.iter().map(place).collect()
    }

    /// Completes the builder with what this site's directory says, if the site has been a member before: after a power failure there may be
    /// nobody who could be asked. Where its sites are is learnt while it runs.
    fn remembered(&self) -> Result<Option<Self>, StartError> {
        let (site, _) = self.newcomer()?;
        let Some(dir) = self.data.as_ref().filter(|_| !self.in_memory) else { return Ok(None) };
        let found = founding_in(dir, &site).map_err(|error| StartError::of_host(error.into()))?;
        let Some((cluster, voters)) = found else { return Ok(None) };
        let voters = voters.iter().map(|voter| (voter.to_string(), None)).collect();
        let remembered = self.clone().learnt(cluster.to_string(), voters)?;
        // Where this site is may be something that only the others know.
        Ok(remembered.clone().resolve().is_ok().then_some(remembered))
    }

    /// Adds what was learnt about the cluster that is joined.
    pub(crate) fn learnt(
        mut self,
        cluster: String,
        sites: Vec<(String, Option<String>)>,
    ) -> Result<Self, StartError> {
        if self.cluster.as_ref().is_some_and(|said| *said != cluster) {
            let why = format!("the site that is joined is of the cluster '{cluster}'; compare the two");
            return Err(StartError::setting("cluster", why));
        }
        self.cluster = Some(cluster);
        self.founders = sites.iter().map(|(name, _)| name.clone()).collect();
        // The addresses of the other sites come with the view.
        self.sites = sites.into_iter().filter_map(|(name, address)| Some((name, address?))).collect();
        Ok(self)
    }
}

//! The values that [`NodeBuilder`](crate::NodeBuilder) takes.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use meshlock_cluster::access::{Access, KnownToken, Pace, RuleText, Tokens, Verb as AccessVerb};
use meshlock_cluster::lease::Terms;
use meshlock_cluster::node::Voting;
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::time::{Drift, Span};
use meshlock_host::gate::{Each, Policy};
use meshlock_tls::Revoked;

use crate::error::{StartError, client_name};

/// The terms of leases. They must be the same at all sites: a cluster keeps the terms of its first view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The length of a lease. What a site held that is cut off becomes free for others a little later than this. Default: 5 s.
    pub length: Option<Duration>,
    /// How long before the end of a lease clients are told to stop. Default: 500 ms.
    pub margin: Option<Duration>,
    /// How often a lease is renewed. Default: 1 s.
    pub renew_every: Option<Duration>,
    /// By how many millionths one machine's clock may run faster than another's. Default: 1000.
    pub drift_ppm: Option<u32>,
}

impl Lease {
    /// Sets the length, and leaves the other terms at their defaults.
    ///
    /// ```
    /// let lease = meshlock::config::Lease::of(std::time::Duration::from_secs(10));
    /// ```
    pub fn of(length: Duration) -> Self {
        Lease { length: Some(length), ..Lease::default() }
    }

    pub(crate) fn apply(&self, terms: &mut Terms) {
        terms.length = self.length.map_or(terms.length, span);
        terms.margin = self.margin.map_or(terms.margin, span);
        terms.renew_every = self.renew_every.map_or(terms.renew_every, span);
        terms.drift = self.drift_ppm.map_or(terms.drift, Drift::from_ppm);
    }
}

/// Who changes the voters of a cluster: the sites that agree on its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Voters {
    /// Only operators.
    Fixed,
    /// The leader: it keeps as many voters as the number of members allows, 1, 3, 5 or 7, gives a site that has lost its disk its vote
    /// back, and lets a member take the place of a voter that is gone for long. It never makes them fewer by itself.
    #[default]
    Auto,
}

/// Which sites may join a cluster that has no access document yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Every site that shows a certificate of the cluster's authority, until an operator says which sites may join.
    #[default]
    Open,
    /// Only the sites with which the cluster is founded, and those that an operator adds (`meshlock site add`).
    Closed,
}

/// Default time for which a site must have been a member before it becomes a voter, and a leader must have led before it changes the voters.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Default time after which a voter that is gone is replaced: longer than a machine takes to restart or to be upgraded.
const REPLACE_AFTER: Duration = Duration::from_mins(10);

impl Voters {
    /// Returns the setting of the node.
    pub(crate) fn voting(self, replace_after: Option<Duration>, promote_after: Option<Duration>) -> Voting {
        match self {
            Voters::Fixed => Voting::Fixed,
            Voters::Auto => {
                let replace_after = span(replace_after.unwrap_or(REPLACE_AFTER));
                let stable_after = span(promote_after.unwrap_or(STABLE_AFTER));
                Voting::Auto { replace_after, stable_after }
            }
        }
    }
}

/// Which algorithm grants a lock, and how many clients may hold it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The algorithm with its options, such as `naimi-trehel` or `maekawa:quorums=grid`. `meshlock algorithms` lists all of them.
    pub algorithm: String,
    /// Number of clients that may hold a lock at once.
    pub permits: u32,
    /// Number of permits that one site may hold; `None` for all of them.
    pub per_site: Option<u32>,
}

impl Rule {
    /// Creates a rule with this algorithm and one permit.
    ///
    /// ```
    /// let rule = meshlock::config::Rule::new("bulgannawar-vaidya").permits(3);
    /// ```
    pub fn new(algorithm: impl Into<String>) -> Self {
        Rule { algorithm: algorithm.into(), permits: 1, per_site: None }
    }

    /// Sets the number of permits.
    ///
    /// ```
    /// let rule = meshlock::config::Rule::new("srimani-reddy").permits(3);
    /// assert_eq!(rule.permits, 3);
    /// ```
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }

    /// Sets the number of permits that one site may hold.
    ///
    /// ```
    /// let rule = meshlock::config::Rule::new("srimani-reddy").permits(3).per_site(1);
    /// assert_eq!(rule.per_site, Some(1));
    /// ```
    #[must_use]
    pub fn per_site(mut self, per_site: u32) -> Self {
        self.per_site = Some(per_site);
        self
    }

    fn clause(self) -> Clause {
        let per_site = self.per_site.unwrap_or(self.permits);
        Clause { algorithm: self.algorithm, permits: self.permits, per_site }
    }
}

pub(crate) fn rules(default: Option<Rule>, named: Vec<(String, Rule)>) -> RulesText {
    RulesText {
        default: default.map_or_else(|| RulesText::default().default, Rule::clause),
        rules: named.into_iter().map(|(pattern, rule)| (pattern, rule.clause())).collect(),
    }
}

/// A right that an access rule gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Acquire a lock.
    Acquire,
    /// See who holds a lock and who waits for it.
    Watch,
    /// Take a lock away from its holders.
    Break,
    /// Change the cluster: its rules and its members. It does not concern single locks.
    Admin,
}

/// Who may do what over `clients` and the API. Rules only give rights; everything else is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessRule {
    /// The name of a certificate or a token, the beginning of names followed by `*`, or `*` for all names; `local` for programs of this
    /// machine without either; `anyone` for programs of other machines without either.
    pub principal: String,
    /// A lock's name, the beginning of names followed by `*`, or `*` for all locks.
    pub locks: String,
    /// What they may do with them.
    pub verbs: Vec<Verb>,
}

impl AccessRule {
    /// Gives these principals these rights on these locks.
    ///
    /// ```
    /// use meshlock::config::{AccessRule, Verb};
    /// let rule = AccessRule::new("ci-*", "deploy/*", [Verb::Acquire, Verb::Watch]);
    /// ```
    pub fn new(
        principal: impl Into<String>,
        locks: impl Into<String>,
        verbs: impl IntoIterator<Item = Verb>,
    ) -> Self {
        AccessRule { principal: principal.into(), locks: locks.into(), verbs: verbs.into_iter().collect() }
    }
}

/// A token of a client, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessToken {
    /// The name of the client that shows it.
    pub name: String,
    /// The token's SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// When the token ends: from then on it is refused. `None` if it does not end.
    pub expires: Option<SystemTime>,
}

impl AccessToken {
    /// Creates the entry of a token with this hash, which belongs to `name`. `meshlock token new NAME` generates a token.
    ///
    /// ```
    /// let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// let token = meshlock::config::AccessToken::new("ci-1", hash);
    /// ```
    pub fn new(name: impl Into<String>, sha256: impl Into<String>) -> Self {
        AccessToken { name: name.into(), sha256: sha256.into(), expires: None }
    }

    /// Sets when the token ends.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// let token = meshlock::config::AccessToken::new("ci-1", hash)
    ///     .expires(SystemTime::now() + Duration::from_secs(90 * 24 * 3600));
    /// ```
    #[must_use]
    pub fn expires(mut self, at: SystemTime) -> Self {
        self.expires = Some(at);
        self
    }
}

pub(crate) fn policy(access: &[AccessRule], tokens: &[AccessToken]) -> Result<Policy, StartError> {
    let verb = |verb: &Verb| match verb {
        Verb::Acquire => AccessVerb::Acquire,
        Verb::Watch => AccessVerb::Watch,
        Verb::Break => AccessVerb::Break,
        Verb::Admin => AccessVerb::Admin,
    };
    let text = |rule: &AccessRule| RuleText {
        principal: rule.principal.clone(),
        locks: rule.locks.clone(),
        verbs: rule.verbs.iter().map(verb).collect(),
    };
    let texts: Vec<RuleText> = access.iter().map(text).collect();
    let access = Access::new(&texts)
        .map_err(|(at, error)| StartError::setting(format!("access[{}]", at + 1), error))?;
    let mut known = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let key = |field: &str| format!("tokens[{}].{field}", at + 1);
        let hash = token.sha256.parse().map_err(|error| StartError::setting(key("sha256"), error))?;
        // Whatever ends before 1970 is over.
        let since = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let (name, expires) = (client_name(&key("name"), &token.name)?, token.expires.map(since));
        known.push(KnownToken { name, hash, expires });
    }
    let tokens = Tokens::new(known)
        .map_err(|(at, error)| StartError::setting(format!("tokens[{}]", at + 1), error))?;
    Ok(Policy { access, tokens })
}

pub(crate) fn revoked(entries: &[String]) -> Result<Revoked, StartError> {
    Revoked::new(entries)
        .map_err(|(at, error)| StartError::setting("revoked", format!("entry {}: {error}", at + 1)))
}

/// Where the audit log goes: who was granted, denied or took away which lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audit {
    /// The log, without grants and ends of sessions.
    #[default]
    Notable,
    /// The log, with all events.
    Log,
    /// This file, as one JSON object per line.
    File(PathBuf),
}

/// Limits of all clients of a site together.
///
/// ```
/// let mut limits = meshlock::config::Limits::default();
/// limits.sessions = 100;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of connections to the API.
    pub connections: usize,
    /// Maximum number of sessions of the API.
    pub sessions: usize,
    /// Maximum number of locks that clients of the API hold or wait for.
    pub locks: usize,
    /// Maximum number of clients of the API that wait for one lock.
    pub waiters: usize,
    /// Maximum number of locks whose holders clients of the API watch.
    pub watched_locks: usize,
    /// Maximum size of a request to the API, in bytes.
    pub request_bytes: usize,
    /// How long a client of the API may leave sent data unread before it is disconnected.
    pub slow_reader: Duration,
    /// Maximum number of bytes that the site keeps for clients, of the API and over `clients`: requests that have not arrived whole, and
    /// answers that were not read.
    pub buffered_bytes: usize,
    /// Limits of each single client.
    pub each: LimitsOfEach,
}

/// Limits of one client, which is one principal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitsOfEach {
    /// Maximum number of connections, to the API and over `clients`.
    pub connections: usize,
    /// Maximum number of sessions of the API.
    pub sessions: usize,
    /// Maximum number of locks that it holds or waits for, over the API and over `clients`.
    pub locks: usize,
    /// Maximum number of its requests that wait for one lock, over the API and over `clients`.
    pub waiters: usize,
    /// Maximum number of locks whose holders it watches over the API.
    pub watched_locks: usize,
    /// Maximum number of its open watches, over the API and over `clients`.
    pub watches: usize,
    /// Maximum number of bytes that the site keeps for it.
    pub buffered_bytes: usize,
    /// Maximum number of requests per second, to the API and over `clients`.
    pub rate: u32,
    /// Maximum number of requests at once after a pause.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let each = Each::default();
        Limits {
            connections: 4096,
            sessions: 10_000,
            locks: 50_000,
            waiters: 1000,
            watched_locks: 64,
            request_bytes: 64 << 10,
            slow_reader: Duration::from_secs(30),
            buffered_bytes: 256 << 20,
            each: LimitsOfEach {
                connections: each.connections,
                sessions: 5000,
                locks: each.locks,
                waiters: each.waiters,
                watched_locks: 32,
                watches: each.watches,
                buffered_bytes: each.buffered_bytes,
                rate: each.pace.rate,
                burst: each.pace.burst,
            },
        }
    }
}

impl Limits {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let LimitsOfEach {
            connections,
            sessions,
            locks,
            waiters,
            watched_locks,
            watches,
            buffered_bytes,
            rate,
            burst,
        } = self.each;
        let counts = [
            ("connections", self.connections),
            ("sessions", self.sessions),
            ("locks", self.locks),
            ("waiters", self.waiters),
            ("watched_locks", self.watched_locks),
            ("request_bytes", self.request_bytes),
            ("buffered_bytes", self.buffered_bytes),
            ("each.connections", connections),
            ("each.sessions", sessions),
            ("each.locks", locks),
            ("each.waiters", waiters),
            ("each.watched_locks", watched_locks),
            ("each.watches", watches),
            ("each.buffered_bytes", buffered_bytes),
            ("each.rate", rate as usize),
            ("each.burst", burst as usize),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(StartError::setting(format!("limits.{key}"), "give 1 or more"));
        }
        if self.slow_reader.is_zero() {
            return Err(StartError::setting("limits.slow_reader", "give a positive duration, such as '1s'"));
        }
        Ok(())
    }

    /// Returns the limits that all APIs share.
    pub(crate) fn each(&self) -> Each {
        let LimitsOfEach { connections, locks, waiters, watches, buffered_bytes, rate, burst, .. } =
            self.each;
        Each { connections, locks, waiters, watches, buffered_bytes, pace: Pace { rate, burst } }
    }

    /// Returns the limits of the API.
    #[cfg(feature = "api")]
    pub(crate) fn of_api(&self) -> meshlock_service::ApiLimits {
        let LimitsOfEach { sessions, locks, waiters, watched_locks, .. } = self.each;
        meshlock_service::ApiLimits {
            connections: self.connections,
            sessions: self.sessions,
            keys: self.locks,
            waiters_of_a_lock: self.waiters,
            watched_locks: self.watched_locks,
            request_bytes: self.request_bytes,
            slow_reader: self.slow_reader,
            each: meshlock_service::PrincipalLimits {
                sessions,
                keys: locks,
                waiters_of_a_lock: waiters,
                watched_locks,
            },
        }
    }
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

//! What a node can be told: the values that [`NodeBuilder`](crate::NodeBuilder) takes.

use std::path::PathBuf;
use std::time::Duration;

use meshlock_cluster::access::{Access, Pace, RuleText, Tokens, Verb as AccessVerb};
use meshlock_cluster::lease::Terms;
use meshlock_cluster::rules::{Clause, RulesText};
use meshlock_cluster::time::{Drift, Span};
use meshlock_host::gate::{AuditTarget, Each, Policy};

use crate::error::{StartError, client_name};

/// How long leases are. The same at all sites: the cluster goes by those of its first view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// How long a lease is: what a site held that is cut off is free for others after this long and a little more. Default: 5 s.
    pub length: Option<Duration>,
    /// How long before its end clients are told to stop. Default: 500 ms.
    pub margin: Option<Duration>,
    /// How often it is renewed. Default: 1 s.
    pub renew_every: Option<Duration>,
    /// By how many millionths one machine's clock may run faster than another's. Default: 1000.
    pub drift_ppm: Option<u32>,
}

impl Lease {
    /// A lease of this length, and the rest by default.
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

/// Which algorithm locks run, and how many may hold one at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The algorithm, with its options: `naimi-trehel`, `maekawa:quorums=grid`. `meshlock algorithms` lists what there is.
    pub algorithm: String,
    /// How many may hold a lock at once.
    pub permits: u32,
    /// How many of these at one site; none for all of them.
    pub per_site: Option<u32>,
}

impl Rule {
    /// One permit, by this algorithm.
    ///
    /// ```
    /// let rule = meshlock::config::Rule::new("bulgannawar-vaidya").permits(3);
    /// ```
    pub fn new(algorithm: impl Into<String>) -> Self {
        Rule { algorithm: algorithm.into(), permits: 1, per_site: None }
    }

    /// So many permits.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }

    /// So many of them at one site.
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

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Have a lock.
    Acquire,
    /// See who holds a lock and who waits for it.
    Watch,
    /// Take a lock away from its holders.
    Break,
    /// Change the cluster: its rules and who takes part. It is about no single lock.
    Admin,
}

/// Who may do what over `clients` and the API. Rules only give; what none gives is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessRule {
    /// The name of a certificate or of a token, the beginning of names and `*`, `*` for all that have one; `local` for programs of
    /// this machine without either; `anyone` for whoever comes from elsewhere and shows nothing.
    pub principal: String,
    /// A lock's name, the beginning of names and `*`, or `*` for all.
    pub locks: String,
    /// What they may do with them.
    pub verbs: Vec<Verb>,
}

impl AccessRule {
    /// These principals may do these things with these locks.
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

/// A token that a client shows, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// The name of whoever shows it.
    pub name: String,
    /// The token's SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl Token {
    /// The token with this hash belongs to `name`. `meshlock token new NAME` makes one.
    ///
    /// ```
    /// let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    /// let token = meshlock::config::Token::new("ci-1", hash);
    /// ```
    pub fn new(name: impl Into<String>, sha256: impl Into<String>) -> Self {
        Token { name: name.into(), sha256: sha256.into() }
    }
}

pub(crate) fn policy(access: &[AccessRule], tokens: &[Token]) -> Result<Policy, StartError> {
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
        known.push((client_name(&key("name"), &token.name)?, hash));
    }
    let tokens = Tokens::new(known)
        .map_err(|(at, error)| StartError::setting(format!("tokens[{}]", at + 1), error))?;
    Ok(Policy { access, tokens })
}

/// Where it is written down who was granted, denied or took what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audit {
    /// In the log, without grants and ends of sessions.
    #[default]
    Notable,
    /// In the log.
    Log,
    /// In this file, a JSON object a line.
    File(PathBuf),
}

impl Audit {
    pub(crate) fn target(self) -> AuditTarget {
        match self {
            Audit::Notable => AuditTarget::Notable,
            Audit::Log => AuditTarget::Log,
            Audit::File(path) => AuditTarget::File(path),
        }
    }
}

/// How much clients may have of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections to the API.
    pub connections: usize,
    /// Sessions of the API.
    pub sessions: usize,
    /// Locks that clients of the API hold or wait for.
    pub locks: usize,
    /// How many clients of the API may wait for one lock.
    pub waiters: usize,
    /// Locks whose holders clients of the API watch.
    pub watched_locks: usize,
    /// Bytes of one request to the API.
    pub request_bytes: usize,
    /// How long a client of the API may leave unread what it is sent, before it is cut off.
    pub slow_reader: Duration,
    /// How much of it one client may have.
    pub each: LimitsOfEach,
}

/// How much one client may have: one principal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitsOfEach {
    /// Connections, to the API and over `clients`.
    pub connections: usize,
    /// Sessions of the API.
    pub sessions: usize,
    /// Locks that it holds or waits for over the API.
    pub locks: usize,
    /// How often it may wait for one lock over the API.
    pub waiters: usize,
    /// Locks whose holders it watches over the API.
    pub watched_locks: usize,
    /// Requests a second, to the API and over `clients`.
    pub rate: u32,
    /// Requests at once after a pause.
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
            each: LimitsOfEach {
                connections: each.connections,
                sessions: 5000,
                locks: 25_000,
                waiters: 500,
                watched_locks: 32,
                rate: each.pace.rate,
                burst: each.pace.burst,
            },
        }
    }
}

impl Limits {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let LimitsOfEach { connections, sessions, locks, waiters, watched_locks, rate, burst } = self.each;
        let counts = [
            ("connections", self.connections),
            ("sessions", self.sessions),
            ("locks", self.locks),
            ("waiters", self.waiters),
            ("watched_locks", self.watched_locks),
            ("request_bytes", self.request_bytes),
            ("each.connections", connections),
            ("each.sessions", sessions),
            ("each.locks", locks),
            ("each.waiters", waiters),
            ("each.watched_locks", watched_locks),
            ("each.rate", rate as usize),
            ("each.burst", burst as usize),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(StartError::setting(format!("limits.{key}"), "give 1 or more"));
        }
        if self.slow_reader.is_zero() {
            return Err(StartError::setting("limits.slow_reader", "give a moment at least, such as '1s'"));
        }
        Ok(())
    }

    /// What all doors count.
    pub(crate) fn each(&self) -> Each {
        let LimitsOfEach { connections, rate, burst, .. } = self.each;
        Each { connections, pace: Pace { rate, burst } }
    }

    /// What the API counts.
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

//! Access control for every API of a node. The rules themselves are in [`access`](meshlock_cluster::access); the [`Gate`] keeps and
//! replaces them, limits the rate and the connections of each caller, and writes the audit log.

mod audit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub(crate) use audit::AuditEvent;
pub use audit::{Audit, AuditTarget};
use meshlock_cluster::access::{Access, Bucket, Denied, Pace, Principal, Subject, Tokens, Verb};
use meshlock_cluster::names::LockName;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use ring::rand::{SecureRandom, SystemRandom};

/// Number of principals to remember before idle ones are forgotten.
const MAX_PRINCIPALS: usize = 1024;

/// Minimum interval between audit lines about a principal that exceeds its rate limit.
const COMPLAIN_EVERY: Span = Span::from_millis(1000);

/// Number of requests that a denied request counts as, so that a client that is denied again and again does not fill the log.
const COST_OF_DENIAL: u32 = 20;

/// Kinds of requests with separate rate limits, so that a flood of one kind does not stop the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Any request but those below.
    Ask,
    /// Keeping a session or a lease.
    Renew,
    /// Giving something back: releasing a lock, no longer waiting for one, ending a session. It counts like any request, but it is never
    /// refused: a lock that cannot be released keeps others waiting who have done nothing wrong. A client that gives back more than it may
    /// ask for is refused what it asks for next.
    GiveBack,
}

/// The rules and tokens of a site.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub access: Access,
    pub tokens: Tokens,
}

/// Limits of one principal, over all APIs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Each {
    /// Maximum number of connections over a network.
    pub connections: usize,
    pub pace: Pace,
}

impl Default for Each {
    fn default() -> Self {
        Each { connections: 2048, pace: Pace { rate: 5000, burst: 10_000 } }
    }
}

/// How a request reached the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerOrigin {
    /// The node's Unix socket, opened by a process of this user. No rule restricts root and the user who runs the node, who could change
    /// the rules; every other user is a [principal](Principal::User) of its own.
    Socket { user: u32 },
    /// The node's own process, which no rule restricts either.
    Process,
    /// A network, including the loopback network of this machine.
    Network(SocketAddr),
}

impl fmt::Display for CallerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallerOrigin::Socket { user } => write!(f, "socket, user {user}"),
            CallerOrigin::Process => f.write_str("process"),
            CallerOrigin::Network(address) => address.fmt(f),
        }
    }
}

/// Identifies a request in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u64);

impl RequestId {
    /// Draws a random identifier.
    pub fn new() -> Self {
        RequestId(fastrand::u64(..))
    }

    /// Returns the identifier as a number, which also serves as the cause of an acquisition.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl Default for RequestId {
    fn default() -> Self {
        RequestId::new()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    pub origin: CallerOrigin,
    /// Identifies the request, or the connection if it carries many requests.
    pub request: RequestId,
}

impl Caller {
    /// Whether rules and limits apply to this caller.
    fn is_bound_by_rules(&self) -> bool {
        match self.origin {
            CallerOrigin::Network(_) => true,
            CallerOrigin::Socket { .. } => self.principal != Principal::Local,
            CallerOrigin::Process => false,
        }
    }
}

/// A principal exceeds its rate limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{principal}' sends more than {rate} requests a second, the limit of one client here; ask again in {} ms", .wait.micros().div_ceil(1000))]
pub struct TooFast {
    pub principal: Principal,
    /// Allowed requests per second.
    pub rate: u32,
    /// Time until its next request is allowed.
    pub wait: Span,
}

/// A principal has too many connections.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{principal}' has {most} connections, the limit of one client here; close some, or send more over each"
)]
pub struct TooManyConnections {
    pub principal: Principal,
    pub most: usize,
}

/// The access rules, limits and audit log of a site, which every API consults.
#[derive(Debug, Default)]
pub struct Gate {
    policy: RwLock<Arc<Policy>>,
    each: Each,
    usage: Mutex<BTreeMap<Principal, PrincipalUsage>>,
    audit: Audit,
}

/// What one principal uses of its limits.
#[derive(Clone, Copy, Debug)]
struct PrincipalUsage {
    connections: usize,
    asks: Bucket,
    renewals: Bucket,
    /// When the audit log last noted that it exceeds its rate limit.
    complained: Option<Time>,
}

/// A counted connection. It is counted until this is dropped.
#[derive(Debug)]
pub struct Connected {
    gate: Arc<Gate>,
    principal: Principal,
}

impl Connected {
    /// Returns the principal whose connection this is.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(used) = self.gate.usage().get_mut(&self.principal) {
            used.connections = used.connections.saturating_sub(1);
        }
    }
}

impl Gate {
    /// Creates a gate with these rules, limits and audit log.
    pub fn new(policy: Policy, each: Each, audit: Audit) -> Self {
        Gate { policy: RwLock::new(Arc::new(policy)), each, usage: Mutex::default(), audit }
    }

    /// Replaces the rules and tokens. Locks that were granted before are kept.
    pub fn replace(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Returns the current rules and tokens.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the audit log.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Checks whether the caller may use `verb` on this lock. A denial is written to the audit log.
    pub(crate) fn check(&self, caller: &Caller, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.check_subject(caller, verb, Subject::Lock(lock))
    }

    /// Checks whether the caller may use `verb` on any subject. A denial is written to the audit log.
    pub(crate) fn check_subject(
        &self,
        caller: &Caller,
        verb: Verb,
        subject: Subject<'_>,
    ) -> Result<(), Denied> {
        let checked = self.may(caller, verb, subject);
        if let Err(denied) = &checked {
            self.charge(&caller.principal);
            self.audit.note(caller, denied.lock.as_ref(), AuditEvent::Denied { verb });
        }
        checked
    }

    /// Returns whether the caller may use `verb` on any subject. Nothing is audited.
    pub(crate) fn may(&self, caller: &Caller, verb: Verb, subject: Subject<'_>) -> Result<(), Denied> {
        if caller.is_bound_by_rules() {
            self.policy().access.check(&caller.principal, verb, subject)
        } else {
            Ok(())
        }
    }

    /// Writes to the audit log that a caller could not be identified.
    pub(crate) fn note_unknown(&self, caller: &Caller) {
        self.charge(&caller.principal);
        self.audit.note(caller, None, AuditEvent::Unknown);
    }

    /// Charges a denied request: it costs more than one that was served.
    fn charge(&self, principal: &Principal) {
        let mut usage = self.usage();
        usage_of(&mut usage, principal, self.each.pace, now()).asks.spend(COST_OF_DENIAL - 1);
    }

    /// Counts a request against the caller's rate limit; returns an error if the limit is exceeded.
    pub(crate) fn pace(&self, caller: &Caller, kind: RequestKind) -> Result<(), TooFast> {
        if !caller.is_bound_by_rules() {
            return Ok(());
        }
        let (now, pace) = (now(), self.each.pace);
        let mut usage = self.usage();
        let used = usage_of(&mut usage, &caller.principal, pace, now);
        let taken = match kind {
            RequestKind::Ask => used.asks.take(pace, now),
            RequestKind::Renew => used.renewals.take(pace, now),
            RequestKind::GiveBack => {
                let _ = used.asks.take(pace, now);
                Ok(())
            }
        };
        let Err(wait) = taken else { return Ok(()) };
        let is_news = used.complained.is_none_or(|last| last + COMPLAIN_EVERY <= now);
        if is_news {
            used.complained = Some(now);
        }
        drop(usage);
        let error = TooFast { principal: caller.principal.clone(), rate: pace.rate, wait };
        if is_news {
            self.audit.note(caller, None, AuditEvent::Limited { why: error.to_string() });
        }
        Err(error)
    }

    /// Counts a connection, until what is returned is dropped.
    pub(crate) fn connect(self: &Arc<Self>, principal: &Principal) -> Result<Connected, TooManyConnections> {
        let (now, most) = (now(), self.each.connections);
        let mut usage = self.usage();
        let used = usage_of(&mut usage, principal, self.each.pace, now);
        if used.connections >= most {
            return Err(TooManyConnections { principal: principal.clone(), most });
        }
        used.connections += 1;
        Ok(Connected { gate: self.clone(), principal: principal.clone() })
    }

    fn usage(&self) -> MutexGuard<'_, BTreeMap<Principal, PrincipalUsage>> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the usage of a principal. If many principals are remembered, idle ones are forgotten first.
fn usage_of<'a>(
    usage: &'a mut BTreeMap<Principal, PrincipalUsage>,
    principal: &Principal,
    pace: Pace,
    now: Time,
) -> &'a mut PrincipalUsage {
    if usage.len() >= MAX_PRINCIPALS && !usage.contains_key(principal) {
        let is_quiet = |used: &PrincipalUsage| {
            used.connections == 0 && [used.asks, used.renewals].iter().all(|of| of.is_full(pace, now))
        };
        usage.retain(|_, used| !is_quiet(used));
    }
    let full = Bucket::full(pace, now);
    let fresh = || PrincipalUsage { connections: 0, asks: full, renewals: full, complained: None };
    usage.entry(principal.clone()).or_insert_with(fresh)
}

/// Creates a token that cannot be guessed.
pub fn new_token() -> Result<String, std::io::Error> {
    let (first, second) = (u128::from_be_bytes(unguessable()?), u128::from_be_bytes(unguessable()?));
    Ok(format!("meshlock_{first:032x}{second:032x}"))
}

/// Returns bytes that nobody can guess: the system's random numbers.
pub fn unguessable<const N: usize>() -> Result<[u8; N], std::io::Error> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| std::io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}

//! Access control for every API of a node. The rules themselves are in [`access`](meshlock_cluster::access); the [`Gate`] keeps and
//! replaces them, limits the rate and the connections of each caller, and writes the audit log.

mod audit;
mod buffered;
#[cfg(test)]
mod tests;
mod usage;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub(crate) use audit::AuditEvent;
pub use audit::{Audit, AuditFile, AuditTarget, Unaudited, WhenUnwritable};
pub use buffered::Buffered;
use buffered::BufferedTotal;
use meshlock_cluster::access::{
    Access, AccessDocument, AgreedToken, Denied, Principal, Subject, Tokens, Verb,
};
use meshlock_cluster::names::LockName;
use meshlock_cluster::rules::Pattern;
use meshlock_cluster::time::Span;
use meshlock_system::now;
use meshlock_tls::Serial;
use ring::rand::{SecureRandom, SystemRandom};
pub(crate) use usage::LockUse;
pub use usage::{Each, TooMany, WatchUse};
use usage::{Payer, Usage};

/// Minimum interval between audit lines about a principal that exceeds its rate limit.
const COMPLAIN_EVERY: Span = Span::from_millis(1000);

/// Number of requests that a denied request counts as, so that a client that is denied again and again does not fill the log.
const COST_OF_DENIAL: u32 = 20;

/// Kinds of requests with separate rate limits, so that a flood of one kind does not stop the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Any request but those below.
    Ask,
    /// Asking whether the site is alive or ready, which needs no right. A flood of other requests without credentials does not make a site look
    /// dead.
    Probe,
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

/// What applies: the site's own rules, tokens and limits, and those that the cluster has agreed on.
#[derive(Clone, Debug, Default)]
struct Effective {
    policy: Arc<Policy>,
    each: Each,
}

/// Both parts of what applies.
#[derive(Debug, Default)]
struct Parts {
    own: Policy,
    own_each: Each,
    agreed: AccessDocument,
}

impl Parts {
    /// Joins the two. Rules only grant, so that both grant what either grants; of limits the cluster's replace the site's.
    fn effective(&self) -> Effective {
        // The document was checked before it was agreed on; a program that cannot read all of it grants less.
        let access = Access::new(&self.agreed.rules).unwrap_or_default();
        let tokens =
            Tokens::new(self.agreed.tokens.iter().map(AgreedToken::known).collect()).unwrap_or_default();
        let Policy { access: own_access, tokens: own_tokens } = self.own.clone();
        let policy = Policy { access: own_access.joined(access), tokens: own_tokens.joined(tokens) };
        let (limits, mut each) = (&self.agreed.limits, self.own_each);
        let replace = |limit: &mut usize, agreed: Option<u32>| {
            if let Some(agreed) = agreed {
                *limit = usize::try_from(agreed).unwrap_or(usize::MAX);
            }
        };
        replace(&mut each.connections, limits.connections);
        replace(&mut each.locks, limits.locks);
        replace(&mut each.waiters, limits.waiters);
        replace(&mut each.watches, limits.watches);
        each.pace.rate = limits.rate.unwrap_or(each.pace.rate);
        each.pace.burst = limits.burst.unwrap_or(each.pace.burst);
        Effective { policy: Arc::new(policy), each }
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

    /// Returns the identifier of a request that another site has forwarded, so that both name it alike.
    pub fn of(number: u64) -> Self {
        RequestId(number)
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
    /// The certificate that proves who it is; `None` if something else does, such as a token.
    pub certificate: Option<Serial>,
    /// Identifies the request, or the connection if it carries many requests.
    pub request: RequestId,
}

impl Caller {
    /// Whether rules and limits apply to this caller.
    pub(crate) fn is_bound_by_rules(&self) -> bool {
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
    effective: RwLock<Effective>,
    /// Locked before [`effective`](Self::effective) is replaced.
    parts: Mutex<Parts>,
    usage: Mutex<Usage>,
    buffered: Arc<BufferedTotal>,
    audit: Audit,
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
        if let Some(used) = self.gate.usage().known(&self.principal) {
            used.connections = used.connections.saturating_sub(1);
        }
    }
}

impl Gate {
    /// Creates a gate with these rules, limits and audit log.
    pub fn new(policy: Policy, each: Each, audit: Audit) -> Self {
        let parts = Parts { own: policy, own_each: each, agreed: AccessDocument::default() };
        let effective = RwLock::new(parts.effective());
        let (parts, usage, buffered) = (Mutex::new(parts), Mutex::default(), Arc::default());
        Gate { effective, parts, usage, buffered, audit }
    }

    /// Sets how many bytes the site may keep for all of its clients.
    #[must_use]
    pub fn with_buffered_bytes(mut self, max: usize) -> Self {
        self.buffered = Arc::new(BufferedTotal { max, ..BufferedTotal::default() });
        self
    }

    /// Returns the number of bytes that the site keeps for all of its clients.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered.bytes.load(Ordering::Relaxed)
    }

    /// Replaces the site's own rules and tokens. Locks that were granted before are kept.
    pub fn replace(&self, policy: Policy) {
        self.change(|parts| parts.own = policy);
    }

    /// Replaces the rules, tokens and limits that the cluster has agreed on. Locks that were granted before are kept.
    pub(crate) fn replace_agreed(&self, document: AccessDocument) {
        self.change(|parts| parts.agreed = document);
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut parts);
        *self.effective.write().unwrap_or_else(PoisonError::into_inner) = parts.effective();
    }

    /// Returns the current rules and tokens: the site's own, and those of the cluster.
    pub fn policy(&self) -> Arc<Policy> {
        self.effective.read().unwrap_or_else(PoisonError::into_inner).policy.clone()
    }

    /// Returns the limits of each client.
    fn each(&self) -> Each {
        self.effective.read().unwrap_or_else(PoisonError::into_inner).each
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
            self.charge(caller);
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

    /// Returns the patterns of the locks with which the caller may use `verb`; `None` if it may with all. It is denied if there are none.
    pub(crate) fn patterns(&self, caller: &Caller, verb: Verb) -> Result<Option<Vec<Pattern>>, Denied> {
        if !caller.is_bound_by_rules() {
            return Ok(None);
        }
        self.check_subject(caller, verb, Subject::Some)?;
        Ok(self.policy().access.patterns(&caller.principal, verb))
    }

    /// Writes to the audit log that a caller could not be identified.
    pub(crate) fn note_unknown(&self, caller: &Caller) {
        self.charge(caller);
        self.audit.note(caller, None, AuditEvent::Unknown);
    }

    /// Charges a denied request: it costs more than one that was served.
    fn charge(&self, caller: &Caller) {
        let mut usage = self.usage();
        let used = usage.of(Payer::of(caller), self.each().pace, now());
        used.bucket(RequestKind::Ask).spend(COST_OF_DENIAL - 1);
    }

    /// Counts a request against the caller's rate limit; returns an error if the limit is exceeded.
    pub(crate) fn pace(&self, caller: &Caller, kind: RequestKind) -> Result<(), TooFast> {
        if !caller.is_bound_by_rules() {
            return Ok(());
        }
        let (now, pace) = (now(), self.each().pace);
        let mut usage = self.usage();
        let used = usage.of(Payer::of(caller), pace, now);
        let taken = used.bucket(kind).take(pace, now);
        let taken = if kind == RequestKind::GiveBack { Ok(()) } else { taken };
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
        let (now, most) = (now(), self.each().connections);
        let mut usage = self.usage();
        let used = usage.of(Payer::Principal(principal.clone()), self.each().pace, now);
        if used.connections >= most {
            return Err(TooManyConnections { principal: principal.clone(), most });
        }
        used.connections += 1;
        Ok(Connected { gate: self.clone(), principal: principal.clone() })
    }

    /// Counts a lock that the caller asks for; `None` if no limit applies to it.
    pub(crate) fn use_lock(
        self: &Arc<Self>,
        caller: &Caller,
        lock: &LockName,
    ) -> Result<Option<LockUse>, TooMany> {
        if !caller.is_bound_by_rules() {
            return Ok(None);
        }
        let (of, Each { locks, waiters, pace, .. }) = (&caller.principal, self.each());
        let mut usage = self.usage();
        let used = usage.of(Payer::Principal(of.clone()), pace, now());
        if used.locks >= locks {
            return Err(TooMany::Locks { of: of.clone(), max: locks });
        }
        let waiting = used.waiters.get(lock).copied().unwrap_or(0);
        if waiting >= waiters {
            return Err(TooMany::Waiters { of: of.clone(), lock: lock.clone(), max: waiters });
        }
        used.locks += 1;
        used.waiters.insert(lock.clone(), waiting + 1);
        drop(usage);
        Ok(Some(LockUse::new(self.clone(), of.clone(), lock.clone())))
    }

    /// Counts a watch of the caller; `None` if no limit applies to it.
    pub(crate) fn use_watch(self: &Arc<Self>, caller: &Caller) -> Result<Option<WatchUse>, TooMany> {
        if !caller.is_bound_by_rules() {
            return Ok(None);
        }
        let (of, Each { watches, pace, .. }) = (&caller.principal, self.each());
        let mut usage = self.usage();
        let used = usage.of(Payer::Principal(of.clone()), pace, now());
        if used.watches >= watches {
            return Err(TooMany::Watches { of: of.clone(), max: watches });
        }
        used.watches += 1;
        drop(usage);
        Ok(Some(WatchUse::new(self.clone(), of.clone())))
    }

    /// Returns a buffer for messages of a principal, which counts towards its limit.
    pub(crate) fn buffer(&self, principal: &Principal) -> Buffered {
        let mut usage = self.usage();
        let used = usage.of(Payer::Principal(principal.clone()), self.each().pace, now());
        let of_principal = (principal.clone(), used.buffered.clone(), self.each().buffered_bytes);
        Buffered::new(self.buffered.clone(), of_principal)
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

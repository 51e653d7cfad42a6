//! The gate: what every door of a node asks before it does something for somebody. The rules decide
//! ([`access`](meshlock_cluster::access)); here they are kept and replaced, callers counted and slowed down, and what happens written down.

mod audit;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub use audit::{Act, Audit, AuditTarget};
use meshlock_cluster::access::{Access, Bucket, Denied, Pace, Principal, Subject, Tokens, Verb};
use meshlock_cluster::names::LockName;
use meshlock_cluster::time::{Span, Time};
use meshlock_system::now;
use ring::rand::{SecureRandom, SystemRandom};

/// How many principals are remembered before those are forgotten who are quiet.
const MANY: usize = 1024;

/// How often it is written down that somebody asks too fast.
const COMPLAIN_EVERY: Span = Span::from_millis(1000);

/// As how many requests one counts that is denied: whoever asks for what it may not have, again and again, does not fill the log.
const COST_OF_DENIAL: u32 = 20;

/// What is counted apart, so that a flood of the one does not stop the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asking for something.
    Ask,
    /// Keeping what one has.
    Renew,
}

/// The rules and tokens of a site.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Who may do what.
    pub access: Access,
    /// Who shows which token.
    pub tokens: Tokens,
}

/// How much one principal may have at every door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Each {
    /// Connections over a network.
    pub connections: usize,
    /// How fast its requests may come.
    pub pace: Pace,
}

impl Default for Each {
    fn default() -> Self {
        Each { connections: 2048, pace: Pace { rate: 5000, burst: 10_000 } }
    }
}

/// Which way a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The node's socket, which only the user who runs the node can open: no rule binds whoever could as well change the rules.
    Socket {
        /// The user.
        user: Option<u32>,
    },
    /// The node's own process: no rule binds it either.
    Process,
    /// A network, be it within this machine.
    Network(SocketAddr),
}

impl Origin {
    /// Whether rules and limits apply to whoever comes this way.
    fn is_bound_by_rules(&self) -> bool {
        matches!(self, Origin::Network(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Socket { user: Some(user) } => write!(f, "socket, user {user}"),
            Origin::Socket { user: None } => f.write_str("socket"),
            Origin::Process => f.write_str("process"),
            Origin::Network(address) => address.fmt(f),
        }
    }
}

/// Which request it was, for whoever looks it up in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(u64);

impl RequestId {
    /// Another one.
    pub fn new() -> Self {
        RequestId(fastrand::u64(..))
    }

    /// The number.
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
    /// Who it is.
    pub principal: Principal,
    /// Which way it came.
    pub origin: Origin,
    /// Which request it is; of a connection that lasts, the connection.
    pub request: RequestId,
}

/// Somebody asks too fast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{principal}' asks faster than {rate} times a second, which is what one client may here; ask again in {} ms", .wait.micros().div_ceil(1000))]
pub struct TooFast {
    /// Who.
    pub principal: Principal,
    /// How often it may.
    pub rate: u32,
    /// How long to wait.
    pub wait: Span,
}

/// Somebody has too many connections.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{principal}' has {most} connections, which is what one client may have here; close some, or use them for more"
)]
pub struct TooManyConnections {
    /// Who.
    pub principal: Principal,
    /// How many it may have.
    pub most: usize,
}

/// What every door asks.
#[derive(Debug, Default)]
pub struct Gate {
    policy: RwLock<Arc<Policy>>,
    each: Each,
    meters: Mutex<BTreeMap<Principal, Meter>>,
    audit: Audit,
}

/// What one principal uses.
#[derive(Clone, Copy, Debug)]
struct Meter {
    connections: usize,
    asks: Bucket,
    renewals: Bucket,
    /// When it was last written down that it asks too fast.
    complained: Option<Time>,
}

/// A connection that is counted, for as long as this lives.
#[derive(Debug)]
pub struct Connected {
    gate: Arc<Gate>,
    principal: Principal,
}

impl Connected {
    /// Whom it counts for.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(meter) = self.gate.meters().get_mut(&self.principal) {
            meter.connections = meter.connections.saturating_sub(1);
        }
    }
}

impl Gate {
    /// With these rules and limits.
    pub fn new(policy: Policy, each: Each, audit: Audit) -> Self {
        Gate { policy: RwLock::new(Arc::new(policy)), each, meters: Mutex::default(), audit }
    }

    /// Other rules and tokens from now on. What was given before is kept.
    pub fn replace(&self, policy: Policy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// The rules and tokens now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where things are written down.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Whether the caller may do something with this lock. If not, that is written down.
    pub fn check(&self, caller: &Caller, verb: Verb, lock: &LockName) -> Result<(), Denied> {
        self.check_subject(caller, verb, Subject::Lock(lock))
    }

    /// The same of anything.
    pub fn check_subject(&self, caller: &Caller, verb: Verb, subject: Subject<'_>) -> Result<(), Denied> {
        if !caller.origin.is_bound_by_rules() {
            return Ok(());
        }
        let checked = self.policy().access.check(&caller.principal, verb, subject);
        if let Err(denied) = &checked {
            self.charge(&caller.principal);
            self.audit.note(caller, denied.lock.as_ref(), Act::Denied { verb });
        }
        checked
    }

    /// Notes that nobody knows who asks.
    pub fn note_unknown(&self, caller: &Caller) {
        self.charge(&caller.principal);
        self.audit.note(caller, None, Act::Unknown);
    }

    /// What was refused costs more than what was done.
    fn charge(&self, principal: &Principal) {
        let mut meters = self.meters();
        meter(&mut meters, principal, self.each.pace, now()).asks.spend(COST_OF_DENIAL - 1);
    }

    /// Counts a request; too many of them within a short time are refused.
    pub fn pace(&self, caller: &Caller, kind: Kind) -> Result<(), TooFast> {
        if !caller.origin.is_bound_by_rules() {
            return Ok(());
        }
        let (now, pace) = (now(), self.each.pace);
        let mut meters = self.meters();
        let meter = meter(&mut meters, &caller.principal, pace, now);
        let bucket = match kind {
            Kind::Ask => &mut meter.asks,
            Kind::Renew => &mut meter.renewals,
        };
        let Err(wait) = bucket.take(pace, now) else { return Ok(()) };
        let is_news = meter.complained.is_none_or(|last| last + COMPLAIN_EVERY <= now);
        if is_news {
            meter.complained = Some(now);
        }
        drop(meters);
        let error = TooFast { principal: caller.principal.clone(), rate: pace.rate, wait };
        if is_news {
            self.audit.note(caller, None, Act::Limited { why: error.to_string() });
        }
        Err(error)
    }

    /// Counts a connection.
    pub fn connect(self: &Arc<Self>, principal: &Principal) -> Result<Connected, TooManyConnections> {
        let (now, most) = (now(), self.each.connections);
        let mut meters = self.meters();
        let meter = meter(&mut meters, principal, self.each.pace, now);
        if meter.connections >= most {
            return Err(TooManyConnections { principal: principal.clone(), most });
        }
        meter.connections += 1;
        Ok(Connected { gate: self.clone(), principal: principal.clone() })
    }

    fn meters(&self) -> MutexGuard<'_, BTreeMap<Principal, Meter>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn meter<'a>(
    meters: &'a mut BTreeMap<Principal, Meter>,
    principal: &Principal,
    pace: Pace,
    now: Time,
) -> &'a mut Meter {
    if meters.len() >= MANY && !meters.contains_key(principal) {
        let is_quiet = |meter: &Meter| {
            meter.connections == 0 && [meter.asks, meter.renewals].iter().all(|of| of.is_full(pace, now))
        };
        meters.retain(|_, meter| !is_quiet(meter));
    }
    let full = Bucket::full(pace, now);
    let fresh = || Meter { connections: 0, asks: full, renewals: full, complained: None };
    meters.entry(principal.clone()).or_insert_with(fresh)
}

/// A token that nobody can guess.
pub fn new_token() -> Result<String, std::io::Error> {
    let (mut first, mut second) = ([0; 16], [0; 16]);
    let random = SystemRandom::new();
    let filled = random.fill(&mut first).and_then(|()| random.fill(&mut second));
    filled.map_err(|_| std::io::Error::other("the system gives no random numbers"))?;
    Ok(format!("meshlock_{:032x}{:032x}", u128::from_be_bytes(first), u128::from_be_bytes(second)))
}

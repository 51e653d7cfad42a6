//! The inputs and outputs of the table, and its configuration.

use meshlock_protocol::fence::Stamp;
use meshlock_protocol::numbered;
use meshlock_protocol::registry::AnyMessage;
use meshlock_protocol::{Demand, Epoch, Fence, Mode};
use serde::{Deserialize, Serialize};

use super::claims::ClaimEvent;
use super::inquiry::Obstacle;
use super::permits::PermitsOf;
use super::refusal::{LossReason, Outage, RequestRefusal};
use super::trace::TableStep;
use crate::cause::Cause;
use crate::names::LockName;
use crate::rules::{LockRule, RulePlan, Rules};
use crate::time::{Span, Time};

/// A client's connection. Everything that the client has ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// One acquisition of a client: first it waits, then it holds. The number is never used twice at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u64);

/// How long a client is willing to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Forever,
    /// At most this long, counted from when the node receives the request; a little longer if the other sites have not
    /// said by then whether somebody has the lock.
    Within(Span),
    /// Not for another holder: only until the other sites have said whether there is one. If they do not, only as long
    /// as their replies usually take ([`TableConfig::try_within`]).
    Try,
}

numbered! { Wait {
    0 => Forever,
    1 => Within(value),
    2 => Try,
} }

impl Wait {
    /// Returns what is left of the wait after `elapsed`.
    #[must_use]
    pub fn after(self, elapsed: Span) -> Self {
        match self {
            Wait::Within(span) => {
                Wait::Within(Span::from_micros(span.micros().saturating_sub(elapsed.micros())))
            }
            Wait::Forever | Wait::Try => self,
        }
    }
}

/// A lock as a client asks for it: a name, and the number of clients that may hold it at a time. Clients that give
/// different numbers for one name never hold it at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockKey {
    pub(crate) name: LockName,
    pub(crate) permits: u32,
}

/// A client's request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub session: Session,
    /// The number of the request, never used before at this site.
    pub request: Request,
    pub lock: LockName,
    /// How many clients may hold the lock at a time, as this client understands it: 1 for a plain lock.
    pub permits: u32,
    pub wait: Wait,
    /// In which mode, and how urgently.
    pub demand: Demand,
    /// The number by which the request is known at all sites; the site makes one if there is none.
    pub cause: Option<Cause>,
}

/// An event that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// The client holds the lock.
    Granted {
        request: Request,
        /// The number to pass to the resource that the lock protects.
        fence: Fence,
        /// Which of K permits, where they are numbered.
        slot: Option<u32>,
        /// The client must have stopped by then, on this machine's clock, unless it is told of an extension.
        lease_end: Time,
        /// How long before that it will be told to stop.
        margin: Span,
        /// The number by which the acquisition is known at all sites.
        cause: Cause,
        /// The cause of the step that admitted this acquisition: another acquisition's, if that one handed the lock
        /// over.
        by: Option<Cause>,
    },
    /// The client goes on in another mode, without having left: it has downgraded, or its upgrade was granted. (If it gives up an
    /// upgrade that it waits for, it is told the mode that it has kept.)
    ModeChanged {
        request: Request,
        mode: Mode,
        /// The number to pass to the resource that the lock protects from now on: a new one after an upgrade.
        fence: Fence,
    },
    /// The client goes on in the mode that it has: the change that it wanted is not possible.
    ModeRefused { request: Request, why: RequestRefusal },
    /// The lease of this site lasts longer, and with it all locks that clients hold here and have not lost. It concerns
    /// every session that holds something.
    Extended { lease_end: Time },
    /// The client has lost the lock.
    Lost {
        request: Request,
        /// The client must have stopped by then; nobody else gets the lock before.
        act_by: Time,
        why: LossReason,
    },
    /// The client has released the lock.
    Released { request: Request },
    /// The client has stopped waiting because it cancelled.
    Cancelled { request: Request },
    /// The client did not get the lock in time.
    TimedOut { request: Request },
    /// The client did not want to wait, and would have had to.
    Busy { request: Request },
    /// The client did not get the lock in time, and nobody is known to have it: the cluster could not serve it.
    Unavailable { request: Request, why: Outage },
    /// The request was invalid or could not be served.
    Refused { request: Request, why: RequestRefusal },
}

impl LockEvent {
    /// Returns the request that it is about, unless it is about all that is held here.
    pub fn request(&self) -> Option<Request> {
        match self {
            LockEvent::Extended { .. } => None,
            LockEvent::Granted { request, .. }
            | LockEvent::ModeChanged { request, .. }
            | LockEvent::ModeRefused { request, .. }
            | LockEvent::Lost { request, .. }
            | LockEvent::Released { request }
            | LockEvent::Cancelled { request }
            | LockEvent::TimedOut { request }
            | LockEvent::Busy { request }
            | LockEvent::Unavailable { request, .. }
            | LockEvent::Refused { request, .. } => Some(*request),
        }
    }
}

/// A message between the machines of one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockMessage {
    pub lock: LockName,
    pub from_lane: u32,
    pub to_lane: u32,
    /// The sender's fence clock.
    pub stamp: Stamp,
    /// The algorithm's own message.
    pub message: AnyMessage,
    /// The acquisition on whose behalf it was sent, if the sender says so. It follows everything else on the wire, and
    /// version 1 does not have it.
    #[serde(skip)]
    pub cause: Option<Cause>,
}

/// An effect that the table asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TableOutput {
    /// Tell a client.
    LockEvent(LockEvent),
    /// Tell a client what became of its claim.
    Claim(ClaimEvent),
    /// Tell all clients that this site leaves, and that they can claim elsewhere what they can prove.
    Leaving,
    /// Tell a client that the lock was not to be had, for this reason.
    Unavailable { request: Request, obstacle: Obstacle },
    /// Ask all other members who holds this lock and who waits for it.
    Ask(LockName),
    /// Send to the member at this place of the view.
    Send { to: usize, message: LockMessage },
    /// Send to the member at this place, about the permits of a lock.
    SendPermits { to: usize, message: PermitsOf },
    /// Send a line to those who watch.
    Trace(Box<TableStep>),
    /// Tell all members that one holder of a lock that has more holders than permits has left.
    Left(LockName),
    /// The member at this place sent what no correct member sends.
    Misbehaved { place: usize, why: &'static str },
}

/// The shortest time for which the replies of other sites are waited for where round-trip times are measured: machines
/// that are busy may be slow, however fast their network is.
pub(crate) const MIN_REPLY_TIMEOUT: Span = Span::from_millis(1000);

/// The longest such time.
pub(crate) const MAX_REPLY_TIMEOUT: Span = Span::from_millis(5000);

/// How this site treats its own clients; need not be the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// How many times in a row a lock is handed on among local clients before other sites are admitted.
    pub local_turns: u32,
    /// Maximum delay of a message while nothing fails: the unit of the algorithms' timers.
    pub message_delay: Span,
    /// Maximum wait of a client that does not want to wait; `None` to follow the round-trip times to the other sites.
    pub try_within: Option<Span>,
    /// Maximum number of locks that a site keeps.
    pub max_locks: usize,
    /// Maximum number of pending claims.
    pub max_claims: usize,
    /// Maximum number of pending claims of one session.
    pub max_claims_per_session: usize,
    /// How long before the end of the lease clients are told (from the lease's terms).
    pub(crate) margin: Span,
    /// For how long this site keeps what a client can prove after its last contact with the client (from the lease's terms).
    pub(crate) resume_window: Span,
}

/// The time, and what the lease allows at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseClock {
    pub(crate) now: Time,
    /// When the lease ends, if it is comfortable.
    pub(crate) lease_end: Option<Time>,
}

/// The view that is open, as this site sees it.
#[derive(Clone, Debug)]
pub(crate) struct LocalView {
    pub(crate) epoch: Epoch,
    pub(crate) members: usize,
    /// This site's place among them.
    pub(crate) me: usize,
    pub(crate) rules: Rules,
    /// Whether every member understands messages about permits: none runs an older program.
    pub(crate) shares_permits: bool,
    /// Whether every member understands modes and priorities: none runs an older program.
    shares_modes: bool,
    /// What the machines of each rule share: made once, however many locks there are.
    plans: Vec<RulePlan>,
}

impl LocalView {
    /// Returns the local view of the member at place `me` of `members`.
    pub(crate) fn new(epoch: Epoch, members: usize, me: usize, rules: Rules) -> Self {
        let plans = rules.plans(members, true);
        LocalView { epoch, members, me, rules, shares_permits: true, shares_modes: true, plans }
    }

    /// Returns the same view, in which some member knows no demand but the plain one.
    #[must_use]
    pub(crate) fn without_modes(self) -> Self {
        let plans = self.rules.plans(self.members, false);
        LocalView { shares_modes: false, plans, ..self }
    }

    /// Returns the lock that runs the rule's algorithm under this name.
    pub(super) fn key(&self, name: &LockName) -> LockKey {
        LockKey { name: name.clone(), permits: self.rules.rule(name).permits }
    }

    /// Returns the rule of the lock, if its number of permits is the rule's.
    pub(super) fn rule(&self, key: &LockKey) -> Option<&LockRule> {
        Some(self.rules.rule(&key.name)).filter(|rule| rule.permits == key.permits)
    }

    /// Returns the place of the member that keeps the permits of this name, where no rule does.
    pub(super) fn home(&self, name: &LockName) -> usize {
        name.home(self.members)
    }

    /// Checks that clients may use the name with this number of permits in this view.
    pub(super) fn check(&self, key: &LockKey) -> Result<(), RequestRefusal> {
        let (has, wants) = (self.rules.rule(&key.name).permits, key.permits);
        if has == wants {
            return Ok(());
        }
        if self.rules.names(&key.name) {
            return Err(RequestRefusal::PermitsByRule { has, wants });
        }
        if wants == 0 || wants > Rules::MAX_PERMITS {
            return Err(RequestRefusal::TooManyPermits { wants });
        }
        if self.shares_permits { Ok(()) } else { Err(RequestRefusal::OlderMember { has, wants }) }
    }

    /// Checks that clients may ask for the lock in this view as they do.
    pub(super) fn check_wanted(&self, key: &LockKey, demand: Demand) -> Result<(), RequestRefusal> {
        self.check(key)?;
        self.check_demand(key, demand)
    }

    /// Checks that clients may make this demand for the lock in this view.
    pub(super) fn check_demand(&self, key: &LockKey, demand: Demand) -> Result<(), RequestRefusal> {
        if demand == Demand::PLAIN {
            return Ok(());
        }
        let (Demand { mode, .. }, plan) = (demand, self.plan(&key.name));
        let permits = key.permits.max(self.rules.rule(&key.name).permits);
        let algorithm = plan.algorithm();
        let knows_mode = mode == Mode::Exclusive || plan.knows(Demand::of(mode));
        match () {
            () if mode != Mode::Exclusive && permits > 1 => Err(RequestRefusal::ModeOfMany { permits, mode }),
            () if !knows_mode => Err(RequestRefusal::ExclusiveOnly { algorithm, mode }),
            () if self.rule(key).is_none() || !plan.knows(demand) => {
                Err(RequestRefusal::NoPriorities { algorithm })
            }
            () if !self.shares_modes => Err(RequestRefusal::OlderMemberModes),
            () => Ok(()),
        }
    }

    /// Returns the plan for the lock.
    pub(super) fn plan(&self, lock: &LockName) -> &RulePlan {
        &self.plans[self.rules.number(lock)]
    }

    /// Returns how many machines run at each member for the lock, if it has its rule's number of permits.
    pub(super) fn lanes(&self, lock: &LockName) -> u32 {
        self.plan(lock).lanes()
    }
}

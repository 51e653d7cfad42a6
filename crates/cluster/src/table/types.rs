//! What the table is asked, what it answers, and what it must know to do so.

use meshlock_protocol::fence::Stamp;
use meshlock_protocol::numbered;
use meshlock_protocol::registry::{AnyMessage, AnyPlan};
use meshlock_protocol::{Epoch, Fence};
use serde::{Deserialize, Serialize};

use super::refusal::{LossReason, Refusal};
use super::trace::Happening;
use crate::cause::Cause;
use crate::names::LockName;
use crate::rules::Rules;
use crate::time::{Span, Time};

/// A client's connection. It dies with it, and everything it has dies with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// One wish of a client: first it waits, then it holds. Never used twice at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub u64);

/// How long a client is ready to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as it takes.
    Forever,
    /// At most this long, counted from when the node learns of the request.
    Within(Span),
    /// Not for another holder: only as long as asking takes ([`TableConfig::try_within`]), and not if someone at this site waits or
    /// all permits that it can have are taken.
    Try,
}

numbered! { Wait {
    0 => Forever,
    1 => Within(value),
    2 => Try,
} }

impl Wait {
    /// What is left of it after so long.
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

/// A client's request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub session: Session,
    /// The number of the request, never used before at this site.
    pub request: Request,
    pub lock: LockName,
    pub wait: Wait,
    /// The number by which the request is known at all sites; the site makes one if there is none.
    pub cause: Option<Cause>,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// It holds the lock.
    Granted {
        /// Which wish.
        request: Request,
        /// The number to hand to whatever the lock protects.
        fence: Fence,
        /// Which of K permits, where they are numbered.
        slot: Option<u32>,
        /// It must have stopped by then, on this machine's clock, unless it is told of an extension.
        lease_end: Time,
        /// How long before that it will be told to stop.
        margin: Span,
        /// The number by which the wish is known at all sites.
        cause: Cause,
        /// For which wish that was done which let this one in: another one's, if that handed the lock over.
        by: Option<Cause>,
    },
    /// The lease of this site lasts longer: so do all locks that the session holds and has not lost.
    Extended {
        /// Whose.
        session: Session,
        /// Until then.
        lease_end: Time,
    },
    /// It has lost the lock, and must have stopped by then.
    Lost {
        /// Which wish.
        request: Request,
        /// Until then nobody else has it.
        act_by: Time,
        why: LossReason,
    },
    /// It has given the lock back.
    Released {
        /// Which wish.
        request: Request,
    },
    /// It does not wait any more because it said so.
    Cancelled {
        /// Which wish.
        request: Request,
    },
    /// It did not get the lock in time.
    TimedOut {
        /// Which wish.
        request: Request,
    },
    /// It did not want to wait, and would have had to.
    Busy {
        /// Which wish.
        request: Request,
    },
    /// It asked for what cannot be done.
    Refused {
        /// Which wish.
        request: Request,
        why: Refusal,
    },
}

/// What the machines of one lock say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockMessage {
    /// Which lock.
    pub lock: LockName,
    /// From which lane of the sender.
    pub from_lane: u32,
    /// To which lane of the receiver.
    pub to_lane: u32,
    /// The sender's fence clock.
    pub stamp: Stamp,
    /// What the algorithm sent.
    pub message: AnyMessage,
    /// For which wish it was sent, if the sender says so. Behind everything else on the wire, and not known to version 1 of it.
    #[serde(skip)]
    pub cause: Option<Cause>,
}

/// What the table wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// LockEvent a client.
    LockEvent(LockEvent),
    /// Send to the member at this place of the view.
    Send {
        /// Its place.
        to: usize,
        /// What it is sent.
        message: LockMessage,
    },
    /// LockEvent those who watch.
    Trace(Box<Happening>),
    /// LockEvent all members that one holder of a lock that has more holders than permits has left.
    Left(LockName),
    /// The member at this place sent what no correct member sends.
    Misbehaved {
        /// Its place.
        place: usize,
        /// What was wrong.
        why: &'static str,
    },
}

/// How this site treats its own clients; need not be the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// How often in a row a lock is handed on among local clients before other sites are let in.
    pub local_turns: u32,
    /// How long a message takes at most while all is well: what the algorithms' timers count in.
    pub message_delay: Span,
    /// How long a client that does not want to wait is made to.
    pub try_within: Span,
    /// How many locks a site keeps at most.
    pub max_locks: usize,
    /// How long before the end of the lease clients are told (from the lease's terms).
    pub margin: Span,
}

/// Time, and what the lease allows at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseClock {
    /// Now.
    pub now: Time,
    /// When the lease ends, if it is comfortable.
    pub lease_end: Option<Time>,
}

/// The view that is open, as this site sees it.
#[derive(Clone, Debug)]
pub struct LocalView {
    /// The view's number.
    pub epoch: Epoch,
    /// How many members it has.
    pub members: usize,
    /// This site's place among them.
    pub me: usize,
    /// Its rules.
    pub rules: Rules,
    /// What the machines of each rule share: made once, however many locks there are.
    plans: Vec<AnyPlan>,
}

impl LocalView {
    /// The local_view at place `me` of so many.
    pub fn new(epoch: Epoch, members: usize, me: usize, rules: Rules) -> Self {
        let plans = rules.plans(members);
        LocalView { epoch, members, me, rules, plans }
    }

    /// The plan of what the lock runs.
    pub(super) fn plan(&self, lock: &LockName) -> &AnyPlan {
        &self.plans[self.rules.number(lock)]
    }
}

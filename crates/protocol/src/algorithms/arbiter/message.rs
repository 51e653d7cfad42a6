//! What the sites of a quorum algorithm say to each other.

use std::fmt;

use crate::{Clock, Numbers, SiteId};

use super::Incarnation;

/// Which of the permissions that one arbiter gives to one request, counted from 1. There is a second only after a
/// YIELD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Turn(u32);

impl Turn {
    /// Before the first.
    pub const NONE: Turn = Turn(0);

    /// The turn `number`.
    pub const fn at(number: u32) -> Self {
        Turn(number)
    }

    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        Turn(self.0.saturating_add(1))
    }
}

/// As messages write it behind their request: nothing for the first turn, since a second comes only after a YIELD.
impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1 { write!(f, ", turn {}", self.0) } else { Ok(()) }
    }
}

/// What sites say to each other. A request is named by its clock; whose it is follows from sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a requester to the arbiters of its quorum: permit me. Promises one RELEASE after the permission.
    Request {
        /// The requester's clock; with the sender it is the timestamp.
        clock: Clock,
    },
    /// From an arbiter: you have my permission, and nobody else does until you release or yield it.
    Reply {
        /// The request that is permitted.
        to: Clock,
        /// The number of times that it has been permitted so far.
        turn: Turn,
        /// The arbiter's clock, so that the requester's next request follows all that the arbiter knows of.
        clock: Clock,
    },
    /// From an arbiter, under [`DeadlockRules::Fail`](super::DeadlockRules::Fail), before its first REPLY to this
    /// request: an earlier request is before yours. A REPLY will come.
    Failed {
        /// The request that has to wait.
        to: Clock,
    },
    /// From an arbiter to whom it has permitted: an earlier request asks; could I have my permission back?
    Inquire {
        /// The request that is permitted.
        to: Clock,
        /// Which permission is meant.
        turn: Turn,
    },
    /// From a requester that is not inside, in answer to INQUIRE: have it back; my request waits on.
    Yield {
        /// The sender's request.
        request: Clock,
        /// Which permission is given back.
        turn: Turn,
    },
    /// From a requester to the arbiters of its quorum: I have left.
    Release {
        /// The request that is over.
        request: Clock,
    },
    /// From a site that had failed and runs again, to all: its state is gone, its process is idle.
    Hello {
        /// The sender's new incarnation.
        incarnation: Incarnation,
    },
    /// The answer to HELLO, when the sender's process is not inside: it uses no permission that the receiver gave in
    /// its former incarnation, and never will.
    Welcome {
        /// The incarnation that the receiver had said HELLO from.
        incarnation: Incarnation,
        /// Whether the sender is an arbiter, and not itself still returning.
        arbiter: bool,
        /// The sender's clock, since the receiver has lost its own.
        clock: Clock,
    },
    /// From a site that all have welcomed: it is an arbiter again and may be asked.
    Ready,
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock },
    1 => Reply { to, turn, clock },
    2 => Failed { to },
    3 => Inquire { to, turn },
    4 => Yield { request, turn },
    5 => Release { request },
    6 => Hello { incarnation },
    7 => Welcome { incarnation, arbiter, clock },
    8 => Ready,
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST(ts {})", clock.value()),
            Message::Reply { to, turn, .. } => write!(f, "REPLY(to ts {}{turn})", to.value()),
            Message::Failed { to } => write!(f, "FAILED(ts {})", to.value()),
            Message::Inquire { to, turn } => write!(f, "INQUIRE(ts {}{turn})", to.value()),
            Message::Yield { request, turn } => write!(f, "YIELD(ts {}{turn})", request.value()),
            Message::Release { request } => write!(f, "RELEASE(ts {})", request.value()),
            Message::Hello { incarnation } => write!(f, "HELLO(incarnation {})", incarnation.number()),
            Message::Welcome { incarnation, arbiter, .. } => {
                let as_what = if *arbiter { "" } else { ", from no arbiter" };
                write!(f, "WELCOME(incarnation {}{as_what})", incarnation.number())
            }
            Message::Ready => f.write_str("READY"),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Failed { .. } => "FAILED",
            Message::Inquire { .. } => "INQUIRE",
            Message::Yield { .. } => "YIELD",
            Message::Release { .. } => "RELEASE",
            Message::Hello { .. } => "HELLO",
            Message::Welcome { .. } => "WELCOME",
            Message::Ready => "READY",
        }
    }

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { clock }
            | Message::Failed { to: clock }
            | Message::Inquire { to: clock, .. }
            | Message::Yield { request: clock, .. }
            | Message::Release { request: clock }
            | Message::Welcome { clock, .. } => numbers.clock(clock),
            Message::Reply { to, clock, .. } => {
                numbers.clock(to);
                numbers.clock(clock);
            }
            Message::Hello { .. } | Message::Ready => {}
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Ready => 3,
            Message::Request { .. }
            | Message::Failed { .. }
            | Message::Release { .. }
            | Message::Hello { .. } => 4,
            Message::Inquire { .. } | Message::Yield { .. } => 5,
            Message::Reply { .. } | Message::Welcome { .. } => 6,
        }
    }
}

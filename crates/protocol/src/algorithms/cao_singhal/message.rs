//! What the sites of Cao and Singhal's algorithm say to each other.

use std::fmt;

use crate::algorithms::arbiter::Turn;
use crate::{Clock, Numbers, SiteId, Timestamp};

/// The request that an arbiter would permit next, as it tells the one that has its permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NextRequest {
    pub request: Timestamp,
    /// The number that the permission will have.
    pub turn: Turn,
}

/// What sites say to each other. A request is named by its clock; whose it is follows from sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a requester to the arbiters of its quorum: permit me. Promises one RELEASE after the permission.
    Request {
        /// The requester's clock; with the sender it is the timestamp.
        clock: Clock,
    },
    /// The permission of an arbiter, from the arbiter itself or from the site that had it before.
    Reply {
        /// Whose permission it is.
        arbiter: SiteId,
        /// The request that is permitted.
        to: Clock,
        /// How often the arbiter's permission has been given to this request, this time included.
        turn: Turn,
        /// The sender's clock, so that the requester's next request follows all that the sender knows of.
        clock: Clock,
        /// A TRANSFER with the same permission, if another request waits for it.
        next: Option<NextRequest>,
    },
    /// From an arbiter, where the rules know refusals, before its first REPLY to this request: an earlier request is before
    /// yours. A REPLY will come.
    Failed {
        /// The request that has to wait.
        to: Clock,
    },
    /// From an arbiter to the site that has its permission: when you leave, give it to this request.
    Transfer {
        /// The request that is permitted.
        to: Clock,
        /// Which permission is meant.
        turn: Turn,
        next: NextRequest,
    },
    /// A TRANSFER for a request that precedes the one that is permitted: and could I have my permission back before?
    Inquire {
        /// The request that is permitted.
        to: Clock,
        /// Which permission is meant.
        turn: Turn,
        next: NextRequest,
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
        /// To whom I have sent the receiver's permission; none if it comes back with this message.
        forwarded: Option<Timestamp>,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock },
    1 => Reply { arbiter, to, turn, clock, next },
    2 => Failed { to },
    3 => Transfer { to, turn, next },
    4 => Inquire { to, turn, next },
    5 => Yield { request, turn },
    6 => Release { request, forwarded },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST(ts {})", clock.value()),
            Message::Reply { arbiter, to, turn, next, .. } => {
                write!(f, "REPLY(of {arbiter}, to ts {}{turn}", to.value())?;
                next.map_or(Ok(()), |next| write!(f, ", next {}", next.request))?;
                f.write_str(")")
            }
            Message::Failed { to } => write!(f, "FAILED(ts {})", to.value()),
            Message::Transfer { to, turn, next } => {
                write!(f, "TRANSFER(ts {}{turn}, next {})", to.value(), next.request)
            }
            Message::Inquire { to, turn, next } => {
                write!(f, "INQUIRE(ts {}{turn}, next {})", to.value(), next.request)
            }
            Message::Yield { request, turn } => write!(f, "YIELD(ts {}{turn})", request.value()),
            Message::Release { request, forwarded: None } => write!(f, "RELEASE(ts {})", request.value()),
            Message::Release { request, forwarded: Some(to) } => {
                write!(f, "RELEASE(ts {}, forwarded to {to})", request.value())
            }
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Failed { .. } => "FAILED",
            Message::Transfer { .. } => "TRANSFER",
            Message::Inquire { .. } => "INQUIRE",
            Message::Yield { .. } => "YIELD",
            Message::Release { .. } => "RELEASE",
        }
    }

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { clock }
            | Message::Failed { to: clock }
            | Message::Yield { request: clock, .. } => {
                numbers.clock(clock);
            }
            Message::Reply { to, clock, next, .. } => {
                numbers.clock(to);
                numbers.clock(clock);
                if let Some(next) = next {
                    numbers.timestamp(&mut next.request);
                }
            }
            Message::Transfer { to, next, .. } | Message::Inquire { to, next, .. } => {
                numbers.clock(to);
                numbers.timestamp(&mut next.request);
            }
            Message::Release { request, forwarded } => {
                numbers.clock(request);
                if let Some(to) = forwarded {
                    numbers.timestamp(to);
                }
            }
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } | Message::Failed { .. } => 4,
            Message::Yield { .. } => 5,
            Message::Reply { next, .. } => 7 + 3 * usize::from(next.is_some()),
            Message::Transfer { .. } | Message::Inquire { .. } => 8,
            Message::Release { forwarded, .. } => 4 + 2 * usize::from(forwarded.is_some()),
        }
    }
}

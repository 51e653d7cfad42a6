//! What nodes say to each other, and what travels with a token.

use std::collections::VecDeque;
use std::fmt;

use crate::algorithms::request::RequestId;
use crate::view::listed;
use crate::{SiteId, Slot};

/// A request-modifier tag: the request was for another token, and was turned into one for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tag {
    /// The site that did it.
    pub by: SiteId,
    /// The most possessions of the token asked for that any site on the request's way knew of.
    pub possessions: u64,
}

/// An entry of a token-queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct QueueEntry {
    /// Who is to get the token.
    pub ask: RequestId,
    /// None (the report's NULL) if it was this token that it asked for.
    pub tag: Option<Tag>,
}

/// One of the K tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BulgannawarToken {
    pub id: Slot,
    /// How often it has been received.
    pub possessions: u64,
    /// Who is to get it, in this order.
    pub queue: VecDeque<QueueEntry>,
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, or passes on what it was sent, along the pointers of one token's forest: this
    /// site wants that token, and the sender points at it from now on.
    Request {
        ask: RequestId,
        /// The token it chose.
        token: Slot,
        /// How many sites have passed the request on.
        hops: u32,
        /// The most possessions of the token that any of them, or the requester, knew of.
        possessions: u64,
    },
    /// From the site that had the token, to the first of its queue: enter.
    Token(Box<BulgannawarToken>),
    /// From a site that keeps a token which nobody wants, to a few others: it is here.
    Inform {
        token: Slot,
        /// How often it has been received.
        possessions: u64,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { ask, token, hops, possessions },
    1 => Token(value),
    2 => Inform { token, possessions },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { ask, token, possessions, .. } => {
                write!(f, "REQUEST({}, token {}, possessions {possessions})", ask.site, token.0)
            }
            Message::Token(token) => {
                let queue = listed(token.queue.iter().map(|entry| entry.ask.site));
                write!(f, "TOKEN {}(Q = [{queue}], possessions {})", token.id.0, token.possessions)
            }
            Message::Inform { token, possessions } => {
                write!(f, "INFORM(token {}, possessions {possessions})", token.0)
            }
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token(_) => "TOKEN",
            Message::Inform { .. } => "INFORM",
        }
    }

    /// As the report counts; what this file adds (numbers of requests, hops, possessions) is left out.
    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 5,
            Message::Token(token) => 4 + 2 * token.queue.len(),
            Message::Inform { .. } => 4,
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Token(_) => 1,
            Message::Request { .. } | Message::Inform { .. } => 0,
        }
    }
}

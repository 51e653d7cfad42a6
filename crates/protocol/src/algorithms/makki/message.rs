//! What the sites of `makki` say to each other.

use std::collections::VecDeque;
use std::fmt;

use crate::view::listed;
use crate::{SiteId, SiteSet};

/// Identifies a request by its site and its sequence number at that site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiter {
    pub site: SiteId,
    /// Its requests are numbered from 1.
    pub number: u64,
}

/// The one token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MakkiToken {
    /// How many permits are free, as far as the token knows.
    pub semaphore: usize,
    /// Who gets it next, in order. The last of them collects the requests of the next round.
    pub queue: VecDeque<Waiter>,
    /// Which queue this is, counted from 0.
    pub round: u64,
    /// Who knows or will see from the token itself who collects in this round.
    pub told: SiteSet,
    /// How often the token has moved.
    pub moves: u64,
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to the one that collects as far as it knows; from there to the one that does.
    Request {
        waiter: Waiter,
        /// The round in which the receiver collects, or did.
        round: u64,
    },
    /// From one site of the queue to the next: it is your turn, as soon as the semaphore allows.
    Token {
        /// The number of the receiver's request.
        number: u64,
        token: Box<MakkiToken>,
    },
    /// From a site that has left, to the one where the token stops: this many permits are free again.
    Release {
        /// The token comes to the receiver, or has come, with this move.
        at: u64,
        /// How many permits the sender has given back to the receiver, in all.
        total: u64,
    },
    /// From the last site of the queue, when it has waited and nobody has asked: send your requests to me.
    Announce {
        /// The round in which the sender collects.
        round: u64,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { waiter, round },
    1 => Token { number, token },
    2 => Release { at, total },
    3 => Announce { round },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { waiter, round } => {
                write!(f, "REQUEST({}, number {}, round {round})", waiter.site, waiter.number)
            }
            Message::Token { token, .. } => {
                let queue = listed(token.queue.iter().map(|waiter| waiter.site));
                write!(f, "TOKEN(semaphore {}, Q = [{queue}], round {})", token.semaphore, token.round)
            }
            Message::Release { at, total } => write!(f, "RELEASE(at move {at}, {total} in all)"),
            Message::Announce { round } => write!(f, "ANNOUNCE(round {round})"),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Token { .. } => "TOKEN",
            Message::Release { .. } => "RELEASE",
            Message::Announce { .. } => "ANNOUNCE",
        }
    }

    /// The set of those who are told is counted as a word for each 64 sites.
    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 6,
            Message::Token { token, .. } => {
                let highest = token.told.iter().last().map_or(0, SiteId::index);
                7 + 2 * token.queue.len() + highest / 64 + 1
            }
            Message::Release { .. } => 5,
            Message::Announce { .. } => 4,
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Token { .. } => 1,
            Message::Request { .. } | Message::Release { .. } | Message::Announce { .. } => 0,
        }
    }
}

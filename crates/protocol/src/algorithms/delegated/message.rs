//! What the sites of `delegated` say to each other.

use std::collections::VecDeque;
use std::fmt;

use crate::view::listed;
use crate::{Family, Numbers, SiteId, Slot};

/// Identifies a request by its site and its sequence number at that site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiter {
    pub site: SiteId,
    /// Its requests are numbered from 1; 0 is what a holder is inside on at the start.
    pub number: u64,
}

/// One of the K permits, and what travels with it. Whoever has it may enter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Permit {
    pub slot: Slot,
    /// Who is to have it next, in order.
    pub next: VecDeque<Waiter>,
    /// Requests that ride along to the leader: of those who have left and want to enter again, in the order in which
    /// they left.
    pub again: Vec<Waiter>,
}

/// What sites say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to the leader.
    Request { number: u64 },
    /// From the leader or from the one before in the chain, to whoever is next: you are in. When you leave, hand the
    /// permit to the next one that it names, or back to the leader.
    Perm {
        /// The number of the receiver's request.
        number: u64,
        permit: Box<Permit>,
    },
    /// From the leader to the last of a chain: after you comes another one. If you have handed the permit back
    /// already, ignore this; I will see it from that.
    Append {
        /// The number of the receiver's request.
        after: u64,
        next: Waiter,
    },
    /// From the last of a chain to the leader: nobody follows me that I know of.
    Release {
        /// The number of the sender's request.
        number: u64,
        /// The permit, with the requests that ride along.
        permit: Box<Permit>,
    },
}

impl Waiter {
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        numbers.number(Family::Site(self.site), &mut self.number);
    }
}

impl Permit {
    pub(super) fn numbers(&mut self, numbers: &mut Numbers<'_>) {
        self.next.iter_mut().chain(&mut self.again).for_each(|waiter| waiter.numbers(numbers));
    }
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { number },
    1 => Perm { number, permit },
    2 => Append { after, next },
    3 => Release { number, permit },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sites = |waiters: &mut dyn Iterator<Item = &Waiter>| listed(waiters.map(|waiter| waiter.site));
        match self {
            Message::Request { number } => write!(f, "REQ({number})"),
            Message::Perm { number, permit } => {
                let Permit { slot, next, again } = &**permit;
                write!(f, "PERM {}(to request {number}, next [{}]", slot.0, sites(&mut next.iter()))?;
                if again.is_empty() {
                    f.write_str(")")
                } else {
                    write!(f, ", again [{}])", sites(&mut again.iter()))
                }
            }
            Message::Append { after, next } => write!(f, "APPEND({} after request {after})", next.site),
            Message::Release { number, permit } => {
                let again = sites(&mut permit.again.iter());
                write!(f, "REL {}(of request {number}, again [{again}])", permit.slot.0)
            }
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQ",
            Message::Perm { .. } => "PERM",
            Message::Append { .. } => "APPEND",
            Message::Release { .. } => "REL",
        }
    }

    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { number } => numbers.number(Family::Site(from), number),
            Message::Perm { number, permit } => {
                numbers.number(Family::Site(to), number);
                permit.numbers(numbers);
            }
            Message::Append { after, next } => {
                numbers.number(Family::Site(to), after);
                next.numbers(numbers);
            }
            Message::Release { number, permit } => {
                numbers.number(Family::Site(from), number);
                permit.numbers(numbers);
            }
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            Message::Append { .. } => 6,
            Message::Perm { permit, .. } | Message::Release { permit, .. } => {
                5 + 2 * (permit.next.len() + permit.again.len())
            }
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Perm { .. } | Message::Release { .. } => 1,
            Message::Request { .. } | Message::Append { .. } => 0,
        }
    }
}

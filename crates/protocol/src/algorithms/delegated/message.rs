//! What the sites of `delegated` say to each other.

use std::collections::VecDeque;
use std::fmt;

use crate::view::listed;
use crate::{Demand, Family, Mode, Numbers, SiteId, Slot};

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
    /// From a site that wants to enter with a demand that is not plain, to the leader.
    Ask { number: u64, demand: Demand },
    /// From the leader to a site that has asked to share: you are in, without the permit. When you leave, tell me.
    Share {
        /// The number of the receiver's request.
        number: u64,
        /// Nobody waits: others of your site may be inside with you, until I say that the lock is closed.
        open: bool,
    },
    /// From the leader to a site that shares: somebody waits who must not be passed, so let nobody else in beside you. If you have
    /// left already, ignore this; if you are not in yet, remember it.
    Close {
        /// The number of the receiver's request.
        number: u64,
    },
    /// From a site that shares to the leader: I am out. Whatever I have asked for inside is off.
    Done {
        /// The number of the sender's request.
        number: u64,
    },
    /// From the site in upgradeable mode to the leader: let nobody else in, and tell me when all others are out.
    Upgrade {
        /// The number of the sender's request.
        number: u64,
        /// The number of the change of mode, counted at the sender.
        change: u64,
    },
    /// From the leader to the site that upgrades: you are alone, and exclusive. If you have left already, ignore this.
    Upgraded {
        /// The number of the receiver's request.
        number: u64,
        /// The number of the change of mode that this answers.
        change: u64,
    },
    /// From a site inside to the leader: from now on I am only in this mode. If the site has the permit, that comes home with this, and the
    /// rest of its chain keeps its order, and its place before all others.
    Downgrade {
        /// The number of the sender's request.
        number: u64,
        /// The number of the change of mode, counted at the sender.
        change: u64,
        to: Mode,
        permit: Option<Box<Permit>>,
    },
}

/// What counts the changes of mode of a site, which are compared only with each other.
pub(super) fn changes_of(site: SiteId) -> Family {
    Family::Pair(site, site)
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
    4 => Ask { number, demand },
    5 => Share { number, open },
    6 => Close { number },
    7 => Done { number },
    8 => Upgrade { number, change },
    9 => Upgraded { number, change },
    10 => Downgrade { number, change, to, permit },
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
            Message::Ask { number, demand } => write!(f, "REQ({number}, {demand})"),
            Message::Share { number, open } => {
                write!(f, "SHARE(to request {number}{})", if *open { ", open" } else { "" })
            }
            Message::Close { number } => write!(f, "CLOSE(to request {number})"),
            Message::Done { number } => write!(f, "DONE(of request {number})"),
            Message::Upgrade { number, change } => write!(f, "UPGRADE(of request {number}, change {change})"),
            Message::Upgraded { number, change } => {
                write!(f, "UPGRADED(to request {number}, change {change})")
            }
            Message::Downgrade { number, change, to, permit } => {
                write!(f, "DOWNGRADE(of request {number}, change {change}, to {to}")?;
                match permit {
                    Some(permit) => write!(f, ", again [{}])", sites(&mut permit.again.iter())),
                    None => f.write_str(")"),
                }
            }
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } | Message::Ask { .. } => "REQ",
            Message::Perm { .. } => "PERM",
            Message::Append { .. } => "APPEND",
            Message::Release { .. } => "REL",
            Message::Share { .. } => "SHARE",
            Message::Close { .. } => "CLOSE",
            Message::Done { .. } => "DONE",
            Message::Upgrade { .. } => "UPGRADE",
            Message::Upgraded { .. } => "UPGRADED",
            Message::Downgrade { .. } => "DOWNGRADE",
        }
    }

    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { number } | Message::Ask { number, .. } | Message::Done { number } => {
                numbers.number(Family::Site(from), number);
            }
            Message::Share { number, .. } | Message::Close { number } => {
                numbers.number(Family::Site(to), number);
            }
            Message::Upgrade { number, change } => {
                numbers.number(Family::Site(from), number);
                numbers.number(changes_of(from), change);
            }
            Message::Upgraded { number, change } => {
                numbers.number(Family::Site(to), number);
                numbers.number(changes_of(to), change);
            }
            Message::Downgrade { number, change, to: _, permit } => {
                numbers.number(Family::Site(from), number);
                numbers.number(changes_of(from), change);
                if let Some(permit) = permit {
                    permit.numbers(numbers);
                }
            }
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
            Message::Request { .. } | Message::Close { .. } | Message::Done { .. } => 4,
            Message::Share { .. } | Message::Upgrade { .. } | Message::Upgraded { .. } => 5,
            Message::Append { .. } | Message::Ask { .. } => 6,
            Message::Downgrade { permit, .. } => {
                6 + permit.as_ref().map_or(0, |permit| 1 + 2 * permit.again.len())
            }
            Message::Perm { permit, .. } | Message::Release { permit, .. } => {
                5 + 2 * (permit.next.len() + permit.again.len())
            }
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Perm { .. } | Message::Release { .. } | Message::Downgrade { permit: Some(_), .. } => 1,
            Message::Request { .. }
            | Message::Append { .. }
            | Message::Ask { .. }
            | Message::Share { .. }
            | Message::Close { .. }
            | Message::Done { .. }
            | Message::Upgrade { .. }
            | Message::Upgraded { .. }
            | Message::Downgrade { permit: None, .. } => 0,
        }
    }
}

//! What sites say to each other.

use std::fmt;

use crate::mutant::{self, Mutant};
use crate::{Clock, Mode, Numbers, SiteId};

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to all others: its clock at the request.
    Request {
        /// The clock; with the sender it is the timestamp.
        clock: Clock,
    },
    /// From a site that does not stand in the way, or no longer: enter as far as I am concerned.
    Reply {
        /// The clock of the request or the upgrade that is answered.
        to: Clock,
    },
    /// A request that is not exclusive. Only with the option `modes`, as everything that follows.
    RequestAs {
        /// The clock; with the sender it is the timestamp.
        clock: Clock,
        /// Shared or upgradeable.
        mode: Mode,
    },
    /// From a site inside that wants to be exclusive, to all others: let me alone, and answer.
    Upgrade {
        /// The number of the upgrade: the sender's clock.
        clock: Clock,
        /// The last number of the receiver to which the sender has replied: that reply is withdrawn if it was not used yet. Zero if there
        /// is none.
        withdrawn: Clock,
    },
    /// From a site that waits, to one that upgrades: you first. I wait for another reply, which names your upgrade.
    Yield {
        /// The number of the upgrade.
        to: Clock,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock },
    1 => Reply { to },
    2 => RequestAs { clock, mode },
    3 => Upgrade { clock, withdrawn },
    4 => Yield { to },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST(ts {})", clock.value()),
            Message::Reply { to } => write!(f, "REPLY(to ts {})", to.value()),
            Message::RequestAs { clock, mode } => write!(f, "REQUEST(ts {}, {mode})", clock.value()),
            Message::Upgrade { clock, .. } => write!(f, "UPGRADE(ts {})", clock.value()),
            Message::Yield { to } => write!(f, "YIELD(to ts {})", to.value()),
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } | Message::RequestAs { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Upgrade { .. } => "UPGRADE",
            Message::Yield { .. } => "YIELD",
        }
    }

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Reply { .. } if mutant::is_on(Mutant::RicartAgrawalaUnnamedNumber) => {}
            Message::Request { clock }
            | Message::RequestAs { clock, .. }
            | Message::Reply { to: clock }
            | Message::Yield { to: clock } => numbers.clock(clock),
            Message::Upgrade { clock, withdrawn } => {
                numbers.clock(clock);
                numbers.remembered_clock(withdrawn);
            }
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } | Message::Reply { .. } | Message::Yield { .. } => 4,
            Message::RequestAs { .. } | Message::Upgrade { .. } => 5,
        }
    }
}

//! What sites say to each other.

use std::fmt;

use crate::{Family, Numbers, SiteId};

/// What neighbours in the tree say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants the privilege, for itself or for a neighbour, to its HOLDER: it waits for it.
    Request {
        /// How often the privilege has crossed the edge between the two.
        crossings: u64,
    },
    /// From the site that had the privilege, to a neighbour that has asked: it is yours.
    Privilege {
        /// How often the privilege has crossed the edge between the two, with this time.
        crossings: u64,
    },
    /// From a neighbour that knows where the privilege is, to one that does not (section 9.12.6): it is on my side.
    Initialize,
    /// From a site that runs again after it failed, to its neighbours (section 9.12.7): tell me what you know.
    Restart {
        /// How often the sender has restarted.
        incarnation: u32,
    },
    /// The answer to a RESTART (section 9.12.7): what the sender's HOLDER and ASKED say about the receiver.
    Advise {
        /// The incarnation of the RESTART that is answered.
        incarnation: u32,
        /// Whether the sender's HOLDER is the receiver.
        holder_is_you: bool,
        /// Whether the sender has asked the receiver for the privilege and waits.
        asked: bool,
        /// How often the privilege has crossed the edge between the two.
        crossings: u64,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { crossings },
    1 => Privilege { crossings },
    2 => Initialize,
    3 => Restart { incarnation },
    4 => Advise { incarnation, holder_is_you, asked, crossings },
} }

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { crossings } => write!(f, "REQUEST(crossing {crossings})"),
            Message::Privilege { crossings } => write!(f, "PRIVILEGE(crossing {crossings})"),
            Message::Initialize => f.write_str("INITIALIZE"),
            Message::Restart { incarnation } => write!(f, "RESTART(incarnation {incarnation})"),
            Message::Advise { holder_is_you, asked, .. } => {
                let holder = if *holder_is_you { "you" } else { "another" };
                write!(f, "ADVISE(HOLDER = {holder}, ASKED = {asked})")
            }
        }
    }
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Privilege { .. } => "PRIVILEGE",
            Message::Initialize => "INITIALIZE",
            Message::Restart { .. } => "RESTART",
            Message::Advise { .. } => "ADVISE",
        }
    }

    /// Both ends count how often the privilege has crossed their edge.
    fn numbers(&mut self, from: SiteId, to: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { crossings }
            | Message::Privilege { crossings }
            | Message::Advise { crossings, .. } => {
                numbers.number(Family::Pair(from.min(to), from.max(to)), crossings);
            }
            Message::Initialize | Message::Restart { .. } => {}
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Initialize => 3,
            Message::Request { .. } | Message::Privilege { .. } | Message::Restart { .. } => 4,
            Message::Advise { .. } => 7,
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Message::Privilege { .. } => 1,
            Message::Request { .. }
            | Message::Initialize
            | Message::Restart { .. }
            | Message::Advise { .. } => 0,
        }
    }
}

//! What the sites of Lodha and Kshemkalyani's algorithm say to each other.

use crate::Clock;

/// What sites say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message {
    /// From a site that wants in, to all others. To a receiver that asked before this came it is the answer as well:
    /// I have seen no later than now that you want in, and I wait for my turn. It also tells that the sender's
    /// request before this one is finished.
    Request {
        /// The sequence number; with the sender it is the request's id, smaller first.
        clock: Clock,
    },
    /// From a site that wants nothing, or that has just left and had deferred the request: I do not stand in the way,
    /// and nobody does any more whose request is not later than the one that I executed last.
    Reply {
        /// The sequence number of the request that is answered.
        to: Clock,
        /// The sequence number of the sender's last request that was satisfied, if it has had one.
        executed: Option<Clock>,
    },
    /// From a site that leaves, to the next one of its queue: nobody stands in the way any more whose request is not
    /// later than the one that I have just executed.
    Flush {
        /// The sequence number of that request.
        executed: Clock,
    },
}

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Reply { .. } => "REPLY",
            Message::Flush { .. } => "FLUSH",
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } | Message::Flush { .. } => 4,
            Message::Reply { .. } => 5,
        }
    }
}

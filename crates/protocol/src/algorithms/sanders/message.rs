//! What the sites of Sanders' algorithm say to each other.

use crate::{Clock, SiteSet};

/// What sites say to each other. Each message names the request it concerns by its clock, and the round: how often
/// that request has been put to this receiver, or by this sender, again (after a YIELD, or after a failure).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From a site that wants to enter, to its request set: "according to your information, is it OK for me to enter?"
    Request {
        /// The clock; with the sender it is the timestamp.
        clock: Clock,
        /// The round, above 0 only if a failure made the sender ask again.
        round: u32,
        /// The sites that the sender knows to have failed. The receiver believes it before it answers.
        failed: SiteSet,
    },
    /// From a site that knows of no obstacle: "according to my information, it is OK to enter." If the receiver is
    /// in the sender's status set, the sender grants nobody else until it hears of it again.
    Grant {
        /// The request that may enter.
        to: Clock,
        /// The round of it that is granted.
        round: u32,
    },
    /// From a site that has granted, or will first grant, an earlier request: do not count on me soon.
    Fail {
        /// The request that must wait.
        to: Clock,
        round: u32,
    },
    /// From a site that granted the receiver and then got an earlier request: may I have the grant back?
    Inquire {
        /// The request that was granted.
        about: Clock,
        /// The round of it that was granted.
        round: u32,
    },
    /// The answer to INQUIRE, from a site that will not enter soon: take it back, and grant me again in the next
    /// round.
    Yield {
        /// The request that was granted.
        request: Clock,
        /// The round of it that was granted.
        round: u32,
    },
    /// From a site that has left, to its inform set.
    Release {
        /// The request that it was inside on.
        request: Clock,
    },
}

#[cfg(feature = "serde")]
crate::numbered! { Message {
    0 => Request { clock, round, failed },
    1 => Grant { to, round },
    2 => Fail { to, round },
    3 => Inquire { about, round },
    4 => Yield { request, round },
    5 => Release { request },
} }

impl crate::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Grant { .. } => "GRANT",
            Message::Fail { .. } => "FAIL",
            Message::Inquire { .. } => "INQUIRE",
            Message::Yield { .. } => "YIELD",
            Message::Release { .. } => "RELEASE",
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { failed, .. } => 5 + failed.len(),
            Message::Grant { .. }
            | Message::Fail { .. }
            | Message::Inquire { .. }
            | Message::Yield { .. } => 5,
            Message::Release { .. } => 4,
        }
    }
}

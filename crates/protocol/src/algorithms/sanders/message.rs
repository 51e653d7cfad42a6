//! What the sites of Sanders' algorithm say to each other.

use std::fmt;

use crate::{Clock, Numbers, SiteId, SiteSet};

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

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = |round: &u32| if *round > 0 { format!(", round {round}") } else { String::new() };
        match self {
            Message::Request { clock, round, failed } => {
                write!(f, "REQUEST(ts {}{}", clock.value(), again(round))?;
                if failed.is_empty() { f.write_str(")") } else { write!(f, ", failed {failed})") }
            }
            Message::Grant { to, round } => write!(f, "GRANT(to ts {}{})", to.value(), again(round)),
            Message::Fail { to, round } => write!(f, "FAIL(ts {}{})", to.value(), again(round)),
            Message::Inquire { about, round } => write!(f, "INQUIRE(ts {}{})", about.value(), again(round)),
            Message::Yield { request, round } => write!(f, "YIELD(ts {}{})", request.value(), again(round)),
            Message::Release { request } => write!(f, "RELEASE(ts {})", request.value()),
        }
    }
}

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

    fn numbers(&mut self, _: SiteId, _: SiteId, numbers: &mut Numbers<'_>) {
        match self {
            Message::Request { clock, .. }
            | Message::Grant { to: clock, .. }
            | Message::Fail { to: clock, .. }
            | Message::Inquire { about: clock, .. }
            | Message::Yield { request: clock, .. }
            | Message::Release { request: clock } => numbers.clock(clock),
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

//! What the sites say to each other: nothing but REQUEST says what it is about.

use std::fmt;

use meshlock_protocol::Clock;

/// The messages between sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// This request of mine waits.
    Request { clock: Clock },
    /// REPLY in the chapter: enter, as far as I am concerned.
    Grant,
    /// An earlier request is before yours.
    Fail,
    /// May I have it back?
    Inquire,
    /// You have it back.
    Yield,
    /// "Relinquish" in the chapter: I have left.
    Release,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { clock } => write!(f, "REQUEST({})", clock.value()),
            Message::Grant | Message::Fail | Message::Inquire | Message::Yield | Message::Release => {
                f.write_str(meshlock_protocol::Message::kind(self))
            }
        }
    }
}

impl meshlock_protocol::Message for Message {
    fn kind(&self) -> &'static str {
        match self {
            Message::Request { .. } => "REQUEST",
            Message::Grant => "GRANT",
            Message::Fail => "FAIL",
            Message::Inquire => "INQUIRE",
            Message::Yield => "YIELD",
            Message::Release => "RELEASE",
        }
    }

    fn words(&self) -> usize {
        match self {
            Message::Request { .. } => 4,
            Message::Grant | Message::Fail | Message::Inquire | Message::Yield | Message::Release => 3,
        }
    }
}

//! What happens to a node, and what it wants done.

use super::clients::{Answer, Call};
use super::note::Note;
use super::packet::Packet;
use crate::membership::disk::Write;
use crate::names::SiteName;

/// What names a batch of writes until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing but time passing.
    Time,
    /// A packet has come from this site; the connection vouches for the name.
    Packet {
        /// The sender.
        from: SiteName,
        /// What it sent.
        packet: Packet,
    },
    /// There is a new connection to this site.
    Connected(SiteName),
    /// The disk has this batch and all before it.
    Persisted(Token),
    /// A client calls.
    Call(Call),
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send {
        /// To this site.
        to: SiteName,
        /// What to send.
        packet: Packet,
    },
    /// Write this, then say so ([`Input::Persisted`]).
    Persist {
        /// What to say.
        token: Token,
        /// What to write, together.
        writes: Vec<Write>,
    },
    /// LockEvent a client.
    Answer(Answer),
    /// Worth a line in the log; nothing depends on it.
    Note(Note),
}

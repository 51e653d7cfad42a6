//! The inputs and outputs of a node.

use super::clients::{ClientAnswer, ClientCall};
use super::note::Note;
use super::packet::Packet;
use crate::membership::disk::DiskWrite;
use crate::names::SiteName;

/// Identifies a batch of writes until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteToken(pub u64);

/// An input of a node.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing happened except that time has passed.
    Time,
    /// A packet has come from this site; the connection vouches for the name.
    Packet { from: SiteName, packet: Packet },
    /// There is a new connection to this site.
    Connected {
        site: SiteName,
        /// Whether its program knows packets that are carried by another site.
        carries: bool,
    },
    /// The disk has this batch and all before it.
    Persisted(WriteToken),
    /// A client calls.
    Call(ClientCall),
}

/// An effect that a node asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOutput {
    /// Send a packet.
    Send { to: SiteName, packet: Packet },
    /// Write these together, then say so ([`Input::Persisted`]).
    Persist { token: WriteToken, writes: Vec<DiskWrite> },
    /// Answer a client.
    Answer(ClientAnswer),
    /// Log this; nothing depends on it.
    Note(Note),
}

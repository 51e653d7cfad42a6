//! The inputs and outputs of a node.

use super::calls::CallMessage;
use super::clients::{ClientAnswer, ClientCall};
use super::note::Note;
use super::packet::Packet;
use crate::membership::disk::DiskWrite;
use crate::names::{Member, SiteName};

/// Identifies a batch of writes until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteToken(pub u64);

/// What the program of another site knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each of them is a thing that a program knows or does not")]
pub struct Abilities {
    /// Packets that are carried by a third site.
    pub carries: bool,
    /// Changes of voters.
    pub changes_voters: bool,
    /// Reports of voters that are not there.
    pub counts_voters: bool,
    /// First views with another epoch than 1.
    pub knows_floors: bool,
    /// The access document.
    pub agrees_on_access: bool,
    /// Calls of clients that members forward to each other.
    pub forwards_calls: bool,
    /// It tells the leader which disks of first voters it has recorded.
    pub reports_records: bool,
    /// Questions for pages of locks and for what happens to them, and all that came with these.
    pub lists_locks: bool,
}

impl Abilities {
    /// The abilities of this program.
    pub const ALL: Abilities = Abilities {
        carries: true,
        changes_voters: true,
        counts_voters: true,
        knows_floors: true,
        agrees_on_access: true,
        forwards_calls: true,
        reports_records: true,
        lists_locks: true,
    };
}

/// An input of a node.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing happened except that time has passed.
    Time,
    /// A packet has come from this site; the connection vouches for the name.
    Packet { from: SiteName, packet: Packet },
    /// There is a new connection to this site.
    Connected { site: SiteName, abilities: Abilities },
    /// The disk has this batch and all before it.
    Persisted(WriteToken),
    /// A client calls.
    Call(ClientCall),
    /// The calendar clock shows this second since 1970: join tokens end by it. Nothing else depends on it.
    WallClock(u64),
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
    /// Hand this message about a forwarded call to whoever executes or awaits calls.
    Call { from: Member, message: CallMessage },
    /// Log this; nothing depends on it.
    Note(Note),
}

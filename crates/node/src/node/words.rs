//! What happens to a node, and what it wants done.

use meshlock_protocol::Epoch;

use super::clients::{Answer, Call};
use super::wire::Packet;
use crate::founding::ClusterId;
use crate::membership;
use crate::membership::disk::Write;
use crate::names::{Member, SiteName};
use crate::view::View;

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
    /// Tell a client.
    Answer(Answer),
    /// Worth a line in the log; nothing depends on it.
    Note(Note),
}

/// What a node did, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A view was installed; its machines do not run yet.
    Installed(View),
    /// All members' censuses are in: the machines of this view run.
    Opened(Epoch),
    /// The view has rules that this site cannot follow, because its program is older than theirs: its machines do not run
    /// until there are other rules or a newer program.
    CannotOpen {
        /// The view.
        epoch: Epoch,
        /// What is wrong with the rules.
        why: String,
    },
    /// This site is left out of the view, and begins a new life.
    Excluded {
        /// The view.
        epoch: Epoch,
        /// The life that is over.
        member: Member,
    },
    /// This site leads, and grants a lease.
    Granted(Member),
    /// This site leaves: this life holds nothing and never will again.
    GaveUp(Member),
    /// This site leads, and proposes a view.
    Proposed(View),
    /// This site leads, in this term.
    Leads(membership::Term),
    /// A packet of another cluster came, and was not looked at: this site or that one is misconfigured or misaddressed.
    OtherCluster {
        /// Who sent it.
        site: SiteName,
        /// The cluster that it belongs to.
        cluster: ClusterId,
    },
    /// A peer sent what no correct peer sends. Nothing has changed.
    Misbehaved {
        /// Who.
        site: SiteName,
        /// What.
        why: String,
    },
}

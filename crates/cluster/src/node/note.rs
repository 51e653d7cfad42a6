//! Notes: what a node reports to its log and its observers.

use meshlock_protocol::Epoch;

use crate::access::{AgreedAccess, JoinRefusal};
use crate::address::Address;
use crate::founding::ClusterId;
use crate::lease::Terms;
use crate::membership;
use crate::membership::voters::Voters;
use crate::names::{Incarnation, Member, SiteName};
use crate::table::VotersInReach;
use crate::time::Span;
use crate::view::View;

/// The way in which a member has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said that it leaves.
    Said,
    /// Its lease ran out: it has failed, or is cut off.
    GivenUp,
    /// This site does not vote, and so was not told.
    Unknown,
}

/// An event worth logging; nothing depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A view was installed; its machines do not run yet.
    Installed(View),
    /// The censuses of all members have arrived: the machines of this view run.
    Opened(Epoch),
    /// The view has rules that this site cannot follow, because its program is too old: its machines do not run until
    /// there are other rules or a newer program.
    CannotOpen { epoch: Epoch, why: String },
    /// This site is excluded from the view, and begins a new incarnation.
    Excluded {
        epoch: Epoch,
        /// The incarnation that has ended.
        member: Member,
    },
    /// This site leads, and grants a lease.
    Granted(Member),
    /// This site leaves: this incarnation holds nothing and never will again.
    GaveUp(Member),
    /// This site leads, and proposes a view.
    Proposed(View),
    /// This site leads, in this term.
    Leads(membership::Term),
    /// This site does not lead any more, and has not chosen to leave.
    LeadershipLost(membership::Term),
    /// The lease of this site has ended, and this site has not chosen to leave.
    LeaseEnded(VotersInReach),
    /// This site has a lease again, after so long without one.
    LeaseRegained { after: Span },
    /// Too few voters are reachable to elect a leader. Noted once the lease has ended.
    QuorumLost(VotersInReach),
    /// There is a leader again.
    QuorumRegained,
    /// A site is not a member any more.
    Departed { member: Member, how: Departure },
    /// This voter's disk lacks what another voter knows to have been on it: it was put back from an older copy, or has
    /// lost writes.
    DiskIsOld {
        /// The voter that knows it.
        by: SiteName,
    },
    /// This voter's disk is not the one that it first registered. The voter does not know what it has promised, and
    /// does not vote.
    DiskReplaced {
        /// The voter that says so.
        by: SiteName,
        /// The first incarnation that wrote to the registered disk.
        known: Incarnation,
        /// The first incarnation that wrote to this disk.
        disk: Incarnation,
    },
    /// This voter may not vote before more of these others have answered; at the very first start nearly all must be
    /// up.
    FirstStartWaits {
        /// Voters that have not answered.
        silent: Vec<SiteName>,
    },
    /// The voters have agreed on who votes.
    VotersChanged(Voters),
    /// This disk becomes that of the voter with this id.
    BecomesVoter { id: u64, disk: Incarnation },
    /// This site does not vote any more under this id.
    VotesNoMore { id: u64 },
    /// The voters have agreed on this access document.
    AccessAgreed(AgreedAccess),
    /// This site may not take part in the cluster, by its access document. Noted once for each reason.
    NotAdmitted {
        /// The name of this site.
        site: SiteName,
        /// The voter that says so.
        by: SiteName,
        why: JoinRefusal,
    },
    /// This site leads, and refuses another one by the access document. Noted once for each reason while it leads.
    JoinRefused { site: SiteName, why: JoinRefusal },
    /// This incarnation is too old to join, and a later one begins: the site's disk was lost and its clock set back, or
    /// its stamps are lower than those of sites that views no longer list.
    TooOld(Member),
    /// Two processes run under the name of a site that takes part, and the second one is refused.
    NameUsedTwice {
        /// The one that takes part: this process, if it is this site's name.
        member: Member,
        /// The incarnation of the other one.
        refused: Incarnation,
    },
    /// Another process runs under this site's name and takes part; this one is refused.
    NameTaken {
        /// The incarnation of the other one.
        member: Member,
        /// Where it is reached, if that is known here.
        address: Option<Address>,
    },
    /// This site leads, and there is no number left for the next view: the cluster cannot go on. Found another one.
    EpochsExhausted,
    /// This site is configured with other lease terms than the cluster has agreed on, and follows those of the cluster.
    OtherTerms { agreed: Terms, configured: Terms },
    /// Packets to this member arrive only through another one.
    Detour { site: SiteName, via: SiteName },
    /// Packets to this member arrive directly again.
    DetourEnded { site: SiteName },
    /// A packet of another cluster came, and was ignored: this site or the sender is misconfigured or uses a wrong
    /// address.
    OtherCluster { site: SiteName, cluster: ClusterId },
    /// A peer sent something that only a voter may send, and does not vote as far as this site knows. It has changed no state.
    Doubted { site: SiteName, why: String },
    /// This site leads and makes the first view, with the epoch 1 instead of the configured one: the program of a voter knows no other.
    NoFenceFloor { old: SiteName },
    /// A peer sent something that no correct peer sends. It has changed no state.
    Misbehaved { site: SiteName, why: String },
}

//! What a node tells whoever watches it.

use meshlock_protocol::Epoch;

use crate::founding::ClusterId;
use crate::lease::Terms;
use crate::membership;
use crate::names::{Incarnation, Member, SiteName};
use crate::view::View;

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
    /// This site is left out of the view, and begins a new incarnation.
    Excluded {
        /// The view.
        epoch: Epoch,
        /// The incarnation that is over.
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
    /// This voter's disk is not the one that it came with first. It does not know what it has promised, and does not vote.
    DiskReplaced {
        /// Who says so.
        by: SiteName,
        /// The incarnation that wrote to the first disk first.
        known: Incarnation,
        /// The incarnation that wrote to this one first.
        disk: Incarnation,
    },
    /// This voter may not vote before more of these others have answered; at the very first start nearly all must be up.
    FirstStartWaits {
        /// Those who have not.
        silent: Vec<SiteName>,
    },
    /// This incarnation is too old to be let in, and a later one begins: the site's disk was lost and its clock set back, or its stamps
    /// are behind those of sites that nobody remembers.
    TooOld(Member),
    /// This site leads, and there is no number left for the next view: this cluster is at its end. Found another one.
    EpochsExhausted,
    /// This site is configured with other terms than the cluster has agreed on, and goes by those.
    OtherTerms {
        /// What was agreed on.
        agreed: Terms,
        /// What the configuration says.
        configured: Terms,
    },
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

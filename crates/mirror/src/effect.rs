//! What a mirror asks its host to do, and what it has to know of its surroundings.

use meshlock_cluster::access::Principal;
use meshlock_cluster::claim::{Proof, ProvedHold};
use meshlock_cluster::lease::Terms;
use meshlock_cluster::names::{ClientLabel, SiteName};
use meshlock_cluster::table::ClaimRefusal;
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::calls::ForwardedCaller;
use meshlock_wire::sites::mirror::{MirroredKey, MirroredSession};

use crate::{LeaseId, Vouched};

/// Number of a claim among those of one mirror. Numbers are never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimNumber(pub(crate) u64);

/// What a claim has come to, as the host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// Nothing is known of it yet.
    Asked,
    /// It stands, and the site that granted the lock is in the view.
    Pending,
    /// The lock is held through this site.
    Settled,
    /// It was refused for now, or the lock was lost. It can be claimed anew.
    Lost,
    /// It was refused in a way that does not change by itself.
    Refused,
}

impl ClaimState {
    /// Returns the state of a claim that was refused: another attempt may succeed when this site knows the key of the other one, has a lease
    /// again, or has installed the view of the others.
    pub fn refused(why: ClaimRefusal) -> Self {
        match why {
            ClaimRefusal::UnknownKey | ClaimRefusal::NoLease | ClaimRefusal::NotMember => ClaimState::Lost,
            ClaimRefusal::BadProof
            | ClaimRefusal::NothingToClaim
            | ClaimRefusal::ReservationOver
            | ClaimRefusal::Leaving
            | ClaimRefusal::ShareTaken
            | ClaimRefusal::TooMany
            | ClaimRefusal::DuplicateRequest => ClaimState::Refused,
        }
    }

    /// Returns whether it may still come to something else.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, ClaimState::Asked | ClaimState::Pending)
    }

    pub(crate) fn is_lost(self) -> bool {
        matches!(self, ClaimState::Lost | ClaimState::Refused)
    }
}

/// What a mirror has to know whenever it decides something.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub now: Time,
    /// The terms of leases that were agreed on.
    pub terms: Terms,
    /// Whether the mirror's own site leaves.
    pub leaves: bool,
    /// What has become of a claim.
    pub claims: &'a dyn Fn(ClaimNumber) -> ClaimState,
    /// Whether a client is shut out.
    pub is_revoked: &'a dyn Fn(&Principal) -> bool,
}

/// A claim of a lock that a session of another site holds.
#[derive(Clone, Debug)]
pub struct NewClaim {
    pub claim: ClaimNumber,
    pub owner: ForwardedCaller,
    /// By which other sites know the client.
    pub label: ClientLabel,
    /// For how long the session's client asked.
    pub lasts: Span,
    pub proof: Proof,
}

/// A session of another site that this site answers for from now on.
#[derive(Clone, Debug)]
pub struct Adoption {
    pub lease: LeaseId,
    pub told: MirroredSession,
    /// Its keys, with what each holds.
    pub keys: Vec<(ClaimNumber, MirroredKey, ProvedHold)>,
    pub vouched: Vouched,
    /// When the session ends, unless its client comes before.
    pub end: Time,
}

/// What a mirror asks its host to do, in this order.
#[derive(Clone, Debug)]
pub enum MirrorEffect {
    /// Claim a lock.
    Claim(Box<NewClaim>),
    /// Give up a claim.
    GiveUp(ClaimNumber),
    /// Answer for a session. The host says [whether it does](crate::Mirror::on_adopted).
    Adopt(Box<Adoption>),
    /// Say of a session that is adopted who vouches for it. If it has ended here meanwhile, the host [says so](crate::Mirror::on_over).
    Vouch { lease: LeaseId, vouched: Vouched },
    /// Do not answer for a session any more: the site that has it answers again, or it is over.
    Withdraw { lease: LeaseId, is_over: bool },
    /// A session that is adopted is this site's own from now on, with what these claims hold.
    TakeOver { lease: LeaseId, from: SiteName, claims: Vec<ClaimNumber> },
}

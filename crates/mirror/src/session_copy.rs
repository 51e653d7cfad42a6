//! The copy of one session at a mirror, and this site's claims of what it holds.

use meshlock_cluster::claim::{Proof, ProvedHold};
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::{ClientLabel, Member};
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::mirror::{MirroredKey, MirroredSession};

use crate::{Adoption, ClaimNumber, ClaimState, LeaseId, MirrorEffect, NewClaim, Surroundings, Vouched};

/// The copy of one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionCopy {
    told: MirroredSession,
    pub(crate) keys: Vec<KeyCopy>,
    pub(crate) adopted: Adopted,
    /// Some of its claims were made when it was told last, and it was not looked yet what has become of them.
    pub(crate) is_fresh: bool,
    /// Until when its client may count on what this site has said, although it does not answer for the session any more.
    pub(crate) promised_until: Time,
}

/// Whether this site answers for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    No,
    /// The host was asked to.
    Asked,
    Yes,
    /// The host could not: this site has a session or a key of the same name, or too many.
    Refused,
}

/// The copy of a key, and this site's claim of its lock.
#[derive(Clone, Debug)]
pub(crate) struct KeyCopy {
    told: MirroredKey,
    hold: ProvedHold,
    pub(crate) claim: ClaimNumber,
}

impl SessionCopy {
    /// Copies a session, with those of the claims that are of its keys; the others stay in `claims`. `None` if it cannot be taken over.
    pub(crate) fn new(
        source: &Member,
        told: MirroredSession,
        claims: &mut Vec<KeyCopy>,
        at: &Surroundings<'_>,
        last_claim: &mut ClaimNumber,
        out: &mut Vec<MirrorEffect>,
    ) -> Option<Self> {
        let is_revoked =
            |principal: &_| (at.is_revoked)(principal) && !mutant::is_on(Mutant::RevokedClientCopied);
        told.owner.principal().filter(|principal| !is_revoked(principal))?;
        // A claim that was lost is in the way of a new one.
        for lost in claims.extract_if(.., |key| (at.claims)(key.claim).is_lost()) {
            out.push(MirrorEffect::GiveUp(lost.claim));
        }
        let (mut keys, mut is_fresh) = (Vec::new(), false);
        for key in &told.keys {
            let known = claims.iter().position(|known| known.told.proof == key.proof);
            keys.extend(if let Some(at) = known {
                Some(KeyCopy { told: key.clone(), ..claims.swap_remove(at) })
            } else {
                is_fresh = true;
                claim_key(source, &told, key, last_claim, out)
            });
        }
        if keys.len() < told.keys.len() {
            claims.append(&mut keys);
            return None;
        }
        let (adopted, promised_until) = (Adopted::No, Time::ZERO);
        Some(SessionCopy { told, keys, adopted, is_fresh, promised_until })
    }

    /// Returns whether some of its claims is in one of these states.
    pub(crate) fn has(&self, at: &Surroundings<'_>, is_meant: impl Fn(ClaimState) -> bool) -> bool {
        self.keys.iter().any(|key| is_meant((at.claims)(key.claim)))
    }

    /// Returns whether its client may count on what this site has said.
    pub(crate) fn is_relied_on(&self, now: Time) -> bool {
        let answers = match self.adopted {
            Adopted::Asked | Adopted::Yes => true,
            Adopted::No | Adopted::Refused => false,
        };
        answers || now < self.promised_until
    }

    /// Returns the proofs of what it holds.
    pub(crate) fn proofs(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &key.told.proof[..])
    }

    /// Asks the host to answer for the session, which ends within `window` after `sent` unless its client comes.
    pub(crate) fn adopt(
        &mut self,
        lease: LeaseId,
        vouched: Vouched,
        (sent, window): (Time, Span),
    ) -> MirrorEffect {
        self.adopted = Adopted::Asked;
        let end = sent + Span::from_micros(self.told.lasts).min(window);
        let keys = self.keys.iter().map(|key| (key.claim, key.told.clone(), key.hold.clone())).collect();
        MirrorEffect::Adopt(Box::new(Adoption { lease, told: self.told.clone(), keys, vouched, end }))
    }

    /// Leaves the session to the site that has it.
    pub(crate) fn withdraw(&mut self, lease: LeaseId, out: &mut Vec<MirrorEffect>) {
        if self.adopted == Adopted::Yes {
            out.push(MirrorEffect::Withdraw { lease, is_over: false });
        }
        self.adopted = Adopted::No;
    }

    /// Gives the claims up of a copy that is dropped.
    pub(crate) fn end(self, lease: LeaseId, out: &mut Vec<MirrorEffect>) {
        if self.adopted == Adopted::Yes {
            out.push(MirrorEffect::Withdraw { lease, is_over: true });
        }
        out.extend(self.keys.into_iter().map(|key| MirrorEffect::GiveUp(key.claim)));
    }
}

/// Claims the lock of a key, if the site that is mirrored has proved it.
fn claim_key(
    source: &Member,
    session: &MirroredSession,
    key: &MirroredKey,
    last_claim: &mut ClaimNumber,
    out: &mut Vec<MirrorEffect>,
) -> Option<KeyCopy> {
    let proof = Proof::from_bytes(&key.proof).ok().filter(|proof| proof.hold().holder == *source)?;
    let label: ClientLabel = key.label.parse().ok()?;
    last_claim.0 += 1;
    let (claim, hold) = (*last_claim, proof.hold().clone());
    let (owner, lasts) = (session.owner.clone(), Span::from_micros(session.lasts));
    out.push(MirrorEffect::Claim(Box::new(NewClaim { claim, owner, label, lasts, proof })));
    Some(KeyCopy { told: key.clone(), hold, claim })
}

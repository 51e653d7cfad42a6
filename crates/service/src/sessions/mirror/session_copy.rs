//! The copy of one session at a mirror: its claims, and its way into the registry and out again.

use std::sync::Arc;

use meshlock_cluster::access::Principal;
use meshlock_cluster::claim::Proof;
use meshlock_cluster::names::{ClientLabel, Member};
use meshlock_cluster::table::ClaimRefusal;
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{AcquireState, Ended, NotGranted};
use meshlock_host::gate::{Caller, CallerOrigin, RequestId};
use meshlock_wire::sites::mirror::{MirroredKey, MirroredSession};

use super::mutant::{self, MirrorMutant};
use crate::sessions::Inner;
use crate::sessions::key::{KeyAcquisition, KeyObserver};
use crate::sessions::registry::{AdoptedKey, AdoptedSession, KeyGrant, KeyId, LeaseId, Vouched};

/// The copy of one session.
pub(super) struct SessionCopy {
    pub(super) told: MirroredSession,
    pub(super) owner: Caller,
    pub(super) label: Option<ClientLabel>,
    pub(super) keys: Vec<KeyCopy>,
    /// It is in the registry: this site answers for it.
    pub(super) is_adopted: bool,
    /// Until when its client may count on what this site has said, although it does not answer for the session any more.
    pub(super) promised_until: Time,
}

/// The copy of a key, and this site's claim of its lock.
pub(super) struct KeyCopy {
    pub(super) told: MirroredKey,
    proof: Proof,
    id: KeyId,
    pub(super) claim: Arc<KeyAcquisition>,
}

/// What a key's claim has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    Pending,
    Settled,
    Lost,
}

impl KeyCopy {
    fn state(&self) -> ClaimState {
        match self.claim.state() {
            AcquireState::Held(_) if self.claim.observer().is_settled() => ClaimState::Settled,
            AcquireState::Held(_) | AcquireState::Waiting => ClaimState::Pending,
            AcquireState::Lost { .. } | AcquireState::Ended(_) => ClaimState::Lost,
        }
    }

    /// Returns whether the claim was refused in a way that does not change by itself.
    fn is_hopeless(&self) -> bool {
        match self.claim.state() {
            AcquireState::Ended(Ended::NotGranted(NotGranted::NotClaimed(why))) => {
                !matches!(why, ClaimRefusal::UnknownKey | ClaimRefusal::NoLease | ClaimRefusal::NotMember)
            }
            AcquireState::Ended(_) => true,
            AcquireState::Waiting | AcquireState::Held(_) | AcquireState::Lost { .. } => false,
        }
    }
}

impl SessionCopy {
    pub(super) fn has(&self, state: ClaimState) -> bool {
        self.keys.iter().any(|key| key.state() == state)
    }

    /// Returns whether its client may count on what this site has said.
    pub(super) fn is_relied_on(&self, now: Time) -> bool {
        self.is_adopted || now < self.promised_until
    }
}

impl Inner {
    /// Copies a session, with those of the claims that are of its keys; the others stay in `claims`. `None` if it cannot be taken over.
    pub(super) fn copy(
        self: &Arc<Self>,
        source: &Member,
        told: MirroredSession,
        claims: &mut Vec<KeyCopy>,
    ) -> Option<SessionCopy> {
        let is_refused = |principal: &Principal| {
            self.front().is_revoked(principal) && !mutant::is_on(MirrorMutant::RevokedClientCopied)
        };
        let principal = told.owner.principal().filter(|principal| !is_refused(principal))?;
        let (origin, request) =
            (CallerOrigin::Network(told.owner.address), RequestId::of(told.owner.request));
        let owner = Caller { principal, origin, request, certificate: None };
        let label = told.label.as_deref().and_then(|label| label.parse().ok());
        // A claim that was lost is in the way of a new one.
        for lost in claims.extract_if(.., |claim| claim.state() == ClaimState::Lost) {
            lost.claim.close(Ended::SessionOver);
        }
        let mut keys = Vec::new();
        for key in &told.keys {
            let known = claims.iter().position(|known| known.told.proof == key.proof);
            let copy = match known {
                Some(at) => Some(KeyCopy { told: key.clone(), ..claims.swap_remove(at) }),
                None => self.claim_key(source, &owner, Span::from_micros(told.lasts), key),
            };
            keys.extend(copy);
        }
        if keys.len() < told.keys.len() || keys.iter().any(KeyCopy::is_hopeless) {
            claims.append(&mut keys);
            return None;
        }
        Some(SessionCopy { told, owner, label, keys, is_adopted: false, promised_until: Time::ZERO })
    }

    /// Claims the lock of a key.
    fn claim_key(
        self: &Arc<Self>,
        source: &Member,
        owner: &Caller,
        lasts: Span,
        told: &MirroredKey,
    ) -> Option<KeyCopy> {
        let proof = Proof::from_bytes(&told.proof).ok().filter(|proof| proof.hold().holder == *source)?;
        let label: ClientLabel = told.label.parse().ok()?;
        let observer = KeyObserver::new(Arc::downgrade(self), label.clone());
        let id = self.registry().new_key_id();
        let _ = observer.key.set(id);
        let owner = self.front().on_behalf_of(owner.clone());
        let claim = self.front().prepare(&owner, &proof.hold().lock, observer);
        claim.stand_in(label, Some(lasts), proof.clone());
        Some(KeyCopy { told: told.clone(), proof, id, claim })
    }

    /// Puts a session into the registry, so that this site answers for it. It ends within `window` after `sent` unless its client comes.
    pub(super) fn adopt(
        &self,
        lease: LeaseId,
        session: &mut SessionCopy,
        vouched: Vouched,
        (sent, window): (Time, Span),
    ) {
        let keys = session.keys.iter().map(|key| {
            let hold = key.proof.hold();
            AdoptedKey {
                id: key.id,
                name: key.told.name.clone(),
                lock: hold.lock.clone(),
                value: key.told.value.clone(),
                grant: KeyGrant { fence: hold.fence.value(), slot: hold.slot },
                revisions: [key.told.created, key.told.modified, key.told.version],
                driver: key.claim.clone(),
            }
        });
        let lasts = Span::from_micros(session.told.lasts);
        let adopted = AdoptedSession {
            lease,
            owner: session.owner.clone(),
            who: session.label.clone(),
            lasts,
            delay: Span::from_micros(session.told.delay),
            vouched,
        };
        let keys = keys.collect();
        let done = self.registry().adopt(adopted, keys, sent + lasts.min(window));
        if let Err(why) = done {
            tracing::debug!(%lease, %why, "a session of another site is not adopted");
            return;
        }
        session.is_adopted = true;
        self.set_elsewhere(lease, false);
        if let (Some(companion), Some(told)) = (self.companion.get(), &session.told.consul) {
            companion.adopt(lease, lasts, told);
        }
        self.alarm.notify_one();
        self.note_change();
    }

    /// Removes a session from the registry, because the site that has it answers again.
    pub(super) fn withdraw(&self, lease: LeaseId, session: &mut SessionCopy) {
        session.is_adopted = false;
        self.set_elsewhere(lease, true);
        self.registry().withdraw(lease);
        self.note_change();
    }

    /// Forgets the copy of a session, and gives up the claims of what it holds.
    pub(super) fn drop_copy(&self, lease: LeaseId, mut session: SessionCopy) {
        if session.is_adopted {
            self.withdraw(lease, &mut session);
            self.stopping.note_loss();
        }
        for key in session.keys {
            key.claim.close(Ended::SessionOver);
        }
    }
}

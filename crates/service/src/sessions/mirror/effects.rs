//! What the mirror's machine asks for, carried out: claims at the node, and sessions in the registry.

use std::collections::HashMap;
use std::sync::Arc;

use meshlock_cluster::access::Principal;
use meshlock_cluster::names::{ClientLabel, Member};
use meshlock_cluster::time::{Span, Time};
use meshlock_host::front::{AcquireState, Ended, NotGranted};
use meshlock_host::gate::{Caller, CallerOrigin, RequestId};
use meshlock_mirror::{Adoption, ClaimNumber, ClaimState, Mirror, MirrorEffect, NewClaim, Surroundings};
use meshlock_wire::sites::calls::ForwardedCaller;
use meshlock_wire::sites::mirror::MirrorNews;

use crate::sessions::key::{KeyAcquisition, KeyObserver};
use crate::sessions::registry::{AdoptedKey, AdoptedSession, KeyGrant, KeyId, LeaseId, Vouched};
use crate::sessions::{Inner, Sessions};

/// The mirror's machine, and the claims that it has made.
#[derive(Default)]
pub(super) struct Following {
    pub(super) mirror: Mirror,
    /// Of which view the machine knows the members.
    epoch: u32,
    claims: Claims,
}

/// The claims of the mirror that are not given up.
#[derive(Default)]
struct Claims(HashMap<ClaimNumber, KeyClaim>);

/// A claim, and the id of the key that its session will have here.
struct KeyClaim {
    id: KeyId,
    claim: Arc<KeyAcquisition>,
}

impl Claims {
    fn state(&self, number: ClaimNumber) -> ClaimState {
        let Some(KeyClaim { claim, .. }) = self.0.get(&number) else { return ClaimState::Refused };
        match claim.state() {
            AcquireState::Held(_) if claim.observer().is_settled() => ClaimState::Settled,
            AcquireState::Held(_) => ClaimState::Pending,
            AcquireState::Waiting => ClaimState::Asked,
            AcquireState::Lost { .. } => ClaimState::Lost,
            AcquireState::Ended(Ended::NotGranted(NotGranted::NotClaimed(why))) => ClaimState::refused(why),
            AcquireState::Ended(_) => ClaimState::Refused,
        }
    }

    fn give_up(&mut self, number: ClaimNumber) {
        if let Some(KeyClaim { claim, .. }) = self.0.remove(&number) {
            claim.close(Ended::SessionOver);
        }
    }
}

impl Following {
    /// Looks who takes part, if that may have changed: the node's lock is for locks.
    fn look_at_view(&mut self, here: &Sessions) {
        let (front, epoch) = (here.front(), here.front().epoch());
        if epoch != self.epoch {
            self.epoch = epoch;
            self.mirror.on_view(here.site(), front.is_member().then(|| front.other_members()));
        }
    }

    /// Looks who is there and who is silent, and does what follows from it.
    pub(super) fn look(&mut self, here: &Sessions, now: Time) {
        self.look_at_view(here);
        self.decide(here, now, |mirror, at, out| mirror.look(at, out));
    }

    /// Handles an answer to a question that was sent at `sent`. Returns whether it can be asked again at once.
    pub(super) fn on_news(
        &mut self,
        here: &Sessions,
        source: &Member,
        news: MirrorNews,
        (sent, now): (Time, Time),
    ) -> bool {
        self.decide(here, now, |mirror, at, out| mirror.on_news(source, news, sent, at, out))
    }

    /// Lets the machine decide, and does what it asks for.
    pub(super) fn decide<T>(
        &mut self,
        here: &Sessions,
        now: Time,
        decide: impl FnOnce(&mut Mirror, &Surroundings<'_>, &mut Vec<MirrorEffect>) -> T,
    ) -> T {
        let front = here.front();
        let is_revoked = |principal: &Principal| front.is_revoked(principal);
        let (terms, leaves, claims) = (front.lease_terms(), front.is_leaving(), &self.claims);
        let claims = |number| claims.state(number);
        let at = Surroundings { now, terms, leaves, claims: &claims, is_revoked: &is_revoked };
        let mut out = Vec::new();
        let decided = decide(&mut self.mirror, &at, &mut out);
        while !out.is_empty() {
            for effect in std::mem::take(&mut out) {
                self.perform(here, effect, &mut out);
            }
        }
        here.meter().set_mirrored(self.mirror.sessions());
        decided
    }

    /// Carries out one effect. What the machine asks for because of it is added to `out`.
    fn perform(&mut self, here: &Sessions, effect: MirrorEffect, out: &mut Vec<MirrorEffect>) {
        match effect {
            MirrorEffect::Claim(wanted) => {
                let number = wanted.claim;
                if let Some(claim) = here.0.claim(*wanted) {
                    self.claims.0.insert(number, claim);
                }
            }
            MirrorEffect::GiveUp(number) => self.claims.give_up(number),
            MirrorEffect::Adopt(adoption) => {
                let is_adopted = here.0.adopt(&adoption, &self.claims);
                self.mirror.on_adopted(adoption.lease, is_adopted);
            }
            MirrorEffect::Vouch { lease, vouched } => {
                if !here.registry().set_vouched(lease, vouched) {
                    self.mirror.on_over(lease, out);
                }
            }
            MirrorEffect::Withdraw { lease, is_over } => {
                here.0.withdraw(lease);
                if is_over {
                    here.0.stopping.note_loss();
                }
            }
            MirrorEffect::TakeOver { lease, from, claims } => {
                tracing::info!(%lease, %from, locks = claims.len(), "took over a session");
                here.registry().set_vouched(lease, Vouched::Here);
                here.0.note_change();
                for number in claims {
                    self.claims.0.remove(&number);
                }
            }
        }
    }
}

/// Returns the client in whose name another member claims.
fn owner(told: &ForwardedCaller) -> Option<Caller> {
    let (origin, request) = (CallerOrigin::Network(told.address), RequestId::of(told.request));
    Some(Caller { principal: told.principal()?, origin, request, certificate: None })
}

impl Inner {
    /// Claims the lock of a key.
    fn claim(self: &Arc<Self>, wanted: NewClaim) -> Option<KeyClaim> {
        let NewClaim { owner: told, label, lasts, proof, .. } = wanted;
        let observer = KeyObserver::new(Arc::downgrade(self), label.clone());
        let id = self.registry().new_key_id();
        let _ = observer.key.set(id);
        let owner = self.front().on_behalf_of(owner(&told)?);
        let claim = self.front().prepare(&owner, &proof.hold().lock, observer);
        claim.stand_in(label, Some(lasts), proof);
        Some(KeyClaim { id, claim })
    }

    /// Puts a session into the registry, so that this site answers for it. Returns whether it could.
    fn adopt(&self, adoption: &Adoption, claims: &Claims) -> bool {
        let Adoption { lease, told, vouched, end, .. } = adoption;
        let keys = adoption.keys.iter().map(|(number, key, hold)| {
            let KeyClaim { id, claim } = claims.0.get(number)?;
            Some(AdoptedKey {
                id: *id,
                name: key.name.clone(),
                lock: hold.lock.clone(),
                value: key.value.clone(),
                grant: KeyGrant { fence: hold.fence.value(), slot: hold.slot },
                revisions: [key.created, key.modified, key.version],
                driver: claim.clone(),
            })
        });
        let (Some(keys), Some(owner)) = (keys.collect::<Option<Vec<_>>>(), owner(&told.owner)) else {
            return false;
        };
        let who: Option<ClientLabel> = told.label.as_deref().and_then(|label| label.parse().ok());
        let [lasts, delay] = [told.lasts, told.delay].map(Span::from_micros);
        let adopted = AdoptedSession { lease: *lease, owner, who, lasts, delay, vouched: *vouched };
        if let Err(why) = self.registry().adopt(adopted, keys, *end) {
            tracing::debug!(%lease, %why, "a session of another site is not adopted");
            return false;
        }
        self.set_elsewhere(*lease, false);
        if let (Some(companion), Some(told)) = (self.companion.get(), &told.consul) {
            companion.adopt(*lease, lasts, told);
        }
        self.alarm.notify_one();
        self.note_change();
        true
    }

    /// Removes a session from the registry, because the site that has it answers again, or it is over.
    fn withdraw(&self, lease: LeaseId) {
        self.set_elsewhere(lease, true);
        self.registry().withdraw(lease);
        self.note_change();
    }
}

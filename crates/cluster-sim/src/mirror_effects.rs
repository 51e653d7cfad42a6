//! What the mirror's machine asks for, carried out at the simulated node and in its site's sessions, as
//! `crates/service/src/sessions/mirror/effects.rs` does.

use super::coverage::Occurrence;
use super::mirror_faults::MirrorPoint;
use super::properties::{CheckResult, broken};
use super::site_sessions::{MirrorClaim, SiteKey, SiteSession};
use super::world::World;
use meshlock_cluster::claim::Reserved;
use meshlock_cluster::node::{ClientAnswer, ClientCall};
use meshlock_cluster::table::{ClaimEvent, LockClaim};
use meshlock_mirror::{Adoption, ClaimState, LeaseId, MirrorEffect, NewClaim, Vouched};

impl World {
    /// Carries out what the mirror's machine asks for.
    pub(super) fn perform_effect(
        &mut self,
        machine: usize,
        effect: MirrorEffect,
        out: &mut Vec<MirrorEffect>,
    ) -> CheckResult {
        match effect {
            MirrorEffect::Claim(wanted) => return self.claim_for_mirror(machine, *wanted),
            MirrorEffect::GiveUp(number) => {
                if let Some(claim) = self.sites[machine].claims.remove(&number) {
                    return self.site_calls(machine, ClientCall::SessionEnded(claim.session));
                }
            }
            MirrorEffect::Adopt(adoption) => {
                let is_adopted = self.adopt_session(machine, &adoption);
                self.sites[machine].mirror.on_adopted(adoption.lease, is_adopted);
                if let Some((_, _, hold)) = adoption.keys.first() {
                    let (source, mirror) = (&hold.holder.site, self.names[machine].clone());
                    self.on_mirror_point(MirrorPoint::Adopted, source, &mirror)?;
                }
            }
            MirrorEffect::Vouch { lease, vouched } => {
                let site = &mut self.sites[machine];
                site.source.on_change(lease);
                match site.all.get_mut(&lease) {
                    Some(session) => session.vouched = vouched,
                    None => site.mirror.on_over(lease, out),
                }
            }
            MirrorEffect::Withdraw { lease, .. } => {
                let site = &mut self.sites[machine];
                let source = site.mirror.source_of(lease).map(|source| source.site.clone());
                site.all.remove(&lease);
                site.source.on_change(lease);
                if let Some(source) = source {
                    let mirror = self.names[machine].clone();
                    self.on_mirror_point(MirrorPoint::Withdrawn, &source, &mirror)?;
                }
            }
            MirrorEffect::TakeOver { lease, claims, .. } => {
                let site = &mut self.sites[machine];
                site.source.on_change(lease);
                for number in &claims {
                    site.claims.remove(number);
                }
                if let Some(session) = site.all.get_mut(&lease) {
                    session.vouched = Vouched::Here;
                }
                return self.judge_taken_over(machine, lease);
            }
        }
        Ok(())
    }

    /// Checks a session that has become its mirror's own: what it holds was not acknowledged as released.
    fn judge_taken_over(&mut self, machine: usize, lease: LeaseId) -> CheckResult {
        let key = self.sites[machine].all.get(&lease).and_then(|session| session.key.clone());
        let Some(SiteKey { lock, fence: Some(fence), request, .. }) = key else { return Ok(()) };
        self.coverage.record(Occurrence::MirrorTakesOver);
        if self.wire_relies_on(request) {
            self.coverage.record(Occurrence::MirrorKeeps);
        }
        if self.wire.acknowledged.contains(&lease) && self.settings.keeps_drift(usize::MAX) {
            let what = format!("s{machine} holds {lock} with fence {fence}, whose release was acknowledged");
            return broken("releases", self.now, what);
        }
        Ok(())
    }

    fn claim_for_mirror(&mut self, machine: usize, wanted: NewClaim) -> CheckResult {
        let hold = wanted.proof.hold().clone();
        let lease = i64::try_from(wanted.owner.request).ok().and_then(LeaseId::new);
        let lease = lease.expect("the number that this simulation gives");
        let (session, request) = self.new_wire_request(lease, &hold.lock, hold.permits);
        let claim = MirrorClaim { request, session, state: ClaimState::Pending };
        self.sites[machine].claims.insert(wanted.claim, claim);
        let reacts_within = wanted.lasts;
        self.site_calls(machine, ClientCall::Introduce { session, who: wanted.label, reacts_within })?;
        let claim = LockClaim { session, request, proof: wanted.proof, reserved: Reserved::Standing };
        self.site_calls(machine, ClientCall::Claim(Box::new(claim)))
    }

    /// Lets a site answer for a session. Returns whether it does.
    fn adopt_session(&mut self, machine: usize, adoption: &Adoption) -> bool {
        let Adoption { lease, keys, vouched, end, .. } = adoption;
        let site = &mut self.sites[machine];
        let Some((number, key, hold)) = keys.first() else { return false };
        let Some(claim) = site.claims.get(number).filter(|_| !site.all.contains_key(lease)) else {
            return false;
        };
        let (request, session) = (claim.request, claim.session);
        let (fence, proof) = (Some(hold.fence), None);
        debug_assert_eq!(key.name, hold.lock.as_str().as_bytes());
        let key = Some(SiteKey { request, session, lock: hold.lock.clone(), fence, proof });
        site.all.insert(*lease, SiteSession { end: *end, vouched: *vouched, is_lost: false, key });
        site.source.on_change(*lease);
        true
    }

    /// Handles what a node says to the sessions of its site: of their proofs, and of the mirror's claims.
    pub(super) fn tell_sessions(&mut self, machine: usize, answer: &ClientAnswer) -> CheckResult {
        if let ClientAnswer::Lock(event) = answer {
            return self.wire_told(machine, event);
        }
        if let ClientAnswer::Proof { request, proof: Some(proof) } = answer {
            let lease = self.wire.requests.get(request);
            let session = lease.and_then(|lease| self.sites[machine].all.get_mut(lease));
            let key = session.and_then(|session| session.key.as_mut());
            if let Some(key) = key.filter(|key| key.request == *request) {
                key.proof = Some(proof.to_bytes());
            }
        }
        if let ClientAnswer::Claim(event) = answer {
            let request = event.request();
            let state = match event {
                ClaimEvent::Pending { .. } => ClaimState::Pending,
                ClaimEvent::Settled { .. } => ClaimState::Settled,
                ClaimEvent::Refused { why, .. } => ClaimState::refused(*why),
            };
            let mut claims = self.sites[machine].claims.values_mut();
            if let Some(claim) = claims.find(|claim| claim.request == request) {
                claim.state = state;
            }
        }
        Ok(())
    }
}

//! Mirrors of movers: another site claims what a mover holds as soon as it hears of it, and keeps the claim while the mover's site is well.
//!
//! When that site dies, leaves or is cut off, the mover goes on through the claim that stands there already, if it was made in
//! time. When the mover has released the lock, the mirror hears of it late; if the site dies before, it holds a lock for nobody for a while.
//! In a quarter of the runs with movers most holds have a mirror.

use super::client::Asked;
use super::clock::Moment;
use super::coverage::Occurrence;
use super::event::Event;
use super::movers::{MoverConnection, MoverEvent};
use super::moving::NO_CLIENT;
use super::properties::PropertyViolation;
use super::properties::exclusion::ObservedClaim;
use super::world::World;
use meshlock_cluster::claim::Reserved;
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::table::{LockClaim, Request};

/// One in this many holds of a run with mirrors has none.
const ONE_WITHOUT: u64 = 4;

/// The mirror of a mover's hold.
#[derive(Clone, Debug)]
pub(super) struct MoverMirror {
    /// The session of the claim, at the mirror's site.
    connection: MoverConnection,
    claim: Request,
    /// The hold that is claimed, as the mover names it.
    of: Request,
    /// When the claim reaches the site.
    made_by: Moment,
    /// The site has accepted the claim, and has not said that it is lost.
    stands: bool,
}

impl World {
    /// Lets another site claim what a mover holds, now that its proof is known.
    pub(super) fn mirror_hold(&mut self, mover: usize) {
        self.drop_mirror(mover);
        let Some(hold) = self.movers.all[mover].hold().cloned() else { return };
        let Some(proof) = hold.proof.clone() else { return };
        let Some(draw) = &mut self.movers.mirror_draw else { return };
        if self.calm || draw.u64(..ONE_WITHOUT) == 0 {
            return;
        }
        // Most mirrors hear of it at once, some late.
        let delay = if draw.u64(..4) == 0 { draw.u64(..2_000_000) } else { draw.u64(..2000) };
        let choice = draw.usize(..self.machines.len());
        let at = (0..self.machines.len()).map(|step| (choice + step) % self.machines.len());
        let Some(machine) = at.into_iter().find(|at| *at != hold.machine && self.is_up(*at)) else { return };
        let connection = self.connect_mover(machine);
        let (claim, session, incarnation) = (self.new_request(), connection.session, connection.incarnation);
        let (lock, permits) = (hold.lock.clone(), hold.permits);
        self.asked.insert(claim, Asked { lock, permits, session, client: NO_CLIENT });
        self.movers.requests.insert(claim, mover);
        let made_by = self.now.after(delay);
        let standing = LockClaim { session, request: claim, proof, reserved: Reserved::Standing };
        let call = ClientCall::Claim(Box::new(standing));
        self.at(made_by, Event::Call { machine, incarnation, call });
        let mirror = MoverMirror { connection, claim, of: hold.request, made_by, stands: false };
        self.movers.mirrors.insert(mover, mirror);
    }

    /// Gives up the claim of a mover's mirror, which hears a while later that the mover does not need it any more. If the site of the mover
    /// dies before, two may claim the lock.
    pub(super) fn drop_mirror(&mut self, mover: usize) {
        let Some(mirror) = self.movers.mirrors.remove(&mover) else { return };
        if let Some(asked) = self.asked.get(&mirror.claim) {
            self.movers.contested.insert(asked.lock.clone());
        }
        let late = self.movers.mirror_draw.as_mut().map_or(0, |draw| draw.u64(..1_000_000));
        let at = self.now.after(late).max(mirror.made_by.after(1));
        let MoverConnection { machine, incarnation, session, .. } = mirror.connection;
        self.at(at, Event::Call { machine, incarnation, call: ClientCall::SessionEnded(session) });
    }

    /// Lets a mover that has lost its site go on through its mirror. That site was heard of last at `contact`, unless it gives up nothing
    /// any more. Returns whether there is a mirror that can be gone to.
    pub(super) fn go_to_mirror(
        &mut self,
        mover: usize,
        contact: Option<Moment>,
    ) -> Result<bool, PropertyViolation> {
        let hold = self.movers.all[mover].hold().cloned().filter(|hold| self.believes(hold));
        let is_of = |mirror: &MoverMirror, of: Request| mirror.of == of && mirror.stands;
        let usable = self.movers.mirrors.get(&mover).cloned().zip(hold);
        let usable = usable.filter(|(mirror, hold)| is_of(mirror, hold.request) && hold.claim.is_none());
        let Some((mirror, hold)) = usable else { return Ok(false) };
        let machine = mirror.connection.machine;
        let host = &self.machines[machine];
        let now = host.clock.at(self.now);
        let node = host.node.as_ref().filter(|_| host.incarnation == mirror.connection.incarnation);
        let Some(node) = node else { return Ok(false) };
        let Some(until) = node.lease().end().filter(|end| *end > now) else { return Ok(false) };
        // The terms that were agreed on, and not those of this site's own configuration.
        let window = node.view().terms.resume_window();
        let cap = contact.map(|contact| (machine, host.clock.at(contact) + window));
        if cap.is_some_and(|(_, cap)| cap <= now) {
            return Ok(false);
        }
        self.movers.mirrors.remove(&mover);
        self.coverage.record(Occurrence::MirrorTakesOver);
        self.exclusion.on_left(hold.request);
        let (request, session) = (mirror.claim, mirror.connection.session);
        if let Some(cap) = cap {
            self.movers.caps.insert(request, cap);
        }
        let (lock, permits) = (hold.lock.clone(), hold.permits);
        let claim =
            ObservedClaim { request, session, lock: &lock, machine, until, cap, permits, mover: Some(mover) };
        self.exclusion.on_claimed(claim, self.now)?;
        if let Some(hold) = self.movers.all[mover].hold_mut() {
            (hold.request, hold.session, hold.machine) = (request, session, machine);
            (hold.until, hold.cap) = (until, cap);
        }
        self.close_mover(mover);
        self.movers.all[mover].connection = Some(mirror.connection);
        if let Some((machine, cap)) = cap {
            // It stops by then if the claim is not settled before.
            let left = self.moment(machine, cap).0.saturating_sub(self.now.0);
            self.mover_after(mover, left, MoverEvent::CapOver(request));
        }
        Ok(true)
    }

    /// Notes what a site says of a mirror's claim.
    pub(super) fn note_mirror(&mut self, claim: Request, stands: bool) {
        let of_claim = self.movers.mirrors.values_mut().find(|mirror| mirror.claim == claim);
        if let Some(mirror) = of_claim {
            mirror.stands = stands;
        }
    }

    /// Lets a mover stop whose mirror can promise nothing more.
    pub(super) fn mirror_cap_over(&mut self, mover: usize, request: Request) {
        let hold = self.movers.all[mover].hold();
        if hold.is_some_and(|hold| hold.request == request && !self.believes(hold)) {
            self.mover_leaves(mover);
        }
    }
}

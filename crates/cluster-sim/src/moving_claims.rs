//! Claims of movers and of strays, how they are judged and answered; and the faults that concern them.

use meshlock_protocol::{Epoch, FenceClock, Mode};

use super::client::Asked;
use super::clock::Moment;
use super::coverage::Occurrence;
use super::faults::CrashPoint;
use super::movers::{MoverEvent, MoverFault, Stray};
use super::moving::NO_CLIENT;
use super::properties::exclusion::ObservedClaim;
use super::properties::{CheckResult, broken};
use super::world::World;
use meshlock_cluster::claim::{ClaimKey, Proof, ProvedHold, Reserved};
use meshlock_cluster::names::Member;
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::table::{ClaimEvent, ClaimRefusal, LockClaim, LossReason, Request};
use meshlock_cluster::time::{Span, Time};

/// How often a mover tries to claim a lock.
const MAX_TRIES: u32 = 6;

/// How often a site that is stopped looks whether it may leave, in microseconds.
const STOP_STEP: u64 = 50_000;

impl World {
    /// Handles the answer to a mover's claim.
    pub(super) fn mover_claims(&mut self, mover: usize, event: ClaimEvent) {
        match event {
            ClaimEvent::Pending { request, lease_end, .. } => {
                self.adopt_claim(mover, request, lease_end, true);
            }
            ClaimEvent::Settled { request, lease_end, .. } => {
                let hold = self.movers.all[mover].hold();
                if hold.is_some_and(|hold| hold.claim == Some(request)) {
                    // It came back to the site that granted the lock.
                    self.adopt_claim(mover, request, lease_end, false);
                }
                let Some(hold) = self.movers.all[mover].hold().cloned() else { return };
                if hold.request != request {
                    return;
                }
                if !self.believes(&hold) {
                    return self.mover_leaves(mover);
                }
                if let Some(hold) = self.movers.all[mover].hold_mut() {
                    (hold.cap, hold.until) = (None, hold.until.max(lease_end));
                    (hold.proof, hold.contact) = (None, None);
                }
                self.mover_call(mover, ClientCall::Prove { request });
            }
            ClaimEvent::Refused { request, why } => {
                let hold = self.movers.all[mover].hold().filter(|hold| hold.claim == Some(request));
                if hold.is_none() {
                    return;
                }
                self.exclusion.on_left(request);
                if why.is_of_this_site() {
                    self.retry_claim(mover);
                } else if !self.stays_with_former(mover) {
                    self.mover_leaves(mover);
                }
            }
        }
    }

    /// Lets a mover go on at a site that leaves, through which it holds the lock, because it could not be claimed elsewhere: it has not got the
    /// proof of that site yet. Returns whether it does.
    fn stays_with_former(&mut self, mover: usize) -> bool {
        let session = self.movers.all[mover].hold().map(|hold| hold.session);
        let former = self.movers.all[mover].former.take_if(|former| Some(former.session) == session);
        let Some(former) = former else { return false };
        if let Some(connection) = self.movers.all[mover].connection.replace(former) {
            self.mover_calls(&connection, 200, ClientCall::SessionEnded(connection.session));
        }
        if let Some(hold) = self.movers.all[mover].hold_mut() {
            hold.claim = None;
        }
        true
    }

    /// Makes a claim again, a little later, at another site, unless that was tried too often.
    pub(super) fn retry_claim(&mut self, mover: usize) {
        let Some(hold) = self.movers.all[mover].hold() else { return };
        let (tries, claim) = (hold.tries, hold.claim);
        match claim.filter(|_| tries < MAX_TRIES) {
            Some(claim) => {
                let pause = self.mover_within(300_000);
                self.mover_after(mover, pause, MoverEvent::Retry(claim));
            }
            None => self.mover_leaves(mover),
        }
    }

    /// Lets a mover rely on its claim from now on, if it still assumes that it holds the lock.
    fn adopt_claim(&mut self, mover: usize, request: Request, lease_end: Time, is_pending: bool) {
        let Some(hold) = self.movers.all[mover].hold().filter(|hold| hold.claim == Some(request)).cloned()
        else {
            return;
        };
        let connection = self.movers.all[mover].connection.clone();
        let Some(connection) = connection.filter(|_| self.believes(&hold)) else {
            return self.mover_leaves(mover);
        };
        self.exclusion.on_left(hold.request);
        let cap = self.movers.caps.get(&request).copied().filter(|_| is_pending);
        if let Some(hold) = self.movers.all[mover].hold_mut() {
            (hold.request, hold.session, hold.claim) = (request, connection.session, None);
            (hold.machine, hold.until, hold.cap) = (connection.machine, lease_end, cap);
        }
        self.close_former(mover);
    }

    /// Judges what a node says of a claim.
    pub(super) fn judge_claim(&mut self, machine: usize, event: &ClaimEvent) -> CheckResult {
        match *event {
            ClaimEvent::Pending { request, lease_end, until, .. } => {
                self.coverage.record(Occurrence::ClaimPending);
                self.judge_pending(machine, request, lease_end, until)
            }
            ClaimEvent::Settled { request, fence, lease_end, .. } => {
                let lock = self.asked.get(&request).map(|asked| asked.lock.clone());
                let lock = lock.expect("only what was claimed is settled");
                self.coverage.record(Occurrence::ClaimSettled);
                let stray = self.movers.strays.get(&request).cloned();
                let permits = self.asked.get(&request).map_or(1, |asked| asked.permits);
                let mover = self.movers.requests.get(&request).copied();
                if stray.is_some() || self.relies_on(mover, request) {
                    let session = self.asked[&request].session;
                    let (until, cap) = (lease_end, None);
                    let claim = ObservedClaim {
                        request,
                        session,
                        lock: &lock,
                        machine,
                        until,
                        cap,
                        permits,
                        mode: Mode::Exclusive,
                        mover,
                    };
                    self.exclusion.on_claimed(claim, self.now)?;
                }
                let is_relied_on = self.relies_on(mover, request) || self.wire_relies_on(request);
                if stray.is_none() && permits == 1 && is_relied_on {
                    self.fences.on_settled(&lock, machine, fence, self.now)?;
                }
                Ok(())
            }
            ClaimEvent::Refused { request, why } => self.judge_refusal(machine, request, why),
        }
    }

    /// Returns whether the mover still counts on the request, as a claim or as its hold.
    fn relies_on(&self, mover: Option<usize>, request: Request) -> bool {
        let hold = mover.and_then(|mover| self.movers.all[mover].hold());
        hold.is_some_and(|hold| hold.claim == Some(request) || hold.request == request)
    }

    fn judge_pending(
        &mut self,
        machine: usize,
        request: Request,
        lease_end: Time,
        until: Option<Time>,
    ) -> CheckResult {
        if let Some(stray) = self.movers.strays.get(&request).cloned() {
            if stray.is_forged {
                let what = format!("s{machine} accepts a claim to {} with a forged proof", stray.hold.lock);
                return broken("claims", self.now, what);
            }
            self.movers.contested.insert(stray.hold.lock.clone());
            return self.judge_holder(machine, &stray.hold.holder);
        }
        let mover = self.movers.requests.get(&request).copied();
        let Some(mover) = mover.filter(|mover| self.relies_on(Some(*mover), request)) else { return Ok(()) };
        let Some(hold) = self.movers.all[mover].hold().cloned() else { return Ok(()) };
        if let Some(proof) = &hold.proof {
            self.judge_holder(machine, &proof.hold().holder)?;
        }
        if let Some(proof) = &hold.proof
            && self.movers.stopping.keys().any(|site| self.names[*site] == proof.hold().holder.site)
        {
            self.coverage.record(Occurrence::ClaimAfterStop);
        }
        // The mover counts what is left from when it has sent the claim, on its own clock.
        let own = self.movers.all[mover].clock;
        let left = until.map(|until| until.since(self.machines[machine].clock.at(self.now)));
        let cap = left.map(|left| (own, self.machines[own].clock.at(hold.claimed_at) + left));
        if let Some(cap) = cap {
            self.movers.caps.insert(request, cap);
        }
        let Asked { lock, permits, session, .. } = self.asked[&request].clone();
        let (until, mover) = (lease_end, Some(mover));
        let claim = ObservedClaim {
            request,
            session,
            lock: &lock,
            machine,
            until,
            cap,
            permits,
            mode: Mode::Exclusive,
            mover,
        };
        self.exclusion.on_claimed(claim, self.now)
    }

    /// Checks that the site that granted a claimed lock is in the view that the site which accepts the claim has installed.
    fn judge_holder(&self, machine: usize, holder: &Member) -> CheckResult {
        let node = self.machines[machine].node.as_ref();
        if node.is_none_or(|node| node.view().contains(holder)) {
            return Ok(());
        }
        broken("claims", self.now, format!("s{machine} accepts a claim on {holder}, which is no member"))
    }

    fn judge_refusal(&mut self, machine: usize, request: Request, why: ClaimRefusal) -> CheckResult {
        self.coverage.record(match why {
            ClaimRefusal::NotMember => Occurrence::ClaimTooLate,
            ClaimRefusal::BadProof => Occurrence::ClaimForged,
            ClaimRefusal::NothingToClaim | ClaimRefusal::ReservationOver => Occurrence::ClaimOfNothing,
            ClaimRefusal::NoLease
            | ClaimRefusal::Leaving
            | ClaimRefusal::UnknownKey
            | ClaimRefusal::ShareTaken
            | ClaimRefusal::TooMany
            | ClaimRefusal::DuplicateRequest => Occurrence::ClaimElsewhere,
        });
        let mover = self.movers.requests.get(&request).copied();
        let Some(hold) = mover.and_then(|mover| self.movers.all[mover].hold()).cloned() else {
            return Ok(());
        };
        if hold.claim != Some(request) || !self.settings.keeps_drift(usize::MAX) {
            return Ok(());
        }
        // What was claimed at another site is known to that one only.
        let is_own = hold.proof.as_ref().is_some_and(|proof| !hold.is_claimed(proof, &self.names));
        let is_honest = |why| match why {
            ClaimRefusal::BadProof => false,
            // While the former site's lease lasts no view leaves it out, and whoever has a lease has known it.
            ClaimRefusal::NotMember => !is_own || !self.believes(&hold) || !self.has_lease(machine),
            ClaimRefusal::UnknownKey
            | ClaimRefusal::NothingToClaim
            | ClaimRefusal::ReservationOver
            | ClaimRefusal::NoLease
            | ClaimRefusal::Leaving
            | ClaimRefusal::ShareTaken
            | ClaimRefusal::TooMany
            | ClaimRefusal::DuplicateRequest => true,
        };
        if is_honest(why) {
            return Ok(());
        }
        let what = format!("s{machine} refuses a claim to {} that was made in time: {why:?}", hold.lock);
        broken("claims", self.now, what)
    }

    fn has_lease(&self, machine: usize) -> bool {
        let host = &self.machines[machine];
        let now = host.clock.at(self.now);
        host.node
            .as_ref()
            .is_some_and(|node| node.lease().is_comfortable(now) && node.view().contains(node.me()))
    }

    /// Judges the loss of a claimed lock.
    pub(super) fn judge_loss(&mut self, machine: usize, request: Request, why: LossReason) -> CheckResult {
        if why == LossReason::ReservationOver {
            self.coverage.record(Occurrence::ClaimReservationOver);
        }
        if why != LossReason::Conflict {
            return Ok(());
        }
        self.coverage.record(Occurrence::ClaimConflict);
        let mover = self.movers.requests.get(&request).copied();
        let lock = self.asked.get(&request).map(|asked| (asked.lock.clone(), asked.permits));
        let Some((lock, permits)) =
            lock.filter(|_| self.relies_on(mover, request) || self.wire_relies_on(request))
        else {
            return Ok(());
        };
        let installed = self.machines[machine].installed;
        let rule = installed.and_then(|epoch| self.rules.get(&epoch)).map(|rules| rules.rule(&lock));
        // A site that has its share of a semaphore may have had it only since the claim.
        let has_shares = rule.is_some_and(|rule| rule.permits == permits && rule.per_site < rule.permits);
        if has_shares || self.movers.contested.contains(&lock) || !self.settings.keeps_drift(usize::MAX) {
            return Ok(());
        }
        let what = format!("s{machine} gives up {lock}, which was claimed in time and by nobody else");
        broken("claims", self.now, what)
    }

    /// Makes a fault happen that concerns movers.
    pub(super) fn mover_fault(&mut self, fault: MoverFault) {
        match fault {
            MoverFault::Cut { mover, silent, site, client } => self.cut_mover(mover, silent, site, client),
            MoverFault::Stop { machine, grace, down } => self.stop_site(machine, grace, down),
            MoverFault::Forge { machine, of, lock } => self.forge(machine, of, lock),
            MoverFault::Replay { machine, mover } => {
                let old = &self.movers.all[mover].old_proofs;
                let proof = (!old.is_empty()).then(|| old[self.movers.draw.usize(..old.len())].clone());
                if let Some(proof) = proof {
                    self.stray(machine, proof, false);
                }
            }
            MoverFault::Double { machine, mover } => {
                let proof = self.movers.all[mover].hold().and_then(|hold| hold.proof.clone());
                // At the site that has made the proof the word of either is the client's word.
                let is_elsewhere = |proof: &Proof| proof.hold().holder.site != self.names[machine];
                if let Some(proof) = proof.filter(is_elsewhere) {
                    self.stray(machine, proof, false);
                }
            }
            MoverFault::Crash { mover } => {
                if let Some(hold) = self.movers.all[mover].hold().cloned() {
                    self.exclusion.on_left(hold.request);
                    hold.claim.into_iter().for_each(|claim| self.exclusion.on_left(claim));
                }
                self.crash_mover(mover);
            }
        }
    }

    fn cut_mover(&mut self, mover: usize, silent: u64, site: u64, client: u64) {
        let (now, drift) = (self.now, self.settings.terms.drift);
        let Some(connection) = self.movers.all[mover].connection.as_mut().filter(|of| of.cut.is_none())
        else {
            return;
        };
        let contact = Moment(now.0.saturating_sub(silent));
        connection.cut = Some((now, contact));
        let (machine, incarnation, session) =
            (connection.machine, connection.incarnation, connection.session);
        let at = now.after(site).max(connection.last_call.after(1));
        self.coverage.record(Occurrence::MoverCut);
        let clock = self.machines[machine].clock.clone();
        let last_contact = clock.at(contact);
        // What the mover cannot prove it relies on until it notices, and the rest as long as it was told that it may.
        let notices = Span::from_micros(now.after(client).0.saturating_sub(at.0) + 2);
        let hold = self.movers.all[mover].hold().filter(|hold| hold.session == session);
        let relies = hold.map_or(Span::ZERO, |hold| hold.until.since(clock.at(at)));
        let relies_for = drift.stretch(notices).max(relies);
        let call = ClientCall::SessionCut { session, last_contact, relies_for };
        self.at(at, super::event::Event::Call { machine, incarnation, call });
        self.mover_after(mover, client, MoverEvent::Disconnected { session, has_died: false });
        // Now and then an operator takes its lock away, which it does not hear.
        let lock = self.movers.all[mover].hold().map(|hold| hold.lock.clone());
        if let Some(lock) = lock.filter(|_| self.movers.draw.usize(..4) == 0) {
            let request = self.new_request();
            self.operator_call(machine, ClientCall::Break { request, lock });
        }
    }

    /// Lets an operator stop a site: its clients are told, and it leaves when they have gone or the time is over.
    fn stop_site(&mut self, machine: usize, grace: u64, down: u64) {
        let staying = (0..self.machines.len()).filter(|at| self.is_up(*at)).count();
        if !self.is_up(machine) || staying < 2 || self.calm {
            return;
        }
        self.movers.stopping.insert(machine, down);
        self.operator_call(machine, ClientCall::Freeze);
        let incarnation = self.machines[machine].incarnation;
        let deadline = self.now.after(grace).min(Moment(self.settings.calm));
        self.mover_after(0, STOP_STEP, MoverEvent::StopStep { machine, incarnation, deadline });
    }

    pub(super) fn stop_step(&mut self, machine: usize, incarnation: u64, deadline: Moment) {
        let host = &self.machines[machine];
        let Some(node) = host.node.as_ref().filter(|_| host.incarnation == incarnation) else { return };
        if node.table().holds_anything() && self.now < deadline {
            let step = MoverEvent::StopStep { machine, incarnation, deadline };
            return self.mover_after(0, STOP_STEP, step);
        }
        if node.table().holds_anything() {
            self.operator_call(machine, ClientCall::TakeAllAway);
        }
        let request = self.new_request();
        self.operator_call(machine, ClientCall::Leave { request });
    }

    /// Ends the process of a site that was stopped and has left.
    pub(super) fn on_stopped(&mut self, machine: usize) {
        if let Some(down) = self.movers.stopping.remove(&machine) {
            self.coverage.record(Occurrence::SiteStopped);
            self.machines[machine].dying = Some((CrashPoint::AfterOutputs(0), down));
        }
    }

    /// Returns whether a site is stopped or was removed: it does not renew its lease.
    pub(super) fn is_leaving(&self, machine: usize) -> bool {
        self.machines[machine].left || self.movers.stopping.contains_key(&machine)
    }

    fn crash_mover(&mut self, mover: usize) {
        // Sites notice by the connections, unless those are cut.
        self.close_mover(mover);
        self.mover_leaves(mover);
    }

    /// Somebody claims a lock with a proof that it has made up.
    fn forge(&mut self, machine: usize, of: usize, lock: usize) {
        let Some(holder) = self.newest.member(&self.names[of]).cloned() else { return };
        let lock = self.settings.locks[lock].clone();
        let rules = self.rules.get(&self.newest.epoch);
        let permits = rules.map_or(1, |rules| rules.rule(&lock).permits);
        let fence = FenceClock::new(Epoch::default()).enter();
        let hold = ProvedHold { holder, lock, permits, slot: Some(0), fence, mode: Mode::Exclusive };
        self.stray(machine, Proof::new(&ClaimKey::new([0x66; 32]), b"", hold), true);
    }

    fn stray(&mut self, machine: usize, proof: Proof, is_forged: bool) {
        if self.machines[machine].node.is_none() || self.calm {
            return;
        }
        let connection = self.connect_mover(machine);
        let (request, session) = (self.new_request(), connection.session);
        let hold = proof.hold().clone();
        let (lock, permits) = (hold.lock.clone(), hold.permits);
        self.coverage.record(Occurrence::Stray);
        self.asked
            .insert(request, Asked { lock, permits, mode: Mode::Exclusive, session, client: NO_CLIENT });
        let incarnation = connection.incarnation;
        let stray = Stray { machine, incarnation, session, hold, is_forged };
        self.movers.strays.insert(request, stray);
        let claim = LockClaim { session, request, proof, reserved: Reserved::Forever };
        self.mover_calls(&connection, 200, ClientCall::Claim(Box::new(claim)));
        let length = self.movers.draw.u64(100_000..5_000_000);
        let length = length.min(self.settings.calm.saturating_sub(self.now.0)).max(300);
        self.mover_after(0, length, MoverEvent::StrayEnds(request));
    }

    pub(super) fn end_stray(&mut self, request: Request) {
        let Some(Stray { machine, incarnation, session, .. }) = self.movers.strays.get(&request).cloned()
        else {
            return;
        };
        self.exclusion.on_left(request);
        let call = ClientCall::SessionEnded(session);
        self.after(0, super::event::Event::Call { machine, incarnation, call });
    }

    /// Lets all movers finish: faults have stopped.
    pub(super) fn calm_movers(&mut self) {
        for mover in 0..self.movers.all.len() {
            self.set_mover_timer(mover, 0);
        }
    }
}

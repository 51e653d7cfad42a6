//! What movers do: they ask, prove, work, release, and claim what they hold when they lose their site.

use meshlock_protocol::{Demand, Fence, Mode};

use super::client::Asked;
use super::clock::Moment;
use super::event::Event;
use super::movers::{Mover, MoverConnection, MoverEvent, MoverHold, MoverState};
use super::properties::CheckResult;
use super::world::World;
use meshlock_cluster::claim::Reserved;
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::{Acquire, LockClaim, LossReason, Request, Session, Wait};
use meshlock_cluster::time::Time;

/// The index of a client that stands for all movers where ordinary clients are numbered.
pub(super) const NO_CLIENT: usize = usize::MAX;

impl World {
    pub(super) fn mover_after(&mut self, mover: usize, micros: u64, what: MoverEvent) {
        self.after(micros, Event::Mover { mover, what });
    }

    pub(super) fn mover_within(&mut self, most: u64) -> u64 {
        self.movers.draw.u64(..=most)
    }

    pub(super) fn set_mover_timer(&mut self, mover: usize, micros: u64) {
        self.movers.all[mover].timer += 1;
        let timer = self.movers.all[mover].timer;
        self.mover_after(mover, micros, MoverEvent::Timer(timer));
    }

    /// Lets all movers begin.
    pub(super) fn start_movers(&mut self) {
        for mover in 0..self.movers.all.len() {
            let rest = self.mover_within(1_000_000);
            self.set_mover_timer(mover, rest);
        }
    }

    /// Handles what happens to a mover.
    pub(super) fn on_mover(&mut self, mover: usize, what: MoverEvent) -> CheckResult {
        match what {
            MoverEvent::Timer(timer) if self.movers.all[mover].timer == timer => self.mover_timer(mover),
            MoverEvent::Timer(_) => Ok(()),
            MoverEvent::Told(session, told) => {
                self.mover_told(mover, session, told);
                Ok(())
            }
            MoverEvent::Disconnected { session, has_died } => {
                self.mover_disconnected(mover, session, has_died);
                Ok(())
            }
            MoverEvent::Retry(request) => {
                if self.movers.all[mover].hold().is_some_and(|hold| hold.claim == Some(request)) {
                    self.claim_elsewhere(mover);
                }
                Ok(())
            }
            MoverEvent::StrayEnds(request) => {
                self.end_stray(request);
                Ok(())
            }
            MoverEvent::StopStep { machine, incarnation, deadline } => {
                self.stop_step(machine, incarnation, deadline);
                Ok(())
            }
        }
    }

    /// Returns a connection to a new session at a site.
    pub(super) fn connect_mover(&mut self, machine: usize) -> MoverConnection {
        self.last_session += 1;
        let incarnation = self.machines[machine].incarnation;
        let (last_call, last_told) = (self.now, self.now);
        let session = Session(self.last_session);
        MoverConnection { machine, incarnation, session, cut: None, leaves: false, last_call, last_told }
    }

    /// Makes a call over a connection, which is lost if that is cut. It takes up to `most` microseconds.
    pub(super) fn mover_calls(
        &mut self,
        connection: &MoverConnection,
        most: u64,
        call: ClientCall,
    ) -> Moment {
        let delay = self.mover_within(most);
        let at = self.now.after(delay).max(connection.last_call);
        if connection.cut.is_none() {
            let MoverConnection { machine, incarnation, .. } = *connection;
            self.at(at, Event::Call { machine, incarnation, call });
        }
        at
    }

    /// Makes a call over the present connection of a mover.
    pub(super) fn mover_call(&mut self, mover: usize, call: ClientCall) {
        let Some(connection) = self.movers.all[mover].connection.clone() else { return };
        let at = self.mover_calls(&connection, 200, call);
        if let Some(connection) = &mut self.movers.all[mover].connection {
            connection.last_call = at;
        }
    }

    pub(super) fn is_up(&self, machine: usize) -> bool {
        let host = &self.machines[machine];
        host.node.is_some() && !host.left && !self.movers.stopping.contains_key(&machine)
    }

    /// Draws a site that runs, other than this one.
    pub(super) fn another_site(&mut self, than: Option<usize>) -> Option<usize> {
        let sites: Vec<usize> =
            (0..self.machines.len()).filter(|at| Some(*at) != than && self.is_up(*at)).collect();
        (!sites.is_empty()).then(|| sites[self.movers.draw.usize(..sites.len())])
    }

    fn mover_timer(&mut self, mover: usize) -> CheckResult {
        match self.movers.all[mover].state.clone() {
            MoverState::Resting => self.mover_asks(mover),
            MoverState::Waiting { request, .. } => self.mover_call(mover, ClientCall::Cancel(request)),
            MoverState::Inside(hold) => {
                if let Some(read) = hold.read.filter(|_| self.believes(&hold)) {
                    self.updates.write(&hold.lock, hold.fence, read, self.now)?;
                }
                self.mover_leaves(mover);
            }
        }
        Ok(())
    }

    /// Returns whether a mover may still assume that it holds the lock.
    pub(super) fn believes(&self, hold: &MoverHold) -> bool {
        let is_capped = |(machine, cap): (usize, Time)| self.moment(machine, cap) <= self.now;
        self.moment(hold.machine, hold.until) > self.now && !hold.cap.is_some_and(is_capped)
    }

    fn mover_asks(&mut self, mover: usize) {
        if self.calm {
            return;
        }
        let stays = |connection: &MoverConnection| {
            connection.cut.is_none()
                && self.is_up(connection.machine)
                && self.machines[connection.machine].incarnation == connection.incarnation
        };
        if !self.movers.all[mover].connection.as_ref().is_some_and(stays) {
            self.close_mover(mover);
            let Some(machine) = self.another_site(None) else {
                return self.set_mover_timer(mover, 200_000);
            };
            let connection = self.connect_mover(machine);
            self.movers.all[mover].connection = Some(connection);
        }
        let Some(MoverConnection { session, .. }) = self.movers.all[mover].connection.clone() else { return };
        let request = self.new_request();
        let lock = self.settings.locks[self.movers.draw.usize(..self.settings.locks.len())].clone();
        let newest = Rules::new(self.newest.rules.clone()).expect("rules that were agreed on");
        let by_rule = newest.rule(&lock).permits;
        let follows = newest.names(&lock) || self.movers.draw.bool();
        let permits = if follows { by_rule } else { self.movers.draw.u32(1..=3) };
        self.asked.insert(
            request,
            Asked { lock: lock.clone(), permits, mode: Mode::Exclusive, session, client: NO_CLIENT },
        );
        self.movers.requests.insert(request, mover);
        self.movers.all[mover].state = MoverState::Waiting { request, lock: lock.clone(), permits };
        let wait = Wait::Forever;
        self.mover_call(
            mover,
            ClientCall::Acquire(Acquire {
                session,
                request,
                lock,
                permits,
                wait,
                cause: None,
                demand: Demand::PLAIN,
            }),
        );
        let timeout = self.movers.draw.u64(500_000..4_000_000);
        self.set_mover_timer(mover, timeout);
    }

    /// Returns whether the mover that made the request still waits for it.
    pub(super) fn mover_waits(&self, request: Request) -> bool {
        let state = self.movers.requests.get(&request).map(|mover| &self.movers.all[*mover].state);
        matches!(state, Some(MoverState::Waiting { request: of, .. }) if *of == request)
    }

    pub(super) fn mover_enters(&mut self, mover: usize, request: Request, fence: Fence, until: Time) {
        let MoverState::Waiting { request: of, lock, permits } = self.movers.all[mover].state.clone() else {
            return;
        };
        let Some(MoverConnection { machine, session, .. }) = self.movers.all[mover].connection.clone() else {
            return;
        };
        if of != request {
            return;
        }
        let read = if permits == 1 { self.updates.read(&lock, fence) } else { None };
        let (cap, proof, claim, tries, contact, claimed_at) = (None, None, None, 0, None, self.now);
        let hold = MoverHold {
            request,
            session,
            lock,
            permits,
            fence,
            machine,
            until,
            cap,
            read,
            proof,
            claim,
            claimed_at,
            tries,
            contact,
        };
        self.movers.all[mover].state = MoverState::Inside(Box::new(hold));
        self.mover_call(mover, ClientCall::Prove { request });
        let longest = [100_000, 2_000_000, 8_000_000][self.movers.draw.usize(..3)];
        let hold = self.movers.draw.u64(1_000..longest);
        let hold = if self.calm { 0 } else { hold };
        self.set_mover_timer(mover, hold);
    }

    /// Handles a loss. What was claimed at a site whose lease ends can be claimed at another one.
    pub(super) fn mover_loses(&mut self, mover: usize, request: Request, act_by: Time, why: LossReason) {
        let Some(hold) = self.movers.all[mover].hold_mut() else {
            if self.mover_waits(request) {
                self.mover_leaves(mover);
            }
            return;
        };
        if hold.claim == Some(request) {
            // It was told before it knew that the claim is pending.
            return self.retry_claim(mover);
        }
        if hold.request != request {
            return;
        }
        hold.until = hold.until.min(act_by);
        let is_pending = hold.proof.as_ref().is_some_and(|proof| hold.is_claimed(proof, &self.names));
        if is_pending && why == LossReason::LeaseEnd && self.movers.draw.bool() {
            return self.claim_elsewhere(mover);
        }
        self.mover_leaves(mover);
    }

    /// Ends the work: the mover does not assume any more that it holds the lock, and says so where it can.
    pub(super) fn mover_leaves(&mut self, mover: usize) {
        if let Some(hold) = self.movers.all[mover].hold().cloned() {
            self.exclusion.on_left(hold.request);
            self.mover_release(mover, hold.request, hold.session);
            if let Some(claim) = hold.claim {
                self.exclusion.on_left(claim);
                self.mover_call(mover, ClientCall::Release(claim));
            }
            self.movers.all[mover].keep_proof();
        }
        self.close_former(mover);
        self.mover_rests(mover);
    }

    /// Releases a lock over the connection through which the mover holds it, if there is still one.
    fn mover_release(&mut self, mover: usize, request: Request, session: Session) {
        if let Some(connection) = self.movers.all[mover].connection_of(session).cloned() {
            let at = self.mover_calls(&connection, 200, ClientCall::Release(request));
            if let Some(connection) = self.movers.all[mover].connection_of(session) {
                connection.last_call = at;
            }
        }
    }

    pub(super) fn mover_rests(&mut self, mover: usize) {
        if let MoverState::Waiting { request, .. } = self.movers.all[mover].state {
            // It may have been granted the lock without hearing it.
            self.exclusion.on_left(request);
        }
        self.movers.all[mover].state = MoverState::Resting;
        let rest = self.mover_within(400_000);
        self.set_mover_timer(mover, rest);
    }

    /// Closes the connections of a mover.
    pub(super) fn close_mover(&mut self, mover: usize) {
        self.close_former(mover);
        if let Some(connection) = self.movers.all[mover].connection.take() {
            self.mover_calls(&connection, 200, ClientCall::SessionEnded(connection.session));
        }
    }

    pub(super) fn close_former(&mut self, mover: usize) {
        if let Some(connection) = self.movers.all[mover].former.take() {
            self.mover_calls(&connection, 200, ClientCall::SessionEnded(connection.session));
        }
    }

    /// Lets the movers that are connected to a site notice that its process has died.
    pub(super) fn movers_lose_site(&mut self, machine: usize, incarnation: u64) {
        self.movers.stopping.remove(&machine);
        for mover in 0..self.movers.all.len() {
            let Mover { connection, former, .. } = &self.movers.all[mover];
            let is_lost = |connection: &&MoverConnection| {
                connection.machine == machine && connection.incarnation == incarnation
            };
            let both = [connection.as_ref(), former.as_ref()].into_iter().flatten().filter(is_lost);
            for session in both.map(|connection| connection.session).collect::<Vec<_>>() {
                let notice = self.mover_within(100_000);
                self.mover_after(mover, notice, MoverEvent::Disconnected { session, has_died: true });
            }
        }
    }

    fn mover_disconnected(&mut self, mover: usize, session: Session, has_died: bool) {
        if self.movers.all[mover].former.take_if(|former| former.session == session).is_some() {
            return;
        }
        let ended = self.movers.all[mover].connection.take_if(|connection| connection.session == session);
        let Some(ended) = ended else { return };
        // A connection that was cut is known to be dead only if somebody says so.
        let has_died = has_died && ended.cut.is_none();
        let (contact, now) = (ended.cut.map(|(_, contact)| contact), self.now);
        let Some(hold) = self.movers.all[mover].hold_mut() else {
            self.mover_rests(mover);
            return;
        };
        if hold.session == session && hold.claim.is_none() && hold.proof.as_ref().is_some() {
            let is_own = hold.proof.as_ref().is_some_and(|proof| !hold.is_claimed(proof, &self.names));
            if is_own {
                hold.contact = (!has_died).then(|| contact.unwrap_or(now));
            }
        }
        self.note_second_claim(mover);
        // It may come back to a site that only the connection was lost to.
        let back = (!has_died && self.movers.draw.usize(..3) == 0).then_some(ended.machine);
        self.move_mover(mover, ended.machine, back);
    }

    /// Handles the word of a site that it leaves.
    pub(super) fn site_leaves(&mut self, mover: usize, session: Session) {
        let is_present = |connection: &MoverConnection| connection.session == session;
        if !self.movers.all[mover].connection.as_ref().is_some_and(is_present) {
            return;
        }
        if let Some(connection) = &mut self.movers.all[mover].connection {
            connection.leaves = true;
        }
        let Some(hold) = self.movers.all[mover].hold_mut() else { return };
        let Some(proof) = &hold.proof else { return };
        let is_own = hold.session == session && !hold.is_claimed(proof, &self.names);
        if is_own {
            hold.contact = None;
        }
        self.claim_elsewhere(mover);
    }

    /// Connects a mover to another site, or to the same one again, and claims there what it holds.
    pub(super) fn move_mover(&mut self, mover: usize, from: usize, back: Option<usize>) {
        let can_claim = self.movers.all[mover].hold().is_some_and(|hold| hold.proof.is_some());
        if !can_claim {
            return self.mover_leaves(mover);
        }
        let Some(machine) = back.filter(|back| self.is_up(*back)).or_else(|| self.another_site(Some(from)))
        else {
            return self.mover_leaves(mover);
        };
        let connection = self.connect_mover(machine);
        self.movers.all[mover].connection = Some(connection);
        self.send_claim(mover);
    }

    /// Goes to another site with a claim.
    pub(super) fn claim_elsewhere(&mut self, mover: usize) {
        self.note_second_claim(mover);
        let at = self.movers.all[mover].connection.as_ref().map(|connection| connection.machine);
        if let Some(hold) = self.movers.all[mover].hold_mut()
            && let Some(claim) = hold.claim.take()
        {
            self.exclusion.on_left(claim);
        }
        let session = self.movers.all[mover].hold().map(|hold| hold.session);
        if let Some(connection) = self.movers.all[mover].connection.take() {
            if Some(connection.session) == session {
                // Closing it would be the client's word that it does not need the lock any more.
                self.close_former(mover);
                self.movers.all[mover].former = Some(connection);
            } else {
                self.mover_calls(&connection, 200, ClientCall::SessionEnded(connection.session));
            }
        }
        self.move_mover(mover, at.unwrap_or(0), None);
    }

    /// Notes that a mover goes on with a claim that still counts at a site where it has made it before. If the site that granted the lock
    /// leaves the view now, both claims count, and it may lose the lock.
    pub(super) fn note_second_claim(&mut self, mover: usize) {
        let Some(hold) = self.movers.all[mover].hold() else { return };
        let is_claimed = hold.proof.as_ref().is_some_and(|proof| hold.is_claimed(proof, &self.names));
        if is_claimed || hold.claim.is_some() {
            let lock = hold.lock.clone();
            self.movers.contested.insert(lock);
        }
    }

    /// Claims what a mover holds, over its present connection, if it still assumes that it holds it.
    fn send_claim(&mut self, mover: usize) {
        let Some(hold) = self.movers.all[mover].hold().cloned() else { return };
        let Some(connection) = self.movers.all[mover].connection.clone() else { return };
        let Some(proof) = hold.proof.clone().filter(|_| self.believes(&hold)) else {
            return self.mover_leaves(mover);
        };
        let clock = self.machines[self.movers.all[mover].clock].clock.clone();
        let reserved = match hold.contact {
            None => Reserved::Forever,
            Some(contact) => Reserved::SinceContact { ago: clock.at(self.now).since(clock.at(contact)) },
        };
        // Now and then the claim is on its way for long.
        let most = if self.movers.draw.usize(..8) == 0 { 1_500_000 } else { 200 };
        let (request, session) = (self.new_request(), connection.session);
        let (lock, permits) = (hold.lock.clone(), hold.permits);
        self.asked
            .insert(request, Asked { lock, permits, mode: Mode::Exclusive, session, client: NO_CLIENT });
        self.movers.requests.insert(request, mover);
        if let Some(hold) = self.movers.all[mover].hold_mut() {
            // It has heard nothing of an earlier claim, whose connection has ended, and does not count on it.
            if let Some(unheard) = hold.claim.replace(request) {
                self.exclusion.on_left(unheard);
            }
            (hold.claimed_at, hold.tries) = (self.now, hold.tries + 1);
        }
        let claim = ClientCall::Claim(Box::new(LockClaim { session, request, proof, reserved }));
        let at = self.mover_calls(&connection, most, claim);
        if let Some(connection) = &mut self.movers.all[mover].connection {
            connection.last_call = at;
        }
    }
}

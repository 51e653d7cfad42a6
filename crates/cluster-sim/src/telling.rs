//! What movers are told: the answers of nodes that concern them, over the connections that are not cut.

use super::event::Event;
use super::movers::{Mover, MoverConnection, MoverEvent};
use super::world::World;
use meshlock_cluster::claim::Proof;
use meshlock_cluster::node::ClientAnswer;
use meshlock_cluster::table::{ClaimEvent, LockEvent, Request, Session};

/// What a node tells a mover.
#[derive(Clone, Debug)]
pub(super) enum MoverNews {
    Lock(LockEvent),
    Claim(ClaimEvent),
    Proof { request: Request, proof: Option<Box<Proof>> },
    Leaving,
}

impl MoverNews {
    /// Returns what an answer tells movers, if it is of a kind that they ask for.
    fn of(answer: &ClientAnswer) -> Option<Self> {
        match answer {
            ClientAnswer::Lock(event) => Some(MoverNews::Lock(event.clone())),
            ClientAnswer::Claim(event) => Some(MoverNews::Claim(event.clone())),
            ClientAnswer::Proof { request, proof } => {
                Some(MoverNews::Proof { request: *request, proof: proof.clone() })
            }
            ClientAnswer::Leaving => Some(MoverNews::Leaving),
            ClientAnswer::Queue { .. }
            | ClientAnswer::Overview { .. }
            | ClientAnswer::Broken { .. }
            | ClientAnswer::RulesSet { .. }
            | ClientAnswer::RulesRefused { .. }
            | ClientAnswer::AccessSet { .. }
            | ClientAnswer::AccessRefused { .. }
            | ClientAnswer::VotersChanged { .. }
            | ClientAnswer::VotersRefused { .. }
            | ClientAnswer::Unavailable { .. }
            | ClientAnswer::Locks { .. }
            | ClientAnswer::Page { .. }
            | ClientAnswer::Deadlocks { .. }
            | ClientAnswer::Changes { .. }
            | ClientAnswer::Leaves { .. }
            | ClientAnswer::Traced { .. }
            | ClientAnswer::Left { .. } => None,
        }
    }

    /// Returns the request that it is about, unless it is for everyone at the site.
    fn request(&self) -> Option<Request> {
        match self {
            MoverNews::Lock(event) => event.request(),
            MoverNews::Claim(event) => Some(event.request()),
            MoverNews::Proof { request, .. } => Some(*request),
            MoverNews::Leaving => None,
        }
    }
}

impl World {
    /// Passes an answer of a node on to the mover that it is for, a little later.
    pub(super) fn tell_mover(&mut self, machine: usize, answer: &ClientAnswer) {
        let Some(told) = MoverNews::of(answer) else { return };
        let Some(request) = told.request() else { return self.tell_all_movers(machine, &told) };
        let Some(mover) = self.movers.requests.get(&request).copied() else { return };
        let Some(session) = self.asked.get(&request).map(|asked| asked.session) else { return };
        self.tell_over(mover, session, told);
    }

    /// Tells all movers with a connection to a site.
    fn tell_all_movers(&mut self, machine: usize, told: &MoverNews) {
        let incarnation = self.machines[machine].incarnation;
        for mover in 0..self.movers.all.len() {
            let Mover { connection, former, .. } = &self.movers.all[mover];
            let here = |connection: &&MoverConnection| {
                connection.machine == machine && connection.incarnation == incarnation
            };
            let both = [connection.as_ref(), former.as_ref()].into_iter().flatten().filter(here);
            for session in both.map(|connection| connection.session).collect::<Vec<_>>() {
                self.tell_over(mover, session, told.clone());
            }
        }
    }

    /// Returns the sessions of movers at a site that hear what it says.
    pub(super) fn mover_sessions(&self, machine: usize) -> Vec<Session> {
        let incarnation = self.machines[machine].incarnation;
        let hears = |connection: &&MoverConnection| {
            connection.machine == machine && connection.incarnation == incarnation && connection.cut.is_none()
        };
        let connections = |mover: &Mover| [mover.connection.clone(), mover.former.clone()];
        let all = self.movers.all.iter().flat_map(connections).flatten();
        all.filter(|connection| hears(&connection)).map(|connection| connection.session).collect()
    }

    pub(super) fn tell_over(&mut self, mover: usize, session: Session, told: MoverNews) {
        let delay = self.mover_within(500);
        let now = self.now;
        let Some(connection) = self.movers.all[mover].connection_of(session) else { return };
        if connection.cut.is_some() {
            return;
        }
        connection.last_told = now.after(delay).max(connection.last_told);
        let at = connection.last_told;
        self.at(at, Event::Mover { mover, what: MoverEvent::Told(session, told) });
    }

    pub(super) fn mover_told(&mut self, mover: usize, session: Session, told: MoverNews) {
        let connection = self.movers.all[mover].connection_of(session);
        if connection.is_none_or(|connection| connection.cut.is_some()) {
            return;
        }
        match told {
            MoverNews::Lock(event) => self.mover_event(mover, session, event),
            MoverNews::Proof { request, proof } => {
                let hold = self.movers.all[mover].hold_mut().filter(|hold| hold.request == request);
                if let Some(hold) = hold {
                    (hold.proof, hold.contact, hold.tries) = (proof.map(|proof| *proof), None, 0);
                }
                let connection = self.movers.all[mover].connection.as_ref();
                if connection.is_some_and(|connection| connection.leaves && connection.session == session) {
                    self.site_leaves(mover, session);
                }
            }
            MoverNews::Claim(event) => self.mover_claims(mover, event),
            MoverNews::Leaving => self.site_leaves(mover, session),
        }
    }

    fn mover_event(&mut self, mover: usize, session: Session, event: LockEvent) {
        match event {
            LockEvent::Granted { request, fence, lease_end, .. } => {
                self.mover_enters(mover, request, fence, lease_end);
            }
            LockEvent::Extended { lease_end } => {
                if let Some(hold) = self.movers.all[mover].hold_mut().filter(|hold| hold.session == session) {
                    hold.until = hold.until.max(lease_end);
                }
            }
            LockEvent::Lost { request, act_by, why } => self.mover_loses(mover, request, act_by, why),
            // No mover asks for a mode.
            LockEvent::ModeChanged { .. } | LockEvent::ModeRefused { .. } | LockEvent::Released { .. } => {}
            LockEvent::Cancelled { request }
            | LockEvent::TimedOut { request }
            | LockEvent::Busy { request }
            | LockEvent::Unavailable { request, .. }
            | LockEvent::Refused { request, .. } => {
                if self.mover_waits(request) {
                    self.mover_rests(mover);
                }
            }
        }
    }
}

//! What clients do: ask, wait, count up, give back, cancel, die, come back.

use meshlock_protocol::Fence;

use super::client::{Finale, Inside, State};
use super::world::{Event, World};
use crate::node::{Answer, Call};
use crate::table::{Request, Session, Tell, Wait};
use crate::time::{Span, Time};

impl World {
    pub(super) fn set_timer(&mut self, client: usize, micros: u64) {
        self.clients[client].timer += 1;
        let timer = self.clients[client].timer;
        self.after(micros, Event::Client { client, timer });
    }

    fn call(&mut self, client: usize, call: Call) {
        let machine = self.clients[client].machine;
        let (delay, life) = (self.within(200), self.machines[machine].life);
        let at = self.now.after(delay).max(self.clients[client].last_call);
        self.clients[client].last_call = at;
        self.at(at, Event::Call { machine, life, call });
    }

    /// Something that the client planned for now.
    pub(super) fn client_timer(&mut self, client: usize, timer: u64) {
        if self.clients[client].timer != timer {
            return;
        }
        match self.clients[client].state.clone() {
            State::Resting => self.ask(client),
            State::Waiting { request, .. } => {
                self.call(client, Call::Cancel(request));
            }
            State::Inside(inside) => self.count_up(client, &inside),
        }
    }

    /// Asks for a lock, over a new connection if need be.
    fn ask(&mut self, client: usize) {
        let machine = self.clients[client].machine;
        if self.clients[client].finale == Finale::Done || self.machines[machine].left {
            return;
        }
        if self.machines[machine].node.is_none() {
            return;
        }
        if self.clients[client].session.is_none() {
            self.last_session += 1;
            self.clients[client].session = Some(Session(self.last_session));
        }
        let session = self.clients[client].session.expect("it has one now");
        self.last_request += 1;
        let request = Request(self.last_request);
        let lock = self.settings.locks[self.draw.usize(..self.settings.locks.len())].clone();
        let clock = self.machines[machine].clock.at(self.now);
        let patience = Span::from_micros(self.draw.u64(1_000..3_000_000));
        let wait = match self.draw.usize(..10) {
            _ if self.calm => Wait::Forever,
            0..6 => Wait::Forever,
            6..9 => Wait::Until(clock + patience),
            _ => Wait::Try,
        };
        self.clients[client].state = State::Waiting { request, lock: lock.clone() };
        self.asked.insert(request, lock.clone());
        self.clients[client].timer += 1;
        self.call(client, Call::Acquire { session, request, lock, wait });
        if !self.calm && self.draw.usize(..8) == 0 {
            let patience = self.draw.u64(1_000..2_000_000);
            self.set_timer(client, patience);
        }
    }

    /// Which client this is about.
    pub(super) fn whose(&self, machine: usize, tell: &Tell) -> Option<usize> {
        let request = match *tell {
            Tell::Extended { session, .. } => {
                return self.clients.iter().position(|client| client.session == Some(session));
            }
            Tell::Granted { request, .. }
            | Tell::Lost { request, .. }
            | Tell::Released { request }
            | Tell::Cancelled { request }
            | Tell::TimedOut { request }
            | Tell::Busy { request }
            | Tell::Refused { request, .. } => request,
        };
        self.clients.iter().position(|client| {
            client.machine == machine && client.state.request() == Some(request) && client.session.is_some()
        })
    }

    /// The client hears from its node.
    pub(super) fn told(&mut self, client: usize, session: Session, answer: Answer) {
        let Answer::Lock(tell) = answer else { return };
        if self.clients[client].session != Some(session) {
            return;
        }
        match tell {
            Tell::Granted { request, fence, lease_end, .. } => self.enter(client, request, fence, lease_end),
            Tell::Extended { lease_end, .. } => {
                if let State::Inside(inside) = &mut self.clients[client].state {
                    inside.lease_end = inside.lease_end.max(lease_end);
                }
            }
            Tell::Lost { request, act_by } => {
                if self.clients[client].state.request() == Some(request) {
                    self.lose(client, request, act_by);
                }
            }
            Tell::Released { .. } => {}
            Tell::Cancelled { request }
            | Tell::TimedOut { request }
            | Tell::Busy { request }
            | Tell::Refused { request, .. } => {
                if self.clients[client].state.request() == Some(request) {
                    self.rest(client);
                }
            }
        }
    }

    fn enter(&mut self, client: usize, request: Request, fence: Fence, lease_end: Time) {
        let State::Waiting { request: waiting, lock } = self.clients[client].state.clone() else { return };
        if waiting != request {
            return;
        }
        let read = self.updates.read(&lock, fence);
        let in_calm = self.calm;
        let inside = Inside { request, lock, fence, lease_end, read, in_calm };
        self.clients[client].state = State::Inside(inside);
        let hold = self.within(self.settings.hold);
        self.set_timer(client, hold);
    }

    /// Its work is done: writes the result, if it still believes to hold the lock.
    fn count_up(&mut self, client: usize, inside: &Inside) {
        let machine = self.clients[client].machine;
        let believes = self.moment(machine, inside.lease_end) > self.now;
        let (Some(read), true) = (inside.read, believes) else {
            // Where several may hold the lock, an old fence is no sign that anything went wrong.
            if believes && self.updates.is_shared(&inside.lock) {
                self.served(client, inside);
            }
            return self.leave_lock(client, inside.request);
        };
        self.clients[client].timer += 1;
        let timer = self.clients[client].timer;
        // Now and then it is held up between looking at its clock and writing: then only the fence protects.
        let delay = if self.draw.usize(..20) == 0 { self.draw.u64(..5_000_000) } else { self.within(1_000) };
        let (lock, fence) = (inside.lock.clone(), inside.fence);
        self.after(delay, Event::Update { client, timer, lock, fence, read });
    }

    /// The write is done, or was rejected: the lock is given back.
    pub(super) fn updated(&mut self, client: usize, timer: u64, accepted: bool) {
        if self.clients[client].timer == timer
            && let State::Inside(inside) = self.clients[client].state.clone()
        {
            if accepted || self.updates.is_shared(&inside.lock) {
                self.served(client, &inside);
            }
            self.leave_lock(client, inside.request);
        }
    }

    /// It got in and did its work. Whoever got in before the calm has not had its turn in the calm yet.
    fn served(&mut self, client: usize, inside: &Inside) {
        if inside.in_calm && self.clients[client].finale == Finale::Owed {
            self.clients[client].finale = Finale::Done;
        }
    }

    /// It has lost: some stop at once and say so, others use the time that they are given.
    fn lose(&mut self, client: usize, request: Request, act_by: Time) {
        match &mut self.clients[client].state {
            State::Inside(inside) if self.draw.bool() => inside.lease_end = inside.lease_end.min(act_by),
            State::Inside(_) | State::Waiting { .. } | State::Resting => self.leave_lock(client, request),
        }
    }

    /// Gives the lock back: from now on it does not believe to hold it.
    fn leave_lock(&mut self, client: usize, request: Request) {
        self.exclusion.on_left(request);
        self.call(client, Call::Release(request));
        self.rest(client);
    }

    fn rest(&mut self, client: usize) {
        self.clients[client].state = State::Resting;
        let rest = self.within(if self.calm { 10_000 } else { 400_000 });
        self.set_timer(client, rest);
    }

    /// The client's process dies, and another one takes its place later. Its node notices by the connection.
    pub(super) fn client_crash(&mut self, client: usize) {
        if let Some(session) = self.clients[client].session {
            if let Some(request) = self.clients[client].state.request() {
                self.exclusion.on_left(request);
            }
            self.call(client, Call::SessionEnded(session));
        }
        self.disconnect(client);
    }

    /// The connection is gone: whatever it held it has lost, and it knows.
    pub(super) fn disconnect(&mut self, client: usize) {
        if let State::Inside(inside) = &self.clients[client].state {
            self.exclusion.on_left(inside.request);
        }
        self.clients[client].session = None;
        self.rest(client);
    }
}

impl State {
    pub(super) fn request(&self) -> Option<Request> {
        match self {
            State::Resting => None,
            State::Waiting { request, .. } => Some(*request),
            State::Inside(inside) => Some(inside.request),
        }
    }
}

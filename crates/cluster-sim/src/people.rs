//! What clients do: ask, wait, count up, give back, cancel, die, come back.

use meshlock_protocol::Fence;

use super::client::{Asked, Finale, Inside, State};
use super::coverage::Rare;
use super::event::Event;
use super::properties::starvation::LONGEST_HOLD_UP;
use super::world::World;
use meshlock_cluster::node::{ClientAnswer, ClientCall};
use meshlock_cluster::table::{Acquire, LockEvent, Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};

impl World {
    pub(super) fn set_timer(&mut self, client: usize, micros: u64) {
        self.clients[client].timer += 1;
        let timer = self.clients[client].timer;
        self.after(micros, Event::Client { client, timer });
    }

    /// The site that a client talks to.
    pub(super) fn machine_of(&self, client: usize) -> usize {
        self.processes[self.clients[client].process].machine
    }

    /// The processes that talk to this site.
    pub(super) fn processes_at(&self, machine: usize) -> impl Iterator<Item = usize> + use<> {
        let each = self.settings.processes;
        machine * each..(machine + 1) * each
    }

    /// The clients of a process.
    fn clients_in(&self, process: usize) -> Vec<usize> {
        (0..self.clients.len()).filter(|at| self.clients[*at].process == process).collect()
    }

    fn call(&mut self, process: usize, call: ClientCall) {
        let machine = self.processes[process].machine;
        let (delay, incarnation) = (self.within(200), self.machines[machine].incarnation);
        let at = self.now.after(delay).max(self.processes[process].last_call);
        self.processes[process].last_call = at;
        self.at(at, Event::Call { machine, incarnation, call });
    }

    /// Something that the client planned for now.
    pub(super) fn client_timer(&mut self, client: usize, timer: u64) {
        if self.clients[client].timer != timer {
            return;
        }
        match self.clients[client].state.clone() {
            State::Resting => self.ask(client),
            State::Waiting { request, .. } => {
                self.call(self.clients[client].process, ClientCall::Cancel(request));
            }
            State::Inside(inside) => self.count_up(client, &inside),
        }
    }

    /// A number for something that is asked for.
    pub(super) fn new_request(&mut self) -> Request {
        self.last_request += 1;
        Request(self.last_request)
    }

    /// Asks for a lock, over a new connection if need be.
    fn ask(&mut self, client: usize) {
        let process = self.clients[client].process;
        let machine = self.processes[process].machine;
        let host = &self.machines[machine];
        if self.clients[client].finale == Finale::Done || host.left || host.node.is_none() {
            return;
        }
        let session = self.processes[process].session.unwrap_or_else(|| {
            self.last_session += 1;
            Session(self.last_session)
        });
        self.processes[process].session = Some(session);
        let request = self.new_request();
        let lock = self.settings.locks[self.draw.usize(..self.settings.locks.len())].clone();
        let patience = Span::from_micros(self.draw.u64(1_000..3_000_000));
        let wait = match self.draw.usize(..10) {
            _ if self.calm => Wait::Forever,
            0..6 => Wait::Forever,
            6..9 => Wait::Within(patience),
            _ => Wait::Try,
        };
        self.clients[client].state = State::Waiting { request, lock: lock.clone() };
        self.asked.insert(request, Asked { lock: lock.clone(), session, client });
        self.clients[client].timer += 1;
        self.call(process, ClientCall::Acquire(Acquire { session, request, lock, wait, cause: None }));
        if !self.calm && self.draw.usize(..8) == 0 {
            let patience = self.draw.u64(1_000..2_000_000);
            self.set_timer(client, patience);
        }
    }

    /// The client that made a request, if its process still lives and it has not turned to something else.
    pub(super) fn who_asked(&self, request: Request) -> Option<usize> {
        let Asked { client, session, .. } = *self.asked.get(&request)?;
        let lives = self.processes[self.clients[client].process].session == Some(session);
        (lives && self.clients[client].state.request() == Some(request)).then_some(client)
    }

    /// The process that is told this, if it still lives.
    pub(super) fn whom(&self, tell: &LockEvent) -> Option<usize> {
        let session = match tell {
            LockEvent::Extended { session, .. } => *session,
            LockEvent::Granted { request, .. }
            | LockEvent::Lost { request, .. }
            | LockEvent::Released { request }
            | LockEvent::Cancelled { request }
            | LockEvent::TimedOut { request }
            | LockEvent::Busy { request }
            | LockEvent::Refused { request, .. } => self.asked.get(request)?.session,
        };
        self.processes.iter().position(|process| process.session == Some(session))
    }

    /// A process hears from its node.
    pub(super) fn told(&mut self, process: usize, session: Session, answer: ClientAnswer) {
        let ClientAnswer::Lock(tell) = answer else { return };
        if self.processes[process].session != Some(session) {
            return;
        }
        match tell {
            LockEvent::Granted { request, fence, lease_end, .. } => self.enter(request, fence, lease_end),
            LockEvent::Extended { lease_end, .. } => {
                for client in self.clients_in(process) {
                    if let State::Inside(inside) = &mut self.clients[client].state
                        && !inside.lost
                    {
                        inside.lease_end = inside.lease_end.max(lease_end);
                    }
                }
            }
            LockEvent::Lost { request, act_by, .. } => {
                if let Some(client) = self.who_asked(request) {
                    self.lose(client, request, act_by);
                }
            }
            LockEvent::Released { .. } => {}
            LockEvent::Cancelled { request }
            | LockEvent::TimedOut { request }
            | LockEvent::Busy { request }
            | LockEvent::Refused { request, .. } => {
                if let Some(client) = self.who_asked(request) {
                    self.rest(client);
                }
            }
        }
    }

    fn enter(&mut self, request: Request, fence: Fence, lease_end: Time) {
        let Some(client) = self.who_asked(request) else { return };
        let State::Waiting { lock, .. } = self.clients[client].state.clone() else { return };
        let others = self.clients_in(self.clients[client].process);
        if others.iter().any(|other| matches!(self.clients[*other].state, State::Inside(_))) {
            self.coverage.saw(Rare::Several);
        }
        let read = self.updates.read(&lock, fence);
        let in_calm = self.calm;
        let inside = Inside { request, lock, fence, lease_end, read, lost: false, in_calm };
        self.clients[client].state = State::Inside(inside);
        let hold = self.within(self.settings.hold);
        if self.calm {
            self.bound.on_turn(hold);
        }
        self.set_timer(client, hold);
    }

    /// Its work is done: writes the result, if it still believes to hold the lock.
    fn count_up(&mut self, client: usize, inside: &Inside) {
        let machine = self.machine_of(client);
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
        let held_up = !self.calm && self.draw.usize(..20) == 0;
        let delay = self.within(if held_up { LONGEST_HOLD_UP } else { 1_000 });
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
            State::Inside(inside) if self.draw.bool() => {
                inside.lost = true;
                inside.lease_end = inside.lease_end.min(act_by);
            }
            State::Inside(_) | State::Waiting { .. } | State::Resting => self.leave_lock(client, request),
        }
    }

    /// Gives the lock back: from now on it does not believe to hold it.
    fn leave_lock(&mut self, client: usize, request: Request) {
        self.exclusion.on_left(request);
        self.call(self.clients[client].process, ClientCall::Release(request));
        self.rest(client);
    }

    fn rest(&mut self, client: usize) {
        self.clients[client].state = State::Resting;
        let rest = self.within(if self.calm { 10_000 } else { 400_000 });
        self.set_timer(client, rest);
    }

    /// A process of clients dies, and another one takes its place later. Its node notices by the connection.
    pub(super) fn client_crash(&mut self, process: usize) {
        if let Some(session) = self.processes[process].session {
            for client in self.clients_in(process) {
                match self.clients[client].state {
                    State::Resting => {}
                    State::Waiting { .. } => self.coverage.saw(Rare::CrashedWaiting),
                    State::Inside(_) => self.coverage.saw(Rare::CrashedHolding),
                }
                if let Some(request) = self.clients[client].state.request() {
                    self.exclusion.on_left(request);
                }
            }
            self.call(process, ClientCall::SessionEnded(session));
        }
        self.disconnect(process);
    }

    /// The connection is gone: whatever its clients held they have lost, and know it.
    pub(super) fn disconnect(&mut self, process: usize) {
        self.processes[process].session = None;
        for client in self.clients_in(process) {
            if let State::Inside(inside) = &self.clients[client].state {
                self.exclusion.on_left(inside.request);
            }
            self.rest(client);
        }
    }
}

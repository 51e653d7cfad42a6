//! The behaviour of clients: they request, wait, increment the counter, release, cancel, crash and come back.

use meshlock_protocol::{Fence, Mode};

use super::client::{Asked, ClientState, FinalTurn, Inside};
use super::coverage::Occurrence;
use super::event::Event;
use super::properties::starvation::MAX_DELAYED_WRITE;
use super::world::World;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::{ClientAnswer, ClientCall};
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::{Acquire, LockEvent, Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::CARRIES_PERMITS;

impl World {
    pub(super) fn set_timer(&mut self, client: usize, micros: u64) {
        self.clients[client].timer += 1;
        let timer = self.clients[client].timer;
        self.after(micros, Event::Client { client, timer });
    }

    /// Returns the site that a client is connected to.
    pub(super) fn machine_of(&self, client: usize) -> usize {
        self.processes[self.clients[client].process].machine
    }

    /// Returns the processes that are connected to this site.
    pub(super) fn processes_at(&self, machine: usize) -> impl Iterator<Item = usize> + use<> {
        let each = self.settings.processes;
        machine * each..(machine + 1) * each
    }

    /// Returns the clients of a process.
    fn clients_in(&self, process: usize) -> Vec<usize> {
        (0..self.clients.len()).filter(|at| self.clients[*at].process == process).collect()
    }

    pub(super) fn call(&mut self, process: usize, call: ClientCall) {
        let machine = self.processes[process].machine;
        let (delay, incarnation) = (self.within(200), self.machines[machine].incarnation);
        let at = self.now.after(delay).max(self.processes[process].last_call);
        self.processes[process].last_call = at;
        self.at(at, Event::Call { machine, incarnation, call });
    }

    /// Does what the client has planned for now.
    pub(super) fn client_timer(&mut self, client: usize, timer: u64) {
        if self.clients[client].timer != timer {
            return;
        }
        match self.clients[client].state.clone() {
            ClientState::Resting => self.ask(client),
            ClientState::Waiting { request, .. } => {
                self.call(self.clients[client].process, ClientCall::Cancel(request));
            }
            ClientState::Inside(inside) => {
                if !self.change_mode(client, &inside) {
                    self.count_up(client, &inside);
                }
            }
        }
    }

    /// Returns a new request number.
    pub(super) fn new_request(&mut self) -> Request {
        self.last_request += 1;
        Request(self.last_request)
    }

    /// Requests a lock, over a new connection if necessary.
    fn ask(&mut self, client: usize) {
        let process = self.clients[client].process;
        let machine = self.processes[process].machine;
        let host = &self.machines[machine];
        if self.clients[client].final_turn == FinalTurn::Done || host.left || host.node.is_none() {
            return;
        }
        let session = self.processes[process].session.unwrap_or_else(|| {
            self.last_session += 1;
            Session(self.last_session)
        });
        self.processes[process].session = Some(session);
        let request = self.new_request();
        let lock = self.settings.locks[self.draw.usize(..self.settings.locks.len())].clone();
        let timeout = Span::from_micros(self.draw.u64(1_000..3_000_000));
        let wait = match self.draw.usize(..10) {
            _ if self.calm => Wait::Forever,
            0..6 => Wait::Forever,
            6..9 => Wait::Within(timeout),
            _ => Wait::Try,
        };
        let permits = self.number_for(&lock, machine);
        let demand = self.demand_for(&lock, permits);
        self.clients[client].state = ClientState::Waiting { request, lock: lock.clone(), permits };
        self.asked.insert(request, Asked { lock: lock.clone(), permits, mode: demand.mode, session, client });
        self.clients[client].timer += 1;
        self.call(
            process,
            ClientCall::Acquire(Acquire { session, request, lock, permits, wait, cause: None, demand }),
        );
        if !self.calm && self.draw.usize(..8) == 0 {
            let timeout = self.draw.u64(1_000..2_000_000);
            self.set_timer(client, timeout);
        }
    }

    /// Draws how many may hold the lock, as a client understands it: mostly what the rules say. A client that is told
    /// that a rule says something else asks again with another number. A site with an older program knows only the rules.
    fn number_for(&mut self, lock: &LockName, machine: usize) -> u32 {
        let newest = Rules::new(self.newest.rules.clone()).expect("rules that were agreed on");
        let by_rule = newest.rule(lock).permits;
        if self.speaks(machine) < CARRIES_PERMITS {
            return by_rule;
        }
        let follows =
            if newest.names(lock) { self.calm || self.draw.usize(..8) != 0 } else { self.draw.bool() };
        if follows { by_rule } else { self.draw.u32(1..=3) }
    }

    /// Returns the client that made a request, if its process still runs and it still waits for or holds it.
    pub(super) fn requester(&self, request: Request) -> Option<usize> {
        let Asked { client, session, .. } = *self.asked.get(&request)?;
        let runs = self.processes[self.clients.get(client)?.process].session == Some(session);
        (runs && self.clients[client].state.request() == Some(request)).then_some(client)
    }

    /// Returns the process that receives this event, if it still runs.
    pub(super) fn recipient(&self, tell: &LockEvent) -> Option<usize> {
        let session = self.asked.get(&tell.request()?)?.session;
        self.processes.iter().position(|process| process.session == Some(session))
    }

    /// Handles a node's answer at the process.
    pub(super) fn told(&mut self, process: usize, session: Session, answer: ClientAnswer) {
        let ClientAnswer::Lock(tell) = answer else { return };
        if self.processes[process].session != Some(session) {
            return;
        }
        match tell {
            LockEvent::Granted { request, fence, lease_end, .. } => self.enter(request, fence, lease_end),
            LockEvent::ModeChanged { request, mode, fence } => self.mode_changed(request, mode, fence),
            LockEvent::ModeRefused { request, .. } => {
                if let Some(client) = self.requester(request) {
                    self.leave_lock(client, request);
                }
            }
            LockEvent::Extended { lease_end } => {
                for client in self.clients_in(process) {
                    if let ClientState::Inside(inside) = &mut self.clients[client].state
                        && !inside.lost
                    {
                        inside.lease_end = inside.lease_end.max(lease_end);
                    }
                }
            }
            LockEvent::Lost { request, act_by, .. } => {
                if let Some(client) = self.requester(request) {
                    self.lose(client, request, act_by);
                }
            }
            LockEvent::Released { .. } => {}
            LockEvent::Cancelled { request }
            | LockEvent::TimedOut { request }
            | LockEvent::Busy { request }
            | LockEvent::Unavailable { request, .. }
            | LockEvent::Refused { request, .. } => {
                if let Some(client) = self.requester(request) {
                    self.rest(client);
                }
            }
        }
    }

    fn enter(&mut self, request: Request, fence: Fence, lease_end: Time) {
        let Some(client) = self.requester(request) else { return };
        let ClientState::Waiting { lock, permits, .. } = self.clients[client].state.clone() else { return };
        let others = self.clients_in(self.clients[client].process);
        if others.iter().any(|other| matches!(self.clients[*other].state, ClientState::Inside(_))) {
            self.coverage.record(Occurrence::Several);
        }
        // The counter is for those who are alone.
        let mode = self.asked.get(&request).map_or(Mode::Exclusive, |asked| asked.mode);
        let is_alone = permits == 1 && mode == Mode::Exclusive;
        let read = if is_alone { self.updates.read(&lock, fence) } else { None };
        let (in_calm, lost, upgrades, next) =
            (self.calm, false, false, self.draw_change(&lock, permits, mode));
        let inside =
            Inside { request, lock, permits, fence, lease_end, read, mode, next, upgrades, lost, in_calm };
        self.clients[client].state = ClientState::Inside(inside);
        let hold = self.within(self.settings.hold);
        if self.calm {
            self.bound.on_turn(hold);
        }
        self.set_timer(client, hold);
    }

    /// Ends the work: writes the result, if the client still assumes that it holds the lock.
    fn count_up(&mut self, client: usize, inside: &Inside) {
        let machine = self.machine_of(client);
        let assumes_held = self.moment(machine, inside.lease_end) > self.now;
        let (Some(read), true) = (inside.read, assumes_held) else {
            if assumes_held && (inside.permits > 1 || inside.mode != Mode::Exclusive) {
                self.served(client, inside);
            }
            return self.leave_lock(client, inside.request);
        };
        self.clients[client].timer += 1;
        let timer = self.clients[client].timer;
        // Now and then the client is delayed between looking at its clock and writing: then only the fence protects.
        let is_delayed = !self.calm && self.draw.usize(..20) == 0;
        let delay = self.within(if is_delayed { MAX_DELAYED_WRITE } else { 1_000 });
        let (lock, fence) = (inside.lock.clone(), inside.fence);
        self.after(delay, Event::Update { client, timer, lock, fence, read });
    }

    /// Releases the lock after the write was done or rejected.
    pub(super) fn updated(&mut self, client: usize, timer: u64, accepted: bool) {
        if self.clients[client].timer == timer
            && let ClientState::Inside(inside) = self.clients[client].state.clone()
        {
            if accepted {
                self.served(client, &inside);
            }
            self.leave_lock(client, inside.request);
        }
    }

    /// Records that a client entered and did its work. A client that entered before the calm has not had its turn in
    /// the calm yet.
    fn served(&mut self, client: usize, inside: &Inside) {
        if inside.in_calm && self.clients[client].final_turn == FinalTurn::Owed {
            self.clients[client].final_turn = FinalTurn::Done;
        }
    }

    /// Handles the loss of a lock: some clients stop at once and say so, others use the time that they are given.
    fn lose(&mut self, client: usize, request: Request, act_by: Time) {
        match &mut self.clients[client].state {
            ClientState::Inside(inside) if !inside.upgrades && self.draw.bool() => {
                inside.lost = true;
                inside.lease_end = inside.lease_end.min(act_by);
            }
            ClientState::Inside(_) | ClientState::Waiting { .. } | ClientState::Resting => {
                self.leave_lock(client, request);
            }
        }
    }

    /// Releases the lock: from now on the client does not assume that it holds it.
    fn leave_lock(&mut self, client: usize, request: Request) {
        self.exclusion.on_left(request);
        self.call(self.clients[client].process, ClientCall::Release(request));
        self.rest(client);
    }

    fn rest(&mut self, client: usize) {
        self.clients[client].state = ClientState::Resting;
        let rest = self.within(if self.calm { 10_000 } else { 400_000 });
        self.set_timer(client, rest);
    }

    /// Crashes a process of clients, which another one replaces later. Its node notices by the connection.
    pub(super) fn client_crash(&mut self, process: usize) {
        if let Some(session) = self.processes[process].session {
            for client in self.clients_in(process) {
                match self.clients[client].state {
                    ClientState::Resting => {}
                    ClientState::Waiting { .. } => self.coverage.record(Occurrence::CrashedWaiting),
                    ClientState::Inside(_) => self.coverage.record(Occurrence::CrashedHolding),
                }
                if let Some(request) = self.clients[client].state.request() {
                    self.exclusion.on_left(request);
                }
            }
            self.call(process, ClientCall::SessionEnded(session));
        }
        self.disconnect(process);
    }

    /// Ends the connection: the clients have lost everything they held, and know it.
    pub(super) fn disconnect(&mut self, process: usize) {
        self.processes[process].session = None;
        for client in self.clients_in(process) {
            if let ClientState::Inside(inside) = &self.clients[client].state {
                self.exclusion.on_left(inside.request);
            }
            self.rest(client);
        }
    }
}

//! What goes wrong and what operators do, when its time has come; and the calm that follows.

use super::client::{Finale, State};
use super::clock::Moment;
use super::event::Event;
use super::faults::Fault;
use super::properties::{Verdict, starvation};
use super::world::World;
use crate::node::{Call, Input};
use crate::table::Request;

impl World {
    pub(super) fn fault(&mut self, at: usize) -> Verdict {
        let fault = self.settings.faults[at].1.clone();
        self.coverage.count(&format!("fault: {}", fault.kind()));
        self.trace.fault(self.now, &fault);
        match fault {
            Fault::Crash { machine, when, down } => {
                if self.machines[machine].node.is_some() && self.machines[machine].dying.is_none() {
                    self.machines[machine].dying = Some((when, down));
                }
            }
            Fault::Pause { machine, length } => {
                let end = self.now.after(length).min(Moment(self.settings.calm));
                let until = &mut self.machines[machine].paused_until;
                *until = (*until).max(Some(end));
                self.at(end, Event::Resume(machine));
            }
            Fault::Break { a, b } => self.cut(a, b),
            Fault::Partition { blocked, length } => {
                self.network.block(&blocked);
                self.after(length, Event::Unblock(at));
            }
            Fault::ClientCrash { client } => self.client_crash(client),
            Fault::Leave { machine } => return self.leave(machine),
            Fault::Rules { machine, rules } => {
                self.last_request += 1;
                let request = Request(self.last_request);
                return self.drive(machine, Input::Call(Call::SetRules { request, rules }));
            }
            Fault::SlowDisk { machine, length } => {
                self.machines[machine].slow_until = self.now.after(length);
            }
        }
        Ok(())
    }

    /// An operator takes a site out. Its clients stop.
    pub(super) fn leave(&mut self, machine: usize) -> Verdict {
        // Somebody must stay to serve the rest.
        let staying = self.machines.iter().filter(|host| !host.left).count();
        if self.machines[machine].node.is_none() || self.machines[machine].left || staying < 2 {
            return Ok(());
        }
        self.machines[machine].left = true;
        for at in 0..self.clients.len() {
            if self.clients[at].machine == machine && self.clients[at].state != State::Resting {
                self.client_crash(at);
            }
            if self.clients[at].machine == machine {
                self.clients[at].finale = Finale::Done;
            }
        }
        self.last_request += 1;
        let request = Request(self.last_request);
        self.drive(machine, Input::Call(Call::Leave { request }))
    }

    /// Repairs everything, and lets every client want in once more.
    pub(super) fn become_calm(&mut self) {
        self.calm = true;
        self.network.heal();
        self.network.block(&self.settings.stubborn);
        if !self.settings.stubborn.is_empty() {
            self.coverage.count("partial partition that stays");
        }
        for machine in &mut self.machines {
            machine.slow_until = Moment::default();
            machine.dying = None;
        }
        self.reconnect_all();
        for at in 0..self.clients.len() {
            let machine = self.clients[at].machine;
            let owed = !self.machines[machine].left && self.settings.is_untouched(machine);
            self.clients[at].finale = if owed { Finale::Owed } else { Finale::Done };
            if self.clients[at].state == State::Resting {
                self.set_timer(at, 0);
            }
        }
        let bound = starvation::bound(self.clients.len() as u64, self.settings.hold);
        self.after(bound, Event::Bound);
    }

    pub(super) fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.finale == Finale::Done)
    }

    pub(super) fn unserved(&self) -> Vec<String> {
        let owed = self.clients.iter().enumerate().filter(|(_, client)| client.finale == Finale::Owed);
        owed.map(|(at, client)| format!("client {at} of s{} ({:?})", client.machine, client.state)).collect()
    }
}

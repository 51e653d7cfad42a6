//! What goes wrong and what operators do, when its time has come; and the calm that follows.

use meshlock_protocol::Epoch;

use super::client::{Finale, State};
use super::clock::Moment;
use super::coverage::{Group, Rare};
use super::event::Event;
use super::faults::Fault;
use super::properties::{Verdict, starvation};
use super::world::World;
use meshlock_cluster::founding::Founding;
use meshlock_cluster::names::Incarnation;
use meshlock_cluster::node::{ClientCall, Content, Packet};
use meshlock_cluster::view::View;

impl World {
    pub(super) fn fault(&mut self, at: usize) {
        let fault = self.settings.faults[at].1.clone();
        self.coverage.count(Group::Fault, fault.kind(), "");
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
            Fault::Partition { cut, holds, length } => {
                if !cut.blocked.is_empty() {
                    self.coverage.count(Group::Partition, cut.shape, cut.ways);
                }
                self.network.block(&cut.blocked, holds);
                self.after(length, Event::Unblock(at));
            }
            Fault::SlowLink { from, to, more, length } => {
                self.network.slow_down((from, to), more, self.now.after(length));
            }
            Fault::ClientCrash { client } => self.client_crash(self.clients[client].process),
            Fault::Leave { machine, back } => self.leave(machine, back),
            Fault::Rules { machine, rules } => {
                let request = self.new_request();
                self.operate(machine, ClientCall::SetRules { request, rules });
            }
            Fault::OtherCluster { machine, from } => self.mistake(machine, from),
            Fault::LostDisk { machine, down } => self.lose_disk(machine, down),
            Fault::TakeAway { machine, lock } => {
                let lock = self.settings.locks[lock].clone();
                let (request, order) = (self.new_request(), self.new_request());
                self.operate(machine, ClientCall::Query { request, lock: lock.clone() });
                self.operate(machine, ClientCall::Break { request: order, lock });
            }
            Fault::SlowDisk { machine, length } => {
                self.machines[machine].slow_until = self.now.after(length);
            }
        }
    }

    /// A site of another cluster, called like a site of this one, says what was agreed on there.
    fn mistake(&mut self, to: usize, from: usize) {
        let Some(node) = self.machines[to].node.as_ref().filter(|_| to != from) else { return };
        let founding = Founding::new("elsewhere".parse().expect("a fixed name"), &self.names[from..=from]);
        let epoch = Epoch::new(node.view().epoch.number() + 1).expect("few views are installed here");
        let content = Content::View(View { epoch, ..View::default() });
        let packet = Packet { cluster: founding.id(), incarnation: Incarnation::new(1), content };
        let generation = self.network.generation(from, to);
        self.after(0, Event::Packet { from, to, generation, packet: Box::new(packet) });
    }

    /// An operator calls a node.
    fn operate(&mut self, machine: usize, call: ClientCall) {
        let incarnation = self.machines[machine].incarnation;
        self.after(0, Event::Call { machine, incarnation, call });
    }

    /// A partition is over.
    pub(super) fn unblock(&mut self, at: usize) {
        if let (_, Fault::Partition { cut, holds, .. }) = self.settings.faults[at].clone()
            && !self.calm
        {
            let held = self.network.unblock(&cut.blocked, holds);
            self.release(held);
            self.reconnect_all();
        }
    }

    /// An operator takes a site out. Its clients stop.
    fn leave(&mut self, machine: usize, back: Option<u64>) {
        // Somebody must stay to serve the rest.
        let staying = self.machines.iter().filter(|host| !host.left).count();
        if self.machines[machine].node.is_none() || self.machines[machine].left || staying < 2 {
            return;
        }
        self.machines[machine].left = true;
        for process in self.processes_at(machine) {
            self.client_crash(process);
        }
        if let Some(back) = back {
            let left = self.settings.calm.saturating_sub(self.now.0);
            self.after(back.min(left), Event::Rejoin(machine));
        }
        let request = self.new_request();
        self.operate(machine, ClientCall::Leave { request });
    }

    /// An operator lets a site that has left, or is about to, come back: its process ends and another one begins.
    pub(super) fn rejoin(&mut self, machine: usize) {
        if let Some(until) = self.machines[machine].paused_until {
            return self.at(until, Event::Rejoin(machine));
        }
        if !self.calm && std::mem::take(&mut self.machines[machine].left) {
            self.crash(machine, 0);
        }
    }

    /// Repairs everything, and lets every client want in once more.
    pub(super) fn become_calm(&mut self) {
        self.calm = true;
        let held = self.network.heal();
        self.release(held);
        self.network.block(&self.settings.stubborn, false);
        if !self.settings.stubborn.is_empty() {
            self.coverage.saw(Rare::PartitionStays);
        }
        for machine in &mut self.machines {
            machine.slow_until = Moment::default();
            machine.dying = None;
        }
        self.reconnect_all();
        for at in 0..self.clients.len() {
            let machine = self.machine_of(at);
            let owed = !self.machines[machine].left && self.settings.is_untouched(machine);
            self.clients[at].finale = if owed { Finale::Owed } else { Finale::Done };
            if self.clients[at].state == State::Resting {
                self.set_timer(at, 0);
            }
        }
        self.after(self.bound.micros(), Event::Bound);
    }

    /// Everyone must have been served, unless turns since then have moved the bound.
    pub(super) fn reach_bound(&mut self) -> Verdict {
        let bound = Moment(self.settings.calm).after(self.bound.micros());
        if self.now < bound {
            self.at(bound, Event::Bound);
            return Ok(());
        }
        starvation::check(&self.unserved(), self.now)
    }

    pub(super) fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.finale == Finale::Done)
    }

    fn unserved(&self) -> Vec<String> {
        let owed = self.clients.iter().enumerate().filter(|(_, client)| client.finale == Finale::Owed);
        owed.map(|(at, client)| format!("client {at} of s{} ({:?})", self.machine_of(at), client.state))
            .collect()
    }
}

//! Injection of faults and actions of operators, when they are due; and the calm that follows.

use meshlock_protocol::Epoch;

use super::client::{ClientState, FinalTurn};
use super::clock::Moment;
use super::coverage::{CoverageGroup, Occurrence};
use super::event::Event;
use super::faults::ClusterFault;
use super::properties::{CheckResult, sound, starvation};
use super::world::World;
use meshlock_cluster::founding::Founding;
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::names::Incarnation;
use meshlock_cluster::node::{ClientCall, Content, Packet, VoterRequest};
use meshlock_cluster::view::View;

/// For how long a node repeats an operator's request to change the voters, and the change takes then, in microseconds.
const MAX_REQUEST: u64 = 20_000_000;

impl World {
    /// Makes a fault happen.
    pub(super) fn fault(&mut self, at: usize) -> CheckResult {
        let fault = self.settings.faults[at].1.clone();
        self.coverage.count(CoverageGroup::Fault, fault.kind(), "");
        self.trace.fault(self.now, &fault);
        self.apply_fault(at, fault)
    }

    /// Applies a fault, which is the one of this index if it lasts for a while or was prepared for.
    #[allow(clippy::too_many_lines, reason = "one short arm for each kind")]
    pub(super) fn apply_fault(&mut self, at: usize, fault: ClusterFault) -> CheckResult {
        self.needless.on_fault(&fault, self.now);
        self.one_lease.on_fault(&fault, self.now);
        match fault {
            ClusterFault::Crash { machine, when, down } => {
                if self.machines[machine].node.is_some() && self.machines[machine].dying.is_none() {
                    self.machines[machine].dying = Some((when, down));
                }
            }
            ClusterFault::Pause { machine, length } => self.pause(machine, length),
            ClusterFault::Break { a, b } => self.cut(a, b),
            ClusterFault::Partition { cut, holds, length } => {
                if !cut.blocked.is_empty() {
                    self.coverage.count(CoverageGroup::Partition, cut.shape, cut.ways);
                }
                self.network.block(&cut.blocked, holds);
                self.after(length, Event::Unblock(at));
            }
            ClusterFault::SlowLink { from, to, more, length } => {
                self.network.slow_down((from, to), more, self.now.after(length));
            }
            ClusterFault::ClientCrash { client } => self.client_crash(self.clients[client].process),
            ClusterFault::Leave { machine, back } => self.leave(machine, back),
            ClusterFault::Rules { machine, rules } => {
                let request = self.new_request();
                self.operator_call(machine, ClientCall::SetRules { request, rules });
            }
            ClusterFault::OtherCluster { machine, from } => self.deliver_foreign_view(machine, from),
            ClusterFault::LostDisk { machine, down } => self.lose_disk(machine, down),
            ClusterFault::LostVoterDisk { machine, down } => {
                if self.survives_loss_of(machine) {
                    self.coverage.record(Occurrence::VoterDiskLost);
                    self.lose_disk(machine, down);
                }
            }
            ClusterFault::Voters { machine, change } => {
                if matches!(change, VoterRequest::Demote(_)) {
                    if !self.may_demote() {
                        return Ok(());
                    }
                    self.demotes_until = self.now.after(MAX_REQUEST);
                }
                let request = self.new_request();
                self.operator_call(machine, ClientCall::ChangeVoters { request, change });
            }
            ClusterFault::Access { machine, number } => self.change_access(machine, number),
            ClusterFault::StartRemoved { machine, by } => self.start_removed(machine, by),
            ClusterFault::TakeAway { machine, lock } => {
                let lock = self.settings.locks[lock].clone();
                let (request, order) = (self.new_request(), self.new_request());
                self.operator_call(machine, ClientCall::Query { request, lock: lock.clone() });
                self.operator_call(machine, ClientCall::Break { request: order, lock });
            }
            ClusterFault::SlowDisk { machine, length } => {
                self.machines[machine].slow_until = self.now.after(length);
            }
            // The clocks have known it from the start.
            ClusterFault::ClockRate { .. } | ClusterFault::ClockJump { .. } => {}
            ClusterFault::Suspend { machine, length, .. } => {
                self.pause(machine, length);
                self.machines[machine].suspended_until = self.machines[machine].paused_until;
            }
            ClusterFault::StuckDisk { machine, length } => {
                let end = self.now.after(length).min(Moment(self.settings.calm));
                let until = &mut self.machines[machine].stuck_until;
                *until = (*until).max(end);
            }
            ClusterFault::StuckForGood { machine } => self.stick_for_good(machine),
            ClusterFault::OldDisk { machine, down, .. } => self.put_back(at, machine, down),
            ClusterFault::UnreadableDisk { machine, down, repair } => self.spoil_disk(machine, down, repair),
            ClusterFault::Mover(fault) => self.mover_fault(fault),
            ClusterFault::AtMirror(fault) => self.arm(fault),
            ClusterFault::SecondProcess { machine, stamp, length } => {
                return self.start_second(machine, stamp, length);
            }
            ClusterFault::LossyLink { from, to, one_in, length } => {
                self.network.lose((from, to), one_in, self.now.after(length));
            }
        }
        Ok(())
    }

    /// Pauses a machine, at most until the calm.
    fn pause(&mut self, machine: usize, length: u64) {
        let end = self.now.after(length).min(Moment(self.settings.calm));
        let until = &mut self.machines[machine].paused_until;
        *until = (*until).max(Some(end));
        self.at(end, Event::Resume(machine));
    }

    /// Delivers a view of another cluster, from a site that has the name of a site of this one.
    fn deliver_foreign_view(&mut self, to: usize, from: usize) {
        let Some(node) = self.machines[to].node.as_ref().filter(|_| to != from) else { return };
        let founding = Founding::new("elsewhere".parse().expect("a fixed name"), &self.names[from..=from]);
        let epoch = Epoch::new(node.view().epoch.number() + 1).expect("few views are installed here");
        let content = Content::View(View { epoch, ..View::default() });
        let packet = Packet::direct(founding.id(), Incarnation::new(1), content);
        let generation = self.network.generation(from, to);
        self.after(0, Event::Packet { from, to, generation, packet: Box::new(packet) });
    }

    /// Makes an operator's call of a node.
    pub(super) fn operator_call(&mut self, machine: usize, call: ClientCall) {
        let incarnation = self.machines[machine].incarnation;
        self.after(0, Event::Call { machine, incarnation, call });
    }

    /// Ends a partition.
    pub(super) fn unblock(&mut self, at: usize) {
        if let (_, ClusterFault::Partition { cut, holds, .. }) = self.settings.faults[at].clone()
            && !self.calm
        {
            let held = self.network.unblock(&cut.blocked, holds);
            self.release(held);
            self.reconnect_all();
        }
    }

    /// Lets an operator remove a site. Its clients stop.
    fn leave(&mut self, machine: usize, back: Option<u64>) {
        // At least one site must stay to serve the rest.
        let staying = self.machines.iter().filter(|host| !host.left).count();
        if self.machines[machine].node.is_none() || self.machines[machine].left || staying < 2 {
            return;
        }
        (self.machines[machine].left, self.machines[machine].comes_back) = (true, back.is_some());
        for process in self.processes_at(machine) {
            self.client_crash(process);
        }
        if let Some(back) = back {
            let left = self.settings.calm.saturating_sub(self.now.0);
            self.after(back.min(left), Event::Rejoin(machine));
        }
        let request = self.new_request();
        self.operator_call(machine, ClientCall::Leave { request });
    }

    /// Lets an operator add a site again that has left or is about to: its process ends and another one begins.
    pub(super) fn rejoin(&mut self, machine: usize) {
        if let Some(until) = self.machines[machine].paused_until {
            return self.at(until, Event::Rejoin(machine));
        }
        if !self.calm && std::mem::take(&mut self.machines[machine].left) {
            self.crash(machine, 0);
        }
    }

    /// Returns whether nothing that stays in the calm affects this site.
    fn is_untouched(&self, machine: usize) -> bool {
        self.settings.is_untouched(machine) && !self.machines[machine].is_stuck_for_good()
    }

    /// Returns whether the clients of this site must be served in the calm: nothing affects it, or lasting cuts do and there
    /// is a carrier, a voter that nothing affects. (All cuts are those of one site, so that one carrier serves all.)
    fn is_served(&self, machine: usize) -> bool {
        let has_carrier = || {
            let voters = self.settings.founders.min(MAX_VOTERS);
            !self.settings.environment.is_mixed() && (0..voters).any(|voter| self.is_untouched(voter))
        };
        self.is_untouched(machine) || !self.machines[machine].is_stuck_for_good() && has_carrier()
    }

    /// Repairs everything, and lets every client request a lock once more.
    pub(super) fn become_calm(&mut self) {
        self.calm = true;
        self.end_second();
        let held = self.network.heal();
        self.release(held);
        self.network.block(&self.settings.lasting_cuts, false);
        self.needless.on_calm(&self.settings.lasting_cuts, self.now);
        let lasts = !self.settings.lasting_cuts.is_empty();
        self.one_lease.on_disturbed(if lasts { Moment(u64::MAX) } else { self.now });
        if !self.settings.lasting_cuts.is_empty() {
            self.coverage.record(Occurrence::PartitionStays);
        }
        for machine in &mut self.machines {
            machine.slow_until = Moment::default();
            machine.dying = None;
        }
        self.reconnect_all();
        for at in 0..self.clients.len() {
            let machine = self.machine_of(at);
            let owed = !self.machines[machine].left && self.is_served(machine);
            self.clients[at].final_turn = if owed { FinalTurn::Owed } else { FinalTurn::Done };
            if self.clients[at].state == ClientState::Resting {
                self.set_timer(at, 0);
            }
        }
        self.calm_movers();
        self.calm_wire_clients();
        self.after(self.bound.micros(), Event::Bound);
    }

    /// Checks that every client has been served, unless turns since then have moved the bound.
    pub(super) fn reach_bound(&mut self) -> CheckResult {
        let bound = Moment(self.settings.calm).after(self.bound.micros());
        if self.now < bound {
            self.at(bound, Event::Bound);
            return Ok(());
        }
        starvation::check(&self.unserved(), self.now)?;
        self.check_access()?;
        sound::check_unmarked(&self.marked(), self.now)
    }

    /// Checks that all members know the last access document.
    pub(super) fn check_access(&self) -> CheckResult {
        let nodes = self.machines.iter().enumerate().filter_map(|(at, host)| Some((at, host.node.as_ref()?)));
        let members = nodes.filter(|(at, node)| self.is_served(*at) && self.newest.contains(node.me()));
        self.admission.check_end(members, self.now)
    }

    /// Returns the sites that remember a number of permits of some lock that no rule gives.
    fn marked(&self) -> Vec<usize> {
        let nodes = self.machines.iter().map(|machine| machine.node.as_ref()).enumerate();
        let marked = |node: &meshlock_cluster::node::Node| !node.table().is_unmarked();
        nodes
            .filter(|(machine, node)| self.is_served(*machine) && node.is_some_and(marked))
            .map(|(machine, _)| machine)
            .collect()
    }

    pub(super) fn is_over(&self) -> bool {
        self.clients.iter().all(|client| client.final_turn == FinalTurn::Done)
            && self.marked().is_empty()
            && self.check_access().is_ok()
    }

    fn unserved(&self) -> Vec<String> {
        let owed = self.clients.iter().enumerate().filter(|(_, client)| client.final_turn == FinalTurn::Owed);
        owed.map(|(at, client)| format!("client {at} of s{} ({:?})", self.machine_of(at), client.state))
            .collect()
    }
}

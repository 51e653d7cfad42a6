//! The sites: they start, handle inputs and crash; their disks complete writes.

use meshlock_protocol::registry::info::Tokens;

use super::clock::Moment;
use super::coverage::Occurrence;
use super::event::Event;
use super::faults::CrashPoint;
use super::properties::starvation::MAX_SLOW_WRITE;
use super::properties::{CheckResult, sound};
use super::world::World;
use meshlock_cluster::membership::disk::{Disk, DiskWrite};
use meshlock_cluster::node::{Input, Node, NodeOutput, WriteToken};

impl World {
    /// Starts a site with what its disk has.
    pub(super) fn start(&mut self, machine: usize) -> CheckResult {
        if self.machines[machine].node.is_some() {
            return Ok(());
        }
        self.machines[machine].incarnation += 1;
        let start = self.machines[machine].incarnation;
        let config = self.settings.config(machine, start).check().expect("drawn to be sound");
        let host = &mut self.machines[machine];
        host.dying = None;
        host.installed = None;
        let mut out = Vec::new();
        let node = Node::start(config, host.disk.clone(), host.clock.at(self.now), &mut out);
        host.node = Some(node.expect("its own disk"));
        self.needless.on_started(machine, self.now);
        for peer in 0..self.machines.len() {
            if self.network.is_down(machine, peer) {
                self.after(1_000, Event::Connect(machine, peer));
            }
        }
        for process in self.processes_at(machine) {
            // Clients that had not noticed that the last process crashed notice it now.
            self.disconnect(process);
        }
        self.perform_all(machine, out)
    }

    /// Gives a node an input, and carries out its outputs.
    pub(super) fn drive(&mut self, machine: usize, input: Input) -> CheckResult {
        let host = &mut self.machines[machine];
        let Some(node) = &mut host.node else { return Ok(()) };
        let mut out = Vec::new();
        node.handle(host.clock.at(self.now), input, &mut out);
        self.perform_all(machine, out)
    }

    fn perform_all(&mut self, machine: usize, out: Vec<NodeOutput>) -> CheckResult {
        for output in out {
            let is_write = matches!(output, NodeOutput::Persist { .. });
            self.perform(machine, output)?;
            if let Some(down) = self.dies_now(machine, is_write) {
                self.crash(machine, down);
                return Ok(());
            }
        }
        let Some(node) = &self.machines[machine].node else { return Ok(()) };
        self.leases.on_lease(node.me(), machine, node.lease().end());
        if node.leads().is_none() {
            self.needless.on_follows(machine);
        }
        let survived = self.needless.on_lease(machine, node.lease().end(), self.now);
        if let Some(survived) = survived.filter(|_| node.table().holds_anything()) {
            self.coverage.record(survived);
        }
        self.departed.check(node, self.now)?;
        sound::check(node, self.now)?;
        self.schedule_wake(machine);
        Ok(())
    }

    /// Returns how long the process stays down, if it crashes after this output.
    fn dies_now(&mut self, machine: usize, is_write: bool) -> Option<u64> {
        let (death, down) = self.machines[machine].dying.as_mut()?;
        match death {
            CrashPoint::AfterOutputs(0) => Some(*down),
            CrashPoint::AfterOutputs(left) => {
                *left -= 1;
                None
            }
            CrashPoint::AtNextWrite => is_write.then_some(*down),
        }
    }

    fn schedule_wake(&mut self, machine: usize) {
        let host = &mut self.machines[machine];
        let Some(node) = &host.node else { return };
        let due = host.clock.when(node.next_due()).max(self.now.after(1));
        if host.wake.is_none_or(|wake| wake > due || wake <= self.now) {
            host.wake = Some(due);
            self.at(due, Event::Wake(machine));
        }
    }

    fn perform(&mut self, machine: usize, output: NodeOutput) -> CheckResult {
        match output {
            NodeOutput::Send { to, packet } => return self.send(machine, to.as_str(), packet),
            NodeOutput::Persist { token, writes } => {
                if writes.iter().any(|write| matches!(write, DiskWrite::Install(_))) {
                    self.coverage.record(Occurrence::SnapshotInstalled);
                }
                let slow = self.machines[machine].slow_until > self.now;
                let most = if slow { MAX_SLOW_WRITE } else { self.settings.disk };
                let delay = self.within(most);
                let host = &mut self.machines[machine];
                host.unsynced.push_back((token, writes));
                let incarnation = host.incarnation;
                self.after(delay, Event::Synced { machine, incarnation, token });
            }
            NodeOutput::Answer(answer) => return self.answer(machine, answer),
            NodeOutput::Note(note) => return self.note(machine, note),
        }
        Ok(())
    }

    /// Crashes a site's process, if it runs, and loses its disk.
    pub(super) fn lose_disk(&mut self, machine: usize, down: u64) {
        self.crash(machine, down);
        (self.machines[machine].disk, self.machines[machine].lost_disk) = (Disk::default(), true);
    }

    /// Crashes the process of a node. Its disk keeps what was completed and some of the rest; its clients will notice.
    pub(super) fn crash(&mut self, machine: usize, down: u64) {
        let Some(node) = self.machines[machine].node.take() else { return };
        self.trace.crashed(self.now, machine);
        self.contention.on_crash(machine, self.now);
        self.needless.on_crashed(machine);
        self.leases.on_lease(node.me(), machine, node.lease().end());
        self.count_crash(&node);
        let host = &mut self.machines[machine];
        host.lose_tail(&mut self.draw, &mut self.coverage);
        (host.wake, host.dying) = (None, None);
        for peer in 0..self.machines.len() {
            self.cut(machine, peer);
        }
        for process in self.processes_at(machine) {
            if let Some(session) = self.processes[process].session {
                let notice = self.within(100_000);
                self.after(notice, Event::Disconnected { process, session });
            }
        }
        let down = if self.calm { 0 } else { down.min(self.settings.calm.saturating_sub(self.now.0)) };
        self.after(down, Event::Start(machine));
    }

    fn count_crash(&mut self, node: &Node) {
        self.coverage.record(Occurrence::Crashed);
        if node.leads().is_some() {
            self.coverage.record(if node.is_open() {
                Occurrence::LeaderLost
            } else {
                Occurrence::LeaderLostInChange
            });
        }
        if node.table().holds_anything() {
            self.coverage.record(Occurrence::HolderLost);
        }
        if let Some(rules) = node.table().rules() {
            // A holder has the token.
            let by_token = |lock| rules.rule(lock).spec.info.tokens != Tokens::None;
            if node.table().holders().any(|(.., lock)| by_token(lock)) {
                self.coverage.record(Occurrence::TokenLost);
            }
        }
    }

    pub(super) fn synced(&mut self, machine: usize, incarnation: u64, token: WriteToken) -> CheckResult {
        let host = &mut self.machines[machine];
        if host.incarnation != incarnation || host.node.is_none() {
            return Ok(());
        }
        // Batches complete in order: everything that was handed to the disk before is complete too.
        let mut last = None;
        while host.unsynced.front().is_some_and(|(first, _)| *first <= token) {
            let (done, writes) = host.unsynced.pop_front().expect("there is a first");
            for write in &writes {
                host.disk.apply(write);
            }
            last = Some(done);
        }
        last.map_or(Ok(()), |token| self.drive(machine, Input::Persisted(token)))
    }

    /// Returns when the machine's clock shows this time.
    pub(super) fn moment(&self, machine: usize, time: meshlock_cluster::time::Time) -> Moment {
        self.machines[machine].clock.when(time)
    }
}

//! The sites: they start, handle inputs and crash.

use meshlock_protocol::registry::info::Tokens;

use super::clock::Moment;
use super::coverage::Occurrence;
use super::event::Event;
use super::faults::CrashPoint;
use super::properties::{CheckResult, sound};
use super::world::World;
use meshlock_cluster::node::{Input, Node, NodeOutput};

impl World {
    /// Starts a site with what its disk has.
    pub(super) fn start(&mut self, machine: usize) -> CheckResult {
        if self.machines[machine].node.is_some() {
            return Ok(());
        }
        if let Some(repair) = self.machines[machine].spoilt.take() {
            return self.refuse_start(machine, repair);
        }
        self.machines[machine].incarnation += 1;
        let start = self.machines[machine].incarnation;
        let config = self.settings.config(machine, start).check().expect("drawn to be sound");
        let host = &mut self.machines[machine];
        host.dying = None;
        (host.installed, host.frozen) = (None, false);
        let mut out = Vec::new();
        let node = Node::start(config, host.disk.clone(), host.clock.at(self.now), &mut out);
        host.node = Some(node.expect("its own disk"));
        self.needless.on_started(machine, self.now);
        self.one_lease.on_disturbed(self.now);
        for peer in 0..self.machines.len() {
            if self.network.is_down(machine, peer) {
                self.after(1_000, Event::Connect(machine, peer));
            }
        }
        for process in self.processes_at(machine) {
            // Clients that had not noticed that the last process crashed notice it now.
            self.disconnect(process);
        }
        self.perform_all(machine, out)?;
        self.start_sessions(machine)
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
        self.leases.on_lease(node.me(), machine, node.lease().end(), self.now)?;
        if node.leads().is_none() {
            self.needless.on_follows(machine);
        }
        let survived = self.needless.on_lease(machine, node.lease().end(), self.now);
        if let Some(survived) = survived.filter(|_| node.table().holds_anything()) {
            self.coverage.record(survived);
        }
        self.voting.check(node, self.now)?;
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
            NodeOutput::Persist { token, writes } => self.persist(machine, token, writes),
            NodeOutput::Answer(answer) => return self.answer(machine, answer),
            NodeOutput::Note(note) => return self.note(machine, note),
            NodeOutput::Call { from, message } => {
                let incarnation = self.machines[machine].incarnation;
                self.after(0, Event::SiteMessage { machine, incarnation, from, message });
            }
        }
        Ok(())
    }

    /// Crashes the process of a node. Its disk keeps what was completed and some of the rest; its clients will notice.
    pub(super) fn crash(&mut self, machine: usize, down: u64) {
        let Some(node) = self.machines[machine].node.take() else { return };
        self.trace.crashed(self.now, machine);
        self.contention.on_crash(machine, self.now);
        self.needless.on_crashed(machine);
        self.one_lease.on_died(node.me(), self.now);
        // What it was granted in its last step is not judged: nobody acts on it.
        let _ = self.leases.on_lease(node.me(), machine, node.lease().end(), self.now);
        self.count_crash(&node);
        self.count_links(&node);
        let host = &mut self.machines[machine];
        host.lose_tail(&mut self.draw, &mut self.coverage);
        (host.wake, host.dying) = (None, None);
        for peer in 0..self.machines.len() {
            self.cut(machine, peer);
        }
        self.lose_sessions(machine);
        self.movers_lose_site(machine, self.machines[machine].incarnation);
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

    /// Adds what a node and its links have counted, at its end.
    pub(super) fn count_links(&mut self, node: &Node) {
        let tally = node.link_tally();
        for (what, times) in [
            (Occurrence::LinkHeld, tally.held),
            (Occurrence::LinkSentAgain, tally.sent_again),
            (Occurrence::LinkVoid, tally.void),
            (Occurrence::LinkWindowBytes, tally.waited_for_bytes),
            (Occurrence::LinkWindow, tally.waited - tally.waited_for_bytes),
            (Occurrence::InquiryForgotten, node.forgotten_inquiries()),
            (Occurrence::RenewalForgotten, node.lease().forgotten_renewals()),
        ] {
            self.coverage.record_times(what, times);
        }
    }

    /// Returns when the machine's clock shows this time.
    pub(super) fn moment(&self, machine: usize, time: meshlock_cluster::time::Time) -> Moment {
        self.machines[machine].clock.when(time)
    }
}

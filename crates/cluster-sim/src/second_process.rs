//! A second process under the name of a running site, with an empty disk of its own, as an operator may start it by mistake.
//!
//! It is a whole node. What it sends comes to the other sites as if it came from the site, and what they send to the site reaches both
//! processes, as if their connections displaced each other all the time: hosts refuse such connections (`net/contest.rs` of the crate
//! `host`), so this is worse than what can happen. As long as the first process renews its lease the second one must disturb nobody, which the
//! properties say in these runs as in all others. If the first one is stopped for so long that it is left out, the second one may take its
//! place, until its operator ends it.
//!
//! A second process under the name of a first voter says, as an emptied voter does, that it knows of no disk. So it counts as one whose disk is
//! lost, and no voter loses its disk in the same run: registration promises something only while most of the first voters remember. And where one
//! site founds a cluster alone nobody else can tell a second founding from the first, so its name is not used twice.
//!
//! The faults are drawn from a generator of their own, so that the other faults of a seed are the same as without them. There are none where
//! voters change: a second process could be made a voter there, and its end would be the loss of a disk.

use fastrand::Rng;

use super::clock::Moment;
use super::coverage::Occurrence;
use super::event::Event;
use super::faults::ClusterFault;
use super::properties::CheckResult;
use super::settings::SeedSettings;
use super::world::World;
use meshlock_cluster::membership::MAX_VOTERS;
use meshlock_cluster::membership::disk::Disk;
use meshlock_cluster::names::SiteName;
use meshlock_cluster::node::{Input, Node, NodeOutput, Note, Packet};

/// One in this many seeds has a second process.
const ONE_IN: u64 = 4;

/// Maximum number of these faults in a run. There is one second process at a time.
const MAX_FAULTS: usize = 3;

/// The stamps of second processes are below and above those that sites have in a run.
const STAMPS: [u64; 2] = [7, 1_000_000];

/// A second process that runs.
pub(super) struct SecondProcess {
    machine: usize,
    node: Node,
    /// When it is ended.
    until: Moment,
    /// The wake-up that is valid.
    wake: Option<Moment>,
}

impl ClusterFault {
    /// The names of the kinds that are drawn here.
    #[cfg(test)]
    pub(crate) const SECOND_KINDS: [&'static str; 1] = ["second process"];
}

/// Draws faults.
pub(super) fn draw(settings: &mut SeedSettings) {
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x05ec_07d0);
    if draw.u64(..ONE_IN) > 0 || settings.changes_voters() {
        return;
    }
    for number in 0..draw.u64(1..=MAX_FAULTS as u64) {
        let (time, machine) = (draw.u64(300_000..settings.calm), draw.usize(..settings.machines));
        let (stamp, length) = (STAMPS[draw.usize(..2)] + number, draw.u64(500_000..15_000_000));
        if may_be_used_twice(machine, settings) {
            settings.faults.push((time, ClusterFault::SecondProcess { machine, stamp, length }));
        }
    }
    settings.faults.sort_by_key(|(time, _)| *time);
}

/// Returns whether a second process may run under the name of this site.
fn may_be_used_twice(machine: usize, settings: &SeedSettings) -> bool {
    let voters = settings.founders.min(MAX_VOTERS);
    let is_lost = |(_, fault): &(u64, ClusterFault)| fault.loses_disk_of().is_some_and(|of| of < voters);
    machine >= voters || voters > 1 && !settings.faults.iter().any(is_lost)
}

impl World {
    /// Starts a second process of a site that takes part, unless there is one of some site.
    pub(super) fn start_second(&mut self, machine: usize, stamp: u64, length: u64) -> CheckResult {
        let takes_part = |node: &Node| self.newest.contains(node.me());
        if self.second.is_some() || !self.machines[machine].node.as_ref().is_some_and(takes_part) {
            return Ok(());
        }
        let mut config = self.settings.config(machine, stamp);
        config.start_stamp = stamp;
        config.seed ^= stamp;
        let (mut out, clock) = (Vec::new(), &self.machines[machine].clock);
        let config = config.check().expect("drawn to be sound");
        let node = Node::start(config, Disk::default(), clock.at(self.now), &mut out);
        let node = node.expect("an empty disk is no other cluster's");
        let until = self.now.after(length).min(Moment(self.settings.calm));
        self.second = Some(SecondProcess { machine, node, until, wake: None });
        self.perform_second(out)
    }

    /// Gives the second process an input.
    fn drive_second(&mut self, input: Input) -> CheckResult {
        let Some(second) = &mut self.second else { return Ok(()) };
        let mut out = Vec::new();
        second.node.handle(self.machines[second.machine].clock.at(self.now), input, &mut out);
        self.perform_second(out)
    }

    /// Lets the second process receive what was sent to its site.
    pub(super) fn second_hears(&mut self, from: &SiteName, packet: Packet) -> CheckResult {
        self.drive_second(Input::Packet { from: from.clone(), packet })
    }

    /// Returns whether a second process of this site runs.
    pub(super) fn has_second(&self, machine: usize) -> bool {
        self.second.as_ref().is_some_and(|second| second.machine == machine)
    }

    /// Wakes the second process, or ends it.
    pub(super) fn on_second(&mut self) -> CheckResult {
        let Some(second) = &mut self.second else { return Ok(()) };
        if second.wake.is_none_or(|wake| wake > self.now) {
            return Ok(());
        }
        second.wake = None;
        if self.now >= second.until {
            self.end_second();
            return Ok(());
        }
        self.drive_second(Input::Time)
    }

    /// Ends the second process.
    pub(super) fn end_second(&mut self) {
        let Some(second) = self.second.take() else { return };
        if self.newest.contains(second.node.me()) {
            self.coverage.record(Occurrence::SecondTookPart);
            self.one_lease.on_died(second.node.me(), self.now);
        }
    }

    /// Carries out what the second process does. Its disk completes everything at once.
    fn perform_second(&mut self, mut out: Vec<NodeOutput>) -> CheckResult {
        while !out.is_empty() {
            for output in std::mem::take(&mut out) {
                let Some(second) = &mut self.second else { return Ok(()) };
                let machine = second.machine;
                match output {
                    NodeOutput::Send { to, packet } if to != self.names[machine] => {
                        self.send(machine, to.as_str(), packet)?;
                    }
                    NodeOutput::Persist { token, .. } => {
                        let now = self.machines[machine].clock.at(self.now);
                        second.node.handle(now, Input::Persisted(token), &mut out);
                    }
                    NodeOutput::Note(Note::NameTaken { .. }) => {
                        self.coverage.record(Occurrence::SecondRefused);
                    }
                    // It has no clients, and what it says of others is checked where the first process says it.
                    NodeOutput::Send { .. }
                    | NodeOutput::Answer(_)
                    | NodeOutput::Note(_)
                    | NodeOutput::Call { .. } => {}
                }
            }
        }
        let Some(second) = &mut self.second else { return Ok(()) };
        let due = self.machines[second.machine].clock.when(second.node.next_due());
        let due = due.max(self.now.after(1)).min(second.until.max(self.now));
        if second.wake.is_none_or(|wake| wake > due || wake <= self.now) {
            second.wake = Some(due);
            self.at(due, Event::Second);
        }
        Ok(())
    }
}

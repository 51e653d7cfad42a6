//! Changes of the access document: which runs have them, and what operators do.
//!
//! Operators add entries to the list of the revoked, each based on what their site knows then, so that of two at the same time one is refused.
//! Often two do it at different sites, the second one just when the first one's document is agreed on and not known everywhere.
//! And they remove sites that have left for good, which are started again all the same: such a site must not come back.
//!
//! They are drawn from a generator of their own, so that the other faults of a seed are the same as without them.

use fastrand::Rng;

use super::event::Event;
use super::faults::ClusterFault;
use super::properties::CheckResult;
use super::settings::SeedSettings;
use super::world::World;
use meshlock_cluster::node::ClientCall;

/// One in this many seeds has changes of the document.
const ONE_IN: u64 = 3;

/// Maximum number of these faults in a run.
const MAX_FAULTS: usize = 10;

impl ClusterFault {
    /// The names of the kinds that are drawn here.
    #[cfg(test)]
    pub(crate) const ACCESS_KINDS: [&'static str; 2] = ["access changed", "removed site started"];
}

/// Draws faults.
pub(super) fn draw(settings: &mut SeedSettings) {
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x0acc_e553);
    if draw.u64(..ONE_IN) > 0 || settings.environment.is_mixed() {
        return;
    }
    for number in 0..draw.usize(1..=MAX_FAULTS) {
        let (time, machine) = (draw.u64(300_000..settings.calm), draw.usize(..settings.machines));
        let fault = if draw.usize(..3) == 0 {
            ClusterFault::StartRemoved { machine, by: draw.usize(..settings.machines) }
        } else {
            ClusterFault::Access { machine, number }
        };
        settings.faults.push((time, fault));
    }
    draw_pairs(settings);
    settings.faults.sort_by_key(|(time, _)| *time);
}

/// Draws for about half of the changes another one at another site, a few trips later: from a generator of its own, so that the others are
/// the same as without it.
fn draw_pairs(settings: &mut SeedSettings) {
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x0acc_e552);
    let soon = 6 * settings.trip() + 3 * settings.disk + 1;
    let mut pairs = Vec::new();
    for (time, fault) in &settings.faults {
        if let ClusterFault::Access { number, .. } = fault
            && draw.bool()
        {
            let time = (time + draw.u64(..=soon)).min(settings.calm - 1);
            let (machine, number) = (draw.usize(..settings.machines), number + MAX_FAULTS);
            pairs.push((time, ClusterFault::Access { machine, number }));
        }
    }
    settings.faults.append(&mut pairs);
}

impl World {
    /// Lets an operator add an entry to the document that the site knows.
    pub(super) fn change_access(&mut self, machine: usize, number: usize) {
        let Some(node) = &self.machines[machine].node else { return };
        let (base, mut document) = (node.access().version, node.access().document.clone());
        document.revoked.push(format!("client/c{number}"));
        let request = self.new_request();
        self.operator_call(machine, ClientCall::SetAccess { request, base, document: Box::new(document) });
    }

    /// Lets an operator remove a site for good that has left, at another site, and somebody start it again.
    pub(super) fn start_removed(&mut self, machine: usize, by: usize) {
        let is_gone = self.machines[machine].left
            && !self.machines[machine].comes_back
            && self.newest.member(&self.names[machine]).is_none();
        let Some(node) = self.machines[by].node.as_ref().filter(|_| is_gone && machine != by) else { return };
        let (base, mut document) = (node.access().version, node.access().document.clone());
        document.remove(&self.names[machine]);
        let request = self.new_request();
        self.operator_call(by, ClientCall::SetAccess { request, base, document: Box::new(document) });
        let down = self.more.u64(1_000_000..4_000_000);
        self.after(down, Event::StartRemoved(machine));
    }

    /// Starts the process of a site again that was removed, if it knows of that: otherwise it would take part, and its clients would
    /// not be served in the calm.
    #[expect(clippy::unnecessary_wraps, reason = "the handler of events passes it on as it is")]
    pub(super) fn restart_removed(&mut self, machine: usize) -> CheckResult {
        let name = &self.names[machine];
        let bars = |host: &super::machine::SiteMachine| {
            host.node.as_ref().is_some_and(|node| node.access().document.bars(name).is_some())
        };
        if self.machines[machine].left && self.machines.iter().any(bars) {
            self.crash(machine, 0);
        }
        Ok(())
    }
}

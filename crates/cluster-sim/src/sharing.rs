//! Clients that share locks: in some runs, rules name algorithms that know modes, and clients ask in modes, upgrade and downgrade.
//!
//! What is drawn for this comes from generators of its own, so that all else is the same in the other runs.

use fastrand::Rng;
use meshlock_protocol::registry::ALL;
use meshlock_protocol::registry::info::Known;
use meshlock_protocol::{Demand, Fence, Mode};

use super::client::{ClientState, Inside};
use super::coverage::Occurrence;
use super::faults::ClusterFault;
use super::properties::CheckResult;
use super::settings::SeedSettings;
use super::world::World;
use meshlock_cluster::names::LockName;
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::rules::{Clause, Rules, RulesText};
use meshlock_cluster::table::Request;

/// In one of so many runs clients share locks.
const ONE_IN_SHARES: u64 = 5;

/// Longest time that a client waits to be exclusive before it gives that up, in microseconds.
const TIMEOUT: u64 = 1_500_000;

/// Lets rules name algorithms that know modes, in some of the runs.
pub(crate) fn draw(settings: &mut SeedSettings) {
    if settings.seed % ONE_IN_SHARES != 3 {
        return;
    }
    let mut draw = Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5_4a12e);
    settings.shares = true;
    let machines = settings.machines;
    share(&mut draw, machines, &mut settings.rules);
    for (_, fault) in &mut settings.faults {
        if let ClusterFault::Rules { rules, .. } = fault {
            share(&mut draw, machines, rules);
        }
    }
}

/// Lets half of the rules with one permit name an algorithm that knows modes.
fn share(draw: &mut Rng, machines: usize, rules: &mut RulesText) {
    let spec = |info: &&meshlock_protocol::Info| match info.demands.modes {
        Known::No => None,
        Known::With(option) => Some(format!("{}:{option}", info.name)),
        Known::Yes => Some(info.name.to_owned()),
    };
    let known: Vec<String> = ALL.iter().filter_map(spec).collect();
    let clauses = rules.rules.iter_mut().map(|(_, clause)| clause).chain([&mut rules.default]);
    for clause in clauses.filter(|clause| clause.permits == 1) {
        let changed = Clause::exclusive(&known[draw.usize(..known.len())]);
        let alone = RulesText { rules: Vec::new(), default: changed.clone() };
        let fits = Rules::new(alone).is_ok_and(|rules| rules.fit(machines).is_ok());
        if draw.bool() && fits {
            *clause = changed;
        }
    }
}

impl World {
    /// Draws what a client asks for: mostly what the lock's rule knows.
    pub(super) fn demand_for(&mut self, lock: &LockName, permits: u32) -> Demand {
        if !self.settings.shares {
            return Demand::PLAIN;
        }
        let newest = Rules::new(self.newest.rules.clone()).expect("rules that were agreed on");
        let rule = newest.rule(lock);
        let knows = |demand: Demand| rule.permits == 1 && permits == 1 && rule.spec.values.know(demand);
        let mode = match self.sharing.usize(..10) {
            0..5 => Mode::Shared,
            5..7 => Mode::Upgradeable,
            _ => Mode::Exclusive,
        };
        let priority = if self.sharing.usize(..4) == 0 { self.sharing.u8(1..=3) } else { 0 };
        // Beside older programs and old rules it would be refused for ever.
        let tries = !self.calm && self.sharing.usize(..16) == 0;
        let mode = if knows(Demand::of(mode)) && !self.calm_beside_older() || tries {
            mode
        } else {
            Mode::Exclusive
        };
        let urgent = Demand::PLAIN.with_priority(priority);
        let priority = if knows(urgent) && !self.calm_beside_older() || tries { priority } else { 0 };
        Demand::of(mode).with_priority(priority)
    }

    /// Returns whether faults have stopped and some site may go on with an older program.
    fn calm_beside_older(&self) -> bool {
        self.calm && self.settings.environment.is_mixed()
    }

    /// Draws the mode in which a client that has entered in another one will go on, if it changes.
    pub(super) fn draw_change(&mut self, lock: &LockName, permits: u32, mode: Mode) -> Option<Mode> {
        if !self.settings.shares || self.calm {
            return None;
        }
        let newest = Rules::new(self.newest.rules.clone()).expect("rules that were agreed on");
        let rule = newest.rule(lock);
        let is_known = permits == 1 && rule.permits == 1 && rule.spec.values.know(Demand::of(Mode::Shared));
        // Now and then where it is refused.
        if !is_known && self.sharing.usize(..16) != 0 {
            return None;
        }
        let to = match self.sharing.usize(..4) {
            0 => Mode::Shared,
            1 => Mode::Upgradeable,
            _ => Mode::Exclusive,
        };
        Some(to).filter(|to| mode.may_become(*to))
    }

    /// Changes the mode of a client that is inside, as it has planned, or gives up an upgrade that takes too long. Returns whether it
    /// does.
    pub(super) fn change_mode(&mut self, client: usize, inside: &Inside) -> bool {
        let machine = self.machine_of(client);
        if inside.lost || self.moment(machine, inside.lease_end) <= self.now {
            return false;
        }
        let (request, mode) = (inside.request, inside.mode);
        let to = match inside.next {
            Some(to) => to,
            None if inside.upgrades => mode,
            None => return false,
        };
        let ClientState::Inside(inside) = &mut self.clients[client].state else { return false };
        (inside.next, inside.upgrades) = (None, to > mode);
        let wait = if to > mode {
            TIMEOUT
        } else {
            // From now on it does not rely on being alone.
            (inside.mode, inside.read) = (to, None);
            self.settings.hold
        };
        if to == mode {
            self.coverage.record(Occurrence::UpgradeGivenUp);
        }
        self.call(self.clients[client].process, ClientCall::ChangeMode { request, to });
        let wait = self.sharing.u64(..=wait);
        self.set_timer(client, wait);
        true
    }

    /// Handles that a client goes on in this mode.
    pub(super) fn mode_changed(&mut self, request: Request, mode: Mode, fence: Fence) {
        let Some(client) = self.requester(request) else { return };
        let ClientState::Inside(inside) = &mut self.clients[client].state else { return };
        if mode != Mode::Exclusive || !inside.upgrades {
            return;
        }
        (inside.mode, inside.fence, inside.upgrades) = (mode, fence, false);
        inside.read = self.updates.read(&inside.lock, fence);
        let hold = if self.calm { 1_000 } else { self.settings.hold };
        let hold = self.sharing.u64(..=hold);
        self.set_timer(client, hold);
    }

    /// Checks that a client goes on in another mode.
    pub(super) fn judge_mode(
        &mut self,
        machine: usize,
        request: Request,
        mode: Mode,
        fence: Fence,
    ) -> CheckResult {
        let lock = self.asked.get(&request).expect("only what was asked for is changed").lock.clone();
        let Some(before) = self.exclusion.on_mode(request, mode, self.now)? else { return Ok(()) };
        if mode > before {
            self.coverage.record(Occurrence::Upgraded);
            self.fences.on_granted(&lock, machine, (1, Some(0), mode), fence, self.now)?;
            self.trace.entered(self.now, machine, &lock, fence);
        } else if mode < before {
            self.coverage.record(Occurrence::Downgraded);
        }
        Ok(())
    }
}

//! View changes in the lock table: machines stop, every member reports what its clients hold, and machines start from
//! that.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::registry::SiteCall;
use meshlock_protocol::{Epoch, FenceClock, Holders, SiteId};
use serde::{Deserialize, Serialize};

use super::lock::{Env, Lane, Lock, MachineInput, Machines};
use super::{LeaseClock, LocalView, LockTable, TableAlarm, TableOutput};
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::rules::LockRule;
use crate::view::Placement;

/// One lock that clients of a site hold when its machines stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holding {
    pub lock: LockName,
    /// For each holder the number of its permit, where permits were numbered.
    pub slots: Vec<Option<u32>>,
}

/// What the clients of one member hold; the same is sent to every other member.
pub type Census = Vec<Holding>;

/// The holders of a lock when a view opens: the place of each member that has any, with their slots.
type HoldersByPlace = Vec<(usize, Vec<Option<u32>>)>;

impl LockTable {
    /// Ends the view: stops all machines and returns what clients of this site hold. The clients keep it.
    pub(crate) fn stop(&mut self) -> Census {
        self.local_view = None;
        self.tally.views_installed += 1;
        self.draining = false;
        self.room.on_view_ended();
        self.alarms.retain(|(_, alarm)| !matches!(alarm, TableAlarm::Timer(..)));
        self.locks.retain(|_, lock| {
            lock.machines = Machines::Stopped;
            !lock.clients.holds.is_empty() || !lock.clients.waiters.is_empty()
        });
        self.locks.shrink_to(2 * self.locks.len());
        let mut census = Census::new();
        for (name, lock) in &mut self.locks {
            for (lane, hold) in lock.clients.holds.iter_mut().enumerate() {
                hold.lane = lane;
            }
            if !lock.clients.holds.is_empty() {
                let slots = lock.clients.holds.iter().map(|hold| hold.slot).collect();
                census.push(Holding { lock: name.clone(), slots });
            }
        }
        census
    }

    /// Opens a view after all members have sent their census, in the order of their places: the machines start with the
    /// holders inside, and locks with waiters here send their requests again.
    pub(crate) fn open(
        &mut self,
        local_view: LocalView,
        census: &[Census],
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let mut held: BTreeMap<&LockName, HoldersByPlace> = BTreeMap::new();
        for (place, holdings) in census.iter().enumerate() {
            for Holding { lock, slots } in holdings.iter().filter(|holding| !holding.slots.is_empty()) {
                held.entry(lock).or_default().push((place, slots.clone()));
            }
        }
        let me = local_view.me;
        self.local_view = Some(local_view);
        self.tally.views_opened += 1;
        for (name, held) in held {
            let mine = held.iter().find(|(place, _)| *place == me).map_or(0, |(_, slots)| slots.len());
            self.draining |= self.with_lock_as_it_is(name, lease_clock, out, |lock, env| {
                lock.start(&held, env);
                let drains = matches!(lock.machines, Machines::Draining { .. });
                lock.make_good(mine, env);
                drains
            });
        }
        self.opened_with = self.locks.len();
        self.seek_all(lease_clock, out);
        self.ask_members_again(out);
    }

    /// Handles a member's message that one of its clients has left a lock with more holders than permits.
    pub(crate) fn on_left_elsewhere(&mut self, place: usize, lock: &LockName, out: &mut Vec<TableOutput>) {
        let lock = self.locks.get_mut(lock);
        match lock.map(|lock| &mut lock.machines) {
            Some(Machines::Draining { left }) if left.get(&place).is_some_and(|count| *count > 0) => {
                left.entry(place).and_modify(|count| *count -= 1);
            }
            Some(_) | None => {
                out.push(TableOutput::Misbehaved { place, why: "leaves a lock that it does not hold" });
            }
        }
    }

    /// Returns whether some lock had more holders than permits and now has few enough: a new view would let it run
    /// again.
    pub(crate) fn has_drained(&self) -> bool {
        let Some(local_view) = self.local_view.as_ref().filter(|_| self.draining) else { return false };
        self.locks.iter().any(|(name, lock)| match &lock.machines {
            Machines::Draining { left } => fits(local_view.rules.rule(name), left.values().copied()),
            Machines::Stopped | Machines::Running { .. } => false,
        })
    }
}

/// Returns whether these numbers of holders at the members are within the limits of the rule.
fn fits(rule: &LockRule, counts: impl Iterator<Item = usize> + Clone) -> bool {
    counts.clone().sum::<usize>() <= rule.permits as usize
        && counts.max().unwrap_or(0) <= rule.per_site as usize
}

impl Lock {
    /// Starts the machines of this site with `held` inside, or waits if those are too many.
    pub(super) fn start(&mut self, held: &[(usize, Vec<Option<u32>>)], env: &mut Env<'_>) {
        let Some(local_view) = env.local_view else { return };
        let stale = mutant::is_on(Mutant::FenceNotCarried);
        self.clock = FenceClock::new(if stale { Epoch::default() } else { local_view.epoch });
        let rule = local_view.rules.rule(env.name);
        if !fits(rule, held.iter().map(|(_, slots)| slots.len())) {
            let left = held.iter().map(|(place, slots)| (*place, slots.len())).collect();
            self.machines = Machines::Draining { left };
            return;
        }
        let placement = Placement::new(env.name, local_view.members);
        let mut inside: BTreeMap<SiteId, Option<u32>> = BTreeMap::new();
        for (place, slots) in held {
            for (lane, slot) in slots.iter().enumerate() {
                inside.insert(placement.site(*place, lane), *slot);
            }
        }
        let cluster = rule.cluster(local_view.members);
        let holders = Holders::new(cluster, inside.keys().copied()).expect("they fit");
        let plan = local_view.plan(env.name);
        let lane = |lane| {
            let me = placement.site(local_view.me, lane);
            let slot = inside.keys().position(|site| *site == me).unwrap_or(0);
            let slot = u32::try_from(slot).expect("fewer than permits");
            Lane { site: plan.start(me, &holders), turns: 0, slot }
        };
        let lanes = (0..rule.per_site as usize).map(lane).collect();
        let slots = renumbered(inside.values().copied(), rule.permits as usize);
        let plain = slots.iter().zip(0..).all(|(slot, number)| *slot == number);
        let slots = if plain { Box::default() } else { slots.into_boxed_slice() };
        self.machines = Machines::Running { lanes, slots };
    }

    /// Releases locks that the census listed for clients here, `announced` of them, but that were left since then.
    fn make_good(&mut self, announced: usize, env: &mut Env<'_>) {
        for lane in 0..announced {
            if self.clients.holds.iter().all(|hold| hold.lane != lane) {
                match self.machines {
                    Machines::Running { .. } => self.run(lane, MachineInput::Call(SiteCall::Release), env),
                    Machines::Draining { .. } => self.leave_draining(env),
                    Machines::Stopped => {}
                }
            }
        }
    }
}

/// Returns the public numbers of the permits 0, 1, … of new machines. The first permits belong to the holders, who keep
/// the numbers that they were told; every other permit gets the smallest number that is still free.
fn renumbered(held: impl Iterator<Item = Option<u32>> + Clone, permits: usize) -> Vec<u32> {
    let mut used: BTreeSet<u32> = held.clone().flatten().collect();
    let mut kept = BTreeSet::new();
    let mut free = move || {
        let most = u32::try_from(used.len()).unwrap_or(u32::MAX);
        let number = (0..=most).find(|number| !used.contains(number)).expect("one more than there are used");
        used.insert(number);
        number
    };
    let mut slots: Vec<u32> =
        held.map(|slot| slot.filter(|number| kept.insert(*number)).unwrap_or_else(&mut free)).collect();
    while slots.len() < permits {
        slots.push(free());
    }
    slots
}

#[cfg(test)]
mod renumbering {
    use super::renumbered;

    #[test]
    fn holders_keep_their_numbers_and_the_others_get_what_is_free() {
        assert_eq!(renumbered([Some(2), Some(0)].into_iter(), 4), [2, 0, 1, 3]);
        assert_eq!(renumbered([None, Some(0), None].into_iter(), 3), [1, 0, 2]);
        assert_eq!(renumbered([Some(5)].into_iter(), 2), [5, 0]);
        // A false census cannot give one number to two holders.
        assert_eq!(renumbered([Some(1), Some(1)].into_iter(), 2), [1, 0]);
    }
}

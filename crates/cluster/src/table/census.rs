//! View changes in the lock table: machines stop, every member reports what its clients hold, and machines start from
//! that.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::registry::SiteCall;
use meshlock_protocol::{Epoch, FenceClock, Holders, SiteId};
use serde::{Deserialize, Serialize};

use super::lock::{Env, Lane, Lock, MachineInput, Machines};
use super::{
    AcquireOutcome, LeaseClock, LocalView, LockEvent, LockKey, LockTable, Request, TableAlarm, TableOutput,
};
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::view::Placement;

/// One lock that clients of a site hold when its machines stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holding {
    pub lock: LockName,
    /// For each holder the number of its permit, where permits were numbered.
    pub slots: Vec<Option<u32>>,
    /// The number of clients that may hold the lock at a time, as these understand it; `None` if the sender runs an
    /// older program, which knows only what the rules say. It follows everything else on the wire.
    #[serde(skip)]
    pub permits: Option<u32>,
}

/// What the clients of one member hold; the same is sent to every other member.
pub type Census = Vec<Holding>;

/// A part of a census, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CensusPiece {
    pub holdings: Census,
    /// Whether this is the last piece.
    pub last: bool,
    /// Whether the sender says the number of permits of each holding, and understands messages about permits. Older
    /// programs do not.
    #[serde(skip)]
    pub has_permits: bool,
}

/// The holders of a lock when a view opens: the place of each member that has any, with their slots.
type HoldersByPlace = Vec<(usize, Vec<Option<u32>>)>;

/// The remaining holders of a name that nobody may enter: their number, by their number of permits and place.
pub(super) type Leftover = BTreeMap<(u32, usize), usize>;

/// How a name that is held is opened in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// The machines of its rule start with the holders inside.
    ByRule,
    /// Its home goes on with this number of permits.
    Settled(u32),
    /// Nobody may enter.
    Drains,
}

impl LockTable {
    /// Ends the view: stops all machines and returns what clients of this site hold. The clients keep it.
    pub(crate) fn stop(&mut self) -> Census {
        self.local_view = None;
        self.tally.views_installed += 1;
        self.draining.clear();
        self.marks.clear();
        self.homes.clear();
        self.inbox.clear();
        self.room.on_view_ended();
        self.alarms.retain(|(_, alarm)| !matches!(alarm, TableAlarm::Timer(..)));
        self.locks.retain(|_, lock| {
            lock.machines = Machines::Stopped;
            if !lock.clients.asked.is_empty() {
                lock.clients.asked.clear();
            }
            !lock.clients.holds.is_empty() || !lock.clients.waiters.is_empty()
        });
        self.locks.shrink_to(2 * self.locks.len());
        self.shared.retain(|key| self.locks.contains_key(key));
        let mut census = Census::new();
        for (key, lock) in &mut self.locks {
            for (lane, hold) in lock.clients.holds.iter_mut().enumerate() {
                hold.lane = lane;
            }
            if !lock.clients.holds.is_empty() {
                let slots = lock.clients.holds.iter().map(|hold| hold.slot).collect();
                census.push(Holding { lock: key.name.clone(), slots, permits: Some(key.permits) });
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
        let mut held: BTreeMap<&LockName, BTreeMap<u32, HoldersByPlace>> = BTreeMap::new();
        for (place, holdings) in census.iter().enumerate() {
            for Holding { lock, slots, permits } in
                holdings.iter().filter(|holding| !holding.slots.is_empty())
            {
                let permits = permits.unwrap_or_else(|| local_view.rules.rule(lock).permits);
                held.entry(lock).or_default().entry(permits).or_default().push((place, slots.clone()));
            }
        }
        self.floor = FenceClock::new(local_view.epoch);
        self.local_view = Some(local_view.clone());
        self.tally.views_opened += 1;
        self.refuse_unfit(&local_view, out);
        for (name, held) in &held {
            self.open_name(&local_view, name, held, lease_clock, out);
        }
        self.opened_with = self.locks.len();
        self.seek_all(lease_clock, out);
        self.ask_members_again(out);
    }

    /// Starts the view with a name that is held.
    fn open_name(
        &mut self,
        local_view: &LocalView,
        name: &LockName,
        held: &BTreeMap<u32, HoldersByPlace>,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let counts = |(permits, held): (&u32, &HoldersByPlace)| {
            let permits = *permits;
            held.iter().map(move |(place, slots)| ((permits, *place), slots.len())).collect::<Vec<_>>()
        };
        let left: Leftover = held.iter().flat_map(counts).collect();
        let mine = |held: &HoldersByPlace| {
            held.iter().find(|(place, _)| *place == local_view.me).map_or(0, |(_, slots)| slots.len())
        };
        let opening = opening(local_view, name, &left);
        if opening == Opening::Drains && !mutant::is_on(Mutant::OldNumbersForgotten) {
            self.draining.insert(name.clone(), left);
        }
        for (permits, held) in held {
            let key = LockKey { name: name.clone(), permits: *permits };
            match opening {
                Opening::Settled(_) => self.open_settled(local_view, &key, held, lease_clock, out),
                Opening::ByRule => self.with_lock_as_it_is(&key, lease_clock, out, |lock, env| {
                    lock.start(held, env);
                    lock.make_good(mine(held), env);
                }),
                Opening::Drains => self.with_lock_as_it_is(&key, lease_clock, out, |lock, env| {
                    lock.machines = Machines::Draining;
                    lock.make_good(mine(held), env);
                }),
            }
        }
    }

    /// Refuses the waiters whose number of permits the view does not allow for their lock.
    fn refuse_unfit(&mut self, local_view: &LocalView, out: &mut Vec<TableOutput>) {
        let unfit = self.requests.iter().filter_map(|(request, (_, key))| {
            let why = local_view.check(key).err()?;
            let waits = self.locks.get(key).is_some_and(|lock| !lock.holds(*request));
            waits.then(|| (*request, key.clone(), why))
        });
        for (request, key, why) in unfit.collect::<Vec<(Request, LockKey, _)>>() {
            self.stop_waiting(request, &key, AcquireOutcome::Refused, out);
            out.push(TableOutput::LockEvent(LockEvent::Refused { request, why }));
        }
    }

    /// Handles a member's message that one of its clients has left a lock that nobody may enter.
    pub(crate) fn on_left_elsewhere(&mut self, place: usize, lock: &LockName, out: &mut Vec<TableOutput>) {
        let left = self.draining.get_mut(lock).is_some_and(|left| take_one(left, place));
        if !left {
            out.push(TableOutput::Misbehaved { place, why: "leaves a lock that it does not hold" });
        }
    }

    /// Returns whether nobody could enter some lock when the view opened, and a new view would let it run again.
    pub(crate) fn has_drained(&self) -> bool {
        let Some(local_view) = &self.local_view else { return false };
        self.draining.iter().any(|(name, left)| opening(local_view, name, left) != Opening::Drains)
    }
}

/// Counts down one holder of the member at `place`, if it has one. A correct member has holders with one number of
/// permits only.
fn take_one(left: &mut Leftover, place: usize) -> bool {
    let found = left.iter_mut().find(|((_, of), count)| *of == place && **count > 0);
    let is_found = found.is_some();
    if let Some((_, count)) = found {
        *count -= 1;
    }
    is_found
}

/// Returns how a name with these holders is opened: as long as some of them count on another number of permits than the
/// rest, or than the rules give, nobody else is admitted.
fn opening(local_view: &LocalView, name: &LockName, left: &Leftover) -> Opening {
    let counts = left.iter().filter(|(_, count)| **count > 0);
    let numbers: BTreeSet<u32> = counts.clone().map(|((permits, _), _)| *permits).collect();
    let rule = local_view.rules.rule(name);
    let permits = match numbers.len() {
        0 => rule.permits,
        1 => *numbers.first().expect("there is one"),
        _ => return Opening::Drains,
    };
    let per_site = if permits == rule.permits { rule.per_site } else { permits };
    let fits = counts.clone().map(|(_, count)| *count).sum::<usize>() <= permits as usize
        && counts.map(|(_, count)| *count).max().unwrap_or(0) <= per_site as usize;
    match () {
        () if !fits => Opening::Drains,
        () if permits == rule.permits => Opening::ByRule,
        () if local_view.check(&LockKey { name: name.clone(), permits }).is_ok() => Opening::Settled(permits),
        () => Opening::Drains,
    }
}

impl Env<'_> {
    /// Tells all members that one holder of a lock that nobody may enter has left.
    pub(super) fn leave_draining(&mut self) {
        let Some(local_view) = self.local_view else { return };
        if let Some(left) = self.draining.get_mut(&self.key.name) {
            take_one(left, local_view.me);
            self.out.push(TableOutput::Left(self.key.name.clone()));
        }
    }
}

impl Lock {
    /// Starts the machines of this site with `held` inside, which fit the rule.
    pub(super) fn start(&mut self, held: &[(usize, Vec<Option<u32>>)], env: &mut Env<'_>) {
        let Some(local_view) = env.local_view else { return };
        let stale = mutant::is_on(Mutant::FenceNotCarried);
        self.clock = FenceClock::new(if stale { Epoch::default() } else { local_view.epoch });
        // A stamp that was accepted once is in range.
        let _ = self.clock.observe(env.floor.stamp());
        let rule = local_view.rules.rule(&env.key.name);
        let placement = Placement::new(&env.key.name, local_view.members);
        let mut inside: BTreeMap<SiteId, Option<u32>> = BTreeMap::new();
        for (place, slots) in held {
            for (lane, slot) in slots.iter().enumerate() {
                inside.insert(placement.site(*place, lane), *slot);
            }
        }
        let cluster = rule.cluster(local_view.members);
        let holders = Holders::new(cluster, inside.keys().copied()).expect("they fit");
        let plan = local_view.plan(&env.key.name);
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
                    Machines::Draining => env.leave_draining(),
                    Machines::Stopped | Machines::AtHome => {}
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

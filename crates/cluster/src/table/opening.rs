//! The start of a view in the lock table: every member knows from all censuses who holds what, and machines start from
//! that.
//!
//! A lock's machines start in a state that the view, the holders and the lock's name determine. So they are started when
//! the lock is first used in the view, and until then the table only remembers who holds it: a view opens in the time
//! that it takes to note the holders elsewhere. What cannot wait is done at once: names whose holders are more than one,
//! or count on another number of permits than the rule's, and locks that were left after the census was sent.

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::registry::SiteCall;
use meshlock_protocol::{Epoch, FenceClock, Holders, Mode, Priority, SiteId};
use smallvec::{SmallVec, smallvec};

use super::census::{Census, held_lanes};
use super::draining::Leftover;
use super::elsewhere::HeldElsewhere;
use super::holdings::{HeldLane, HoldingRef};
use super::lock::{Env, Lane, Lock, MachineInput, Machines};
use super::modes::Unstarted;
use super::{
    AcquireOutcome, LeaseClock, LocalView, LockEvent, LockKey, LockTable, Request, RequestRefusal,
    TableOutput,
};
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::rules::RulePlan;
use crate::view::Placement;

/// The lanes of one member that hold a lock.
pub(super) type HeldLanes = SmallVec<[HeldLane; 1]>;

/// The holders of a lock when a view opens: the place of each member that has any, with their lanes.
type HoldersByPlace = SmallVec<[(usize, HeldLanes); 1]>;

/// The holders of a name when a view opens, by their number of permits.
pub(super) type HoldersByPermits = BTreeMap<u32, HoldersByPlace>;

/// How a name that is held is opened in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The machines of its rule start with the holders inside.
    ByRule,
    /// Its home goes on with this number of permits.
    Settled(u32),
    /// Nobody may enter.
    Drains,
}

impl LockTable {
    /// Opens a view after all members have sent their census, in the order of their places: from now on machines start
    /// with the holders inside, and locks with waiters here send their requests again.
    pub(crate) fn open(
        &mut self,
        local_view: LocalView,
        census: &[Census],
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let at_once = self.note_holders(&local_view, census);
        self.floor = FenceClock::new(local_view.epoch);
        self.local_view = Some(local_view.clone());
        self.tally.views_opened += 1;
        self.refuse_unfit(&local_view, out);
        for (name, held) in &at_once {
            self.open_name(&local_view, name, held, lease_clock, out);
        }
        self.settle_claims(&local_view, &at_once, lease_clock, out);
        self.opened_with = self.locks.len() + self.elsewhere.len();
        let waited: Vec<LockKey> = self.unsought.iter().cloned().collect();
        self.seek_all(lease_clock, out);
        self.ask_members_again(&waited, out);
    }

    /// Remembers who holds what elsewhere. Returns the holders of the names that have to be opened at once.
    fn note_holders(
        &mut self,
        local_view: &LocalView,
        census: &[Census],
    ) -> BTreeMap<LockName, HoldersByPermits> {
        let holdings = |place: usize| census[place].iter().flat_map(|piece| piece.iter());
        let others = || (0..census.len()).filter(|place| *place != local_view.me);
        let count = |place: usize| census[place].iter().map(|piece| piece.len()).sum::<usize>();
        self.elsewhere = HeldElsewhere::with_capacity(others().map(count).sum());
        let mut at_once = std::mem::take(&mut self.left);
        for place in others() {
            for piece in &census[place] {
                for (at, holding) in piece.iter().enumerate() {
                    let is_alone = holding.slots.len() == 1 && is_by_rule(local_view, &holding);
                    if !is_alone || !self.elsewhere.insert(place, piece, at) {
                        at_once.insert(holding.name());
                    }
                }
            }
        }
        for holding in holdings(local_view.me) {
            let is_alone = holding.slots.len() == 1 && is_by_rule(local_view, &holding);
            if !is_alone || self.elsewhere.contains(holding.lock) {
                at_once.insert(holding.name());
            }
        }
        let mut held: BTreeMap<LockName, HoldersByPermits> = BTreeMap::new();
        if at_once.is_empty() {
            return held;
        }
        for place in 0..census.len() {
            let is_held =
                |holding: &HoldingRef<'_>| !holding.slots.is_empty() && at_once.contains(holding.lock);
            for holding in holdings(place).filter(is_held) {
                let permits =
                    holding.permits.unwrap_or_else(|| local_view.rules.rule_for(holding.lock).permits);
                let by_permits = held.entry(holding.name()).or_default();
                by_permits.entry(permits).or_default().push((place, holding.lanes().collect()));
                self.elsewhere.remove(holding.lock);
            }
        }
        held
    }

    /// Starts the view with a name that is held.
    pub(super) fn open_name(
        &mut self,
        local_view: &LocalView,
        name: &LockName,
        held: &HoldersByPermits,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let counts = |(permits, held): (&u32, &HoldersByPlace)| {
            let permits = *permits;
            let modes = |lanes: &HeldLanes| lanes.iter().map(|lane| lane.mode).collect::<Vec<Mode>>();
            held.iter().map(move |(place, lanes)| ((permits, *place), modes(lanes))).collect::<Vec<_>>()
        };
        let left: Leftover = held.iter().flat_map(counts).collect();
        let mine = |held: &HoldersByPlace| {
            let mine = held.iter().find(|(place, _)| *place == local_view.me);
            mine.map_or_else(HeldLanes::new, |(_, lanes)| lanes.clone())
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
                    lock.make_good(&mine(held), env);
                }),
                Opening::Drains => self.with_lock_as_it_is(&key, lease_clock, out, |lock, env| {
                    lock.machines = Machines::Draining;
                    lock.make_good(&mine(held), env);
                }),
            }
        }
    }

    /// Refuses the waiters whose number of permits, mode or priority the view does not allow for their lock.
    fn refuse_unfit(&mut self, local_view: &LocalView, out: &mut Vec<TableOutput>) {
        let mut unfit: Vec<(Request, LockKey, RequestRefusal)> = Vec::new();
        for key in &self.unsought {
            let Some(lock) = self.locks.get(key) else { continue };
            for waiter in lock.clients.waiters.iter() {
                if let Err(why) = local_view.check_wanted(key, waiter.demand) {
                    unfit.push((waiter.request, key.clone(), why));
                }
            }
        }
        unfit.sort_unstable_by_key(|(request, ..)| *request);
        for (request, key, why) in unfit {
            self.stop_waiting(request, &key, AcquireOutcome::Refused, out);
            out.push(TableOutput::LockEvent(LockEvent::Refused { request, why }));
        }
    }
}

/// Returns whether the holders count on the number of permits of the rule.
fn is_by_rule(local_view: &LocalView, holding: &HoldingRef<'_>) -> bool {
    holding.permits.is_none_or(|permits| permits == local_view.rules.rule_for(holding.lock).permits)
}

/// Returns how a name with these holders is opened: as long as some of them count on another number of permits than the
/// rest, or than the rules give, nobody else is admitted.
pub(super) fn opening(local_view: &LocalView, name: &LockName, left: &Leftover) -> Opening {
    let counts = left.iter().filter(|(_, modes)| !modes.is_empty());
    let numbers: BTreeSet<u32> = counts.clone().map(|((permits, _), _)| *permits).collect();
    let rule = local_view.rules.rule(name);
    let permits = match numbers.len() {
        0 => rule.permits,
        1 => *numbers.first().expect("there is one"),
        _ => return Opening::Drains,
    };
    let is_shared = permits == rule.permits && local_view.plan(name).is_shared();
    let per_site = if permits == rule.permits { local_view.lanes(name) } else { permits };
    let all = counts.clone().flat_map(|(_, modes)| modes.iter().copied());
    let fits = if is_shared && !mutant::is_on(Mutant::ModesNotCompared) {
        HeldLane::admit_each_other(all)
    } else {
        all.count() <= permits as usize
    };
    let fits = fits && counts.map(|(_, modes)| modes.len()).max().unwrap_or(0) <= per_site as usize;
    match () {
        () if !fits => Opening::Drains,
        () if permits == rule.permits => Opening::ByRule,
        () if local_view.check(&LockKey { name: name.clone(), permits }).is_ok() => Opening::Settled(permits),
        () => Opening::Drains,
    }
}

impl Lock {
    /// Starts the machines if a view is open and they do not run: nobody has used the lock in this view.
    pub(super) fn touch(&mut self, env: &mut Env<'_>) {
        if let (Machines::Stopped, Some(local_view)) = (&self.machines, env.local_view) {
            if env.draining.contains_key(&env.key.name) {
                self.machines = Machines::Draining;
            } else if local_view.rule(env.key).is_some() {
                let held = self.holders_at_opening(local_view, env);
                self.start(&held, env);
            } else {
                self.clock = FenceClock::new(local_view.epoch);
                self.machines = Machines::AtHome;
            }
        }
    }

    /// Returns who held the lock when the view opened: a client of this site, which still has it; or one of another
    /// member; or nobody.
    fn holders_at_opening(&self, local_view: &LocalView, env: &mut Env<'_>) -> HoldersByPlace {
        if !self.clients.holds.is_empty() {
            return smallvec![(local_view.me, held_lanes(&self.clients.holds).collect())];
        }
        let elsewhere = env.elsewhere.remove(env.key.name.as_str());
        let elsewhere = elsewhere.filter(|_| !mutant::is_on(Mutant::HolderElsewhereForgotten));
        elsewhere.map_or_else(SmallVec::new, |(place, lane)| smallvec![(place, smallvec![lane])])
    }

    /// Starts the machines of this site with `held` inside, which fit the rule.
    pub(super) fn start(&mut self, held: &[(usize, HeldLanes)], env: &mut Env<'_>) {
        let Some(local_view) = env.local_view else { return };
        let stale = mutant::is_on(Mutant::FenceNotCarried);
        self.clock = FenceClock::new(if stale { Epoch::default() } else { local_view.epoch });
        // A stamp that was accepted once is in range.
        let _ = self.clock.observe(env.floor.stamp());
        let rule = local_view.rules.rule(&env.key.name);
        let placement = Placement::new(&env.key.name, local_view.members);
        let mut inside: BTreeMap<SiteId, HeldLane> = BTreeMap::new();
        for (place, lanes) in held {
            for (lane, held) in lanes.iter().enumerate() {
                inside.insert(placement.site(*place, lane), *held);
            }
        }
        let plan = local_view.plan(&env.key.name);
        if plan.is_shared() {
            let sharing = inside.into_iter().map(|(site, held)| (site, held.mode));
            return self.start_shared(&sharing.collect::<SmallVec<[_; 1]>>(), placement, env);
        }
        let holders = Holders::new(plan.cluster(), inside.keys().copied()).expect("they fit");
        let lane = |lane| {
            let me = placement.site(local_view.me, lane);
            let slot = inside.keys().position(|site| *site == me).unwrap_or(0);
            let slot = u32::try_from(slot).expect("fewer than permits");
            Lane { slot, ..Lane::start(plan, me, &holders) }
        };
        let lanes = (0..plan.lanes() as usize).map(lane).collect();
        let slots = renumbered(inside.values().map(|held| held.slot), rule.permits as usize);
        let plain = slots.iter().zip(0..).all(|(slot, number)| *slot == number);
        let slots = if plain { Box::default() } else { slots.into_boxed_slice() };
        self.machines = Machines::Running { lanes, shared: None, slots };
    }

    /// Starts the machines of a lock that clients may share, with these inside: the first one, and those of this site that are inside. If
    /// only one is, the others can start later.
    fn start_shared(&mut self, inside: &[(SiteId, Mode)], placement: Placement, env: &mut Env<'_>) {
        let Some(local_view) = env.local_view else { return };
        let plan = local_view.plan(&env.key.name);
        let at_once = match inside {
            [] => 1,
            [(site, _)] => match placement.place(*site) {
                (place, lane) if place == local_view.me => lane + 1,
                _ => 1,
            },
            _ => plan.lanes() as usize,
        };
        let holders = Holders::sharing(plan.cluster(), inside.iter().copied()).expect("they fit");
        let start = |lane| Lane::start(plan, placement.site(local_view.me, lane), &holders);
        let (lanes, first) = ((0..at_once).map(start).collect(), Unstarted(inside.first().copied()));
        self.machines = Machines::Running { lanes, shared: Some(first), slots: Box::default() };
    }

    /// Releases lanes that the census listed for clients here, but that were left since then, and lets those go on in a weaker mode whose
    /// clients do.
    fn make_good(&mut self, announced: &[HeldLane], env: &mut Env<'_>) {
        for lane in 0..announced.len() {
            if self.modes_at(lane).next().is_some() {
                if !mutant::is_on(Mutant::DowngradeForgotten) {
                    self.weaken(lane, env);
                }
                continue;
            }
            match self.machines {
                Machines::Running { .. } => self.run(lane, MachineInput::Call(SiteCall::Release), env),
                Machines::Draining => env.leave_draining(),
                Machines::Stopped | Machines::AtHome => {}
            }
        }
    }
}

impl Lane {
    /// Starts the machine of a site of the algorithm.
    pub(super) fn start(plan: &RulePlan, me: SiteId, holders: &Holders) -> Self {
        Lane { site: plan.plan().start(me, holders), turns: 0, slot: 0, priority: Priority::default() }
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

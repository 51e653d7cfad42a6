//! Clients that share a lock: which machine stands for whom, who is let in together, and changes of mode.
//!
//! Where the algorithm of a lock's rule knows modes, each member has a few machines (lanes) for the lock. A machine stands for one
//! client, or for a *group*: all clients here that share the lock by that machine. To the other members a group is one holder, and its
//! machine is left with the last client of it.
//!
//! ```text
//!  a client waits    it is exclusive or upgradeable: a machine asks for it, as soon as it is the first
//!                    it shares, and no exclusive client waits before it: it joins a group, if the machine says that it may
//!                    ([`may_share`](meshlock_protocol::Algorithm::may_share)), without a message; or a machine asks for all such clients
//!  a machine enters  in a mode; it serves the first waiter that wants this mode or a weaker one, and goes on in that one
//!  a client leaves   the machine serves the next waiter here that it can, some times in a row, or it releases; that of readers releases
//!  X becomes S       at once: then the clients that share join, here and elsewhere
//!  U becomes X       the machine asks; it is exclusive when all others have left, and its fence is a new one
//! ```
//!
//! **Who passes whom.** A client that shares never passes an exclusive one that waits here before it, nor one here that waits to be
//! exclusive; the algorithm says the same of clients elsewhere. It may pass an upgradeable one, which it does not delay.
//! Only for the first waiters is asked, not for those behind them, as one machine asks for all clients of a plain lock.
//!
//! **Priorities.** A waiter stands before those that are less urgent. Each of those lets at most [`MAX_OVERTAKEN`] later ones pass, and then
//! no more, so that none waits for ever at its site; between sites the algorithm decides.
//!
//! **An upgrade** that its client gives up goes on in the machine, which cannot take it back. When it is granted, it is turned back at
//! once. Meanwhile the client may downgrade, and the machine does so then.
//!
//! Machines beyond the first start when they are used first, from what the first one started from: as long as a machine has heard
//! and said nothing, its state is the one that it starts in.
//!
//! **Invariant** T13: clients that hold a lock here admit each other, only those that share it have a machine together, and a machine is in
//! the mode of its clients, or waits to be exclusive in a stronger one.

use std::collections::VecDeque;

use meshlock_protocol::registry::SiteCall;
use meshlock_protocol::{Algorithm, Demand, Fence, Holders, Mode, Phase, Priority, SiteId};
use smallvec::SmallVec;

use super::clients::{Hold, Spare, WaitingClient};
use super::holdings::HeldLane;
use super::lock::{Downgrade, Env, Lane, Lock, MachineInput, Machines};
use super::{LeaseClock, LockEvent, LockKey, LockTable, Request, RequestRefusal, StepKind, TableOutput};
use crate::mutant::{self, Mutant};

/// How many later waiters may be let in front of one because they are more urgent.
pub(super) const MAX_OVERTAKEN: u8 = 8;

/// From what machines start that were not used yet: the one who was inside when the view opened. If there were several, no machine is
/// left to start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unstarted(pub(super) Option<(SiteId, Mode)>);

impl LockTable {
    /// Returns whether clients may share this lock, in the machines of its rule.
    pub(super) fn is_shared(&self, key: &LockKey) -> bool {
        let view = self.local_view.as_ref();
        view.is_some_and(|view| view.rule(key).is_some() && view.plan(&key.name).is_shared())
    }

    /// Handles a client's change of the mode in which it holds a lock. To ask for the mode that it has gives up an upgrade.
    pub(crate) fn change_mode(
        &mut self,
        request: Request,
        to: Mode,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let refused = |why| TableOutput::LockEvent(LockEvent::ModeRefused { request, why });
        let key = self.requests.get(&request).map(|(_, key)| key.clone());
        let is_frozen = self.is_frozen();
        let found = key.as_ref().and_then(|key| self.locks.get_mut(key)?.hold_mut(request));
        let Some((key, hold)) = key.zip(found.filter(|hold| hold.stop_by.is_none())) else {
            return out.push(refused(RequestRefusal::NotHeld));
        };
        let from = hold.mode;
        if from != to && !from.may_become(to) {
            return out.push(refused(RequestRefusal::UpgradeOfShared { to }));
        }
        if is_frozen {
            return out.push(refused(RequestRefusal::Leaving));
        }
        let permits = key.permits;
        let checked = match &self.local_view {
            _ if to >= from => Ok(()),
            _ if permits != 1 => Err(RequestRefusal::ModeOfMany { permits, mode: to }),
            Some(local_view) => local_view.check_demand(&key, Demand::of(to)),
            None => Ok(()),
        };
        if let Err(why) = checked {
            return out.push(refused(why));
        }
        let Some(hold) = self.locks.get_mut(&key).and_then(|lock| lock.hold_mut(request)) else { return };
        hold.upgrades = to > from;
        hold.mode = from.min(to);
        let (lane, fence) = (hold.lane as usize, hold.fence);
        if to <= from {
            out.push(TableOutput::LockEvent(LockEvent::ModeChanged { request, mode: to, fence }));
        }
        self.with_lock(&key, lease_clock, out, |lock, env| {
            if to < from {
                lock.on_downgraded(lane, env);
            }
            lock.seek(env);
        });
    }
}

impl Lock {
    /// Adds a waiter, before those that are less urgent.
    pub(super) fn enqueue(&mut self, waiter: WaitingClient, spare: &mut Spare) {
        let waiters = &mut self.clients.wake(spare).waiters;
        let passes = |other: &WaitingClient| {
            other.demand.priority < waiter.demand.priority
                && (other.overtaken < MAX_OVERTAKEN || mutant::is_on(Mutant::UrgentPassForEver))
        };
        let passed = waiters.iter().rev().take_while(|other| passes(other)).count();
        let at = waiters.len() - passed;
        waiters.range_mut(at..).for_each(|other| other.overtaken = other.overtaken.saturating_add(1));
        waiters.insert(at, waiter);
    }

    /// Returns the modes of the clients that a lane stands for.
    pub(super) fn modes_at(&self, lane: usize) -> impl Iterator<Item = Mode> + Clone {
        let holds: &[Hold] = &self.clients.holds;
        holds.iter().filter(move |hold| hold.lane as usize == lane).map(|hold| hold.mode)
    }

    /// Returns whether a client that has left, and had this mode, was the last one of its lane.
    pub(super) fn is_last(&self, lane: usize, mode: Mode) -> bool {
        let shares = mode == Mode::Shared && !mutant::is_on(Mutant::LeftWithFirst);
        !shares || self.modes_at(lane).all(|other| other != Mode::Shared)
    }

    /// Starts the machine of a lane, if it was not used yet.
    pub(super) fn start_lane(&mut self, lane: usize, env: &Env<'_>) {
        let Machines::Running { lanes, shared: Some(Unstarted(held)), .. } = &mut self.machines else {
            return;
        };
        let Some(local_view) = env.local_view else { return };
        while lanes.len() <= lane {
            let plan = local_view.plan(&env.key.name);
            let holders = Holders::sharing(plan.cluster(), *held).expect("one holder fits");
            lanes.push(Lane::start(plan, env.site_of(local_view.me, lanes.len()), &holders));
        }
    }

    /// Asks, in a lock that clients may share, for everything that is wanted and was not asked for.
    pub(super) fn seek_shared(&mut self, env: &mut Env<'_>) {
        self.ask_upgrades(env);
        self.join(env);
        while let (Some((at, demand)), Some(idle)) = (self.unasked(), self.idle_lane(env)) {
            env.cause = self.clients.waiters.get(at).map(|waiter| waiter.cause);
            self.start_lane(idle, env);
            self.run_asking(idle, SiteCall::Request(demand), demand.priority, env);
        }
    }

    /// Asks again after a machine's step, which may have left a lane idle: in a lock that clients may share, one asks for some and not
    /// for others.
    pub(super) fn seek_again(&mut self, env: &mut Env<'_>) {
        if let Machines::Running { shared: Some(_), .. } = &self.machines {
            self.seek(env);
        }
    }

    /// Makes a call that requests with this priority.
    fn run_asking(&mut self, lane: usize, call: SiteCall<'static>, priority: Priority, env: &mut Env<'_>) {
        if let Machines::Running { lanes, .. } = &mut self.machines {
            lanes[lane].priority = priority;
        }
        self.run(lane, MachineInput::Call(call), env);
    }

    /// Returns a lane that neither asks nor is inside.
    fn idle_lane(&self, env: &Env<'_>) -> Option<usize> {
        let lanes = env.local_view?.lanes(&env.key.name);
        self.idle_of(lanes)
    }

    /// Returns a lane of this many that neither asks nor is inside.
    fn idle_of(&self, most: u32) -> Option<usize> {
        let Machines::Running { lanes, .. } = &self.machines else { return None };
        let started = lanes.iter().position(|lane| lane.site.phase() == Phase::Idle);
        started.or_else(|| Some(lanes.len()).filter(|next| *next < most as usize))
    }

    /// Returns the number of waiters before the first exclusive one.
    fn before_exclusive(&self) -> usize {
        let waiters = &self.clients.waiters;
        waiters.iter().take_while(|waiter| waiter.demand.mode != Mode::Exclusive).count()
    }

    /// Returns the first waiter for whom a machine has to ask and none does, and what it asks for: of those that share, the highest of their
    /// priorities.
    fn unasked(&self) -> Option<(usize, Demand)> {
        let Machines::Running { lanes, .. } = &self.machines else { return None };
        let (front, first) = (self.clients.waiters.front()?, self.before_exclusive());
        let wanted = |mode: Mode| {
            let of_mode = |waiter: &&WaitingClient| waiter.demand.mode == mode;
            let group = self.clients.waiters.iter().take(first);
            let at = group.clone().position(|waiter| of_mode(&waiter))?;
            let priority = group.filter(of_mode).map(|waiter| waiter.demand.priority).max()?;
            Some((at, Demand { mode, priority }))
        };
        let mut open: SmallVec<[(usize, Demand); 2]> = if first == 0 {
            SmallVec::from_slice(&[(0, front.demand)])
        } else {
            [Mode::Shared, Mode::Upgradeable].into_iter().filter_map(wanted).collect()
        };
        let asking = lanes.iter().filter(|lane| lane.site.phase() == Phase::Waiting);
        let mut asking: SmallVec<[(Mode, Priority); 4]> =
            asking.map(|lane| (lane.site.mode(), lane.priority)).collect();
        // A machine that asks for more than is wanted will do, unless another waiter wants just that.
        for exactly in [true, false] {
            open.retain(|(_, wanted)| {
                let does = |(mode, priority): &(Mode, Priority)| {
                    (*mode == wanted.mode || !exactly && *mode > wanted.mode) && *priority >= wanted.priority
                };
                asking.iter().position(does).map(|at| asking.swap_remove(at)).is_none()
            });
        }
        open.into_iter().min_by_key(|(at, _)| *at)
    }

    /// Returns whether a machine could ask for something that is wanted, and has not.
    pub(super) fn could_ask_shared(&self, lanes: u32) -> bool {
        let Machines::Running { lanes: running, .. } = &self.machines else { return false };
        let is_asked = |hold: &Hold| running[hold.lane as usize].site.is_upgrading();
        let upgrades = self.clients.holds.iter().any(|hold| hold.upgrades && !is_asked(hold));
        upgrades || self.unasked().is_some() && self.idle_of(lanes).is_some()
    }

    /// Lets machines ask for the upgrades that their clients want.
    fn ask_upgrades(&mut self, env: &mut Env<'_>) {
        let wanted = self.clients.holds.iter().filter(|hold| hold.upgrades);
        let wanted: SmallVec<[(usize, crate::cause::Cause); 1]> =
            wanted.map(|hold| (hold.lane as usize, hold.cause)).collect();
        for (lane, cause) in wanted {
            let Machines::Running { lanes, .. } = &self.machines else { return };
            if mutant::is_on(Mutant::UpgradedUnasked) {
                self.become_exclusive(lane, env);
            } else if !lanes[lane].site.is_upgrading() {
                env.cause = Some(cause);
                self.run(lane, MachineInput::Call(SiteCall::ChangeMode(Mode::Exclusive)), env);
            }
        }
    }

    /// Lets clients that share into a group, if the machine of one says that it may take them.
    fn join(&mut self, env: &mut Env<'_>) {
        let Machines::Running { lanes, .. } = &self.machines else { return };
        if self.clients.waiters.is_empty() {
            return;
        }
        let upgrades = self.clients.holds.iter().any(|hold| hold.upgrades);
        let passes = mutant::is_on(Mutant::ReaderPassesUpgrade);
        let may_join = |lane: &Lane| {
            lane.site.phase() == Phase::Executing
                && lane.site.mode() == Mode::Shared
                && (lane.site.may_share() || mutant::is_on(Mutant::JoinUnasked))
        };
        let group = lanes.iter().position(may_join).filter(|_| !upgrades || passes);
        if let Some(group) = group {
            self.let_in_readers(group, env);
        }
    }

    /// Lets all waiters in by a lane that share, and before which no exclusive one waits. Returns whether there were any.
    fn let_in_readers(&mut self, lane: usize, env: &mut Env<'_>) -> bool {
        let (Some(lease_end), slot) = (env.may_grant(), self.public_slot(lane, env)) else { return false };
        let (mut at, mut some) = (0, false);
        while let Some(waiter) = self.clients.waiters.get(at) {
            match waiter.demand.mode {
                Mode::Exclusive if mutant::is_on(Mutant::ReaderPassesExclusive) => at += 1,
                Mode::Exclusive => break,
                Mode::Upgradeable => at += 1,
                Mode::Shared => {
                    let Some(waiter) = self.clients.waiters.remove(at) else { break };
                    self.admit(waiter, lane, slot, lease_end, env);
                    some = true;
                }
            }
        }
        some
    }

    /// Lets those in that a machine which is inside can serve: whoever is first of those that want its mode and wait before every exclusive
    /// one, or else the first of all. Returns `None` if there is nobody, or the mode in which the machine must go on.
    pub(super) fn serve_shared(&mut self, lane: usize, env: &mut Env<'_>) -> Option<Downgrade> {
        let Machines::Running { lanes, .. } = &self.machines else { return None };
        let inside = lanes[lane].site.mode();
        if env.mark.is_some() && !mutant::is_on(Mutant::SharedBesideSemaphore) {
            return None;
        }
        let Some(lease_end) = env.may_grant() else {
            env.note_unsought(&self.clients);
            return None;
        };
        let mut first = self.clients.waiters.iter().take(self.before_exclusive());
        let at = first.position(|waiter| waiter.demand.mode == inside).unwrap_or(0);
        let mode = self.clients.waiters.get(at)?.demand.mode;
        if mode > inside {
            return None;
        }
        if mode == Mode::Shared {
            self.let_in_readers(lane, env);
        } else {
            let waiter = self.clients.waiters.remove(at)?;
            self.admit(waiter, lane, self.public_slot(lane, env), lease_end, env);
        }
        Some(Downgrade(Some(mode).filter(|mode| *mode < inside)))
    }

    /// Hands a lane on whose last client has left: to waiters here, for some times in a row, or to others.
    pub(super) fn hand_on_shared(&mut self, lane: usize, env: &mut Env<'_>) {
        let upgrades = self.clients.holds.iter().any(|hold| hold.upgrades);
        let Machines::Running { lanes, .. } = &mut self.machines else { return };
        // Readers that could join have joined: for the others somebody waits whom they must not pass.
        let is_bound = upgrades || lanes[lane].site.is_upgrading() || lanes[lane].site.mode() == Mode::Shared;
        let is_in_turn = lanes[lane].turns < env.table_config.local_turns && !is_bound;
        lanes[lane].turns = lanes[lane].turns.saturating_add(1);
        match if is_in_turn { self.serve_shared(lane, env) } else { None } {
            Some(Downgrade(Some(to))) => self.run(lane, MachineInput::Call(SiteCall::ChangeMode(to)), env),
            Some(Downgrade(None)) => {}
            None => match self.unasked().filter(|_| env.may_grant().is_some() && env.mark.is_none()) {
                Some((at, demand)) => {
                    env.cause = self.clients.waiters.get(at).map(|waiter| waiter.cause);
                    self.run_asking(lane, SiteCall::ReleaseAndRequest(demand), demand.priority, env);
                }
                None => self.run(lane, MachineInput::Call(SiteCall::Release), env),
            },
        }
        self.seek(env);
    }

    /// Reacts to a client going on in a weaker mode, at this lane.
    fn on_downgraded(&mut self, lane: usize, env: &mut Env<'_>) {
        match &self.machines {
            // The difference to the census is corrected when the view opens.
            Machines::Stopped => drop(env.left.insert(env.key.name.clone())),
            // They admit nobody before a new view, or know no modes.
            Machines::Draining | Machines::AtHome => {}
            Machines::Running { .. } => self.weaken(lane, env),
        }
    }

    /// Lets the machine of a lane go on in the mode of its clients, if it is in a stronger one and does not wait to be exclusive.
    pub(super) fn weaken(&mut self, lane: usize, env: &mut Env<'_>) {
        let Some(to) = self.modes_at(lane).max() else { return };
        if let Machines::Running { lanes, shared: Some(_), .. } = &self.machines
            && lanes[lane].site.mode() > to
            && !lanes[lane].site.is_upgrading()
        {
            self.run(lane, MachineInput::Call(SiteCall::ChangeMode(to)), env);
        }
    }

    /// Reacts to a machine being exclusive, as it has asked: its client is, or has given that up, or cannot be told without a lease.
    pub(super) fn on_upgraded(
        &mut self,
        lane: usize,
        env: &mut Env<'_>,
        work: &mut VecDeque<(usize, MachineInput)>,
    ) {
        if self.become_exclusive(lane, env) {
            return;
        }
        let call = self.modes_at(lane).max().map_or(SiteCall::Release, SiteCall::ChangeMode);
        work.push_back((lane, MachineInput::Call(call)));
    }

    /// Lets the clients that want it be exclusive where machines know no modes: whoever holds such a lock is alone.
    pub(super) fn upgrade_alone(&mut self, env: &mut Env<'_>) {
        let wanted = self.clients.holds.iter().filter(|hold| hold.upgrades);
        for lane in wanted.map(|hold| hold.lane as usize).collect::<SmallVec<[usize; 1]>>() {
            self.become_exclusive(lane, env);
        }
    }

    /// Tells the client of a lane that it is exclusive, if it wants to be and the lease allows it. Returns whether it does.
    fn become_exclusive(&mut self, lane: usize, env: &mut Env<'_>) -> bool {
        let is_meant = |hold: &&mut Hold| hold.lane as usize == lane && hold.upgrades;
        if env.may_grant().is_none() {
            env.note_unsought(&self.clients);
            return false;
        }
        let Some(hold) = self.clients.holds.iter_mut().find(is_meant) else { return false };
        let fence: Fence =
            if mutant::is_on(Mutant::UpgradeKeepsFence) { hold.fence } else { self.clock.enter() };
        (hold.upgrades, hold.mode, hold.fence) = (false, Mode::Exclusive, fence);
        let (request, mode) = (hold.request, hold.mode);
        env.trace(lane, || StepKind::Enter(request, fence));
        env.out.push(TableOutput::LockEvent(LockEvent::ModeChanged { request, mode, fence }));
        true
    }

    /// Checks the modes of those who hold the lock.
    pub(super) fn check_modes(&self) -> Result<(), &'static str> {
        const T13: &str =
            "T13: clients that hold a lock here admit each other, and their machines are in their modes";
        let Machines::Running { lanes, shared, .. } = &self.machines else { return Ok(()) };
        for (at, lane) in lanes.iter().enumerate() {
            let modes = self.modes_at(at);
            let Some(strongest) = modes.clone().max() else { continue };
            let is_group = modes.clone().all(|mode| mode == Mode::Shared);
            let is_right = lane.site.mode() == strongest
                || lane.site.mode() > strongest && lane.site.is_upgrading()
                || shared.is_none();
            if !is_right || !is_group && modes.count() > 1 {
                return Err(T13);
            }
        }
        let lanes = (0..lanes.len()).filter_map(|at| self.modes_at(at).max());
        if shared.is_some() && !HeldLane::admit_each_other(lanes) {
            return Err(T13);
        }
        Ok(())
    }
}

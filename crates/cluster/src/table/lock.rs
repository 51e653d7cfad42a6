//! One lock at one site: its waiters, its holders, and a machine for each lane.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use indexmap::IndexSet;
use meshlock_protocol::registry::info::Tokens;
use meshlock_protocol::registry::{AnyMessage, AnyOutbox, AnySite, SiteCall};
use meshlock_protocol::{
    Algorithm, Chooser, Demand, Effect, Epoch, FenceClock, Mode, Phase, Priority, SiteId,
};
use smallvec::SmallVec;

use super::changes::ChangeLog;
use super::clients::{Clients, Hold, Spare, WaitingClient};
use super::draining::Leftover;
use super::elsewhere::HeldElsewhere;
use super::modes::Unstarted;
use super::permits::{Mark, PermitMessage};
use super::{
    LeaseClock, LocalView, LockEvent, LockKey, LockMessage, Request, ServedBy, StepKind, TableAlarm,
    TableConfig, TableOutput, TableTally, TraceWatch,
};
use crate::cause::Cause;
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::report::ChangeKind;
use crate::time::Time;
use crate::view::Placement;

/// The state of a lock's machines.
#[derive(Clone, Debug)]
pub(super) enum Machines {
    /// There are none: no view is open, or nobody has used the lock in this one.
    Stopped,
    /// There is one for each lane.
    Running {
        lanes: SmallVec<[Lane; 1]>,
        /// If clients may share the lock: from what the lanes start that were not used yet ([`super::modes`]).
        shared: Option<Unstarted>,
        /// The public numbers of the permits that the machines number from 0; empty if they are the same.
        slots: Box<[u32]>,
    },
    /// There are none, because the home of the lock's name hands out its permits ([`super::permits`]).
    AtHome,
    /// There are more holders than permits, or holders with another number of permits: nobody enters before enough have
    /// left and a new view has opened.
    Draining,
}

/// One instance of the lock's algorithm at this site; a lock with permits for several local clients runs several.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) site: AnySite,
    /// How many times in a row it was handed on among local clients.
    pub(super) turns: u32,
    /// The machine's number of the permit that it executes on.
    pub(super) slot: u32,
    /// The priority of its last request.
    pub(super) priority: Priority,
}

/// The weaker mode in which a machine must go on, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Downgrade(pub(super) Option<Mode>);

/// An input of a machine.
#[derive(Clone, Debug)]
pub(super) enum MachineInput {
    Call(SiteCall<'static>),
    Receive(SiteId, AnyMessage),
}

/// The parts of the table that a lock needs for one step.
pub(super) struct Env<'a> {
    pub(super) key: &'a LockKey,
    pub(super) lease_clock: LeaseClock,
    pub(super) table_config: TableConfig,
    pub(super) local_view: Option<&'a LocalView>,
    pub(super) alarms: &'a mut BTreeSet<(Time, TableAlarm)>,
    /// Lent to a machine for one call; boxed, because it has a part for each algorithm.
    pub(super) outbox: &'a mut Option<Box<AnyOutbox>>,
    pub(super) spare: &'a mut Spare,
    pub(super) tally: &'a mut TableTally,
    /// The number of holders that have lost the lock and have time left to stop.
    pub(super) losing: &'a mut u64,
    /// Locks for whose waiters nothing could be asked.
    pub(super) unsought: &'a mut IndexSet<LockKey, FixedState>,
    /// Locks that are held elsewhere and were not used here in this view.
    pub(super) elsewhere: &'a mut HeldElsewhere,
    /// Names that were left since the census was sent.
    pub(super) left: &'a mut BTreeSet<LockName>,
    /// How a client that is admitted during this step was served.
    pub(super) served: ServedBy,
    /// The acquisition on whose behalf the step is made.
    pub(super) cause: Option<Cause>,
    pub(super) watches: &'a [TraceWatch],
    /// What the home of the lock's name has told this site.
    pub(super) mark: Option<Mark>,
    /// The remaining holders of locks that nobody may enter.
    pub(super) draining: &'a mut BTreeMap<LockName, Leftover>,
    /// Whether one of these could be entered in a new view.
    pub(super) has_drained: &'a mut bool,
    /// Where fences of locks that are new in this view begin.
    pub(super) floor: FenceClock,
    /// Messages of this site to itself.
    pub(super) inbox: &'a mut VecDeque<(LockName, PermitMessage)>,
    /// The last changes, while somebody asks for them.
    pub(super) changes: &'a mut Option<Box<ChangeLog>>,
    pub(super) out: &'a mut Vec<TableOutput>,
}

impl Env<'_> {
    pub(super) fn misbehaved(&mut self, place: usize, why: &'static str) {
        self.out.push(TableOutput::Misbehaved { place, why });
    }

    /// Returns the algorithm's site for a lane of the member at `place`.
    pub(super) fn site_of(&self, place: usize, lane: usize) -> SiteId {
        let members = self.local_view.map_or(1, |local_view| local_view.members);
        Placement::new(&self.key.name, members).site(place, lane)
    }

    /// Returns when the lease ends, if locks may be granted now.
    pub(super) fn may_grant(&self) -> Option<Time> {
        let careless = mutant::is_on(Mutant::GrantWithoutLease);
        self.lease_clock.lease_end.or_else(|| careless.then_some(self.lease_clock.now))
    }
}

/// An outbox for the machines of the member at this place. What the papers leave open is drawn, by each member in another way, and in
/// every run in the same.
fn choosing_as(place: usize) -> AnyOutbox {
    AnyOutbox::choosing(Chooser::seeded(place as u64))
}

/// What a site knows of one lock: its clients here, its fences and its machines.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub(super) clients: Clients,
    pub(super) clock: FenceClock,
    pub(super) machines: Machines,
}

impl Lock {
    pub(super) fn new() -> Self {
        Lock {
            clients: Clients::default(),
            clock: FenceClock::new(Epoch::default()),
            machines: Machines::Stopped,
        }
    }

    pub(super) fn holds(&self, request: Request) -> bool {
        self.hold(request).is_some()
    }

    pub(super) fn hold_mut(&mut self, request: Request) -> Option<&mut Hold> {
        self.clients.holds.iter_mut().find(|hold| hold.request == request)
    }

    pub(super) fn hold(&self, request: Request) -> Option<&Hold> {
        self.clients.holds.iter().find(|hold| hold.request == request)
    }

    /// Sends requests with as many lanes as clients wait, if the lease allows granting. Where the name is not used by its
    /// rule, its home is asked instead.
    pub(super) fn seek(&mut self, env: &mut Env<'_>) {
        if env.may_grant().is_none() || env.local_view.is_none() {
            return env.note_unsought(&self.clients);
        }
        match &self.machines {
            Machines::Stopped | Machines::Draining => return,
            Machines::Running { shared: Some(_), .. } if env.mark.is_none() => return self.seek_shared(env),
            Machines::Running { shared: Some(_), .. } => {}
            Machines::Running { .. } | Machines::AtHome => self.upgrade_alone(env),
        }
        if env.mark.is_some() || matches!(self.machines, Machines::AtHome) {
            return self.ask_home(env);
        }
        loop {
            let Machines::Running { lanes, .. } = &self.machines else { return };
            let asking = lanes.iter().filter(|lane| lane.site.phase() == Phase::Waiting).count();
            let idle = lanes.iter().position(|lane| lane.site.phase() == Phase::Idle);
            let Some(idle) = idle.filter(|_| asking < self.clients.waiters.len()) else { return };
            let waiter = self.clients.waiters.get(asking);
            let demand = waiter.map_or(Demand::PLAIN, |waiter| waiter.demand);
            env.cause = waiter.map(|waiter| waiter.cause);
            self.run(idle, MachineInput::Call(SiteCall::Request(demand)), env);
        }
    }

    /// Passes an input to a lane's machine and does everything that follows from it at this site.
    pub(super) fn run(&mut self, lane: usize, input: MachineInput, env: &mut Env<'_>) {
        // Messages between machines of this site are queued; mostly there are none, and nothing is allocated.
        let (mut next, mut work) = (Some((lane, input)), VecDeque::new());
        while let Some((lane, input)) = next.take().or_else(|| work.pop_front()) {
            let Some(local_view) = env.local_view else { return };
            self.start_lane(lane, env);
            let Machines::Running { lanes, .. } = &mut self.machines else {
                if let MachineInput::Receive(from, _) = input {
                    let (place, _) = Placement::new(&env.key.name, local_view.members).place(from);
                    env.misbehaved(place, "a message for a lock that nobody may enter yet");
                }
                return;
            };
            let site = &mut lanes[lane].site;
            let mut outbox = env.outbox.take().unwrap_or_else(|| Box::new(choosing_as(local_view.me)));
            match input {
                MachineInput::Call(call) => site.call(call, &mut outbox),
                MachineInput::Receive(from, message) => site.deliver(from, message, &mut outbox),
            }
            for effect in outbox.drain() {
                self.perform(lane, effect, local_view, env, &mut work);
            }
            *env.outbox = Some(outbox);
        }
    }

    fn perform(
        &mut self,
        lane: usize,
        effect: Effect<AnyMessage>,
        local_view: &LocalView,
        env: &mut Env<'_>,
        work: &mut VecDeque<(usize, MachineInput)>,
    ) {
        match effect {
            Effect::Send { to, message } => {
                let placement = Placement::new(&env.key.name, local_view.members);
                let (place, to_lane) = placement.place(to);
                if place == local_view.me {
                    return work
                        .push_back((to_lane, MachineInput::Receive(placement.site(place, lane), message)));
                }
                let number = |lane| u32::try_from(lane).expect("fewer lanes than permits");
                let (from_lane, to_lane) = (number(lane), number(to_lane));
                let (lock, stamp) = (env.key.name.clone(), self.clock.stamp());
                env.tally.sent.count(&message);
                let (cause, printed) = (env.cause, env.is_watched().then(|| message.printed()));
                let message = LockMessage { lock, from_lane, to_lane, stamp, message, cause };
                env.out.push(TableOutput::Send { to: place, message });
                // Traced after the send, because only then its number on the link is known.
                if let Some(printed) = printed {
                    env.trace(lane, || StepKind::Send(place, printed));
                }
            }
            Effect::Enter { slot } => self.on_enter(lane, slot.0, env, work),
            Effect::Timer { delays } => {
                let due = env.lease_clock.now + env.table_config.message_delay.times(u64::from(delays));
                env.alarms.insert((due, TableAlarm::Timer(env.key.clone(), lane, local_view.epoch)));
            }
            Effect::Upgraded => self.on_upgraded(lane, env, work),
            Effect::Chose { .. } => {}
            Effect::Misbehaved { peer, why } => {
                env.misbehaved(Placement::new(&env.key.name, local_view.members).place(peer).0, why);
            }
        }
    }

    /// Reacts to the machine entering: the first waiter gets the lock. Without a waiter, or without a lease to grant it
    /// on, the machine leaves at once; once the lease is back, [`seek`](Lock::seek) requests again.
    fn on_enter(
        &mut self,
        lane: usize,
        slot: u32,
        env: &mut Env<'_>,
        work: &mut VecDeque<(usize, MachineInput)>,
    ) {
        if let Machines::Running { lanes, .. } = &mut self.machines {
            lanes[lane].turns = 0;
            lanes[lane].slot = slot;
        }
        match self.serve(lane, env) {
            None => work.push_back((lane, MachineInput::Call(SiteCall::Release))),
            Some(Downgrade(Some(to))) => work.push_back((lane, MachineInput::Call(SiteCall::ChangeMode(to)))),
            Some(Downgrade(None)) => {}
        }
    }

    /// Lets clients in at a lane whose machine is inside. Returns `None` if there are none, or the mode that the machine must go on in.
    fn serve(&mut self, lane: usize, env: &mut Env<'_>) -> Option<Downgrade> {
        if let Machines::Running { shared: Some(_), .. } = &self.machines {
            return self.serve_shared(lane, env);
        }
        self.grant(lane, env).then_some(Downgrade(None))
    }

    /// Grants the lane's permit to the first waiter, if there is one, the lease allows it and the name is used by its
    /// rule. Returns whether it did.
    fn grant(&mut self, lane: usize, env: &mut Env<'_>) -> bool {
        env.mark.is_none() && self.grant_slot(lane, self.public_slot(lane, env), env)
    }

    /// Grants a permit with this public number to the first waiter, if there is one and the lease allows it. Returns
    /// whether it did.
    pub(super) fn grant_slot(&mut self, lane: usize, slot: Option<u32>, env: &mut Env<'_>) -> bool {
        let Some(lease_end) = env.may_grant() else {
            env.note_unsought(&self.clients);
            return false;
        };
        if self.clients.waiters.is_empty() {
            return false;
        }
        let Some(waiter) = self.clients.waiters.pop_front() else { return false };
        self.admit(waiter, lane, slot, lease_end, env);
        true
    }

    /// Tells a client that it holds the lock, by a lane.
    pub(super) fn admit(
        &mut self,
        waiter: WaitingClient,
        lane: usize,
        slot: Option<u32>,
        lease_end: Time,
        env: &mut Env<'_>,
    ) {
        if let Some(deadline) = waiter.deadline {
            env.alarms.remove(&(deadline.alarm, TableAlarm::Deadline(env.key.clone(), waiter.request)));
        }
        let stuck = mutant::is_on(Mutant::FenceStuck);
        let fence = if stuck { FenceClock::new(Epoch::default()).enter() } else { self.clock.enter() };
        let now = env.lease_clock.now;
        let (WaitingClient { request, since, cause, demand, .. }, by) = (waiter, env.cause);
        let mode = demand.mode;
        // Nearly all locks have one holder at a time.
        self.clients.holds.reserve_exact(1);
        let on = u32::try_from(lane).expect("fewer lanes than permits");
        let (stop_by, upgrades) = (None, false);
        let hold = Hold { request, fence, slot, since: now, stop_by, lane: on, mode, upgrades, cause };
        if let Some(log) = env.changes {
            log.push(env.key, ChangeKind::Acquired, &hold, now);
        }
        self.clients.holds.push(hold);
        let margin = env.table_config.margin;
        env.tally.granted(now.since(since), env.served);
        env.trace(lane, || StepKind::Enter(request, fence));
        env.out.push(TableOutput::LockEvent(LockEvent::Granted {
            request,
            fence,
            slot,
            lease_end,
            margin,
            cause,
            by,
        }));
    }

    /// Returns the public number of a lane's permit; `None` if the permits are not numbered.
    pub(super) fn public_slot(&self, lane: usize, env: &Env<'_>) -> Option<u32> {
        let Machines::Running { lanes, slots, .. } = &self.machines else { return None };
        let rule = env.local_view?.rules.rule(&env.key.name);
        let numbered = rule.permits == 1 || rule.spec.info.tokens == Tokens::PerPermit;
        let slot = lanes[lane].slot as usize;
        numbered.then(|| slots.get(slot).copied().unwrap_or(lanes[lane].slot))
    }

    /// Removes a holder: the permit goes to the next waiter here, or to other sites.
    pub(super) fn on_left(&mut self, request: Request, env: &mut Env<'_>) {
        let Some(at) = self.clients.holds.iter().position(|hold| hold.request == request) else { return };
        let Hold { lane, slot, stop_by, since, cause, mode, .. } = self.clients.holds.remove(at);
        let lane = lane as usize;
        let is_last = self.is_last(lane, mode);
        env.tally.holds.record(env.lease_clock.now.since(since));
        env.cause = Some(cause);
        env.trace(lane, || StepKind::Release(request));
        if let Some(act_by) = stop_by {
            *env.losing -= 1;
            env.alarms.remove(&(*act_by, TableAlarm::Lost(env.key.clone(), request)));
        }
        if !is_last {
            return;
        }
        match &mut self.machines {
            // The difference to the census is corrected when the view opens.
            Machines::Stopped => {
                if !mutant::is_on(Mutant::LeftUnnoticed) {
                    env.left.insert(env.key.name.clone());
                }
            }
            Machines::Draining => env.leave_draining(),
            Machines::AtHome => {
                let slot = slot.unwrap_or(u32::MAX);
                env.tell_home(PermitMessage::Return { slot, stamp: self.clock.stamp() });
            }
            Machines::Running { shared: Some(_), .. } => self.hand_on_shared(lane, env),
            Machines::Running { lanes, .. } => {
                let turns = lanes[lane].turns;
                lanes[lane].turns = turns + 1;
                if turns < env.table_config.local_turns && self.grant(lane, env) {
                    return;
                }
                let next = self.clients.waiters.front().filter(|_| env.may_grant().is_some());
                env.cause = next.map(|next| next.cause).or(env.cause);
                let call = next.map_or(SiteCall::Release, |next| SiteCall::ReleaseAndRequest(next.demand));
                self.run(lane, MachineInput::Call(call), env);
                self.seek(env);
            }
        }
    }

    pub(super) fn check_invariants(&self, is_open: bool) -> Result<(), &'static str> {
        match &self.machines {
            Machines::Stopped => {}
            Machines::Draining | Machines::AtHome if is_open => {}
            Machines::Running { lanes, .. } if is_open => {
                for (at, lane) in lanes.iter().enumerate() {
                    lane.site.check_invariants()?;
                    let executes = lane.site.phase() == Phase::Executing;
                    if self.modes_at(at).next().is_some() != executes {
                        return Err("T2: every holder of a lock corresponds to one executing lane");
                    }
                }
                self.check_modes()?;
            }
            Machines::Draining | Machines::AtHome | Machines::Running { .. } => {
                return Err("T1: machines run only while a view is open");
            }
        }
        Ok(())
    }
}

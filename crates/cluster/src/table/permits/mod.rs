//! Semaphores that no rule names, and why a name never has holders with different numbers of permits.
//!
//! A client says how many clients may hold a lock at a time: one, unless it says otherwise. Where that is what the rule
//! of the name gives, the machines of the rule's algorithm decide, and nothing of this module is involved. Where a rule
//! names the lock and gives another number, the client is refused. Otherwise the *home* of the name, a member that all
//! compute alike, settles the number of permits for as long as somebody uses the name so, and hands the permits out:
//!
//! ```text
//!  a client waits    m ── WANT 3 ──▶ home ── RESERVE 3 ──▶ all      does anybody use the name with another number?
//!                                    home ◀── RESERVED ─── all      no; from now on they admit nobody to it
//!                                    home ── SETTLED 3 ──▶ all
//!  it enters         m ◀── PERMIT ── home
//!  it leaves         m ── RETURN ──▶ home ── FREE ───────▶ all      it was the last one: nothing is left of it
//! ```
//!
//! If a member answers that the name is in use, the home tells the one that asked the number ([`PermitMessage::Differs`])
//! and everybody else that nothing has changed. Clients with another number than the settled one wait until their site
//! has asked the home in the same way: the answer is that they are refused, or that the others have just gone.
//!
//! Links deliver in order, so a permit is returned before its site answers that nobody uses the name, and a site knows
//! what was decided last before it is asked again. When a view ends, all of this is forgotten; the census says who holds
//! a permit, and everything starts again from that.

mod home;
mod message;

use meshlock_protocol::FenceClock;
use meshlock_protocol::fence::Stamp;

use super::holdings::HeldLane;
use super::lock::{Env, Lock, Machines};
use super::opening::HeldLanes;
use super::{
    AcquireOutcome, LeaseClock, LocalView, LockEvent, LockKey, LockTable, Request, RequestRefusal, ServedBy,
    TableOutput,
};
use crate::mutant::{self, Mutant};
use crate::names::LockName;
use crate::rules::Rules;
use crate::time::Time;
pub(super) use home::Home;
use home::{HomeOutput, HomeTerms};
pub use message::{PermitMessage, PermitsOf};

/// What the home of a name has told this site. Without a mark the name follows its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// This site has confirmed that nobody here uses the name with another number than a proposed one, and admits
    /// nobody until the home has decided.
    Reserved,
    /// The name has this number of permits.
    Settled(u32),
}

impl LockTable {
    /// Handles a message about permits, of the epoch that is open.
    pub(crate) fn on_permits(
        &mut self,
        from: usize,
        message: PermitsOf,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let PermitsOf { lock, message } = message;
        if let Err(why) = self.handle_permits(from, &lock, message, lease_clock, out) {
            out.push(TableOutput::Misbehaved { place: from, why });
        }
        self.deliver(lease_clock, out);
    }

    /// Returns whether a message about the permits of this name can be accepted: the name is known, or there is room to
    /// remember it. No correct cluster uses as many names at once.
    pub(crate) fn has_room_for_permits(&self, name: &LockName) -> bool {
        self.marks.len() + self.homes.len() < self.table_config.max_locks.saturating_mul(4)
            || self.marks.contains_key(name)
            || self.homes.contains_key(name)
    }

    /// Handles the messages of this site to itself.
    pub(super) fn deliver(&mut self, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        if self.delivering || self.inbox.is_empty() {
            return;
        }
        let Some(me) = self.local_view.as_ref().map(|local_view| local_view.me) else { return };
        self.delivering = true;
        while let Some((lock, message)) = self.inbox.pop_front() {
            if let Err(why) = self.handle_permits(me, &lock, message, lease_clock, out) {
                out.push(TableOutput::Misbehaved { place: me, why });
            }
        }
        self.delivering = false;
    }

    fn handle_permits(
        &mut self,
        from: usize,
        name: &LockName,
        message: PermitMessage,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) -> Result<(), &'static str> {
        let Some(view) = &self.local_view else { return Ok(()) };
        if view.rules.names(name) || self.draining.contains_key(name) || from >= view.members {
            return Err("speaks of the permits of a lock that has a rule");
        }
        let (me, home) = (view.me, view.home(name));
        let to_home = match message {
            PermitMessage::Want { .. } | PermitMessage::Return { .. } | PermitMessage::Reserved { .. } => {
                true
            }
            PermitMessage::Permit { .. }
            | PermitMessage::Differs { .. }
            | PermitMessage::Reserve { .. }
            | PermitMessage::Settled { .. }
            | PermitMessage::Free { .. } => false,
        };
        if if to_home { me != home } else { from != home } {
            return Err("is not the home of this lock, or takes this site for it");
        }
        match message {
            PermitMessage::Want { permits } if permits == 0 || permits > Rules::MAX_PERMITS => {
                return Err("wants more permits than a lock can have");
            }
            PermitMessage::Settled { permits } | PermitMessage::Permit { permits, .. }
                if permits == view.rules.rule(name).permits =>
            {
                return Err("hands out what a rule decides");
            }
            PermitMessage::Want { permits } => {
                self.at_home(name, out, |home, terms, posts| home.on_want(from, permits, terms, posts))?;
            }
            PermitMessage::Return { slot, stamp } => {
                let act =
                    |home: &mut Home, terms, posts: &mut _| home.on_return(from, slot, stamp, terms, posts);
                self.at_home(name, out, act)?;
            }
            PermitMessage::Reserved { in_use, stamp } => {
                let act = |home: &mut Home, terms, posts: &mut _| {
                    home.on_reserved(from, in_use, stamp, terms, posts)
                };
                self.at_home(name, out, act)?;
            }
            PermitMessage::Reserve { permits } => self.on_reserve(name, permits, out),
            PermitMessage::Settled { permits } => {
                self.marks.insert(name.clone(), Mark::Settled(permits));
                self.seek_name(name, lease_clock, out);
            }
            PermitMessage::Free { stamp } => {
                self.floor.observe(stamp).map_err(|_| "a fence clock out of its range")?;
                self.marks.remove(name);
                self.on_free(name, lease_clock, out);
            }
            PermitMessage::Permit { permits, slot, stamp } => {
                if FenceClock::new(meshlock_protocol::Epoch::default()).observe(stamp).is_err() {
                    return Err("a fence clock out of its range");
                }
                let key = LockKey { name: name.clone(), permits };
                self.with_lock(&key, lease_clock, out, |lock, env| lock.on_permit(slot, stamp, env));
            }
            PermitMessage::Differs { permits, has } => {
                self.on_differs(&LockKey { name: name.clone(), permits }, has, lease_clock, out);
            }
        }
        Ok(())
    }

    /// Lets this site, as the home of the name, do something, and sends what follows from it.
    fn at_home(
        &mut self,
        name: &LockName,
        out: &mut Vec<TableOutput>,
        act: impl FnOnce(&mut Home, HomeTerms, &mut HomeOutput) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let Some(view) = &self.local_view else { return Ok(()) };
        let terms = HomeTerms { members: view.members, plain: view.rules.rule(name).permits };
        let (me, clock) = (view.me, self.floor);
        let mut posts = HomeOutput::new();
        let home = self.homes.entry(name.clone()).or_insert_with(|| Home::new(clock));
        let done = act(home, terms, &mut posts);
        if home.is_over() {
            self.homes.remove(name);
        }
        for (to, message) in posts {
            self.post(me, to, name, message, out);
        }
        done
    }

    fn post(
        &mut self,
        me: usize,
        to: usize,
        name: &LockName,
        message: PermitMessage,
        out: &mut Vec<TableOutput>,
    ) {
        if to == me {
            return self.inbox.push_back((name.clone(), message));
        }
        out.push(TableOutput::SendPermits { to, message: PermitsOf { lock: name.clone(), message } });
    }

    /// Handles the home's question whether the name may be used with this number.
    fn on_reserve(&mut self, name: &LockName, permits: u32, out: &mut Vec<TableOutput>) {
        let mut stamp = self.floor.stamp();
        let mut in_use = None;
        for key in self.keys_of(name) {
            let Some(lock) = self.locks.get(&key) else { continue };
            stamp = stamp.max(lock.clock.stamp());
            let waits = self.is_admitted(&key) && !lock.clients.waiters.is_empty();
            if key.permits != permits && (waits || !lock.clients.holds.is_empty()) {
                in_use = Some(key.permits);
            }
        }
        if mutant::is_on(Mutant::ReservedInUse) {
            in_use = None;
        }
        if in_use.is_none()
            && let Some(Mark::Settled(number)) = self.marks.insert(name.clone(), Mark::Reserved)
            && let Some(lock) = self.locks.get_mut(&LockKey { name: name.clone(), permits: number })
            && !lock.clients.asked.is_empty()
        {
            // The home forgets these, unless they go to another number after all: then it is told again.
            lock.clients.asked.clear();
        }
        let Some(view) = &self.local_view else { return };
        let (me, home) = (view.me, view.home(name));
        self.post(me, home, name, PermitMessage::Reserved { in_use, stamp }, out);
    }

    /// Returns whether the clients of this lock may be served, as far as is known here.
    pub(super) fn is_admitted(&self, key: &LockKey) -> bool {
        match self.marks.get(&key.name) {
            None => self.local_view.as_ref().is_some_and(|view| view.rule(key).is_some()),
            Some(Mark::Reserved) => false,
            Some(Mark::Settled(permits)) => *permits == key.permits,
        }
    }

    /// Reacts to the name following its rule again.
    fn on_free(&mut self, name: &LockName, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        let Some(view) = &self.local_view else { return };
        let (key, floor) = (view.key(name), self.floor.stamp());
        if let Some(lock) = self.locks.get_mut(&key) {
            if !lock.clients.asked.is_empty() {
                lock.clients.asked.clear();
            }
            // The stamp was checked when it became the floor.
            let _ = lock.clock.observe(floor);
        }
        self.seek_name(name, lease_clock, out);
    }

    /// Refuses the clients that waited when the home was asked, because others use the name with another number.
    fn on_differs(&mut self, key: &LockKey, has: u32, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        if let Some(asked) = lock.clients.asked.pop_front() {
            let waiting = lock.clients.waiters.iter().filter(|waiter| waiter.since <= asked);
            let refused: Vec<Request> = waiting.map(|waiter| waiter.request).collect();
            for request in refused {
                self.stop_waiting(request, key, AcquireOutcome::Refused, out);
                let why = RequestRefusal::PermitsInUse { has, wants: key.permits };
                out.push(TableOutput::LockEvent(LockEvent::Refused { request, why }));
            }
        }
        if self.locks.contains_key(key) {
            self.with_lock(key, lease_clock, out, |lock, env| lock.seek(env));
        }
    }

    /// Lets all clients of a name ask again.
    fn seek_name(&mut self, name: &LockName, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        for key in self.keys_of(name) {
            if self.locks.get(&key).is_some_and(|lock| !lock.clients.waiters.is_empty()) {
                self.with_lock(&key, lease_clock, out, |lock, env| lock.seek(env));
            }
        }
    }

    /// Returns the locks of this site with the name.
    pub(super) fn keys_of(&self, name: &LockName) -> Vec<LockKey> {
        let key = |permits| LockKey { name: name.clone(), permits };
        let plain = Some(key(1)).filter(|key| self.locks.contains_key(key));
        plain.into_iter().chain(self.shared.range(key(0)..=key(u32::MAX)).cloned()).collect()
    }

    /// Removes a lock of a semaphore that nobody here uses: its home keeps everything that is to be remembered.
    pub(super) fn forget_unused(&mut self, key: &LockKey) {
        let unused = |lock: &Lock| matches!(lock.machines, Machines::AtHome) && lock.clients.is_idle();
        if self.locks.get(key).is_some_and(|lock| unused(lock)) {
            self.locks.swap_remove(key);
            self.shared.remove(key);
            self.unsought.swap_remove(key);
        }
    }

    /// Starts the view with a name that is settled: which permits are out, by place.
    pub(super) fn open_settled(
        &mut self,
        view: &LocalView,
        key: &LockKey,
        held: &[(usize, HeldLanes)],
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        if mutant::is_on(Mutant::CensusWithoutNumbers) {
            return;
        }
        self.marks.insert(key.name.clone(), Mark::Settled(key.permits));
        // A correct member's permits have numbers.
        let number = |slot: Option<u32>| slot.unwrap_or(u32::MAX);
        let numbers =
            |lanes: &HeldLanes| lanes.iter().map(|lane: &HeldLane| number(lane.slot)).collect::<Vec<u32>>();
        let home = view.home(&key.name);
        if home == view.me {
            let permits =
                held.iter().flat_map(|(place, lanes)| numbers(lanes).into_iter().map(|slot| (slot, *place)));
            let clock = FenceClock::new(view.epoch);
            self.homes.insert(key.name.clone(), Home::settled(clock, key.permits, permits));
        }
        let mine = held.iter().find(|(place, _)| *place == view.me);
        let announced: Vec<u32> = mine.map_or(Vec::new(), |(_, lanes)| numbers(lanes));
        if announced.is_empty() {
            return;
        }
        self.with_lock(key, lease_clock, out, |lock, env| {
            // Those that have been left since the census was sent.
            let held: Vec<u32> = lock.clients.holds.iter().map(|hold| number(hold.slot)).collect();
            for slot in announced.into_iter().filter(|slot| !held.contains(slot)) {
                env.tell_home(PermitMessage::Return { slot, stamp: lock.clock.stamp() });
            }
        });
    }

    /// Checks what this module promises.
    pub(super) fn check_permits(&self) -> Result<(), &'static str> {
        self.homes.values().try_for_each(Home::check_invariants)?;
        if self.local_view.is_none() && !(self.marks.is_empty() && self.homes.is_empty()) {
            return Err("T7: numbers of permits are settled only while a view is open");
        }
        Ok(())
    }

    /// Returns whether nothing is remembered of any semaphore without a rule.
    pub fn is_unmarked(&self) -> bool {
        self.marks.is_empty() && self.homes.is_empty()
    }

    /// Returns the number of permits that the name has now, by a settlement or by the rules of the view.
    pub fn permits(&self, name: &LockName) -> Option<u32> {
        self.settled(name).or_else(|| self.rules().map(|rules| rules.rule(name).permits))
    }

    /// Returns the number of permits that was settled for the name, if this site knows of it.
    pub fn settled(&self, name: &LockName) -> Option<u32> {
        match self.marks.get(name) {
            Some(Mark::Settled(permits)) => Some(*permits),
            Some(Mark::Reserved) | None => None,
        }
    }
}

impl Lock {
    /// Asks the home on behalf of waiters: with a settled number for each of them, otherwise once for all.
    pub(super) fn ask_home(&mut self, env: &mut Env<'_>) {
        let is_settled = env.mark == Some(Mark::Settled(env.key.permits));
        let waiters = self.clients.waiters.len();
        let most = if is_settled { waiters } else { waiters.min(1) };
        let asked = self.clients.asked.len();
        if asked < most {
            let now: Time = env.lease_clock.now;
            self.clients.asked.extend((asked..most).map(|_| now));
            for _ in asked..most {
                env.tell_home(PermitMessage::Want { permits: env.key.permits });
            }
        }
    }

    /// Handles a permit from the home: the first waiter gets it; without one, or without a lease, it goes back.
    fn on_permit(&mut self, slot: u32, stamp: Stamp, env: &mut Env<'_>) {
        if !self.clients.asked.is_empty() {
            self.clients.asked.pop_front();
        }
        // The stamp was checked when the message was read.
        let _ = self.clock.observe(stamp);
        env.served = ServedBy::Elsewhere;
        if !self.grant_slot(0, Some(slot), env) {
            env.tell_home(PermitMessage::Return { slot, stamp: self.clock.stamp() });
        }
        self.seek(env);
    }
}

impl Env<'_> {
    /// Sends a message to the home of the lock's name.
    pub(super) fn tell_home(&mut self, message: PermitMessage) {
        let Some(view) = self.local_view else { return };
        let (home, lock) = (view.home(&self.key.name), self.key.name.clone());
        if home == view.me {
            self.inbox.push_back((lock, message));
        } else {
            self.out.push(TableOutput::SendPermits { to: home, message: PermitsOf { lock, message } });
        }
    }
}

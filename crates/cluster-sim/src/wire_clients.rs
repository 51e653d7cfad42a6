//! Clients of the wire APIs, whose sessions outlive their sites by mirrors.
//!
//! Each opens a session at some site, asks there for a lock, renews the session at any site, works under the lock and releases it, and is told that
//! when the release is acknowledged. It counts on what it holds until the time that it was told last; it knows no proofs. When its site dies,
//! leaves or is cut off it goes to another site, from where its calls are carried to the one that has its session (`site_sessions.rs`). Some
//! of them die without a word.
//!
//! What sites tell their mirrors, what mirrors claim, adopt and confirm, when a release is acknowledged and when a lock is free without its
//! client's word is decided by the machines of `meshlock_mirror`, which the service drives, too (`mirroring.rs`). Questions and answers are
//! bytes in the packets of forwarded calls, between the simulated nodes. The registry of sessions and the search for the site that has one
//! are stand-ins for those of `crates/service`.
//!
//! Not all seeds have them. What they do is drawn from a generator of their own.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use meshlock_protocol::Fence;

use super::clock::Moment;
use super::event::Event;
use super::mirror_faults;
use super::properties::CheckResult;
use super::settings::SeedSettings;
use super::site_sessions::WireCall;
use super::world::World;
use meshlock_cluster::names::LockName;
use meshlock_cluster::rules::Rules;
use meshlock_cluster::table::Request;
use meshlock_cluster::time::{Span, Time};
use meshlock_mirror::LeaseId;

/// What is added to the number of a wire client where clients that may hold a lock twice for a while are told apart: movers come first.
pub(super) const FIRST: usize = 1 << 16;

/// How often a client renews its session, and how soon it tries again elsewhere, in microseconds.
const RENEW: u64 = 300_000;
const AGAIN: u64 = 120_000;

/// How often a client asks for a release to be acknowledged, in microseconds, and how often it tries.
const RELEASE: u64 = 1_200_000;
const MAX_RELEASES: u32 = 6;

/// One in this many clients that hold a lock dies without a word.
const DIES: usize = 6;

/// What becomes known to a client, or is due.
#[derive(Clone, Debug)]
pub(super) enum WireEvent {
    /// Its own timer, if it is the last one that was set.
    Timer(u64),
    /// It renews its session, if that is still the one.
    Renew(LeaseId),
    /// A site has granted the lock of this session.
    Granted { lease: LeaseId, fence: Fence, told: Promise },
    /// A site has renewed it.
    Renewed { lease: LeaseId, told: Promise },
    /// The session is over, or the lock is not granted.
    Over(LeaseId),
    /// A release is acknowledged.
    Released(LeaseId),
}

/// Until when a client may count on a lock, as a site says: on the clock of its machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) machine: usize,
    pub(super) until: Time,
}

/// The state of a wire client.
#[derive(Clone, Debug)]
pub(super) enum WireState {
    Resting,
    Waiting { lease: LeaseId },
    Holding { lease: LeaseId, fence: Fence, read: Option<u64>, promises: Vec<Promise> },
    Releasing { lease: LeaseId, tries: u32 },
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct WireClient {
    pub(super) state: WireState,
    timer: u64,
    /// The site that it calls, and when that has answered last.
    site: usize,
    answered: Moment,
}

/// A session that a client has opened.
#[derive(Clone, Debug)]
pub(super) struct OpenedSession {
    pub(super) client: usize,
    pub(super) lock: LockName,
    pub(super) permits: u32,
    /// For how long it lasts after it was renewed.
    pub(super) lasts: Span,
}

/// All wire clients of a run.
#[derive(Clone, Debug)]
pub(super) struct WireClients {
    pub(super) all: Vec<WireClient>,
    pub(super) draw: Rng,
    pub(super) opened: BTreeMap<LeaseId, OpenedSession>,
    /// The session for which a site has made a request or a claim.
    pub(super) requests: BTreeMap<Request, LeaseId>,
    /// The sessions whose release was acknowledged, because the mirror knew it. (Two holders of a semaphore may have equal fences.)
    pub(super) acknowledged: BTreeSet<LeaseId>,
}

impl WireClients {
    pub(super) fn new(settings: &SeedSettings) -> Self {
        let draw = Rng::with_seed(settings.seed ^ 0x5e55_1045);
        let (state, site, answered) = (WireState::Resting, 0, Moment::default());
        let all = vec![WireClient { state, timer: 0, site, answered }; settings.wire_clients];
        let (opened, requests, acknowledged) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        WireClients { all, draw, opened, requests, acknowledged }
    }
}

impl WireState {
    pub(super) fn lease(&self) -> Option<LeaseId> {
        match self {
            WireState::Resting => None,
            WireState::Waiting { lease }
            | WireState::Holding { lease, .. }
            | WireState::Releasing { lease, .. } => Some(*lease),
        }
    }
}

/// Draws how many wire clients there are.
pub(super) fn draw(settings: &mut SeedSettings) {
    if settings.seed % 4 == 1 && settings.movers > 0 {
        settings.wire_clients =
            [1, 2, 3][usize::from(settings.seed / 4 % 3 == 1) + 2 * usize::from(settings.seed / 4 % 3 == 2)];
    }
}

impl World {
    /// Lets all wire clients begin.
    pub(super) fn start_wire_clients(&mut self) {
        for client in 0..self.wire.all.len() {
            let rest = self.wire.draw.u64(..1_000_000);
            self.set_wire_timer(client, rest);
        }
    }

    fn wire_after(&mut self, client: usize, micros: u64, what: WireEvent) {
        self.after(micros, Event::Wire { client, what });
    }

    fn set_wire_timer(&mut self, client: usize, micros: u64) {
        self.wire.all[client].timer += 1;
        let timer = self.wire.all[client].timer;
        self.wire_after(client, micros, WireEvent::Timer(timer));
    }

    /// Lets a client know something, a little later.
    pub(super) fn tell_wire(&mut self, client: usize, what: WireEvent) {
        let delay = self.wire.draw.u64(..500);
        self.wire_after(client, delay, what);
    }

    /// Handles what a client gets to know, or what is due.
    pub(super) fn on_wire(&mut self, client: usize, what: WireEvent) -> CheckResult {
        let present = self.wire.all[client].state.lease();
        match what {
            WireEvent::Timer(timer) if self.wire.all[client].timer == timer => self.wire_timer(client)?,
            WireEvent::Renew(lease) if present == Some(lease) => self.wire_renews(client, lease),
            WireEvent::Granted { lease, fence, told } if present == Some(lease) => {
                self.wire_enters(client, lease, fence, told);
            }
            WireEvent::Renewed { lease, told } if present == Some(lease) => {
                self.wire.all[client].answered = self.now;
                if let WireState::Holding { promises, .. } = &mut self.wire.all[client].state {
                    promises.push(told);
                }
            }
            WireEvent::Over(lease) | WireEvent::Released(lease) if present == Some(lease) => {
                self.wire_rests(client);
            }
            // What was meant for an earlier session, or an earlier timer.
            WireEvent::Timer(_)
            | WireEvent::Renew(_)
            | WireEvent::Granted { .. }
            | WireEvent::Renewed { .. }
            | WireEvent::Over(_)
            | WireEvent::Released(_) => {}
        }
        Ok(())
    }

    /// Returns whether a client may count on its lock, because of what some site has told it.
    pub(super) fn wire_believes(&self, client: usize) -> bool {
        let WireState::Holding { promises, .. } = &self.wire.all[client].state else { return false };
        promises.iter().any(|told| self.moment(told.machine, told.until) > self.now)
    }

    /// Returns the client of a request or a claim, if it may count on it.
    pub(super) fn wire_relies_on(&self, request: Request) -> bool {
        let Some(lease) = self.wire.requests.get(&request) else { return false };
        let Some(opened) = self.wire.opened.get(lease) else { return false };
        self.wire.all[opened.client].state.lease() == Some(*lease) && self.wire_believes(opened.client)
    }

    /// Returns whether the client that made the request still waits for it.
    pub(super) fn wire_waits(&self, request: Request) -> bool {
        let opened =
            self.wire.requests.get(&request).and_then(|lease| Some((lease, self.wire.opened.get(lease)?)));
        opened.is_some_and(|(lease, opened)| {
            matches!(self.wire.all[opened.client].state, WireState::Waiting { lease: of } if of == *lease)
        })
    }

    fn wire_timer(&mut self, client: usize) -> CheckResult {
        match self.wire.all[client].state.clone() {
            WireState::Resting => self.wire_asks(client),
            WireState::Waiting { .. } => self.wire_releases(client, 0),
            WireState::Holding { lease, fence, read, .. } => {
                let OpenedSession { lock, .. } = self.wire.opened[&lease].clone();
                if let Some(read) = read.filter(|_| self.wire_believes(client)) {
                    self.updates.write(&lock, fence, read, self.now)?;
                }
                if !self.calm && self.wire.draw.usize(..DIES) == 0 {
                    self.wire_rests(client);
                } else {
                    self.wire_releases(client, 0);
                }
            }
            WireState::Releasing { tries, .. } if tries < MAX_RELEASES => {
                self.wire_goes_on(client);
                self.wire_releases(client, tries + 1);
            }
            WireState::Releasing { .. } => self.wire_rests(client),
        }
        Ok(())
    }

    /// Opens a session at some site, and asks for a lock.
    fn wire_asks(&mut self, client: usize) {
        if self.calm {
            return;
        }
        let sites: Vec<usize> = (0..self.machines.len()).filter(|at| self.is_up(*at)).collect();
        if sites.is_empty() {
            return self.set_wire_timer(client, 200_000);
        }
        let draw = &mut self.wire.draw;
        let site = sites[draw.usize(..sites.len())];
        let lock = self.settings.locks[draw.usize(..self.settings.locks.len())].clone();
        let window = self.settings.terms.resume_window().micros();
        let least = if mirror_faults::are_in(&self.settings) { window / 6 } else { window / 2 };
        let lasts = Span::from_micros(draw.u64(least..=window));
        let timeout = draw.u64(500_000..4_000_000);
        let rules = Rules::new(self.newest.rules.clone()).expect("rules that were agreed on");
        let permits = rules.rule(&lock).permits;
        let number = i64::try_from(self.wire.opened.len() + 1).expect("few sessions");
        let lease = LeaseId::new(number).expect("a positive number");
        self.wire.opened.insert(lease, OpenedSession { client, lock, permits, lasts });
        let (state, answered) = (WireState::Waiting { lease }, self.now);
        let timer = self.wire.all[client].timer;
        self.wire.all[client] = WireClient { state, timer, site, answered };
        self.wire_calls(client, WireCall::Open(lease));
        self.wire_after(client, RENEW, WireEvent::Renew(lease));
        self.set_wire_timer(client, timeout);
    }

    /// Makes a call of the site that the client calls at present.
    fn wire_calls(&mut self, client: usize, call: WireCall) {
        let site = self.wire.all[client].site;
        // Now and then a call is on its way for long.
        let most = if self.wire.draw.usize(..10) == 0 { 800_000 } else { 300 };
        let delay = self.wire.draw.u64(..most);
        let incarnation = self.machines[site].incarnation;
        self.after(delay, Event::SiteCall { machine: site, incarnation, call });
    }

    /// Goes to another site if the present one has not answered.
    fn wire_goes_on(&mut self, client: usize) {
        let WireClient { site, answered, .. } = self.wire.all[client];
        let is_silent = self.now.0.saturating_sub(answered.0) > RENEW + AGAIN;
        if !is_silent && self.is_up(site) {
            return;
        }
        let others: Vec<usize> =
            (0..self.machines.len()).filter(|at| *at != site && self.is_up(*at)).collect();
        if !others.is_empty() {
            self.wire.all[client].site = others[self.wire.draw.usize(..others.len())];
        }
    }

    fn wire_renews(&mut self, client: usize, lease: LeaseId) {
        let is_holding = matches!(self.wire.all[client].state, WireState::Holding { .. });
        if is_holding && !self.wire_believes(client) {
            // It has not heard in time that it still has the lock.
            return self.wire_rests(client);
        }
        if matches!(self.wire.all[client].state, WireState::Releasing { .. }) {
            return;
        }
        self.wire_goes_on(client);
        self.wire_calls(client, WireCall::Renew(lease));
        let is_late = self.now.0.saturating_sub(self.wire.all[client].answered.0) > RENEW;
        self.wire_after(client, if is_late { AGAIN } else { RENEW }, WireEvent::Renew(lease));
    }

    fn wire_enters(&mut self, client: usize, lease: LeaseId, fence: Fence, told: Promise) {
        if !matches!(self.wire.all[client].state, WireState::Waiting { .. }) {
            return;
        }
        let OpenedSession { lock, permits, .. } = self.wire.opened[&lease].clone();
        let read = if permits == 1 { self.updates.read(&lock, fence) } else { None };
        self.wire.all[client].answered = self.now;
        self.wire.all[client].state = WireState::Holding { lease, fence, read, promises: vec![told] };
        let longest = [100_000, 2_000_000, 8_000_000][self.wire.draw.usize(..3)];
        let hold = if self.calm { 0 } else { self.wire.draw.u64(1_000..longest) };
        self.set_wire_timer(client, hold);
    }

    /// Releases the lock, on which the client does not count any more, and ends the session.
    fn wire_releases(&mut self, client: usize, tries: u32) {
        let Some(lease) = self.wire.all[client].state.lease() else { return };
        self.wire_stops(client);
        self.wire.all[client].state = WireState::Releasing { lease, tries };
        self.wire_calls(client, WireCall::Release(lease));
        self.set_wire_timer(client, RELEASE);
    }

    /// Notes that a client does not count on its lock any more.
    fn wire_stops(&mut self, client: usize) {
        let Some(lease) = self.wire.all[client].state.lease() else { return };
        let of_lease = self.wire.requests.iter().filter(|(_, of)| **of == lease);
        for request in of_lease.map(|(request, _)| *request).collect::<Vec<_>>() {
            self.exclusion.on_left(request);
        }
    }

    /// Lets a client begin anew after a while. It counts on nothing.
    fn wire_rests(&mut self, client: usize) {
        self.wire_stops(client);
        self.wire.all[client].state = WireState::Resting;
        let rest = self.wire.draw.u64(..400_000);
        self.set_wire_timer(client, rest);
    }

    /// Lets all wire clients finish: faults have stopped.
    pub(super) fn calm_wire_clients(&mut self) {
        for client in 0..self.wire.all.len() {
            self.set_wire_timer(client, 0);
        }
    }
}

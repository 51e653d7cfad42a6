//! The sessions of wire clients at one site, as the registry of `crates/service` has them, as far as mirrors are concerned; and the calls
//! that come to a site and are carried to the one that has the session.

use std::collections::BTreeMap;

use meshlock_protocol::{Demand, Epoch, Fence, Mode};

use super::client::Asked;
use super::coverage::Occurrence;
use super::mirror_faults::MirrorPoint;
use super::moving::NO_CLIENT;
use super::properties::CheckResult;
use super::properties::exclusion::ObservedClaim;
use super::wire_clients::{FIRST, OpenedSession, Promise, WireEvent};
use super::world::World;
use meshlock_cluster::names::{LockName, Member};
use meshlock_cluster::node::ClientCall;
use meshlock_cluster::table::{Acquire, LockEvent, Request, Session, Wait};
use meshlock_cluster::time::{Span, Time};
use meshlock_mirror::{
    ChangeNumber, ClaimNumber, ClaimState, HeldQuestion, LeaseId, Mirror, Question, ReleaseWait, Source,
    Vouched,
};

/// A call of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum WireCall {
    Open(LeaseId),
    Renew(LeaseId),
    Release(LeaseId),
}

/// What the process of a site knows of sessions: its own, and those that it mirrors.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteSessions {
    pub(super) all: BTreeMap<LeaseId, SiteSession>,
    pub(super) source: Source,
    pub(super) mirror: Mirror,
    /// Of which view the mirror knows the members.
    pub(super) epoch: Option<Epoch>,
    pub(super) claims: BTreeMap<ClaimNumber, MirrorClaim>,
    /// This site's own questions, one to each member.
    pub(super) asked: Vec<AskedSource>,
    pub(super) last_call: u64,
    /// The question of this site's mirror.
    pub(super) held: Option<(Member, u64, HeldQuestion)>,
    /// Releases that are not acknowledged.
    pub(super) releases: Vec<(ReleaseWait, LeaseId, SiteKey)>,
    /// What has ended without its client's word: when it is free, and of which change the mirror has to know before.
    pub(super) ending: Vec<(Option<ChangeNumber>, Time, Session)>,
    pub(super) has_told_leaving: bool,
}

/// A question that this site has asked a member.
#[derive(Clone, Debug)]
pub(super) struct AskedSource {
    pub(super) question: Question,
    /// The number of its call; `None` if it was answered in vain, so that the member is asked nothing for a moment.
    pub(super) number: Option<u64>,
    /// When it was sent, or answered in vain.
    pub(super) at: Time,
}

/// A session at a site.
#[derive(Clone, Debug)]
pub(super) struct SiteSession {
    pub(super) end: Time,
    pub(super) vouched: Vouched,
    /// A lock of it was lost, so that it cannot be renewed.
    pub(super) is_lost: bool,
    pub(super) key: Option<SiteKey>,
}

/// What a session waits for or holds.
#[derive(Clone, Debug)]
pub(super) struct SiteKey {
    pub(super) request: Request,
    pub(super) session: Session,
    pub(super) lock: LockName,
    /// Once it holds the lock.
    pub(super) fence: Option<Fence>,
    pub(super) proof: Option<Vec<u8>>,
}

/// A claim of the mirror.
#[derive(Clone, Debug)]
pub(super) struct MirrorClaim {
    pub(super) request: Request,
    pub(super) session: Session,
    pub(super) state: ClaimState,
}

impl SiteSession {
    pub(super) fn is_alive(&self, now: Time) -> bool {
        !self.is_lost && now < self.end
    }
}

impl World {
    /// Returns what the clock of a machine shows.
    pub(super) fn local(&self, machine: usize) -> Time {
        self.machines[machine].clock.at(self.now)
    }

    /// Handles a client's call that comes to a site: it is executed where the session is.
    pub(super) fn on_site_call(&mut self, machine: usize, incarnation: u64, call: WireCall) -> CheckResult {
        if self.machines[machine].incarnation != incarnation || self.machines[machine].node.is_none() {
            return Ok(());
        }
        match call {
            WireCall::Open(lease) => self.open_session(machine, lease),
            WireCall::Renew(lease) => match self.site_of(machine, lease, false) {
                Some(at) => self.renew_session(at, lease),
                None => Ok(()),
            },
            WireCall::Release(lease) => match self.site_of(machine, lease, true) {
                Some(at) => self.release_session(at, lease),
                None => Ok(()),
            },
        }
    }

    /// Returns which site executes a call that has come to another one. While a mirror answers for a site it only renews sessions.
    fn site_of(&self, from: usize, lease: LeaseId, changes: bool) -> Option<usize> {
        let has = |at: usize, is_own: bool| {
            let session = self.sites[at].all.get(&lease);
            session.is_some_and(|session| (session.vouched == Vouched::Here) == is_own)
        };
        let answers = |at: &usize| {
            let host = &self.machines[*at];
            let is_there = host.node.is_some() && host.paused_until.is_none();
            is_there && (*at == from || !self.network.is_silent(from, *at))
        };
        let mut sites = (0..self.machines.len()).filter(answers);
        let own = sites.clone().find(|at| has(*at, true));
        own.or_else(|| sites.find(|at| !changes && has(*at, false)))
    }

    fn open_session(&mut self, machine: usize, lease: LeaseId) -> CheckResult {
        let OpenedSession { client, lock, permits, lasts } = self.wire.opened[&lease].clone();
        if self.movers.stopping.contains_key(&machine) || self.machines[machine].left {
            self.tell_wire(client, WireEvent::Over(lease));
            return Ok(());
        }
        let (session, request) = self.new_wire_request(lease, &lock, permits);
        let (fence, proof) = (None, None);
        let key = Some(SiteKey { request, session, lock: lock.clone(), fence, proof });
        let end = self.local(machine) + lasts;
        let opened = SiteSession { end, vouched: Vouched::Here, is_lost: false, key };
        self.sites[machine].all.insert(lease, opened);
        let who = format!("wire-{client}").parse().expect("a plain label");
        self.site_calls(machine, ClientCall::Introduce { session, who, reacts_within: lasts })?;
        let wait = Wait::Forever;
        self.site_calls(
            machine,
            ClientCall::Acquire(Acquire {
                session,
                request,
                lock,
                permits,
                wait,
                cause: None,
                demand: Demand::PLAIN,
            }),
        )
    }

    /// Makes a call of the node of a site, at once.
    pub(super) fn site_calls(&mut self, machine: usize, call: ClientCall) -> CheckResult {
        let incarnation = self.machines[machine].incarnation;
        self.on_call(machine, incarnation, call)
    }

    /// Returns a new session and a request of the node for a client's session.
    pub(super) fn new_wire_request(
        &mut self,
        lease: LeaseId,
        lock: &LockName,
        permits: u32,
    ) -> (Session, Request) {
        self.last_session += 1;
        let (session, request) = (Session(self.last_session), self.new_request());
        self.asked.insert(
            request,
            Asked { lock: lock.clone(), permits, mode: Mode::Exclusive, session, client: NO_CLIENT },
        );
        self.wire.requests.insert(request, lease);
        (session, request)
    }

    /// Returns until when a site promises a client something, on its clock; `None` if it cannot. The client's session ends at `end`.
    fn promise(&self, machine: usize, vouched: Vouched, end: Time) -> Option<Promise> {
        let (terms, now) = (self.agreed_terms(machine), self.local(machine));
        let lease_end = self.machines[machine].node.as_ref()?.lease().end()?;
        // As in the service: it is the same at all times, unless renewals are late. Only the margin is left for the client to react.
        let usual = terms.length.micros() - terms.renew_every.micros() - terms.margin.micros();
        let until = lease_end.before(terms.margin).min(now + Span::from_micros(usual));
        let until = match vouched {
            Vouched::ForAnother { until: Some(end) } => until.min(end.before(terms.margin)),
            Vouched::ForAnother { until: None } | Vouched::Here => until,
        };
        let until = until.min(end);
        (until > now).then_some(Promise { machine, until })
    }

    fn renew_session(&mut self, machine: usize, lease: LeaseId) -> CheckResult {
        let OpenedSession { client, lasts, permits, .. } = self.wire.opened[&lease].clone();
        let now = self.local(machine);
        let Some(session) = self.sites[machine].all.get_mut(&lease) else { return Ok(()) };
        if !session.is_alive(now) {
            self.tell_wire(client, WireEvent::Over(lease));
            return Ok(());
        }
        session.end = now + lasts;
        let (vouched, end, key) = (session.vouched, session.end, session.key.clone());
        let Some(told) = self.promise(machine, vouched, end) else { return Ok(()) };
        let held = key.as_ref().filter(|key| key.fence.is_some());
        let present = self.wire.all[client].state.lease() == Some(lease) && self.wire_believes(client);
        if let Some(key) = held.filter(|_| present) {
            if vouched != Vouched::Here {
                self.coverage.record(Occurrence::MirrorStandsIn);
            }
            self.count_on(machine, client, key.clone(), permits, told)?;
        }
        self.tell_wire(client, WireEvent::Renewed { lease, told });
        Ok(())
    }

    /// Notes that a client counts on a lock because of what a site says now.
    fn count_on(
        &mut self,
        machine: usize,
        client: usize,
        key: SiteKey,
        permits: u32,
        told: Promise,
    ) -> CheckResult {
        let SiteKey { request, session, lock, .. } = key;
        let (until, cap, mover) = (told.until, None, Some(FIRST + client));
        let claim = ObservedClaim {
            request,
            session,
            lock: &lock,
            machine,
            until,
            cap,
            permits,
            mode: Mode::Exclusive,
            mover,
        };
        self.exclusion.on_claimed(claim, self.now)
    }

    /// Releases what a session holds, and ends it. Its client is told when the mirror knows it.
    fn release_session(&mut self, machine: usize, lease: LeaseId) -> CheckResult {
        let Some(SiteSession { key, .. }) = self.sites[machine].all.remove(&lease) else { return Ok(()) };
        let now = self.local(machine);
        let source = &mut self.sites[machine].source;
        source.on_change(lease);
        let owed = source.owes(lease);
        let client = self.wire.opened[&lease].client;
        let Some(key) = key else {
            self.tell_wire(client, WireEvent::Released(lease));
            return Ok(());
        };
        if let Some(change) = owed {
            self.sites[machine].releases.push((ReleaseWait::new(change, now), lease, key.clone()));
        } else {
            self.acknowledge(lease, &key, true);
        }
        self.on_mirrored(machine, MirrorPoint::Released)?;
        self.site_calls(machine, ClientCall::Release(key.request))?;
        self.site_calls(machine, ClientCall::SessionEnded(key.session))?;
        self.step_site(machine)
    }

    /// Tells a client that its release is done.
    pub(super) fn acknowledge(&mut self, lease: LeaseId, key: &SiteKey, is_known: bool) {
        if key.fence.is_some() && is_known {
            self.coverage.record(Occurrence::ReleaseMirrored);
            self.wire.acknowledged.insert(lease);
        }
        let client = self.wire.opened[&lease].client;
        self.tell_wire(client, WireEvent::Released(lease));
    }

    /// Passes what a node says of a lock on to the session that it is about.
    pub(super) fn wire_told(&mut self, machine: usize, event: &LockEvent) -> CheckResult {
        let Some(request) = event.request() else { return Ok(()) };
        let Some(lease) = self.wire.requests.get(&request).copied() else { return Ok(()) };
        let client = self.wire.opened[&lease].client;
        let session = self.sites[machine].all.get_mut(&lease);
        let session =
            session.filter(|session| session.key.as_ref().is_some_and(|key| key.request == request));
        match *event {
            LockEvent::Granted { fence, .. } => {
                let Some(session) = session else { return Ok(()) };
                let key = session.key.as_mut().expect("filtered");
                key.fence = Some(fence);
                let (key, end) = (key.clone(), session.end);
                self.sites[machine].source.on_change(lease);
                let Some(told) = self.promise(machine, Vouched::Here, end) else {
                    self.exclusion.on_left(request);
                    return Ok(());
                };
                let permits = self.wire.opened[&lease].permits;
                if self.wire_waits(request) {
                    self.count_on(machine, client, key, permits, told)?;
                    self.tell_wire(client, WireEvent::Granted { lease, fence, told });
                }
            }
            LockEvent::Lost { act_by, .. } => {
                let of_request =
                    self.sites[machine].claims.values_mut().find(|claim| claim.request == request);
                if let Some(claim) = of_request {
                    claim.state = ClaimState::Lost;
                }
                let Some(session) = self.sites[machine].all.get_mut(&lease) else { return Ok(()) };
                let Some(key) = session.key.take_if(|key| key.request == request) else { return Ok(()) };
                session.is_lost = true;
                let source = &mut self.sites[machine].source;
                source.on_change(lease);
                let owed = source.owes(lease);
                self.sites[machine].ending.push((owed, act_by, key.session));
            }
            LockEvent::Cancelled { .. }
            | LockEvent::TimedOut { .. }
            | LockEvent::Busy { .. }
            | LockEvent::Unavailable { .. }
            | LockEvent::Refused { .. } => {
                if session.is_some_and(|session| session.key.as_ref().is_some_and(|key| key.fence.is_none()))
                {
                    self.sites[machine].all.remove(&lease);
                    self.tell_wire(client, WireEvent::Over(lease));
                }
            }
            LockEvent::ModeChanged { .. }
            | LockEvent::ModeRefused { .. }
            | LockEvent::Extended { .. }
            | LockEvent::Released { .. } => {}
        }
        Ok(())
    }
}

//! What a running node can be watched by: what its pure half has counted, and what only the shell sees.

use super::core::Core;
use super::engine::Handle;
use super::net::Traffic;
use meshlock_cluster::histogram::Histogram;
use meshlock_cluster::node::{ClientCall, Input};
use meshlock_cluster::table::{LossReason, TableTally};
use meshlock_cluster::time::Span;
use meshlock_system::now;

/// What hands a lock over to someone who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Another client of this site left: from when the node began to handle that until the waiter was told.
    Here,
    /// Another site sent a message: from when it was read from the connection until the waiter was told.
    Elsewhere,
}

impl Via {
    /// Every value.
    pub const ALL: [Via; 2] = [Via::Here, Via::Elsewhere];

    /// Its name for programs.
    pub fn label(self) -> &'static str {
        match self {
            Via::Here => "here",
            Via::Elsewhere => "elsewhere",
        }
    }

    /// How a grant that follows from this input came about; none for one that nobody waited for.
    pub(super) fn of(input: &Input) -> Option<Self> {
        match input {
            Input::Packet { .. } => Some(Via::Elsewhere),
            Input::Call(ClientCall::Release(_) | ClientCall::Cancel(_) | ClientCall::SessionEnded(_)) => {
                Some(Via::Here)
            }
            Input::Call(_) | Input::Time | Input::Connected(_) | Input::Persisted(_) => None,
        }
    }
}

/// How the session of a client that is connected to the node itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// No process has its connection open any more.
    Disconnected,
    /// This node has ended it: the client was silent for too long, or said what makes no sense.
    CutOff,
}

impl SessionEnd {
    /// Every value.
    pub const ALL: [SessionEnd; 2] = [SessionEnd::Disconnected, SessionEnd::CutOff];

    /// Its name for programs.
    pub fn label(self) -> &'static str {
        match self {
            SessionEnd::Disconnected => "disconnected",
            SessionEnd::CutOff => "cut_off",
        }
    }
}

/// What the shell counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    hand_overs: [Histogram; Via::ALL.len()],
    sessions: [u64; SessionEnd::ALL.len()],
    lost_by_failure: u64,
}

impl Meter {
    pub(super) fn handed_over(&mut self, via: Via, took: Span) {
        self.hand_overs[via as usize].record(took);
    }

    /// A client has lost what it held because the node has failed.
    pub(super) fn lost_by_failure(&mut self) {
        self.lost_by_failure += 1;
    }

    pub(super) fn session_ended(&mut self, end: SessionEnd) {
        self.sessions[end as usize] += 1;
    }
}

/// How a node is at one moment, and what has happened there since it started.
#[derive(Clone, Debug)]
pub struct Readings {
    /// What its locks have counted.
    pub tally: TableTally,
    /// How many locks it keeps, in use or idle.
    pub locks: usize,
    /// How many wishes were granted and not given back.
    pub holders: u64,
    /// How many wait.
    pub waiters: u64,
    /// How many sessions are open: of clients, of the library, and one for each wish of the wire APIs.
    pub sessions: usize,
    /// The number of the view that is installed.
    pub epoch: u64,
    /// How many members it has.
    pub members: usize,
    /// Whether this site is one of them.
    pub is_member: bool,
    /// Whether its machines run.
    pub is_open: bool,
    /// Whether it leads, as far as it knows.
    pub leads: bool,
    /// How long its lease lasts yet; nothing if it has none.
    pub lease_left: Span,
    /// What has gone between it and the other members.
    pub traffic: Vec<Traffic>,
    meter: Meter,
}

impl Readings {
    /// How long hand-overs of this kind took within this site.
    pub fn hand_overs(&self, via: Via) -> &Histogram {
        &self.meter.hand_overs[via as usize]
    }

    /// How many clients lost what they held for this reason.
    pub fn losses(&self, reason: LossReason) -> u64 {
        let by_failure = if reason == LossReason::Failed { self.meter.lost_by_failure } else { 0 };
        self.tally.losses(reason) + by_failure
    }

    /// How many sessions ended so.
    pub fn session_ends(&self, end: SessionEnd) -> u64 {
        self.meter.sessions[end as usize]
    }

    fn of(core: &Core, traffic: Vec<Traffic>) -> Self {
        let node = &core.node;
        let (locks, holders, waiters) = node.table().tallied();
        let view = node.view();
        let members = |traffic: &Traffic| view.members.iter().any(|member| member.site == traffic.site);
        Readings {
            tally: node.table().tally().clone(),
            locks,
            holders,
            waiters,
            sessions: core.sessions.len(),
            epoch: u64::from(view.epoch.number()),
            members: view.members.len(),
            is_member: view.contains(node.me()),
            is_open: node.is_open() && !core.has_failed,
            leads: node.leads().is_some() && !core.has_failed,
            lease_left: node.lease().end().map_or(Span::ZERO, |end| end.since(now())),
            traffic: traffic.into_iter().filter(members).collect(),
            meter: core.meter.clone(),
        }
    }
}

impl Handle {
    /// How the node is, for whoever watches it. Takes as long as copying a few thousand numbers.
    pub fn readings(&self) -> Readings {
        let traffic = self.shared.net.traffic();
        Readings::of(&self.shared.lock(), traffic)
    }

    pub(super) fn note_session_end(&self, end: SessionEnd) {
        self.shared.lock().meter.session_ended(end);
    }
}

//! Measurements of a running node: what its pure part has counted, and what only the host can measure.

use super::core::Core;
use super::disk_health::DiskHealth;
use super::engine::Handle;
use super::net::Traffic;
use meshlock_cluster::histogram::Histogram;
use meshlock_cluster::node::{ClientCall, Input, VotersReport};
use meshlock_cluster::table::{LossReason, TableTally};
use meshlock_cluster::time::Span;
use meshlock_system::now;

/// What kind of input handed a lock over to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Another client of this site released it. Measured from when the node began to handle the release until the waiter was told.
    Here,
    /// Another site sent a message. Measured from when the message was read from the connection until the waiter was told.
    Elsewhere,
}

impl Via {
    pub const ALL: [Via; 2] = [Via::Here, Via::Elsewhere];

    /// Returns its name for programs.
    pub fn label(self) -> &'static str {
        match self {
            Via::Here => "here",
            Via::Elsewhere => "elsewhere",
        }
    }

    /// Returns how a grant that follows from this input came about; `None` for inputs whose grants nobody waited for.
    pub(super) fn of(input: &Input) -> Option<Self> {
        match input {
            Input::Packet { .. } => Some(Via::Elsewhere),
            Input::Call(ClientCall::Release(_) | ClientCall::Cancel(_) | ClientCall::SessionEnded(_)) => {
                Some(Via::Here)
            }
            Input::Call(_)
            | Input::Time
            | Input::Connected { .. }
            | Input::Persisted(_)
            | Input::WallClock(_) => None,
        }
    }
}

/// How the session of a client that was connected directly to the node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The client closed the connection: no process has it open any more.
    Disconnected,
    /// This node ended it: the client was silent for too long, or sent something invalid.
    CutOff,
}

impl SessionEnd {
    pub const ALL: [SessionEnd; 2] = [SessionEnd::Disconnected, SessionEnd::CutOff];

    /// Returns its name for programs.
    pub fn label(self) -> &'static str {
        match self {
            SessionEnd::Disconnected => "disconnected",
            SessionEnd::CutOff => "cut_off",
        }
    }
}

/// Counters of the host.
#[derive(Clone, Debug, Default)]
pub(super) struct HostMeter {
    hand_overs: [Histogram; Via::ALL.len()],
    sessions: [u64; SessionEnd::ALL.len()],
    lost_by_failure: u64,
}

impl HostMeter {
    pub(super) fn handed_over(&mut self, via: Via, took: Span) {
        self.hand_overs[via as usize].record(took);
    }

    /// Counts a lock that a client lost because the node has failed.
    pub(super) fn lost_by_failure(&mut self) {
        self.lost_by_failure += 1;
    }

    pub(super) fn session_ended(&mut self, end: SessionEnd) {
        self.sessions[end as usize] += 1;
    }
}

/// A snapshot of a node's state and of its counters since it started.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each of them is a metric")]
pub struct Readings {
    /// Counters of its locks.
    pub tally: TableTally,
    /// Number of locks kept, in use or idle.
    pub locks: usize,
    /// Number of acquisitions that were granted and not released.
    pub holders: u64,
    pub waiters: u64,
    /// Number of open sessions: of clients, of the library, and one for each acquisition of the wire APIs.
    pub sessions: usize,
    pub epoch: u64,
    pub members: usize,
    pub is_member: bool,
    /// Whether its lock machines run.
    pub is_open: bool,
    /// Whether it leads the voters, as far as it knows.
    pub leads: bool,
    /// Remaining time of its lease; zero if it has none.
    pub lease_left: Span,
    /// Who votes, and which of them are there.
    pub voters: VotersReport,
    /// Whether the last write to the disk failed.
    pub disk_is_failing: bool,
    /// Number of writes that took longer than the others wait for a silent leader.
    pub slow_writes: u64,
    /// Traffic with each of the other members.
    pub traffic: Vec<Traffic>,
    meter: HostMeter,
}

impl Readings {
    /// Returns how long hand-overs of this kind took within this site.
    pub fn hand_overs(&self, via: Via) -> &Histogram {
        &self.meter.hand_overs[via as usize]
    }

    /// Returns the number of locks that were lost for this reason.
    pub fn losses(&self, reason: LossReason) -> u64 {
        let by_failure = if reason == LossReason::Failed { self.meter.lost_by_failure } else { 0 };
        self.tally.losses(reason) + by_failure
    }

    /// Returns the number of sessions that ended this way.
    pub fn session_ends(&self, end: SessionEnd) -> u64 {
        self.meter.sessions[end as usize]
    }

    fn of(core: &Core, traffic: Vec<Traffic>, disk: &DiskHealth) -> Self {
        let node = &core.node;
        let (locks, holders, waiters) = node.table().tallied();
        let view = node.view();
        let members = |traffic: &Traffic| view.members.iter().any(|member| member.site == traffic.site);
        Readings {
            tally: node.table().tally().clone(),
            locks,
            holders,
            waiters,
            sessions: core.open_sessions,
            epoch: u64::from(view.epoch.number()),
            members: view.members.len(),
            is_member: view.contains(node.me()),
            is_open: node.is_open() && !core.has_failed,
            leads: node.leads().is_some() && !core.has_failed,
            lease_left: node.lease().end().map_or(Span::ZERO, |end| end.since(now())),
            voters: node.voters_report(),
            disk_is_failing: disk.is_failing(),
            slow_writes: disk.slow_writes(),
            traffic: traffic.into_iter().filter(members).collect(),
            meter: core.meter.clone(),
        }
    }
}

impl Handle {
    /// Returns a snapshot of the node's measurements. It costs about as much as copying a few thousand numbers.
    pub fn readings(&self) -> Readings {
        let traffic = self.shared.net.traffic();
        Readings::of(&self.shared.lock(), traffic, &self.shared.published.disk)
    }

    pub(super) fn note_session_end(&self, end: SessionEnd) {
        self.shared.lock().meter.session_ended(end);
    }
}

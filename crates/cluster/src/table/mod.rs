//! The lock table: the waiters and holders of every lock at this site, and the machines that decide between them with
//! other sites.
//!
//! Each lock has one machine for each *lane* (as many as the permits that one site may hold), of the algorithm that the
//! view's rules name. Machines exist only while a view is *open*; holders and waiters outlive them. They start in the
//! state that the view, the census and the lock's name determine, the same at every member, when the lock is first used
//! in the view (`opening.rs`).
//!
//! A site's lease covers all that its clients hold. Renewing it is one event, however much that is; and of the locks only
//! those are visited for whose clients nothing could be asked before (`waiting.rs`).
//!
//! **Invariants**
//! - T1: a client is told that it holds a lock only while the site's lease is comfortable, by a machine of an open view.
//! - T2: every holder of a lock, or all that share it, correspond to one executing lane, or the machines are stopped.
//! - T3: fences of a lock (slot) increase at this site.
//! - T4: a client that was told that its lock is lost does not get it back; its lane is left when the client confirms
//!   or when the time it was given is over.
//! - T6: a client is told that a lock is taken only if that is known (`inquiry.rs`).
//! - T7: a name is used with one number of permits at a time: its rule's, or one that its home has settled in the view
//!   that is open (`permits/`).
//! - T8: a lock whose clients wait and for which less was asked than they need is noted.
//! - T9: a name that nobody may enter, and could be entered in a new view, is noted (`draining.rs`).
//! - T10, T11: about claims (`claims/`); T12: about holds that somebody may claim elsewhere (`resuming.rs`); T13: about modes
//!   (`modes.rs`).

mod calls;
mod census;
mod changes;
mod claims;
mod clients;
mod draining;
mod elsewhere;
mod holdings;
mod inquiry;
mod lock;
mod losing;
mod modes;
mod opening;
mod page;
mod permits;
mod refusal;
mod report;
mod resuming;
mod room;
mod tally;
#[cfg(test)]
mod tests;
mod trace;
mod types;
mod waiting;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use indexmap::{IndexMap, IndexSet};
use meshlock_protocol::registry::{AnyOutbox, SiteCall};
use meshlock_protocol::{Epoch, FenceClock};

use crate::cause::CauseOrigin;
use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, LockName};
use crate::report::Party;
use crate::time::{Span, Time};
pub(crate) use census::Census;
pub use census::CensusPiece;
use changes::ChangeLog;
use claims::Claims;
pub use claims::{ClaimEvent, ClaimRefusal, LockClaim};
use clients::Spare;
use draining::Leftover;
use elsewhere::HeldElsewhere;
pub use holdings::{Holding, HoldingRef, Holdings};
pub(crate) use inquiry::Obstacle;
use lock::{Env, Lock, MachineInput};
use permits::{Home, Mark};
pub use permits::{PermitMessage, PermitsOf};
pub use refusal::{LossReason, Outage, PermitCount, RequestRefusal, VotersInReach};
pub use report::{
    Counts, HeldLock, HolderReport, LockInUse, LockReport, MAX_LISTED, Machinery, WaiterReport,
};
pub(crate) use resuming::Provable;
use room::RoomRequests;
pub use tally::{AcquireOutcome, ClaimOutcome, MessageCounts, ServedBy, TableTally};
pub use trace::TraceWatch;
pub(crate) use trace::{StepKind, TableStep};
pub use types::{Acquire, LockEvent, LockMessage, Request, Session, TableConfig, Wait};
pub(crate) use types::{LeaseClock, LocalView, LockKey, MAX_REPLY_TIMEOUT, MIN_REPLY_TIMEOUT, TableOutput};

/// Something that happens at a set time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TableAlarm {
    /// The client's time to wait is over, or nearly so.
    Deadline(LockKey, Request),
    /// The client was told that it has lost the lock, and its time to stop is over.
    Lost(LockKey, Request),
    /// A timer of the machine of this lane.
    Timer(LockKey, usize, Epoch),
    /// A claim is not safe any more, or the time of its client to stop is over.
    Claim(Request),
    /// A client that was cut off does not rely any more on what it cannot prove.
    Unproved(Session),
    /// What a client that was cut off can prove is not kept any longer.
    ResumeOver(Session),
}

/// The client of a session, as long as it has a label or an acquisition.
#[derive(Clone, Debug, Default)]
struct SessionState {
    label: Option<ClientLabel>,
    /// After this long it has received what it was told, or has stopped by itself using what it holds.
    reacts_within: Span,
    requests: BTreeSet<Request>,
    /// Set when the session was cut: until when its client may rely on what it cannot prove.
    cut: Option<Time>,
    /// Which party it is, if it says so or has a session of the wire APIs.
    party: Option<Party>,
}

/// All locks of one site.
#[derive(Clone, Debug)]
pub struct LockTable {
    table_config: TableConfig,
    local_view: Option<LocalView>,
    /// In the order of insertion, which is the same in every run. Boxed, so that growing moves little.
    locks: IndexMap<LockKey, Box<Lock>, FixedState>,
    /// Locks that clients of other members held when the view opened, and that were not used here since then.
    elsewhere: HeldElsewhere,
    /// Names that were left after the census was sent and before the view opened.
    left: BTreeSet<LockName>,
    /// Locks whose clients wait and for whom nothing could be asked, without a view or a lease.
    unsought: IndexSet<LockKey, FixedState>,
    /// Those locks that several clients may hold at a time.
    shared: BTreeSet<LockKey>,
    requests: BTreeMap<Request, (Session, LockKey)>,
    sessions: BTreeMap<Session, SessionState>,
    alarms: BTreeSet<(Time, TableAlarm)>,
    outbox: Option<Box<AnyOutbox>>,
    spare: Spare,
    tally: TableTally,
    /// Number of holders that were told that they have lost the lock, and have time left to stop.
    losing: u64,
    /// How long the replies of other sites may take.
    reply_timeout: Span,
    /// The source of causes for requests without one.
    origin: CauseOrigin,
    /// The names that nobody may enter in this view, because they have too many holders, or holders with different
    /// numbers of permits.
    draining: BTreeMap<LockName, Leftover>,
    /// Whether one of these could be entered in a new view.
    has_drained: bool,
    /// What their homes have told this site of names that are not used by their rules.
    marks: BTreeMap<LockName, Mark>,
    /// The names not used by their rules whose home is this site.
    homes: BTreeMap<LockName, Home>,
    /// Fences of locks that are new in this view begin after this: what was used under another number is not forgotten.
    floor: FenceClock,
    /// Messages of this site to itself, about permits.
    inbox: VecDeque<(LockName, PermitMessage)>,
    /// Whether these are being handled.
    delivering: bool,
    /// The number of locks when the view opened.
    opened_with: usize,
    room: RoomRequests,
    /// The watches that receive a trace: mostly none.
    watches: Vec<TraceWatch>,
    claims: Claims,
    /// The holds of which clients were given proofs.
    proved: BTreeSet<Request>,
    /// Whether this site is about to leave, and lets go of none of these.
    frozen: bool,
    /// Those of them whose clients have gone since then.
    vacated: BTreeMap<Request, LockKey>,
    /// The last changes, while somebody asks for them.
    changes: Option<Box<ChangeLog>>,
    /// The number of the next change, if none are kept.
    next_change: u64,
}

impl LockTable {
    /// Creates a table without locks and without a view.
    pub(crate) fn new(table_config: TableConfig) -> Self {
        LockTable {
            table_config,
            local_view: None,
            locks: IndexMap::default(),
            elsewhere: HeldElsewhere::default(),
            left: BTreeSet::new(),
            unsought: IndexSet::default(),
            shared: BTreeSet::new(),
            requests: BTreeMap::new(),
            sessions: BTreeMap::new(),
            alarms: BTreeSet::new(),
            outbox: None,
            spare: Spare::default(),
            tally: TableTally::default(),
            losing: 0,
            reply_timeout: MIN_REPLY_TIMEOUT,
            origin: CauseOrigin::default(),
            draining: BTreeMap::new(),
            has_drained: false,
            marks: BTreeMap::new(),
            homes: BTreeMap::new(),
            floor: FenceClock::new(Epoch::default()),
            inbox: VecDeque::new(),
            delivering: false,
            opened_with: 0,
            room: RoomRequests::new(table_config.max_locks),
            watches: Vec::new(),
            claims: Claims::default(),
            proved: BTreeSet::new(),
            frozen: false,
            vacated: BTreeMap::new(),
            changes: None,
            next_change: 0,
        }
    }

    /// Handles a message of a member's machine, of the epoch that is open.
    pub(crate) fn on_message(
        &mut self,
        from: usize,
        message: LockMessage,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        let Some(local_view) = &self.local_view else { return };
        let (lanes, key) = (local_view.lanes(&message.lock), local_view.key(&message.lock));
        if message.from_lane >= lanes || message.to_lane >= lanes || from >= local_view.members {
            return out
                .push(TableOutput::Misbehaved { place: from, why: "names a lane that does not exist" });
        }
        let LockMessage { from_lane, to_lane, stamp, message, cause, .. } = message;
        self.tally.received.count(&message);
        self.with_lock(&key, lease_clock, out, |lock, env| {
            env.cause = cause;
            let sender = env.site_of(from, from_lane as usize);
            if lock.clock.observe(stamp).is_err() {
                return env.misbehaved(from, "a fence clock out of its range");
            }
            env.trace(to_lane as usize, || StepKind::Receive(from, message.printed()));
            lock.run(to_lane as usize, MachineInput::Receive(sender, message), env);
            lock.seek_again(env);
        });
    }

    /// Reacts to a renewed lease: whoever holds something that is not lost keeps it for longer, and waiters for whom
    /// nothing could be asked before are served. Nothing else is visited, however many locks are held.
    pub(crate) fn on_extended(
        &mut self,
        lease_end: Time,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
    ) {
        if mutant::is_on(Mutant::RenewalRevivesLost) {
            self.revive_lost();
        }
        if self.tally.holders() > self.losing || self.claims.has_live() {
            out.push(TableOutput::LockEvent(LockEvent::Extended { lease_end }));
        }
        self.seek_all(lease_clock, out);
    }

    /// Handles everything that is due: deadlines, machines' timers, the end of the time to stop after a loss.
    pub(crate) fn on_time(&mut self, lease_clock: LeaseClock, out: &mut Vec<TableOutput>) {
        while let Some((due, _)) = self.alarms.first()
            && *due <= lease_clock.now
        {
            let (_, alarm) = self.alarms.pop_first().expect("there is a first");
            match alarm {
                TableAlarm::Deadline(lock, request) => self.on_deadline(&lock, request, lease_clock, out),
                TableAlarm::Lost(lock, request) => self.leave(request, &lock, lease_clock, out),
                TableAlarm::Timer(lock, lane, epoch) => {
                    if self.local_view.as_ref().is_some_and(|local_view| local_view.epoch == epoch) {
                        self.with_lock(&lock, lease_clock, out, |lock, env| {
                            lock.run(lane, MachineInput::Call(SiteCall::Wake), env);
                            lock.seek_again(env);
                        });
                    }
                }
                TableAlarm::Claim(request) => self.on_claim_alarm(request, out),
                TableAlarm::Unproved(session) => self.on_unproved(session, lease_clock, out),
                TableAlarm::ResumeOver(session) => {
                    if self.sessions.get(&session).is_some_and(|client| client.cut.is_some()) {
                        self.on_session_ended(session, lease_clock, out);
                    }
                }
            }
        }
    }

    /// Returns when [`on_time`](LockTable::on_time) has something to do next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.alarms.first().map(|(due, _)| *due)
    }

    /// Checks the numbered invariants of this table and of the machines in it, and returns the first that does not
    /// hold.
    pub fn check_invariants(&self) -> Result<(), &'static str> {
        self.locks.values().try_for_each(|lock| lock.check_invariants(self.local_view.is_some()))?;
        let holds = self.locks.values().map(|lock| lock.clients.holds.len() as u64).sum::<u64>();
        if self.tally.holders() != holds {
            return Err("T5: every client that no longer holds its lock has been counted once");
        }
        self.check_losing()?;
        self.check_claims()?;
        self.check_vacated()?;
        self.check_waiting()?;
        self.check_draining()?;
        self.check_permits()
    }

    /// Calls `act` on a lock, which is created, and its machines started, if necessary.
    fn with_lock(
        &mut self,
        key: &LockKey,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
        act: impl FnOnce(&mut Lock, &mut Env<'_>),
    ) {
        self.with_lock_as_it_is(key, lease_clock, out, |lock, env| {
            lock.touch(env);
            act(lock, env);
        });
        if key.permits != 1 || !self.inbox.is_empty() {
            self.forget_unused(key);
            self.deliver(lease_clock, out);
        }
    }

    /// Calls `act` on a lock, which is created if necessary; whether its machines run is left to `act`.
    fn with_lock_as_it_is<R>(
        &mut self,
        key: &LockKey,
        lease_clock: LeaseClock,
        out: &mut Vec<TableOutput>,
        act: impl FnOnce(&mut Lock, &mut Env<'_>) -> R,
    ) -> R {
        let at = self.locks.get_index_of(key).unwrap_or_else(|| self.insert(key));
        let lock = &mut self.locks[at];
        let mut env = Env {
            key,
            lease_clock,
            table_config: self.table_config,
            local_view: self.local_view.as_ref(),
            alarms: &mut self.alarms,
            outbox: &mut self.outbox,
            spare: &mut self.spare,
            tally: &mut self.tally,
            losing: &mut self.losing,
            unsought: &mut self.unsought,
            elsewhere: &mut self.elsewhere,
            left: &mut self.left,
            served: ServedBy::Elsewhere,
            cause: None,
            watches: &self.watches,
            mark: self.marks.get(&key.name).copied(),
            draining: &mut self.draining,
            has_drained: &mut self.has_drained,
            floor: self.floor,
            inbox: &mut self.inbox,
            changes: &mut self.changes,
            out,
        };
        let told = env.out.len();
        let done = act(lock, &mut env);
        env.trace_states(lock, told);
        lock.clients.rest(&mut self.spare);
        done
    }

    /// Adds a lock without clients, and returns its index.
    fn insert(&mut self, key: &LockKey) -> usize {
        if key.permits != 1 {
            self.shared.insert(key.clone());
        }
        self.locks.insert_full(key.clone(), Box::new(Lock::new())).0
    }
}

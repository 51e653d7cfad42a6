//! The last changes of locks at this site, which are kept while somebody asks for them.
//!
//! While nobody does there is no [`ChangeLog`], and a step only looks that there is none. A log has a fixed number of places: the oldest
//! change makes room for the newest, and whoever had not read it learns how many it has missed. It is dropped when nobody has asked for
//! [`KEPT_FOR`].

use std::collections::VecDeque;

use meshlock_protocol::Fence;

use super::clients::Hold;
use super::{LockKey, LockTable, LossReason, Request};
use crate::mutant::{self, Mutant};
use crate::names::{ClientLabel, Incarnation, LockName};
use crate::report::{ChangeCursor, ChangeKind, LockChange, MAX_CHANGES, SiteChanges};
use crate::time::{Span, Time};

/// Number of changes that are kept.
const MAX_KEPT: usize = 4096;

/// For how long changes are kept after somebody has asked for them.
const KEPT_FOR: Span = Span::from_millis(10_000);

/// The last changes.
#[derive(Clone, Debug)]
pub(super) struct ChangeLog {
    /// The number of the first one that is kept.
    first: u64,
    kept: VecDeque<Kept>,
    /// How many of the last ones have no label yet.
    unlabelled: usize,
    /// When nobody has asked for too long.
    until: Time,
}

/// A change that is kept.
#[derive(Clone, Debug)]
struct Kept {
    lock: LockName,
    kind: ChangeKind,
    request: Request,
    who: Option<ClientLabel>,
    fence: Fence,
    slot: Option<u32>,
    at: Time,
}

impl ChangeLog {
    /// Adds a change of a hold. Its client's label is added later: this is called where labels are out of reach.
    pub(super) fn push(&mut self, key: &LockKey, kind: ChangeKind, hold: &Hold, at: Time) {
        if self.kept.len() >= MAX_KEPT {
            self.kept.pop_front();
            self.first += 1;
        }
        let Hold { request, fence, slot, .. } = *hold;
        self.kept.push_back(Kept { lock: key.name.clone(), kind, request, who: None, fence, slot, at });
        self.unlabelled = (self.unlabelled + 1).min(self.kept.len());
    }

    fn next(&self) -> u64 {
        self.first + self.kept.len() as u64
    }
}

/// Returns what a loss for this reason is for those who watch.
pub(super) fn kind_of_loss(why: LossReason) -> ChangeKind {
    match why {
        LossReason::Broken => ChangeKind::Broken,
        LossReason::LeaseEnd
        | LossReason::Excluded
        | LossReason::Leaving
        | LossReason::Failed
        | LossReason::ReservationOver
        | LossReason::Conflict
        | LossReason::TakenOver => ChangeKind::Lost,
    }
}

impl LockTable {
    /// Returns the changes after a cursor, and keeps further ones for a while. Without a cursor, or with one of another incarnation, they
    /// begin now.
    pub(crate) fn changes_after(
        &mut self,
        after: Option<ChangeCursor>,
        incarnation: Incarnation,
        now: Time,
    ) -> SiteChanges {
        self.label_changes();
        let until = now + KEPT_FOR;
        let begins_at = self.next_change;
        let log = self.changes.get_or_insert_with(|| {
            Box::new(ChangeLog { first: begins_at, kept: VecDeque::new(), unlabelled: 0, until })
        });
        log.until = until;
        let cursor = |next| ChangeCursor { incarnation, next };
        let Some(after) = after else {
            let cursor = cursor(log.next());
            return SiteChanges { changes: Vec::new(), missed: 0, cursor, more: false };
        };
        // What happened at an earlier incarnation is not known: something did, for everything was lost there.
        let (from, missed) = if after.incarnation == incarnation && after.next <= log.next() {
            (after.next.max(log.first), log.first.saturating_sub(after.next))
        } else {
            (log.first, 1)
        };
        let missed = if mutant::is_on(Mutant::MissedChangesNotTold) { 0 } else { missed };
        let skipped = usize::try_from(from - log.first).unwrap_or(usize::MAX);
        let changes: Vec<LockChange> =
            log.kept.iter().skip(skipped).take(MAX_CHANGES).map(|kept| kept.told(now)).collect();
        let next = from + changes.len() as u64;
        SiteChanges { changes, missed, cursor: cursor(next), more: next < log.next() }
    }

    /// Stops keeping changes if nobody has asked for them for a while. The numbers go on behind one that nobody gets, so that a reader
    /// who comes back later learns that it has missed something.
    pub(crate) fn drop_unwanted_changes(&mut self, now: Time) {
        if let Some(log) = self.changes.take_if(|log| log.until <= now) {
            self.next_change = log.next() + 1;
        }
    }

    /// Adds a change, if somebody watches.
    pub(super) fn note_change(&mut self, key: &LockKey, kind: ChangeKind, request: Request, now: Time) {
        if self.changes.is_none() {
            return;
        }
        let Some(hold) = self.locks.get(key).and_then(|lock| lock.hold(request)) else { return };
        if let Some(log) = &mut self.changes {
            log.push(key, kind, hold, now);
        }
        self.label_changes();
    }

    /// Adds the labels of the clients to the last changes. Called before a request or a session is forgotten.
    pub(super) fn label_changes(&mut self) {
        let Some(log) = &mut self.changes else { return };
        let unlabelled = std::mem::take(&mut log.unlabelled);
        for kept in log.kept.iter_mut().rev().take(unlabelled) {
            let session =
                self.requests.get(&kept.request).and_then(|(session, _)| self.sessions.get(session));
            kept.who = session.and_then(|client| client.label.clone());
        }
    }
}

impl Kept {
    fn told(&self, now: Time) -> LockChange {
        let Kept { lock, kind, who, fence, slot, at, .. } = self;
        LockChange {
            lock: lock.clone(),
            kind: *kind,
            who: who.clone(),
            fence: *fence,
            slot: *slot,
            ago: now.since(*at),
        }
    }
}

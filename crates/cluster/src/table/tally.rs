//! Counters of a lock table, for metrics: plain numbers that only increase.
//!
//! **Invariant** T5: every client that was granted a lock and no longer holds it has been counted once on each side.

use meshlock_protocol::Message;
use meshlock_protocol::registry::{ALL, AnyMessage};

use super::{Counts, LockTable, LossReason, Request};
use crate::cause::{Cause, CauseOrigin};
use crate::histogram::Histogram;
use crate::names::Member;
use crate::time::Span;

/// The outcome of an acquisition. Each acquisition has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    Granted,
    /// It did not want to wait, and would have had to.
    Busy,
    /// It was not granted in time.
    TimedOut,
    /// Its client cancelled it.
    Cancelled,
    /// Its client's session ended while it waited.
    Abandoned,
    /// It was invalid, or this site is leaving.
    Refused,
    /// It was not granted in time, and nobody is known to have the lock: the cluster could not serve it.
    Unavailable,
}

/// How a waiter came to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// The lock was free and this site could tell.
    AtOnce,
    /// Another client of this site released the lock.
    Here,
    /// Something from another site arrived: a message of the algorithm, a lease, or a view.
    Elsewhere,
}

/// What became of a claim. One that is pending may be settled later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// It was accepted.
    Pending,
    /// The lock is held through this site.
    Settled,
    /// The client goes on with what it held through this site before.
    Resumed,
    Refused,
}

/// Gives an enum without data the list of its values and their names as labels.
macro_rules! labelled {
    ($($type:ident: $($value:ident $label:literal)*;)*) => {$(
        impl $type {
            /// All values.
            pub const ALL: &[$type] = &[$($type::$value),*];

            /// Returns the name that metrics use.
            pub fn label(self) -> &'static str {
                match self { $($type::$value => $label,)* }
            }
        }
    )*};
}

labelled! {
    AcquireOutcome: Granted "granted" Busy "busy" TimedOut "timed_out" Cancelled "cancelled" Abandoned "abandoned" Refused "refused"
        Unavailable "unavailable";
    LossReason: LeaseEnd "lease_end" Broken "broken" Excluded "excluded" Leaving "leaving" Failed "failed"
        ReservationOver "reservation_over" Conflict "conflict" TakenOver "taken_over";
    ClaimOutcome: Pending "pending" Settled "settled" Resumed "resumed" Refused "refused";
    ServedBy: AtOnce "at_once" Here "here" Elsewhere "elsewhere";
}

/// The largest number of message kinds of any algorithm.
const MAX_KINDS: usize = {
    let (mut most, mut at) = (0, 0);
    while at < ALL.len() {
        let kinds = ALL[at].messages.len();
        most = if kinds > most { kinds } else { most };
        at += 1;
    }
    most
};

/// The number of messages of each kind of each algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageCounts(Box<[[u64; MAX_KINDS]; ALL.len()]>);

impl Default for MessageCounts {
    fn default() -> Self {
        MessageCounts(Box::new([[0; MAX_KINDS]; ALL.len()]))
    }
}

impl MessageCounts {
    pub(super) fn count(&mut self, message: &AnyMessage) {
        let (algorithm, kind) = (message.algorithm(), message.kind());
        let place = ALL[algorithm].messages.iter().position(|known| known.kind == kind);
        // Every algorithm's file lists its kinds, and a test of the registry checks that.
        if let Some(place) = place {
            self.0[algorithm][place] += 1;
        }
    }

    /// Returns every algorithm and kind with at least one message, and the number.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        ALL.iter().zip(self.0.iter()).flat_map(|(info, counts)| {
            let kinds = info.messages.iter().zip(counts).filter(|(_, count)| **count > 0);
            kinds.map(|(message, count)| (info.name, message.kind, *count))
        })
    }
}

/// The counters of one site since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableTally {
    outcomes: [u64; AcquireOutcome::ALL.len()],
    lost: [u64; LossReason::ALL.len()],
    claims: [u64; ClaimOutcome::ALL.len()],
    waits: [Histogram; ServedBy::ALL.len()],
    /// How long clients held locks that they no longer hold.
    pub holds: Histogram,
    /// Messages of the algorithms' machines to other sites; what links send again is not counted again.
    pub sent: MessageCounts,
    /// Messages of other sites' machines that were delivered, each once.
    pub received: MessageCounts,
    pub views_installed: u64,
    /// Number of views in which machines ran here.
    pub views_opened: u64,
    /// How much was left of the lease whenever it was renewed.
    pub lease_left: Histogram,
}

impl TableTally {
    pub(crate) fn came_out(&mut self, outcome: AcquireOutcome) {
        self.outcomes[outcome as usize] += 1;
    }

    pub(super) fn granted(&mut self, waited: Span, served: ServedBy) {
        self.came_out(AcquireOutcome::Granted);
        self.waits[served as usize].record(waited);
    }

    pub(super) fn claimed(&mut self, outcome: ClaimOutcome) {
        self.claims[outcome as usize] += 1;
    }

    /// Returns the number of claims with this outcome.
    pub fn claims(&self, outcome: ClaimOutcome) -> u64 {
        self.claims[outcome as usize]
    }

    pub(super) fn lost(&mut self, by: LossReason) {
        self.lost[by as usize] += 1;
    }

    /// Returns the number of acquisitions with this outcome.
    pub fn outcomes(&self, outcome: AcquireOutcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Returns how often a client lost its lock for this reason.
    pub fn losses(&self, by: LossReason) -> u64 {
        self.lost[by as usize]
    }

    /// Returns how long clients waited that were served in this way.
    pub fn waits(&self, served: ServedBy) -> &Histogram {
        &self.waits[served as usize]
    }

    /// Returns the current number of holders.
    pub(super) fn holders(&self) -> u64 {
        self.outcomes(AcquireOutcome::Granted) + self.claims(ClaimOutcome::Settled) - self.holds.count()
    }
}

impl LockTable {
    /// Begins an incarnation of this site.
    pub(crate) fn begin_incarnation(&mut self, me: &Member) {
        self.origin = CauseOrigin::new(me);
    }

    /// Returns the cause of a request for which the client gave none.
    pub fn cause(&self, request: Request) -> Cause {
        self.origin.cause(request)
    }

    /// Records how much of the lease was left when it was renewed.
    pub(crate) fn note_renewal(&mut self, left: Span) {
        self.tally.lease_left.record(left);
    }

    /// Returns the counters since the site started.
    pub fn tally(&self) -> &TableTally {
        &self.tally
    }

    /// Returns the numbers of locks, holders and waiters.
    pub fn tallied(&self) -> (usize, u64, u64) {
        let Counts { holders, waiters, .. } = self.counts();
        (self.locks.len(), holders as u64, waiters as u64)
    }
}

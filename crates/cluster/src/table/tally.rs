//! What a table counts about itself, for whoever watches a site: plain numbers that only rise.
//!
//! **Invariant** T5: everyone who was granted a lock and holds it no more has been counted once on each side.

use meshlock_protocol::Message;
use meshlock_protocol::registry::{ALL, AnyMessage};

use super::{LockTable, LossReason, Request};
use crate::cause::{Cause, Origin};
use crate::histogram::Histogram;
use crate::names::Member;
use crate::time::Span;

/// How a wish for a lock came out. Each has one outcome, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was granted.
    Granted,
    /// It did not want to wait, and would have had to.
    Busy,
    /// It was not granted in time.
    TimedOut,
    /// Its client took it back.
    Cancelled,
    /// Its client went away while it waited.
    Abandoned,
    /// It could not be done, or this site is leaving.
    Refused,
}

/// What let a waiter in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Nothing: the lock was free and this site could tell.
    AtOnce,
    /// Another client of this site left.
    Here,
    /// Word from another site came: a message of the algorithm, a lease, or a view.
    Elsewhere,
}

/// Gives an enum without data the list of its values and their names as labels.
macro_rules! labelled {
    ($($type:ident: $($value:ident $label:literal)*;)*) => {$(
        impl $type {
            /// Every value.
            pub const ALL: &[$type] = &[$($type::$value),*];

            /// Its name for programs.
            pub fn label(self) -> &'static str {
                match self { $($type::$value => $label,)* }
            }
        }
    )*};
}

labelled! {
    Outcome: Granted "granted" Busy "busy" TimedOut "timed_out" Cancelled "cancelled" Abandoned "abandoned" Refused "refused";
    LossReason: LeaseEnd "lease_end" Broken "broken" Excluded "excluded" Leaving "leaving" Failed "failed";
    Served: AtOnce "at_once" Here "here" Elsewhere "elsewhere";
}

/// The most kinds of messages that one algorithm has.
const MAX_KINDS: usize = {
    let (mut most, mut at) = (0, 0);
    while at < ALL.len() {
        let kinds = ALL[at].messages.len();
        most = if kinds > most { kinds } else { most };
        at += 1;
    }
    most
};

/// How many messages there were of each kind of each algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages(Box<[[u64; MAX_KINDS]; ALL.len()]>);

impl Default for Messages {
    fn default() -> Self {
        Messages(Box::new([[0; MAX_KINDS]; ALL.len()]))
    }
}

impl Messages {
    pub(super) fn count(&mut self, message: &AnyMessage) {
        let (algorithm, kind) = (message.algorithm(), message.kind());
        let place = ALL[algorithm].messages.iter().position(|known| known.kind == kind);
        // Every algorithm's file lists its kinds, and a test of the registry holds it to that.
        if let Some(place) = place {
            self.0[algorithm][place] += 1;
        }
    }

    /// Every algorithm and kind of which there were any, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        ALL.iter().zip(self.0.iter()).flat_map(|(info, counts)| {
            let kinds = info.messages.iter().zip(counts).filter(|(_, count)| **count > 0);
            kinds.map(|(message, count)| (info.name, message.kind, *count))
        })
    }
}

/// What has happened at one site since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    outcomes: [u64; Outcome::ALL.len()],
    lost: [u64; LossReason::ALL.len()],
    waits: [Histogram; Served::ALL.len()],
    /// How long clients held what they do not hold any more.
    pub holds: Histogram,
    /// Messages of the algorithms' machines to other sites; what links send again is not counted again.
    pub sent: Messages,
    /// Messages of other sites' machines that came in order, once.
    pub received: Messages,
    /// How many views were installed.
    pub views_installed: u64,
    /// In how many of them machines ran here.
    pub views_opened: u64,
    /// How much was left of the lease whenever it was renewed.
    pub lease_left: Histogram,
}

impl Tally {
    pub(crate) fn came_out(&mut self, outcome: Outcome) {
        self.outcomes[outcome as usize] += 1;
    }

    pub(super) fn granted(&mut self, waited: Span, served: Served) {
        self.came_out(Outcome::Granted);
        self.waits[served as usize].record(waited);
    }

    pub(super) fn lost(&mut self, by: LossReason) {
        self.lost[by as usize] += 1;
    }

    /// How many wishes came out so.
    pub fn outcomes(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// How often a client was told that it has lost what it held, for this reason.
    pub fn losses(&self, by: LossReason) -> u64 {
        self.lost[by as usize]
    }

    /// How long those waited who were let in so.
    pub fn waits(&self, served: Served) -> &Histogram {
        &self.waits[served as usize]
    }

    /// How many hold something now.
    pub fn holders(&self) -> u64 {
        self.outcomes(Outcome::Granted) - self.holds.count()
    }
}

impl LockTable {
    /// A incarnation of this site begins.
    pub(crate) fn begin_incarnation(&mut self, me: &Member) {
        self.origin = Origin::new(me);
    }

    /// By what a wish of this number is known at all sites, if its client does not say.
    pub fn cause(&self, request: Request) -> Cause {
        self.origin.cause(request)
    }

    /// The lease was renewed when so much was left of it.
    pub(crate) fn note_renewal(&mut self, left: Span) {
        self.tally.lease_left.record(left);
    }

    /// What has happened here since the site started.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How much there is here, as [`counts`](LockTable::counts) says, without looking at each wish: locks, holders, waiters.
    pub fn tallied(&self) -> (usize, u64, u64) {
        let holders = self.tally.holders();
        (self.locks.len(), holders, (self.requests.len() as u64).saturating_sub(holders))
    }
}

//! A member that follows the sessions of a site, or did so before: what it was told, and what it has confirmed.

use std::collections::BTreeSet;

use meshlock_cluster::names::Member;
use meshlock_cluster::time::{Span, Time};

use crate::{ChangeNumber, LeaseId};

/// A member that follows the sessions of this site.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    pub(crate) member: Member,
    /// The version of the last answer, and the last one that is confirmed.
    pub(crate) last: u64,
    pub(crate) confirmed: u64,
    pub(crate) sent: Option<SentNews>,
    /// The sessions that it may know of.
    pub(crate) told: BTreeSet<LeaseId>,
    /// Everything until this change is known to it.
    pub(crate) known: ChangeNumber,
    /// Whether it knows that this site leaves.
    pub(crate) knows_leaving: bool,
    /// When it was answered last. It may count on the answer for a while after that.
    pub(crate) answered: Option<Time>,
    pub(crate) heard: Time,
}

/// An answer that is not confirmed.
#[derive(Clone, Debug)]
pub(crate) struct SentNews {
    pub(crate) until: ChangeNumber,
    pub(crate) leaves: bool,
    pub(crate) ended: Vec<LeaseId>,
    pub(crate) changed: Vec<LeaseId>,
}

impl SentNews {
    /// Returns the sessions of which its receiver knows nothing any more.
    pub(crate) fn over(&self) -> impl Iterator<Item = &LeaseId> {
        self.ended.iter().filter(|lease| !self.changed.contains(lease))
    }
}

impl Follower {
    /// Returns one that knows nothing.
    pub(crate) fn new(member: Member, now: Time) -> Self {
        Follower {
            member,
            last: 0,
            confirmed: 0,
            sent: None,
            told: BTreeSet::new(),
            known: ChangeNumber::default(),
            knows_leaving: false,
            answered: None,
            heard: now,
        }
    }

    /// Notes an answer.
    pub(crate) fn send(&mut self, version: u64, sent: SentNews, now: Time) {
        (self.last, self.answered, self.sent) = (version, Some(now), Some(sent));
    }

    /// Notes that the last answer is confirmed. Returns it, if it was not before.
    pub(crate) fn confirm(&mut self) -> Option<SentNews> {
        self.confirmed = self.last;
        self.sent.take()
    }

    /// Returns the last answer, if it is the one of this version and was not confirmed before.
    pub(crate) fn take_if_confirmed(&mut self, have: u64) -> Option<SentNews> {
        if have == self.last { self.confirm() } else { None }
    }

    /// Returns whether it cannot count on any answer any more, which it may do for `window`.
    pub(crate) fn is_over(&self, now: Time, window: Span) -> bool {
        self.answered.is_none_or(|answered| now >= answered + window)
    }
}

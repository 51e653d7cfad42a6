//! The leader's side of leases: what it has granted, and when that is certainly over.

use std::collections::BTreeMap;

use super::Terms;
use crate::mutant::{self, Mutant};
use crate::names::Member;
use crate::time::{Span, Time};

/// What a leader knows of the members' leases, from its election on.
#[derive(Clone, Debug)]
pub struct LeaseGrants {
    terms: Terms,
    elected: Time,
    standing: BTreeMap<Member, Standing>,
    /// The members of the view that was agreed on last, in order.
    known: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// Its last renewal was granted then, or it was let in then.
    Granted(Time),
    /// It said itself that it holds nothing and never will again.
    GaveUp,
}

impl LeaseGrants {
    /// This site has just learnt that it leads, in a view with these members.
    pub fn new(terms: Terms, members: &[Member], elected: Time) -> Self {
        LeaseGrants { terms, elected, standing: BTreeMap::new(), known: members.to_vec() }
    }

    /// What was agreed on.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// Grants a renewal of `member`, after leadership was confirmed. Not to one that gave up: a renewal that it sent
    /// before may arrive after.
    pub fn grant(&mut self, member: &Member, now: Time) -> bool {
        if matches!(self.standing.get(member), Some(Standing::GaveUp)) {
            return false;
        }
        self.standing.insert(member.clone(), Standing::Granted(now));
        true
    }

    /// A view with `members` has been agreed on, under these terms; they are news only if it is the first one. Those whom it leaves out are forgotten. Those who are new have no lease
    /// yet, and as long to get one as a lease lasts.
    pub fn on_agreed(&mut self, members: &[Member], terms: Terms, now: Time) {
        if !mutant::is_on(Mutant::OwnTerms) {
            self.terms = terms;
        }
        self.standing.retain(|member, _| members.binary_search(member).is_ok());
        let fresh = |member: &&Member| self.known.binary_search(member).is_err();
        for member in members.iter().filter(fresh) {
            self.standing.entry(member.clone()).or_insert(Standing::Granted(now));
        }
        self.known = members.to_vec();
    }

    /// `member` says that it holds nothing and asks for nothing any more.
    pub fn on_gave_up(&mut self, member: &Member) {
        self.standing.insert(member.clone(), Standing::GaveUp);
    }

    /// When the lease of `member` is certainly over: the inequality of this module.
    pub fn over_at(&self, member: &Member) -> Time {
        let from = match self.standing.get(member) {
            Some(Standing::GaveUp) => return self.elected,
            Some(Standing::Granted(at)) => self.elected.max(*at),
            None if mutant::is_on(Mutant::NewLeaderDoesNotWait) => return self.elected,
            None => self.elected,
        };
        let over = from + self.terms.drift.stretch(self.terms.length);
        if mutant::is_on(Mutant::ExclusionOneTickEarly) { over.before(Span::TICK) } else { over }
    }

    /// Whether `member` may be excluded now.
    pub fn is_over(&self, member: &Member, now: Time) -> bool {
        now >= self.over_at(member)
    }
}

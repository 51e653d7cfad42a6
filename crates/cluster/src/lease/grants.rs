//! The leader's side of leases: what it has granted, and when each lease is certainly over.

use std::collections::BTreeMap;

use super::{Inherited, Terms};
use crate::mutant::{self, Mutant};
use crate::names::Member;
use crate::time::{Span, Time};

/// What a leader knows of the members' leases since its election.
#[derive(Clone, Debug)]
pub(crate) struct LeaseGrants {
    terms: Terms,
    elected: Time,
    /// What is known of earlier leaders' grants; nothing, if that is not known.
    inherited: Option<Inherited>,
    standing: BTreeMap<Member, Standing>,
    /// The members of the view that was agreed on last, in order.
    known: Vec<Member>,
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// When its last renewal was granted.
    Granted(Time),
    /// When this leader has let it in, or the member has last asked for its first lease. Nobody has granted it one.
    LetIn(Time),
    /// The member said that it holds nothing and never will again.
    GaveUp,
}

impl LeaseGrants {
    /// Creates the state of a leader that has just been elected in a view with these members, with what it knows of earlier leaders'
    /// grants. Without that, all of them may have been made just before.
    pub(crate) fn new(terms: Terms, members: &[Member], elected: Time, inherited: Option<Inherited>) -> Self {
        LeaseGrants { terms, elected, inherited, standing: BTreeMap::new(), known: members.to_vec() }
    }

    /// Returns the terms that were agreed on.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }

    /// Grants a renewal of `member`, after leadership was confirmed. Returns `false` for a member that gave up: a
    /// renewal that it sent before may arrive after.
    pub(crate) fn grant(&mut self, member: &Member, now: Time) -> bool {
        if matches!(self.standing.get(member), Some(Standing::GaveUp)) {
            return false;
        }
        self.standing.insert(member.clone(), Standing::Granted(now));
        true
    }

    /// Reacts to a view with `members` that has been agreed on under `terms`, which differ from the known ones only in
    /// the first view. Members that it leaves out are forgotten. Members that this leader has let in with it (`is_own`) have no
    /// lease yet, and two renewals' time to ask for their first one: whoever dies while it joins keeps the others waiting for no longer. To
    /// those of an earlier leader's view that one may have granted leases.
    pub(crate) fn on_agreed(&mut self, members: &[Member], terms: Terms, is_own: bool, now: Time) {
        if !mutant::is_on(Mutant::OwnTerms) {
            self.terms = terms;
        }
        self.standing.retain(|member, _| members.binary_search(member).is_ok());
        let fresh = |member: &&Member| is_own && self.known.binary_search(member).is_err();
        for member in members.iter().filter(fresh) {
            self.standing.entry(member.clone()).or_insert(Standing::LetIn(now));
        }
        self.known = members.to_vec();
    }

    /// Reacts to a member asking for a renewal: one that has no lease yet is there, and is waited for.
    pub(crate) fn on_asked(&mut self, member: &Member, now: Time) {
        if let Some(Standing::LetIn(at)) = self.standing.get_mut(member) {
            *at = now;
        }
    }

    /// Reacts to `member` saying that it holds nothing and asks for nothing any more.
    pub(crate) fn on_gave_up(&mut self, member: &Member) {
        self.standing.insert(member.clone(), Standing::GaveUp);
    }

    /// Returns when the lease of `member` is certainly over, by the inequality of the module [`lease`](super). Whoever this leader has let in
    /// and granted nothing is given the time to ask for a lease. An earlier leader may have granted it one all the same: it may have let
    /// the same member in with the same view, which this one learns only after it has proposed its own.
    pub(crate) fn over_at(&self, member: &Member) -> Time {
        let whole = self.terms.drift.stretch(self.terms.length);
        let over = match self.standing.get(member) {
            Some(Standing::GaveUp) => return self.elected,
            Some(Standing::Granted(at)) => self.elected.max(*at) + whole,
            Some(Standing::LetIn(at)) if mutant::is_on(Mutant::NewcomerHasALease) => {
                self.elected.max(*at) + whole
            }
            Some(Standing::LetIn(at)) => {
                (*at + self.terms.first_contact()).max(self.inherited_at(member) + whole)
            }
            None if mutant::is_on(Mutant::NewLeaderDoesNotWait) => return self.elected,
            None => self.inherited_at(member) + whole,
        };
        let over = over.max(self.elected + self.terms.first_contact());
        if mutant::is_on(Mutant::ExclusionOneTickEarly) { over.before(Span::TICK) } else { over }
    }

    /// Returns the time before which every renewal of the member was sent that an earlier leader has granted.
    fn inherited_at(&self, member: &Member) -> Time {
        let inherited = self.inherited.as_ref();
        inherited.map_or(self.elected, |inherited| inherited.at(member, self.terms.drift))
    }

    /// Returns whether `member` may be excluded now.
    pub(crate) fn is_over(&self, member: &Member, now: Time) -> bool {
        now >= self.over_at(member)
    }
}

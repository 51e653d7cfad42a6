//! All that a site mirrors: whom it follows, what it asks, and what becomes of what it knows when views change.

use meshlock_cluster::lease::Terms;
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::mirror::MirrorNews;

use crate::contact::question_timeout;
use crate::{ClaimNumber, LeaseId, MirrorEffect, SiteCopy, Surroundings};

/// How often a host looks whether the other member is silent, or gone.
pub const LOOK_EVERY: Span = Span::from_millis(50);

/// For how long a host asks nobody after a question was refused, or had to be asked anew.
pub const PAUSE: Span = Span::from_millis(200);

/// Returns the member that mirrors a site: the next one in the order of names, and after the last the first.
pub fn mirror_of<'a>(
    site: &SiteName,
    members: impl Iterator<Item = &'a SiteName> + Clone,
) -> Option<&'a SiteName> {
    let next = members.clone().filter(|other| *other > site).min();
    next.or_else(|| members.filter(|other| *other < site).min())
}

/// All that a site mirrors: the member before it, and members that are gone and whose sessions are not taken over yet.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    copies: Vec<SiteCopy>,
    last_claim: ClaimNumber,
    /// The other members, if this site takes part.
    members: Option<Vec<Member>>,
    /// The member that this site mirrors.
    source: Option<Member>,
}

/// A question: what has changed of this member's sessions since the news of this version?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub source: Member,
    pub have: u64,
}

impl Mirror {
    /// Notes who takes part in the view that this site, `here`, has installed: the others, if it takes part itself.
    pub fn on_view(&mut self, here: &SiteName, others: Option<Vec<Member>>) {
        let sites = || others.iter().flatten().map(|other| &other.site).chain([here]);
        let is_source = |other: &&Member| mirror_of(&other.site, sites()) == Some(here);
        self.source = others.iter().flatten().find(is_source).cloned();
        self.members = others;
    }

    /// Returns the sessions that are copied.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.copies.iter().flat_map(SiteCopy::leases)
    }

    /// Returns the member that has a session which is copied.
    pub fn source_of(&self, lease: LeaseId) -> Option<&Member> {
        let copy = self.copies.iter().find(|copy| copy.leases().any(|copied| copied == lease));
        copy.map(|copy| &copy.source)
    }

    /// Returns the number of sessions that are copied.
    pub fn sessions(&self) -> usize {
        self.copies.iter().map(|copy| copy.leases().len()).sum()
    }

    /// Returns whom to ask now, and which news of each this site has: the member that it mirrors, and those that have another mirror by now and
    /// do not know that nothing is known of them here any more. If this site leaves it asks nobody.
    pub fn questions(&self, leaves: bool) -> impl Iterator<Item = Question> {
        let members = self.members.as_deref().unwrap_or_default();
        let asked = self.copies.iter().filter(move |copy| !leaves && members.contains(&copy.source));
        asked.filter_map(|copy| Some(Question { source: copy.source.clone(), have: copy.asks()? }))
    }

    /// Returns the question to this member, if it is to be asked now.
    pub fn question_to(&self, source: &Member, leaves: bool) -> Option<Question> {
        self.questions(leaves).find(|question| question.source == *source)
    }

    /// Returns whether the answer to a question that was sent at `sent` is not waited for any more.
    pub fn is_given_up(
        &self,
        question: &Question,
        sent: Time,
        leaves: bool,
        now: Time,
        terms: Terms,
    ) -> bool {
        let timeout = question_timeout(terms, self.sessions() > 0);
        self.question_to(&question.source, leaves).is_none() || now.since(sent) > timeout
    }

    /// Returns the member that this site mirrors; none if this site leaves.
    fn source(&self, leaves: bool) -> Option<&Member> {
        self.source.as_ref().filter(|_| !leaves)
    }

    fn copy_of(&mut self, source: &Member) -> Option<&mut SiteCopy> {
        self.copies.iter_mut().find(|copy| copy.source == *source)
    }

    /// Looks who is there and who is silent, and does what follows from it.
    pub fn look(&mut self, at: &Surroundings<'_>, out: &mut Vec<MirrorEffect>) {
        let source = self.source(at.leaves).cloned();
        if let Some(source) = source.as_ref().filter(|source| self.copy_of(source).is_none()) {
            self.copies.push(SiteCopy::new(source.clone(), at.now));
        }
        let (members, last_claim) = (&self.members, &mut self.last_claim);
        self.copies.retain_mut(|copy| {
            let Some(members) = members else {
                copy.drop_all(out);
                return false;
            };
            if !members.contains(&copy.source) {
                copy.take_over(at, out);
                return copy.leases().len() > 0;
            }
            if source.as_ref() == Some(&copy.source) || copy.source_leaves() && !at.leaves {
                copy.become_mirror();
                copy.attend(at, last_claim, out);
                return true;
            }
            // Another member is its mirror, or this site leaves. It begins to answer for nobody then.
            if mutant::is_on(Mutant::ReplacedStandsIn) {
                copy.attend(at, last_claim, out);
                copy.become_replaced(at.now, out);
            } else {
                copy.become_replaced(at.now, out);
                copy.attend(at, last_claim, out);
            }
            copy.leases().len() > 0 || !at.leaves && copy.is_to_be_dismissed(at)
        });
    }

    /// Handles the answer to a question that was sent at `sent`. Returns whether it can be asked again at once.
    pub fn on_news(
        &mut self,
        source: &Member,
        news: MirrorNews,
        sent: Time,
        at: &Surroundings<'_>,
        out: &mut Vec<MirrorEffect>,
    ) -> bool {
        let Some(copy) = self.copies.iter_mut().find(|copy| copy.source == *source) else { return true };
        copy.on_news(news, sent, at, &mut self.last_claim, out);
        let is_complete = !copy.is_incomplete;
        if !is_complete {
            copy.restart();
        }
        is_complete
    }

    /// Notes that a member does not know the news of which this site has told it: everything is asked for anew.
    pub fn on_unknown(&mut self, source: &Member) {
        if let Some(copy) = self.copy_of(source) {
            copy.on_unknown();
        }
    }

    /// Notes whether the host answers for a session, as it was asked to.
    pub fn on_adopted(&mut self, lease: LeaseId, is_adopted: bool) {
        for copy in &mut self.copies {
            copy.on_adopted(lease, is_adopted);
        }
    }

    /// Notes that a session which this site answers for has ended here.
    pub fn on_over(&mut self, lease: LeaseId, out: &mut Vec<MirrorEffect>) {
        for copy in &mut self.copies {
            copy.on_over(lease, out);
        }
    }
}

#[cfg(test)]
mod tests;

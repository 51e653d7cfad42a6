//! What operators ask for: whether it is done, under way or refused, and its first step.

use super::{Pilot, Situation, VoterRefusal};
use crate::membership::MAX_VOTERS;
use crate::membership::voters::{VoterChange, Voters};
use crate::names::SiteName;
use crate::report::VoterRequest;

impl Pilot {
    /// Handles an operator's request. Returns its outcome, or `None` if it is under way.
    pub(in super::super) fn on_request(
        &mut self,
        request: VoterRequest,
        at: Situation<'_>,
    ) -> Option<Result<(), VoterRefusal>> {
        self.observe(at);
        if self.is_done(&request, at) {
            self.request.take_if(|current| *current == request);
            return Some(Ok(()));
        }
        if self.request.as_ref().is_some_and(|current| *current != request) {
            return Some(Err(VoterRefusal::Busy));
        }
        if at.voters.is_joint() || !at.voters.learners.is_empty() {
            let is_this = self.request.is_some() || is_under_way(&request, at.voters);
            return (!is_this).then_some(Err(VoterRefusal::Busy));
        }
        match self.plan(&request, at) {
            Ok(_) => {
                self.request = Some(request);
                None
            }
            Err(why) => {
                self.request = None;
                // A leader that was just elected has not heard from everyone. Whoever asked asks again.
                let is_new = self.since.is_none_or(|since| at.now.since(since) < at.timing.fresh);
                (!is_new).then_some(Err(why))
            }
        }
    }

    pub(super) fn is_done(&self, request: &VoterRequest, at: Situation<'_>) -> bool {
        let acts = |site: &SiteName| at.voters.of_site(site).is_some_and(|voter| self.is_there(voter, at));
        !at.voters.is_joint()
            && match request {
                VoterRequest::Promote(site) => acts(site),
                VoterRequest::Demote(site) => {
                    at.voters.of_site(site).is_none() && at.voters.resting.contains(site)
                }
                VoterRequest::Replace { old, new } => at.voters.of_site(old).is_none() && acts(new),
            }
    }

    /// Returns the first step of what an operator asks for.
    pub(super) fn plan(
        &self,
        request: &VoterRequest,
        at: Situation<'_>,
    ) -> Result<VoterChange, VoterRefusal> {
        let Situation { voters, view, .. } = at;
        let older = self.older(view);
        if !older.is_empty() {
            return Err(VoterRefusal::OlderVersion(older));
        }
        let of = |site: &SiteName| {
            voters.of_site(site).ok_or_else(|| VoterRefusal::NotVoter(site.clone())).map(|voter| voter.id)
        };
        match request {
            VoterRequest::Promote(site) => {
                let lost = voters.of_site(site).map(|voter| voter.id);
                if lost.is_none() && voters.voters.len() >= MAX_VOTERS {
                    return Err(VoterRefusal::TooMany);
                }
                self.admission(site, lost, at)
            }
            VoterRequest::Demote(site) => {
                let remove = Some(of(site)?);
                if voters.voters.len() == 1 {
                    return Err(VoterRefusal::LastVoter(site.clone()));
                }
                self.settled(at, remove, VoterChange::Enter { remove, on_request: true })
            }
            VoterRequest::Replace { old, new } => {
                let lost = of(old)?;
                if voters.of_site(new).is_some() && old != new {
                    return Err(VoterRefusal::Votes(new.clone()));
                }
                self.admission(new, Some(lost), at)
            }
        }
    }
}

/// Returns whether the change in the log is the one that is asked for.
fn is_under_way(request: &VoterRequest, voters: &Voters) -> bool {
    let learns = |site: &SiteName| voters.learners.iter().any(|learner| learner.site == *site);
    let site_of = |id: u64| voters.by_id(id).map(|voter| &voter.site);
    match request {
        VoterRequest::Promote(site) => learns(site),
        VoterRequest::Demote(_) => false,
        VoterRequest::Replace { old, new } => learns(new) && voters.replaced.and_then(site_of) == Some(old),
    }
}

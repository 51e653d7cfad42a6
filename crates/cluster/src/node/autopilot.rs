//! The leader's decisions on who votes: what operators ask for, and what it does by itself.
//!
//! A change is a series of steps in the log (`membership/voters.rs`). This file says which step comes next; it knows nothing but what is
//! agreed on, what members have said of themselves, and for how long. So a new leader goes on where the last one was: a learner in the log
//! is a change that is under way, whoever began it.
//!
//! **What a leader does by itself** (unless the voters are fixed), one change after the other:
//!
//! 1. A voter whose site takes part and does not act as that voter, because its disk was lost: the site becomes a voter again, with the
//!    disk that it has and under another id.
//! 2. A voter whose site has not taken part for `replace_after`: the member that has been there longest takes its place. The time is long
//!    (ten minutes by default), because a machine that restarts, or is upgraded, comes back with all it knows, and while it is away
//!    nothing is gained by a change that must be undone.
//! 3. More members than voters: the voters become the largest odd number, at most seven, that the members allow. From one voter to three
//!    it is one change that adds two, because two voters survive no more failures than one, and have more that can fail.
//!
//! **What it does not do.** It never makes the voters fewer: a site that stops for an upgrade is no reason for that, and whether a site is
//! gone for good only an operator knows (`demote`). It changes nothing without need, so a member that is faster or has been there longer
//! than a voter does not take its place.
//!
//! **Never below a majority that is up.** No step makes a set of voters decide of which a majority is not there, as far as the leader
//! knows: each of them takes part, has said that it acts as this voter, and writes what is committed (`autopilot/lagging.rs`).
//!
//! **Versions.** A program that does not know changes of voters would go on counting the first ones. Members say with their renewals which
//! disk they have; those programs do not. So no change begins before every member has said so.

mod absence;
mod improve;
mod lagging;
mod records;
mod refusal;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attendance::Absence;
use crate::membership::voters::{Voter, VoterChange, Voters};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::report::VoterRequest;
use crate::time::{Span, Time};
use crate::view::View;
use lagging::Lagging;
pub use refusal::VoterRefusal;

/// Maximum number of sites that a refusal names.
pub(super) const MAX_NAMED: usize = 16;

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// Its disk, by the first incarnation that wrote to it.
    pub disk: Incarnation,
    /// The voter that it acts as.
    pub acts_as: Option<u64>,
}

/// What a leader knows of members that vote or could.
#[derive(Clone, Debug, Default)]
pub(super) struct Pilot {
    /// What each member has said of itself, and when.
    claims: BTreeMap<Member, (Claim, Time)>,
    /// The disks of first voters that other members have recorded.
    records: BTreeMap<Member, Vec<(SiteName, Incarnation)>>,
    /// Since when this leader has seen each member.
    member_since: BTreeMap<Member, Time>,
    /// Since when each voter has not been there.
    absent_since: BTreeMap<u64, Time>,
    /// Since when there has been each learner.
    learner_since: BTreeMap<u64, Time>,
    /// Voters that do not acknowledge what is committed.
    lagging: Lagging,
    /// Since when it has led.
    since: Option<Time>,
    /// What an operator asks for.
    request: Option<VoterRequest>,
    /// Sites that were dismissed, and when: others are preferred for a while.
    dismissed: BTreeMap<SiteName, Time>,
    /// When it last told the members who votes.
    pub(super) told_at: Option<Time>,
    /// The absence that it has told the members last, and when.
    pub(super) absence_told: (Absence, Option<Time>),
    /// When it last looked whether there is a step to take.
    pub(super) looked_at: Option<Time>,
}

/// What the next step depends on, besides what members have said.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub(super) voters: &'a Voters,
    pub(super) view: &'a View,
    /// The disks with which first voters have registered here.
    pub(super) registered: &'a BTreeMap<SiteName, Incarnation>,
    pub(super) now: Time,
    pub(super) timing: PilotTiming,
}

/// The timing of changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PilotTiming {
    /// See [`Voting`](super::config::Voting); `None` if the voters are fixed.
    pub(super) auto: Option<Automatic>,
    /// For how long a learner may be away, or not catch up.
    pub(super) learner_timeout: Span,
    /// For how long a member counts as there after it has said that it is.
    pub(super) fresh: Span,
}

/// When the leader changes the voters by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Automatic {
    pub(super) replace_after: Span,
    pub(super) stable_after: Span,
}

impl Pilot {
    /// Handles what a member says of itself.
    pub(super) fn on_claim(&mut self, from: Member, claim: Claim, view: &View, now: Time) {
        if view.contains(&from) {
            self.claims.insert(from, (claim, now));
        }
    }

    /// Reacts to a view.
    pub(super) fn on_agreed(&mut self, view: &View) {
        self.claims.retain(|member, _| view.contains(member));
        self.records.retain(|member, _| view.contains(member));
        self.member_since.retain(|member, _| view.contains(member));
        self.dismissed.retain(|site, _| view.member(site).is_some());
    }

    /// Notes who is there now.
    fn observe(&mut self, at: Situation<'_>) {
        let (voters, now) = (at.voters, at.now);
        self.since.get_or_insert(now);
        for member in &at.view.members {
            self.member_since.entry(member.clone()).or_insert(now);
        }
        self.absent_since.retain(|id, _| voters.by_id(*id).is_some());
        self.learner_since.retain(|id, _| voters.learners.iter().any(|learner| learner.id == *id));
        for voter in voters.everyone() {
            if self.is_there(voter, at) {
                self.absent_since.remove(&voter.id);
            } else {
                self.absent_since.entry(voter.id).or_insert(now);
            }
        }
        for learner in &voters.learners {
            self.learner_since.entry(learner.id).or_insert(now);
        }
    }

    fn claim(&self, site: &SiteName, view: &View) -> Option<(&Member, Claim)> {
        let member = view.member(site)?;
        self.claims.get_key_value(member).map(|(member, (claim, _))| (member, *claim))
    }

    /// Returns whether the voter's site takes part, has said lately that it acts as this voter, and writes what is committed. (A member
    /// may be gone for as long as its lease lasts.)
    fn is_there(&self, voter: &Voter, at: Situation<'_>) -> bool {
        let claim = at.view.member(&voter.site).and_then(|member| self.claims.get(member));
        claim.is_some_and(|(claim, when)| {
            claim.acts_as == Some(voter.id)
                && voter.disk.is_none_or(|disk| disk == claim.disk)
                && at.now.since(*when) <= at.timing.fresh
        }) && !self.lags(voter, at)
    }

    /// Returns the members whose program has not said that it knows changes of voters.
    fn older(&self, view: &View) -> Vec<SiteName> {
        let silent = view.members.iter().filter(|member| !self.claims.contains_key(*member));
        silent.take(MAX_NAMED).map(|member| member.site.clone()).collect()
    }

    /// Returns the next step, if there is one. `has_caught_up` says whether a learner has all that is committed.
    pub(super) fn next_step(
        &mut self,
        at: Situation<'_>,
        has_caught_up: impl Fn(u64) -> bool,
    ) -> Option<VoterChange> {
        self.observe(at);
        if at.voters.is_joint() {
            return Some(VoterChange::Leave);
        }
        if !at.voters.learners.is_empty() {
            let step = self.go_on(at, has_caught_up);
            if let Some(VoterChange::Dismiss { id }) = step
                && let Some(learner) = at.voters.by_id(id)
            {
                // Whoever asked for it asks again.
                self.request = None;
                self.dismissed.insert(learner.site.clone(), at.now);
            }
            return step;
        }
        if let Some(request) = self.request.clone() {
            let step = if self.is_done(&request, at) { None } else { self.plan(&request, at).ok() };
            if step.is_none() {
                self.request = None;
            }
            return step;
        }
        let auto = at.timing.auto?;
        let is_settled = self.since.is_some_and(|since| at.now.since(since) >= auto.stable_after);
        if is_settled && self.older(at.view).is_empty() { self.improve(at, auto) } else { None }
    }

    /// Returns the next step of a change that is under way.
    fn go_on(&self, at: Situation<'_>, has_caught_up: impl Fn(u64) -> bool) -> Option<VoterChange> {
        let Situation { voters, view, now, timing, .. } = at;
        let lasts =
            |since: Option<&Time>| since.is_some_and(|since| now.since(*since) >= timing.learner_timeout);
        let has_disk = |learner: &Voter| {
            self.claim(&learner.site, view).is_some_and(|(_, claim)| Some(claim.disk) == learner.disk)
        };
        let is_lost = |learner: &&Voter| {
            let is_away = lasts(self.absent_since.get(&learner.id)) && !self.is_there(learner, at);
            let is_slow = lasts(self.learner_since.get(&learner.id)) && !has_caught_up(learner.id);
            // A site that takes part with another disk has lost that one.
            let is_other = self.claim(&learner.site, view).is_some() && !has_disk(learner);
            is_away || is_slow || is_other
        };
        if let Some(lost) = voters.learners.iter().find(is_lost) {
            return Some(VoterChange::Dismiss { id: lost.id });
        }
        if voters.learners.len() < usize::from(voters.wanted) {
            let next = self.candidates(at, Span::ZERO).into_iter().next();
            let first = voters.learners.first()?;
            let Some((site, disk)) = next else { return Some(VoterChange::Dismiss { id: first.id }) };
            let (replaced, wanted) = (voters.replaced, voters.wanted);
            return Some(VoterChange::Admit { site, disk, replaced, wanted });
        }
        let remove = voters.replaced;
        let is_ready = |learner: &Voter| self.is_there(learner, at) && has_caught_up(learner.id);
        if !voters.learners.iter().all(is_ready) {
            return None;
        }
        self.settled(at, remove, VoterChange::Enter { remove, on_request: false }).ok()
    }

    /// Returns the first step of a change that makes a member a voter, perhaps in the place of another one.
    fn admission(
        &self,
        site: &SiteName,
        replaced: Option<u64>,
        at: Situation<'_>,
    ) -> Result<VoterChange, VoterRefusal> {
        let claim = self.claim(site, at.view).ok_or_else(|| VoterRefusal::NotMember(site.clone()))?;
        let disk = claim.1.disk;
        // No site stops being a voter that is still counted: what it has promised would be forgotten.
        let is_voter = |voter: &Voter| claim.1.acts_as == Some(voter.id) || voter.disk == Some(disk);
        if at.voters.everyone().any(|voter| voter.site == *site && is_voter(voter)) {
            return Err(VoterRefusal::Votes(site.clone()));
        }
        let admit = VoterChange::Admit { site: site.clone(), disk, replaced, wanted: 1 };
        self.settled(at, replaced, admit)
    }

    /// Returns `step`, or the one that must come before it: who stays when `remove` goes must be bound to a disk. The step is refused if
    /// too few of those that decide afterwards are there.
    fn settled(
        &self,
        at: Situation<'_>,
        remove: Option<u64>,
        step: VoterChange,
    ) -> Result<VoterChange, VoterRefusal> {
        let Situation { voters, view, .. } = at;
        let staying = || voters.voters.iter().filter(move |voter| Some(voter.id) != remove);
        // Whoever is about to be admitted takes part; that it acts as the voter is asked before it becomes one.
        let newcomers = usize::from(matches!(step, VoterChange::Admit { .. }));
        let next: Vec<&Voter> = staying().chain(&voters.learners).collect();
        let there = next.iter().filter(|voter| self.is_there(voter, at)).count() + newcomers;
        let is_enough = 2 * there > next.len() + newcomers || mutant::is_on(Mutant::MinorityPromoted);
        if !is_enough {
            return Err(VoterRefusal::NoMajority);
        }
        let disk = |voter: &Voter| {
            let claimed = self.claim(&voter.site, view).filter(|_| self.is_there(voter, at));
            let disk = claimed.map(|(_, claim)| claim.disk).or_else(|| self.recorded_disk(voter, at));
            disk.ok_or_else(|| VoterRefusal::DiskUnknown(voter.site.clone()))
        };
        let mut first = None;
        for voter in staying().filter(|voter| voter.disk.is_none()) {
            let settle = VoterChange::Settle { id: voter.id, disk: disk(voter)? };
            first.get_or_insert(settle);
        }
        Ok(first.unwrap_or(step))
    }
}

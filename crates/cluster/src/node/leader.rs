//! The duties of a leader besides leading the log: it grants leases, and decides on the next view.
//!
//! Everything here begins with an election and ends with the leadership. Only one view is proposed at a time, and from
//! the moment of the proposal no member that it leaves out is granted a lease: so a member that is left out when the
//! view is agreed on has no lease, whichever leader completes the proposal. (A later leader that has the proposal in
//! its log applies it before it is confirmed as leader, hence before it grants anything; one that does not have it
//! makes it void.)

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Epoch;

use super::agreed_access::AccessDuty;
use super::autopilot::Pilot;
use super::rival::Rival;
use crate::address::Address;
use crate::lease::{LeaseGrants, Renewal};
use crate::membership::{Round, Term};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::rules::{Rules, RulesError, RulesText};
use crate::time::{Span, Time};
use crate::view::View;

/// Rules that a member asked for.
#[derive(Clone, Debug)]
pub(super) struct WantedRules {
    /// The version of the rules at the time of the request.
    pub(super) base: u64,
    pub(super) rules: RulesText,
}

/// One leadership.
#[derive(Clone, Debug)]
pub(super) struct Leadership {
    site: SiteName,
    pub(super) term: Term,
    pub(super) grants: LeaseGrants,
    /// Renewals that came after the last round of confirmation began.
    waiting: Vec<(Member, Renewal)>,
    /// Incarnations that asked to join since then and are too old, one for each site.
    outdated: BTreeMap<SiteName, Incarnation>,
    round: Option<Confirmation>,
    last_round: Round,
    joiners: BTreeMap<SiteName, Joiner>,
    /// The members that each member cannot reach, by its last report, as far as that counts.
    reports: BTreeMap<Member, Vec<Member>>,
    contacts: BTreeMap<Member, Contact>,
    /// Since when each member (the first one) has reported another one in all of its reports.
    first_reports: BTreeMap<(Member, Member), Time>,
    /// Processes that ask to join under the names of members, one for each.
    pub(super) rivals: BTreeMap<SiteName, Rival>,
    /// Since when each member that asks for renewals has not had a lease, or the current view: it does not receive what
    /// it is sent.
    out_of_step: BTreeMap<Member, Time>,
    /// Since when each member has wanted to leave that has given up its lease.
    leaving: BTreeMap<Member, Time>,
    /// The view that is in the log and not yet agreed on.
    pub(super) pending: Option<View>,
    /// The view in which a member has reported that a lock is ready to run again.
    pub(super) drained: Option<Epoch>,
    /// Whether a view was needed for which there is no number left.
    pub(super) exhausted: bool,
    /// The rules that were asked for.
    pub(super) rules: Option<WantedRules>,
    /// What it knows of members that vote or could.
    pub(super) pilot: Pilot,
    /// What it knows of members and the access document.
    pub(super) access: AccessDuty,
}

/// The renewals of one member that came without a gap in which it may have been stopped or cut off.
#[derive(Clone, Copy, Debug)]
struct Contact {
    since: Time,
    last: Time,
}

/// A round in which leadership is confirmed, and the renewals that came before it began.
#[derive(Clone, Debug)]
struct Confirmation {
    round: Round,
    /// When the round is started again. The time doubles, up to fourfold: where the network is slower than was thought,
    /// a round must not be given up again and again while its answers are on their way.
    retry_at: Time,
    /// How often in a row it was started again.
    retries: u32,
    renewals: Vec<(Member, Renewal)>,
    outdated: BTreeMap<SiteName, Incarnation>,
}

/// Maximum number of times that the time before a round is started again is doubled.
const MAX_DOUBLINGS: u32 = 2;

/// The answers of a confirmed leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// The renewals that are granted.
    pub(super) granted: Vec<(Member, Renewal)>,
    /// The incarnations that are too old, each with the last one of its site.
    pub(super) outdated: Vec<(Member, Incarnation)>,
}

/// Maximum number of sites with outdated incarnations that are answered in one round; the others ask again.
const MAX_OUTDATED: usize = 64;

#[derive(Clone, Debug)]
struct Joiner {
    member: Member,
    address: Address,
    reached: BTreeSet<Member>,
    since: Time,
    asked_at: Time,
}

/// The timing of a leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaderTiming {
    /// How long it waits for more sites to join before it admits the first.
    pub(super) gather: Span,
    /// How long it waits for more members to leave before it excludes the first.
    pub(super) gather_leaving: Span,
    /// The number of initial sites of the cluster: once that many take part or ask to join, it does not wait.
    pub(super) expected: usize,
    /// After how long a site that has not asked again is no longer considered for joining.
    pub(super) forget_joiner: Span,
    /// Time without an answer after which a round of confirmation is started again.
    pub(super) retry_round: Span,
    /// Maximum number of past incarnations that a view lists.
    pub(super) max_past: usize,
}

impl Leadership {
    /// Begins a leadership. Its rounds are numbered apart from those of any other.
    pub(super) fn new(site: SiteName, term: Term, grants: LeaseGrants) -> Self {
        Leadership {
            site,
            term,
            grants,
            waiting: Vec::new(),
            outdated: BTreeMap::new(),
            round: None,
            last_round: Round(term.0 << 32),
            joiners: BTreeMap::new(),
            reports: BTreeMap::new(),
            contacts: BTreeMap::new(),
            first_reports: BTreeMap::new(),
            rivals: BTreeMap::new(),
            out_of_step: BTreeMap::new(),
            leaving: BTreeMap::new(),
            pending: None,
            drained: None,
            exhausted: false,
            rules: None,
            pilot: Pilot::default(),
            access: AccessDuty::default(),
        }
    }

    /// Handles a member's request for a renewal, with the members that it has not reached for
    /// [`Terms::longest_pause`](crate::lease::Terms::longest_pause) or longer.
    ///
    /// A report counts only between two members that were both in contact with this leader for all of that time. Otherwise one of them
    /// was stopped or cut off, which explains the report: if it is still silent its lease ends without a decision of this leader, and if it
    /// is not, the two may reach each other by now. If they still do not after the length of a lease, it counts all the same: their clocks may
    /// be so slow that their renewals seem rare.
    pub(super) fn on_renew(
        &mut self,
        member: Member,
        renewal: Renewal,
        mut unreachable: Vec<Member>,
        now: Time,
    ) {
        let max_gap = self.max_gap();
        let contact = self.contacts.entry(member.clone()).or_insert(Contact { since: now, last: now });
        if now.since(contact.last) > max_gap {
            contact.since = now;
        }
        contact.last = now;
        self.grants.on_asked(&member, now);
        self.first_reports.retain(|(by, of), _| *by != member || unreachable.contains(of));
        for other in &unreachable {
            self.first_reports.entry((member.clone(), other.clone())).or_insert(now);
        }
        if !mutant::is_on(Mutant::ReportedMemberRefused) {
            unreachable.retain(|other| self.is_report_valid(&member, other, now));
        }
        self.reports.insert(member.clone(), unreachable);
        self.waiting.retain(|(other, _)| *other != member);
        self.waiting.push((member, renewal));
    }

    fn is_report_valid(&self, by: &Member, of: &Member, now: Time) -> bool {
        let terms = self.grants.terms();
        let is_heard = |member: &Member| {
            self.contacts.get(member).is_some_and(|contact| now.since(contact.since) >= terms.longest_pause())
        };
        let lasts = |since: &Time| now.since(*since) >= terms.length;
        let key = (by.clone(), of.clone());
        is_heard(by) && is_heard(of) && self.is_in_contact(of, now)
            || self.first_reports.get(&key).is_some_and(lasts) && !mutant::is_on(Mutant::LastingReportIgnored)
    }

    /// Returns the longest time between two renewals of a member after which it still counts as heard from all the time: a shorter
    /// silence does not explain a report.
    pub(super) fn max_gap(&self) -> Span {
        self.grants.terms().longest_pause()
    }

    pub(super) fn is_in_contact(&self, member: &Member, now: Time) -> bool {
        self.contacts.get(member).is_some_and(|contact| now.since(contact.last) <= self.max_gap())
    }

    /// Returns when a member has last asked for a renewal.
    pub(super) fn last_contact(&self, member: &Member) -> Option<Time> {
        self.contacts.get(member).map(|contact| contact.last)
    }

    /// Records whether a member has what it was sent last: its lease and the view.
    pub(super) fn on_in_step(&mut self, member: &Member, in_step: bool, now: Time) {
        if in_step {
            self.out_of_step.remove(member);
        } else {
            self.out_of_step.entry(member.clone()).or_insert(now);
        }
    }

    /// Handles a member's request to leave: it holds nothing, and has given up its lease.
    ///
    /// Members that leave at about the same time are excluded by one view. If all sites of a cluster are stopped at once, each of them
    /// has left when that view is agreed on; after a view for each of them, the last one could not get a majority any more, because the
    /// voters before it would be gone.
    pub(super) fn on_leave(&mut self, member: Member, now: Time) {
        self.grants.on_gave_up(&member);
        self.leaving.entry(member).or_insert(now);
    }

    /// Returns until when the next view waits for more members to leave, if some leave and others do not.
    fn waits_for_leaving(&self, view: &View, timing: LeaderTiming) -> Option<Time> {
        let all_leave = view.members.iter().all(|member| self.leaving.contains_key(member));
        let first = self.leaving.values().min().filter(|_| !all_leave)?;
        Some(*first + timing.gather_leaving)
    }

    /// Returns the sites that asked to leave and are not in `view`.
    pub(super) fn left_with(&self, view: &View) -> Vec<SiteName> {
        let left = self.leaving.keys().filter(|member| !view.contains(member));
        left.map(|member| member.site.clone()).collect()
    }

    /// Handles a request for other rules, based on version `base` of those of `view`.
    pub(super) fn on_rules(&mut self, base: u64, rules: RulesText, view: &View) -> Result<(), RulesError> {
        let rules = Rules::new(rules)?;
        rules.fit(view.members.len().max(1))?;
        // If other rules are under way, this request is about rules that nobody has seen yet.
        let version = self.pending.as_ref().map_or(view.rules_version, |next| next.rules_version);
        if base == version && view.epoch > Epoch::default() {
            self.rules = Some(WantedRules { base, rules: rules.text().clone() });
        }
        Ok(())
    }

    /// Handles a site's request to join.
    pub(super) fn on_join(&mut self, member: Member, address: Address, reached: Vec<Member>, now: Time) {
        let known = self.joiners.get(&member.site);
        if known.is_some_and(|known| known.member.incarnation > member.incarnation) {
            return;
        }
        let since = known.filter(|known| known.member == member).map_or(now, |known| known.since);
        let reached = reached.into_iter().collect();
        self.joiners.insert(member.site.clone(), Joiner { member, address, reached, since, asked_at: now });
    }

    /// Forgets who asks to join. Each of them asks again, and is judged by what has changed meanwhile.
    pub(super) fn forget_joiners(&mut self) {
        self.joiners.clear();
    }

    /// Forgets that a site asks to join.
    pub(super) fn forget_joiner(&mut self, site: &SiteName) {
        self.joiners.remove(site);
    }

    /// Handles a request to join from an incarnation that is too old for the view that this leader knows.
    ///
    /// The site is told its last incarnation, and takes the next one. That one must not have taken part before, though
    /// the site has forgotten its own incarnations. So the answer comes from a confirmed leader: every view in which an
    /// incarnation of the site took part, and knew of it, had been agreed on before the process of that incarnation
    /// ended, hence before the site asked.
    pub(super) fn on_outdated(&mut self, member: Member) {
        if self.outdated.len() < MAX_OUTDATED || self.outdated.contains_key(&member.site) {
            self.outdated.insert(member.site, member.incarnation);
        }
    }

    /// Returns the round of confirmation to begin now, if anyone waits for one.
    pub(super) fn begin_round(&mut self, now: Time, timing: LeaderTiming) -> Option<Round> {
        let stuck = self.round.as_ref().is_some_and(|round| now >= round.retry_at);
        let nobody = self.waiting.is_empty() && self.outdated.is_empty();
        if self.round.is_some() && !stuck || self.round.is_none() && nobody {
            return None;
        }
        let last = self.round.take();
        let retries = last.as_ref().map_or(0, |round| (round.retries + 1).min(MAX_DOUBLINGS));
        let (mut renewals, mut outdated) =
            last.map(|round| (round.renewals, round.outdated)).unwrap_or_default();
        let newer = &self.waiting;
        renewals.retain(|(member, _)| newer.iter().all(|(other, _)| other != member));
        renewals.append(&mut self.waiting);
        outdated.append(&mut self.outdated);
        self.last_round = Round(self.last_round.0 + 1);
        let retry_at = now + timing.retry_round.times(1 << retries);
        self.round = Some(Confirmation { round: self.last_round, retry_at, retries, renewals, outdated });
        Some(self.last_round)
    }

    /// Returns the members whose renewals the last round is for, if it is this one; nobody, if another one has begun or it is confirmed:
    /// it grants nothing any more.
    pub(super) fn listed(&self, round: Option<u64>) -> impl Iterator<Item = &Member> {
        let is_last = move |last: &&Confirmation| round.is_none_or(|round| last.round.0 == round);
        let last = self.round.as_ref().filter(is_last);
        last.into_iter().flat_map(|round| round.renewals.iter().map(|(member, _)| member))
    }

    /// Reacts to the confirmation of leadership for `round`: returns the renewals that are granted now, and the
    /// incarnations that are told that they are too old.
    pub(super) fn on_confirmed(&mut self, round: Round, view: &View, now: Time) -> Answers {
        let Some(confirmation) = self.round.take_if(|current| current.round == round) else {
            return Answers::default();
        };
        let to_exclude = self.to_exclude(view, now);
        let stays = |member: &Member| self.pending.as_ref().is_none_or(|next| next.contains(member));
        let mut granted = confirmation.renewals;
        if mutant::is_on(Mutant::GrantedByEarlierRound) {
            granted.append(&mut self.waiting);
        }
        granted.retain(|(member, _)| view.contains(member) && stays(member) && !to_exclude.contains(member));
        granted.retain(|(member, _)| self.grants.grant(member, now));
        let outdated = confirmation.outdated.into_iter();
        let outdated = outdated.map(|(site, incarnation)| Member { site, incarnation });
        let outdated = outdated.filter(|member| !view.may_join(member) && !view.contains(member));
        let outdated = outdated.filter(|member| self.is_name_free(&member.site, view, now));
        let outdated = outdated.map(|member| (member.clone(), view.last_incarnation(&member.site))).collect();
        Answers { granted, outdated }
    }

    /// Reacts to `view` having been agreed on.
    pub(super) fn on_agreed(&mut self, view: &View, now: Time) {
        let is_own = self.pending.as_ref() == Some(view);
        // Whatever is proposed follows on the view that was agreed on last. So another view that is agreed on makes it void, also if its
        // epoch is lower: first views have epochs of their leaders' choice.
        self.pending = None;
        self.grants.on_agreed(&view.members, view.terms, is_own, now);
        self.reports.retain(|member, _| view.contains(member));
        self.contacts.retain(|member, _| view.contains(member));
        self.pilot.on_agreed(view);
        self.access.on_agreed(view);
        self.first_reports.retain(|(by, of), _| view.contains(by) && view.contains(of));
        self.rivals.retain(|site, _| view.member(site).is_some());
        self.out_of_step.retain(|member, _| view.contains(member));
        self.leaving.retain(|member, _| view.contains(member));
        self.joiners.retain(|_, joiner| view.may_join(&joiner.member));
        // This also drops rules that were asked for while other ones were under way: whoever asked is told to look at
        // the new ones first.
        self.rules = self.rules.take().filter(|wanted| wanted.base == view.rules_version);
    }

    /// Returns the members whose leases should run out, so that the others can go on: each member that speaks to the
    /// leader but has not received anything from it for as long as a lease lasts, and at least one of any two members
    /// of which one cannot reach the other. Of those, the member with the most such conflicts is chosen repeatedly;
    /// among equals, the leader itself comes last. A member that does not renew its lease decides nothing: it goes by itself.
    fn to_exclude(&self, view: &View, now: Time) -> BTreeSet<Member> {
        let in_contact_since = |member: &Member| self.contacts.get(member).map_or(Time::ZERO, |of| of.since);
        let long = |member: &Member, since: Time| {
            now.since(since.max(in_contact_since(member))) >= self.grants.terms().length
        };
        let mut to_exclude: BTreeSet<Member> = self
            .out_of_step
            .iter()
            .filter(|(member, since)| long(member, **since))
            .map(|(member, _)| member.clone())
            .collect();
        let counts = |member: &Member| {
            let renews = self.is_in_contact(member, now) || mutant::is_on(Mutant::DeadMemberCounts);
            renews && !to_exclude.contains(member)
        };
        let mut odds: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (reporter, unreachable) in self.reports.iter().filter(|(member, _)| counts(member)) {
            let unreachable = unreachable.iter().filter(|member| counts(member));
            let Some(a) = view.place(reporter) else { continue };
            for b in unreachable.filter_map(|member| view.place(member)).filter(|&b| b != a) {
                odds.insert((a.min(b), a.max(b)));
            }
        }
        while !odds.is_empty() {
            let mut count = vec![0_usize; view.members.len()];
            for &(a, b) in &odds {
                count[a] += 1;
                count[b] += 1;
            }
            let rank = |&place: &usize| (count[place], view.members[place].site != self.site, place);
            let worst = (0..count.len()).max_by_key(rank).unwrap_or(0);
            odds.retain(|&(a, b)| a != worst && b != worst);
            to_exclude.insert(view.members[worst].clone());
        }
        to_exclude
    }

    /// Returns when to look again: when a member that leaves or is not renewed can be excluded, or a joiner admitted.
    pub(super) fn next_due(&self, view: &View, now: Time, timing: LeaderTiming) -> Option<Time> {
        let over = view.members.iter().map(|member| self.grants.over_at(member));
        let joins = self.joiners.values().map(|joiner| joiner.since + timing.gather);
        let retry = self.round.as_ref().map(|round| round.retry_at);
        let leaves = self.waits_for_leaving(view, timing);
        over.chain(joins).chain(retry).chain(leaves).filter(|due| *due > now).min()
    }

    /// Returns the view that should follow `view`, if one should.
    pub(super) fn next_view(
        &mut self,
        view: &View,
        first_rules: &RulesText,
        now: Time,
        timing: LeaderTiming,
    ) -> Option<View> {
        if self.pending.is_some() || self.waits_for_leaving(view, timing).is_some_and(|until| now < until) {
            return None;
        }
        if !mutant::is_on(Mutant::JoinerNotForgotten) {
            self.joiners.retain(|_, joiner| now.since(joiner.asked_at) < timing.forget_joiner);
        }
        let (first, drained) = (view.epoch == Epoch::default(), self.drained == Some(view.epoch));
        if !first
            && !drained
            && self.rules.is_none()
            && self.joiners.is_empty()
            && !view.members.iter().any(|member| self.grants.is_over(member, now))
        {
            // Most calls end here, before anything is copied.
            return None;
        }
        let mut members: Vec<Member> =
            view.members.iter().filter(|member| !self.grants.is_over(member, now)).cloned().collect();
        let to_exclude = self.to_exclude(view, now);
        let must_reach: Vec<Member> =
            members.iter().filter(|member| !to_exclude.contains(member)).cloned().collect();
        let complete = members.len() + self.joiners.len() >= timing.expected;
        let mut addresses = view.addresses.clone();
        for joiner in self.joiners.values() {
            let fresh = members.iter().all(|member| member.site != joiner.member.site);
            let reaches_leader = joiner.member.site == self.site
                || joiner.reached.iter().any(|member| member.site == self.site);
            let connected = reaches_leader && must_reach.iter().all(|member| joiner.reached.contains(member));
            if fresh && connected && (complete || now.since(joiner.since) >= timing.gather) {
                members.push(joiner.member.clone());
                addresses.insert(joiner.member.site.clone(), joiner.address.clone());
            }
        }
        members.sort();
        let current = if first { first_rules } else { &view.rules };
        let rules = self.rules.as_ref().map_or(current, |wanted| &wanted.rules).clone();
        if first && members.is_empty() || members == view.members && rules == view.rules && !drained {
            return None;
        }
        let Some(epoch) = Epoch::new(view.epoch.number() + 1) else {
            self.exhausted = true;
            return None;
        };
        let rules_version = view.rules_version + u64::from(rules != view.rules && !first);
        let terms = self.grants.terms();
        let (past, floor) = view.past_without(&members, timing.max_past);
        let floor = if mutant::is_on(Mutant::PastForgotten) { view.floor } else { floor };
        addresses.retain(|site, _| members.iter().any(|member| member.site == *site));
        Some(View { epoch, members, past, floor, addresses, terms, rules, rules_version })
    }
}

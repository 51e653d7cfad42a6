//! What a leader does besides leading the log: grants leases, and decides which view comes next.
//!
//! Everything here begins with an election and ends with the leadership. A view is proposed only one at a time, and from
//! the moment of the proposal nobody whom it leaves out is granted anything: so whoever is left out when the view is
//! agreed on has no lease, whichever leader brings it about. (A later leader that has the proposal in its log applies it before
//! it is confirmed as leader, hence before it grants anything; one that does not have it makes it void.)

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use meshlock_protocol::Epoch;

use crate::address::Address;
use crate::lease::{LeaseGrants, Renewal};
use crate::membership::{Round, Term};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::rules::RulesText;
use crate::time::{Span, Time};
use crate::view::View;

/// Rules that a member asked for.
#[derive(Clone, Debug)]
pub(super) struct WantedRules {
    /// How often the rules had changed when it did.
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
    /// Lives that came since and are too old to be let in, one a site.
    outdated: BTreeMap<SiteName, Incarnation>,
    round: Option<Confirmation>,
    last_round: Round,
    joiners: BTreeMap<SiteName, Joiner>,
    /// Whom each member cannot reach, as it said last.
    reports: BTreeMap<Member, Vec<Member>>,
    /// Since when members that ask for renewals have not had a lease, or the view: they do not hear what they are told.
    deaf: BTreeMap<Member, Time>,
    /// The view that is in the log and not yet agreed on.
    pub(super) pending: Option<View>,
    /// The view in which a member has said that a lock is ready to run again.
    pub(super) drained: Option<Epoch>,
    /// Whether a view was wanted for which there is no number.
    pub(super) exhausted: bool,
    /// Rules that were asked for.
    pub(super) rules: Option<WantedRules>,
}

/// A round in which leadership is confirmed, and the renewals that came before it began.
#[derive(Clone, Debug)]
struct Confirmation {
    round: Round,
    since: Time,
    renewals: Vec<(Member, Renewal)>,
    outdated: BTreeMap<SiteName, Incarnation>,
}

/// What a confirmed leader may say to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// These renewals are granted.
    pub(super) granted: Vec<(Member, Renewal)>,
    /// These lives are too old, and this is the last one of the site.
    pub(super) outdated: Vec<(Member, Incarnation)>,
}

/// How many sites whose lives are too old are answered in one round; others ask again.
const MAX_OUTDATED: usize = 64;

#[derive(Clone, Debug)]
struct Joiner {
    member: Member,
    address: Address,
    reached: BTreeSet<Member>,
    since: Time,
    heard: Time,
}

/// How the leader paces itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tempo {
    /// How long it waits for more sites to join before it lets the first in.
    pub(super) gather: Span,
    /// How many sites the cluster began with: once so many are here or want in, it does not wait.
    pub(super) expected: usize,
    /// After how long a site that has not asked again does not want in any more.
    pub(super) forget_joiner: Span,
    /// After how long without an answer a round of confirmation is begun anew.
    pub(super) retry_round: Span,
    /// How many past lives views list.
    pub(super) longest_past: usize,
}

impl Leadership {
    /// A leadership begins. Its rounds are numbered apart from those of any other.
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
            deaf: BTreeMap::new(),
            pending: None,
            drained: None,
            exhausted: false,
            rules: None,
        }
    }

    /// A member asks for a renewal and says whom it cannot reach.
    pub(super) fn on_renew(&mut self, member: Member, renewal: Renewal, unreachable: Vec<Member>) {
        self.reports.insert(member.clone(), unreachable);
        self.waiting.retain(|(other, _)| *other != member);
        self.waiting.push((member, renewal));
    }

    /// A member has shown whether it has what it was told last: its lease, the view.
    pub(super) fn on_heard(&mut self, member: &Member, in_step: bool, now: Time) {
        if in_step {
            self.deaf.remove(member);
        } else {
            self.deaf.entry(member.clone()).or_insert(now);
        }
    }

    /// A site asks to be let in.
    pub(super) fn on_join(&mut self, member: Member, address: Address, reached: Vec<Member>, now: Time) {
        let known = self.joiners.get(&member.site);
        if known.is_some_and(|known| known.member.incarnation > member.incarnation) {
            return;
        }
        let since = known.filter(|known| known.member == member).map_or(now, |known| known.since);
        let reached = reached.into_iter().collect();
        self.joiners.insert(member.site.clone(), Joiner { member, address, reached, since, heard: now });
    }

    /// A site asks to be let in with a incarnation that is too old for the view that this leader knows.
    ///
    /// It is told the last incarnation of its site, and takes the next one. That must not have taken part before, though the site
    /// has forgotten its own lives. So the answer comes from a confirmed leader: every view in which a incarnation of the site took
    /// part, and knew of it, had been agreed on before the process of that incarnation ended, hence before the site asked.
    pub(super) fn on_outdated(&mut self, member: Member) {
        if self.outdated.len() < MAX_OUTDATED || self.outdated.contains_key(&member.site) {
            self.outdated.insert(member.site, member.incarnation);
        }
    }

    /// The round of confirmation to begin now, if anyone waits for one.
    pub(super) fn begin_round(&mut self, now: Time, tempo: Tempo) -> Option<Round> {
        let stuck = self.round.as_ref().is_some_and(|round| now.since(round.since) >= tempo.retry_round);
        let nobody = self.waiting.is_empty() && self.outdated.is_empty();
        if self.round.is_some() && !stuck || self.round.is_none() && nobody {
            return None;
        }
        let (mut renewals, mut outdated) =
            self.round.take().map(|round| (round.renewals, round.outdated)).unwrap_or_default();
        let newer = &self.waiting;
        renewals.retain(|(member, _)| newer.iter().all(|(other, _)| other != member));
        renewals.append(&mut self.waiting);
        outdated.append(&mut self.outdated);
        self.last_round = Round(self.last_round.0 + 1);
        self.round = Some(Confirmation { round: self.last_round, since: now, renewals, outdated });
        Some(self.last_round)
    }

    /// Leadership is confirmed for `round`: the renewals that may be granted, which are granted now, and who is told that its
    /// incarnation is too old.
    pub(super) fn on_confirmed(&mut self, round: Round, view: &View, now: Time) -> Answers {
        let Some(confirmation) = self.round.take_if(|current| current.round == round) else {
            return Answers::default();
        };
        let condemned = self.condemned(view, now);
        let stays = |member: &Member| self.pending.as_ref().is_none_or(|next| next.contains(member));
        let mut granted = confirmation.renewals;
        granted.retain(|(member, _)| view.contains(member) && stays(member) && !condemned.contains(member));
        granted.retain(|(member, _)| self.grants.grant(member, now));
        let outdated = confirmation.outdated.into_iter();
        let outdated = outdated.map(|(site, incarnation)| Member { site, incarnation });
        let outdated = outdated.filter(|member| !view.may_join(member) && !view.contains(member));
        let outdated = outdated.map(|member| (member.clone(), view.last_incarnation(&member.site))).collect();
        Answers { granted, outdated }
    }

    /// The voters have agreed on `view`.
    pub(super) fn on_agreed(&mut self, view: &View, now: Time) {
        self.pending = self.pending.take().filter(|pending| pending.epoch > view.epoch);
        self.grants.on_agreed(&view.members, view.terms, now);
        self.reports.retain(|member, _| view.contains(member));
        self.deaf.retain(|member, _| view.contains(member));
        self.joiners.retain(|_, joiner| view.may_join(&joiner.member));
        // Also those that were asked for while other ones were on their way: whoever did so is told to look again.
        self.rules = self.rules.take().filter(|wanted| wanted.base == view.rules_version);
    }

    /// Whose lease should run out, so that the others can go on: whoever speaks to the leader but has not heard it for as
    /// long as a lease lasts, and of any two members of which one cannot reach the other,
    /// at least one. Again and again the one that most others are at odds with, and of several such rather another than
    /// the leader itself.
    fn condemned(&self, view: &View, now: Time) -> BTreeSet<Member> {
        let long = |since: &Time| now.since(*since) >= self.grants.terms().length;
        let mut condemned: BTreeSet<Member> =
            self.deaf.iter().filter(|(_, since)| long(since)).map(|(member, _)| member.clone()).collect();
        let mut odds: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (reporter, unreachable) in self.reports.iter().filter(|(member, _)| !condemned.contains(member)) {
            let unreachable = unreachable.iter().filter(|member| !condemned.contains(member));
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
            condemned.insert(view.members[worst].clone());
        }
        condemned
    }

    /// When a member that is not renewed can be left out, or a joiner be let in: when to look again.
    pub(super) fn next_due(&self, view: &View, now: Time, tempo: Tempo) -> Option<Time> {
        let over = view.members.iter().map(|member| self.grants.over_at(member));
        let joins = self.joiners.values().map(|joiner| joiner.since + tempo.gather);
        let retry = self.round.as_ref().map(|round| round.since + tempo.retry_round);
        over.chain(joins).chain(retry).filter(|due| *due > now).min()
    }

    /// The view that should follow on `view`, if any should.
    pub(super) fn next_view(
        &mut self,
        view: &View,
        first_rules: &RulesText,
        now: Time,
        tempo: Tempo,
    ) -> Option<View> {
        if self.pending.is_some() {
            return None;
        }
        self.joiners.retain(|_, joiner| now.since(joiner.heard) < tempo.forget_joiner);
        let mut members: Vec<Member> =
            view.members.iter().filter(|member| !self.grants.is_over(member, now)).cloned().collect();
        let condemned = self.condemned(view, now);
        let must_reach: Vec<Member> =
            members.iter().filter(|member| !condemned.contains(member)).cloned().collect();
        let complete = members.len() + self.joiners.len() >= tempo.expected;
        let mut addresses = view.addresses.clone();
        for joiner in self.joiners.values() {
            let fresh = members.iter().all(|member| member.site != joiner.member.site);
            let hears_leader = joiner.member.site == self.site
                || joiner.reached.iter().any(|member| member.site == self.site);
            let connected = hears_leader && must_reach.iter().all(|member| joiner.reached.contains(member));
            if fresh && connected && (complete || now.since(joiner.since) >= tempo.gather) {
                members.push(joiner.member.clone());
                addresses.insert(joiner.member.site.clone(), joiner.address.clone());
            }
        }
        members.sort();
        let drained = self.drained == Some(view.epoch);
        let first = view.epoch == Epoch::default();
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
        let (past, floor) = view.past_without(&members, tempo.longest_past);
        let floor = if mutant::is_on(Mutant::PastForgotten) { view.floor } else { floor };
        addresses.retain(|site, _| members.iter().any(|member| member.site == *site));
        Some(View { epoch, members, past, floor, addresses, terms, rules, rules_version })
    }
}

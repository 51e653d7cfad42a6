//! What a node knows when it cannot serve its clients: whom it has heard from, and how long replies usually take.

use std::collections::BTreeMap;

use super::packet::Content;
use super::questions::{PeerQuestion, QuestionId};
use super::{Departure, Node, NodeOutput, Note, Standing};
use crate::membership::voters::Voter;
use crate::names::{LockName, SiteName};
use crate::report::SiteQueue;
use crate::table::{MAX_REPLY_TIMEOUT, MIN_REPLY_TIMEOUT, Obstacle, Outage, VotersInReach};
use crate::time::{Span, Time};
use crate::view::View;

/// When each voter and member was last heard from.
#[derive(Debug, Default)]
pub(super) struct LastHeard(BTreeMap<SiteName, Time>);

impl LastHeard {
    fn at(&self, site: &SiteName) -> Option<Time> {
        self.0.get(site).copied()
    }

    /// Returns every site that was heard from, and when.
    pub(super) fn all(&self) -> impl Iterator<Item = (&SiteName, Time)> {
        self.0.iter().map(|(site, at)| (site, *at))
    }
}

/// A question to all members who holds a lock, on behalf of clients of this site whose time is nearly over.
#[derive(Debug)]
pub(super) struct LockInquiry {
    question: QuestionId,
    lock: LockName,
    asked_at: Time,
}

impl Node {
    /// Notes that a packet has come from a site that votes or takes part.
    pub(super) fn on_heard(&mut self, site: &SiteName) {
        if let Some(at) = self.heard.0.get_mut(site) {
            *at = self.now;
        } else if self.votes(site) || self.view.member(site).is_some() {
            self.heard.0.insert(site.clone(), self.now);
        }
    }

    /// Forgets sites that neither vote nor take part any more.
    pub(super) fn forget_unheard(&mut self) {
        let (voters, view) = (&self.voters, &self.view);
        self.heard.0.retain(|site, _| voters.votes(site) || view.member(site).is_some());
    }

    /// Returns how long the replies of other sites may take: as long as a request takes that every member passes on, by
    /// the slowest round trip to any of them.
    pub(super) fn reply_timeout(&self) -> Span {
        let hops = self.view.members.len() as u64;
        let slowest = self.links.slowest_round_trip().unwrap_or(Span::ZERO);
        slowest.times(hops).clamp(MIN_REPLY_TIMEOUT, MAX_REPLY_TIMEOUT)
    }

    /// Asks all other members who holds a lock, for the lock table.
    pub(super) fn inquire(&mut self, lock: LockName, out: &mut Vec<NodeOutput>) {
        if !self.may_send {
            return;
        }
        let is_over = |inquiry: &LockInquiry| self.now.since(inquiry.asked_at) > MAX_REPLY_TIMEOUT;
        while self.inquiries.front().is_some_and(is_over) {
            self.inquiries.pop_front();
        }
        while self.inquiries.len() >= self.config.limits.inquiries.max(1) {
            self.inquiries.pop_front();
            self.forgotten_inquiries += 1;
        }
        let question = self.next_question();
        self.inquiries.push_back(LockInquiry { question, lock: lock.clone(), asked_at: self.now });
        for site in self.others() {
            self.send(site, Content::Ask { question, ask: PeerQuestion::Queue(lock.clone()) }, out);
        }
    }

    /// Returns how often an inquiry about a lock was forgotten for a newer one.
    pub fn forgotten_inquiries(&self) -> u64 {
        self.forgotten_inquiries
    }

    /// Handles a member's reply to such a question. Returns `false` if it is the reply to another one.
    pub(super) fn on_inquiry_reply(
        &mut self,
        from: &SiteName,
        question: QuestionId,
        queue: &SiteQueue,
        out: &mut Vec<NodeOutput>,
    ) -> bool {
        let of = |inquiry: &LockInquiry| inquiry.question.number;
        let Ok(at) = self.inquiries.binary_search_by_key(&question.number, of) else { return false };
        let LockInquiry { question: asked, lock, asked_at } = &self.inquiries[at];
        if *asked != question || queue.site != *from || !queue.is_bounded() {
            return false;
        }
        let (lock, took) = (lock.clone(), self.now.since(*asked_at));
        self.links.on_round_trip(from, took);
        let place = self.view.members.iter().position(|member| member.site == *from);
        // In another view the member may not know yet who holds the lock.
        if let Some(place) = place.filter(|_| queue.epoch == self.view.epoch) {
            self.in_table(out, |table, lease_clock, out| {
                table.on_report(place, &lock, &queue.lock, lease_clock, out);
            });
        }
        true
    }

    /// Returns whether this site reaches enough voters for the cluster to agree on anything.
    pub fn reaches_majority(&self) -> bool {
        self.voters_in_reach().is_majority()
    }

    /// Returns why no client of this site could be served now, even if its lock were free.
    pub fn outage(&self) -> Option<Outage> {
        let obstacle = if self.is_open() { Obstacle::NoLease } else { Obstacle::NoView };
        let serves = self.is_open() && self.lease.is_comfortable(self.now);
        (!serves).then(|| self.explain(obstacle))
    }

    /// Says what the lock table found in a client's way, with the names and numbers that are known here.
    pub(super) fn explain(&self, obstacle: Obstacle) -> Outage {
        let site = self.me.site.clone();
        match obstacle {
            Obstacle::NoLease => Outage::NoLease { site, voters: self.voters_in_reach() },
            Obstacle::NoView => match self.standing() {
                Standing::Awaits(silent) if self.lease.is_valid(self.now) => {
                    Outage::ViewChange { site, silent }
                }
                Standing::CannotOpen => Outage::UnknownRules { site },
                Standing::Outside => Outage::NotMember { site, voters: self.voters_in_reach() },
                Standing::Awaits(_) | Standing::Open => {
                    Outage::NoLease { site, voters: self.voters_in_reach() }
                }
            },
            Obstacle::Silent(places) => {
                let members = places.iter().filter_map(|place| self.view.members.get(*place));
                let sites: Vec<SiteName> = members.map(|member| member.site.clone()).collect();
                let last = sites.iter().filter_map(|site| self.heard.at(site)).max();
                Outage::Silent { sites, silence: self.now.since(last.unwrap_or_default()) }
            }
            Obstacle::NoAnswer(within) => Outage::NoAnswer { within },
        }
    }

    /// Notes that the lease has ended, once, unless this site leaves anyway.
    pub(super) fn note_lease_end(&mut self, out: &mut Vec<NodeOutput>) {
        let Some(end) = self.lease.end().filter(|end| *end <= self.now) else { return };
        if self.leaving.is_some() || self.lease_lost_at.is_some() {
            return;
        }
        self.lease_lost_at = Some(end);
        out.push(NodeOutput::Note(Note::LeaseEnded(self.voters_in_reach())));
        self.note_quorum(out);
    }

    /// Notes, once, that this site has no lease because too few voters are reachable. With a lease there is a leader,
    /// and a voter that is not the leader need not have heard from the others.
    pub(super) fn note_quorum(&mut self, out: &mut Vec<NodeOutput>) {
        let voters = self.voters_in_reach();
        if self.lease_lost_at.is_some() && !self.has_lost_quorum && !voters.is_majority() {
            self.has_lost_quorum = true;
            out.push(NodeOutput::Note(Note::QuorumLost(voters)));
        }
    }

    /// Notes that a lease was granted, if there was none.
    pub(super) fn note_lease(&mut self, out: &mut Vec<NodeOutput>) {
        if std::mem::take(&mut self.has_lost_quorum) {
            out.push(NodeOutput::Note(Note::QuorumRegained));
        }
        if let Some(since) = self.lease_lost_at.take() {
            out.push(NodeOutput::Note(Note::LeaseRegained { after: self.now.since(since) }));
        }
    }

    /// Notes which members of the view before have gone, and how.
    pub(super) fn note_departures(&mut self, before: &View, out: &mut Vec<NodeOutput>) {
        if self.view.contains(&self.me) {
            for member in before.members.iter().filter(|member| !self.view.contains(member)) {
                let how = if self.leavers.contains(member) {
                    Departure::Said
                } else if self.votes(&self.me.site) {
                    Departure::GivenUp
                } else {
                    Departure::Unknown
                };
                out.push(NodeOutput::Note(Note::Departed { member: member.clone(), how }));
            }
        }
        let view = &self.view;
        self.leavers.retain(|member| view.contains(member));
    }

    /// Returns how many voters this site has heard from lately. A voter that is known to have lost its disk does not vote. While voters
    /// change, those after the change are counted.
    pub(super) fn voters_in_reach(&self) -> VotersInReach {
        let in_reach = self.voters.voters.iter().filter(|voter| self.hears(&voter.site));
        let (replaced, voting): (Vec<&Voter>, Vec<&Voter>) =
            in_reach.partition(|voter| self.is_replaced(voter));
        VotersInReach { reached: voting.len(), voters: self.voters.voters.len(), replaced: replaced.len() }
    }

    /// Returns whether this site has heard lately from a voter's site, or is it.
    pub(super) fn hears(&self, site: &SiteName) -> bool {
        let lately = self.lately();
        *site == self.me.site || self.heard.at(site).is_some_and(|at| self.now.since(at) < lately)
    }

    /// Returns whether the voter is known not to vote because its disk was replaced.
    pub(super) fn is_replaced(&self, voter: &Voter) -> bool {
        let is_first = self.founding.by_id(voter.id).is_some();
        let acts = self.membership.as_ref().is_some_and(|membership| membership.id() == voter.id);
        if voter.site == self.me.site && !is_first {
            !acts
        } else {
            is_first && self.registration.is_replaced(&voter.site)
        }
    }

    /// Returns the time in which this site hears from every voter that it can reach. Voters that have no leader ask each
    /// other for votes again and again. Another site asks one voter after the other.
    fn lately(&self) -> Span {
        let election = self.config.tick.times(4 * self.config.pace.election as u64);
        if self.votes(&self.me.site) {
            return election;
        }
        election.max(self.lease.terms().renew_every.times(2 * self.voters.voters.len() as u64))
    }
}

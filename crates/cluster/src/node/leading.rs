//! The work of a node while it leads: requests to the leader, leases, the next view.

#[cfg(test)]
mod tests;

use meshlock_protocol::Epoch;

use super::leader::Leadership;
use super::packet::Content;
use super::{Node, NodeOutput, Note};
use crate::address::Address;
use crate::lease::LeaseGrants;
use crate::membership::{self, MAX_VOTERS, Membership};
use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::view::View;

/// Returns whether a site that does not lead need not answer: the sender says something else beside it, which is answered.
fn is_aside(content: &Content) -> bool {
    matches!(content, Content::AccessKnown { .. } | Content::SetAccess { .. })
}

impl Node {
    /// Handles a request that only the leader can fulfil.
    pub(super) fn on_leader_request(&mut self, from: Member, content: Content, out: &mut Vec<NodeOutput>) {
        if self.leadership.is_none() || self.membership.is_none() {
            return self.refer_to_leader(from, &content, out);
        }
        if !self.is_admitted(&from, &content, out) {
            return;
        }
        let now = self.now;
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let view = membership.view();
        match content {
            Content::Renew { renewal, epoch, unreachable, leased, drained } => {
                if view.contains(&from) && unreachable.len() <= view.members.len() {
                    leadership.on_in_step(&from, leased && epoch == view.epoch, now);
                    leadership.drained = drained.then_some(epoch).or(leadership.drained);
                    leadership.on_renew(from.clone(), renewal, unreachable, now);
                }
                if epoch < view.epoch {
                    let view = view.clone();
                    self.send_view(from.site.clone(), view, out);
                }
                self.ask_access_known(&from, out);
            }
            Content::Join { epoch, reached, address }
            | Content::JoinWithToken { epoch, reached, address, .. } => {
                self.on_join_request(from, epoch, reached, address, out);
            }
            Content::Leave => {
                if view.contains(&from) {
                    leadership.on_leave(from, now);
                } else {
                    let view = view.clone();
                    self.send(from.site, Content::View(view), out);
                }
            }
            Content::SetRules { base, rules } => {
                if let Err(error) = leadership.on_rules(base, rules, view) {
                    Node::misbehaved(from.site, &error.to_string(), out);
                }
            }
            Content::Claim(claim) => leadership.pilot.on_claim(from, claim, view, now),
            Content::Recorded(records) => {
                if let Some(membership) = self.membership.as_ref().filter(|_| from.site != self.me.site) {
                    leadership.pilot.on_records(from, records, (&membership.voters().voters, view));
                }
            }
            Content::ChangeVoters(request) => self.on_voter_request(&from.site, request, out),
            Content::AccessKnown { version, .. } => self.on_access_known(&from, version, out),
            Content::SetAccess { base, document } => self.on_access_request(&from, base, document, out),
            Content::Raft(_)
            | Content::Link { .. }
            | Content::Granted { .. }
            | Content::TooOld { .. }
            | Content::Register { .. }
            | Content::Registered { .. }
            | Content::NotLeader { .. }
            | Content::View(_)
            | Content::Ping
            | Content::Pong
            | Content::Ask { .. }
            | Content::Reply { .. }
            | Content::Voters(_)
            | Content::VotersChanged { .. }
            | Content::Absent(_)
            | Content::Access(_)
            | Content::AccessRefused { .. }
            | Content::Beat { .. }
            | Content::Call { .. }
            | Content::CallAnswer { .. }
            | Content::CallEnded { .. } => unreachable!("only requests to the leader come here"),
        }
    }

    /// Answers a request to the leader, as a site that does not lead.
    fn refer_to_leader(&mut self, from: Member, content: &Content, out: &mut Vec<NodeOutput>) {
        if let Content::AccessKnown { asks: true, .. } = content {
            return self.answer_access_known(from.site, out);
        }
        let leader = self.membership.as_ref().and_then(|membership| membership.leader()).cloned();
        if from.site != self.me.site && !content.is_about_voters() && !is_aside(content) {
            self.tell_voters(&from.site, out);
            self.send(from.site, Content::NotLeader { leader }, out);
        }
    }

    /// Handles a request to join, as the leader, of a site that may.
    fn on_join_request(
        &mut self,
        from: Member,
        epoch: Epoch,
        reached: Vec<Member>,
        address: Address,
        out: &mut Vec<NodeOutput>,
    ) {
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let (now, view) = (self.now, membership.view().clone());
        let rival = leadership.on_rival(&from, &view, now);
        if !view.may_join(&from) {
            if mutant::is_on(Mutant::TooOldUnconfirmed) && !view.contains(&from) {
                let (incarnation, last) = (from.incarnation, view.last_incarnation(&from.site));
                self.send(from.site.clone(), Content::TooOld { incarnation, last }, out);
            } else if !view.contains(&from) {
                leadership.on_outdated(from.clone());
            }
        } else if reached.len() <= view.members.len() + MAX_VOTERS {
            leadership.on_join(from.clone(), address, reached, now);
        }
        if let Some(member) = rival {
            self.refuse_rival(from.incarnation, member, out);
        } else if epoch < view.epoch {
            self.send_view(from.site, view, out);
        }
    }

    /// Sends the view that was agreed on, after who votes: a view is taken from voters only.
    fn send_view(&mut self, site: SiteName, view: View, out: &mut Vec<NodeOutput>) {
        self.tell_voters(&site, out);
        self.tell_access(&site, out);
        self.send(site, Content::View(view), out);
    }

    /// Does the work of a leader, if this site leads.
    pub(super) fn lead(&mut self, out: &mut Vec<NodeOutput>) {
        let term = self.leads();
        let is_new = term != self.leadership.as_ref().map(|leadership| leadership.term);
        let inherited = term.filter(|_| is_new).and_then(|term| self.inherited(term));
        if term != self.leadership.as_ref().map(|leadership| leadership.term) {
            // The terms that have been agreed on, or else those that the first view will have. If the first view of
            // another leader is under way, it is applied before any lease is granted.
            let known = self.membership.as_ref().map(Membership::view);
            let members = known.map_or(&[] as &[Member], |view| &view.members);
            let known = known.filter(|view| view.epoch > Epoch::default());
            let known = known.filter(|_| !mutant::is_on(Mutant::OwnTerms));
            let terms = known.map_or(self.config.terms, |view| view.terms);
            let grants = LeaseGrants::new(terms, members, self.now, inherited);
            let next = term.map(|term| Leadership::new(self.me.site.clone(), term, grants));
            let last = std::mem::replace(&mut self.leadership, next);
            if let Some(last) = last.filter(|_| term.is_none() && self.leaving.is_none()) {
                out.push(NodeOutput::Note(Note::LeadershipLost(last.term)));
            }
            if let Some(term) = term {
                out.push(NodeOutput::Note(Note::Leads(term)));
                self.reach_out(out);
            }
        }
        self.steer(out);
        self.use_up_tokens(out);
        self.close_if_configured(out);
        let (now, timing) = (self.now, self.timing());
        // A round that begins too early would be lost, and with it the time until it is started again.
        let hasty = mutant::is_on(Mutant::RoundBeforeFirstCommit);
        let can_confirm = hasty || self.membership.as_ref().is_some_and(Membership::can_confirm);
        let leadership = self.leadership.as_mut().filter(|_| can_confirm);
        if let Some(round) = leadership.and_then(|leadership| leadership.begin_round(now, timing)) {
            self.note_own_round();
            self.in_membership(out, |membership, out| membership.confirm(round, out));
        }
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        if self.view.epoch > membership.view().epoch {
            // Another leader has sent a view that this log does not have yet: whatever followed on the older one is
            // void.
            return;
        }
        let rules = self.first_rules.text();
        let known = leadership.exhausted;
        let Some(view) = leadership.next_view(membership.view(), rules, now, timing) else {
            if leadership.exhausted && !known {
                out.push(NodeOutput::Note(Note::EpochsExhausted));
            }
            return;
        };
        let mut view = view;
        if membership.view().epoch == Epoch::default() {
            view.epoch = self.first_epoch(out);
        }
        let (mut proposed, Some(leadership)) = (false, &mut self.leadership) else { return };
        leadership.pending = Some(view.clone());
        self.in_membership(out, |membership, out| proposed = membership.propose(&view, out));
        if let (false, Some(leadership)) = (proposed, &mut self.leadership) {
            leadership.pending = None;
        } else {
            out.push(NodeOutput::Note(Note::Proposed(view)));
        }
    }

    /// Returns the epoch of the first view: the configured one, unless a voter's program does not know that it can be another one than 1.
    pub(super) fn first_epoch(&self, out: &mut Vec<NodeOutput>) -> Epoch {
        let without = Epoch::new(1).expect("a small number");
        let is_first_voter = |site: &SiteName| self.founding.of_site(site).is_some();
        let old = self.old_programs.keys().find(|&site| is_first_voter(site) && !self.knows_floors(site));
        match old.filter(|_| self.config.first_epoch != without) {
            None => self.config.first_epoch,
            Some(old) => {
                out.push(NodeOutput::Note(Note::NoFenceFloor { old: old.clone() }));
                without
            }
        }
    }

    pub(super) fn on_confirmed(&mut self, round: membership::Round, out: &mut Vec<NodeOutput>) {
        let (Some(leadership), Some(membership)) = (&mut self.leadership, &self.membership) else { return };
        let length = leadership.grants.terms().length;
        let answers = leadership.on_confirmed(round, membership.view(), self.now);
        for (member, last) in answers.outdated {
            self.send(member.site, Content::TooOld { incarnation: member.incarnation, last }, out);
        }
        for (member, renewal) in answers.granted {
            out.push(NodeOutput::Note(Note::Granted(member.clone())));
            let to = member.incarnation;
            self.send(member.site, Content::Granted { to, renewal, length }, out);
        }
    }

    /// Adopts the terms of an installed view: from the first one on, this site follows them.
    pub(super) fn adopt_terms(&mut self, out: &mut Vec<NodeOutput>) {
        let (agreed, configured) = (self.view.terms, self.config.terms);
        if agreed == configured || mutant::is_on(Mutant::OwnTerms) {
            return;
        }
        out.push(NodeOutput::Note(Note::OtherTerms { agreed, configured }));
        self.config.terms = agreed;
        self.lease.agree(agreed);
        self.links.agree(self.config.link_timeouts_by(agreed));
        self.table.agree_terms(agreed.margin, agreed.drift.stretch(agreed.resume_window()));
    }

    pub(super) fn on_agreed(&mut self, view: View, out: &mut Vec<NodeOutput>) {
        if let Some(leadership) = &mut self.leadership {
            // A site that has left is told at once, and need not ask again: this one may leave with the same view.
            let left = leadership.left_with(&view);
            leadership.on_agreed(&view, self.now);
            // Voters get the view from the log as well, but not those that have lost their disks; it is rare, and
            // short.
            let told = view.members.iter().map(|member| member.site.clone()).chain(left);
            let told: Vec<SiteName> = told.filter(|site| *site != self.me.site).collect();
            for site in told {
                self.send_view(site, view.clone(), out);
            }
        }
        self.learn(view, out);
    }
}

//! Sending and receiving packets, and choosing which site to ask.

use super::packet::{Content, LinkPayload, Packet, Route};
use super::{MAX_UNANSWERED, Node, NodeOutput, Note};
use crate::links::{Links, Outgoing};
use crate::membership::Implausible;
use crate::membership::message::RaftMessage;
use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::rules::Rules;
use crate::time::Time;
use crate::view::View;

type Post = Outgoing<LinkPayload>;

impl Node {
    /// Sends the periodic requests: a member asks for its lease, another site asks to join.
    pub(super) fn reach_out(&mut self, out: &mut Vec<NodeOutput>) {
        self.lease.postpone(self.now);
        if !self.may_send {
            return;
        }
        let is_member = self.view.contains(&self.me);
        self.asked = self.ask_whom().filter(|_| is_member || self.leaving.is_none());
        self.hurry.too_early = false;
        let Some(leader) = self.asked.clone() else { return };
        self.unanswered = self.unanswered.saturating_add(1);
        self.on_asked(&leader);
        self.send_rules(&leader, out);
        self.send_voters_wanted(&leader, out);
        self.send_access_wanted(&leader, out);
        let epoch = self.view.epoch;
        if self.leaving.is_some() {
            if !self.table.holds_anything() {
                self.lease.give_up(self.now);
                self.lease.postpone(self.now);
                out.push(NodeOutput::Note(Note::GaveUp(self.me.clone())));
                // The leader excludes this site; the other voters only note that it has not failed.
                let others = self.others().into_iter().filter(|site| *site != leader && self.votes(site));
                for voter in others.collect::<Vec<_>>() {
                    self.send(voter, Content::Leave, out);
                }
                self.send(leader, Content::Leave, out);
            }
        } else if !self.knows_rules {
            // Others would wait for machines that this program does not have. So its lease runs out, they go on without
            // it, and it asks to join when there are rules that it knows.
        } else if is_member {
            let unreachable = self.links.unreachable(self.now).cloned().collect();
            let (leased, drained) = (self.lease.is_valid(self.now), self.table.wants_fresh_view(self.now));
            let renewal = self.lease.renew(leader.clone(), self.now);
            let renew = Content::Renew { renewal, epoch, unreachable, leased, drained };
            self.send(leader.clone(), renew, out);
            self.send_claim(leader.clone(), out);
            self.send_access_known(leader, out);
        } else {
            let (now, lately) = (self.now, self.config.terms.length);
            self.answered_at.retain(|_, at| now.since(*at) < lately);
            let reached = self.answered_at.keys().cloned().collect();
            let join = self.join_request(&leader, reached);
            self.send(leader.clone(), join, out);
            self.detours.on_pinged(self.now);
            let mut asked = self.others();
            if leader != self.me.site && !asked.contains(&leader) {
                asked.push(leader);
            }
            for site in asked {
                self.send(site, Content::Ping, out);
            }
        }
    }

    /// Sends the request to the leader again, before it is due, if this voter learns that another site leads than the one that it asked.
    ///
    /// A site that led, was stopped and wakes up has asked itself. It learns of the new leader soon, but its lease may not last until the
    /// request would be repeated.
    pub(super) fn ask_new_leader(&mut self, out: &mut Vec<NodeOutput>) {
        let leader = self.membership.as_ref().and_then(|membership| membership.leader());
        let (Some(leader), Some(asked)) = (leader, &self.asked) else { return };
        // One that was asked before it led, and said so, is asked again once until the next request is due.
        let leads_now = leader == asked && self.hurry.too_early && !self.hurry.asked;
        if (leader != asked || leads_now) && !mutant::is_on(Mutant::FormerLeaderAsksItself) {
            self.hurry.asked |= leads_now;
            self.reach_out(out);
        }
    }

    /// Returns the sites of the view except this one.
    pub(super) fn others(&self) -> Vec<SiteName> {
        let others = self.view.members.iter().filter(|member| member.site != self.me.site);
        others.map(|member| member.site.clone()).collect()
    }

    /// Returns the site that probably leads. A voter knows it from the log, or soon learns that it was wrong; another
    /// site, if the one that was asked does not answer, tries one voter after the other.
    pub(super) fn ask_whom(&self) -> Option<SiteName> {
        if self.leads().is_some() {
            return Some(self.me.site.clone());
        }
        let known = self.membership.as_ref().and_then(|membership| membership.leader());
        let hinted = self.leader_hint.as_ref().filter(|_| self.unanswered < MAX_UNANSWERED);
        let voters = self.voters.sites();
        let next = self.unanswered as usize % voters.len().max(1);
        known.or(hinted).or_else(|| voters.get(next)).cloned()
    }

    pub(super) fn on_packet(&mut self, from: SiteName, packet: Packet, out: &mut Vec<NodeOutput>) {
        if from == self.me.site {
            return Node::misbehaved(from, "uses this site's own name", out);
        }
        if packet.cluster != self.cluster && !mutant::is_on(Mutant::OtherClusterAccepted) {
            return out.push(NodeOutput::Note(Note::OtherCluster { site: from, cluster: packet.cluster }));
        }
        self.on_heard(&from);
        match packet.route.clone() {
            Route::Direct => {
                let member = Member { site: from, incarnation: packet.incarnation };
                self.on_content(member, packet.content, out);
            }
            Route::To(to) => self.carry(from, to, packet, out),
            Route::From(origin) => self.on_carried(from, origin, packet, out),
        }
    }

    pub(super) fn on_content(&mut self, from: Member, content: Content, out: &mut Vec<NodeOutput>) {
        match content {
            Content::Raft(message) => self.on_raft(from, message, out),
            Content::Link { to, frame } => {
                if to == self.me.incarnation && self.may_send {
                    self.on_frame(from, frame, out);
                }
            }
            Content::Renew { .. }
            | Content::Join { .. }
            | Content::Leave
            | Content::SetRules { .. }
            | Content::Claim(_)
            | Content::Recorded(_)
            | Content::ChangeVoters(_)
            | Content::JoinWithToken { .. }
            | Content::AccessKnown { .. }
            | Content::SetAccess { .. } => {
                if content == Content::Leave && self.view.contains(&from) {
                    self.leavers.insert(from.clone());
                }
                self.lead_at = Time::ZERO;
                self.on_leader_request(from, content, out);
            }
            Content::Granted { to, renewal, length } => {
                self.on_answered(&from.site);
                self.asked.take_if(|asked| *asked == from.site);
                let before = self.lease.end();
                if to == self.me.incarnation && self.lease.on_granted(renewal, &from.site, length, self.now) {
                    if let Some(before) = before {
                        self.table.note_renewal(before.since(self.now));
                    }
                    let end = self.lease.end().expect("a lease was just granted");
                    self.note_lease(out);
                    self.in_table(out, |table, lease_clock, out| table.on_extended(end, lease_clock, out));
                }
            }
            Content::TooOld { incarnation, last } => self.on_too_old(from.site, incarnation, last, out),
            Content::Register { disk } => self.on_register(from.site, disk, out),
            Content::Registered { disk } => self.on_registered(from.site, disk, out),
            Content::NotLeader { leader } => self.on_hint(from.site, leader, out),
            Content::View(view) => self.on_view(from.site, view, out),
            Content::Ping if self.may_send => self.send(from.site, Content::Pong, out),
            Content::Ping => {}
            Content::Ask { question, ask } => self.on_ask(&from, question, &ask, out),
            Content::Reply { question, reply } => self.on_reply(from.site, question, reply, out),
            Content::Beat { sent, hearing } => self.on_beat(from, None, sent, hearing, out),
            Content::Access(access) => self.on_access(&from.site, access, out),
            Content::AccessRefused { to, why } => self.on_access_refused(&from.site, to, why, out),
            Content::Voters(voters) => self.on_voters(&from.site, voters, out),
            Content::VotersChanged { request, refused } => {
                self.on_voters_answered(&from.site, &request, refused, out);
            }
            Content::Call { .. } | Content::CallAnswer { .. } | Content::CallEnded { .. } => {
                self.on_call_content(from, content, out);
            }
            Content::Absent(absence) => self.on_absence(&from.site, absence, out),
            Content::Pong => {
                self.on_answered(&from.site);
                self.on_reached(from, out);
            }
        }
    }

    /// Notes that packets pass between this site and another one, both ways.
    pub(super) fn on_reached(&mut self, member: Member, out: &mut Vec<NodeOutput>) {
        // The leader need not be a member.
        let is_known = self.config.sites.contains(&member.site) || self.votes(&member.site);
        if self.view.contains(&member) || is_known {
            self.answered_at.insert(member, self.now);
        }
        // Whoever asks to join and has reached everyone says so at once, and does not wait until it would ask again.
        if self.reaches_everyone() && !std::mem::replace(&mut self.hurry.joined, true) {
            self.reach_out(out);
        }
    }

    /// Returns whether this site, which asks to join, reaches the leader and every member.
    fn reaches_everyone(&self) -> bool {
        let is_reached = |site: &SiteName| self.answered_at.keys().any(|member| member.site == *site);
        let asks_to_join = !self.view.contains(&self.me) && self.leaving.is_none();
        let mut members = self.view.members.iter().filter(|member| member.site != self.me.site);
        asks_to_join
            && self.assumed_leader().is_some_and(|leader| *leader == self.me.site || is_reached(leader))
            && members.all(|member| self.answered_at.contains_key(member))
    }

    /// Handles a view that the leader says was agreed on.
    fn on_view(&mut self, from: SiteName, view: View, out: &mut Vec<NodeOutput>) {
        if !self.votes(&from) {
            return Node::doubt(from, "a view from a site that does not vote", out);
        }
        if let Err(error) = Rules::new(view.rules.clone()) {
            return Node::misbehaved(from, &error.to_string(), out);
        }
        if !view.agrees_with(&self.view) {
            return Node::misbehaved(from, "a view with other terms than were agreed on", out);
        }
        self.unanswered = 0;
        self.leader_hint = Some(from);
        self.learn(view, out);
    }

    /// Returns whether the site is one of the voters, which can lead.
    pub(super) fn votes(&self, site: &SiteName) -> bool {
        self.voters.votes(site)
    }

    /// Returns the leader, as far as this site knows.
    pub(super) fn assumed_leader(&self) -> Option<&SiteName> {
        let known = self.membership.as_ref().and_then(|membership| membership.leader());
        known.or(self.leader_hint.as_ref())
    }

    /// Reacts to an answer from `from`. If that is the probable leader, it is worth asking again.
    fn on_answered(&mut self, from: &SiteName) {
        if self.assumed_leader() == Some(from) {
            self.unanswered = 0;
            self.detours.on_answered(from);
        }
    }

    /// Handles a voter's answer that it does not lead, and perhaps who does. If that is new, the leader is asked at
    /// once; but only once until the next renewal is due, because two sites may each assume that the other one leads.
    fn on_hint(&mut self, from: SiteName, leader: Option<SiteName>, out: &mut Vec<NodeOutput>) {
        if !self.votes(&from) || leader.as_ref().is_some_and(|leader| !self.votes(leader)) {
            return Node::doubt(from, "a hint from or to a site that does not vote", out);
        }
        self.detours.on_answered(&from);
        self.hurry.too_early |= self.asked.as_ref() == Some(&from);
        self.leader_hint.take_if(|hint| *hint == from);
        let Some(leader) = leader.filter(|leader| *leader != self.me.site) else { return };
        let news = self.unanswered >= MAX_UNANSWERED || self.leader_hint.as_ref() != Some(&leader);
        self.leader_hint = Some(leader);
        if news {
            self.unanswered = 0;
            if !std::mem::replace(&mut self.hurry.asked, true) {
                self.reach_out(out);
            }
        }
    }

    pub(super) fn on_raft(&mut self, from: Member, mut message: RaftMessage, out: &mut Vec<NodeOutput>) {
        self.take_annotation(&from.site, &mut message);
        self.become_voter_if_named(&message, out);
        let mut refused = None;
        self.in_membership(out, |membership, out| {
            refused = membership.on_message(&from.site, message, out).err();
        });
        match refused {
            None => {}
            Some(Implausible::OwnDiskIsOld) => {
                out.push(NodeOutput::Note(Note::DiskIsOld { by: from.site }));
            }
            Some(Implausible::Peer(why)) => Node::misbehaved(from.site, why, out),
        }
    }

    /// Returns whether the program of another site knows this kind of packet, as far as this site can tell.
    pub(super) fn can_read(&self, site: &SiteName, content: &Content) -> bool {
        let Some(known) = self.old_programs.get(site) else { return true };
        (known.changes_voters || !content.is_about_voters())
            && (known.counts_voters || !content.is_absence())
            && (known.agrees_on_access || !content.is_about_access())
            && (known.forwards_calls || !content.is_about_calls())
            && (known.reports_records || !content.is_records())
            && (known.lists_locks || !content.is_about_listings())
    }

    /// Returns whether the program of another site knows the access document, as far as this site can tell.
    pub(super) fn knows_access(&self, site: &SiteName) -> bool {
        self.old_programs.get(site).is_none_or(|known| known.agrees_on_access)
    }

    /// Returns whether the program of another site knows that a first view can have another epoch than 1, as far as this site can tell.
    pub(super) fn knows_floors(&self, site: &SiteName) -> bool {
        self.old_programs.get(site).is_none_or(|known| known.knows_floors)
    }

    pub(super) fn send(&mut self, to: SiteName, content: Content, out: &mut Vec<NodeOutput>) {
        if to == self.me.site {
            return self.on_content(self.me.clone(), content, out);
        }
        if !self.can_read(&to, &content) {
            return;
        }
        if let Some(via) = self.detours.via(&to) {
            return self.send_carried(via.clone(), to, content, out);
        }
        out.push(NodeOutput::Send { to, packet: self.packet(content) });
    }

    /// Returns a packet of this site that goes directly to its receiver.
    pub(super) fn packet(&self, content: Content) -> Packet {
        Packet::direct(self.cluster, self.me.incarnation, content)
    }

    pub(super) fn misbehaved(site: SiteName, why: &str, out: &mut Vec<NodeOutput>) {
        out.push(NodeOutput::Note(Note::Misbehaved { site, why: why.to_owned() }));
    }

    /// Calls `act` on the links and sends the frames that they return.
    pub(super) fn post(
        &mut self,
        out: &mut Vec<NodeOutput>,
        act: impl FnOnce(&mut Links<LinkPayload>, Time, &mut Post),
    ) {
        let mut post = std::mem::take(&mut self.posted);
        act(&mut self.links, self.now, &mut post);
        for (to, frame) in post.drain(..) {
            self.send(to.site, Content::Link { to: to.incarnation, frame }, out);
        }
        self.posted = post;
    }
}

//! Detours: packets between two members that cannot reach each other go through a third one that both reach.
//!
//! ```text
//!   a ──✗── b          a ──To(b)──▶ c ──From(a)──▶ b
//! ```
//!
//! **When.** While everything is well no packet is added. A member *suspects* its connection to a peer when messages on
//! their link are not acknowledged for [`MIN_PATIENCE`] or twice the usual round trip, when the leader does not answer
//! its renewals for that long, or when a packet of the peer comes by a detour. It then sends everything for the peer
//! through a *carrier*, and [`Beat`](Content::Beat)s both ways, directly and through the carrier. Each beat says how the
//! sender hears the receiver: directly, by a detour, or not at all. So each of them learns whether its own packets arrive,
//! also where only one direction is cut:
//!
//! | the peer hears this site | then |
//! |---|---|
//! | directly | the detour ends, unless messages still wait |
//! | by a detour | it stays |
//! | not at all | the next carrier is tried, every [`WINDOW`] beats |
//!
//! Whenever the way changes, what is not acknowledged is sent again, because some of it may have been lost.
//!
//! A site that asks to join has no links yet. Where members or the leader do not answer it, it asks them through a
//! carrier as well, and their answers take the same way.
//!
//! **Trust.** Only voters carry, and only their packets are believed to come from another site. A voter can already
//! decide on every view as the leader, so this gives it no power that it did not have.
//!
//! **Bounds.** A carrier keeps nothing: it passes a packet on as soon as it comes, directly and once, for a sender or to
//! a receiver that is a member of its view. A packet is carried by one site only, so that no packet goes in circles.

use std::collections::{BTreeMap, BTreeSet};

use super::packet::{Content, Hearing, Packet, Route};
use super::{Node, NodeOutput, Note};
use crate::links::Links;
use crate::mutant::{self, Mutant};
use crate::names::{Member, SiteName};
use crate::time::{Span, Time};

/// How long a peer always has to answer before its connection is suspected.
const MIN_PATIENCE: Span = Span::from_millis(250);

/// A beat is sent every this many ticks.
const BEAT_TICKS: u32 = 3;

/// A peer is heard as long as one of this many beats arrives.
const WINDOW: u32 = 3;

/// The peers that cannot be reached directly, or are suspected of it: mostly none.
#[derive(Debug, Default)]
pub(super) struct Detours {
    suspects: BTreeMap<SiteName, Suspect>,
    /// Sites whose program is too old to carry packets, or to receive carried ones.
    too_old: BTreeSet<SiteName>,
    /// Ticks since the last beats.
    ticks: u32,
    /// Whether the members of this view were pinged, while this site asks to join.
    has_pinged: bool,
    /// How many carriers were tried to ask the leader.
    tried_carriers: usize,
    /// The site that is not a member whose carried packet is being handled, and its carrier, by which the answers go.
    answering: Option<(SiteName, SiteName)>,
    /// Since when requests to the leader have gone without an answer.
    unanswered_since: Option<Time>,
}

/// A peer whose connection is suspected.
#[derive(Debug, Default)]
struct Suspect {
    detour: Option<Detour>,
    /// Until when beats are sent to it.
    beats_until: Time,
    /// How it hears this site, and when it said so.
    told: Option<(Hearing, Time)>,
    heard_directly: Option<Time>,
    heard_carried: Option<Time>,
}

#[derive(Debug)]
struct Detour {
    via: SiteName,
    since: Time,
    /// Whether the log says that it is used.
    is_noted: bool,
}

impl Suspect {
    /// Returns how this site has heard the peer since `from`.
    fn hearing(&self, from: Time) -> Hearing {
        let lately = |at: Option<Time>| at.is_some_and(|at| at >= from);
        match (lately(self.heard_directly), lately(self.heard_carried)) {
            (true, _) => Hearing::Directly,
            (false, true) => Hearing::Carried,
            (false, false) => Hearing::Nothing,
        }
    }

    /// Returns what the peer has said since `from` about how it hears this site.
    fn told_since(&self, from: Time) -> Option<Hearing> {
        self.told.filter(|(_, at)| *at >= from).map(|(hearing, _)| hearing)
    }
}

impl Detours {
    /// Returns the carrier for packets to this site, if they do not go directly.
    pub(super) fn via(&self, to: &SiteName) -> Option<&SiteName> {
        let answering = self.answering.as_ref().filter(|(origin, _)| origin == to);
        let detour = || self.suspects.get(to)?.detour.as_ref().map(|detour| &detour.via);
        answering.map(|(_, carrier)| carrier).or_else(detour)
    }

    /// Returns whether the connection to this site is suspected.
    #[cfg(test)]
    pub(super) fn is_suspect(&self, site: &SiteName) -> bool {
        self.suspects.contains_key(site)
    }

    /// Notes the version of a site's program: whether it knows carried packets.
    pub(super) fn on_connected(&mut self, site: &SiteName, carries: bool) {
        if carries {
            self.too_old.remove(site);
        } else {
            self.too_old.insert(site.clone());
            self.suspects.remove(site);
        }
    }

    /// Notes that a packet has come directly from a site.
    pub(super) fn on_direct(&mut self, from: &SiteName, now: Time) {
        if let Some(suspect) = self.suspects.get_mut(from) {
            suspect.heard_directly = Some(now);
        }
    }

    /// Reacts to a new view: forgets all sites for which `is_member` returns false.
    pub(super) fn on_view(&mut self, is_member: impl Fn(&SiteName) -> bool) {
        self.suspects.retain(|site, _| is_member(site));
        self.has_pinged = false;
    }
}

impl Node {
    /// Notes a request to the leader. Its answer is waited for from the first one on that was not answered.
    pub(super) fn on_leader_asked(&mut self) {
        self.detours.unanswered_since.get_or_insert(self.now);
    }

    /// Notes an answer of the leader, or that it is not the one that was asked.
    pub(super) fn on_leader_answered(&mut self) {
        self.detours.unanswered_since = None;
    }

    /// Sends a packet through a carrier.
    pub(super) fn send_carried(
        &self,
        via: SiteName,
        to: SiteName,
        content: Content,
        out: &mut Vec<NodeOutput>,
    ) {
        let packet = Packet { route: Route::To(to), ..self.packet(content) };
        out.push(NodeOutput::Send { to: via, packet });
    }

    /// Passes a packet on for another site.
    pub(super) fn carry(&mut self, from: SiteName, to: SiteName, packet: Packet, out: &mut Vec<NodeOutput>) {
        if !self.votes(&self.me.site) {
            return Node::misbehaved(from, "asks a site to carry its packet that does not vote", out);
        }
        if to == self.me.site || to == from {
            return Node::misbehaved(from, "asks this site to carry a packet to one of the two", out);
        }
        let is_member = |site: &SiteName| self.view.member(site).is_some();
        // A sender may know a newer view than this site. It tries another carrier.
        if (is_member(&from) || is_member(&to)) && !self.detours.too_old.contains(&to) && self.may_send {
            let packet = Packet { route: Route::From(from), ..packet };
            out.push(NodeOutput::Send { to, packet });
        }
    }

    /// Handles a packet of `origin` that `carrier` has passed on.
    pub(super) fn on_carried(
        &mut self,
        carrier: SiteName,
        origin: SiteName,
        packet: Packet,
        out: &mut Vec<NodeOutput>,
    ) {
        let carries = self.votes(&carrier) || mutant::is_on(Mutant::AnyoneCarries);
        if !carries || origin == self.me.site || origin == carrier {
            return Node::misbehaved(carrier, "carries a packet that it may not carry", out);
        }
        self.on_heard_through_another(&origin);
        let from = Member { site: origin, incarnation: packet.incarnation };
        if self.view.contains(&from) {
            self.on_carried_member(&carrier, &from.site, out);
        } else {
            // A site that asks to join: the answers take the same way.
            self.detours.answering = Some((from.site.clone(), carrier));
        }
        self.on_content(from, packet.content, out);
        self.detours.answering = None;
    }

    /// Notes that a member's packet came by a detour. If nothing comes from it directly, then probably nothing goes to it
    /// directly either, and the answers take the same way.
    fn on_carried_member(&mut self, carrier: &SiteName, origin: &SiteName, out: &mut Vec<NodeOutput>) {
        let (now, since) = (self.now, self.now.before(self.config.tick.times(u64::from(BEAT_TICKS) + 1)));
        let suspect = self.detours.suspects.entry(origin.clone()).or_default();
        suspect.heard_carried = Some(now);
        let is_heard = suspect.hearing(since) == Hearing::Directly;
        if suspect.detour.is_none() && !is_heard && suspect.told_since(since) != Some(Hearing::Directly) {
            self.take_detour(origin.clone(), carrier.clone(), out);
        }
    }

    /// Handles what a member says about how it hears this site.
    pub(super) fn on_beat(&mut self, from: &Member, hearing: Hearing) {
        if self.view.contains(from) {
            let until = self.now + self.beat_window();
            let suspect = self.detours.suspects.entry(from.site.clone()).or_default();
            suspect.told = Some((hearing, self.now));
            suspect.beats_until = until;
        }
    }

    /// Returns for how long one beat counts.
    fn beat_window(&self) -> Span {
        self.config.tick.times(u64::from(BEAT_TICKS * WINDOW))
    }

    /// Does what is due at a tick: looks for peers that do not answer, chooses carriers and sends beats.
    pub(super) fn check_routes(&mut self, out: &mut Vec<NodeOutput>) {
        if !self.may_send || !self.view.contains(&self.me) || mutant::is_on(Mutant::NoDetours) {
            return;
        }
        let stalled = self.stalled_peers();
        for site in &stalled {
            self.detours.suspects.entry(site.clone()).or_default();
        }
        if self.detours.suspects.is_empty() {
            return;
        }
        let suspects: Vec<SiteName> = self.detours.suspects.keys().cloned().collect();
        for site in suspects {
            self.check_route(&site, stalled.contains(&site), out);
        }
        self.detours.ticks += 1;
        if self.detours.ticks >= BEAT_TICKS {
            self.detours.ticks = 0;
            self.send_beats(out);
        }
    }

    /// Returns the members that have not answered for longer than they usually take.
    fn stalled_peers(&self) -> BTreeSet<SiteName> {
        let mut stalled: BTreeSet<SiteName> = self.links.stalled(self.now, MIN_PATIENCE).cloned().collect();
        let patience = self.links.slowest_round_trip().unwrap_or_default().times(2).max(MIN_PATIENCE);
        let unanswered = self.detours.unanswered_since.filter(|since| self.now.since(*since) > patience);
        stalled.extend(unanswered.and(self.assumed_leader()).cloned());
        let (view, too_old) = (&self.view, &self.detours.too_old);
        stalled.retain(|site| {
            *site != self.me.site && view.member(site).is_some() && !too_old.contains(site)
        });
        stalled
    }

    /// Decides whether packets to a suspect go directly, and through whom if not.
    fn check_route(&mut self, site: &SiteName, is_stalled: bool, out: &mut Vec<NodeOutput>) {
        let (now, window) = (self.now, self.beat_window());
        let lately = now.before(window);
        let Some(suspect) = self.detours.suspects.get_mut(site) else { return };
        let told = suspect.told_since(lately);
        let is_cut = is_stalled || told.is_some_and(|told| told != Hearing::Directly);
        match &mut suspect.detour {
            None if is_cut => {
                if let Some(via) = self.next_carrier(site, None) {
                    self.take_detour(site.clone(), via, out);
                }
            }
            None => {
                if suspect.beats_until < now {
                    self.detours.suspects.remove(site);
                }
            }
            Some(_) if !is_stalled && told == Some(Hearing::Directly) => self.end_detour(site, out),
            Some(detour) => {
                suspect.beats_until = now + window;
                if told == Some(Hearing::Carried) {
                    if !std::mem::replace(&mut detour.is_noted, true) {
                        let (site, via) = (site.clone(), detour.via.clone());
                        out.push(NodeOutput::Note(Note::Detour { site, via }));
                    }
                } else if now.since(detour.since) >= window {
                    let last = detour.via.clone();
                    if let Some(via) = self.next_carrier(site, Some(&last)) {
                        self.take_detour(site.clone(), via, out);
                    }
                }
            }
        }
    }

    /// Returns the carrier to try after `last`: one voter after the other, first those that were heard lately, and of them
    /// the leader first. Voters that do not lead need not have heard from each other.
    fn next_carrier(&self, to: &SiteName, last: Option<&SiteName>) -> Option<SiteName> {
        let is_possible = |site: &&SiteName| {
            **site != self.me.site
                && *site != to
                && self.view.member(site).is_some()
                && !self.detours.too_old.contains(*site)
        };
        let mut all: Vec<&SiteName> = self.voters.iter().filter(is_possible).collect();
        let leader = self.assumed_leader();
        all.sort_by_key(|site| (!self.is_heard_directly(site), Some(*site) != leader));
        let next = last.and_then(|last| all.iter().position(|site| *site == last)).map_or(0, |at| at + 1);
        all.get(next).or(all.first()).map(|site| (*site).clone())
    }

    fn take_detour(&mut self, site: SiteName, via: SiteName, out: &mut Vec<NodeOutput>) {
        let (now, window) = (self.now, self.beat_window());
        let suspect = self.detours.suspects.entry(site.clone()).or_default();
        let is_noted = suspect.detour.as_ref().is_some_and(|detour| detour.is_noted);
        suspect.detour = Some(Detour { via, since: now, is_noted });
        suspect.beats_until = now + window;
        self.post(out, |links, now, post| links.on_connected(&site, now, post));
        self.send_beat(&site, out);
    }

    fn end_detour(&mut self, site: &SiteName, out: &mut Vec<NodeOutput>) {
        let Some(suspect) = self.detours.suspects.get_mut(site) else { return };
        if suspect.detour.take().is_some_and(|detour| detour.is_noted) {
            out.push(NodeOutput::Note(Note::DetourEnded { site: site.clone() }));
        }
        self.post(out, |links, now, post| Links::on_connected(links, site, now, post));
    }

    fn send_beats(&mut self, out: &mut Vec<NodeOutput>) {
        let now = self.now;
        let due = self.detours.suspects.iter().filter(|(_, suspect)| suspect.beats_until >= now);
        for site in due.map(|(site, _)| site.clone()).collect::<Vec<_>>() {
            self.send_beat(&site, out);
        }
    }

    /// Sends a beat directly, and through the carrier if there is one.
    fn send_beat(&self, site: &SiteName, out: &mut Vec<NodeOutput>) {
        let Some(suspect) = self.detours.suspects.get(site) else { return };
        let beat = Content::Beat { hearing: suspect.hearing(self.now.before(self.beat_window())) };
        if let Some(detour) = &suspect.detour {
            self.send_carried(detour.via.clone(), site.clone(), beat.clone(), out);
        }
        out.push(NodeOutput::Send { to: site.clone(), packet: self.packet(beat) });
    }

    /// While this site asks to join: sends what was not answered directly through a carrier as well. That is the leader,
    /// or, if the leader does not answer either, one voter after the other.
    pub(super) fn join_by_detour(&mut self, leader: &SiteName, join: Content, out: &mut Vec<NodeOutput>) {
        let is_first = !std::mem::replace(&mut self.detours.has_pinged, true);
        let mut silent = self.silent_members();
        let is_answered = self.unanswered <= 1;
        let needless = is_answered && silent.is_empty() || *leader == self.me.site;
        if is_first || needless || mutant::is_on(Mutant::NoDetours) {
            return;
        }
        let Some(via) = self.join_carrier(leader, is_answered) else { return };
        if !is_answered {
            self.send_carried(via.clone(), leader.clone(), join, out);
            if !silent.contains(leader) {
                silent.push(leader.clone());
            }
        }
        for site in silent.into_iter().filter(|site| *site != via) {
            self.send_carried(via.clone(), site, Content::Ping, out);
        }
    }

    fn join_carrier(&mut self, leader: &SiteName, is_answered: bool) -> Option<SiteName> {
        let is_possible = |site: &&SiteName| **site != self.me.site && !self.detours.too_old.contains(*site);
        if is_answered {
            return Some(leader.clone()).filter(|leader| is_possible(&leader));
        }
        let others = self.voters.iter().filter(is_possible).filter(|site| *site != leader);
        let others: Vec<&SiteName> = others.collect();
        let next = self.detours.tried_carriers.checked_rem(others.len())?;
        let via = others[next].clone();
        self.detours.tried_carriers += 1;
        Some(via)
    }

    /// Returns the sites of the members that have not answered lately.
    fn silent_members(&self) -> Vec<SiteName> {
        let is_silent = |member: &&Member| !self.answered_at.contains_key(*member);
        let silent = self.view.members.iter().filter(|member| member.site != self.me.site);
        silent.filter(is_silent).map(|member| member.site.clone()).collect()
    }
}

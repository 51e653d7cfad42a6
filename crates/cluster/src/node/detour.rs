//! Detours: packets between two sites that cannot reach each other go through a third one that both reach.
//!
//! ```text
//!   a ──✗── b          a ──To(b)──▶ c ──From(a)──▶ b
//! ```
//!
//! While everything is well, nothing here adds a packet. A site *suspects* its connection to a peer when messages on their
//! link are not acknowledged for twice the usual round trip (within [`REPLY_WAIT`]), when the leader does not answer for
//! that long, or when, asking to join, it gets no answer from a member. Then the two send each other
//! [`Beat`](Content::Beat)s, directly and through every *carrier*. Each beat says how its sender hears its receiver, so each
//! of them learns how its own packets arrive, also where only one direction is cut:
//!
//! | the peer hears this site | packets to it go |
//! |---|---|
//! | directly | directly |
//! | only through c | through c |
//! | not at all, or the peer is silent | directly |
//!
//! ```text
//!   a ──beat──✗ b        a ──beat──▶ c ──beat──▶ b        b hears a through c, and says so the same way
//! ```
//!
//! Whenever the way changes, what is not acknowledged is sent again, because some of it may have been lost.
//!
//! The first beat of a peer may come through a carrier though nothing is cut: the carried one was faster. Then the peer is told at once,
//! because where a direction is cut every moment counts, and told better at once when a direct beat comes after it. Otherwise
//! everything, also the grant that a lease waits for, would depend on the carrier until the next beat.
//!
//! **Trust.** Only voters carry, and only their packets are believed to come from another site. A voter can already
//! decide on every view as the leader, so this gives it no power that it did not have.
//!
//! **Bounds.** A carrier keeps no packet: it passes each on as soon as it comes, directly and once, to a member or a voter, or
//! from one of them to a site that has asked for the same lately because it wants to join. A packet is carried by one
//! site only, so that none goes in circles. At most [`MAX_SUSPECTS`] peers are suspected at a time, and as many visitors
//! are remembered.

use std::collections::{BTreeMap, BTreeSet};

use super::packet::{Content, Hearing, Packet, Route};
use super::{Node, NodeOutput, Note};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::time::{Span, Time};

/// How long a peer always has to answer before its connection is suspected, and how long it has at most. After a long
/// silence the usual round trip seems to be as long as that silence.
const REPLY_WAIT: (Span, Span) = (Span::from_millis(250), Span::from_millis(1500));

/// A beat is sent every this many ticks.
const BEAT_TICKS: u64 = 3;

/// A peer is heard as long as one of this many beats arrives.
const WINDOW: u64 = 3;

/// For this many windows a peer is remembered that is not suspected any more: carried beats may come late.
const LINGER: u64 = 16;

/// Maximum number of peers that are suspected at a time.
const MAX_SUSPECTS: usize = 256;

/// The peers that cannot be reached directly, or are suspected of it: mostly none.
#[derive(Debug, Default)]
pub(super) struct Detours {
    suspects: BTreeMap<SiteName, Suspect>,
    /// Sites whose program is too old to carry packets, or to receive carried ones.
    too_old: BTreeSet<SiteName>,
    /// Sites that are neither members nor voters and have asked this site lately to carry a packet, and when: those that ask
    /// to join. Only to them are packets carried back.
    visitors: BTreeMap<SiteName, Time>,
    /// The leader that was asked, and since when it has not answered.
    unanswered: Option<(SiteName, Time)>,
    /// Since when this site, which asks to join, has waited for answers of the members of this view.
    pinged_since: Option<Time>,
}

/// A peer whose connection is suspected.
#[derive(Debug, Default)]
struct Suspect {
    /// The carrier of packets to it, if they do not go directly, and since when.
    via: Option<(SiteName, Time)>,
    /// Whether the log says that there is a detour.
    is_noted: bool,
    /// Until when beats are sent to it, and when the next one is due.
    beats_until: Time,
    next_beat: Time,
    /// The incarnation whose beats were heard.
    incarnation: Option<Incarnation>,
    /// When its last beat came.
    told_at: Option<Time>,
    /// When the newest of its beats was sent, by its clock.
    newest: Time,
    /// When the last beat that came directly was sent, by the peer's clock.
    direct: Option<Time>,
    /// The carrier of the last beat that was carried, and when that was sent, by the peer's clock.
    carried: Option<(SiteName, Time)>,
    /// When the last beat was sent to it. No two are sent at the same time, so that the peer can tell which one is newer.
    last_sent: Time,
    /// Whether that one said that the peer is heard only through a carrier.
    says_carried: bool,
}

impl Suspect {
    /// Notes a beat. Carried ones may arrive late, so what counts is when each was sent.
    fn on_beat(&mut self, incarnation: Incarnation, carrier: Option<SiteName>, sent: Time, now: Time) {
        if self.incarnation.replace(incarnation) != Some(incarnation) {
            (self.direct, self.carried, self.newest) = (None, None, Time::ZERO);
        }
        self.told_at = Some(now);
        match carrier {
            None => self.direct = self.direct.max(Some(sent)),
            Some(carrier) if self.carried.as_ref().is_none_or(|(_, last)| *last < sent) => {
                self.carried = Some((carrier, sent));
            }
            Some(_) => {}
        }
    }

    /// Returns how the peer is heard: directly unless the last `missing` of its beats came only through a carrier.
    fn hearing(&self, missing: Span) -> Hearing {
        match (&self.direct, &self.carried) {
            _ if self.told_at.is_none() => Hearing::Nothing,
            (Some(direct), Some((_, carried))) if carried.since(*direct) <= missing => Hearing::Directly,
            (_, Some((carrier, _))) => Hearing::Through(carrier.clone()),
            (Some(_), None) => Hearing::Directly,
            (None, None) => Hearing::Nothing,
        }
    }
}

impl Detours {
    /// Returns the carrier for packets to this site, if they do not go directly.
    pub(super) fn via(&self, to: &SiteName) -> Option<&SiteName> {
        self.suspects.get(to)?.via.as_ref().map(|(carrier, _)| carrier)
    }

    /// Returns whether the connection to this site is suspected.
    #[cfg(test)]
    pub(super) fn is_suspect(&self, site: &SiteName) -> bool {
        self.suspects.contains_key(site)
    }

    /// Notes whether a site's program knows carried packets.
    pub(super) fn on_connected(&mut self, site: &SiteName, carries: bool) {
        if carries {
            self.too_old.remove(site);
        } else {
            self.too_old.insert(site.clone());
            self.suspects.remove(site);
        }
    }

    /// Notes a request to the leader. Its answer is waited for from the first one on that was not answered.
    fn on_leader_asked(&mut self, leader: &SiteName, now: Time) {
        if self.unanswered.as_ref().is_none_or(|(asked, _)| asked != leader) {
            self.unanswered = Some((leader.clone(), now));
        }
    }

    /// Notes an answer of a site, which may be the leader.
    pub(super) fn on_answered(&mut self, from: &SiteName) {
        self.unanswered.take_if(|(asked, _)| asked == from);
    }

    /// Notes that this site, which asks to join, has pinged the members of its view.
    pub(super) fn on_pinged(&mut self, now: Time) {
        self.pinged_since.get_or_insert(now);
    }

    /// Notes that a view was installed.
    pub(super) fn on_view(&mut self) {
        self.pinged_since = None;
    }

    /// Notes a site that asks to carry a packet and is not known.
    fn on_visitor(&mut self, site: &SiteName, now: Time) {
        if self.visitors.len() == MAX_SUSPECTS && !self.visitors.contains_key(site) {
            let oldest = self.visitors.iter().min_by_key(|(_, at)| **at).map(|(site, _)| site.clone());
            oldest.and_then(|oldest| self.visitors.remove(&oldest));
        }
        self.visitors.insert(site.clone(), now);
    }

    /// Returns the suspect of this name, a new one if there is room.
    fn suspect(&mut self, site: &SiteName) -> Option<&mut Suspect> {
        let is_allowed = self.suspects.len() < MAX_SUSPECTS || self.suspects.contains_key(site);
        (is_allowed && !self.too_old.contains(site)).then(|| self.suspects.entry(site.clone()).or_default())
    }
}

impl Node {
    /// Notes a request to a site, which is waited for if this is the leader as far as this site knows. (Where the leader does
    /// not answer, others are asked who leads.)
    pub(super) fn on_asked(&mut self, site: &SiteName) {
        if self.assumed_leader() == Some(site) {
            self.detours.on_leader_asked(site, self.now);
        }
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
            self.tell_voters(&from, out);
            return Node::doubt(from, "asks a site to carry its packet that does not vote", out);
        }
        if to == self.me.site || to == from {
            return Node::misbehaved(from, "asks this site to carry a packet to one of the two", out);
        }
        if self.is_shut_out(&from) || self.is_shut_out(&to) {
            return Node::doubt(from, "asks this site to carry a packet from or to a revoked site", out);
        }
        let is_known = |site: &SiteName| self.view.member(site).is_some() || self.votes(site);
        let (from_known, to_known) = (is_known(&from), is_known(&to));
        if !from_known {
            self.detours.on_visitor(&from, self.now);
        }
        let is_allowed = to_known || from_known && self.detours.visitors.contains_key(&to);
        let is_too_new = !self.can_read(&to, &packet.content);
        if is_allowed && !is_too_new && !self.detours.too_old.contains(&to) && self.may_send {
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
        let may_carry = self.votes(&carrier) || mutant::is_on(Mutant::AnyoneCarries);
        if !may_carry {
            return Node::doubt(carrier, "carries a packet and does not vote", out);
        }
        if origin == self.me.site || origin == carrier {
            return Node::misbehaved(carrier, "carries a packet that it may not carry", out);
        }
        if self.is_shut_out(&origin) {
            return Node::doubt(carrier, "carries a packet of a revoked site", out);
        }
        self.on_heard(&origin);
        let from = Member { site: origin, incarnation: packet.incarnation };
        if let Content::Beat { sent, hearing } = packet.content {
            return self.on_beat(from, Some(carrier), sent, hearing, out);
        }
        self.on_content(from, packet.content, out);
    }

    /// Returns whether a later incarnation of this site is a member. Whoever is no member may know only an old view, and whoever votes may
    /// lead the cluster in any incarnation: then this site cannot tell.
    fn is_outdated(&self, member: &Member) -> bool {
        let may_lead = !self.view.contains(&self.me) && self.votes(&member.site);
        (!may_lead || mutant::is_on(Mutant::OldViewBelieved))
            && self.view.member(&member.site).is_some_and(|current| current.incarnation > member.incarnation)
    }

    /// Handles a beat, which says how its sender hears this site.
    pub(super) fn on_beat(
        &mut self,
        from: Member,
        carrier: Option<SiteName>,
        sent: Time,
        hearing: Hearing,
        out: &mut Vec<NodeOutput>,
    ) {
        let (now, window) = (self.now, self.beat_window());
        if self.is_outdated(&from) || mutant::is_on(Mutant::NoDetours) {
            return;
        }
        let is_direct = hearing == Hearing::Directly;
        let via = match hearing {
            Hearing::Through(carrier) if self.votes(&carrier) && carrier != from.site => Some(carrier),
            Hearing::Through(_) | Hearing::Directly | Hearing::Nothing => None,
        };
        if via.as_ref() == Some(&self.me.site) {
            return Node::misbehaved(from.site, "hears this site through this site", out);
        }
        // Whoever asks to join has reached a member as soon as each hears the other.
        if via.is_some() || is_direct {
            self.on_reached(from.clone(), out);
        }
        let missing = self.missing_beats();
        let Some(suspect) = self.detours.suspect(&from.site) else { return };
        let is_first = suspect.told_at.is_none();
        suspect.on_beat(from.incarnation, carrier, sent, now);
        let hears_directly = suspect.hearing(missing) == Hearing::Directly;
        // When both hear each other directly there is nothing left to say.
        if !is_direct || !hears_directly {
            suspect.beats_until = now + window;
        }
        // At most once for each beat that said otherwise.
        let was_wrong = suspect.says_carried && hears_directly && !mutant::is_on(Mutant::DirectWayNotTold);
        // What came late does not say how it is now.
        if suspect.newest <= sent {
            suspect.newest = sent;
            self.take_way(&from.site, via, out);
        }
        if is_first || was_wrong {
            self.send_beat(&from.site, out);
        }
    }

    /// Sends packets to a suspect this way from now on.
    fn take_way(&mut self, site: &SiteName, via: Option<SiteName>, out: &mut Vec<NodeOutput>) {
        let now = self.now;
        let Some(suspect) = self.detours.suspects.get_mut(site) else { return };
        if suspect.via.as_ref().map(|(carrier, _)| carrier) == via.as_ref() {
            return;
        }
        suspect.via = via.map(|carrier| (carrier, now));
        if suspect.via.is_none() && std::mem::take(&mut suspect.is_noted) {
            out.push(NodeOutput::Note(Note::DetourEnded { site: site.clone() }));
        }
        self.post(out, |links, now, post| links.on_connected(site, now, post));
    }

    /// Returns how much later a carried beat was sent than the last direct one if one or more are missing.
    fn missing_beats(&self) -> Span {
        self.config.tick.times(BEAT_TICKS + 1)
    }

    /// Returns for how long one beat counts.
    fn beat_window(&self) -> Span {
        self.config.tick.times(BEAT_TICKS * WINDOW)
    }

    /// Does what is due at a tick: looks for peers that do not answer, and sends beats.
    pub(super) fn check_routes(&mut self, out: &mut Vec<NodeOutput>) {
        if !self.may_send || mutant::is_on(Mutant::NoDetours) {
            return;
        }
        let (now, window) = (self.now, self.beat_window());
        for site in self.stalled_peers() {
            if let Some(suspect) = self.detours.suspect(&site) {
                suspect.beats_until = now + window;
            }
        }
        if self.detours.suspects.is_empty() {
            return;
        }
        let suspects: Vec<SiteName> = self.detours.suspects.keys().cloned().collect();
        for site in suspects {
            self.check_route(&site, out);
        }
    }

    /// Returns the sites that have not answered for longer than they usually take.
    fn stalled_peers(&self) -> BTreeSet<SiteName> {
        let mut stalled: BTreeSet<SiteName> = self.links.stalled(self.now, REPLY_WAIT).cloned().collect();
        let usual = self.links.slowest_round_trip().unwrap_or_default().times(2);
        let timeout = usual.clamp(REPLY_WAIT.0, REPLY_WAIT.1);
        let is_long = |since: &Time| self.now.since(*since) > timeout;
        let leader = self.detours.unanswered.as_ref().filter(|(_, since)| is_long(since));
        stalled.extend(leader.map(|(leader, _)| leader.clone()));
        if !self.view.contains(&self.me) && self.detours.pinged_since.as_ref().is_some_and(is_long) {
            let silent = self.view.members.iter().filter(|member| !self.answered_at.contains_key(*member));
            stalled.extend(silent.map(|member| member.site.clone()));
        }
        stalled.remove(&self.me.site);
        stalled
    }

    /// Forgets a suspect that was neither stalled nor heard for a while, or sends it the beat that is due.
    fn check_route(&mut self, site: &SiteName, out: &mut Vec<NodeOutput>) {
        let (now, window) = (self.now, self.beat_window());
        let Some(suspect) = self.detours.suspects.get_mut(site) else { return };
        if suspect.told_at.is_some_and(|at| now.since(at) > window) {
            suspect.told_at = None;
            self.take_way(site, None, out);
        }
        let Some(suspect) = self.detours.suspects.get_mut(site) else { return };
        if let Some((via, since)) = &suspect.via {
            suspect.beats_until = now + window;
            if !suspect.is_noted && now.since(*since) > window {
                suspect.is_noted = true;
                out.push(NodeOutput::Note(Note::Detour { site: site.clone(), via: via.clone() }));
            }
        }
        if suspect.beats_until + window.times(LINGER) < now {
            self.detours.suspects.remove(site);
        } else if suspect.next_beat <= now && suspect.beats_until >= now {
            self.send_beat(site, out);
        }
    }

    /// Sends a beat directly and through every voter that may carry it.
    fn send_beat(&mut self, site: &SiteName, out: &mut Vec<NodeOutput>) {
        let (now, missing) = (self.now, self.missing_beats());
        // A little earlier than the tick at which it is sent: ticks are not exact.
        let next = (now + self.config.tick.times(BEAT_TICKS)).before(self.config.tick.part(2));
        let Some(suspect) = self.detours.suspects.get_mut(site) else { return };
        suspect.next_beat = next;
        suspect.last_sent = now.max(suspect.last_sent + Span::TICK);
        let hearing = suspect.hearing(missing);
        suspect.says_carried = matches!(hearing, Hearing::Through(_));
        let beat = Content::Beat { sent: suspect.last_sent, hearing };
        out.push(NodeOutput::Send { to: site.clone(), packet: self.packet(beat.clone()) });
        let may_carry = |voter: &&SiteName| {
            **voter != self.me.site && *voter != site && !self.detours.too_old.contains(*voter)
        };
        for carrier in self.voters.sites().iter().filter(may_carry) {
            self.send_carried(carrier.clone(), site.clone(), beat.clone(), out);
        }
    }
}

//! View changes: a member stops, reports what its clients hold, receives the same from all others, and starts again.
//!
//! ```text
//!  install e ── stop the machines of e−1 ── census to all members of e ── census from all ── open e
//! ```
//!
//! A site that opens e has the census of every member of e, and each of those had stopped the machines of e−1 before it
//! sent its census. A site that is not a member of e has no lease. So when the first machine of e starts, nobody acts
//! on a machine of e−1.

use std::collections::BTreeMap;

use meshlock_protocol::Epoch;

use super::letters::Letters;
use super::packet::LinkPayload;
use super::{ClientAnswer, Node, NodeOutput, Note, Purpose, TraceEvent};
use crate::claim::ClaimKey;
use crate::links::{Acceptance, Frame, Links};
use crate::membership::disk::DiskWrite;
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::rules::Rules;
use crate::table::{self, Census, CensusPiece, LeaseClock, LocalView, LockEvent, LockTable};
use crate::view::View;

/// Maximum number of locks that the clients of one member can hold: no correct site keeps more.
const MAX_HELD: usize = 4 << 20;

/// The progress of this site with the view that it installed last.
#[derive(Debug, Default)]
pub(super) struct ViewChange {
    /// This site's own census, while it waits for those of the others.
    own: Option<Census>,
    open: bool,
    /// The newest census of each site, of this view or of a later one.
    censuses: BTreeMap<SiteName, MemberCensus>,
    /// Messages of this view that cannot be handled yet.
    pub(super) letters: Letters,
}

/// The census of one member, as far as it has arrived.
#[derive(Debug)]
struct MemberCensus {
    from: Member,
    epoch: Epoch,
    /// The pieces that have arrived, as they came.
    pieces: Census,
    /// Number of locks in them.
    locks: usize,
    complete: bool,
    /// Whether all of its pieces say the numbers of permits.
    has_permits: bool,
    /// Whether all of its pieces say the modes of holders.
    has_modes: bool,
    /// The key with which the member proves what its clients hold, if it has said it.
    key: Option<ClaimKey>,
}

impl ViewChange {
    /// Returns the keys of the members that have sent a census of this view.
    pub(super) fn claim_keys(&self, epoch: Epoch) -> impl Iterator<Item = (&Member, ClaimKey)> {
        let of_view = self.censuses.values().filter(move |census| census.epoch == epoch);
        of_view.filter_map(|census| Some((&census.from, census.key?)))
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether a message of this view cannot be handled yet: the view is not open, the table has no room for its lock, or
    /// another message about the same lock waits.
    pub(super) fn must_wait(&self, payload: &LinkPayload, table: &LockTable) -> bool {
        let lacks_room = match payload {
            LinkPayload::Census(_) => return false,
            LinkPayload::Lock(of) => !table.has_room(&of.lock),
            LinkPayload::Permits(of) => !table.has_room_for_permits(&of.lock),
            LinkPayload::Left(_) => false,
        };
        !self.open || lacks_room || self.letters.await_room(payload)
    }

    /// Returns the members of the view whose census has not arrived completely.
    pub(super) fn silent<'a>(&self, view: &'a View, me: &Member) -> impl Iterator<Item = &'a Member> {
        view.members.iter().filter(move |&member| {
            let census = self.censuses.get(&member.site);
            let sent = |census: &MemberCensus| {
                census.from == *member && census.epoch == view.epoch && census.complete
            };
            member != me && !census.is_some_and(sent)
        })
    }

    /// Takes a piece of a census, of this view or of a later one. Returns what is wrong with it, if anything is.
    fn on_census(&mut self, from: Member, epoch: Epoch, piece: CensusPiece) -> Result<(), &'static str> {
        let CensusPiece { holdings, last, has_permits, has_modes, key } = piece;
        match self.censuses.get_mut(&from.site) {
            Some(census) if census.epoch > epoch => {}
            Some(census) if census.epoch == epoch && census.from == from => {
                if census.complete {
                    return Err("sends its census twice");
                }
                if census.locks + holdings.len() > MAX_HELD {
                    return Err("sends a census with more locks than a site keeps");
                }
                census.locks += holdings.len();
                census.pieces.extend(Some(holdings).filter(|holdings| !holdings.is_empty()));
                census.complete = last;
                census.has_permits &= has_permits;
                census.has_modes &= has_modes;
                census.key = key;
            }
            Some(_) | None => {
                let (locks, pieces) = (holdings.len(), vec![holdings]);
                let complete = last;
                let census =
                    MemberCensus { from, epoch, pieces, locks, complete, has_permits, has_modes, key };
                self.censuses.insert(census.from.site.clone(), census);
            }
        }
        Ok(())
    }
}

impl Node {
    /// Installs a view that has been agreed on, if it is newer than the installed one.
    pub(super) fn learn(&mut self, view: View, out: &mut Vec<NodeOutput>) {
        if view.epoch <= self.view.epoch || !view.is_well_formed() {
            return;
        }
        let comes_back = !self.view.contains(&self.me) && view.contains(&self.me);
        let before = std::mem::replace(&mut self.view, view);
        let rules = Rules::new(self.view.rules.clone()).ok();
        self.knows_rules = rules.is_some();
        self.note_departures(&before, out);
        if comes_back {
            self.noted_refusal = None;
            self.trace_site(TraceEvent::Recover, out);
        }
        self.unanswered = 0;
        self.adopt_terms(out);
        out.push(NodeOutput::Note(Note::Installed(self.view.clone())));
        self.answer_rules(out);
        let census = self.stop_table(rules.as_ref());
        self.change.open = false;
        let epoch = self.view.epoch;
        self.change.censuses.retain(|_, census| census.epoch >= epoch);
        self.answered_at.clear();
        self.forget_unheard();
        self.detours.on_view();
        let view = &self.view;
        let early = &self.change.censuses;
        self.links.retain(|peer| {
            view.contains(peer) || early.get(&peer.site).is_some_and(|census| census.from == *peer)
        });
        self.links.drop_void(epoch);
        self.drop_letters();
        if self.view.contains(&self.me) {
            let others = self.view.members.iter().filter(|member| **member != self.me).cloned();
            let others: Vec<Member> = others.collect();
            for (holdings, left) in census.iter().zip((0..census.len()).rev()) {
                for member in &others {
                    let (holdings, last) = (holdings.clone(), left == 0);
                    let key = self.config.claim_key.filter(|_| last);
                    let (has_permits, has_modes) = (true, true);
                    let piece = CensusPiece { holdings, last, has_permits, has_modes, key };
                    let payload = LinkPayload::Census(piece);
                    self.post(out, |links, now, post| links.send(member, epoch, payload, now, post));
                }
            }
            self.change.own = Some(census);
            self.open_if_census_complete(out);
            if !self.lease.is_valid(self.now) {
                self.reach_out(out);
            }
        } else if !self.view.may_join(&self.me) {
            self.on_left_out(&before, out);
        }
    }

    /// Reacts to a view that this incarnation of the site does not take part in, and may not join. `before` is the view
    /// that was installed before it.
    fn on_left_out(&mut self, before: &View, out: &mut Vec<NodeOutput>) {
        let last = self.view.last_incarnation(&self.me.site);
        let believes = mutant::is_on(Mutant::FormerLeaderBelieved);
        if self.me.incarnation < last && !before.contains(&self.me) && !believes {
            // The disk was lost, and others know a later incarnation of this site. The view may come from a former
            // leader, which does not know the last one. So this site does not choose a later incarnation by itself: it
            // asks to join as it is, and a confirmed leader says which one was the last (`Content::TooOld`).
            return self.tell_that_it_has_left(out);
        }
        // This site took part, perhaps without ever knowing, and does not any more.
        if self.leaving.is_none() {
            let (epoch, member) = (self.view.epoch, self.me.clone());
            out.push(NodeOutput::Note(Note::Excluded { epoch, member }));
        }
        self.in_table(out, |table, lease_clock, out| table.lose_all(lease_clock.now, out));
        self.trace_site(TraceEvent::Fail, out);
        // Later than the floor, too: no later incarnation of this site took part before this one, or this one would not
        // have been let in.
        if last <= self.me.incarnation {
            self.me.incarnation = self.me.incarnation.next();
        } else {
            self.begin_after_another(last);
        }
        self.begin_incarnation(out);
        self.tell_that_it_has_left(out);
    }

    /// Takes an incarnation after `last`, which was not this process's. It may be that of a second process under this site's name
    /// (`rival.rs`), which goes on with the next one when it is left out: two processes must never be the same member.
    pub(super) fn begin_after_another(&mut self, last: Incarnation) {
        // The draw hides the other two mistakes, but for one run in a million.
        let wrong = [Mutant::GoesOnAsAnother, Mutant::TooOldUnconfirmed, Mutant::FormerLeaderBelieved];
        if wrong.into_iter().any(mutant::is_on) {
            self.me.incarnation = last.next();
            return;
        }
        let mut draw = fastrand::Rng::with_seed(self.config.seed ^ self.me.incarnation.number());
        self.me.incarnation = last.after_anothers(draw.u64(..));
    }

    /// Begins an incarnation of this site: nothing of the last one is left, and nothing is sent before the incarnation
    /// is on disk.
    pub(super) fn begin_incarnation(&mut self, out: &mut Vec<NodeOutput>) {
        self.may_send = false;
        self.lease.give_up(self.now);
        self.noticed = None;
        self.links.retain(|_| false);
        self.change = ViewChange::default();
        self.table.begin_incarnation(&self.me);
        let incarnation = self.me.incarnation;
        self.persist(vec![DiskWrite::Incarnation(incarnation)], Purpose::Incarnation(incarnation), out);
    }

    /// Starts the machines, if the census of every member is here.
    fn open_if_census_complete(&mut self, out: &mut Vec<NodeOutput>) {
        let Some(me) = self.view.place(&self.me) else { return };
        if self.change.own.is_none() {
            return;
        }
        let epoch = self.view.epoch;
        let tolerated = usize::from(mutant::is_on(Mutant::CensusSkipped));
        if self.change.silent(&self.view, &self.me).nth(tolerated).is_some() {
            return;
        }
        let rules = match Rules::new(self.view.rules.clone()) {
            Ok(rules) => rules,
            // Other sites may run machines that this program does not have. To run different ones would be worse than
            // to run none.
            Err(error) => {
                return out.push(NodeOutput::Note(Note::CannotOpen { epoch, why: error.to_string() }));
            }
        };
        let mut own = self.change.own.take();
        let others = self.view.members.iter().filter(|member| **member != self.me);
        let others = others.filter_map(|member| self.change.censuses.get(&member.site));
        let shares_permits = others.clone().all(|census| census.has_permits);
        let shares_modes = others.clone().all(|census| census.has_modes);
        self.learn_claim_keys();
        let mut sent = |member: &Member| match self.change.censuses.remove(&member.site) {
            _ if *member == self.me => own.take(),
            Some(census) if census.from == *member && census.epoch == epoch => Some(census.pieces),
            Some(_) | None => None,
        };
        let all: Vec<Census> =
            self.view.members.iter().map(|member| sent(member).unwrap_or_default()).collect();
        self.change.open = true;
        out.push(NodeOutput::Note(Note::Opened(epoch)));
        self.trace_view(out);
        let members = self.view.members.len();
        let mut local_view = LocalView::new(epoch, members, me, rules);
        local_view.shares_permits = shares_permits;
        if !shares_modes {
            local_view = local_view.without_modes();
        }
        self.in_table(out, |table, lease_clock, out| table.open(local_view, &all, lease_clock, out));
        self.handle_early(out);
    }

    /// Handles a frame that has arrived on a link.
    pub(super) fn on_frame(&mut self, from: Member, frame: Frame<LinkPayload>, out: &mut Vec<NodeOutput>) {
        // Only members of this view have a link, and members of a view that this site will install later.
        let newer = matches!(&frame, Frame::Data { epoch, .. } if *epoch > self.view.epoch);
        if !self.view.contains(&from) && !newer {
            return;
        }
        let (change, table, epoch) = (&self.change, &self.table, self.view.epoch);
        let limits = *self.links.limits();
        // What belongs to another view takes no room.
        let accepts = |sent_in: Epoch, payload: &LinkPayload| {
            if sent_in == epoch && change.must_wait(payload, table) {
                change.letters.acceptance(&from.site, payload, &limits)
            } else {
                Acceptance::Take
            }
        };
        if let Frame::Data { number, .. } = &frame {
            self.arrived = *number;
        }
        let received = self.links.receive(&from, frame, self.now, &mut self.posted, accepts);
        if !self.posted.is_empty() {
            // What the acknowledgement made room for goes out before anything that the message causes.
            self.post(out, |_, _, _| {});
        }
        match received {
            Ok(None) => {}
            Ok(Some((sent_in, payload))) => self.on_link_message(from, sent_in, payload, out),
            Err(fault) => Node::misbehaved(from.site, &fault.to_string(), out),
        }
        if self.links.owes_ack() {
            self.post(out, Links::on_time);
        }
    }

    fn on_link_message(
        &mut self,
        from: Member,
        sent_in: Epoch,
        payload: LinkPayload,
        out: &mut Vec<NodeOutput>,
    ) {
        let epoch = self.view.epoch;
        let careless = mutant::is_on(Mutant::OldEpochAccepted);
        match payload {
            LinkPayload::Census(piece) => {
                if sent_in < epoch {
                    return;
                }
                let site = from.site.clone();
                match self.change.on_census(from, sent_in, piece) {
                    Ok(()) => self.open_if_census_complete(out),
                    Err(why) => Node::misbehaved(site, why, out),
                }
            }
            payload if sent_in == epoch || careless && sent_in < epoch => {
                self.on_letter(from, payload, out);
            }
            LinkPayload::Lock(_) | LinkPayload::Left(_) | LinkPayload::Permits(_) => {
                // Older messages are for machines that have stopped. Nobody can open a newer view before this site has
                // sent its census.
                if sent_in > epoch {
                    Node::misbehaved(from.site, "sends for machines that cannot run yet", out);
                }
            }
        }
    }

    /// Handles a message of the view that is open.
    pub(super) fn on_payload(&mut self, from: &Member, payload: LinkPayload, out: &mut Vec<NodeOutput>) {
        let Some(place) = self.view.place(from) else { return };
        match payload {
            LinkPayload::Lock(message) => {
                self.in_table(out, |table, lease_clock, out| {
                    table.on_message(place, message, lease_clock, out);
                });
            }
            LinkPayload::Left(lock) => {
                self.in_table(out, |table, _, out| table.on_left_elsewhere(place, &lock, out));
            }
            LinkPayload::Permits(message) => {
                self.in_table(out, |table, lease_clock, out| {
                    table.on_permits(place, message, lease_clock, out);
                });
            }
            LinkPayload::Census(_) => {}
        }
    }

    /// Calls `act` on the table and passes on the outputs.
    pub(super) fn in_table(
        &mut self,
        out: &mut Vec<NodeOutput>,
        act: impl FnOnce(&mut LockTable, LeaseClock, &mut Vec<table::TableOutput>),
    ) {
        let mut wanted = std::mem::take(&mut self.wanted);
        let lease_clock = self.lease_clock();
        act(&mut self.table, lease_clock, &mut wanted);
        let epoch = self.view.epoch;
        for output in wanted.drain(..) {
            match output {
                table::TableOutput::LockEvent(tell) => out.push(NodeOutput::Answer(ClientAnswer::Lock(tell))),
                table::TableOutput::Claim(event) => {
                    out.push(NodeOutput::Answer(ClientAnswer::Claim(event)));
                }
                table::TableOutput::Leaving => out.push(NodeOutput::Answer(ClientAnswer::Leaving)),
                table::TableOutput::Unavailable { request, obstacle } => {
                    let unavailable = LockEvent::Unavailable { request, why: self.explain(obstacle) };
                    out.push(NodeOutput::Answer(ClientAnswer::Lock(unavailable)));
                }
                table::TableOutput::Ask(lock) => self.inquire(lock, out),
                table::TableOutput::Send { to, message } => {
                    let member = self.view.members[to].clone();
                    let payload = LinkPayload::Lock(message);
                    self.post(out, |links, now, post| links.send(&member, epoch, payload, now, post));
                }
                table::TableOutput::SendPermits { to, message } => {
                    let member = self.view.members[to].clone();
                    let payload = LinkPayload::Permits(message);
                    self.post(out, |links, now, post| links.send(&member, epoch, payload, now, post));
                }
                table::TableOutput::Trace(step) => self.trace(*step, out),
                table::TableOutput::Left(lock) => {
                    let others = self.view.members.iter().filter(|member| **member != self.me).cloned();
                    for member in others.collect::<Vec<_>>() {
                        let payload = LinkPayload::Left(lock.clone());
                        self.post(out, |links, now, post| links.send(&member, epoch, payload, now, post));
                    }
                }
                table::TableOutput::Misbehaved { place, why } => {
                    let site = self.view.members.get(place).map(|member| member.site.clone());
                    Node::misbehaved(site.unwrap_or_else(|| self.me.site.clone()), why, out);
                }
            }
        }
        self.wanted = wanted;
        self.handle_roomless(out);
    }
}

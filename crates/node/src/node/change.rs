//! View changes: a member stops, says what its clients hold, hears the same from all others, and starts again.
//!
//! ```text
//!  install e ── stop the machines of e−1 ── census to all members of e ── census from all ── open e
//! ```
//!
//! Whoever opens e has heard from every member of e, and each of those had stopped the machines of e−1 before it spoke.
//! Whoever is not a member of e has no lease. So when the first machine of e starts, nobody acts on a machine of e−1.

use std::collections::{BTreeMap, VecDeque};

use meshlock_protocol::Epoch;

use super::wire::{Letter, Matter};
use super::{Answer, Node, Note, Output, Purpose};
use crate::links::Frame;
use crate::membership::disk::Write;
use crate::mutant::Mutant;
use crate::names::{Member, SiteName};
use crate::rules::Rules;
use crate::table::{self, Census, Footing, LockTable, Seat};
use crate::view::View;

/// How many letters of one member wait for a view to open; more are sent again later.
const MOST_EARLY: usize = 4096;

/// How far this site is with the view that it installed last.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// This site's own census, while it waits for others.
    own: Option<Census>,
    open: bool,
    /// The newest census of each site, of this view or of one still to come.
    heard: BTreeMap<SiteName, (Member, Epoch, Census)>,
    /// What has come for the machines that do not run yet, in order.
    early: VecDeque<(Member, Matter)>,
}

impl Change {
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The members of the view from which no census has come.
    pub(super) fn silent<'a>(&self, view: &'a View, me: &Member) -> impl Iterator<Item = &'a Member> {
        view.members.iter().filter(move |&member| {
            let heard = self.heard.get(&member.site);
            member != me && heard.is_none_or(|(from, of, _)| from != member || *of != view.epoch)
        })
    }

    fn waiting_from(&self, member: &Member) -> usize {
        self.early.iter().filter(|(from, _)| from == member).count()
    }
}

impl Node {
    /// A view has been agreed on. Installs it if it is newer than the one that is installed.
    pub(super) fn learn(&mut self, view: View, out: &mut Vec<Output>) {
        if view.epoch <= self.view.epoch || !view.is_well_formed() {
            return;
        }
        self.view = view;
        self.unanswered = 0;
        self.go_by_its_terms(out);
        out.push(Output::Note(Note::Installed(self.view.clone())));
        self.answer_rules(out);
        let census = self.table.stop();
        self.change.open = false;
        self.change.early.clear();
        let epoch = self.view.epoch;
        self.change.heard.retain(|_, (_, of, _)| *of >= epoch);
        self.heard.clear();
        let view = &self.view;
        let early = &self.change.heard;
        self.links.retain(|peer| {
            view.contains(peer) || early.get(&peer.site).is_some_and(|(member, ..)| member == peer)
        });
        if self.view.contains(&self.me) {
            let others = self.view.members.iter().filter(|member| **member != self.me).cloned();
            let others: Vec<Member> = others.collect();
            for member in others {
                let letter = Letter { epoch, matter: Matter::Census(census.clone()) };
                self.post(out, |links, now, post| links.send(&member, letter, now, post));
            }
            self.change.own = Some(census);
            self.open_if_all_have_spoken(out);
            if !self.lease.is_valid(self.now) {
                self.reach_out(out);
            }
        } else if !self.view.may_join(&self.me) {
            // It took part, perhaps without ever hearing of it, and does not any more.
            out.push(Output::Note(Note::Excluded { epoch, member: self.me.clone() }));
            self.in_table(out, |table, footing, out| table.lose_all(footing.now, out));
            self.me.incarnation = self.me.incarnation.next();
            self.begin_life(out);
            if let Some(request) = self.leaving {
                out.push(Output::Answer(Answer::Left { request }));
            }
        }
    }

    /// A life of this site begins: nothing of the last one is left, and nothing is said before the disk knows of it.
    pub(super) fn begin_life(&mut self, out: &mut Vec<Output>) {
        self.may_speak = false;
        self.lease.give_up(self.now);
        self.noticed = None;
        self.links.retain(|_| false);
        self.change = Change::default();
        let life = self.me.incarnation;
        self.persist(vec![Write::Incarnation(life)], Purpose::Life(life), out);
    }

    /// Starts the machines, if the census of every member is here.
    fn open_if_all_have_spoken(&mut self, out: &mut Vec<Output>) {
        let Some(me) = self.view.place(&self.me) else { return };
        if self.change.own.is_none() {
            return;
        }
        let epoch = self.view.epoch;
        let tolerated = usize::from(self.config.mutants.has(Mutant::CensusSkipped));
        if self.change.silent(&self.view, &self.me).nth(tolerated).is_some() {
            return;
        }
        let rules = match Rules::new(self.view.rules.clone()) {
            Ok(rules) => rules,
            // Others may run machines that this site does not have. To run different ones would be worse than none.
            Err(error) => return out.push(Output::Note(Note::CannotOpen { epoch, why: error.to_string() })),
        };
        let mut own = self.change.own.take();
        let mut spoken = |member: &Member| match self.change.heard.remove(&member.site) {
            _ if *member == self.me => own.take(),
            Some((from, of, census)) if from == *member && of == epoch => Some(census),
            Some(_) | None => None,
        };
        let all: Vec<Census> =
            self.view.members.iter().map(|member| spoken(member).unwrap_or_default()).collect();
        self.change.open = true;
        out.push(Output::Note(Note::Opened(epoch)));
        let members = self.view.members.len();
        let seat = Seat { epoch, members, me, rules };
        self.in_table(out, |table, footing, out| table.open(seat, &all, footing, out));
        for (from, matter) in std::mem::take(&mut self.change.early) {
            self.on_matter(&from, matter, out);
        }
    }

    /// Something has come on a link.
    pub(super) fn on_frame(&mut self, from: Member, frame: Frame<Letter>, out: &mut Vec<Output>) {
        // Only members of this view have a link, and those of a view that is still to come here.
        let newer = matches!(&frame, Frame::Data { body, .. } if body.epoch > self.view.epoch);
        if !self.view.contains(&from) && !newer {
            return;
        }
        let full = !self.change.open && self.change.waiting_from(&from) >= MOST_EARLY;
        let takes = |letter: &Letter| !full || matches!(letter.matter, Matter::Census(_));
        match self.links.receive(&from, frame, self.now, takes) {
            Ok(None) => {}
            Ok(Some(letter)) => self.on_letter(from, letter, out),
            Err(fault) => Node::misbehaved(from.site, &fault.to_string(), out),
        }
    }

    fn on_letter(&mut self, from: Member, letter: Letter, out: &mut Vec<Output>) {
        let epoch = self.view.epoch;
        let careless = self.config.mutants.has(Mutant::OldEpochAccepted);
        match letter.matter {
            Matter::Census(census) => {
                let known = self.change.heard.get(&from.site).map(|(_, of, _)| *of);
                if letter.epoch >= epoch && known.is_none_or(|of| of <= letter.epoch) {
                    self.change.heard.insert(from.site.clone(), (from, letter.epoch, census));
                    self.open_if_all_have_spoken(out);
                }
            }
            matter if letter.epoch == epoch || careless && letter.epoch < epoch => {
                if self.change.open {
                    self.on_matter(&from, matter, out);
                } else {
                    self.change.early.push_back((from, matter));
                }
            }
            Matter::Lock(_) | Matter::Left(_) => {
                // Older ones are of machines that have stopped. Nobody can open a newer view before this site has spoken.
                if letter.epoch > epoch {
                    Node::misbehaved(from.site, "speaks for machines that cannot run yet", out);
                }
            }
        }
    }

    fn on_matter(&mut self, from: &Member, matter: Matter, out: &mut Vec<Output>) {
        let Some(place) = self.view.place(from) else { return };
        match matter {
            Matter::Lock(message) => {
                self.in_table(out, |table, footing, out| table.on_message(place, message, footing, out));
            }
            Matter::Left(lock) => {
                self.in_table(out, |table, _, out| table.on_left_elsewhere(place, &lock, out));
            }
            Matter::Census(_) => {}
        }
    }

    /// Lets the table do something and passes on what it wants done.
    pub(super) fn in_table(
        &mut self,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut LockTable, Footing, &mut Vec<table::Output>),
    ) {
        let mut wanted = Vec::new();
        let footing = self.footing();
        act(&mut self.table, footing, &mut wanted);
        let epoch = self.view.epoch;
        for output in wanted {
            match output {
                table::Output::Tell(tell) => out.push(Output::Answer(Answer::Lock(tell))),
                table::Output::Send { to, message } => {
                    let member = self.view.members[to].clone();
                    let letter = Letter { epoch, matter: Matter::Lock(message) };
                    self.post(out, |links, now, post| links.send(&member, letter, now, post));
                }
                table::Output::Left(lock) => {
                    let others = self.view.members.iter().filter(|member| **member != self.me).cloned();
                    for member in others.collect::<Vec<_>>() {
                        let letter = Letter { epoch, matter: Matter::Left(lock.clone()) };
                        self.post(out, |links, now, post| links.send(&member, letter, now, post));
                    }
                }
                table::Output::Misbehaved { place, why } => {
                    let site = self.view.members.get(place).map(|member| member.site.clone());
                    Node::misbehaved(site.unwrap_or_else(|| self.me.site.clone()), why, out);
                }
            }
        }
    }
}

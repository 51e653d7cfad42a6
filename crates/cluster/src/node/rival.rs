//! A second process under the name of a running site: why it is refused, and disturbs nobody.
//!
//! An operator may start a site twice by mistake, with a disk of its own each: on another machine, with a copied configuration. Each process has
//! its own incarnations, and only one of them can be a member. As long as that one renews its lease the other one waits, and both
//! are told, so that their logs name each other:
//!
//! ```text
//!  second s2 ──── connects, or asks to join ───▶ any site
//!            ◀─── View, TooOld { refused, in use } ─  (the connection is closed)
//!  first s2  ◀─── TooOld { refused, in use } ──────
//! ```
//!
//! A [`Content::TooOld`] whose `last` incarnation is *below* the other one says this, and changes no state at either. (With `last` at or
//! above it, it says that the incarnation cannot take part any more, and a later one begins.) A site that was restarted is not meant:
//! its old process is dead, does not answer and does not renew. So
//! - the host keeps the connection of a process that still answers, and refuses the other one (`net/contest.rs` of the crate `host`);
//! - the leader speaks of a second process only if the member has renewed its lease long after the other one had asked to join.
//!
//! The second process votes with no disk but the one that is registered (`registration.rs`) and has no link to anyone. If the first one is
//! left out, because it was stopped for long, the second one may take part. No two processes ever take the same incarnation: each goes on after
//! its own last one, and after another's with a stamp that it draws ([`Incarnation::after_anothers`]).

#[cfg(test)]
mod tests;

use super::leader::Leadership;
use super::packet::{Content, Packet};
use super::{Node, NodeOutput, Note};
use crate::mutant::{self, Mutant};
use crate::names::{Incarnation, Member, SiteName};
use crate::time::Time;
use crate::view::View;

/// A process that asks a leader to join, though another incarnation of its site takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    incarnation: Incarnation,
    /// When it asked first.
    since: Time,
    is_noted: bool,
}

/// Returns what both processes are told.
fn told(refused: Incarnation, in_use: Incarnation) -> Content {
    Content::TooOld { incarnation: refused.max(in_use.next()), last: in_use }
}

impl Leadership {
    /// Records that `asker` asks to join. Returns the member that it has the name of, if that one has renewed its lease so long after
    /// the first time that it must be running, and whether this is news.
    pub(super) fn on_rival(&mut self, asker: &Member, view: &View, now: Time) -> Option<(Member, bool)> {
        let member = view.member(&asker.site).filter(|member| *member != asker)?;
        let (last, max_gap) = (self.last_contact(member)?, self.max_gap());
        let rival = Rival { incarnation: asker.incarnation, since: now, is_noted: false };
        let known = self.rivals.entry(asker.site.clone()).or_insert(rival);
        if known.incarnation != asker.incarnation {
            *known = rival;
        }
        let runs = last > known.since + max_gap || mutant::is_on(Mutant::RestartTakenForRival);
        runs.then(|| (member.clone(), !std::mem::replace(&mut known.is_noted, true)))
    }

    /// Returns whether no process is known to run under this name: the one that takes part, if any, does not renew its lease.
    pub(super) fn is_name_free(&self, site: &SiteName, view: &View, now: Time) -> bool {
        let renews = |member: &Member| self.is_in_contact(member, now);
        !view.member(site).is_some_and(renews) || mutant::is_on(Mutant::RivalTakesNextIncarnation)
    }
}

impl Node {
    /// Returns whether this incarnation of the site is a member of the installed view.
    pub fn takes_part(&self, site: &SiteName, incarnation: Incarnation) -> bool {
        self.view.member(site).is_some_and(|member| member.incarnation == incarnation)
    }

    /// Returns a packet that any site answers at once.
    pub fn probe(&self) -> Packet {
        self.packet(Content::Ping)
    }

    /// Returns what to tell the process `refused`, whose connection is refused because another process runs under its name, and what to
    /// tell that one.
    pub fn refusal(&self, refused: Incarnation, in_use: Incarnation) -> (Vec<Packet>, Packet) {
        let told = self.packet(told(refused, in_use));
        // The view says where the other process is. To one with an earlier incarnation it would say that it must take a later one.
        let helps = self.votes(&self.me.site) && in_use < refused;
        let view = helps.then(|| self.packet(Content::View(self.view.clone())));
        (view.into_iter().chain([told.clone()]).collect(), told)
    }

    /// Refuses a process that asks to join under the name of a member that runs, as the leader.
    pub(super) fn refuse_rival(
        &mut self,
        refused: Incarnation,
        (member, is_news): (Member, bool),
        out: &mut Vec<NodeOutput>,
    ) {
        if is_news {
            out.push(NodeOutput::Note(Note::NameUsedTwice { member: member.clone(), refused }));
        }
        self.send(member.site, told(refused, member.incarnation), out);
    }

    /// Handles the information that two processes run under this site's name: this one and another one. It is noted once.
    fn on_name_used_twice(&mut self, refused: Incarnation, in_use: Incarnation, out: &mut Vec<NodeOutput>) {
        let takes_part = self.view.contains(&self.me);
        let is_first = in_use == self.me.incarnation;
        let rival = Some(if is_first { refused } else { in_use });
        if takes_part != is_first || std::mem::replace(&mut self.noted_rival, rival) == rival {
            return;
        }
        out.push(NodeOutput::Note(if is_first {
            Note::NameUsedTwice { member: self.me.clone(), refused }
        } else {
            let member = Member { site: self.me.site.clone(), incarnation: in_use };
            Note::NameTaken { member, address: self.view.address(&self.me.site).cloned() }
        }));
    }

    /// Handles the leader's answer that this incarnation, which asks to join, is not later than one that took part.
    pub(super) fn on_too_old(
        &mut self,
        from: SiteName,
        incarnation: Incarnation,
        last: Incarnation,
        out: &mut Vec<NodeOutput>,
    ) {
        if last < incarnation {
            return self.on_name_used_twice(incarnation, last, out);
        }
        if !self.votes(&from) {
            return Node::doubt(from, "calls an incarnation too old and does not vote", out);
        }
        if incarnation == self.me.incarnation && !self.view.contains(&self.me) {
            out.push(NodeOutput::Note(Note::TooOld(self.me.clone())));
            self.begin_after_another(last);
            self.begin_incarnation(out);
        }
    }
}

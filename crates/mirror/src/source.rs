//! What a site has told its mirror, and what it owes it: pure.
//!
//! The mirror asks again and again what has changed since the version that it has; an answer is confirmed by the question that names
//! its version. There is one answer on its way at a time, so that an answer that was lost is told again.
//!
//! **When the mirror changes** because a member joins, the former one may be answering for this site's clients. So it is told that all is over
//! that it knows of; it confirms that when no client counts on what it has said. Until then, or until it cannot count on anything any more,
//! the new mirror is not told of these sessions.
//!
//! **Invariants**
//! - Q1: whatever the mirror may know of a session is `told` until the mirror has confirmed that the session is over.
//! - Q2: a change counts as known only after a question that names an answer from after that change, and when no former mirror is left that
//!   may not know it. (Else a release that the new mirror knows would come back through the former one.)
//! - Q3: a session is told to one mirror at a time. (Two claims of one hold void each other when this site is gone.)

use std::collections::BTreeSet;

use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::{Member, SiteName};
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::mirror::{MAX_MIRRORED, MirrorNews, MirroredSession};

use crate::LeaseId;
use crate::follower::{Follower, SentNews};

/// Maximum length of the sessions in one answer, in bytes: locks share the connection.
const MAX_NEWS_BYTES: usize = 96 << 10;

/// A mirror that has so many changes to be told of does not follow any more. It begins anew when it asks again.
const MAX_DIRTY: usize = 1 << 16;

/// Number of a change of this site's sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeNumber(u64);

/// What a site knows of its mirror.
#[derive(Clone, Debug, Default)]
pub struct Source {
    follower: Option<Follower>,
    /// Mirrors before the present one that may still count on what they were told.
    formers: Vec<Follower>,
    changes: ChangeNumber,
    /// The version of the last answer to anyone.
    last: u64,
    /// Sessions that have changed since the follower was told of them.
    dirty: BTreeSet<LeaseId>,
    /// This site leaves, and lets go of nothing any more.
    leaves: bool,
    /// The mirror that knows that this site leaves, and answers for its sessions from then on: it stays the mirror.
    successor: Option<Member>,
}

/// A question of the mirror that cannot be answered: it has to begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

impl Source {
    /// Notes that a session has changed.
    pub fn on_change(&mut self, lease: LeaseId) {
        self.changes.0 += 1;
        if self.follower.is_none() || self.is_withheld(lease) {
            return;
        }
        self.dirty.insert(lease);
        if self.dirty.len() > MAX_DIRTY {
            self.retire_mirror();
        }
    }

    /// Notes that this site leaves.
    pub fn on_leaving(&mut self) {
        self.changes.0 += 1;
        self.leaves = true;
    }

    /// Notes the other members of the view that this site has installed. Whoever is none has no lease any more, and counts on nothing.
    pub fn on_view(&mut self, members: &[Member]) {
        let is_gone = |member: &Member| !members.contains(member);
        self.successor.take_if(|successor| is_gone(successor));
        if self.follower.take_if(|follower| is_gone(&follower.member)).is_some() {
            self.dirty.clear();
        }
        self.forget_formers(|former| is_gone(&former.member));
    }

    /// Returns whether `from` mirrors this site, where by the view the site `next` does. A site that leaves keeps the mirror that answers
    /// for its sessions already.
    pub fn is_mirror(&self, from: &Member, next: Option<&SiteName>) -> bool {
        let successor = self.successor.as_ref().filter(|_| !mutant::is_on(Mutant::LeavesToAnother));
        successor.map_or_else(|| next == Some(&from.site), |successor| successor == from)
    }

    /// Returns the member that mirrors this site, if it has asked.
    pub fn mirror(&self) -> Option<&Member> {
        self.follower.as_ref().map(|follower| &follower.member)
    }

    /// Returns whether a former mirror may claim the session, so that the present one is not told of it.
    fn is_withheld(&self, lease: LeaseId) -> bool {
        let is_told = self.follower.as_ref().is_some_and(|follower| follower.told.contains(&lease));
        !is_told && self.may_claim(lease) && !mutant::is_on(Mutant::ToldBesideFormer)
    }

    fn may_claim(&self, lease: LeaseId) -> bool {
        self.formers.iter().any(|former| former.told.contains(&lease))
    }

    /// Notes that the mirror is not the mirror any more.
    fn retire_mirror(&mut self) {
        self.dirty.clear();
        let former = self.follower.take().filter(|former| !former.told.is_empty());
        self.formers.extend(former.filter(|_| !mutant::is_on(Mutant::FormerMirrorForgotten)));
    }

    /// Forgets former mirrors.
    fn forget_formers(&mut self, is_over: impl Fn(&Follower) -> bool) {
        let over: Vec<Follower> = self.formers.extract_if(.., |former| is_over(former)).collect();
        for former in over {
            self.on_dropped(former.told);
        }
    }

    /// Notes that a former mirror does not know of these sessions any more.
    fn on_dropped(&mut self, leases: BTreeSet<LeaseId>) {
        if self.follower.is_some() {
            let told = leases.into_iter().filter(|lease| !self.may_claim(*lease)).collect::<Vec<_>>();
            self.dirty.extend(told);
        }
    }

    /// Handles a question of the mirror `from`, which has the news of version `have`. `all` are the leases of this site. A mirror may count on
    /// what it was told for `window` after the answer.
    pub fn on_question(
        &mut self,
        from: &Member,
        have: u64,
        all: impl Iterator<Item = LeaseId>,
        (now, window): (Time, Span),
    ) -> Result<(), UnknownVersion> {
        self.forget_formers(|former| former.is_over(now, window));
        let is_same = self.follower.as_ref().is_some_and(|follower| follower.member == *from);
        if !is_same || have == 0 {
            self.begin(from, all, now, is_same);
            return Ok(());
        }
        let Some(follower) = &mut self.follower else { return Err(UnknownVersion) };
        follower.heard = now;
        if have == follower.last {
            if let Some(sent) = follower.confirm() {
                follower.known = follower.known.max(sent.until);
                follower.knows_leaving |= sent.leaves;
                // It may have been told of it again since.
                let dirty = &self.dirty;
                sent.over().filter(|lease| !dirty.contains(lease)).for_each(|lease| {
                    follower.told.remove(lease);
                });
            }
            if follower.knows_leaving {
                self.successor.get_or_insert_with(|| from.clone());
            }
            return Ok(());
        }
        if have != follower.confirmed {
            return Err(UnknownVersion);
        }
        // The answer was lost.
        if let Some(sent) = follower.sent.take()
            && !mutant::is_on(Mutant::LostAnswerForgotten)
        {
            self.dirty.extend(sent.ended);
            self.dirty.extend(sent.changed);
        }
        Ok(())
    }

    /// Begins with a mirror that knows nothing.
    fn begin(&mut self, from: &Member, all: impl Iterator<Item = LeaseId>, now: Time, is_same: bool) {
        if !is_same {
            self.retire_mirror();
        }
        // One that begins anew has what it was told until it is told otherwise.
        let before = self.follower.take();
        let was_before = self.formers.iter().position(|former| former.member == *from);
        let before = before.or_else(|| was_before.map(|at| self.formers.swap_remove(at)));
        let (told, answered) = before.map_or_else(Default::default, |before| (before.told, before.answered));
        self.dirty.clone_from(&told);
        self.follower = Some(Follower { told, answered, ..Follower::new(from.clone(), now) });
        let all = all.filter(|lease| !self.is_withheld(*lease)).collect::<Vec<_>>();
        self.dirty.extend(all);
    }

    /// Handles a question of a member that is not the mirror of this site, and has the news of version `have`. If it was before, it is
    /// told that all is over that it may know of. Returns `None` if it knows nothing (any more).
    pub fn on_former_question(&mut self, from: &Member, have: u64, now: Time) -> Option<MirrorNews> {
        if self.follower.as_ref().is_some_and(|follower| follower.member == *from) {
            self.retire_mirror();
        }
        let at = self.formers.iter().position(|former| former.member == *from)?;
        let former = &mut self.formers[at];
        let confirmed = former.take_if_confirmed(have);
        let dropped = confirmed.iter().flat_map(SentNews::over).copied().collect::<BTreeSet<_>>();
        former.told.retain(|lease| !dropped.contains(lease));
        let ended: Vec<LeaseId> = former.told.iter().take(MAX_MIRRORED).copied().collect();
        if ended.is_empty() {
            self.formers.remove(at);
            self.on_dropped(dropped);
            return None;
        }
        self.last += 1;
        let (changed, until) = (Vec::new(), former.known);
        let numbers = ended.iter().map(|lease| lease.number()).collect();
        former.send(self.last, SentNews { until, leaves: false, ended, changed }, now);
        self.on_dropped(dropped);
        let changed = Vec::new();
        Some(MirrorNews { version: self.last, is_first: false, leaves: false, ended: numbers, changed })
    }

    /// Takes the sessions that the mirror has to be told of. The caller looks what they are now and passes it to [`Source::answer`].
    pub fn take_dirty(&mut self) -> BTreeSet<LeaseId> {
        std::mem::take(&mut self.dirty)
    }

    /// Returns whether the mirror knows something that is not so any more, or has to be told that this site leaves.
    pub fn is_urgent(&self) -> bool {
        let Some(follower) = &self.follower else { return false };
        self.leaves && !follower.knows_leaving || self.dirty.iter().any(|lease| follower.told.contains(lease))
    }

    /// Returns whether the mirror has something to be told of.
    pub fn has_news(&self) -> bool {
        let says_leaving = |follower: &Follower| self.leaves && !follower.knows_leaving;
        !self.dirty.is_empty()
            || self
                .follower
                .as_ref()
                .is_some_and(|follower| says_leaving(follower) || follower.confirmed == 0)
    }

    /// Returns the number of the last change, which whoever looks what the sessions are notes before.
    pub fn changes(&self) -> ChangeNumber {
        self.changes
    }

    /// Answers the mirror `to`: `sessions` are the dirty ones as they were looked at after the change `until`, `None` for those that are over
    /// or hold nothing. Returns `None` if somebody else is the mirror by now.
    pub fn answer(
        &mut self,
        to: &Member,
        sessions: Vec<(LeaseId, Option<MirroredSession>)>,
        until: ChangeNumber,
        now: Time,
    ) -> Option<MirrorNews> {
        let leaves = self.leaves;
        let follower = self.follower.as_mut().filter(|follower| follower.member == *to)?;
        let is_first = follower.confirmed == 0;
        let (mut ended, mut changed, mut bytes, mut is_whole) = (Vec::new(), Vec::new(), 0, true);
        for (lease, session) in sessions {
            let Some(session) = session else {
                if follower.told.contains(&lease) {
                    if ended.len() >= MAX_MIRRORED {
                        is_whole = false;
                        self.dirty.insert(lease);
                        continue;
                    }
                    ended.push(lease);
                }
                continue;
            };
            let size = session.size();
            if size > MAX_NEWS_BYTES {
                // It is too large to be mirrored at all: it ends with this site.
                if follower.told.contains(&lease) {
                    ended.push(lease);
                }
            } else if bytes + size > MAX_NEWS_BYTES || changed.len() >= MAX_MIRRORED {
                is_whole = false;
                self.dirty.insert(lease);
            } else {
                bytes += size;
                follower.told.insert(lease);
                changed.push(session);
            }
        }
        self.last += 1;
        is_whole |= mutant::is_on(Mutant::PartCountsAsWhole);
        let until = if is_whole { until } else { follower.known };
        if mutant::is_on(Mutant::KnownWhenSent) {
            follower.known = until;
        }
        let numbers = ended.iter().map(|lease| lease.number()).collect();
        let leases = changed.iter().filter_map(|session| LeaseId::new(session.lease)).collect();
        let sent = SentNews { until, leaves: leaves && is_whole, ended, changed: leases };
        follower.send(self.last, sent, now);
        let ended = numbers;
        Some(MirrorNews { version: self.last, is_first, leaves: leaves && is_whole, ended, changed })
    }

    /// Returns the number of the last change if some mirror may know of the session as it was before: what it holds must not be
    /// given to others without its client's word before the mirror [knows](Source::is_known) it.
    pub fn owes(&self, lease: LeaseId) -> Option<ChangeNumber> {
        let is_told = self.follower.as_ref().is_some_and(|follower| follower.told.contains(&lease));
        (is_told || self.may_claim(lease)).then_some(self.changes)
    }

    /// Returns the same for what has ended without its client's word.
    pub fn owes_unasked(&self, lease: LeaseId) -> Option<ChangeNumber> {
        self.owes(lease).filter(|_| !mutant::is_on(Mutant::GivenBeforeCleared))
    }

    /// Returns the mirror, and those before that may still count on something.
    fn all(&self) -> impl Iterator<Item = &Follower> {
        self.follower.iter().chain(&self.formers)
    }

    /// Returns whether the mirror knows of a change, or there is none; and the same of all mirrors before.
    pub fn is_known(&self, change: ChangeNumber) -> bool {
        let is_aware = |follower: &Follower| follower.known >= change;
        self.follower.iter().all(is_aware)
            && (self.formers.iter().all(is_aware) || mutant::is_on(Mutant::FormerUnaware))
    }

    /// Returns whether nobody counts on what was before a change any more: the mirror knows it, or `window` has passed since it was
    /// answered last; and the same of all mirrors before.
    pub fn is_cleared(&self, change: ChangeNumber, (now, window): (Time, Span)) -> bool {
        let is_past =
            |follower: &Follower| follower.is_over(now, window) || mutant::is_on(Mutant::WindowNotAwaited);
        self.all().all(|follower| follower.known >= change || is_past(follower))
    }

    /// Returns whether the mirror has asked within `span`.
    pub fn is_followed(&self, now: Time, span: Span) -> bool {
        self.follower.as_ref().is_some_and(|follower| now.since(follower.heard) < span)
    }

    /// Returns whether the mirror may know of any session.
    pub fn has_told(&self) -> bool {
        self.follower.as_ref().is_some_and(|follower| !follower.told.is_empty())
    }

    /// Returns the sessions that the mirror certainly answers for, once it knows that this site leaves.
    pub fn moved(&self) -> Option<Vec<LeaseId>> {
        let is_told =
            |follower: &&Follower| follower.knows_leaving || mutant::is_on(Mutant::MovedUnconfirmed);
        let follower = self.follower.as_ref().filter(is_told)?;
        let is_sure = |lease: &&LeaseId| !self.dirty.contains(lease) || mutant::is_on(Mutant::MovedAsItWas);
        let is_on_its_way = |lease: &LeaseId| {
            follower
                .sent
                .as_ref()
                .is_some_and(|sent| sent.ended.contains(lease) || sent.changed.contains(lease))
        };
        Some(follower.told.iter().filter(is_sure).filter(|lease| !is_on_its_way(lease)).copied().collect())
    }

    /// Notes that the mirror has taken over a session, which this site forgets.
    pub fn on_moved(&mut self, lease: LeaseId) {
        self.dirty.remove(&lease);
        if let Some(follower) = &mut self.follower {
            follower.told.remove(&lease);
        }
    }
}

#[cfg(test)]
mod tests;

//! What a site has told its mirror, and what it owes it: pure.
//!
//! The mirror asks again and again what has changed since the version that it has; an answer is confirmed by the question that names
//! its version. There is one answer on its way at a time, so that an answer that was lost is told again.
//!
//! **Invariants**
//! - Q1: whatever the mirror may know of a session is `told` until the mirror has confirmed that the session is over.
//! - Q2: a change counts as known only after a question that names an answer from after that change.

use std::collections::BTreeSet;

use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::names::Member;
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::mirror::{MAX_MIRRORED, MirrorNews, MirroredSession};

use crate::LeaseId;

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
    changes: ChangeNumber,
    /// Sessions that have changed since the follower was told of them.
    dirty: BTreeSet<LeaseId>,
    /// Until when mirrors before the present one may count on what they were told.
    former_until: Time,
    /// This site leaves, and lets go of nothing any more.
    leaves: bool,
}

/// The member that follows the sessions of this site.
#[derive(Clone, Debug)]
struct Follower {
    member: Member,
    /// The version of the last answer, and the last one that is confirmed.
    last: u64,
    confirmed: u64,
    sent: Option<SentNews>,
    /// The sessions that it may know of.
    told: BTreeSet<LeaseId>,
    /// Everything until this change is known to it.
    known: ChangeNumber,
    /// Whether it knows that this site leaves.
    knows_leaving: bool,
    /// When it was answered last, and for how long after that it may count on the answer.
    answered: Option<Time>,
    window: Span,
    heard: Time,
}

/// An answer that is not confirmed.
#[derive(Clone, Debug)]
struct SentNews {
    until: ChangeNumber,
    leaves: bool,
    ended: Vec<LeaseId>,
    changed: Vec<LeaseId>,
}

/// A question of the mirror that cannot be answered: it has to begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

impl Source {
    /// Notes that a session has changed.
    pub fn on_change(&mut self, lease: LeaseId) {
        self.changes.0 += 1;
        let Some(follower) = &self.follower else { return };
        self.dirty.insert(lease);
        if self.dirty.len() > MAX_DIRTY {
            let until = follower.answered.map(|answered| answered + follower.window);
            self.former_until = self.former_until.max(until.unwrap_or_default());
            (self.follower, self.dirty) = (None, BTreeSet::new());
        }
    }

    /// Notes that this site leaves.
    pub fn on_leaving(&mut self) {
        self.changes.0 += 1;
        self.leaves = true;
    }

    /// Handles a question of `from`, which has the news of version `have`. `all` are the leases of this site. A mirror may count on
    /// what it was told for `window` after the answer.
    pub fn on_question(
        &mut self,
        from: &Member,
        have: u64,
        all: impl Iterator<Item = LeaseId>,
        (now, window): (Time, Span),
    ) -> Result<(), UnknownVersion> {
        let is_same = self.follower.as_ref().is_some_and(|follower| follower.member == *from);
        if !is_same || have == 0 {
            self.begin(from, all, (now, window), is_same);
            return Ok(());
        }
        let Some(follower) = &mut self.follower else { return Err(UnknownVersion) };
        follower.heard = now;
        if have == follower.last {
            if let Some(sent) = follower.sent.take() {
                follower.known = follower.known.max(sent.until);
                follower.knows_leaving |= sent.leaves;
                // It may have been told of it again since.
                let dirty = &self.dirty;
                let over = sent.ended.iter().filter(|lease| !sent.changed.contains(lease));
                over.filter(|lease| !dirty.contains(lease)).for_each(|lease| {
                    follower.told.remove(lease);
                });
            }
            follower.confirmed = have;
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
    fn begin(
        &mut self,
        from: &Member,
        all: impl Iterator<Item = LeaseId>,
        (now, window): (Time, Span),
        is_same: bool,
    ) {
        let former = self.follower.take();
        let answered = former.as_ref().filter(|_| !is_same).and_then(|former| former.answered);
        if let Some(answered) = answered
            && !mutant::is_on(Mutant::FormerMirrorForgotten)
        {
            self.former_until = self.former_until.max(answered + window);
        }
        let last = former.as_ref().map_or(0, |former| former.last);
        // One that begins anew has what it was told until it is told otherwise.
        let former = former.filter(|_| is_same);
        let answered = former.as_ref().and_then(|former| former.answered);
        let told = former.map_or_else(BTreeSet::new, |former| former.told);
        self.follower = Some(Follower {
            member: from.clone(),
            last,
            confirmed: 0,
            sent: None,
            told: told.clone(),
            known: ChangeNumber(0),
            knows_leaving: false,
            answered,
            window,
            heard: now,
        });
        self.dirty = all.chain(told).collect();
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
        follower.last += 1;
        follower.answered = Some(now);
        is_whole |= mutant::is_on(Mutant::PartCountsAsWhole);
        let until = if is_whole { until } else { follower.known };
        if mutant::is_on(Mutant::KnownWhenSent) {
            follower.known = until;
        }
        follower.sent = Some(SentNews {
            until,
            leaves: leaves && is_whole,
            ended: ended.clone(),
            changed: changed.iter().filter_map(|session| LeaseId::new(session.lease)).collect(),
        });
        let ended = ended.into_iter().map(LeaseId::number).collect();
        Some(MirrorNews { version: follower.last, is_first, leaves: leaves && is_whole, ended, changed })
    }

    /// Returns the number of the last change if some mirror may know of the session as it was before: what it holds must not be
    /// given to others without its client's word before the mirror [knows](Source::is_known) it.
    pub fn owes(&self, lease: LeaseId, now: Time) -> Option<ChangeNumber> {
        let is_told = self.follower.as_ref().is_some_and(|follower| follower.told.contains(&lease));
        (is_told || now < self.former_until).then_some(self.changes)
    }

    /// Returns the same for what has ended without its client's word.
    pub fn owes_unasked(&self, lease: LeaseId, now: Time) -> Option<ChangeNumber> {
        self.owes(lease, now).filter(|_| !mutant::is_on(Mutant::GivenBeforeCleared))
    }

    /// Returns whether the mirror knows of a change, or there is none.
    pub fn is_known(&self, change: ChangeNumber) -> bool {
        self.follower.as_ref().is_none_or(|follower| follower.known >= change)
    }

    /// Returns whether nobody counts on what was before a change any more: the mirror knows it, or `window` has passed since it was
    /// answered last; and the same of all mirrors before.
    pub fn is_cleared(&self, change: ChangeNumber, (now, window): (Time, Span)) -> bool {
        let is_over = |follower: &Follower| {
            let is_past = |answered| now >= answered + window || mutant::is_on(Mutant::WindowNotAwaited);
            follower.known >= change || follower.answered.is_none_or(is_past)
        };
        now >= self.former_until && self.follower.as_ref().is_none_or(is_over)
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
mod tests {
    use meshlock_cluster::access::Principal;
    use meshlock_cluster::names::Incarnation;
    use meshlock_wire::sites::calls::ForwardedCaller;

    use super::*;

    const WINDOW: Span = Span::from_millis(10_000);

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn member(site: &str) -> Member {
        Member { site: site.parse().unwrap(), incarnation: Incarnation::new(1) }
    }

    fn lease(number: i64) -> LeaseId {
        LeaseId::new(number).unwrap()
    }

    fn session(number: i64) -> MirroredSession {
        let owner = ForwardedCaller::new(&Principal::Local, ([127, 0, 0, 1], 1).into(), 1).unwrap();
        let (label, keys, consul) = (None, Vec::new(), None);
        MirroredSession { lease: number, owner, label, lasts: 1, delay: 0, keys, consul }
    }

    /// A source whose mirror `m` asks, and is answered with these sessions: those that are `None` are over.
    struct Asked(Source);

    impl Asked {
        fn ask(&mut self, have: u64, now: u64, sessions: &[(i64, bool)]) -> Option<MirrorNews> {
            let all = sessions.iter().filter(|(_, is_there)| *is_there).map(|(number, _)| lease(*number));
            self.0.on_question(&member("m"), have, all, (at(now), WINDOW)).ok()?;
            let until = self.0.changes();
            let look = |id: LeaseId| {
                let is_there = sessions.contains(&(id.number(), true));
                (id, is_there.then(|| session(id.number())))
            };
            let looked = self.0.take_dirty().into_iter().map(look).collect();
            self.0.answer(&member("m"), looked, until, at(now))
        }
    }

    fn numbers(news: &MirrorNews) -> (Vec<i64>, Vec<i64>) {
        (news.changed.iter().map(|session| session.lease).collect(), news.ended.clone())
    }

    #[test]
    fn a_release_is_known_when_the_mirror_has_the_news_of_it_and_not_when_it_was_sent() {
        let mut source = Asked(Source::default());
        let first = source.ask(0, 0, &[(1, true), (2, true)]).unwrap();
        assert!(first.is_first && numbers(&first) == (vec![1, 2], vec![]));
        source.0.on_change(lease(1));
        let change = source.0.owes(lease(1), at(1)).unwrap();
        assert!(!source.0.is_known(change));
        let second = source.ask(first.version, 2, &[(2, true)]).unwrap();
        assert_eq!(numbers(&second), (vec![], vec![1]));
        assert!(!second.is_first && !source.0.is_known(change), "it may be lost");
        source.ask(second.version, 3, &[(2, true)]).unwrap();
        assert!(source.0.is_known(change));
        assert_eq!(source.0.owes(lease(1), at(3)), None, "it knows nothing of it any more");
        assert!(source.0.owes(lease(2), at(3)).is_some());
    }

    #[test]
    fn an_answer_that_was_lost_is_told_again() {
        let mut source = Asked(Source::default());
        let first = source.ask(0, 0, &[(1, true)]).unwrap();
        source.0.on_change(lease(1));
        source.0.on_change(lease(2));
        let lost = source.ask(first.version, 1, &[(2, true)]).unwrap();
        let again = source.ask(first.version, 2, &[(2, true)]).unwrap();
        assert_eq!(numbers(&lost), numbers(&again));
        assert_ne!(lost.version, again.version, "a late answer is not taken for the new one");
        assert_eq!(
            source.0.on_question(&member("m"), lost.version, [].into_iter(), (at(3), WINDOW)),
            Err(UnknownVersion)
        );
    }

    #[test]
    fn without_its_clients_word_nothing_is_free_before_the_window_after_the_last_answer() {
        let mut source = Asked(Source::default());
        source.ask(0, 1000, &[(1, true)]).unwrap();
        source.0.on_change(lease(1));
        let change = source.0.owes(lease(1), at(2000)).unwrap();
        assert!(!source.0.is_cleared(change, (at(10_999), WINDOW)));
        assert!(source.0.is_cleared(change, (at(11_000), WINDOW)));
        assert_eq!(source.0.owes(lease(3), at(2000)), None, "nobody was told of it");
    }

    #[test]
    fn a_mirror_that_is_replaced_may_count_on_what_it_knew_for_as_long() {
        let mut source = Asked(Source::default());
        source.ask(0, 1000, &[(1, true)]).unwrap();
        source.0.on_change(lease(1));
        source.0.on_question(&member("n"), 0, [].into_iter(), (at(2000), WINDOW)).unwrap();
        let news = source.0.answer(&member("n"), Vec::new(), source.0.changes(), at(2000)).unwrap();
        source.0.on_question(&member("n"), news.version, [].into_iter(), (at(2001), WINDOW)).unwrap();
        let change = source.0.owes(lease(1), at(2001)).unwrap();
        assert!(!source.0.is_cleared(change, (at(10_999), WINDOW)), "the former one has not confirmed it");
        assert!(source.0.is_cleared(change, (at(12_001), WINDOW)));
    }

    #[test]
    fn what_does_not_fit_is_told_next_and_is_not_known_before() {
        let mut source = Asked(Source::default());
        let many: Vec<(i64, bool)> = (1..=400).map(|number| (number, true)).collect();
        let first = source.ask(0, 1, &many).unwrap();
        source.0.on_change(lease(400));
        let change = source.0.changes();
        let (mut have, mut told) = (first.version, first.changed.len());
        while told < 400 {
            let news = source.ask(have, 1, &many).unwrap();
            assert!(!news.changed.is_empty() && news.changed.len() < 400);
            assert!(!source.0.is_known(change), "the last one is not told yet, or not confirmed");
            (have, told) = (news.version, told + news.changed.len());
        }
        source.ask(have, 2, &many).unwrap();
        assert!(source.0.is_known(change));
    }

    #[test]
    fn sessions_have_moved_when_the_mirror_knows_that_the_site_leaves() {
        let mut source = Asked(Source::default());
        let first = source.ask(0, 0, &[(1, true), (2, true)]).unwrap();
        source.0.on_leaving();
        assert!(source.0.has_news() && !first.leaves);
        let second = source.ask(first.version, 1, &[(1, true), (2, true)]).unwrap();
        assert!(second.leaves && source.0.moved().is_none());
        source.0.on_question(&member("m"), second.version, [].into_iter(), (at(2), WINDOW)).unwrap();
        source.0.on_change(lease(2));
        assert_eq!(source.0.moved(), Some(vec![lease(1)]), "the mirror does not know what the other is now");
    }

    #[test]
    fn every_mistake_of_the_source_is_caught() {
        for (mutant, test) in [
            (
                Mutant::KnownWhenSent,
                a_release_is_known_when_the_mirror_has_the_news_of_it_and_not_when_it_was_sent as fn(),
            ),
            (Mutant::LostAnswerForgotten, an_answer_that_was_lost_is_told_again),
            (Mutant::PartCountsAsWhole, what_does_not_fit_is_told_next_and_is_not_known_before),
            (
                Mutant::WindowNotAwaited,
                without_its_clients_word_nothing_is_free_before_the_window_after_the_last_answer,
            ),
            (Mutant::FormerMirrorForgotten, a_mirror_that_is_replaced_may_count_on_what_it_knew_for_as_long),
            (Mutant::MovedUnconfirmed, sessions_have_moved_when_the_mirror_knows_that_the_site_leaves),
            (Mutant::MovedAsItWas, sessions_have_moved_when_the_mirror_knows_that_the_site_leaves),
        ] {
            mutant::is_caught_by(mutant, test);
        }
    }
}

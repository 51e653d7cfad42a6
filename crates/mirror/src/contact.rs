//! What a mirror may do for the site that it follows, from when it was answered: pure.
//!
//! ```text
//!   question sent ── answered ── asked again ────────── silent ──────────────── over
//!        │                                                │                       │
//!        │◀────────────────────── W ──────────────────────┼──────────────────────▶│  the source gives up nothing that it has told
//!        │                         follows                │       stands in       │
//! ```

use meshlock_cluster::lease::Terms;
use meshlock_cluster::mutant::{self, Mutant};
use meshlock_cluster::time::{Span, Time};
use meshlock_wire::sites::mirror::MirrorNews;

use crate::LeaseId;

/// The bounds of how long a question is held if there is nothing to say.
const MIN_HOLD: Span = Span::from_millis(20);
const MAX_HOLD: Span = Span::from_millis(250);

/// How long a question is held by a site that has told its mirror of nothing.
const IDLE_HOLD: Span = Span::from_millis(2000);

/// What a busy machine and a network may take.
const SLACK: Span = Span::from_millis(150);

/// Returns for how long a question is held that has no answer yet.
pub(crate) fn hold(terms: Terms, has_told: bool) -> Span {
    if !has_told {
        return IDLE_HOLD;
    }
    terms.length.part(16).clamp(MIN_HOLD, MAX_HOLD)
}

/// When a mirror was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceContact {
    /// When the last question was sent that was answered. The source answered it then or later.
    sent: Option<Time>,
    heard: Time,
    leaves: bool,
}

/// What a mirror may do for the site that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// The site answers for its clients itself.
    Follow,
    /// The mirror answers, and may promise what its own lease allows, but nothing beyond `until`.
    StandIn { until: Option<Time> },
    /// The site may have given to others what it held.
    Nothing,
}

impl SourceContact {
    /// Begins to follow.
    pub(crate) fn new(now: Time) -> Self {
        SourceContact { sent: None, heard: now, leaves: false }
    }

    /// Notes the answer to a question that was sent at `sent`, and whether the site has said that it leaves.
    pub(crate) fn on_answer(&mut self, sent: Time, now: Time, leaves: bool) {
        *self = SourceContact { sent: Some(sent), heard: now, leaves };
    }

    /// Notes that the site was not asked until now, so that it could not be heard of.
    pub(crate) fn on_pause_end(&mut self, now: Time) {
        self.heard = now;
    }

    /// Returns when the last question was sent that was answered.
    pub(crate) fn sent(&self) -> Option<Time> {
        self.sent
    }

    /// Returns whether the site has said that it leaves.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves
    }

    /// Returns what the mirror may do at `now`.
    pub(crate) fn duty(&self, now: Time, terms: Terms) -> Duty {
        let Some(sent) = self.sent else { return Duty::Follow };
        if self.leaves {
            return Duty::StandIn { until: None };
        }
        let counted = if mutant::is_on(Mutant::PromisedFromAnswer) { self.heard } else { sent };
        let until = counted + terms.resume_window();
        if now.since(self.heard) <= silent_after(terms) {
            Duty::Follow
        } else if until.before(terms.margin) <= now && !mutant::is_on(Mutant::PromisedWithoutMargin) {
            Duty::Nothing
        } else {
            Duty::StandIn { until: Some(until) }
        }
    }
}

/// Returns whether news says that a session is over, or does not hold any more what one of these proofs is about.
pub(crate) fn takes_away<'a>(
    news: &MirrorNews,
    lease: LeaseId,
    mut proofs: impl Iterator<Item = &'a [u8]>,
) -> bool {
    match news.changed.iter().find(|told| told.lease == lease.number()) {
        Some(_) if mutant::is_on(Mutant::ReleaseOverlooked) => false,
        Some(told) => proofs.any(|proof| told.keys.iter().all(|key| key.proof != proof)),
        None if mutant::is_on(Mutant::FirstNewsIsPart) => news.ended.contains(&lease.number()),
        None => news.is_first || news.ended.contains(&lease.number()),
    }
}

/// Returns for how long a site is not heard of until its mirror answers for it.
fn silent_after(terms: Terms) -> Span {
    hold(terms, true).times(2) + SLACK
}

/// Returns how long a question may take.
pub(crate) fn question_timeout(terms: Terms, has_copies: bool) -> Span {
    if has_copies { silent_after(terms) } else { IDLE_HOLD.times(2) }
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::access::Principal;
    use meshlock_wire::sites::calls::ForwardedCaller;
    use meshlock_wire::sites::mirror::{MirroredKey, MirroredSession};

    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_mirror_stands_in_for_a_silent_site_until_that_may_have_given_up_what_it_held() {
        let terms = Terms::default();
        let mut contact = SourceContact::new(at(0));
        assert_eq!(contact.duty(at(60_000), terms), Duty::Follow, "it knows nothing");
        contact.on_answer(at(1000), at(1240), false);
        assert_eq!(contact.duty(at(1240) + silent_after(terms), terms), Duty::Follow);
        // It counts from when it sent the question, not from when the answer came.
        let until = at(1000) + terms.resume_window();
        let late = at(1241) + silent_after(terms);
        assert_eq!(contact.duty(late, terms), Duty::StandIn { until: Some(until) });
        assert_eq!(contact.duty(until.before(terms.margin), terms), Duty::Nothing);
    }

    #[test]
    fn a_site_that_leaves_gives_up_nothing_at_any_time() {
        let mut contact = SourceContact::new(at(0));
        contact.on_answer(at(1000), at(1001), true);
        for now in [1001, 1_000_000] {
            assert_eq!(contact.duty(at(now), Terms::default()), Duty::StandIn { until: None });
        }
    }

    #[test]
    fn news_takes_away_what_it_ends_and_what_it_does_not_list_any_more() {
        let owner = ForwardedCaller::new(&Principal::Local, ([127, 0, 0, 1], 1).into(), 1).unwrap();
        let key = |proof: u8| MirroredKey {
            name: vec![proof],
            value: Vec::new(),
            label: String::new(),
            created: 1,
            modified: 1,
            version: 1,
            proof: vec![proof],
        };
        let keys = vec![key(1), key(2)];
        let (label, consul) = (None, None);
        let told = MirroredSession { lease: 7, owner, label, lasts: 1, delay: 0, keys, consul };
        let news = |is_first: bool, ended: Vec<i64>| {
            let (version, leaves, changed) = (1, false, vec![told.clone()]);
            MirrorNews { version, is_first, leaves, ended, changed }
        };
        let takes = |news: &MirrorNews, lease: i64, proofs: &[u8]| {
            takes_away(news, LeaseId::new(lease).unwrap(), proofs.iter().map(std::slice::from_ref))
        };
        let later = news(false, vec![8]);
        assert!(!takes(&later, 7, &[1, 2]) && !takes(&later, 7, &[2]), "it holds more than before");
        assert!(takes(&later, 7, &[2, 3]), "it has released one");
        assert!(takes(&later, 8, &[3]) && !takes(&later, 9, &[3]), "one is over, and one is as it was");
        assert!(takes(&news(true, Vec::new()), 9, &[3]), "the first news lists all that there is");
    }

    #[test]
    fn a_silent_site_is_noticed_before_its_clients_give_up() {
        for length in [1000, 2000, 5000, 30_000] {
            let terms = Terms { length: Span::from_millis(length), ..Terms::default() };
            assert!(silent_after(terms) <= Span::from_millis(650));
            assert!(silent_after(terms) < terms.length.part(3));
        }
    }

    #[test]
    fn every_mistake_of_the_mirror_is_caught() {
        let stands_in: fn() = a_mirror_stands_in_for_a_silent_site_until_that_may_have_given_up_what_it_held;
        for (mutant, test) in [
            (Mutant::PromisedFromAnswer, stands_in),
            (Mutant::PromisedWithoutMargin, stands_in),
            (Mutant::ReleaseOverlooked, news_takes_away_what_it_ends_and_what_it_does_not_list_any_more),
            (Mutant::FirstNewsIsPart, news_takes_away_what_it_ends_and_what_it_does_not_list_any_more),
        ] {
            mutant::is_caught_by(mutant, test);
        }
    }
}

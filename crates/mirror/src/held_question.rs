//! When a site answers the question of its mirror: at once if the mirror counts on something that is not so any more, a moment later if there
//! is other news, and after a while if there is none.

use meshlock_cluster::lease::Terms;
use meshlock_cluster::time::{Span, Time};

use crate::Source;
use crate::contact::hold;

/// How long new locks are gathered before the mirror is told of them. Most are released before.
const GATHER: Span = Span::from_millis(20);

/// A question that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct HeldQuestion {
    until: Time,
    gathers_until: Option<Time>,
}

impl HeldQuestion {
    /// Begins to hold a question that has just come.
    pub fn new(source: &Source, now: Time, terms: Terms) -> Self {
        HeldQuestion { until: now + hold(terms, source.has_told()), gathers_until: None }
    }

    /// Returns until when the answer waits, unless something changes before; `None` if it is due.
    pub fn waits_until(&mut self, source: &Source, now: Time) -> Option<Time> {
        if let Some(gathers_until) = self.gathers_until {
            return Some(gathers_until).filter(|until| now < *until);
        }
        if source.is_urgent() || now >= self.until {
            return None;
        }
        if source.has_news() {
            self.gathers_until = Some(now + GATHER);
        }
        Some(self.gathers_until.unwrap_or(self.until))
    }
}

#[cfg(test)]
mod tests {
    use meshlock_cluster::names::{Incarnation, Member};

    use super::*;
    use crate::LeaseId;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn news_is_gathered_for_a_moment_and_a_question_without_news_is_answered_after_a_while() {
        let (mut source, terms) = (Source::default(), Terms::default());
        let mirror = Member { site: "m".parse().unwrap(), incarnation: Incarnation::new(1) };
        source.on_question(&mirror, 0, [].into_iter(), (at(0), terms.resume_window())).unwrap();
        let news = source.answer(&mirror, Vec::new(), source.changes(), at(0)).unwrap();
        source.on_question(&mirror, news.version, [].into_iter(), (at(1), terms.resume_window())).unwrap();
        let mut held = HeldQuestion::new(&source, at(1), terms);
        assert_eq!(held.waits_until(&source, at(1)), Some(at(2001)), "nothing is copied that could be lost");
        source.on_change(LeaseId::new(1).unwrap());
        assert_eq!(held.waits_until(&source, at(100)), Some(at(120)));
        source.on_change(LeaseId::new(2).unwrap());
        assert_eq!(held.waits_until(&source, at(110)), Some(at(120)));
        assert_eq!(held.waits_until(&source, at(120)), None);
    }
}

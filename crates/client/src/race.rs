//! Which of several places is the nearest: decides by when each of them has answered the same question, and does no I/O.
//!
//! The clients for Python, Go and TypeScript have the same rules; `docs/clients.md` states them.

use meshlock_cluster::time::{Span, Time};

/// How long an answer is waited for while no place has given a good one.
pub(super) const ANSWER_WITHIN: Span = Span::from_millis(1000);

/// Places that answer within this time of the first one are equally near. Between them the order of the list decides.
const EQUALLY_NEAR: Span = Span::from_millis(10);

/// Places that were asked at the same time, and their answers.
#[derive(Debug)]
pub(super) struct Race {
    asked_at: Time,
    answers: Vec<Option<PlaceAnswer>>,
}

/// What a place has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceAnswer {
    /// It serves. It said so at this time.
    Serves(Time),
    /// It cannot be reached, or does not serve.
    Fails,
}

impl Race {
    /// Creates the race of this many places, which are asked at `asked_at`.
    pub(super) fn new(places: usize, asked_at: Time) -> Self {
        Race { asked_at, answers: vec![None; places] }
    }

    /// Notes that the place at this index serves.
    pub(super) fn on_serves(&mut self, at: usize, now: Time) {
        self.answers[at] = Some(PlaceAnswer::Serves(now));
    }

    /// Notes that the place at this index cannot be used.
    pub(super) fn on_fails(&mut self, at: usize) {
        self.answers[at] = Some(PlaceAnswer::Fails);
    }

    /// Returns until when further answers are to be waited for; `None` if the answers that are there decide.
    pub(super) fn waits_until(&self) -> Option<Time> {
        let first = self.order()[0];
        match self.near_until() {
            None if self.answers.iter().all(Option::is_some) => None,
            None => Some(self.asked_at + ANSWER_WITHIN),
            Some(_) if self.answers[..first].iter().all(Option::is_some) => None,
            Some(until) => Some(until),
        }
    }

    /// Returns the indices of all places in the order in which they are preferred: those that are near as listed, others in the order
    /// of their answers, then those that have not answered, and in the end those that have failed.
    pub(super) fn order(&self) -> Vec<usize> {
        let near_until = self.near_until();
        let rank = |at: usize| match self.answers[at] {
            Some(PlaceAnswer::Serves(time)) if near_until.is_some_and(|until| time <= until) => {
                (0, Time::ZERO)
            }
            Some(PlaceAnswer::Serves(time)) => (1, time),
            None => (2, Time::ZERO),
            Some(PlaceAnswer::Fails) => (3, Time::ZERO),
        };
        let mut order: Vec<usize> = (0..self.answers.len()).collect();
        order.sort_by_key(|at| rank(*at));
        order
    }

    /// Returns until when a place has to answer to be as near as the first one; `None` while none serves.
    fn near_until(&self) -> Option<Time> {
        let times = self.answers.iter().filter_map(|answer| match answer {
            Some(PlaceAnswer::Serves(time)) => Some(*time),
            Some(PlaceAnswer::Fails) | None => None,
        });
        times.min().map(|first| first + EQUALLY_NEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Time = Time::from_micros(7_000_000);

    fn after(millis: u64) -> Time {
        ASKED + Span::from_millis(millis)
    }

    #[test]
    fn the_first_of_the_list_is_taken_as_soon_as_it_serves() {
        let mut race = Race::new(3, ASKED);
        assert_eq!(race.waits_until(), Some(after(1000)));
        race.on_serves(0, after(300));
        assert_eq!(race.waits_until(), None);
        assert_eq!(race.order(), [0, 1, 2]);
    }

    #[test]
    fn a_place_that_answers_much_later_comes_later() {
        let mut race = Race::new(3, ASKED);
        race.on_serves(2, after(5));
        // The others may be as near.
        assert_eq!(race.waits_until(), Some(after(15)));
        race.on_serves(0, after(16));
        assert_eq!(race.waits_until(), Some(after(15)), "and the one in the middle may still be");
        assert_eq!(race.order(), [2, 0, 1]);
    }

    #[test]
    fn among_places_that_are_equally_near_the_list_decides() {
        let mut race = Race::new(3, ASKED);
        race.on_serves(2, after(5));
        race.on_serves(1, after(15));
        assert_eq!(race.order(), [1, 2, 0]);
        assert_eq!(race.waits_until(), Some(after(15)));
        race.on_fails(0);
        assert_eq!(race.waits_until(), None, "nothing that could come is preferred to the second one");
        assert_eq!(race.order(), [1, 2, 0]);
    }

    #[test]
    fn places_that_fail_come_last_and_if_all_do_nothing_is_waited_for() {
        let mut race = Race::new(3, ASKED);
        race.on_fails(0);
        race.on_fails(1);
        assert_eq!(race.waits_until(), Some(after(1000)));
        assert_eq!(race.order(), [2, 0, 1]);
        race.on_fails(2);
        assert_eq!(race.waits_until(), None);
        assert_eq!(race.order(), [0, 1, 2]);
    }
}

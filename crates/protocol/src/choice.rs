//! Choices that a paper leaves open: a machine asks with [`Outbox::choose`](crate::Outbox::choose), its host answers.
//!
//! Where a paper says "any" (which token to ask for, whom to tell, which quorum, in which order), its algorithm must hold whatever is
//! chosen. So the choice is an input: the explorer tries every answer, the simulator draws by its seed, a node by a
//! seed that is its place. No machine draws by itself, and none hides a choice in a hash of its state.

use std::collections::VecDeque;

/// A host's source of answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Chooser {
    /// Always the first alternative.
    #[default]
    First,
    /// Draws evenly. The same state gives the same answers.
    Drawn(u64),
    /// Gives answers that were fixed before.
    Scripted(Box<Script>),
}

/// Answers that were fixed before, for one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Script {
    answers: VecDeque<u32>,
    /// Answers what is asked after the last of them.
    then: Chooser,
    /// Whether an answer was no alternative.
    is_wrong: bool,
}

impl Chooser {
    /// A chooser that draws with this seed.
    pub fn seeded(seed: u64) -> Self {
        Chooser::Drawn(scramble(seed))
    }

    /// These answers, in turn; after them those of `self`.
    #[must_use]
    pub fn after(self, answers: &[u32]) -> Self {
        let answers = answers.iter().copied().collect();
        Chooser::Scripted(Box::new(Script { answers, then: self, is_wrong: false }))
    }

    /// Ends a script. Returns whether exactly its answers were asked for.
    pub(crate) fn end_script(&mut self) -> bool {
        let Chooser::Scripted(script) = self else { return true };
        let fits = !script.is_wrong && script.answers.is_empty();
        *self = std::mem::take(&mut script.then);
        fits
    }

    /// Chooses one of `of` alternatives, at least one.
    pub fn answer(&mut self, of: u32) -> u32 {
        match self {
            Chooser::First => 0,
            Chooser::Drawn(state) => {
                *state = state.wrapping_add(STEP);
                let fraction = u128::from(scramble(*state)) * u128::from(of);
                u32::try_from(fraction >> 64).expect("below the number of alternatives")
            }
            Chooser::Scripted(script) => match script.answers.pop_front() {
                Some(answer) if answer < of => answer,
                Some(_) => {
                    script.is_wrong = true;
                    0
                }
                None => script.then.answer(of),
            },
        }
    }
}

/// The step of `SplitMix64`: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads numbers evenly (the finalizer of `SplitMix64`).
fn scramble(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, Outbox, SiteId};

    #[test]
    fn what_is_drawn_is_even_and_the_same_for_the_same_seed() {
        let (mut one, mut other) = (Chooser::seeded(7), Chooser::seeded(7));
        let mut drawn = [0_u32; 3];
        for _ in 0..3000 {
            let answer = one.answer(3);
            assert_eq!(answer, other.answer(3));
            drawn[answer as usize] += 1;
        }
        assert!(drawn.iter().all(|times| (900..1100).contains(times)), "{drawn:?}");
        assert_ne!(one, Chooser::seeded(7));
    }

    #[test]
    fn a_script_is_followed_by_the_chooser_that_it_interrupts() {
        let mut chooser = Chooser::First.after(&[2, 1]);
        assert_eq!([chooser.answer(3), chooser.answer(2), chooser.answer(9)], [2, 1, 0]);
        assert!(chooser.end_script());
        assert_eq!(chooser, Chooser::First);
    }

    #[test]
    fn a_script_with_an_answer_too_many_or_one_that_is_no_alternative_is_wrong() {
        assert!(!Chooser::First.after(&[1]).end_script());
        let mut chooser = Chooser::seeded(1).after(&[3]);
        assert_eq!(chooser.answer(3), 0);
        assert!(!chooser.end_script());
    }

    #[test]
    fn a_choice_is_an_effect_and_what_leaves_none_is_no_choice() {
        let mut out: Outbox<()> = Outbox::choosing(Chooser::First.after(&[1]));
        assert_eq!((out.choose(1), out.choose(2)), (0, 1));
        assert_eq!(out.effects(), [Effect::Chose { taken: 1, of: 2 }]);
    }

    #[test]
    fn every_order_comes_of_one_script_and_nothing_is_lost() {
        let mut orders = Vec::new();
        for first in 0..3 {
            for second in 0..2 {
                let mut out: Outbox<()> = Outbox::choosing(Chooser::First.after(&[first, second]));
                let mut order: [SiteId; 3] = SiteId::first();
                out.shuffle(&mut order);
                orders.push(order);
            }
        }
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }
}

//! The state in the terms of `crates/proof/src/models/singhal_heuristic.rs`.

use super::{Message, Number, SinghalHeuristic, SinghalState, SinghalToken};
use crate::modelled::ModelElement;
use crate::{ModelFacts, Modelled, SiteId, SiteSet};

impl Modelled for SinghalHeuristic {
    /// Without failures every number is of the first incarnation.
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &0_u64);
        facts.value("request", &[me], &self.number);
        facts.value("known", &[me], &self.trail.passes());
        self.row.iter().for_each(|site| facts.holds("looks_to", &[me, &site]));
        for (site, last) in SiteId::all(self.last_requests.len()).zip(&self.last_requests) {
            facts.value("last", &[me, &site], last);
        }
        let mut in_state = |state: &'static str, asked: &SiteSet| {
            facts.holds(state, &[me]);
            asked.iter().for_each(|site| facts.holds("asked", &[me, &site]));
        };
        match &self.state {
            SinghalState::Idle => {}
            SinghalState::Waiting { asked } => in_state("waiting", asked),
            SinghalState::Executing { token, asked } => {
                in_state("executing", asked);
                token.facts(facts);
            }
            SinghalState::Holding { token, asked } => {
                in_state("holding", asked);
                token.facts(facts);
            }
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { number } => facts.holds("request_sent", &[&from, &to, number]),
            Message::Token(token) => {
                facts.holds("token_sent", &[&from, &to]);
                token.facts(facts);
            }
            // The model has no such messages: the comparison ends.
            Message::Focus { .. }
            | Message::Miss { .. }
            | Message::Recovering { .. }
            | Message::Welcome { .. }
            | Message::Ask { .. }
            | Message::Answer { .. }
            | Message::Merge { .. }
            | Message::RecoveringPart { .. } => facts.holds("not_in_the_model", &[&from, &to]),
        }
    }
}

impl SinghalToken {
    /// Adds what the token carries, wherever it is.
    fn facts(&self, facts: &mut ModelFacts) {
        self.requesting.iter().for_each(|site| facts.holds("requesting", &[&site]));
        for (site, number) in SiteId::all(self.numbers.len()).zip(&self.numbers) {
            facts.value("served", &[&site], number);
        }
        facts.value("passes", &[], &self.passes);
    }
}

impl ModelElement for Number {
    fn number(&self) -> u64 {
        u64::from(self.incarnation) << 32 | u64::from(self.count)
    }
}

//! The state in the terms of `crates/proof/src/models/token_ring.rs`.

use super::{Message, TokenRing, TokenRingState};
use crate::{Count, ModelFacts, Modelled, SiteId};

impl Modelled for TokenRing {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        facts.holds("next", &[me, &self.next()]);
        let on_the_ring: Vec<SiteId> = (1..self.cluster.sites).map(|steps| self.after(steps)).collect();
        for (steps, earlier) in on_the_ring.iter().enumerate() {
            on_the_ring[steps + 1..].iter().for_each(|later| facts.holds("between", &[me, earlier, later]));
        }
        facts.holds_if(self.state == TokenRingState::Waiting, "waiting", &[me]);
        facts.holds_if(self.state == TokenRingState::Parked, "parked", &[me]);
        facts.holds_if(self.state == TokenRingState::Inside, "inside", &[me]);
        facts.holds_if(self.wanted, "wanted", &[me]);
        facts.value("seen", &[me], &self.seen);
        facts.value("passed", &[me], &self.passed);
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Wanted { since } => facts.holds("wanted_sent", &[&from, &to, since]),
            Message::Token { handovers } => facts.holds("token_sent", &[&from, &to, handovers]),
        }
    }
}

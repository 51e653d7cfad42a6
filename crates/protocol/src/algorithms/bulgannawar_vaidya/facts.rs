//! The state in the terms of `crates/proof/src/models/bulgannawar_vaidya.rs`.

use super::{BulgannawarToken, BulgannawarVaidya, Message, TokenState};
use crate::{Count, ModelFacts, Modelled, SiteId, Slot};

impl Modelled for BulgannawarVaidya {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        match &self.state {
            TokenState::Away => {}
            TokenState::Keeping(token) => facts.holds("keeping", &[me, &token.id]),
            TokenState::Waiting(wanted) => {
                facts.holds("waiting", &[me]);
                facts.holds("wants", &[me, wanted]);
            }
            TokenState::Inside(token) => {
                facts.holds("inside", &[me]);
                facts.holds("uses", &[me, &token.id]);
            }
        }
        facts.value("requests", &[me], &self.requests);
        for held in &self.node_queue {
            facts.holds("noted", &[me, &held.ask.site, &held.ask.number]);
        }
        for (token, way) in (0..).map(Slot).zip(&self.ways) {
            facts.holds("pointer", &[me, &token, &way.pointer]);
            facts.value("possessions", &[me, &token], &way.possessions);
        }
        self.token().into_iter().for_each(|token| token.facts(0, facts));
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { ask, token, .. } => {
                facts.holds("request_sent", &[&from, &to, &ask.site, &ask.number, token]);
            }
            // The first of the queue is the one that it is on its way to.
            Message::Token(token) => {
                facts.holds("token_sent", &[&to, &token.id, &token.queue[0].ask.number]);
                token.facts(1, facts);
            }
            Message::Inform { token, possessions } => {
                facts.holds("inform_sent", &[&from, &to, token, possessions]);
            }
        }
    }
}

impl BulgannawarToken {
    /// Adds what the token carries, wherever it is, with its queue from this place on.
    fn facts(&self, waiting: usize, facts: &mut ModelFacts) {
        facts.value("received", &[&self.id], &self.possessions);
        for entry in self.queue.iter().skip(waiting) {
            facts.holds("queued", &[&self.id, &entry.ask.site, &entry.ask.number]);
        }
    }
}

//! The state in the terms of `crates/proof/src/models/srimani_reddy.rs`.

use super::{Message, SrimaniReddy, SrimaniReddyState, SrimaniReddyToken};
use crate::{Count, ModelFacts, Modelled, SiteId, Slot};

impl Modelled for SrimaniReddy {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        facts.holds_if(self.state == SrimaniReddyState::Waiting, "waiting", &[me]);
        if let SrimaniReddyState::Executing { token } = &self.state {
            facts.holds("inside", &[me]);
            facts.holds("uses", &[me, &token.slot]);
        }
        self.idle.iter().for_each(|token| facts.holds("idle", &[me, &token.slot]));
        for (site, requested) in SiteId::all(self.requested.len()).zip(&self.requested) {
            facts.value("requested", &[me, &site], requested);
        }
        for (token, moves) in (0..).map(Slot).zip(&self.moves) {
            facts.value("known", &[me, &token], moves);
        }
        self.tokens_here().for_each(|token| token.facts(facts));
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { number } => facts.holds("request_sent", &[&from, &to, number]),
            Message::Token(token) => {
                facts.holds("token_sent", &[&to, &token.slot]);
                token.facts(facts);
            }
        }
    }
}

impl SrimaniReddyToken {
    /// Adds what the token carries, wherever it is.
    fn facts(&self, facts: &mut ModelFacts) {
        for (site, served) in SiteId::all(self.served.len()).zip(&self.served) {
            facts.value("served", &[&self.slot, &site], served);
        }
        self.queue.iter().for_each(|site| facts.holds("queued", &[&self.slot, site]));
        facts.value("moves", &[&self.slot], &self.moves);
    }
}

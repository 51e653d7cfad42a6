//! The state in the terms of `crates/proof/src/models/suzuki_kasami.rs`.

use super::{Message, SuzukiKasami, SuzukiKasamiState, SuzukiKasamiToken};
use crate::{Count, ModelFacts, Modelled, SiteId};

impl Modelled for SuzukiKasami {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        facts.holds_if(self.state == SuzukiKasamiState::Waiting, "waiting", &[me]);
        facts.holds_if(matches!(self.state, SuzukiKasamiState::Parked(_)), "parked", &[me]);
        facts.holds_if(matches!(self.state, SuzukiKasamiState::Inside(_)), "inside", &[me]);
        for (site, requested) in SiteId::all(self.requested.len()).zip(self.requested.iter()) {
            facts.value("requested", &[me, &site], &requested);
        }
        facts.value("known", &[me], &self.handovers);
        self.token().into_iter().for_each(|token| token.facts(facts));
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { number } => facts.holds("request_sent", &[&from, &to, number]),
            Message::Token(token) => {
                facts.holds("token_sent", &[&from, &to]);
                token.facts(facts);
            }
        }
    }
}

impl SuzukiKasamiToken {
    /// Adds what the token carries, wherever it is.
    fn facts(&self, facts: &mut ModelFacts) {
        for (site, served) in SiteId::all(self.served.len()).zip(&self.served) {
            facts.value("served", &[&site], served);
        }
        self.queue.iter().for_each(|site| facts.holds("queued", &[site]));
        facts.value("handovers", &[], &self.handovers);
    }
}

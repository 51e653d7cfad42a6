//! The state in the terms of `crates/proof/src/models/singhal_dynamic.rs`.

use super::{Message, SinghalDynamic};
use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for SinghalDynamic {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.value("clock", &[me], &self.clock);
        for (peer, last) in SiteId::all(self.last_request.len()).zip(&self.last_request) {
            facts.value("last", &[me, &peer], last);
        }
        self.request_set.iter().for_each(|peer| facts.holds("asks", &[me, &peer]));
        self.inform_set.iter().for_each(|peer| facts.holds("owes", &[me, &peer]));
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Reply { to: answered, .. } => facts.holds("reply_sent", &[&from, &to, answered]),
        }
    }
}

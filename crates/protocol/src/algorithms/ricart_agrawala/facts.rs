//! The site in the terms of `crates/proof/src/models/ricart_agrawala.rs`.

use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

use super::{Message, RicartAgrawala, RicartAgrawalaState};

impl Modelled for RicartAgrawala {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.value("clock", &[me], &self.clock);
        for (peer, last) in SiteId::all(self.last_request.len()).zip(&self.last_request) {
            facts.value("last", &[me, &peer], last);
        }
        self.deferred.iter().for_each(|peer| facts.holds("deferred", &[me, &peer]));
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
        if let RicartAgrawalaState::Waiting { missing, .. } = &self.state {
            missing.iter().for_each(|peer| facts.holds("missing", &[me, &peer]));
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Reply { to: answered } => facts.holds("reply_sent", &[&from, &to, answered]),
            Message::RequestAs { .. } | Message::Upgrade { .. } | Message::Yield { .. } => {
                unreachable!("the model has no modes, and without them nobody says this")
            }
        }
    }
}

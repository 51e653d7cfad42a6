//! The state in the terms of `crates/proof/src/models/carvalho_roucairol.rs`.

use super::{CarvalhoRoucairol, Message};
use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for CarvalhoRoucairol {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.value("clock", &[me], &self.clock);
        self.held.iter().for_each(|peer| facts.holds("holds", &[me, &peer]));
        self.deferred.iter().for_each(|peer| facts.holds("deferred", &[me, &peer]));
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock, .. } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Grant { .. } => facts.holds("grant_sent", &[&from, &to]),
        }
    }
}

//! The state in the terms of `crates/proof/src/models/raymond_k.rs`.

use super::{Message, RaymondK};
use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for RaymondK {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "inside", &[me]);
        facts.value("request", &[me], &self.request);
        facts.value("clock", &[me], &self.clock);
        self.missing.iter().for_each(|site| facts.holds("missing", &[me, &site]));
        self.deferred.iter().for_each(|site| facts.holds("deferred", &[me, &site]));
        for (site, last) in SiteId::all(self.last_request.len()).zip(&self.last_request) {
            facts.value("last", &[me, &site], last);
        }
        self.crowds(facts);
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Reply { to: clock } => facts.holds("reply_sent", &[&from, &to, clock]),
        }
    }
}

impl RaymondK {
    /// Adds all sets of sites: a set's number has a bit for each of its sites.
    fn crowds(&self, facts: &mut ModelFacts) {
        for crowd in 0..1_u64 << self.last_request.len() {
            facts.holds_if(crowd >> self.me.index() & 1 == 1, "in", &[&self.me, &crowd]);
            facts.holds_if((crowd.count_ones() as usize) < self.permits, "small", &[&crowd]);
        }
    }
}

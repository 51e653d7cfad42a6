//! The state in the terms of `crates/proof/src/models/sanders.rs`.

use super::arbiter::{IssuedGrant, WaitingRequest};
use super::{Deadlock, Message, Sanders, SandersState};
use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for Sanders {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.holds_if(self.rules.deadlock == Deadlock::Fail, "refusals", &[]);
        facts.holds_if(self.rules.deadlock == Deadlock::Plain, "plain", &[]);
        self.rules.structure.inform(*me).iter().for_each(|site| facts.holds("informs", &[me, &site]));
        self.request_set.iter().for_each(|site| facts.holds("asks", &[me, &site]));
        facts.value("clock", &[me], &self.clock);
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
        if let SandersState::Waiting { missing, blocked, inquired, .. } = &self.state {
            missing.iter().for_each(|site| facts.holds("missing", &[me, &site]));
            blocked.iter().for_each(|site| facts.holds("blocked", &[me, &site]));
            inquired.iter().for_each(|site| facts.holds("wanted_back", &[me, &site]));
        }
        self.arbiter.facts(*me, facts);
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        let (symbol, clock) = match message {
            Message::Request { clock, .. } => ("request_sent", clock),
            Message::Grant { to, .. } => ("grant_sent", to),
            Message::Fail { to, .. } => ("fail_sent", to),
            Message::Inquire { about, .. } => ("inquire_sent", about),
            Message::Yield { request, .. } => ("yield_sent", request),
            Message::Release { request } => ("release_sent", request),
        };
        facts.holds(symbol, &[&from, &to, clock]);
    }
}

impl super::Arbiter {
    /// Adds what the arbiter `me` says of the model's state.
    fn facts(&self, me: SiteId, facts: &mut ModelFacts) {
        for (site, (last, _)) in SiteId::all(self.last.len()).zip(&self.last) {
            facts.value("last", &[&me, &site], last);
        }
        if let Some(IssuedGrant { request, inquired, .. }) = &self.lock {
            facts.holds("locked", &[&me, &request.site, &request.clock]);
            facts.holds_if(*inquired, "inquired", &[&me, &request.site]);
        }
        for WaitingRequest { request, told, .. } in &self.queue {
            facts.holds("queued", &[&me, &request.site, &request.clock]);
            facts.holds_if(*told, "told", &[&me, &request.site]);
        }
    }
}

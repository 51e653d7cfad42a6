//! The state in the terms of `crates/proof/src/models/lamport.rs`.

use super::{Lamport, LamportState, Message};
use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for Lamport {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.value("clock", &[me], &self.clock);
        facts.value("last_request", &[me], &self.last_request);
        for (peer, clocks) in SiteId::all(self.peers.len()).zip(&self.peers) {
            facts.value("heard", &[me, &peer], &clocks.last_message);
            facts.value("answered", &[me, &peer], &clocks.answered);
        }
        self.queue.iter().for_each(|request| facts.holds("queued", &[me, &request.site, &request.clock]));
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
        if let LamportState::Waiting { missing, .. } = &self.state {
            missing.iter().for_each(|peer| facts.holds("missing", &[me, &peer]));
        }
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Reply { clock, to: answered } => {
                facts.holds("reply_sent", &[&from, &to, clock, answered]);
            }
            Message::Release { clock } => facts.holds("release_sent", &[&from, &to, clock]),
        }
    }
}

//! The state in the terms of `crates/proof/src/models/lodha_kshemkalyani.rs`.

use super::{LodhaKshemkalyani, Message};
use crate::{Algorithm, Clock, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for LodhaKshemkalyani {
    /// None of the three improvements is in the model; with them a state or a message would be said incompletely.
    fn facts(&self, facts: &mut ModelFacts) {
        let (me, sites) = (&self.me, self.sites());
        facts.value("zero", &[], &Clock::ZERO);
        facts.holds_if(self.phase() == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase() == Phase::Executing, "executing", &[me]);
        if let Some(request) = self.timestamp() {
            facts.value("request", &[me], &request.clock);
        }
        facts.value("executed", &[me], &self.executed.unwrap_or_default());
        facts.value("clock", &[me], &self.clock);
        for (site, last) in SiteId::all(sites).zip(&self.last_request) {
            facts.value("last", &[me, &site], last);
        }
        // All requests up to one are over; there is none with the clock zero that others could know.
        let over = self.finished.map_or(0, |finished| finished.clock.value());
        for (clock, site) in (1..=over).flat_map(|clock| SiteId::all(sites).map(move |site| (clock, site))) {
            let is_last = clock == over;
            let is_over = !is_last || self.finished.is_some_and(|finished| site <= finished.site);
            facts.holds_if(is_over, "over", &[me, &site, &clock]);
        }
        self.answered.iter().for_each(|site| facts.holds("answered", &[me, &site]));
        self.queue.iter().for_each(|request| facts.holds("queued", &[me, &request.site, &request.clock]));
        self.deferred.iter().for_each(|site| facts.holds("deferred", &[me, &site]));
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { clock, .. } => facts.holds("request_sent", &[&from, &to, clock]),
            Message::Reply { to: answered, executed, .. } => {
                facts.holds("reply_sent", &[&from, &to, answered, &executed.unwrap_or_default()]);
            }
            Message::Flush { executed, .. } => facts.holds("flush_sent", &[&from, &to, executed]),
            // The model has no such message: the comparison ends.
            Message::Handover { number, .. } => facts.holds("handover_sent", &[&from, &to, number]),
        }
    }
}

//! The state in the terms of `crates/proof/src/models/quorums.rs`.

use super::post::Post;
use super::{Coterie, Message, QuorumSite};
use crate::{Clock, ModelFacts, Modelled, Outbox, SiteId, SiteSet};

/// The clocks for which all quorums of a site are listed, where the host does not choose them: more than the runs reach that are compared.
const CLOCKS: u64 = 32;

impl<C: Coterie> Modelled for QuorumSite<C> {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Clock::ZERO);
        facts.holds_if(self.rules().has_refusals(), "refusals", &[]);
        for set in self.quorums() {
            let number = number_of(set.iter());
            facts.holds("quorum", &[&number]);
            set.iter().for_each(|site| facts.holds("member", &[&site, &number]));
        }
        facts.value("clock", &[me], &self.clock);
        if let Some(request) = self.requester.timestamp() {
            facts.value("request", &[me], &request.clock);
            facts.value("asked", &[me], &number_of(self.requester.asked()));
        }
        self.requester.facts(*me, facts);
        self.arbiter.facts(*me, facts);
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        let (symbol, clock) = match message {
            Message::Request { clock } => ("request_sent", clock),
            Message::Reply { to, .. } => ("reply_sent", to),
            Message::Failed { to } => ("failed_sent", to),
            Message::Inquire { to, .. } => ("inquire_sent", to),
            Message::Yield { request, .. } => ("yield_sent", request),
            Message::Release { request } => ("release_sent", request),
            Message::Hello { .. } | Message::Welcome { .. } | Message::Ready => {
                ("a message of recovery", &Clock::ZERO)
            }
        };
        facts.holds(symbol, &[&from, &to, clock]);
    }
}

impl<C: Coterie> QuorumSite<C> {
    /// Every quorum that this site may ask; where the host chooses, also those that it could choose if sites had failed.
    fn quorums(&self) -> Vec<SiteSet> {
        if !self.coterie.is_open() {
            return (0..CLOCKS).filter_map(|clock| self.usual(Clock::at(clock))).collect();
        }
        // A quorum is what remains to be chosen if all others have failed.
        let without = |others: SiteSet| {
            let mut out = Outbox::new();
            self.coterie.any_quorum(&others, &mut Post::new(self.me, self.clock, &mut out))
        };
        (0..1_u64 << self.sites())
            .filter_map(|number| {
                let (members, others): (SiteSet, SiteSet) =
                    SiteId::all(self.sites()).partition(|site| number >> site.index() & 1 == 1);
                without(others).filter(|quorum| *quorum == members)
            })
            .collect()
    }
}

/// The number of a set in its sort: its members as bits.
fn number_of(sites: impl Iterator<Item = SiteId>) -> u64 {
    sites.map(|site| 1 << site.index()).sum()
}

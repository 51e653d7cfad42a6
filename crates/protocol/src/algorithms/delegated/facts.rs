//! The state in the terms of `crates/proof/src/models/delegated.rs`: of one permit.

use super::message::{Permit, Waiter};
use super::{Delegated, DelegatedState, Message};
use crate::{Count, ModelFacts, Modelled, SiteId};

impl Modelled for Delegated {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        facts.value("boss", &[], &self.setup.leader);
        facts.value("number", &[me], &self.number);
        match &self.state {
            // The model has no modes: no run of the tie asks for one.
            DelegatedState::Idle | DelegatedState::Asking { .. } | DelegatedState::Sharing { .. } => {}
            DelegatedState::Waiting { next } => {
                facts.holds("waiting", &[me]);
                if let Some(Waiter { site, number }) = next {
                    facts.holds("told", &[me, site, number]);
                }
            }
            DelegatedState::Executing { permit } => {
                facts.holds("inside", &[me]);
                permit.facts(facts);
            }
        }
        self.dispatcher.iter().for_each(|dispatcher| dispatcher.facts(facts));
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { number } => facts.holds("request_sent", &[&from, number]),
            Message::Perm { number, permit } => {
                facts.holds("perm_sent", &[&to, number]);
                permit.facts(facts);
            }
            Message::Append { after, next: Waiter { site, number } } => {
                facts.holds("append_sent", &[&to, after, site, number]);
            }
            Message::Release { number, permit } => {
                facts.holds("release_sent", &[&from, number]);
                permit.facts(facts);
            }
            Message::Ask { .. }
            | Message::Share { .. }
            | Message::Close { .. }
            | Message::Done { .. }
            | Message::Upgrade { .. }
            | Message::Upgraded { .. }
            | Message::Downgrade { .. } => {}
        }
    }
}

impl Permit {
    /// Adds who is to have it next.
    fn facts(&self, facts: &mut ModelFacts) {
        self.next.iter().for_each(|next| facts.holds("next", &[&next.site, &next.number]));
    }
}

//! The state in the terms of `crates/proof/src/models/raymond.rs`.

use super::{Holder, Message, Raymond};
use crate::{Count, ModelFacts, Modelled, Phase, SiteId};

impl Modelled for Raymond {
    fn facts(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        facts.value("zero", &[], &Count::ZERO);
        facts.holds_if(self.phase == Phase::Waiting, "waiting", &[me]);
        facts.holds_if(self.phase == Phase::Executing, "inside", &[me]);
        facts.holds_if(self.holder == Holder::Me, "here", &[me]);
        if let Holder::Via { neighbour, asked } = &self.holder {
            facts.holds("via", &[me, neighbour]);
            facts.holds_if(*asked, "asked", &[me]);
        }
        self.queue.iter().for_each(|queued| facts.holds("queued", &[me, queued]));
        for (neighbour, edge) in self.tree.neighbours(*me).zip(&self.edges) {
            facts.value("crossings", &[me, &neighbour], &edge.crossings);
        }
        self.ways(facts);
    }

    fn message_facts(from: SiteId, to: SiteId, message: &Message, facts: &mut ModelFacts) {
        match message {
            Message::Request { crossings } => facts.holds("request_sent", &[&from, &to, crossings]),
            Message::Privilege { crossings } => facts.holds("privilege_sent", &[&from, &to, crossings]),
            // Only where a site starts unaware, or after a failure.
            Message::Initialize | Message::Restart { .. } | Message::Advise { .. } => {
                unreachable!("neither in a run without failures")
            }
        }
    }
}

impl Raymond {
    /// Adds the ways from here through the tree to everywhere else.
    fn ways(&self, facts: &mut ModelFacts) {
        let me = &self.me;
        for goal in self.tree.others(*me) {
            facts.holds("toward", &[me, &goal, &self.tree.toward(*me, goal)]);
            let step = |&at: &SiteId| (at != goal).then(|| self.tree.toward(at, goal));
            for nearer in std::iter::successors(Some(*me), step).skip(1) {
                facts.holds("nearer", &[&nearer, me, &goal]);
            }
        }
    }
}

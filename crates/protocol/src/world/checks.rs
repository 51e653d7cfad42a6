//! What must hold after every step, whatever the algorithm.

use crate::registry::info::{Order, Tokens};
use crate::{Algorithm, Effect, Message, Phase, SiteId, Slot};

use super::World;

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Violation {
    /// The one thing the whole project is about.
    #[error("{inside} sites are inside at once, {permits} may be")]
    TooManyInside {
        /// How many are.
        inside: usize,
        /// How many may be.
        permits: usize,
    },
    /// A site entered that had not asked.
    #[error("{site} entered without a request")]
    EnteredUnasked {
        /// Who.
        site: SiteId,
    },
    /// A site entered that was inside.
    #[error("{site} entered while it was inside")]
    EnteredTwice {
        /// Who.
        site: SiteId,
    },
    /// A fence was not larger than the one before it.
    #[error("the fence of {site} in slot {} is not larger than the last one", slot.0)]
    FenceFellBack {
        /// Who entered.
        site: SiteId,
        /// On which permit.
        slot: Slot,
    },
    /// The algorithm promises timestamp order and broke it.
    #[error("{site} entered before {passed}, whose request has the smaller timestamp")]
    OutOfOrder {
        /// Who entered.
        site: SiteId,
        /// Who should have.
        passed: SiteId,
    },
    /// A site reported a peer that had done nothing wrong.
    #[error("{site} refused a message of {peer}, which follows the algorithm: {why}")]
    Refused {
        /// Who refused it.
        site: SiteId,
        /// Whose message it was.
        peer: SiteId,
        /// Why.
        why: &'static str,
    },
    /// A token appeared or vanished.
    #[error("there are {found} tokens, not {expected}")]
    TokensNotConserved {
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// The site's idea of its process differs from the host's.
    #[error("{site} believes that its process is {believed:?}, but it is {real:?}")]
    WrongPhase {
        /// Where.
        site: SiteId,
        /// What the site says.
        believed: Phase,
        /// What is so.
        real: Phase,
    },
    /// A numbered invariant of one site.
    #[error("{site} breaks {invariant}")]
    Invariant {
        /// Where.
        site: SiteId,
        /// Its number and text.
        invariant: &'static str,
    },
    /// A numbered invariant that spans sites.
    #[error("the sites together break {invariant}")]
    Together {
        /// Its number and text.
        invariant: &'static str,
    },
}

impl<A: Algorithm> World<A> {
    /// Ends the test with the violation, or keeps it if the world is tolerant and it is the first of its kind.
    pub(super) fn report(&mut self, violation: Violation) {
        assert!(self.tolerant, "{violation}\nafter step {}: {:#?}", self.steps, self.sites);
        let kind = std::mem::discriminant(&violation);
        if self.violations.iter().all(|known| std::mem::discriminant(known) != kind) {
            self.violations.push(violation);
        }
    }

    pub(super) fn check(&mut self) {
        if let Err(violation) = self.examine() {
            self.report(violation);
        }
    }

    /// A site that has just entered must have the smallest timestamp of all that wait, where that is promised.
    pub(super) fn check_order(&mut self, site: SiteId) {
        if self.info.order != Order::Timestamp {
            return;
        }
        let Some(mine) = self.site(site).timestamp() else { return };
        let precedes = |other: SiteId| self.site(other).timestamp().is_some_and(|theirs| theirs < mine);
        let passed = SiteId::all(self.cluster.sites)
            .find(|&other| other != site && self.is_up(other) && self.is_waiting(other) && precedes(other));
        if let Some(passed) = passed {
            self.report(Violation::OutOfOrder { site, passed });
        }
    }

    /// What a site that follows the algorithm has sent must not be refused, as long as nothing has failed and nobody lied.
    pub(super) fn check_refusals(&mut self, site: SiteId, effects: &[Effect<A::Message>]) {
        for effect in effects {
            if let Effect::Misbehaved { peer, why } = *effect
                && self.honest
                && self.faults.never_happened()
            {
                self.report(Violation::Refused { site, peer, why });
            }
        }
    }

    fn examine(&self) -> Result<(), Violation> {
        let permits = self.cluster.permits;
        if self.inside.len() > permits {
            return Err(Violation::TooManyInside { inside: self.inside.len(), permits });
        }
        self.examine_tokens()?;
        for site in SiteId::all(self.cluster.sites).filter(|&site| self.is_up(site)) {
            let (believed, real) = (self.site(site).phase(), self.phase(site));
            if believed != real {
                return Err(Violation::WrongPhase { site, believed, real });
            }
            let invariants = self.site(site).check_invariants();
            invariants.map_err(|invariant| Violation::Invariant { site, invariant })?;
        }
        if self.faults.is_amid_one() {
            return Ok(());
        }
        let (sites, in_flight): (Vec<&A>, Vec<_>) = (self.sites.iter().collect(), self.fresh().collect());
        A::check_together(&sites, &in_flight).map_err(|invariant| Violation::Together { invariant })
    }

    fn examine_tokens(&self) -> Result<(), Violation> {
        let expected = match self.info.tokens {
            Tokens::None => 0,
            Tokens::One => 1,
            Tokens::PerPermit => self.cluster.permits,
        };
        let up = SiteId::all(self.cluster.sites).filter(|&site| self.is_up(site));
        let at_sites: usize = up.map(|site| self.site(site).tokens()).sum();
        let found = at_sites + self.tokens_in_flight();
        // A token may be lost with a failed site; none may ever appear from nowhere.
        if found > expected || (found < expected && self.faults.never_happened()) {
            return Err(Violation::TokensNotConserved { found, expected });
        }
        Ok(())
    }

    /// How many tokens are on their way to where they were sent: what a failed site would have got is lost.
    fn tokens_in_flight(&self) -> usize {
        let live = self.channels.iter().filter(|((_, to), _)| self.is_up(*to));
        let packets = live.flat_map(|(_, packets)| packets).filter(|packet| !packet.spent);
        packets.map(|packet| packet.message.tokens()).sum()
    }
}

//! The checks after every step, the same for every algorithm.

use crate::registry::info::{Order, Tokens};
use crate::{Algorithm, Effect, Message, Mode, Phase, SiteId, Slot};

use super::World;

/// Something that happened and must never happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Violation {
    /// Mutual exclusion is violated.
    #[error("{inside} sites are inside at once, {permits} may be")]
    TooManyInside { inside: usize, permits: usize },
    /// Two sites are inside whose modes do not admit each other.
    #[error("{site} is inside, {mode}, beside {other}, which is {beside}")]
    Excluded { site: SiteId, mode: Mode, other: SiteId, beside: Mode },
    /// A site became exclusive without having asked for it.
    #[error("{site} became exclusive without having asked for it")]
    UpgradedUnasked {
        /// The site that became exclusive.
        site: SiteId,
    },
    /// The site and its host disagree about the mode of its process, or about whether others may share it.
    #[error(
        "{site} is wrong about its process, which it reports to be {reported}: it is {real}, or cannot be shared or upgraded now"
    )]
    WrongMode {
        /// The site that is wrong.
        site: SiteId,
        /// The mode according to the site.
        reported: Mode,
        /// The mode according to the host.
        real: Mode,
    },
    /// A site entered without a request.
    #[error("{site} entered without a request")]
    EnteredUnasked {
        /// The site that entered.
        site: SiteId,
    },
    /// A site entered while it was inside.
    #[error("{site} entered while it was inside")]
    EnteredTwice {
        /// The site that entered.
        site: SiteId,
    },
    /// A fence was not larger than the one before it.
    #[error("the fence of {site} in slot {} is not larger than the last one", slot.0)]
    FenceFellBack {
        /// The site that entered.
        site: SiteId,
        /// The permit that it uses.
        slot: Slot,
    },
    /// The algorithm promises timestamp order and did not keep it.
    #[error("{site} entered before {passed}, whose request has the smaller timestamp")]
    OutOfOrder {
        /// The site that entered.
        site: SiteId,
        /// The site that should have entered first.
        passed: SiteId,
    },
    /// The algorithm promises timestamp order, and a site entered with a timestamp that is not larger than that of its last entry.
    #[error("{site} entered with a timestamp that is not larger than that of its last entry")]
    NotRising {
        /// The site that entered.
        site: SiteId,
    },
    /// A site refused a message of a peer that follows the algorithm.
    #[error("{site} refused a message of {peer}, which follows the algorithm: {why}")]
    Refused {
        /// The site that refused it.
        site: SiteId,
        /// The sender of the message.
        peer: SiteId,
        /// The reason that it gave.
        why: &'static str,
    },
    /// A token appeared or vanished.
    #[error("there are {found} tokens, not {expected}")]
    TokensNotConserved {
        /// The number of tokens that exist.
        found: usize,
        /// The number of tokens that should exist.
        expected: usize,
    },
    /// The site and its host disagree about what the process does.
    #[error("{site} reports that its process is {reported:?}, but it is {real:?}")]
    WrongPhase {
        /// The site that is wrong.
        site: SiteId,
        /// The phase according to the site.
        reported: Phase,
        /// The phase according to the host.
        real: Phase,
    },
    /// A numbered invariant of one site does not hold.
    #[error("{site} breaks {invariant}")]
    Invariant {
        /// The site that is wrong.
        site: SiteId,
        /// The number and text of the invariant.
        invariant: &'static str,
    },
    /// A numbered invariant that spans sites does not hold.
    #[error("the sites together break {invariant}")]
    Together {
        /// The number and text of the invariant.
        invariant: &'static str,
    },
}

impl<A: Algorithm> World<A> {
    /// Panics with the violation, or records it if the world is tolerant and it is the first of its kind.
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

    /// Checks that `site`, which has just entered, has the smallest timestamp of all that wait and may not be inside together with it, and
    /// a larger one than at its last entry, where that is promised.
    pub(super) fn check_order(&mut self, site: SiteId) {
        if self.info.order != Order::Timestamp {
            return;
        }
        let Some(mine) = self.site(site).timestamp() else { return };
        let last = self.last_timestamps[site.index()].replace(mine);
        if last.is_some_and(|last| last >= mine) {
            self.report(Violation::NotRising { site });
        }
        let precedes = |other: SiteId| self.site(other).timestamp().is_some_and(|theirs| theirs < mine);
        let is_excluded = |other: SiteId| !self.mode(site).admits(self.mode(other));
        let waits = |other: SiteId| self.is_up(other) && self.is_waiting(other) && is_excluded(other);
        let passed =
            SiteId::all(self.cluster.sites).find(|&other| other != site && waits(other) && precedes(other));
        if let Some(passed) = passed {
            self.report(Violation::OutOfOrder { site, passed });
        }
    }

    /// Checks that no message is refused, as long as nothing has failed and no message was injected.
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
        self.examine_modes()?;
        self.examine_tokens()?;
        for site in SiteId::all(self.cluster.sites).filter(|&site| self.is_up(site)) {
            let (reported, real) = (self.site(site).phase(), self.phase(site));
            if reported != real {
                return Err(Violation::WrongPhase { site, reported, real });
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
        // A token may be lost with a failed site; none may appear from nowhere.
        if found > expected || (found < expected && self.faults.never_happened()) {
            return Err(Violation::TokensNotConserved { found, expected });
        }
        Ok(())
    }

    /// The number of tokens in flight to sites that run: what is sent to a failed site is lost.
    fn tokens_in_flight(&self) -> usize {
        let live = self.channels.iter().filter(|((_, to), _)| self.is_up(*to));
        let packets = live.flat_map(|(_, packets)| packets).filter(|packet| !packet.spent);
        packets.map(|packet| packet.message.tokens()).sum()
    }
}

//! One site with everything that its host knows of it: the local part of a global state.

use meshlock_protocol::world::Violation;
use meshlock_protocol::{Algorithm, Phase, SiteId, Timestamp};

use crate::Bounds;

/// A site, its process, and what its host keeps for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seat<A> {
    pub(crate) me: SiteId,
    pub(crate) site: A,
    /// What the process does, as the host knows it.
    pub(crate) phase: Phase,
    /// How often the process has asked; stays 0 in an endless run.
    pub(crate) asked: u8,
    /// How many timers are set.
    pub(crate) timers: u8,
    /// Whether the site runs.
    pub(crate) up: bool,
}

/// What the search needs of a seat again and again, computed once.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) phase: Phase,
    pub(crate) up: bool,
    pub(crate) may_ask: bool,
    pub(crate) timer: bool,
    pub(crate) tokens: usize,
    pub(crate) timestamp: Option<Timestamp>,
    /// What is wrong with this seat, whatever the others are.
    pub(crate) wrong: Option<Box<Violation>>,
}

impl<A: Algorithm> Seat<A> {
    pub(crate) fn facts(&self, bounds: &Bounds) -> Facts {
        let tokens = if self.up { self.site.tokens() } else { 0 };
        Facts {
            phase: self.phase,
            up: self.up,
            may_ask: bounds.may_ask(self.asked),
            timer: self.timers > 0,
            tokens,
            timestamp: self.site.timestamp(),
            wrong: if self.up { self.examine() } else { None },
        }
    }

    /// The checks of one site's state, in the order in which the world makes them.
    fn examine(&self) -> Option<Box<Violation>> {
        let (site, believed, real) = (self.me, self.site.phase(), self.phase);
        if believed != real {
            return Some(Box::new(Violation::WrongPhase { site, believed, real }));
        }
        let broken = self.site.check_invariants().err();
        broken.map(|invariant| Box::new(Violation::Invariant { site, invariant }))
    }
}

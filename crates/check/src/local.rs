//! The local part of a global state: one site with what its host knows of it.

use meshlock_protocol::world::Violation;
use meshlock_protocol::{Clock, Phase, SiteId, Timestamp};

use crate::Bounds;
use crate::sites::SiteFacts;

/// A site, its process, and what its host keeps for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LocalState {
    pub(crate) me: SiteId,
    /// The number of the site's own state.
    pub(crate) site: u32,
    /// Phase of the process, as the host knows it.
    pub(crate) phase: Phase,
    /// Number of requests that the process has made; stays 0 in an endless run.
    pub(crate) requests: u8,
    pub(crate) timers: u8,
    pub(crate) up: bool,
    /// The clock of the timestamp of its last entry, in a run that keeps it.
    pub(crate) last_entry: Option<Clock>,
}

/// Properties of a local state that the search needs, computed once when it is numbered.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each answers one question of the inner loop")]
pub(crate) struct LocalFacts {
    pub(crate) site: u32,
    pub(crate) tokens: u32,
    pub(crate) phase: Phase,
    pub(crate) up: bool,
    pub(crate) may_request: bool,
    pub(crate) has_timer: bool,
    pub(crate) is_quiet: bool,
    pub(crate) timestamp: Option<Timestamp>,
    /// The largest of the site's numbers that only grow, in an endless run.
    pub(crate) largest: u64,
    /// Violation in this local state, whatever the others are.
    pub(crate) wrong: Option<Box<Violation>>,
}

impl LocalState {
    /// Notes that the process requests; the number of requests matters only if it is bounded.
    pub(crate) fn request(&mut self, is_bounded: bool) {
        self.phase = Phase::Waiting;
        self.requests += u8::from(is_bounded);
    }

    /// Lets the process enter, and returns what is wrong with that.
    pub(crate) fn enter(&mut self) -> Option<Violation> {
        let site = self.me;
        let wrong = match self.phase {
            Phase::Waiting => None,
            Phase::Idle => Some(Violation::EnteredUnasked { site }),
            Phase::Executing => Some(Violation::EnteredTwice { site }),
        };
        self.phase = Phase::Executing;
        wrong
    }

    /// The facts about this local state, given those about the site.
    pub(crate) fn facts(&self, site: &SiteFacts, bounds: &Bounds) -> LocalFacts {
        let tokens = if self.up { site.tokens } else { 0 };
        LocalFacts {
            site: self.site,
            tokens: u32::try_from(tokens).expect("a few tokens"),
            phase: self.phase,
            up: self.up,
            may_request: bounds.may_request(self.requests),
            has_timer: self.timers > 0,
            is_quiet: site.is_quiet,
            timestamp: site.timestamp,
            largest: 0,
            wrong: if self.up { self.examine(site).map(Box::new) } else { None },
        }
    }

    /// Checks the local state, in the order in which the world does.
    fn examine(&self, facts: &SiteFacts) -> Option<Violation> {
        let (site, reported, real) = (self.me, facts.phase, self.phase);
        if reported != real {
            return Some(Violation::WrongPhase { site, reported, real });
        }
        facts.broken.map(|invariant| Violation::Invariant { site, invariant })
    }
}

//! The local part of a global state: one site with what its host knows of it.

use meshlock_protocol::world::Violation;
use meshlock_protocol::{Clock, Demand, Mode, Phase, SiteId, Timestamp};

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
    /// The mode in which the process waits or is inside, as the host knows it; exclusive while it is idle.
    pub(crate) mode: Mode,
    /// Whether it is inside and waits to be exclusive.
    pub(crate) is_upgrading: bool,
    /// Number of times that it has changed its mode since it asked.
    pub(crate) changes: u8,
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
    pub(crate) mode: Mode,
    pub(crate) is_upgrading: bool,
    /// Whether the process is inside and may change its mode once more.
    pub(crate) may_change: bool,
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
    /// A site at the start, whose process is inside in this mode, or idle.
    pub(crate) fn start(me: SiteId, site: u32, inside: Option<Mode>) -> Self {
        LocalState {
            me,
            site,
            phase: if inside.is_some() { Phase::Executing } else { Phase::Idle },
            mode: inside.unwrap_or_default(),
            is_upgrading: false,
            changes: 0,
            requests: 0,
            timers: 0,
            up: true,
            last_entry: None,
        }
    }

    /// Notes that the process requests; the number of requests matters only if it is bounded.
    pub(crate) fn request(&mut self, demand: Demand, is_bounded: bool) {
        self.leave();
        (self.phase, self.mode) = (Phase::Waiting, demand.mode);
        self.requests += u8::from(is_bounded);
    }

    /// Notes that the process leaves, or fails.
    pub(crate) fn leave(&mut self) {
        (self.phase, self.mode) = (Phase::Idle, Mode::Exclusive);
        (self.is_upgrading, self.changes) = (false, 0);
    }

    /// Notes that the process, which is inside, begins to change its mode.
    pub(crate) fn change_mode(&mut self, to: Mode) {
        self.changes += 1;
        if to == Mode::Exclusive { self.is_upgrading = true } else { self.mode = to }
    }

    /// Lets the process be exclusive, and returns what is wrong with that.
    pub(crate) fn upgrade(&mut self) -> Option<Violation> {
        self.mode = Mode::Exclusive;
        let was_asked = std::mem::take(&mut self.is_upgrading);
        (!was_asked).then_some(Violation::UpgradedUnasked { site: self.me })
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
            mode: self.mode,
            is_upgrading: self.is_upgrading,
            may_change: self.phase == Phase::Executing && !self.is_upgrading && self.changes < bounds.changes,
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
        let (site, phase, mode) = (self.me, self.phase, self.mode);
        let is_alone = self.is_upgrading || mode == Mode::Exclusive || phase != Phase::Executing;
        let is_wrong = facts.mode != mode || facts.is_upgrading != self.is_upgrading;
        if phase != Phase::Idle && (is_wrong || facts.may_share && is_alone) {
            return Some(Violation::WrongMode { site, reported: facts.mode, real: mode });
        }
        let (reported, real) = (facts.phase, phase);
        if reported != real {
            return Some(Violation::WrongPhase { site, reported, real });
        }
        facts.broken.map(|invariant| Violation::Invariant { site, invariant })
    }
}

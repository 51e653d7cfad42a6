//! Processes that share the critical section, in a global state: who may be inside together, and which grants know of which.
//!
//! With modes several processes are inside one permit at once, so that there is no single last grant of which the next one must know. A
//! grant must know of every earlier one that it excludes, as the world requires of the fences: there is a fence line for the last
//! exclusive grant, one for the last upgradeable one, and one for the last shared one of each site. An exclusive grant must know of all
//! lines, an upgradeable one of the first two, a shared one of the first. An upgrade is an exclusive grant.

use meshlock_protocol::world::{Delivery, Violation};
use meshlock_protocol::{Mode, Phase, SiteId, Slot};

use crate::Bounds;
use crate::local::LocalFacts;
use crate::moves::Move;
use crate::state::{GlobalState, Layout};
use crate::table::{Input, Table};

/// The lines of exclusive and of upgradeable grants; those of the sites' shared ones follow.
const EXCLUSIVE: u32 = 0;
const UPGRADEABLE: u32 = 1;
const SHARED: u32 = 2;

impl Bounds {
    /// Whether processes may be inside together on one permit.
    pub fn has_modes(&self) -> bool {
        let asked = self.demands.iter().map(|demand| demand.mode);
        let held = self.holders.with_modes().map(|(_, mode)| mode);
        asked.chain(held).any(|mode| mode != Mode::Exclusive)
    }

    /// The number of fence lines of a run with modes.
    pub(crate) fn mode_lines(&self) -> usize {
        SHARED as usize + self.cluster.sites
    }

    /// Whether a process may ask for this mode.
    fn has_mode(&self, mode: Mode) -> bool {
        self.demands.iter().any(|demand| demand.mode == mode)
    }
}

impl Layout {
    /// The fence line of a grant, and the lines whose last grant it must know, one bit each.
    pub(crate) fn fence_line(self, site: SiteId, slot: Slot, mode: Mode) -> (u32, u32) {
        if !self.has_modes() {
            return (slot.0, 1 << slot.0);
        }
        match mode {
            Mode::Exclusive => (EXCLUSIVE, (1 << self.lines()) - 1),
            Mode::Upgradeable => (UPGRADEABLE, 1 << EXCLUSIVE | 1 << UPGRADEABLE),
            Mode::Shared => (SHARED + u32::try_from(site.index()).expect("a few sites"), 1 << EXCLUSIVE),
        }
    }
}

impl LocalFacts {
    /// Whether the process waits: to enter, or inside to be exclusive.
    pub(crate) fn waits(&self) -> bool {
        self.phase == Phase::Waiting || self.is_upgrading
    }

    /// The mode that it waits for, or has.
    pub(crate) fn wanted(&self) -> Mode {
        if self.is_upgrading { Mode::Exclusive } else { self.mode }
    }

    /// Whether it is inside and does not wait, so that it leaves some time.
    pub(crate) fn must_leave(&self) -> bool {
        self.phase == Phase::Executing && !self.is_upgrading
    }
}

impl Table {
    /// Lists the changes of mode that are possible now. Nobody is obliged to one; nor is a process that waits to be exclusive obliged to give
    /// up and leave, so that the exit is among these steps, too.
    pub(crate) fn list_changes(&self, state: &GlobalState, moves: &mut Vec<Move>) {
        for (site, &local) in SiteId::all(state.locals.len()).zip(&state.locals) {
            let facts = self.facts(local);
            if facts.is_upgrading {
                moves.push(Move::Process(site, Input::Release));
            }
            let may = |to: &Mode| facts.may_change && facts.mode.may_become(*to) && self.bounds.has_mode(*to);
            let to = Mode::ALL.into_iter().filter(may);
            moves.extend(to.map(|to| Move::Process(site, Input::ChangeMode(to))));
        }
    }

    /// Leaves out of every packet what its receiver knows already: it tells nothing by that, now or later, and fewer states differ.
    pub(crate) fn forget_known(&self, layout: Layout, state: &mut GlobalState) {
        if !layout.has_modes() || layout.lines() == 0 {
            return;
        }
        for code in &mut state.packets {
            let (packet, knows) = layout.split(*code);
            let known = layout.known_to(state.knows, self.label(packet).to);
            *code = layout.join(packet, knows & !known);
        }
        if self.bounds.delivery == Delivery::Unordered {
            state.packets.sort_unstable();
        }
    }

    /// Checks that those inside may be there together, as the world does.
    pub(crate) fn too_many_inside(&self, state: &GlobalState) -> Option<Violation> {
        let permits = self.bounds.cluster.permits;
        let is_inside = |&&local: &&u32| self.facts(local).phase == Phase::Executing;
        let inside = state.locals.iter().filter(is_inside).count();
        if inside <= permits && permits > 1 || inside < 2 {
            return None;
        }
        let is_exclusive = |&local: &u32| self.facts(local).mode == Mode::Exclusive;
        if permits > 1 || state.locals.iter().filter(is_inside).all(is_exclusive) {
            return Some(Violation::TooManyInside { inside, permits });
        }
        let sites =
            || SiteId::all(state.locals.len()).zip(&state.locals).filter(|(_, local)| is_inside(local));
        let pairs = sites()
            .flat_map(|one| sites().filter(move |other| other.0 > one.0).map(move |other| (one, other)));
        let mut excluded = pairs.filter_map(|((site, local), (other, beside))| {
            let (mode, beside) = (self.facts(*local).mode, self.facts(*beside).mode);
            (!mode.admits(beside)).then_some(Violation::Excluded { site, mode, other, beside })
        });
        excluded.next()
    }
}

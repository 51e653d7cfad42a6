//! The bursts of one site: silent deliveries to it, and then one more step of it.
//!
//! They depend on the *situation* of the site alone: its local state, what it knows of the last entries, and what is on its way to it. The
//! deliveries are named by packet, not by position, because other packets may be in flight between them.

use meshlock_protocol::{Phase, SiteId};
use smallvec::SmallVec;

use crate::interner::Interner;
use crate::moves::{Move, Taken};
use crate::state::{GlobalState, Layout};
use crate::table::{Input, Table};

/// A silent delivery, whatever else is in flight: the packet with what its sender knew, and the branch of the site's choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    pub(crate) code: u32,
    pub(crate) branch: u32,
}

/// Silent deliveries to one site, first to last.
pub(super) type SilentPath = SmallVec<[Silent; 4]>;

/// The last step of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// The packet with this code arrives.
    Packet(u32),
    Process(Input),
}

/// A burst, with what the silent deliveries have done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    pub(super) silent: SilentPath,
    /// The local state after the silent deliveries.
    pub(super) local: u32,
    /// The entries that they have told of.
    pub(super) told: u32,
    pub(super) last: Last,
    pub(super) branch: u32,
}

/// All that can follow a situation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlook {
    pub(super) bursts: Vec<Burst>,
    /// The silent deliveries after which nothing more happens to the site by itself.
    pub(super) rests: Vec<SilentPath>,
    /// The number of states within the bursts.
    pub(super) passed: usize,
}

impl Outlook {
    fn bytes(&self) -> usize {
        self.bursts.len() * size_of::<Burst>()
            + self.rests.len() * size_of::<SilentPath>()
            + size_of::<Outlook>()
    }
}

/// The situations that were looked at, and what can follow them.
#[derive(Default)]
pub(crate) struct Prospects {
    situations: Interner<Vec<u32>>,
    outlooks: Vec<Outlook>,
    bytes: usize,
}

impl Prospects {
    pub(super) fn of(&self, situation: &Vec<u32>) -> Option<&Outlook> {
        self.situations.find(situation).map(|number| &self.outlooks[number as usize])
    }

    pub(super) fn insert(&mut self, situation: Vec<u32>, outlook: Outlook) {
        self.bytes +=
            situation.len() * size_of::<u32>() + size_of::<(Vec<u32>, u64, u32)>() + outlook.bytes();
        let (_, is_new) = self.situations.insert(situation);
        assert!(is_new, "each situation is looked at once");
        self.outlooks.push(outlook);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.outlooks.len()
    }

    /// Roughly how much memory they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Makes `situation` that of `site` in `state`.
pub(super) fn situation(
    table: &Table,
    layout: Layout,
    state: &GlobalState,
    site: SiteId,
    situation: &mut Vec<u32>,
) {
    situation.clear();
    situation.extend([state.locals[site.index()], layout.known_to(state.knows, site)]);
    situation.extend(state.packets.iter().filter(|&&code| table.label(layout.split(code).0).to == site));
}

/// A state within the bursts of one site.
struct Stop {
    state: GlobalState,
    /// All ways to it by one silent delivery: from which stop, and how. The first stop has none.
    ways: SmallVec<[(usize, Taken); 4]>,
}

/// The working memory in which a situation is looked at.
#[derive(Default)]
pub(super) struct Survey {
    stops: Vec<Stop>,
    moves: Vec<Move>,
    next: GlobalState,
    outlook: Outlook,
    /// The local states and inputs that the table does not know. If there are any, not everything was seen.
    pub(super) unknown: Vec<(u32, Input)>,
}

impl Survey {
    /// Works out what `site` can do in `state`, unless the table does not know a step.
    pub(super) fn run(
        &mut self,
        table: &Table,
        layout: Layout,
        state: &GlobalState,
        site: SiteId,
    ) -> Option<Outlook> {
        self.unknown.clear();
        self.stops.clear();
        self.outlook = Outlook::default();
        let mut own = state.clone();
        own.packets.retain(|&code| table.label(layout.split(code).0).to == site);
        self.stops.push(Stop { state: own, ways: SmallVec::new() });
        let mut at = 0;
        while at < self.stops.len() {
            table.moves_of(layout, &self.stops[at].state, site, &mut self.moves);
            for index in 0..self.moves.len() {
                self.follow(table, layout, at, self.moves[index]);
            }
            if is_at_rest(table, &self.stops[at].state, site) {
                let silent = self.way_to(at);
                self.outlook.rests.push(silent);
            }
            at += 1;
        }
        self.outlook.passed = self.stops.len() - 1;
        self.unknown.is_empty().then(|| std::mem::take(&mut self.outlook))
    }

    /// Takes a step in all its branches from the stop at `at`: to another stop if it is silent, else to the end of a burst.
    fn follow(&mut self, table: &Table, layout: Layout, at: usize, step: Move) {
        let before = &self.stops[at].state;
        let (site, input) = table.input(layout, before, step).expect("all sites are up");
        let local = before.locals[site.index()];
        let (mut branch, mut branches) = (0, 1);
        while branch < branches {
            let Some(known) = table.step(local, input, branch) else {
                self.unknown.push((local, input));
                return;
            };
            branches = known.branches;
            let taken = Taken { step, branch };
            branch += 1;
            if table.is_silent(local, input, known) {
                if table.is_within(&[known.local]) {
                    self.stop_after(table, layout, at, taken);
                }
            } else if !self.can_come_first(table, layout, at, taken) {
                self.end_burst(layout, at, (site, input), taken);
            }
        }
    }

    /// Adds the burst that ends with this step from the stop at `at`.
    fn end_burst(&mut self, layout: Layout, at: usize, (site, input): (SiteId, Input), taken: Taken) {
        let silent = self.way_to(at);
        let before = &self.stops[at].state;
        let told = silent.iter().fold(0, |told, delivery| told | layout.split(delivery.code).1);
        let last = match taken.step {
            Move::Deliver(place) => Last::Packet(before.packets[place]),
            Move::Process(..)
            | Move::Duplicate(_)
            | Move::Lose(_)
            | Move::Tell { .. }
            | Move::Fail(_)
            | Move::Recover(_) => Last::Process(input),
        };
        let local = before.locals[site.index()];
        self.outlook.bursts.push(Burst { silent, local, told, last, branch: taken.branch });
    }

    /// Adds the stop after a silent delivery, or one more way to it.
    fn stop_after(&mut self, table: &Table, layout: Layout, at: usize, taken: Taken) {
        let applied = table.apply(layout, &self.stops[at].state, taken, &mut self.next);
        applied.expect("the step is known");
        let next = &self.next;
        if let Some(known) = self.stops[at..].iter_mut().find(|stop| stop.state == *next) {
            known.ways.push((at, taken));
        } else {
            let ways = SmallVec::from_iter([(at, taken)]);
            self.stops.push(Stop { state: next.clone(), ways });
        }
    }

    /// Whether `step` from the stop at `at` can change places with a silent delivery that led there: then its state is that of a shorter
    /// burst with this delivery yet to come.
    fn can_come_first(&mut self, table: &Table, layout: Layout, at: usize, taken: Taken) -> bool {
        let after = &self.stops[at].state;
        let unknown = &mut self.unknown;
        self.stops[at].ways.iter().any(|&(from, silent)| {
            let before = &self.stops[from].state;
            table.commute(layout, (before, silent), (after, taken)).unwrap_or_else(|missing| {
                unknown.push(missing);
                false
            })
        })
    }

    /// The silent deliveries that lead to the stop at `at`.
    fn way_to(&self, mut at: usize) -> SilentPath {
        let mut way = SmallVec::new();
        while let Some(&(from, Taken { step, branch })) = self.stops[at].ways.first() {
            let Move::Deliver(place) = step else { unreachable!("only deliveries are silent") };
            way.push(Silent { code: self.stops[from].state.packets[place], branch });
            at = from;
        }
        way.reverse();
        way
    }
}

/// Whether nothing more happens to `site` by itself, if no other packets than those to it are in `state`.
fn is_at_rest(table: &Table, state: &GlobalState, site: SiteId) -> bool {
    let facts = table.facts(state.locals[site.index()]);
    facts.phase != Phase::Executing && !facts.has_timer && state.packets.is_empty()
}

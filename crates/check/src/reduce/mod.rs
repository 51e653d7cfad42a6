//! The reduced search: a delivery that nobody else notices is put off until it matters.
//!
//! A delivery is *silent* if its site sends nothing, enters nothing, keeps its phase, its timestamp and its tokens, and nothing is wrong
//! with it. In the interleaving of a run it can change places with any step of another site: it takes a message away that was there
//! already, and no other site sees anything of it. It can also change places with the next step of its own site, if they lead to the same
//! state and the same effects either way. So every run can be rearranged until each silent delivery stands directly before a step of its
//! site with which it cannot change places, or at the end. (This is the right mover of Lipton, *Reduction: A Method of Proving Properties
//! of Parallel Programs*, 1975.)
//!
//! The reduced search keeps only the states of such runs. From each it goes on by *bursts*: silent deliveries to one site and then one more
//! step of that site. The states between are looked at and not kept. What this preserves:
//!
//! - Every site is in exactly those local states, and takes exactly those steps, that it takes in a full search: all that a silent delivery
//!   could show is in the burst of its site. So invariants of single sites, refusals and rising timestamps are decided alike.
//! - Silent deliveries change nothing that exclusion, order, tokens and fences look at, so that a state of the full search violates them
//!   only if the kept state before its silent deliveries does.
//! - Nothing goes on by itself only if all messages have arrived. Those that can still arrive in a kept state arrive silently there, for
//!   each site by itself, so that all ends of runs are found and judged: deadlock and quiet are decided alike.
//!
//! Invariants that span sites are checked in the kept states only. Cycles, the bypass bound and the costs of runs are not those of the
//! full graph, so that they are left out. Failures are no steps of one site, and the window of an endless run counts messages in flight:
//! runs with either are not reduced.

mod commute;
#[cfg(test)]
mod tests;

use meshlock_protocol::{Phase, SiteId};
use smallvec::SmallVec;

use crate::apply::Applied;
use crate::moves::{Move, Taken};
use crate::search::Search;
use crate::state::{GlobalState, Layout};
use crate::store::StatePlace;
use crate::table::{Input, Table};

/// A state within the bursts of one site.
struct Stop {
    state: GlobalState,
    /// All ways to it by one silent delivery: from which stop, and how. The first stop has none.
    ways: SmallVec<[(usize, Taken); 4]>,
}

/// What a reduced search finds on its way from one state.
pub(crate) enum Ahead<'a> {
    /// A burst, and the state after it.
    Burst { last: Taken, applied: Applied, next: &'a GlobalState },
    /// A state in which nothing happens by itself, after silent deliveries alone.
    End(&'a GlobalState),
}

/// The working memory in which bursts are worked out.
#[derive(Default)]
pub(crate) struct Lookahead {
    stops: Vec<Stop>,
    moves: Vec<Move>,
    next: GlobalState,
    /// For each site, the silent deliveries after which no message to it is left.
    ends: Vec<Vec<SmallVec<[Silent; 8]>>>,
    /// The local states and inputs that the table does not know. If there are any, not everything was seen.
    pub(crate) unknown: Vec<(u32, Input)>,
    /// The number of states that were looked at without being kept.
    pub(crate) passed: usize,
}

/// A silent delivery, whatever else is in flight: the packet with what its sender knew, and the branch of the site's choices.
#[derive(Clone, Copy, Debug)]
struct Silent {
    code: u32,
    branch: u32,
}

impl Lookahead {
    /// Calls `see` for everything that a reduced search finds from `state`, with the silent deliveries that come before it.
    pub(crate) fn run(
        &mut self,
        table: &Table,
        layout: Layout,
        state: &GlobalState,
        see: &mut dyn FnMut(&[Taken], Ahead<'_>),
    ) {
        self.unknown.clear();
        self.passed = 0;
        self.ends.clear();
        for site in SiteId::all(state.locals.len()) {
            self.look_at(table, layout, state, site, see);
        }
        if self.unknown.is_empty() {
            self.judge_ends(table, layout, state, see);
        }
    }

    /// Runs the sites' code for everything that [`Lookahead::run`] looks up.
    pub(crate) fn learn(&mut self, table: &mut Table, layout: Layout, state: &GlobalState) {
        loop {
            self.run(table, layout, state, &mut |_, _| {});
            if self.unknown.is_empty() {
                return;
            }
            for (local, input) in std::mem::take(&mut self.unknown) {
                table.learn_step(local, input);
            }
        }
    }

    /// Works out the bursts of one site.
    fn look_at(
        &mut self,
        table: &Table,
        layout: Layout,
        state: &GlobalState,
        site: SiteId,
        see: &mut dyn FnMut(&[Taken], Ahead<'_>),
    ) {
        self.stops.clear();
        self.stops.push(Stop { state: state.clone(), ways: SmallVec::new() });
        self.ends.push(Vec::new());
        let mut at = 0;
        while at < self.stops.len() {
            table.moves_of(layout, &self.stops[at].state, site, &mut self.moves);
            for index in 0..self.moves.len() {
                self.follow(table, layout, at, self.moves[index], see);
            }
            if is_at_rest(table, layout, &self.stops[at].state, site) {
                let silent = self.silent_before(at);
                self.ends.last_mut().expect("it was pushed").push(silent);
            }
            at += 1;
        }
        self.passed += self.stops.len() - 1;
    }

    /// Takes a step in all its branches from the stop at `at`: to another stop if it is silent, else to the end of a burst.
    fn follow(
        &mut self,
        table: &Table,
        layout: Layout,
        at: usize,
        step: Move,
        see: &mut dyn FnMut(&[Taken], Ahead<'_>),
    ) {
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
                let before = &self.stops[at].state;
                let applied = table.apply(layout, before, taken, &mut self.next).expect("the step is known");
                see(&self.way_to(at), Ahead::Burst { last: taken, applied, next: &self.next });
            }
        }
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

    /// The silent deliveries that lead to the stop at `at`, first to last.
    fn way_to(&self, mut at: usize) -> SmallVec<[Taken; 8]> {
        let mut way = SmallVec::new();
        while let Some(&(from, taken)) = self.stops[at].ways.first() {
            way.push(taken);
            at = from;
        }
        way.reverse();
        way
    }

    /// The same with packets by their codes, so that deliveries to other sites may come between.
    fn silent_before(&self, mut at: usize) -> SmallVec<[Silent; 8]> {
        let mut way = SmallVec::new();
        while let Some(&(from, Taken { step, branch })) = self.stops[at].ways.first() {
            let Move::Deliver(place) = step else { unreachable!("only deliveries are silent") };
            way.push(Silent { code: self.stops[from].state.packets[place], branch });
            at = from;
        }
        way.reverse();
        way
    }

    /// Judges every state that silent deliveries alone can lead to and in which nothing happens by itself.
    fn judge_ends(
        &mut self,
        table: &Table,
        layout: Layout,
        state: &GlobalState,
        see: &mut dyn FnMut(&[Taken], Ahead<'_>),
    ) {
        if self.ends.iter().any(Vec::is_empty) {
            return;
        }
        let mut chosen = vec![0; self.ends.len()];
        loop {
            let (mut end, mut steps) = (state.clone(), Vec::new());
            for silent in self.ends.iter().zip(&chosen).flat_map(|(ends, &nth)| &ends[nth]) {
                let at = end.packets.iter().position(|&code| code == silent.code).expect("it is in flight");
                let taken = Taken { step: Move::Deliver(at), branch: silent.branch };
                table.apply(layout, &end, taken, &mut self.next).expect("the step is known");
                std::mem::swap(&mut end, &mut self.next);
                steps.push(taken);
            }
            see(&steps, Ahead::End(&end));
            let Some(site) = (0..chosen.len()).find(|&site| chosen[site] + 1 < self.ends[site].len()) else {
                return;
            };
            chosen[site] += 1;
            chosen[..site].fill(0);
        }
    }
}

impl Search {
    /// The burst that leads from one state to another.
    pub(crate) fn burst_between(&self, from: StatePlace, to: &[u8]) -> Option<Vec<Taken>> {
        let (mut found, mut body) = (None, Vec::new());
        let mut see = |silent: &[Taken], seen: Ahead<'_>| {
            if let Ahead::Burst { last, next, .. } = seen {
                body.clear();
                self.layout.encode(next, &mut body);
                if body == to {
                    found = Some(silent.iter().copied().chain([last]).collect());
                }
            }
        };
        Lookahead::default().run(&self.table, self.layout, &self.state_at(from), &mut see);
        found
    }
}

/// Whether nothing more happens to `site` by itself.
fn is_at_rest(table: &Table, layout: Layout, state: &GlobalState, site: SiteId) -> bool {
    let facts = table.facts(state.locals[site.index()]);
    facts.phase != Phase::Executing
        && !facts.has_timer
        && state.packets.iter().all(|&code| table.label(layout.split(code).0).to != site)
}

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
//!
//! What a site can do in its bursts depends on nothing but its own state, what is on its way to it, and what it knows of entries. There are
//! far fewer such *situations* than states, so each is looked at once ([`bursts`]) and its bursts are kept.

mod bursts;
mod commute;
#[cfg(test)]
mod tests;

pub(crate) use bursts::Prospects;

use meshlock_protocol::SiteId;
use smallvec::SmallVec;

use crate::apply::Applied;
use crate::moves::{Move, Taken};
use crate::search::Search;
use crate::state::{GlobalState, Layout};
use crate::store::StatePlace;
use crate::table::Table;
use bursts::{Burst, Last, Outlook, SilentPath, Survey};

/// What a reduced search finds on its way from one state.
pub(crate) enum Ahead<'a> {
    /// A burst, and the state after it.
    Burst { applied: Applied, next: &'a GlobalState },
    /// A state in which nothing happens by itself, after silent deliveries alone.
    End(&'a GlobalState),
}

/// The steps to what was found: worked out only if somebody asks.
pub(crate) struct Steps<'a> {
    table: &'a Table,
    layout: Layout,
    from: &'a GlobalState,
    silent: &'a [bursts::Silent],
    last: Option<Taken>,
}

/// The working memory in which bursts are worked out.
#[derive(Default)]
pub(crate) struct Lookahead {
    survey: Survey,
    /// The situation of one site.
    situation: Vec<u32>,
    /// The state before the last step of a burst, and the one after it.
    before: GlobalState,
    next: GlobalState,
    /// Whether it looks at situations itself.
    looks_itself: bool,
    /// Whether the table does not know all that is needed. Then not everything was seen.
    pub(crate) is_unknown: bool,
    /// The number of states that were looked at without being kept.
    pub(crate) passed: usize,
}

impl Lookahead {
    /// One that looks at situations itself that the table does not know, as far as the table knows their steps.
    pub(crate) fn that_looks_itself() -> Self {
        Lookahead { looks_itself: true, ..Lookahead::default() }
    }

    /// Calls `see` for everything that a reduced search finds from `state`, with the steps that lead there.
    pub(crate) fn run(
        &mut self,
        table: &Table,
        layout: Layout,
        state: &GlobalState,
        see: &mut dyn FnMut(&Steps<'_>, Ahead<'_>),
    ) {
        (self.is_unknown, self.passed) = (false, 0);
        let looked: Vec<Outlook> =
            if self.looks_itself { self.look_at_all(table, layout, state) } else { Vec::new() };
        let mut rests: SmallVec<[&[SilentPath]; 8]> = SmallVec::new();
        for site in SiteId::all(state.locals.len()) {
            bursts::situation(table, layout, state, site, &mut self.situation);
            let outlook = looked.get(site.index()).or_else(|| table.prospects.of(&self.situation));
            let Some(outlook) = outlook else {
                self.is_unknown = true;
                return;
            };
            self.passed += outlook.passed;
            for burst in &outlook.bursts {
                self.take(table, layout, state, (site, burst), see);
            }
            rests.push(&outlook.rests);
        }
        judge_ends(table, layout, state, &rests, see);
    }

    /// What each site can do; nothing if the table does not know a step.
    fn look_at_all(&mut self, table: &Table, layout: Layout, state: &GlobalState) -> Vec<Outlook> {
        let sites = SiteId::all(state.locals.len());
        let outlooks = sites.map(|site| self.survey.run(table, layout, state, site));
        outlooks.collect::<Option<_>>().unwrap_or_default()
    }

    /// Finds out everything that [`Lookahead::run`] looks up, by the sites' code.
    pub(crate) fn learn(&mut self, table: &mut Table, layout: Layout, state: &GlobalState) {
        for site in SiteId::all(state.locals.len()) {
            bursts::situation(table, layout, state, site, &mut self.situation);
            if table.prospects.of(&self.situation).is_some() {
                continue;
            }
            loop {
                if let Some(outlook) = self.survey.run(table, layout, state, site) {
                    table.prospects.insert(self.situation.clone(), outlook);
                    break;
                }
                for (local, input) in std::mem::take(&mut self.survey.unknown) {
                    table.learn_input(local, input);
                }
            }
        }
    }

    /// Takes a burst.
    fn take(
        &mut self,
        table: &Table,
        layout: Layout,
        state: &GlobalState,
        (site, burst): (SiteId, &Burst),
        see: &mut dyn FnMut(&Steps<'_>, Ahead<'_>),
    ) {
        self.before.copy(state);
        for silent in &burst.silent {
            self.before.packets.remove(place_of(&self.before, silent.code));
        }
        self.before.locals[site.index()] = burst.local;
        self.before.knows = layout.learn(self.before.knows, site, burst.told);
        let step = match burst.last {
            Last::Packet(code) => Move::Deliver(place_of(&self.before, code)),
            Last::Process(input) => Move::Process(site, input),
        };
        let last = Taken { step, branch: burst.branch };
        let applied = table.apply(layout, &self.before, last, &mut self.next).expect("the step is known");
        let steps = Steps { table, layout, from: state, silent: &burst.silent, last: Some(last) };
        see(&steps, Ahead::Burst { applied, next: &self.next });
    }
}

impl Steps<'_> {
    /// The steps, first to last.
    pub(crate) fn taken(&self) -> Vec<Taken> {
        let mut steps = self.follow().0;
        steps.extend(self.last);
        steps
    }

    /// The silent deliveries, and the state after them.
    fn follow(&self) -> (Vec<Taken>, GlobalState) {
        let (mut state, mut next, mut steps) = (self.from.clone(), GlobalState::default(), Vec::new());
        for silent in self.silent {
            let taken = Taken { step: Move::Deliver(place_of(&state, silent.code)), branch: silent.branch };
            self.table.apply(self.layout, &state, taken, &mut next).expect("the step is known");
            std::mem::swap(&mut state, &mut next);
            steps.push(taken);
        }
        (steps, state)
    }
}

/// Judges every state that silent deliveries alone can lead to and in which nothing happens by itself: `rests` has for each site the
/// silent deliveries after which no message to it is left.
fn judge_ends(
    table: &Table,
    layout: Layout,
    state: &GlobalState,
    rests: &[&[SilentPath]],
    see: &mut dyn FnMut(&Steps<'_>, Ahead<'_>),
) {
    if rests.iter().any(|ways| ways.is_empty()) {
        return;
    }
    let mut chosen = vec![0; rests.len()];
    loop {
        let silent: Vec<_> = rests.iter().zip(&chosen).flat_map(|(ways, &nth)| &ways[nth]).copied().collect();
        let steps = Steps { table, layout, from: state, silent: &silent, last: None };
        see(&steps, Ahead::End(&steps.follow().1));
        let Some(site) = (0..chosen.len()).find(|&site| chosen[site] + 1 < rests[site].len()) else {
            return;
        };
        chosen[site] += 1;
        chosen[..site].fill(0);
    }
}

/// The position of the oldest packet with this code.
fn place_of(state: &GlobalState, code: u32) -> usize {
    state.packets.iter().position(|&other| other == code).expect("it is in flight")
}

impl Search {
    /// The burst that leads from one state to another.
    pub(crate) fn burst_between(&self, from: StatePlace, to: &[u8]) -> Option<Vec<Taken>> {
        let (mut found, mut body) = (None, Vec::new());
        let mut see = |steps: &Steps<'_>, seen: Ahead<'_>| {
            if let Ahead::Burst { next, .. } = seen {
                body.clear();
                self.layout.encode(next, &mut body);
                if found.is_none() && body == to {
                    found = Some(steps.taken());
                }
            }
        };
        Lookahead::default().run(&self.table, self.layout, &self.state_at(from), &mut see);
        found
    }
}

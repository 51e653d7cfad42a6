//! What can happen in a global state.

use meshlock_protocol::world::{Delivery, News};
use meshlock_protocol::{Demand, Phase, SiteId};

use crate::faults::FaultChange;
use crate::state::{GlobalState, Layout};
use crate::table::{Input, Table};

/// One step of a global state. Packets are named by their position in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A process requests, releases or returns, or a timer runs out.
    Process(SiteId, Input),
    Deliver(usize),
    /// A packet arrives and will arrive again.
    Duplicate(usize),
    Lose(usize),
    /// A site learns that another has failed or recovered.
    Tell {
        to: SiteId,
        about: SiteId,
    },
    Fail(SiteId),
    Recover(SiteId),
}

/// A step that was taken: what happened, and how its site chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) step: Move,
    /// The number of the result of the site's choices; 0 where it has none.
    pub(crate) branch: u32,
}

impl Move {
    /// How the fault state changes with this step.
    pub(crate) fn change(self) -> Option<FaultChange> {
        match self {
            Move::Process(..) | Move::Deliver(_) => None,
            Move::Duplicate(_) => Some(FaultChange::Duplicated),
            Move::Lose(_) => Some(FaultChange::Lost),
            Move::Tell { to, about } => Some(FaultChange::Told { to, about }),
            Move::Fail(site) => Some(FaultChange::Failed(site)),
            Move::Recover(site) => Some(FaultChange::Recovered(site)),
        }
    }
}

impl Table {
    /// Lists what can happen in `state`. Returns whether any of it happens by itself, without a new request or a new fault.
    pub(crate) fn moves(&self, layout: Layout, state: &GlobalState, moves: &mut Vec<Move>) -> bool {
        moves.clear();
        self.for_each_arrival(layout, state, |at| moves.push(Move::Deliver(at)));
        for (site, &local) in SiteId::all(state.locals.len()).zip(&state.locals) {
            if self.facts(local).has_timer {
                moves.push(Move::Process(site, Input::Wake));
            }
        }
        if self.bounds.crashes > 0 {
            self.list_news(layout, state, moves);
        }
        for (site, &local) in SiteId::all(state.locals.len()).zip(&state.locals) {
            if self.facts(local).must_leave() {
                moves.push(Move::Process(site, Input::Release));
            }
        }
        let down = &self.faults(state.faults).down;
        // Where survivors cannot continue by themselves, a failed site that may recover does recover.
        let awaits_recovery = self.bounds.recoveries && !self.info.failures.crash && !down.is_empty();
        let continues = !moves.is_empty() || awaits_recovery;
        for (site, &local) in SiteId::all(state.locals.len()).zip(&state.locals) {
            moves.extend(self.new_requests(local).map(|input| Move::Process(site, input)));
        }
        if self.bounds.changes > 0 {
            self.list_changes(state, moves);
        }
        if self.bounds.has_faults() {
            self.list_faults(layout, state, moves);
        }
        if self.bounds.news_first {
            self.keep_news(layout, state, moves);
        }
        continues
    }

    /// As long as somebody does not know of a failure: leaves only the news of it, and what they wait for.
    fn keep_news(&self, layout: Layout, state: &GlobalState, moves: &mut Vec<Move>) {
        let down = &self.faults(state.faults).down;
        let is_news = |step: &Move| match *step {
            Move::Tell { about, .. } => down.contains(about),
            Move::Deliver(at) => down.contains(self.label(layout.split(state.packets[at]).0).from),
            Move::Process(..) | Move::Duplicate(_) | Move::Lose(_) | Move::Fail(_) | Move::Recover(_) => {
                false
            }
        };
        let is_untold = self.faults(state.faults).untold.values().any(|untold| !untold.is_empty());
        if is_untold && moves.iter().any(is_news) {
            moves.retain(is_news);
        }
    }

    /// How the process of a site in the state `local` can request, if it can. While it waits to be exclusive it leaves first, so that
    /// each wait has its own end.
    fn new_requests(&self, local: u32) -> impl Iterator<Item = Input> {
        let facts = self.facts(local);
        let input: Option<fn(Demand) -> Input> = match facts.phase {
            Phase::Idle if facts.up && facts.may_request => Some(Input::Request),
            Phase::Executing if self.bounds.returns && facts.may_request && !facts.is_upgrading => {
                Some(Input::Return)
            }
            Phase::Idle | Phase::Waiting | Phase::Executing => None,
        };
        input.into_iter().flat_map(|input| self.bounds.demands.iter().map(move |&demand| input(demand)))
    }

    /// Lists what `site` can do in `state` if nothing fails.
    pub(crate) fn moves_of(&self, layout: Layout, state: &GlobalState, site: SiteId, moves: &mut Vec<Move>) {
        moves.clear();
        self.for_each_arrival(layout, state, |at| {
            if self.label(layout.split(state.packets[at]).0).to == site {
                moves.push(Move::Deliver(at));
            }
        });
        let local = state.locals[site.index()];
        let facts = self.facts(local);
        let by_itself = [
            facts.has_timer.then_some(Input::Wake),
            (facts.phase == Phase::Executing).then_some(Input::Release),
        ];
        let inputs = by_itself.into_iter().flatten().chain(self.new_requests(local));
        moves.extend(inputs.map(|input| Move::Process(site, input)));
    }

    /// Lists what can happen in `state` within the window of the run. Returns what [`Table::moves`] does.
    pub(crate) fn moves_in_window(&self, layout: Layout, state: &GlobalState, moves: &mut Vec<Move>) -> bool {
        let continues = self.moves(layout, state, moves);
        if self.bounds.window.is_some() {
            moves.retain(|&step| !self.is_withheld(layout, state, step));
        }
        continues
    }

    /// Whether `step` is a request, or a change of mode, that the window of the run excludes.
    pub(crate) fn is_withheld(&self, layout: Layout, state: &GlobalState, step: Move) -> bool {
        let Some(window) = self.bounds.window else { return false };
        let Move::Process(site, Input::Request(_) | Input::Return(_) | Input::ChangeMode(_)) = step else {
            return false;
        };
        let mut in_flight = vec![0_u8; self.bounds.cluster.sites];
        for &code in &state.packets {
            let label = self.label(layout.split(code).0);
            in_flight[label.to.index()] += u8::from(label.from == site);
        }
        let largest = self.facts(state.locals[site.index()]).largest;
        largest > u64::from(window) || in_flight.iter().any(|&count| count > window)
    }

    /// Calls `found` with the position of each packet that can arrive next: the oldest of each FIFO channel, or one of each
    /// group of equal packets.
    fn for_each_arrival(&self, layout: Layout, state: &GlobalState, mut found: impl FnMut(usize)) {
        let mut last = None;
        for (at, &code) in state.packets.iter().enumerate() {
            let group = match self.bounds.delivery {
                Delivery::Fifo => self.label(layout.split(code).0).channel,
                Delivery::Unordered => code,
            };
            if last != Some(group) {
                found(at);
            }
            last = Some(group);
        }
    }

    /// Lists who can learn of which failure or recovery. A failure is told only after everything that the failed site had
    /// sent has arrived, unless such news overtake.
    fn list_news(&self, layout: Layout, state: &GlobalState, moves: &mut Vec<Move>) {
        let faults = self.faults(state.faults);
        for (&about, untold) in &faults.untold {
            let waits = !self.bounds.news.overtake && faults.down.contains(about);
            let is_told = |&to: &SiteId| !(waits && self.is_in_flight(layout, state, about, to));
            moves.extend(untold.iter().filter(is_told).map(|to| Move::Tell { to, about }));
        }
        for (&about, untold) in &faults.untold_return {
            let knows = |&to: &SiteId| !faults.has_missed_failure(to, about);
            moves.extend(untold.iter().filter(knows).map(|to| Move::Tell { to, about }));
        }
    }

    /// Whether a message between these sites is in flight.
    fn is_in_flight(&self, layout: Layout, state: &GlobalState, from: SiteId, to: SiteId) -> bool {
        state.packets.iter().any(|&code| {
            let label = self.label(layout.split(code).0);
            (label.from, label.to) == (from, to)
        })
    }

    /// Whether a failed site may recover: all know of its failure. Where news are late, it is enough that nobody who does not know
    /// still gets messages of it, unless the news overtake those, too.
    fn may_recover(&self, layout: Layout, state: &GlobalState, site: SiteId) -> bool {
        let News { overtake, late } = self.bounds.news;
        let has_left = |to: SiteId| late && (overtake || !self.is_in_flight(layout, state, site, to));
        self.faults(state.faults).untold.get(&site).is_none_or(|untold| untold.iter().all(has_left))
    }

    /// Lists the faults that the bounds still allow.
    fn list_faults(&self, layout: Layout, state: &GlobalState, moves: &mut Vec<Move>) {
        let faults = self.faults(state.faults);
        if faults.crashes < self.bounds.crashes {
            let up = SiteId::all(state.locals.len()).filter(|&site| !faults.down.contains(site));
            moves.extend(up.map(Move::Fail));
        }
        if self.bounds.recoveries {
            let able = faults.down.iter().filter(|&site| self.may_recover(layout, state, site));
            moves.extend(able.map(Move::Recover));
        }
        if faults.duplicates < self.bounds.duplicates {
            self.for_each_arrival(layout, state, |at| moves.push(Move::Duplicate(at)));
        }
        if faults.losses < self.bounds.losses {
            self.for_each_arrival(layout, state, |at| moves.push(Move::Lose(at)));
        }
    }

    /// The site whose code `step` runs, and its input.
    pub(crate) fn input(&self, layout: Layout, state: &GlobalState, step: Move) -> Option<(SiteId, Input)> {
        match step {
            Move::Process(site, input) => Some((site, input)),
            Move::Deliver(at) | Move::Duplicate(at) => {
                let packet = layout.split(state.packets[at]).0;
                let to = self.label(packet).to;
                self.facts(state.locals[to.index()]).up.then_some((to, Input::Packet(packet)))
            }
            Move::Lose(_) => None,
            Move::Tell { to, about } if self.faults(state.faults).has_missed_failure(to, about) => {
                Some((to, Input::PeerFailed(about)))
            }
            Move::Tell { to, about } => Some((to, Input::PeerRecovered(about))),
            Move::Fail(site) => Some((site, Input::Fail)),
            Move::Recover(site) => Some((site, Input::Restart)),
        }
    }

    /// Runs the sites' code for everything that `step` will look up.
    pub(crate) fn learn(&mut self, layout: Layout, state: &GlobalState, step: Move) {
        if let Some((site, input)) = self.input(layout, state, step) {
            self.learn_input(state.locals[site.index()], input);
        }
        if let Some(change) = step.change() {
            self.learn_change(state.faults, change);
        }
        match step {
            Move::Duplicate(at) => self.learn_spent(layout.split(state.packets[at]).0),
            Move::Recover(site) => {
                for &code in &state.packets {
                    if self.label(layout.split(code).0).to == site {
                        self.learn_spent(layout.split(code).0);
                    }
                }
            }
            Move::Process(..) | Move::Deliver(_) | Move::Lose(_) | Move::Tell { .. } | Move::Fail(_) => {}
        }
    }

    /// Whether the table knows what all these steps do to the sites. Asking for all of them first is quicker than one by one:
    /// the table is large, and the processor then waits for memory once and not for each step.
    pub(crate) fn knows(&self, layout: Layout, state: &GlobalState, steps: &[Move]) -> bool {
        let inputs = steps.iter().filter_map(|&step| self.input(layout, state, step));
        inputs.fold(true, |known, (site, input)| known & self.knows_step(state.locals[site.index()], input))
    }
}

//! What can happen in a global state, and what comes of it.

use meshlock_protocol::registry::info::Order;
use meshlock_protocol::world::{Delivery, Violation};
use meshlock_protocol::{Phase, SiteId, Slot};

use crate::Algorithm;
use crate::property::{Properties, Property};
use crate::state::{Layout, State};
use crate::table::{Input, Outcome, Table};
use crate::weather::Change;

/// One thing that can happen; packets are named by their place in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A process asks, leaves or returns, or a timer runs out.
    Process(SiteId, Input),
    Deliver(usize),
    Duplicate(usize),
    Lose(usize),
    Tell {
        to: SiteId,
        about: SiteId,
    },
    Fail(SiteId),
    Recover(SiteId),
}

/// The table does not know yet what this move does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

impl<A: Algorithm> Table<A> {
    /// Lists what can happen in `state`, and says whether any of it happens by itself.
    pub(crate) fn moves(&self, layout: Layout, state: &State, moves: &mut Vec<Move>) -> bool {
        moves.clear();
        self.for_each_arrival(layout, state, |at| moves.push(Move::Deliver(at)));
        for (site, &seat) in SiteId::all(state.seats.len()).zip(&state.seats) {
            if self.facts(seat).timer {
                moves.push(Move::Process(site, Input::Wake));
            }
        }
        if self.bounds.crashes > 0 {
            self.news(layout, state, moves);
        }
        for (site, &seat) in SiteId::all(state.seats.len()).zip(&state.seats) {
            if self.facts(seat).phase == Phase::Executing {
                moves.push(Move::Process(site, Input::Release));
            }
        }
        let down = &self.weather(state.weather).down;
        // Where survivors do not go on by themselves, a failed site that may come back does come back.
        let awaited = self.bounds.recoveries && !self.info.failures.crash && !down.is_empty();
        let goes_on = !moves.is_empty() || awaited;
        for (site, &seat) in SiteId::all(state.seats.len()).zip(&state.seats) {
            let facts = self.facts(seat);
            match facts.phase {
                Phase::Idle if facts.up && facts.may_ask => moves.push(Move::Process(site, Input::Request)),
                Phase::Executing if self.bounds.returns && facts.may_ask => {
                    moves.push(Move::Process(site, Input::Return));
                }
                Phase::Idle | Phase::Waiting | Phase::Executing => {}
            }
        }
        if self.bounds.has_faults() {
            self.misfortunes(layout, state, moves);
        }
        goes_on
    }

    fn for_each_arrival(&self, layout: Layout, state: &State, mut found: impl FnMut(usize)) {
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

    fn news(&self, layout: Layout, state: &State, moves: &mut Vec<Move>) {
        let weather = self.weather(state.weather);
        for (&about, untold) in &weather.untold {
            let pending = |to: SiteId| {
                let between = |&&code: &&u32| {
                    let label = self.label(layout.split(code).0);
                    (label.from, label.to) == (about, to)
                };
                weather.down.contains(about) && state.packets.iter().any(|code| between(&code))
            };
            moves.extend(untold.iter().filter(|&to| !pending(to)).map(|to| Move::Tell { to, about }));
        }
    }

    fn misfortunes(&self, layout: Layout, state: &State, moves: &mut Vec<Move>) {
        let weather = self.weather(state.weather);
        if weather.crashes < self.bounds.crashes {
            let up = SiteId::all(state.seats.len()).filter(|&site| !weather.down.contains(site));
            moves.extend(up.map(Move::Fail));
        }
        if self.bounds.recoveries {
            let told = weather.down.iter().filter(|site| !weather.untold.contains_key(site));
            moves.extend(told.map(Move::Recover));
        }
        if weather.duplicates < self.bounds.duplicates {
            self.for_each_arrival(layout, state, |at| moves.push(Move::Duplicate(at)));
        }
        if weather.losses < self.bounds.losses {
            self.for_each_arrival(layout, state, |at| moves.push(Move::Lose(at)));
        }
    }

    /// Runs the sites' code for whatever `step` will look up.
    pub(crate) fn learn(&mut self, layout: Layout, state: &State, step: Move) {
        if let Some((seat, input)) = self.input(layout, state, step) {
            self.learn_step(state.seats[seat.index()], input);
        }
        if let Some(change) = change_of(step) {
            self.learn_change(state.weather, change);
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

    /// Which site's machine `step` drives, and how.
    fn input(&self, layout: Layout, state: &State, step: Move) -> Option<(SiteId, Input)> {
        match step {
            Move::Process(site, input) => Some((site, input)),
            Move::Deliver(at) | Move::Duplicate(at) => {
                let packet = layout.split(state.packets[at]).0;
                let to = self.label(packet).to;
                self.facts(state.seats[to.index()]).up.then_some((to, Input::Packet(packet)))
            }
            Move::Lose(_) => None,
            Move::Tell { to, about } if self.weather(state.weather).down.contains(about) => {
                Some((to, Input::PeerFailed(about)))
            }
            Move::Tell { to, about } => Some((to, Input::PeerRecovered(about))),
            Move::Fail(site) => Some((site, Input::Fail)),
            Move::Recover(site) => Some((site, Input::Restart)),
        }
    }

    /// Whether it is known what these steps do to the sites. To ask for all of them first is quicker than one by one: the table is
    /// large, and memory is waited for once and not for each.
    pub(crate) fn knows(&self, layout: Layout, state: &State, steps: &[Move]) -> bool {
        let inputs = steps.iter().filter_map(|&step| self.input(layout, state, step));
        inputs.fold(true, |known, (site, input)| known & self.knows_step(state.seats[site.index()], input))
    }

    /// Makes `next` the state after `step`, and says what is wrong with that step.
    pub(crate) fn apply(
        &self,
        layout: Layout,
        state: &State,
        step: Move,
        next: &mut State,
    ) -> Result<Option<Violation>, Unknown> {
        next.copy(state);
        let mut fresh_packet = true;
        match step {
            Move::Process(..) | Move::Fail(_) => {}
            Move::Deliver(at) | Move::Lose(at) => {
                let (packet, knows) = layout.split(next.packets.remove(at));
                let label = self.label(packet);
                fresh_packet = !label.spent;
                if matches!(step, Move::Deliver(_)) && self.facts(state.seats[label.to.index()]).up {
                    next.knows = layout.learn(next.knows, label.to, knows);
                }
            }
            Move::Duplicate(at) => {
                let (packet, knows) = layout.split(state.packets[at]);
                next.knows = layout.learn(next.knows, self.label(packet).to, knows);
                self.spend(layout, next, |found, _| found == at)?;
            }
            // Certain knowledge of a failure comes with a new view, whose fences are above all of the old one.
            Move::Tell { to, about } => {
                if self.weather(state.weather).down.contains(about) {
                    next.knows = layout.learn(next.knows, to, layout.known_to(state.knows, about));
                }
            }
            Move::Recover(site) => self.spend(layout, next, |_, to| to == site)?,
        }
        if let Some(change) = change_of(step) {
            next.weather = self.change(state.weather, change).ok_or(Unknown)?;
        }
        let Some((site, input)) = self.input(layout, state, step) else { return Ok(None) };
        let (seat, outcome) = self.step(state.seats[site.index()], input).ok_or(Unknown)?;
        next.seats[site.index()] = seat;
        let Some(outcome) = outcome else { return Ok(None) };
        let fence = self.perform(layout, site, outcome, next);
        if outcome.entry.is_none() && outcome.wrong.is_none() && outcome.refused.is_none() {
            return Ok(None);
        }
        let fair = || fresh_packet && self.weather(next.weather).is_fair();
        // A fence that falls back because two are inside at once: the graver of the two is told.
        let crowd = fence.as_ref().and_then(|_| self.crowd(next));
        let wrong = [
            crowd,
            outcome.wrong.as_deref().cloned(),
            fence,
            outcome.entry.and_then(|_| self.out_of_order(site, next)),
            outcome.refused.as_deref().filter(|_| fair()).cloned(),
        ];
        Ok(wrong.into_iter().flatten().find(|wrong| is_chosen(self.bounds.properties, wrong)))
    }

    /// Sends what is sent and notes the entry; gives back what is wrong with the entry's fence.
    fn perform(
        &self,
        layout: Layout,
        site: SiteId,
        outcome: &Outcome,
        next: &mut State,
    ) -> Option<Violation> {
        let Some((slot, before)) = outcome.entry else {
            self.send(layout, site, &outcome.sends, next);
            return None;
        };
        let (early, late) = outcome.sends.split_at(before as usize);
        self.send(layout, site, early, next);
        let wrong = self.enter(layout, site, slot, next);
        self.send(layout, site, late, next);
        wrong
    }

    /// Puts packets on their way with what their sender knows now.
    fn send(&self, layout: Layout, site: SiteId, packets: &[u32], next: &mut State) {
        let knows = layout.known_to(next.knows, site);
        for &packet in packets {
            self.put(layout, next, layout.join(packet, knows));
        }
    }

    /// The entry becomes the last one of its line, of which nobody else knows yet.
    fn enter(&self, layout: Layout, site: SiteId, slot: Slot, next: &mut State) -> Option<Violation> {
        if layout.lines() == 0 {
            return None;
        }
        let line = slot.0;
        let knew = layout.known_to(next.knows, site) >> line & 1 == 1;
        next.knows = layout.learn(layout.forget(next.knows, line), site, 1 << line);
        next.packets.iter_mut().for_each(|code| *code &= !(1 << line));
        if self.bounds.delivery == Delivery::Unordered {
            next.packets.sort_unstable();
        }
        (!knew).then_some(Violation::FenceFellBack { site, slot })
    }

    /// Puts a packet where its channel keeps it.
    fn put(&self, layout: Layout, next: &mut State, code: u32) {
        let at = match self.bounds.delivery {
            Delivery::Unordered => next.packets.partition_point(|&other| other <= code),
            Delivery::Fifo => {
                let channel = |code: u32| self.label(layout.split(code).0).channel;
                let mine = channel(code);
                next.packets.partition_point(|&other| channel(other) <= mine)
            }
        };
        next.packets.insert(at, code);
    }

    /// Marks the packets that `which` names, by their place and receiver, as spent.
    fn spend(
        &self,
        layout: Layout,
        next: &mut State,
        which: impl Fn(usize, SiteId) -> bool,
    ) -> Result<(), Unknown> {
        for (at, code) in next.packets.iter_mut().enumerate() {
            let (packet, knows) = layout.split(*code);
            if which(at, self.label(packet).to) {
                *code = layout.join(self.spent(packet).ok_or(Unknown)?, knows);
            }
        }
        if self.bounds.delivery == Delivery::Unordered {
            next.packets.sort_unstable();
        }
        Ok(())
    }

    /// A site that has just entered must have the smallest timestamp of all that wait, where that is promised.
    fn out_of_order(&self, site: SiteId, next: &State) -> Option<Violation> {
        if self.info.order != Order::Timestamp {
            return None;
        }
        let mine = self.facts(next.seats[site.index()]).timestamp?;
        let passed = SiteId::all(next.seats.len()).find(|&other| {
            let facts = self.facts(next.seats[other.index()]);
            other != site
                && facts.up
                && facts.phase == Phase::Waiting
                && facts.timestamp < Some(mine)
                && facts.timestamp.is_some()
        });
        passed.map(|passed| Violation::OutOfOrder { site, passed })
    }
}

/// Whether this run looks for `wrong`. A site that disagrees with its host about its process ends every run: nothing that
/// comes after it means anything.
fn is_chosen(properties: Properties, wrong: &Violation) -> bool {
    let contract = matches!(
        wrong,
        Violation::EnteredUnasked { .. } | Violation::EnteredTwice { .. } | Violation::WrongPhase { .. }
    );
    contract || properties.contains(Property::of(wrong))
}

fn change_of(step: Move) -> Option<Change> {
    match step {
        Move::Process(..) | Move::Deliver(_) => None,
        Move::Duplicate(_) => Some(Change::Duplicated),
        Move::Lose(_) => Some(Change::Lost),
        Move::Tell { to, about } => Some(Change::Told { to, about }),
        Move::Fail(site) => Some(Change::Failed(site)),
        Move::Recover(site) => Some(Change::Recovered(site)),
    }
}

impl<A: Algorithm> Table<A> {
    /// What is wrong with `state` as a whole.
    pub(crate) fn examine(&self, layout: Layout, state: &State) -> Option<Violation> {
        let properties = self.bounds.properties;
        if properties.contains(Property::Exclusion)
            && let Some(wrong) = self.crowd(state)
        {
            return Some(wrong);
        }
        if properties.contains(Property::Tokens)
            && let Some(wrong) = self.examine_tokens(layout, state)
        {
            return Some(wrong);
        }
        if !properties.contains(Property::Invariants) || self.weather(state.weather).is_amid_fault() {
            return None;
        }
        let sites: smallvec::SmallVec<[&A; 8]> =
            state.seats.iter().map(|&seat| &self.seat(seat).site).collect();
        let packets = state.packets.iter().map(|&code| self.packet(layout.split(code).0));
        let fresh = packets.filter(|packet| !packet.spent);
        let in_flight: smallvec::SmallVec<[_; 16]> =
            fresh.map(|packet| (packet.from, packet.to, &packet.message)).collect();
        let broken = A::check_together(&sites, &in_flight).err();
        broken.map(|invariant| Violation::Together { invariant })
    }

    /// More inside than permits.
    fn crowd(&self, state: &State) -> Option<Violation> {
        let permits = self.bounds.cluster.permits;
        let inside = state.seats.iter().filter(|&&seat| self.facts(seat).phase == Phase::Executing).count();
        (inside > permits).then_some(Violation::TooManyInside { inside, permits })
    }

    fn examine_tokens(&self, layout: Layout, state: &State) -> Option<Violation> {
        let expected = self.expected_tokens();
        let at_sites: usize = state.seats.iter().map(|&seat| self.facts(seat).tokens).sum();
        let travelling = state.packets.iter().map(|&code| self.label(layout.split(code).0));
        let travelling = travelling.filter(|label| label.tokens > 0 && !label.spent);
        let arriving = travelling.filter(|label| self.facts(state.seats[label.to.index()]).up);
        let found = at_sites + arriving.map(|label| label.tokens).sum::<usize>();
        // A token may be lost with a failed site; none may ever appear from nowhere.
        let wrong = found > expected || (found < expected && self.weather(state.weather).is_fair());
        wrong.then_some(Violation::TokensNotConserved { found, expected })
    }
}

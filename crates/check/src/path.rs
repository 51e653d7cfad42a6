//! A path in the terms of the [`World`](meshlock_protocol::world::World): each message is named by its position in its channel.

use std::collections::BTreeMap;

use meshlock_protocol::SiteId;
use meshlock_protocol::world::Action;

use crate::moves::{Move, Taken};
use crate::search::Search;
use crate::state::GlobalState;
use crate::table::{Input, Table};

/// One step of a run as the explorer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub event: StepEvent,
    /// How the site chooses in this step what its paper leaves open: the answers to what it asks, in turn. Mostly it asks nothing.
    pub answers: Vec<u32>,
}

/// What happens in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEvent {
    /// An action that the world offers.
    Act(Action),
    Fail(SiteId),
    Recover(SiteId),
}

/// The packets in flight as the world keeps them: channel by channel, in the order in which they were sent. A state keeps
/// those of unordered channels in another order.
#[derive(Default)]
struct WorldChannels(BTreeMap<(SiteId, SiteId), Vec<u32>>);

impl Search {
    /// Translates a path from the first state.
    pub(crate) fn translate(&self, path: &[Taken]) -> Vec<Step> {
        let mut channels = WorldChannels::default();
        let (mut state, mut next) = (self.table.first_state(self.layout), GlobalState::default());
        path.iter()
            .map(|&taken| {
                let event = self.translate_step(&channels, &state, taken.step);
                let answers = self.follow(&mut channels, &state, taken);
                let applied = self.table.apply(self.layout, &state, taken, &mut next);
                if self.table.is_relative && applied.is_ok_and(|applied| applied.wrong.is_none()) {
                    let base = self.table.normalise(self.layout, &mut next);
                    channels.normalise(&self.table, base.expect("the search has taken this step"));
                }
                std::mem::swap(&mut state, &mut next);
                Step { event, answers }
            })
            .collect()
    }

    fn translate_step(&self, channels: &WorldChannels, state: &GlobalState, step: Move) -> StepEvent {
        let place = |at: usize| channels.place(&self.table, self.packet(state, at));
        StepEvent::Act(match step {
            Move::Process(site, Input::Request(demand)) => Action::request(site, demand),
            Move::Process(site, Input::Release) => Action::Release(site),
            Move::Process(site, Input::Return(demand)) => Action::request_again(site, demand),
            Move::Process(site, Input::ChangeMode(to)) => Action::ChangeMode(site, to),
            Move::Process(site, _) => Action::Wake(site),
            Move::Deliver(at) => {
                let (from, to, nth) = place(at);
                Action::Deliver { from, to, nth }
            }
            Move::Duplicate(at) => {
                let (from, to, nth) = place(at);
                Action::Duplicate { from, to, nth }
            }
            Move::Lose(at) => {
                let (from, to, nth) = place(at);
                Action::Lose { from, to, nth }
            }
            Move::Tell { to, about } => Action::Tell { to, about },
            Move::Fail(site) => return StepEvent::Fail(site),
            Move::Recover(site) => return StepEvent::Recover(site),
        })
    }

    /// Does to the channels what the step does. Returns the answers with which its site takes it.
    fn follow(&self, channels: &mut WorldChannels, state: &GlobalState, taken: Taken) -> Vec<u32> {
        let Taken { step, branch } = taken;
        let table = &self.table;
        match step {
            Move::Deliver(at) | Move::Lose(at) => {
                let (from, to, nth) = channels.place(table, self.packet(state, at));
                channels.0.entry((from, to)).or_default().remove(nth);
            }
            Move::Duplicate(at) => {
                let (from, to, nth) = channels.place(table, self.packet(state, at));
                channels.0.entry((from, to)).and_modify(|packets| spend(table, &mut packets[nth]));
            }
            Move::Recover(site) => {
                let to_it = channels.0.iter_mut().filter(|((_, to), _)| *to == site);
                to_it.flat_map(|(_, packets)| packets).for_each(|packet| spend(table, packet));
            }
            Move::Process(..) | Move::Tell { .. } | Move::Fail(_) => {}
        }
        let Some((site, input)) = table.input(self.layout, state, step) else { return Vec::new() };
        let local = state.locals[site.index()];
        let outcome = table.step(local, input, branch).and_then(|known| known.outcome);
        for &packet in outcome.iter().flat_map(|outcome| &outcome.sends) {
            let label = table.label(packet);
            channels.0.entry((label.from, label.to)).or_default().push(packet);
        }
        table.answers(local, input, branch).to_vec()
    }

    /// The number of the packet at this position of the state.
    fn packet(&self, state: &GlobalState, at: usize) -> u32 {
        self.layout.split(state.packets[at]).0
    }
}

impl WorldChannels {
    /// Does to the packets what the normal form with this base does to those of the state.
    fn normalise(&mut self, table: &Table, base: u32) {
        for packet in self.0.values_mut().flatten() {
            *packet = table.normal_forms.packet(*packet, base).expect("what is in flight has a normal form");
        }
    }

    /// The ends of a packet's channel, and its position there.
    fn place(&self, table: &Table, packet: u32) -> (SiteId, SiteId, usize) {
        let label = table.label(packet);
        let channel = self.0.get(&(label.from, label.to)).into_iter().flatten();
        let nth = channel.enumerate().find(|(_, other)| **other == packet);
        (label.from, label.to, nth.expect("what is in flight was sent").0)
    }
}

/// Marks the contents of a packet as spent.
fn spend(table: &Table, packet: &mut u32) {
    *packet = table.spent(*packet).expect("the search has taken this step");
}

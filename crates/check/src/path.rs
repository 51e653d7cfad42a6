//! A path in the terms of the [`World`](meshlock_protocol::world::World): each message is named by its position in its channel.

use std::collections::BTreeMap;

use meshlock_protocol::SiteId;
use meshlock_protocol::world::Action;

use crate::moves::Move;
use crate::search::Search;
use crate::state::GlobalState;
use crate::table::{Input, Table};

/// One step of a run as the explorer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
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
    pub(crate) fn translate(&self, path: &[Move]) -> Vec<Step> {
        let mut channels = WorldChannels::default();
        let (mut state, mut next) = (self.table.first_state(self.layout), GlobalState::default());
        path.iter()
            .map(|&step| {
                let translated = self.translate_step(&channels, &state, step);
                self.follow(&mut channels, &state, step);
                let _ = self.table.apply(self.layout, &state, step, &mut next);
                std::mem::swap(&mut state, &mut next);
                translated
            })
            .collect()
    }

    fn translate_step(&self, channels: &WorldChannels, state: &GlobalState, step: Move) -> Step {
        let place = |at: usize| channels.place(&self.table, self.packet(state, at));
        Step::Act(match step {
            Move::Process(site, Input::Request) => Action::Request(site),
            Move::Process(site, Input::Release) => Action::Release(site),
            Move::Process(site, Input::Return) => Action::Return(site),
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
            Move::Fail(site) => return Step::Fail(site),
            Move::Recover(site) => return Step::Recover(site),
        })
    }

    /// Does to the channels what `step` does.
    fn follow(&self, channels: &mut WorldChannels, state: &GlobalState, step: Move) {
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
        let input = table.input(self.layout, state, step);
        let taken = input.and_then(|(site, input)| table.step(state.locals[site.index()], input));
        for &packet in taken.and_then(|(_, outcome)| outcome).iter().flat_map(|outcome| &outcome.sends) {
            let label = table.label(packet);
            channels.0.entry((label.from, label.to)).or_default().push(packet);
        }
    }

    /// The number of the packet at this position of the state.
    fn packet(&self, state: &GlobalState, at: usize) -> u32 {
        self.layout.split(state.packets[at]).0
    }
}

impl WorldChannels {
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

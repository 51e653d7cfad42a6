//! A path told step by step: replayed in the world, which judges it a second time.

use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::{Action, Violation, World};
use meshlock_protocol::{Effect, SiteId};

use crate::moves::Move;
use crate::search::Search;
use crate::state::State;
use crate::table::Input;
use crate::{Algorithm, Bounds};

/// One step of a run as the explorer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something that the world offers.
    Act(Action),
    /// A site fails.
    Fail(SiteId),
    /// A failed site comes back.
    Recover(SiteId),
}

impl<A: Algorithm> Search<A> {
    /// The path in the world's own words, with each message named by its place in its channel there.
    pub(crate) fn retell(&self, values: &Values, path: &[Move]) -> Vec<Step> {
        let mut world = start::<A>(&self.table.bounds, values);
        let (mut state, mut next) = (self.table.first_state(self.layout), State::default());
        path.iter()
            .map(|&step| {
                let told = self.translate(&world, &state, step);
                take(&mut world, told);
                let _ = self.table.apply(self.layout, &state, step, &mut next);
                std::mem::swap(&mut state, &mut next);
                told
            })
            .collect()
    }

    fn translate(&self, world: &World<A>, state: &State, step: Move) -> Step {
        let place = |at: usize| {
            let packet = self.table.packet(self.layout.split(state.packets[at]).0);
            let mut channel = world.packets(packet.from, packet.to);
            let nth =
                channel.position(|other| other.message == packet.message && other.spent == packet.spent);
            (packet.from, packet.to, nth.expect("the world has sent the same messages"))
        };
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
}

/// A path replayed in the world: a line a step, and what the world itself found wrong.
#[derive(Clone, Debug)]
pub struct Story {
    /// What happened and what came of it.
    pub lines: Vec<String>,
    /// The first thing that the world objects to.
    pub violation: Option<Violation>,
}

/// Tells `path`, which was found within `bounds`.
pub fn story<A: Algorithm>(bounds: &Bounds, values: &Values, path: &[Step]) -> Story {
    let mut lines = Vec::with_capacity(path.len());
    let world = replay::<A>(bounds, values, path, |happened| {
        let what = tell(happened.before, happened.step);
        let effects: Vec<String> = happened.effects.iter().map(describe).collect();
        lines.push(if effects.is_empty() { what } else { format!("{what}  ⇒  {}", effects.join(", ")) });
    });
    Story { lines, violation: world.violation().cloned() }
}

/// One step of a replay.
#[derive(Debug)]
pub struct Happened<'a, A: Algorithm> {
    /// The world before it.
    pub before: &'a World<A>,
    /// What happened.
    pub step: Step,
    /// What came of it.
    pub effects: &'a [Effect<A::Message>],
    /// The world after it.
    pub after: &'a World<A>,
}

/// Lets `path`, which was found within `bounds`, happen in a world of its own, and tells `each` of every step.
pub fn replay<A: Algorithm>(
    bounds: &Bounds,
    values: &Values,
    path: &[Step],
    mut each: impl FnMut(Happened<'_, A>),
) -> World<A> {
    let mut world = start::<A>(bounds, values);
    for &step in path {
        let before = world.clone();
        let effects = take(&mut world, step);
        each(Happened { before: &before, step, effects: &effects, after: &world });
    }
    world
}

fn start<A: Algorithm>(bounds: &Bounds, values: &Values) -> World<A> {
    let world = World::<A>::new(bounds.cluster, values, &bounds.holders);
    world.expect("the path was found with these bounds").tolerant()
}

fn take<A: Algorithm>(world: &mut World<A>, step: Step) -> Vec<Effect<A::Message>> {
    match step {
        Step::Act(action) => world.apply(action),
        Step::Fail(site) => {
            world.fail(site);
            Vec::new()
        }
        Step::Recover(site) => world.recover(site),
    }
}

fn tell<A: Algorithm>(world: &World<A>, step: Step) -> String {
    let message = |from: SiteId, to: SiteId, nth: usize| {
        let packet = world.packets(from, to).nth(nth).expect("a message of this path");
        format!("{from} → {to} {:?}", packet.message)
    };
    match step {
        Step::Act(Action::Deliver { from, to, nth }) if nth > 0 => {
            format!("{}  (overtakes {nth})", message(from, to, nth))
        }
        Step::Act(Action::Deliver { from, to, nth }) => message(from, to, nth),
        Step::Act(Action::Duplicate { from, to, nth }) => {
            format!("{}  (and will come again)", message(from, to, nth))
        }
        Step::Act(Action::Lose { from, to, nth }) => format!("{}  is lost", message(from, to, nth)),
        Step::Act(Action::Request(site)) => format!("{site} requests"),
        Step::Act(Action::Release(site)) => format!("{site} leaves"),
        Step::Act(Action::Return(site)) => format!("{site} leaves and requests again"),
        Step::Act(Action::Wake(site)) => format!("a timer of {site} runs out"),
        Step::Act(Action::Tell { to, about }) if world.is_up(about) => {
            format!("{to} learns that {about} runs again")
        }
        Step::Act(Action::Tell { to, about }) => format!("{to} learns that {about} has failed"),
        Step::Fail(site) => format!("{site} fails"),
        Step::Recover(site) => format!("{site} runs again"),
    }
}

fn describe<M: std::fmt::Debug>(effect: &Effect<M>) -> String {
    match effect {
        Effect::Send { to, message } => format!("to {to} {message:?}"),
        Effect::Enter { slot } if slot.0 == 0 => "ENTERS".to_owned(),
        Effect::Enter { slot } => format!("ENTERS on permit {}", slot.0),
        Effect::Timer { delays } => format!("sets a timer of {delays} T"),
        Effect::Misbehaved { peer, why } => format!("refuses {peer}: {why}"),
    }
}

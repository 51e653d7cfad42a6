//! A path as text: replayed in the world, which judges it a second time.

use meshlock_protocol::registry::values::Values;
use meshlock_protocol::registry::{AnyMessage, AnySite, Visitor};
use meshlock_protocol::world::{Action, Violation, World};
use meshlock_protocol::{Algorithm, Effect, SiteId, Spec};

use crate::path::{Step, StepEvent};
use crate::{Bounds, errata};

/// A path replayed in the world.
#[derive(Clone, Debug)]
pub struct Story {
    /// What happened and what it caused, one line for each step.
    pub lines: Vec<String>,
    /// The first violation that the world itself found.
    pub violation: Option<Violation>,
}

/// Tells `path`, which was found within `bounds` for the algorithm that `spec` names.
pub fn story_spec(spec: &Spec, bounds: &Bounds, path: &[Step]) -> Story {
    struct Tell<'a>(&'a Bounds, &'a [Step]);

    impl Visitor for Tell<'_> {
        type Output = Story;

        fn visit<A: Algorithm>(self, spec: &Spec) -> Story {
            story::<A>(self.0, &spec.values, self.1)
        }
    }

    errata::visit(spec, Tell(bounds, path))
}

fn story<A: Algorithm>(bounds: &Bounds, values: &Values, path: &[Step]) -> Story {
    let mut lines = Vec::with_capacity(path.len());
    let mut world = start::<A>(bounds, values);
    for step in path {
        let mut line = describe_step(&world, step.event);
        let effects = take(&mut world, step);
        if !effects.is_empty() {
            let effects: Vec<String> = effects.iter().map(describe_effect).collect();
            line = format!("{line}  ⇒  {}", effects.join(", "));
        }
        lines.push(line);
    }
    Story { lines, violation: world.violation().cloned() }
}

/// One step of a replay.
#[derive(Debug)]
pub struct Happened<'a> {
    pub before: &'a World<AnySite>,
    pub step: &'a Step,
    pub effects: &'a [Effect<AnyMessage>],
    pub after: &'a World<AnySite>,
}

/// Replays `path`, which was found within `bounds` for a registered algorithm, and calls `each` after every step.
pub fn replay(spec: &Spec, bounds: &Bounds, path: &[Step], each: &mut dyn FnMut(Happened<'_>)) {
    let mut world = start::<AnySite>(bounds, &spec.values);
    for step in path {
        let before = world.clone();
        let effects = take(&mut world, step);
        each(Happened { before: &before, step, effects: &effects, after: &world });
    }
}

fn start<A: Algorithm>(bounds: &Bounds, values: &Values) -> World<A> {
    let world = World::<A>::new(bounds.cluster, values, &bounds.holders)
        .and_then(|world| world.demanding(values, &bounds.demands));
    world.expect("the path was found with these bounds").tolerant().with_news(bounds.news)
}

fn take<A: Algorithm>(world: &mut World<A>, step: &Step) -> Vec<Effect<A::Message>> {
    world.answer(&step.answers);
    let effects = match step.event {
        StepEvent::Act(action) => world.apply(action),
        StepEvent::Fail(site) => {
            world.fail(site);
            Vec::new()
        }
        StepEvent::Recover(site) => world.recover(site),
    };
    assert!(world.end_answers(), "the site asks in the replay what it asked in the exploration");
    effects
}

fn describe_step<A: Algorithm>(world: &World<A>, step: StepEvent) -> String {
    let message = |from: SiteId, to: SiteId, nth: usize| {
        let packet = world.packets(from, to).nth(nth).expect("a message of this path");
        format!("{from} → {to} {:?}", packet.message)
    };
    match step {
        StepEvent::Act(Action::Deliver { from, to, nth }) if nth > 0 => {
            format!("{}  (overtakes {nth})", message(from, to, nth))
        }
        StepEvent::Act(Action::Deliver { from, to, nth }) => message(from, to, nth),
        StepEvent::Act(Action::Duplicate { from, to, nth }) => {
            format!("{}  (and will come again)", message(from, to, nth))
        }
        StepEvent::Act(Action::Lose { from, to, nth }) => format!("{}  is lost", message(from, to, nth)),
        StepEvent::Act(Action::Request(site)) => format!("{site} requests"),
        StepEvent::Act(Action::RequestAs(site, demand)) => format!("{site} requests, {demand}"),
        StepEvent::Act(Action::ReturnAs(site, demand)) => {
            format!("{site} leaves and requests again, {demand}")
        }
        StepEvent::Act(Action::ChangeMode(site, to)) => format!("{site} wants to be {to}"),
        StepEvent::Act(Action::Release(site)) => format!("{site} leaves"),
        StepEvent::Act(Action::Return(site)) => format!("{site} leaves and requests again"),
        StepEvent::Act(Action::Wake(site)) => format!("a timer of {site} runs out"),
        StepEvent::Act(Action::Tell { to, about }) if !world.has_missed_failure(to, about) => {
            format!("{to} learns that {about} runs again")
        }
        StepEvent::Act(Action::Tell { to, about }) => format!("{to} learns that {about} has failed"),
        StepEvent::Fail(site) => format!("{site} fails"),
        StepEvent::Recover(site) => format!("{site} runs again"),
    }
}

fn describe_effect<M: std::fmt::Debug>(effect: &Effect<M>) -> String {
    match effect {
        Effect::Send { to, message } => format!("to {to} {message:?}"),
        Effect::Enter { slot } if slot.0 == 0 => "ENTERS".to_owned(),
        Effect::Enter { slot } => format!("ENTERS on permit {}", slot.0),
        Effect::Upgraded => "IS EXCLUSIVE".to_owned(),
        Effect::Timer { delays } => format!("sets a timer of {delays} T"),
        Effect::Chose { taken, of } => format!("chooses {} of {of}", taken + 1),
        Effect::Misbehaved { peer, why } => format!("refuses {peer}: {why}"),
    }
}

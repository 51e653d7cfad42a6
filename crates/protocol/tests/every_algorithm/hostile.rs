//! Messages that no correct peer sends change nothing: duplicates of earlier messages, and messages of sites that are not in the view.

use crate::runs::{Run, for_random_runs, pick, specs_with_modes};
use meshlock_protocol::registry::{ALL, AnyMessage, AnySite};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Effect, NOT_A_PEER, SiteId};

/// A message that has arrived: (from, to, message).
type Arrived = (SiteId, SiteId, AnyMessage);

/// Between the steps of a run, delivers earlier messages again, and as if a site outside the view had sent them.
fn repeat(mut world: World<AnySite>, run: &Run) {
    let mut arrived: Vec<Arrived> = Vec::new();
    for &draw in &run.draws {
        let action = pick(&world, Delivery::Fifo, draw);
        if let Action::Deliver { from, to, .. } = action {
            arrived.extend(in_front(&world, from, to));
        }
        let _ = world.apply(action);
        if let Some((from, to, message)) = arrived.get(usize::from(draw) % arrived.len().max(1)) {
            changes_nothing(&mut world, *from, *to, message);
            from_a_stranger_is_reported(&mut world, *to, message);
        }
    }
}

fn in_front(world: &World<AnySite>, from: SiteId, to: SiteId) -> Option<Arrived> {
    let mut channel = world.in_flight().filter(|&(a, b, _)| (a, b) == (from, to));
    channel.next().map(|(from, to, message)| (from, to, message.clone()))
}

fn changes_nothing(world: &mut World<AnySite>, from: SiteId, to: SiteId, message: &AnyMessage) {
    let before = world.site(to).clone();
    let effects = world.inject(from, to, message.clone());
    let only_reports = effects.iter().all(|effect| matches!(effect, Effect::Misbehaved { .. }));
    assert!(only_reports, "a second {message:?} from {from} to {to} causes {effects:?}");
    assert_eq!(*world.site(to), before, "a second {message:?} from {from} to {to} changes the state");
}

fn from_a_stranger_is_reported(world: &mut World<AnySite>, to: SiteId, message: &AnyMessage) {
    let stranger = SiteId::new(world.cluster().sites + 3);
    for from in [stranger, to] {
        let before = world.site(to).clone();
        let effects = world.inject(from, to, message.clone());
        assert_eq!(effects, [Effect::Misbehaved { peer: from, why: NOT_A_PEER }]);
        assert_eq!(*world.site(to), before);
    }
}

#[test]
fn duplicates_and_strangers_change_nothing() {
    for spec in ALL.iter().flat_map(|info| info.specs()) {
        for_random_runs(spec, |spec, run| repeat(run.world(spec), run));
    }
}

#[test]
fn duplicates_and_strangers_change_nothing_among_those_who_share() {
    for spec in specs_with_modes() {
        for_random_runs(spec, |spec, run| repeat(run.sharing_world(spec), run));
    }
}

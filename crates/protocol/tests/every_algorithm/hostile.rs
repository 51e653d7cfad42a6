//! What no correct peer could have sent changes nothing: a duplicate of an earlier message, whenever it comes, and
//! anything from a site that is not in the view.

use crate::runs::{Run, for_random_runs, pick};
use meshlock_protocol::registry::{ALL, Visitor};
use meshlock_protocol::world::{Action, Delivery, World};
use meshlock_protocol::{Algorithm, Effect, NOT_A_PEER, SiteId, Spec};

/// Between the steps of a run, repeats messages that have arrived before, and sends them in a stranger's name.
struct Repeat<'a>(&'a Run);

/// A message that has arrived: (from, to, message).
type Arrived<M> = (SiteId, SiteId, M);

impl Visitor for Repeat<'_> {
    type Output = ();

    fn visit<A: Algorithm>(self, spec: &Spec) {
        let Repeat(run) = self;
        let mut world = run.world::<A>(spec);
        let mut arrived: Vec<Arrived<A::Message>> = Vec::new();
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
}

fn in_front<A: Algorithm>(world: &World<A>, from: SiteId, to: SiteId) -> Option<Arrived<A::Message>> {
    let mut channel = world.in_flight().filter(|&(a, b, _)| (a, b) == (from, to));
    channel.next().map(|(from, to, message)| (from, to, message.clone()))
}

fn changes_nothing<A: Algorithm>(world: &mut World<A>, from: SiteId, to: SiteId, message: &A::Message) {
    let before = world.site(to).clone();
    let effects = world.inject(from, to, message.clone());
    let only_reports = effects.iter().all(|effect| matches!(effect, Effect::Misbehaved { .. }));
    assert!(only_reports, "a second {message:?} from {from} to {to} causes {effects:?}");
    assert_eq!(*world.site(to), before, "a second {message:?} from {from} to {to} changes the state");
}

fn from_a_stranger_is_reported<A: Algorithm>(world: &mut World<A>, to: SiteId, message: &A::Message) {
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
        for_random_runs(spec, |spec, run| spec.visit(Repeat(run)));
    }
}

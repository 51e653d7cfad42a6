//! `stateright` explores the same sites: it must reach as many states by as many steps with the same depth, and find the errors of
//! published texts after as many steps.

use meshlock_check::{Bounds, Properties, Property, Report, Verdict, explore};
use meshlock_protocol::algorithms::carvalho_roucairol::CarvalhoRoucairol;
use meshlock_protocol::algorithms::lamport::Lamport;
use meshlock_protocol::algorithms::maekawa::Maekawa;
use meshlock_protocol::algorithms::naimi_trehel::NaimiTrehel;
use meshlock_protocol::algorithms::raymond::Raymond;
use meshlock_protocol::algorithms::raymond_k::RaymondK;
use meshlock_protocol::algorithms::ricart_agrawala::RicartAgrawala;
use meshlock_protocol::algorithms::suzuki_kasami::SuzukiKasami;
use meshlock_protocol::registry::values::Values;
use meshlock_protocol::world::Violation;
use meshlock_protocol::{Algorithm, Described, Mode, SiteId, Spec};
use stateright::{Checker, Model};

use crate::lamport_mutex::{self, LamportMutex};
use crate::peer::Peer;

/// Limits `bounds` to the properties that `stateright` checks too. Fences would add states.
fn plain(bounds: Bounds) -> Bounds {
    bounds.checking([Property::Exclusion, Property::Deadlock].into_iter().collect::<Properties>())
}

fn values<A: Algorithm + Described>(spec: &str) -> Values {
    let spec: Spec = spec.parse().expect("a registered name");
    assert_eq!(spec.info.name, A::INFO.name);
    spec.values
}

/// Explores with both and compares.
fn agreed<A: Algorithm + Described>(bounds: &Bounds, values: &Values) {
    let ours = explore::<A>(bounds, values).expect("bounds that fit");
    assert_eq!(ours.verdict, Verdict::Holds, "{:?}", ours.path);
    let theirs = Peer::<A>::new(bounds, values).checker().spawn_bfs().join();
    theirs.assert_properties();
    let Report { states, edges, depth, .. } = ours;
    // It counts the first state and one for each step, and the depth of the first state is 1.
    let counts = (theirs.unique_state_count(), theirs.state_count() - 1, theirs.max_depth() - 1);
    assert_eq!((states, edges, depth), counts, "{}", values.info().name);
}

/// Returns the violation and the number of steps to it, and asserts that both find the same.
fn refuted<A: Algorithm + Described>(bounds: &Bounds, spec: &str) -> (Verdict, usize) {
    let values = values::<A>(spec);
    let ours = explore::<A>(bounds, &values).expect("bounds that fit");
    let theirs = Peer::<A>::new(bounds, &values).checker().spawn_bfs().join();
    let found = theirs.discovery("safe and not stuck").expect("stateright finds it too");
    assert_eq!(ours.path.len(), found.into_actions().len(), "{spec}");
    (ours.verdict, ours.path.len())
}

/// The same for the algorithm and the options that `spec` names.
fn agreed_on<A: Algorithm + Described>(spec: &str, bounds: Bounds) {
    agreed::<A>(&plain(bounds), &values::<A>(spec));
}

#[test]
fn stateright_agrees_on_permission_algorithms() {
    agreed_on::<RicartAgrawala>("ricart-agrawala", Bounds::new(3, 1));
    agreed_on::<RicartAgrawala>("ricart-agrawala", Bounds::new(2, 3).unordered());
    agreed_on::<Lamport>("lamport", Bounds::new(2, 2));
    agreed_on::<CarvalhoRoucairol>("carvalho-roucairol", Bounds::new(3, 2).unordered());
}

#[test]
fn stateright_agrees_on_processes_that_share_and_change_their_modes() {
    let modes = |bounds: Bounds| bounds.with_modes(&Mode::ALL).unordered();
    agreed_on::<RicartAgrawala>("ricart-agrawala:modes", modes(Bounds::new(2, 1)).with_changes(2));
    agreed_on::<RicartAgrawala>("ricart-agrawala:modes", modes(Bounds::new(2, 2)));
    let held = Bounds::new(3, 1).shared_by(&[(0, Mode::Upgradeable), (2, Mode::Shared)]).unwrap();
    let asked = held.with_modes(&[Mode::Exclusive]).with_changes(1).unordered();
    agreed_on::<RicartAgrawala>("ricart-agrawala:modes", asked);
}

#[test]
fn stateright_agrees_on_a_quorum_algorithm() {
    agreed_on::<Maekawa>("maekawa", Bounds::new(3, 1));
    agreed_on::<Maekawa>("maekawa", Bounds::new(2, 2));
}

#[test]
fn stateright_agrees_on_token_algorithms() {
    agreed_on::<SuzukiKasami>("suzuki-kasami", Bounds::new(3, 2).unordered());
    agreed_on::<NaimiTrehel>("naimi-trehel", Bounds::new(3, 2).unordered());
    agreed_on::<Raymond>("raymond", Bounds::new(4, 2));
}

#[test]
fn stateright_agrees_with_several_permits_and_with_holders() {
    let two = || Bounds::new(3, 1).with_permits(2);
    agreed_on::<RaymondK>("raymond-k", two().unordered());
    agreed_on::<RaymondK>("raymond-k", two().held_by(&[0, 2]).unwrap());
    let held = Bounds::new(3, 2).unordered().held_by(&[2]).unwrap();
    agreed_on::<SuzukiKasami>("suzuki-kasami", held);
}

/// A model with timers and a constraint. With clocks up to 6, `stateright` would take too long for a test.
#[test]
fn stateright_agrees_on_the_tla_model_with_smaller_clocks() {
    agreed::<LamportMutex>(&lamport_mutex::bounds(), &lamport_mutex::most_clock(4));
}

#[test]
fn stateright_finds_the_errors_of_published_texts_after_as_many_steps() {
    let stuck = |site: usize| Verdict::Deadlock(vec![SiteId::new(site)]);
    let two_inside = Verdict::Violated(Violation::TooManyInside { inside: 2, permits: 1 });
    let printed = refuted::<RicartAgrawala>(&plain(Bounds::new(2, 3)), "ricart-agrawala:text=printed");
    assert_eq!(printed, (two_inside.clone(), 6));
    let printed = refuted::<SuzukiKasami>(&plain(Bounds::new(2, 1)), "suzuki-kasami:text=printed");
    assert_eq!(printed, (stuck(0), 6));
    let printed = refuted::<CarvalhoRoucairol>(&plain(Bounds::new(3, 2)), "carvalho-roucairol:text=printed");
    assert_eq!(printed, (stuck(2), 21));
    let unordered = refuted::<Lamport>(&plain(Bounds::new(2, 1).unordered()), "lamport");
    assert_eq!(unordered, (two_inside, 4));
}

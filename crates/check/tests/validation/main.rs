//! Validates the explorer: against TLC's published counts, against `stateright`, against itself with other numbers of threads and less
//! memory, and with small models in which a site starves or chooses.

mod bypass;
mod choices;
mod endless;
mod lamport_mutex;
mod liveness;
mod peer;
mod second_opinion;
mod sweep;
mod threads;
mod toy;

use lamport_mutex::{LamportMutex, bounds, most_clock};
use meshlock_check::{Verdict, explore};

/// Reference: the module's `manifest.json`, which gives 724,274 distinct states and depth 61; TLC counts the first state as
/// depth 1.
#[test]
fn the_tla_model_of_lamports_algorithm_has_as_many_states_as_tlc_counts() {
    let report = explore::<LamportMutex>(&bounds(), &most_clock(6)).unwrap();
    assert_eq!(report.verdict, Verdict::Holds, "{:?}", report.path);
    assert_eq!((report.states, report.depth), (724_274, 60));
    // As many as SPIN takes in `benches/peers/lamport_mutex.pml`, which counts the first state as one more.
    assert_eq!(report.edges, 2_451_780 - 1);
}

/// The manifest has no such run; SPIN and `stateright` count the same in `cargo bench -p meshlock-check`.
#[test]
fn the_tla_model_with_larger_clocks_has_as_many_states_as_spin_counts() {
    let report = explore::<LamportMutex>(&bounds(), &most_clock(8)).unwrap();
    assert_eq!(report.verdict, Verdict::Holds, "{:?}", report.path);
    assert_eq!(report.states, 2_763_329);
}

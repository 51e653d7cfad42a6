//! Speed of the simulator: `cargo bench -p meshlock-sim`.
//!
//! All figures are events per second of CPU time, not of elapsed time, and each is the best of three runs: other work of the machine
//! then has the least influence.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod engine;
mod peers;
mod queue;
mod scale;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Number of measurements of each figure.
const ROUNDS: usize = 3;

fn main() {
    engine::print();
    scale::print();
    queue::print();
    peers::print();
}

/// Returns the CPU seconds that this process has used.
fn cpu_seconds() -> f64 {
    let used: Duration =
        clock_gettime(ClockId::ProcessCPUTime).try_into().expect("the CPU time is not negative");
    used.as_secs_f64()
}

/// Returns the result of `work` and the CPU seconds that it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_seconds();
    let done = work();
    (done, cpu_seconds() - start)
}

/// The largest of several measured speeds.
fn best(speeds: impl Iterator<Item = f64>) -> f64 {
    speeds.fold(0.0, f64::max)
}

//! Speed of the simulator: `cargo bench -p meshlock-sim`; words choose parts, as in `cargo bench -p meshlock-sim -- scale peers`.
//!
//! All figures are events per second of CPU time, not of elapsed time, and each is the median of three runs. What is compared runs in
//! turns, so that other work of the machine slows all of it down alike.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod engine;
mod peers;
mod queue;
mod scale;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Number of measurements of each figure; odd, for the median.
const ROUNDS: usize = 3;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads its arguments; the crate itself does not")]
fn main() {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let parts: [(&str, fn()); 4] = [
        ("engine", engine::print),
        ("scale", scale::print),
        ("queue", queue::print),
        ("peers", peers::print),
    ];
    for (name, print) in parts {
        if words.is_empty() || words.iter().any(|word| word == name) {
            print();
        }
    }
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

/// The median of several measured speeds.
fn median(speeds: impl IntoIterator<Item = f64>) -> f64 {
    let mut speeds: Vec<f64> = speeds.into_iter().collect();
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}

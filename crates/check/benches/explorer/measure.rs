//! Elapsed time, CPU time and memory of a run.

use std::fs::read_to_string;
use std::process::Command;
use std::time::{Duration, Instant};

/// One run of one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) states: usize,
    /// Elapsed time, including the start of the process.
    pub(crate) wall: Duration,
    /// CPU time of all threads, in user and system mode.
    pub(crate) cpu: Duration,
    /// Peak memory of the process, in bytes.
    pub(crate) memory: f64,
    /// Memory of the states as the contender itself counts it, in bytes.
    pub(crate) own_memory: Option<usize>,
}

impl Measured {
    /// Header of the table. The last two columns are the times relative to the first row.
    pub(crate) const HEADER: &'static str = "contender                      states  clock s   CPU s  states/CPU s  bytes/state    own   CPU ×  clock ×";

    /// Returns one line of the table.
    pub(crate) fn row(&self, name: &str, first: Option<&Measured>) -> String {
        let (wall, cpu, states) = (self.wall.as_secs_f64(), self.cpu.as_secs_f64(), self.states as f64);
        let first = first.unwrap_or(self);
        let own = self.own_memory.map_or("–".to_owned(), |own| format!("{:.1}", own as f64 / states));
        format!(
            "{name:<27} {states:>9} {wall:>8.2} {cpu:>7.2} {:>13.0} {:>12.1} {own:>6} {:>7.2} {:>8.2}",
            states / cpu,
            self.memory / states,
            cpu / first.cpu.as_secs_f64(),
            wall / first.wall.as_secs_f64(),
        )
    }
}

/// Runs a contender that prints `states own-memory peak-memory`, in bytes, with 0 for unknown.
pub(crate) fn measured(command: &mut Command) -> Measured {
    let (output, wall, cpu) = timed(command);
    let numbers: Vec<usize> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [states, own, memory] = numbers[..] else { panic!("{command:?} printed {output}") };
    Measured { states, wall, cpu, memory: memory as f64, own_memory: (own > 0).then_some(own) }
}

/// Runs `command`, and returns its output, elapsed time and CPU time.
pub(crate) fn timed(command: &mut Command) -> (String, Duration, Duration) {
    let (start, before) = (Instant::now(), cpu_of_children());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (wall, cpu) = (start.elapsed(), cpu_of_children().saturating_sub(before));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), wall, cpu)
}

/// Returns the CPU time of all child processes that have ended: two fields of `/proc/self/stat`, in hundredths of a second.
fn cpu_of_children() -> Duration {
    let stat = read_to_string("/proc/self/stat").expect("a Linux machine");
    // The name of the program, in brackets, may contain spaces; the numbers follow it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[13..=14].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the peak memory of this process, in bytes.
pub(crate) fn peak_memory() -> usize {
    let status = read_to_string("/proc/self/status").expect("a Linux machine");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("Linux tells it");
    let kibibytes: usize =
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// Returns the load averages of the last one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let load = read_to_string("/proc/loadavg").expect("a Linux machine");
    load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

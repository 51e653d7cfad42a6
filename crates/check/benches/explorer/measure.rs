//! What a run took: the clock, the processor, the memory.

use std::fs::read_to_string;
use std::process::Command;
use std::time::{Duration, Instant};

/// One run of one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) states: usize,
    /// On the clock, the start of the process included.
    pub(crate) wall: Duration,
    /// Of all its threads, in the system too.
    pub(crate) cpu: Duration,
    /// The most memory that the process had, in bytes.
    pub(crate) memory: f64,
    /// What the contender itself says that its states take, in bytes.
    pub(crate) own_memory: Option<usize>,
}

impl Measured {
    /// Over the rows; the last two columns say how many times the first row's time this one takes.
    pub(crate) const HEADER: &'static str = "contender                      states  clock s   CPU s  states/CPU s  bytes/state    own   CPU ×  clock ×";

    /// One line of the table.
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

/// Runs a contender that prints `states own-memory peak-memory`, in bytes and 0 where it does not know.
pub(crate) fn measured(command: &mut Command) -> Measured {
    let (output, wall, cpu) = timed(command);
    let numbers: Vec<usize> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [states, own, memory] = numbers[..] else { panic!("{command:?} printed {output}") };
    Measured { states, wall, cpu, memory: memory as f64, own_memory: (own > 0).then_some(own) }
}

/// What `command` prints, and what it took on the clock and of the processor.
pub(crate) fn timed(command: &mut Command) -> (String, Duration, Duration) {
    let (start, before) = (Instant::now(), cpu_of_children());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (wall, cpu) = (start.elapsed(), cpu_of_children().saturating_sub(before));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), wall, cpu)
}

/// The CPU time of all processes that this one started and that have ended: two fields of `/proc/self/stat`, in hundredths of
/// a second.
fn cpu_of_children() -> Duration {
    let stat = read_to_string("/proc/self/stat").expect("a Linux machine");
    // The name of the program, in brackets, may hold anything; what counts comes behind it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[13..=14].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// The most memory that this process has had, in bytes.
pub(crate) fn peak_memory() -> usize {
    let status = read_to_string("/proc/self/status").expect("a Linux machine");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("Linux tells it");
    let kibibytes: usize =
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kibibytes * 1024
}

/// How busy the machine is: the averages of the last one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let load = read_to_string("/proc/loadavg").expect("a Linux machine");
    load.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

//! One exploration with its progress line, its time and its threads.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use meshlock_check::{Bounds, Progress, Report, explore_spec_with};
use meshlock_protocol::Spec;

use crate::output::Usage;

/// A line on stderr that says how far an exploration has come; nothing where stderr is no terminal.
pub(super) struct Line {
    bar: ProgressBar,
    start: Instant,
}

impl Line {
    pub(super) fn new(title: &str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}");
        let bar = ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            .with_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Line { bar, start: Instant::now() }
    }

    pub(super) fn show(&self, now: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        let rate = rate(now.states, self.start.elapsed().as_secs_f64());
        let Progress { states, depth, memory, .. } = now;
        let (memory, how) = (size(*memory), if now.swept.is_some() { ", sweeping" } else { "" });
        self.bar.set_message(format!("{states} states, {rate} states/s, depth {depth}, {memory}{how}"));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What was found, and how long it took.
pub(super) struct Timed {
    pub(super) report: Report,
    pub(super) seconds: f64,
}

/// Explores `spec` within `bounds`.
pub(super) fn explore(spec: &Spec, bounds: &Bounds, threads: usize, title: &str) -> anyhow::Result<Timed> {
    let line = Line::new(title);
    let start = Instant::now();
    let report = on(threads, || explore_spec_with(spec, bounds, |now| line.show(now)))?;
    Ok(Timed { report: report.map_err(Usage::new)?, seconds: start.elapsed().as_secs_f64() })
}

/// Does `work` with so many threads, or on all cores if that is 0.
pub(super) fn on<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?.install(work))
}

/// So many in a second, for people.
pub(super) fn rate(count: usize, seconds: f64) -> String {
    format!("{:.0}", count as f64 / seconds.max(1e-6))
}

/// A number of bytes, for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

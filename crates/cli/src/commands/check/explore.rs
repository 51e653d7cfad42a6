//! Runs an exploration with a progress line and a number of threads, and measures its time.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use meshlock_check::{Bounds, Progress, Report, explore_spec_with};
use meshlock_protocol::Spec;

use crate::output::UsageError;

/// A line on standard error that shows the progress of an exploration. It appears only on a terminal.
pub(super) struct ProgressLine {
    bar: ProgressBar,
    start: Instant,
}

impl ProgressLine {
    pub(super) fn new(title: &str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}");
        let bar = ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            .with_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        ProgressLine { bar, start: Instant::now() }
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

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The report of an exploration, and how long it took.
pub(super) struct Timed {
    pub(super) report: Report,
    pub(super) seconds: f64,
}

/// Explores `spec` within `bounds`.
pub(super) fn explore(spec: &Spec, bounds: &Bounds, threads: usize, title: &str) -> anyhow::Result<Timed> {
    let line = ProgressLine::new(title);
    let start = Instant::now();
    let report = on(threads, || explore_spec_with(spec, bounds, |now| line.show(now)))?;
    Ok(Timed { report: report.map_err(UsageError::new)?, seconds: start.elapsed().as_secs_f64() })
}

/// Runs `work` with this number of threads, or with one per core if it is 0.
pub(super) fn on<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?.install(work))
}

/// Formats a rate per second for people.
pub(super) fn rate(count: usize, seconds: f64) -> String {
    format!("{:.0}", count as f64 / seconds.max(1e-6))
}

/// Formats a number of bytes for people.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

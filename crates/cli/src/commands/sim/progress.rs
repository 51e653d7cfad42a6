//! How far a long simulation is: a bar with the time left, on a terminal, once a second has passed.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use meshlock_sim::trace::{Trace, TracedEvent};

use crate::jobs;

/// A run that takes less shows no bar.
const QUIET: Duration = Duration::from_secs(1);

/// The clock is looked at once in so many entries.
const STRIDE: u64 = 16;

/// Shows how many entries are done.
pub(super) struct Progress {
    start: Instant,
    quiet: Duration,
    /// There from the start, so that the time left derives from all of the run.
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// For a run of so many entries that starts now.
    pub(super) fn new(title: &str, entries: u64) -> Self {
        let bar = jobs::bar(entries, title, "entries");
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Progress { start: Instant::now(), quiet: QUIET, bar, is_shown: false }
    }

    /// So many entries are done.
    pub(super) fn entered(&mut self, entries: u64) {
        if !entries.is_multiple_of(STRIDE) {
            return;
        }
        self.bar.set_position(entries);
        if !self.is_shown && self.start.elapsed() >= self.quiet {
            self.is_shown = true;
            // What is not a terminal shows nothing: the target sees to that itself.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A trace with a progress bar.
pub(super) struct Shown<'a> {
    pub(super) trace: &'a mut dyn Trace,
    pub(super) progress: Progress,
}

impl Trace for Shown<'_> {
    fn line(&mut self, line: TracedEvent<'_>) {
        self.trace.line(line);
    }

    fn entered(&mut self, entries: u64) {
        self.progress.entered(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_shows_no_bar_and_a_long_one_shows_how_far_it_is() {
        let mut progress = Progress::new("central", 1_000);
        progress.quiet = Duration::MAX;
        progress.entered(STRIDE);
        assert!(!progress.is_shown && progress.bar.is_hidden());
        progress.quiet = Duration::ZERO;
        progress.entered(20 * STRIDE);
        assert!(progress.is_shown);
        assert_eq!((progress.bar.position(), progress.bar.length()), (20 * STRIDE, Some(1_000)));
    }
}

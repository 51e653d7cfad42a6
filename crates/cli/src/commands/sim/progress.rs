//! The progress bar of a long simulation. It appears on a terminal after one second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget};
use meshlock_sim::trace::{Trace, TracedEvent};

use crate::jobs;

/// A shorter run shows no bar.
const QUIET: Duration = Duration::from_secs(1);

/// The clock is read once in this many entries.
const STRIDE: u64 = 16;

/// Shows how many entries are done.
pub(super) struct Progress {
    start: Instant,
    quiet: Duration,
    /// Hidden at first. It exists from the start, so that the remaining time is estimated from the whole run.
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// Starts the progress of a run of this many entries.
    pub(super) fn new(title: &str, entries: u64) -> Self {
        let bar = jobs::bar(entries, title, "entries");
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Progress { start: Instant::now(), quiet: QUIET, bar, is_shown: false }
    }

    /// Reports the number of entries so far.
    pub(super) fn entered(&mut self, entries: u64) {
        if !entries.is_multiple_of(STRIDE) {
            return;
        }
        self.bar.set_position(entries);
        if !self.is_shown && self.start.elapsed() >= self.quiet {
            self.is_shown = true;
            // If standard error is not a terminal, the draw target itself shows nothing.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A trace that also moves a progress bar.
pub(super) struct TraceWithProgress<'a> {
    pub(super) trace: &'a mut dyn Trace,
    pub(super) progress: Progress,
}

impl Trace for TraceWithProgress<'_> {
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

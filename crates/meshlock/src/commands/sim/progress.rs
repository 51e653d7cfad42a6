//! How far a long simulation is: a bar with the time left, on a terminal, once a second has passed.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use meshlock_protocol::{Message, SiteId};
use meshlock_sim::Time;
use meshlock_sim::trace::{Kind, Trace};

use crate::jobs;

/// A run that takes less shows no bar.
const QUIET: Duration = Duration::from_secs(1);

/// The clock is looked at once in so many entries.
const STRIDE: u64 = 16;

/// A trace that passes everything on and shows how many entries are done.
pub(super) struct Progress<T> {
    trace: T,
    title: String,
    entries: u64,
    start: Instant,
    quiet: Duration,
    bar: Option<ProgressBar>,
}

impl<T> Progress<T> {
    /// For a run of so many entries that starts now.
    pub(super) fn new(trace: T, title: String, entries: u64) -> Self {
        Progress { trace, title, entries, start: Instant::now(), quiet: QUIET, bar: None }
    }
}

impl<T> Drop for Progress<T> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl<T: Trace> Trace for Progress<T> {
    const ON: bool = T::ON;

    fn line(
        &mut self,
        time: Time,
        kind: Kind,
        site: SiteId,
        peer: Option<SiteId>,
        message: Option<&impl Message>,
        state: &impl Debug,
    ) {
        self.trace.line(time, kind, site, peer, message, state);
    }

    fn entered(&mut self, entries: u64) {
        if !entries.is_multiple_of(STRIDE) {
            return;
        }
        let passed = self.start.elapsed();
        if passed < self.quiet {
            return;
        }
        let (all, title) = (self.entries, &self.title);
        // What is not a terminal shows nothing: the bar sees to that itself.
        let bar = self.bar.get_or_insert_with(|| jobs::bar(all, title, "entries").with_elapsed(passed));
        bar.set_position(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshlock_sim::trace::NoTrace;

    #[test]
    fn a_short_run_shows_no_bar_and_a_long_one_shows_how_far_it_is() {
        let mut progress = Progress::new(NoTrace, "central".to_owned(), 1_000);
        progress.quiet = Duration::MAX;
        progress.entered(STRIDE);
        assert!(progress.bar.is_none());
        progress.quiet = Duration::ZERO;
        progress.entered(20 * STRIDE);
        let bar = progress.bar.as_ref().expect("its time has come");
        assert_eq!((bar.position(), bar.length()), (20 * STRIDE, Some(1_000)));
    }
}

//! Runs many simulations on all cores, with a progress bar.

use indicatif::{ProgressBar, ProgressStyle};
use meshlock_protocol::Spec;
use meshlock_sim::Report;
use meshlock_sim::experiments::Job;
use rayon::prelude::*;

use crate::commands::sim::measure;
use crate::output::UsageError;

/// Runs all jobs. The reports have the order of the jobs, whatever the number of threads.
pub(crate) fn run_all(jobs: &[Job], title: &str) -> anyhow::Result<Vec<Report>> {
    let bar = bar(jobs.len() as u64, title, "runs");
    let reports = jobs
        .par_iter()
        .map(|job| {
            let spec: Spec = job.spec.parse().map_err(UsageError::new)?;
            let report = measure(&spec, &job.settings);
            bar.inc(1);
            report
        })
        .collect();
    bar.finish_and_clear();
    reports
}

/// Returns a progress bar for `length` `things` that shows the remaining time. It appears only on a terminal.
pub(crate) fn bar(length: u64, title: &str, things: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!(
        "{{msg:<28}} {{bar:40}} {{pos}}/{{len}} {things}, {{eta}} left"
    ));
    ProgressBar::new(length)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(title.to_owned())
}

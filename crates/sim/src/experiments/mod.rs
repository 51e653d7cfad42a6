//! The papers' tables and figures as experiments: each is a list of runs and an evaluation of their reports.
//!
//! Runs are independent of each other, so that a host can run them on all its cores; the rows depend only on the
//! reports in their order. A row gives the published value, ours, the difference and a verdict; what does not match is
//! reported with the reason, never left out.

mod bulgannawar;
mod chapter_9;
mod lodha;
mod sanders;
mod singhal;

use serde::Serialize;

use crate::report::Report;
use crate::settings::Settings;
use crate::violation::Stopped;

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct Job {
    /// The algorithm with its options, as in `meshlock sim`.
    pub spec: String,
    pub settings: Settings,
}

/// A table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name in commands.
    pub id: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    pub work: Work,
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Runs that are independent of each other, and an evaluation of their reports.
    Runs {
        /// The runs it needs.
        jobs: fn() -> Vec<Job>,
        /// Evaluates their reports, which are in the same order.
        read: fn(&[Report]) -> Findings,
    },
    /// A function that takes a second or two: it follows its runs message by message, which no report does.
    Followed(fn() -> Result<Findings, Stopped>),
    /// A function that follows one example of the paper step by step.
    Scripted(fn() -> Findings),
}

/// The results of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The rows, with the published values.
    pub rows: Vec<ComparisonRow>,
    /// The plots, if it is a figure.
    pub plots: Vec<Plot>,
    /// Notes for the reader: how the model was understood, and why something differs.
    pub notes: Vec<String>,
}

/// A mean, with half the width of its 95 % confidence interval.
type Measured = (f64, Option<f64>);

/// Reads one quantity from the report of a run.
type Measure = fn(&Report) -> Measured;

/// One published value and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The case: the value of λ, the algorithm, …
    pub label: String,
    /// The quantity: messages per entry, …
    pub quantity: String,
    /// The published value, in words where the paper gives a bound or a range.
    pub published: String,
    /// Our value.
    pub measured: f64,
    /// Half the width of the 95 % confidence interval.
    pub ci95: Option<f64>,
    /// The difference relative to the published value; `None` where that is a bound or a range.
    pub error: Option<f64>,
    pub verdict: RowVerdict,
}

/// Whether a value agrees with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowVerdict {
    /// The result is within the tolerance that the experiment states, or within the bound.
    Agrees,
    /// The result is outside of it.
    Differs,
    /// There is no published value to compare with.
    Shown,
}

/// A plot with curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its file name without the extension.
    pub name: String,
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its legend.
    pub name: String,
    /// Its points (x, y, half-width of the interval).
    pub points: Vec<(f64, f64, f64)>,
    /// Whether these are published points rather than ours.
    pub published: bool,
}

impl ComparisonRow {
    /// A row for a value that the paper states, compared within `tolerance` (relative).
    pub(crate) fn compared(
        label: impl Into<String>,
        quantity: &str,
        published: f64,
        (measured, ci95): Measured,
        tolerance: f64,
    ) -> Self {
        let error = if published == 0.0 { measured } else { (measured - published) / published };
        let verdict = if error.abs() <= tolerance { RowVerdict::Agrees } else { RowVerdict::Differs };
        ComparisonRow {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: format!("{published}"),
            measured,
            ci95,
            error: Some(error),
            verdict,
        }
    }

    /// A row for a bound or a statement in words, which holds or does not.
    pub(crate) fn stated(
        label: impl Into<String>,
        quantity: &str,
        published: impl Into<String>,
        (measured, ci95): Measured,
        holds: bool,
    ) -> Self {
        let verdict = if holds { RowVerdict::Agrees } else { RowVerdict::Differs };
        ComparisonRow {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: published.into(),
            measured,
            ci95,
            error: None,
            verdict,
        }
    }

    /// A row for a value of ours without a published one.
    pub(crate) fn shown(label: impl Into<String>, quantity: &str, (measured, ci95): Measured) -> Self {
        ComparisonRow {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: String::new(),
            measured,
            ci95,
            error: None,
            verdict: RowVerdict::Shown,
        }
    }
}

/// A formula's value to four decimals, as it is shown.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Every experiment, in the order in which they are listed.
pub const ALL: &[Experiment] = &[
    singhal::TABLE,
    singhal::LIMITS,
    singhal::ADAPTIVITY,
    bulgannawar::FIGURE_3A,
    bulgannawar::FIGURE_3B,
    bulgannawar::FIGURE_4,
    bulgannawar::FIGURE_5,
    chapter_9::MESSAGES,
    chapter_9::DELAYS,
    chapter_9::RING,
    sanders::BOUNDS,
    lodha::EXAMPLE,
    lodha::MESSAGES,
];

//! The papers' tables and figures, to be run again: each is a list of runs and a reading of their reports.
//!
//! Runs are independent of each other, so that a host can spread them over its cores; the rows depend only on the reports
//! in their order. A row stands beside what was published, says how far off it is, and a verdict; what does not match is
//! shown with the reason, never left out.

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
    /// What is simulated.
    pub settings: Settings,
}

/// A table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name in commands.
    pub id: &'static str,
    /// The paper and the place in it.
    pub source: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// How it is run.
    pub work: Work,
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// By runs that are independent of each other, and a reading of their reports.
    Runs {
        /// The runs it needs.
        jobs: fn() -> Vec<Job>,
        /// What they show, from their reports in the same order.
        read: fn(&[Report]) -> Findings,
    },
    /// By itself, in a second or two: it follows its runs message by message, which no report tells.
    Followed(fn() -> Result<Findings, Stopped>),
    /// By itself, through one scene that the paper tells step by step.
    Scripted(fn() -> Findings),
}

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The rows beside what was published.
    pub rows: Vec<Row>,
    /// The plots, if it is a figure.
    pub plots: Vec<Plot>,
    /// What a reader must know: the reading of the model, and why something differs.
    pub notes: Vec<String>,
}

/// One figure of a paper beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Where: the value of λ, the algorithm, …
    pub label: String,
    /// What: messages per entry, …
    pub quantity: String,
    /// As the paper has it, in words where it gives a bound or a range.
    pub published: String,
    /// As measured here.
    pub measured: f64,
    /// Half the width of the 95 % confidence interval.
    pub ci95: Option<f64>,
    /// How far off, relative to the published figure; none where that is a bound or a range.
    pub error: Option<f64>,
    /// Whether it agrees.
    pub verdict: Verdict,
}

/// Whether a figure agrees with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the tolerance that the experiment states, or inside the bound.
    Agrees,
    /// Not.
    Differs,
    /// Nothing was published to compare with; shown beside the others.
    Shown,
}

/// A figure with curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its file name without the ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What the horizontal axis shows.
    pub x: String,
    /// What the vertical axis shows.
    pub y: String,
    /// The curves.
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

impl Row {
    /// A figure that the paper states, compared within `tolerance` (relative).
    pub fn compared(
        label: impl Into<String>,
        quantity: &str,
        published: f64,
        (measured, ci95): (f64, Option<f64>),
        tolerance: f64,
    ) -> Self {
        let error = if published == 0.0 { measured } else { (measured - published) / published };
        let verdict = if error.abs() <= tolerance { Verdict::Agrees } else { Verdict::Differs };
        Row {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: format!("{published}"),
            measured,
            ci95,
            error: Some(error),
            verdict,
        }
    }

    /// A bound or a statement that the paper makes in words, which holds or does not.
    pub fn stated(
        label: impl Into<String>,
        quantity: &str,
        published: impl Into<String>,
        (measured, ci95): (f64, Option<f64>),
        holds: bool,
    ) -> Self {
        let verdict = if holds { Verdict::Agrees } else { Verdict::Differs };
        Row {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: published.into(),
            measured,
            ci95,
            error: None,
            verdict,
        }
    }

    /// A figure of ours that nothing was published for.
    pub fn shown(label: impl Into<String>, quantity: &str, (measured, ci95): (f64, Option<f64>)) -> Self {
        Row {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: String::new(),
            measured,
            ci95,
            error: None,
            verdict: Verdict::Shown,
        }
    }
}

/// A formula's value to four digits behind the point, as it is shown.
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

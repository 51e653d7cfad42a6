//! The papers' tables and figures as experiments: each is a list of runs and an evaluation of their reports.
//!
//! Runs are independent of each other, so that a host can run them on all its cores; the rows depend only on the
//! reports in their order. A row gives the published value, ours, the difference and a verdict (`row.rs`); what does not match
//! is reported with the reason, never left out.

mod bulgannawar;
mod cao_singhal;
mod centralized;
mod chapter_9;
mod exercises;
mod interval;
mod lodha;
mod maekawa;
mod row;
mod sanders;
mod singhal;

pub use row::{ComparisonRow, RowVerdict};

use self::interval::Interval;
use self::row::Measured;
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

/// Reads one quantity from the report of a run.
type Measure = fn(&Report) -> Measured;

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

/// Every experiment, in the order in which they are listed.
pub const ALL: &[Experiment] = &[
    singhal::TABLE,
    singhal::LIMITS,
    singhal::ADAPTIVITY,
    bulgannawar::FIGURE_3A,
    bulgannawar::FIGURE_3B,
    bulgannawar::FIGURE_4,
    bulgannawar::FIGURE_5,
    bulgannawar::SATURATION,
    bulgannawar::INFORM,
    bulgannawar::CHECKS,
    bulgannawar::LARGER_E,
    chapter_9::MESSAGES,
    chapter_9::DELAYS,
    maekawa::DEADLOCKS,
    chapter_9::RING,
    exercises::NINE_2,
    exercises::NINE_3,
    exercises::NINE_5,
    centralized::NINE_6,
    sanders::BOUNDS,
    lodha::EXAMPLE,
    lodha::MESSAGES,
    cao_singhal::CLAIM,
];

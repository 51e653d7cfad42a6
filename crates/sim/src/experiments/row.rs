//! One row of an experiment: a published value or statement, our value, and a verdict that is a statistical statement.
//!
//! Every estimate of ours has a 95 % confidence interval from 20 batches or 20 runs. A published *figure* agrees if it is
//! inside that interval; `z` is its distance in standard errors. A published *statement* (a bound, an order, "the same")
//! holds if it is true for every value of the interval, fails if it is true for none, and is undecided in between. Where
//! nothing is random the interval is a point, and only equal values agree. Nothing is rounded before it is compared.

use serde::Serialize;

use super::interval::Interval;
use crate::statistics::{STUDENT_T, prediction};

/// A mean, with half the width of its 95 % confidence interval.
pub(super) type Measured = (f64, Option<f64>);

/// Values that are counted or computed without chance are equal if they differ by no more than the rounding of sums.
const ROUNDING: f64 = 1e-9;

/// A published or derived value and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The case: the value of λ, the algorithm, …
    pub label: String,
    /// The quantity: messages per entry, …
    pub quantity: String,
    /// The published value, in words where the paper gives a bound or a range; empty if the paper gives none.
    pub published: String,
    /// The value that we derive from the paper's rules where it gives no value itself; empty if there is none.
    pub derived: String,
    /// Our value.
    pub measured: f64,
    /// Half the width of the 95 % confidence interval.
    pub ci95: Option<f64>,
    /// The difference relative to the published or derived value; `None` where that is a bound or a range.
    pub error: Option<f64>,
    /// The distance in standard errors: of ours from the value that it is compared with, or from the edge of what the
    /// statement allows, positive inside. `None` where nothing is random or no test was made.
    pub z: Option<f64>,
    pub verdict: RowVerdict,
}

/// Result of comparing a row's value with what is published or derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowVerdict {
    /// The figure is inside the 95 % interval of ours, or equal to ours where nothing is random.
    Agrees,
    /// The figure is outside of it.
    Differs,
    /// The statement is true for every value of the interval.
    Holds,
    /// The statement is true for no value of the interval.
    Fails,
    /// The interval has values for which the statement is true and others for which it is not.
    Undecided,
    /// The value is shown without a test.
    Shown,
}

impl RowVerdict {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            RowVerdict::Agrees => "agrees",
            RowVerdict::Differs => "differs",
            RowVerdict::Holds => "holds",
            RowVerdict::Fails => "fails",
            RowVerdict::Undecided => "undecided",
            RowVerdict::Shown => "",
        }
    }

    /// The meaning of the verdicts, for the reader of a table.
    pub const LEGEND: &'static str = "A figure agrees if it is inside the 95 % interval of ours (|z| ≤ 2.09; z is the \
        distance in standard errors, from 20 batches or runs), or equal to ours where nothing is random; of 20 true \
        figures one is outside by chance. A statement holds if it is true of the whole interval, fails if it is true of \
        no part of it, and is undecided otherwise.";
}

/// A published figure as the tables show it.
fn figure(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whether two values that no chance has a part in are equal.
fn is_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs()).max(1.0)
}

impl ComparisonRow {
    /// A row for a figure that the paper states, compared by the interval of ours.
    pub(super) fn compared(
        label: impl Into<String>,
        quantity: &str,
        published: f64,
        measured: Measured,
    ) -> Self {
        let mut row = ComparisonRow::shown(label, quantity, measured);
        row.published = figure(published);
        row.compare_with(published);
        row
    }

    /// A row for a figure that we derive from the paper's rules, compared by the interval of ours.
    pub(super) fn derived(
        label: impl Into<String>,
        quantity: &str,
        derived: f64,
        measured: Measured,
    ) -> Self {
        let mut row = ComparisonRow::shown(label, quantity, measured);
        row.derived = figure(derived);
        row.compare_with(derived);
        row
    }

    /// A row for a figure that the paper states of something that is counted, not estimated.
    pub(super) fn exact(label: impl Into<String>, quantity: &str, published: f64, measured: f64) -> Self {
        ComparisonRow::compared(label, quantity, published, (measured, None))
    }

    /// A row for a published result of one run of unknown seed, printed with so many decimals, against our runs of the same
    /// length: it agrees if it is inside the 95 % interval of one more such run, or rounds from a value inside.
    pub(super) fn of_one_run(
        label: impl Into<String>,
        quantity: &str,
        (published, decimals): (f64, i32),
        runs: &[f64],
    ) -> Self {
        let (mean, half) = prediction(runs);
        let mut row = ComparisonRow::shown(label, quantity, (mean, Some(half)));
        row.published = format!("{published:.*}", usize::try_from(decimals).unwrap_or(0));
        let printed = 0.5 * 10_f64.powi(-decimals);
        row.error = relative(mean, published);
        // From the nearest value that is printed so.
        let away = (mean - published).signum() * ((mean - published).abs() - printed).max(0.0);
        row.z = (half > 0.0).then(|| STUDENT_T * away / half);
        let is_inside = away.abs() <= half + ROUNDING;
        row.verdict = if is_inside { RowVerdict::Agrees } else { RowVerdict::Differs };
        row
    }

    /// A row for a statement: the value is in this range.
    pub(super) fn claimed(
        label: impl Into<String>,
        quantity: &str,
        published: impl Into<String>,
        value: Interval,
        range: std::ops::RangeInclusive<f64>,
    ) -> Self {
        let mut row = ComparisonRow::shown(label, quantity, (value.middle, value.half()));
        row.published = published.into();
        let (low, high) = (range.start() - ROUNDING, range.end() + ROUNDING);
        row.verdict = if value.low >= low && value.high <= high {
            RowVerdict::Holds
        } else if value.high < low || value.low > high {
            RowVerdict::Fails
        } else {
            RowVerdict::Undecided
        };
        let room = (value.middle - range.start()).min(range.end() - value.middle);
        row.z = row.ci95.filter(|half| *half > ROUNDING).map(|half| STUDENT_T * room / half);
        row
    }

    /// The same for a bound of our own, which the paper does not state.
    pub(super) fn claimed_by_us(mut self) -> Self {
        self.derived = std::mem::take(&mut self.published);
        self
    }

    /// A row for a statement about something that is counted, which holds or does not.
    pub(super) fn stated(
        label: impl Into<String>,
        quantity: &str,
        published: impl Into<String>,
        measured: f64,
        holds: bool,
    ) -> Self {
        let mut row = ComparisonRow::shown(label, quantity, (measured, None));
        row.published = published.into();
        row.verdict = if holds { RowVerdict::Holds } else { RowVerdict::Fails };
        row
    }

    /// A row for a statement about most of some cases: it is true of `sure` of them, and may be of `open` others.
    pub(super) fn most_of(
        label: impl Into<String>,
        quantity: &str,
        (sure, open, all): (usize, usize, usize),
    ) -> Self {
        let mut row = ComparisonRow::shown(label, quantity, (sure as f64, None));
        "most".clone_into(&mut row.published);
        row.verdict = if 2 * sure > all {
            RowVerdict::Holds
        } else if 2 * (sure + open) <= all {
            RowVerdict::Fails
        } else {
            RowVerdict::Undecided
        };
        row
    }

    /// A row that shows a published figure beside ours without a test.
    pub(super) fn beside(
        label: impl Into<String>,
        quantity: &str,
        published: f64,
        measured: Measured,
    ) -> Self {
        let mut row = ComparisonRow::shown(label, quantity, measured);
        row.published = figure(published);
        row.error = relative(measured.0, published);
        row
    }

    /// A row for a value of ours without a published one.
    pub(super) fn shown(label: impl Into<String>, quantity: &str, (measured, ci95): Measured) -> Self {
        ComparisonRow {
            label: label.into(),
            quantity: quantity.to_owned(),
            published: String::new(),
            derived: String::new(),
            measured,
            ci95,
            error: None,
            z: None,
            verdict: RowVerdict::Shown,
        }
    }

    fn compare_with(&mut self, value: f64) {
        self.error = relative(self.measured, value);
        let half = self.ci95.unwrap_or(0.0);
        let agrees = if half > ROUNDING {
            self.z = Some(STUDENT_T * (self.measured - value) / half);
            (self.measured - value).abs() <= half
        } else {
            is_equal(self.measured, value)
        };
        self.verdict = if agrees { RowVerdict::Agrees } else { RowVerdict::Differs };
    }
}

/// The difference relative to `value`; `None` if that is zero.
fn relative(measured: f64, value: f64) -> Option<f64> {
    (value != 0.0).then(|| (measured - value) / value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(published: f64, measured: Measured) -> RowVerdict {
        ComparisonRow::compared("", "", published, measured).verdict
    }

    #[test]
    fn a_figure_agrees_only_inside_the_interval_however_it_would_round() {
        assert_eq!(verdict(3.0, (3.38, Some(0.01))), RowVerdict::Differs);
        assert_eq!(verdict(31.0, (30.5, Some(0.02))), RowVerdict::Differs);
        assert_eq!(verdict(31.0, (30.5, Some(0.6))), RowVerdict::Agrees);
    }

    #[test]
    fn what_no_chance_has_a_part_in_agrees_only_if_it_is_equal() {
        assert_eq!(verdict(12.0, (12.0, None)), RowVerdict::Agrees);
        assert_eq!(verdict(12.0, (12.001, None)), RowVerdict::Differs);
        assert_eq!(verdict(12.0, (12.001, Some(0.0))), RowVerdict::Differs);
    }

    #[test]
    fn a_statement_is_undecided_where_the_interval_has_values_on_both_sides() {
        let claimed = |low, high| {
            let value = Interval { low, middle: f64::midpoint(low, high), high };
            ComparisonRow::claimed("", "", "at most 1", value, f64::NEG_INFINITY..=1.0).verdict
        };
        assert_eq!(claimed(0.8, 0.9), RowVerdict::Holds);
        assert_eq!(claimed(0.9, 1.1), RowVerdict::Undecided);
        assert_eq!(claimed(1.1, 1.2), RowVerdict::Fails);
    }

    #[test]
    fn z_is_the_distance_in_standard_errors() {
        let row = ComparisonRow::compared("", "", 10.0, (9.0, Some(STUDENT_T)));
        assert!((row.z.expect("there is an interval") + 1.0).abs() < 1e-12, "{row:?}");
    }

    #[test]
    fn one_published_run_is_compared_with_the_spread_of_such_runs() {
        let runs: Vec<f64> = (0..20).map(|at| 5.0 + 0.1 * f64::from(at % 2)).collect();
        let of = |published| ComparisonRow::of_one_run("", "", (published, 2), &runs).verdict;
        assert_eq!(of(5.1), RowVerdict::Agrees);
        assert_eq!(of(5.3), RowVerdict::Differs);
    }
}

//! Means with confidence intervals from one long run: the warm-up is found and discarded, the rest is divided into
//! batches.

use serde::Serialize;

/// A mean with the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    /// Half the width of the interval; `None` if there is too little data.
    pub(crate) ci95: Option<f64>,
}

/// The number of batches that the steady part is divided into.
const BATCHES: usize = 20;

/// Student's t for 95 % and `BATCHES` − 1 degrees of freedom.
const STUDENT_T: f64 = 2.093_024;

/// Returns where the steady part of a series begins, by the MSER rule: cut off the beginning that makes the standard
/// error of the rest smallest, but never more than half.
pub(crate) fn steady_from(series: &[f64]) -> usize {
    let length = series.len();
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    // From the end, so that each candidate costs one addition.
    for start in (0..length).rev() {
        sum += series[start];
        squares += series[start] * series[start];
        let count = (length - start) as f64;
        let spread = squares - sum * sum / count;
        let score = spread.max(0.0) / (count * count);
        if start <= length / 2 && score <= best.0 {
            best = (score, start);
        }
    }
    best.1
}

/// The mean of a steady series, with its interval by batch means.
pub(crate) fn batch_mean(series: &[f64]) -> Mean {
    let mean = average(series);
    if series.len() < BATCHES {
        return Mean { mean, ci95: None };
    }
    let size = series.len() / BATCHES;
    // What does not fill a batch is left out of the interval at its beginning, where it is the least steady.
    let batches: Vec<f64> = series[series.len() - size * BATCHES..].chunks_exact(size).map(average).collect();
    let centre = average(&batches);
    let spread: f64 = batches.iter().map(|batch| (batch - centre).powi(2)).sum();
    let error = (spread / ((BATCHES - 1) * BATCHES) as f64).sqrt();
    Mean { mean, ci95: Some(STUDENT_T * error) }
}

/// The plain mean; 0 if there are no values.
pub(crate) fn average(series: &[f64]) -> f64 {
    if series.is_empty() { 0.0 } else { series.iter().sum::<f64>() / series.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn the_warm_up_is_cut_where_the_series_becomes_steady() {
        let mut draw = Draw::new(3);
        let mut series: Vec<f64> = (0..50).map(|at| 10.0 - f64::from(at) * 0.2).collect();
        series.extend((0..450).map(|_| draw.fraction() * 0.1));
        assert!((45..=55).contains(&steady_from(&series)), "{}", steady_from(&series));
    }

    #[test]
    fn the_interval_covers_the_true_mean_about_nineteen_times_in_twenty() {
        let covered = (0..400_u64).filter(|&seed| {
            let mut draw = Draw::new(seed);
            let series: Vec<f64> = (0..2000).map(|_| draw.exponential(3.0)).collect();
            let Mean { mean, ci95 } = batch_mean(&series);
            (mean - 3.0).abs() <= ci95.expect("enough for an interval")
        });
        let covered = covered.count();
        assert!((368..=392).contains(&covered), "{covered} of 400");
    }

    #[test]
    fn too_short_a_series_has_no_interval() {
        assert_eq!(batch_mean(&[1.0, 3.0]), Mean { mean: 2.0, ci95: None });
    }
}

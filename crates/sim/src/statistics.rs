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
pub(crate) const STUDENT_T: f64 = 2.093_024;

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

/// The mean of as many independent runs as a series has batches, with its interval.
pub(crate) fn mean_of_runs(values: &[f64]) -> Mean {
    debug_assert_eq!(values.len(), BATCHES, "Student's t is for this number");
    batch_mean(values)
}

/// The mean of [`BATCHES`] independent runs, and half the width of the 95 % interval in which one more such run lies.
pub(crate) fn prediction(values: &[f64]) -> (f64, f64) {
    let Mean { mean, ci95 } = mean_of_runs(values);
    // The interval of the mean is t·s/√n, that of one more value t·s·√(1 + 1/n).
    (mean, ci95.unwrap_or(0.0) * (values.len() as f64 + 1.0).sqrt())
}

/// The ratio of two sums over a steady series of pairs, with its interval by batches.
pub(crate) fn batch_ratio(series: &[(f64, f64)]) -> Mean {
    let ratio = |pairs: &[(f64, f64)]| {
        let (above, below) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        if below == 0.0 { 0.0 } else { above / below }
    };
    let mean = ratio(series);
    if series.len() < BATCHES {
        return Mean { mean, ci95: None };
    }
    let size = series.len() / BATCHES;
    let batches: Vec<f64> = series[series.len() - size * BATCHES..].chunks_exact(size).map(ratio).collect();
    Mean { mean, ci95: batch_mean(&batches).ci95 }
}

/// The slope of a steady series' batches is larger than this many of its standard errors by chance in one series of 2,000:
/// Student's t for 99.95 % and two degrees of freedom fewer than there are batches.
const GROWING: f64 = 3.922;

/// Whether a series still grows at its end: a straight line through the means of its batches rises, and that is not chance. Such a
/// series has no steady state, or has not reached it.
pub(crate) fn is_growing(series: &[f64]) -> bool {
    if series.len() < BATCHES {
        return false;
    }
    let size = series.len() / BATCHES;
    let batches: Vec<f64> = series[series.len() - size * BATCHES..].chunks_exact(size).map(average).collect();
    let count = batches.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, average(&batches));
    let (mut across, mut both) = (0.0, 0.0);
    for (at, batch) in batches.iter().enumerate() {
        let x = at as f64 - middle;
        across += x * x;
        both += x * (batch - mean);
    }
    let slope = both / across;
    let left: f64 = batches
        .iter()
        .enumerate()
        .map(|(at, batch)| (batch - mean - slope * (at as f64 - middle)).powi(2))
        .sum();
    let error = (left / (count - 2.0) / across).sqrt();
    // A series without any noise grows if it grows by more than the rounding of its sums.
    slope > GROWING * error && slope * count > 1e-6 * mean.abs()
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
    fn one_more_run_is_inside_its_interval_about_nineteen_times_in_twenty() {
        let covered = (0..2000_u64).filter(|&seed| {
            let mut draw = Draw::new(seed);
            let normal = |draw: &mut Draw| (0..12).map(|_| draw.fraction()).sum::<f64>();
            let runs: Vec<f64> = (0..BATCHES).map(|_| normal(&mut draw)).collect();
            let (mean, half) = prediction(&runs);
            (normal(&mut draw) - mean).abs() <= half
        });
        let covered = covered.count();
        assert!((1870..=1930).contains(&covered), "{covered} of 2000");
    }

    #[test]
    fn the_ratio_of_sums_is_that_of_the_whole() {
        let series: Vec<(f64, f64)> = (1..=40).map(|at| (f64::from(at) * 3.0, f64::from(at))).collect();
        let Mean { mean, ci95 } = batch_ratio(&series);
        assert!((mean - 3.0).abs() < 1e-12 && ci95.expect("enough batches") < 1e-12);
    }

    #[test]
    fn a_series_that_rises_is_growing_and_one_that_only_varies_is_not() {
        let noise = |seed: u64, rise: f64| -> Vec<f64> {
            let mut draw = Draw::new(seed);
            (0..400).map(|at| draw.exponential(1.0) + rise * f64::from(at)).collect()
        };
        assert!((0..100).all(|seed| is_growing(&noise(seed, 0.01))));
        let mistaken = (0..1000).filter(|&seed| is_growing(&noise(seed, 0.0))).count();
        assert!(mistaken <= 3, "{mistaken} of 1000");
        assert!(!is_growing(&[5.0; 400]));
    }

    #[test]
    fn too_short_a_series_has_no_interval() {
        assert_eq!(batch_mean(&[1.0, 3.0]), Mean { mean: 2.0, ci95: None });
    }
}

//! Medians, quantiles and Jain's index.

/// Returns the median.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the smallest of these sorted values that at least this many thousandths of them do not exceed.
pub(super) fn quantile(sorted: &[f64], thousandths: usize) -> f64 {
    let at = (sorted.len() * thousandths).div_ceil(1000).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Returns Jain's fairness index: 1 if all clients have the same share, 1/n if one has everything.
pub(super) fn jain(each: &[u64]) -> f64 {
    let sum: f64 = each.iter().map(|entries| *entries as f64).sum();
    let squares: f64 = each.iter().map(|entries| (*entries as f64).powi(2)).sum();
    sum * sum / (each.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
    }

    #[test]
    fn a_quantile_is_the_smallest_value_that_enough_do_not_exceed() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for (thousandths, value) in [(0, 1.0), (10, 1.0), (11, 2.0), (500, 50.0), (990, 99.0), (999, 100.0)] {
            is(quantile(&hundred, thousandths), value);
        }
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        for (thousandths, value) in [(500, 500.0), (990, 990.0), (999, 999.0), (1000, 1000.0)] {
            is(quantile(&thousand, thousandths), value);
        }
        is(quantile(&[7.0], 990), 7.0);
        assert!(quantile(&[], 500).is_nan(), "of nothing there is none");
    }

    #[test]
    fn a_median_does_not_depend_on_the_order() {
        is(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn jains_index_is_one_for_equal_shares_and_a_share_of_it_for_a_single_winner() {
        is(jain(&[7, 7, 7, 7]), 1.0);
        is(jain(&[9, 0, 0]), 1.0 / 3.0);
    }
}

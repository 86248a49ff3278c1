//! The middle of measured values, and what nearly all of them do not exceed.

/// Returns the median of the values, which it sorts; of an even number, the higher middle one. It is 0 of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the 90th percentile of the values, which it sorts. It is 0 of none.
pub(crate) fn percentile_90(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() * 9 / 10).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_a_tenth_of_the_values_are_as_large() {
        let mut values: Vec<f64> = (0..20).rev().map(f64::from).collect();
        assert_eq!(
            (median(&mut values), percentile_90(&mut values)),
            (10.0, 18.0)
        );
        assert_eq!((median(&mut [7.0]), percentile_90(&mut [7.0])), (7.0, 7.0));
        assert_eq!((median(&mut []), percentile_90(&mut [])), (0.0, 0.0));
    }
}

//! The middle of measured values.

/// Returns the median of the values, which it sorts; of an even number, the higher middle one. It is 0 of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

//! Percentiles: `50,95,99.9`.

/// Maximum number of percentiles of a report, so that a line of its table has at most 120 columns.
const MOST: usize = 10;

/// Parses percentiles separated by commas. Returns them as shares, the smallest first.
pub(crate) fn parse(text: &str) -> Result<Vec<f64>, String> {
    let shares = text.split(',').map(|part| {
        let part = part.trim();
        share(part).ok_or_else(|| format!("{part:?} is not a percentile: write 50,95,99.9"))
    });
    let mut shares = shares.collect::<Result<Vec<f64>, String>>()?;
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    match shares.len() > MOST {
        true => Err(format!(
            "{} percentiles exceed the maximum of {MOST}: write 50,95,99.9",
            shares.len()
        )),
        false => Ok(shares),
    }
}

/// Parses a percentile above 0 and below 100, such as `99.9`, as a share.
pub(crate) fn share(text: &str) -> Option<f64> {
    let is_decimal = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    // Not a division, which would give 0.9990000000000001 for 99.9.
    let share: f64 = format!("{text}e-2").parse().ok()?;
    (is_decimal && share > 0.0 && share < 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_sorted_shares() {
        assert_eq!(parse("99.9, 50,75,50"), Ok(vec![0.5, 0.75, 0.999]));
    }

    #[test]
    fn what_is_no_percentile_is_named() {
        for text in [
            "", "p99", "0", "100", "-5", "1e1", "NaN", "50,,90", "50;90", "101",
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.ends_with("is not a percentile: write 50,95,99.9"),
                "{text}: {error}"
            );
        }
        let error = parse("1,2,3,4,5,6,7,8,9,10,11").unwrap_err();
        assert!(
            error.contains("11 percentiles exceed the maximum of 10"),
            "{error}"
        );
    }
}

//! Shares such as `10%` or `0.1`.

/// Parses a share from 0 % to 100 %.
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("not a share: write one from 0% to 100%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_share_is_a_percentage_or_a_number_up_to_1() {
        assert_eq!(parse("10%"), Ok(0.1));
        assert_eq!(parse(" 0.25 "), Ok(0.25));
        assert_eq!(parse("100%"), Ok(1.0));
        for text in ["", "10", "-1%", "101%", "some", "NaN", "inf"] {
            assert!(parse(text).unwrap_err().contains("0% to 100%"), "{text}");
        }
    }
}

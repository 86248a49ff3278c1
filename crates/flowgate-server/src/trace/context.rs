//! The request of which a span is a part: `traceparent` (W3C Trace Context).

/// A span of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) is_sampled: bool,
}

impl Parent {
    /// Reads `00-TRACE-SPAN-FLAGS`. Later versions may have more at the end. `None`: it is not valid.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (version, rest) = field(text, 2)?;
        let (trace, rest) = field(rest, 32)?;
        let (span, rest) = field(rest, 16)?;
        let flags = match (version, rest) {
            (0xff, _) => return None,
            (0, flags) => hex(flags.get(..2).filter(|_| flags.len() == 2)?)?,
            (_, [high, low]) => hex(&[*high, *low])?,
            (_, [high, low, b'-', ..]) => hex(&[*high, *low])?,
            _ => return None,
        };
        let span = u64::try_from(span).ok()?;
        (trace != 0 && span != 0).then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Reads digits and the hyphen after them.
fn field(text: &[u8], digits: usize) -> Option<(u128, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    Some((hex(number)?, rest.strip_prefix(b"-")?))
}

/// Reads lowercase hexadecimal digits.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::Parent;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read() {
        let parent = |is_sampled| Parent {
            trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span: 0xb7ad_6b71_6920_3331,
            is_sampled,
        };
        let read = |text: &str| Parent::parse(text.as_bytes());
        assert_eq!(read(VALID), Some(parent(true)));
        let with = |flags: &str| format!("{}{flags}", &VALID[..VALID.len() - 2]);
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            assert_eq!(read(&with(flags)), Some(parent(is_sampled)), "{flags}");
        }
        // A version that is not known yet.
        let later = VALID.replacen("00", "cc", 1);
        assert_eq!(read(&later), Some(parent(true)));
        assert_eq!(read(&(later + "-more")), Some(parent(true)));
    }

    #[test]
    fn what_is_not_valid_is_no_parent() {
        let zeros = |length| "0".repeat(length);
        for text in [
            String::new(),
            VALID[..VALID.len() - 1].to_owned(),
            VALID.to_owned() + "-more",
            VALID.to_owned() + "1",
            VALID.to_uppercase(),
            VALID.replacen("00", "ff", 1),
            VALID.replacen("00", "0g", 1),
            VALID.replace('-', "_"),
            VALID.replacen("00", "cc", 1) + "more",
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &zeros(32)),
            VALID.replace("b7ad6b7169203331", &zeros(16)),
        ] {
            assert_eq!(Parent::parse(text.as_bytes()), None, "{text}");
        }
    }
}

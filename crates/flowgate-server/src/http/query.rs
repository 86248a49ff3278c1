//! The query of a URL: `limit=users&key=a%20b`.

use std::borrow::Cow;

/// Returns the names and decoded values. `None` for a value whose `%` is not followed by two hexadecimal digits.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (&str, Option<Cow<'_, [u8]>>)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name, decoded(value))
    })
}

fn decoded(value: &str) -> Option<Cow<'_, [u8]>> {
    if !value.contains(['%', '+']) {
        return Some(Cow::Borrowed(value.as_bytes()));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let [high, low, others @ ..] = rest else {
                    return None;
                };
                bytes.push(hex(*high)? << 4 | hex(*low)?);
                rest = others;
            }
            byte => bytes.push(*byte),
        }
    }
    Some(Cow::Owned(bytes))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::{decoded, pairs};

    #[test]
    fn values_are_decoded_and_broken_escapes_are_seen() {
        for (value, expected) in [
            ("", Some("")),
            ("a", Some("a")),
            ("a+b%20c", Some("a b c")),
            ("%41%2b%2B", Some("A++")),
            ("%", None),
            ("%4", None),
            ("%4g", None),
            ("a%zz", None),
        ] {
            assert_eq!(
                decoded(value).as_deref(),
                expected.map(str::as_bytes),
                "{value}"
            );
        }
        assert_eq!(decoded("%ff").as_deref(), Some(&[0xff][..]));
        let names: Vec<_> = pairs("a=1&&b&c=").map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}

//! The `Forwarded` field (RFC 7239 §4).

use std::borrow::Cow;

/// The address that each element of a line is `for`, from the left; none for an element without `for`. `None` if the line
/// is malformed.
///
/// A line is parsed completely, from the left. Parsing from the right would be ambiguous for `for="a, for=192.0.2.7`: a
/// client may send a quote that is never closed, and its proxy appends to that. The quotes of what proxies append match. So
/// in a line with an unclosed quote of a client, the quotes never match, and the line is rejected.
pub(super) fn entries(line: &[u8]) -> Option<Vec<Node<'_>>> {
    let mut entries = Vec::new();
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        // An empty element of a list (RFC 9110 §5.6.1).
        if let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
            continue;
        }
        let (node, after) = element(rest)?;
        entries.push(node);
        rest = match after.strip_prefix(b",") {
            Some(after) => after.trim_ascii_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(entries)
}

/// The address that an element is `for`, if it has one.
type Node<'a> = Option<Cow<'a, [u8]>>;
/// A parameter's name and value.
type Pair<'a> = (&'a [u8], Cow<'a, [u8]>);

/// One element, and what follows it.
fn element(mut rest: &[u8]) -> Option<(Node<'_>, &[u8])> {
    let mut node = None;
    loop {
        let ((name, value), after) = pair(rest)?;
        if name.eq_ignore_ascii_case(b"for") && node.replace(value).is_some() {
            return None;
        }
        let after = after.trim_ascii_start();
        rest = match after.strip_prefix(b";") {
            Some(after) => after.trim_ascii_start(),
            None => return Some((node, after)),
        };
    }
}

fn pair(text: &[u8]) -> Option<(Pair<'_>, &[u8])> {
    let (name, rest) = token(text)?;
    let rest = rest.strip_prefix(b"=")?;
    let (value, rest) = match rest.strip_prefix(b"\"") {
        Some(quoted) => quoted_string(quoted)?,
        None => lenient_value(rest)?,
    };
    Some(((name, value), rest))
}

fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !is_token(*byte));
    let (token, rest) = text.split_at(end.unwrap_or(text.len()));
    (!token.is_empty()).then_some((token, rest))
}

/// A token, or what is often written without the quotes that it needs: `192.0.2.7:80`, `[2001:db8::7]`.
fn lenient_value(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let is_value = |byte: u8| is_token(byte) || matches!(byte, b':' | b'[' | b']' | b'/');
    let end = text.iter().position(|byte| !is_value(*byte));
    let (value, rest) = text.split_at(end.unwrap_or(text.len()));
    (!value.is_empty()).then_some((Cow::Borrowed(value), rest))
}

/// The text up to the closing quote, and the rest.
fn quoted_string(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut unescaped: Option<Vec<u8>> = None;
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let literal = match byte {
            b'"' => {
                let value = unescaped.map_or(Cow::Borrowed(&text[..at]), Cow::Owned);
                return Some((value, &text[at + 1..]));
            }
            b'\\' => {
                unescaped.get_or_insert_with(|| text[..at].to_vec());
                bytes.next()?.1
            }
            byte => byte,
        };
        if let Some(unescaped) = &mut unescaped {
            unescaped.push(*literal);
        }
    }
    None
}

/// `tchar` of RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

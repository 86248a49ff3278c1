//! A request header, `Name: value`.

use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};

/// Reads the value of a header whose name is known.
pub(crate) fn value(text: &str) -> Result<HeaderValue, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("nothing is there: type a value".to_owned());
    }
    text.parse().map_err(|_| {
        "holds a character that a header's value cannot: use printable ones".to_owned()
    })
}

/// Reads a header as curl's `-H` takes it.
pub(crate) fn parse(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a colon is missing: type -H 'Name: value'")?;
    let name: HeaderName = name.trim().parse().map_err(|_| {
        format!(
            "{:?} cannot be a header's name: type -H 'Name: value'",
            name.trim()
        )
    })?;
    // A server would take what comes next for a body.
    if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
        return Err(
            "the length of the body is sent by itself: leave it out, and type -d TEXT or -D FILE"
                .to_owned(),
        );
    }
    let value = value
        .trim()
        .parse()
        .map_err(|_| "the value holds a character that a header cannot: use printable ones")?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let (name, value) = parse("X-Trace:  a:b ").unwrap();
        assert_eq!(
            (name.as_str(), value.as_bytes()),
            ("x-trace", b"a:b".as_slice())
        );
        assert!(parse("no colon").unwrap_err().contains("colon"));
        assert!(parse("a b: c").unwrap_err().contains("name"));
        assert!(parse(": c").unwrap_err().contains("name"));
        assert!(
            parse("a: \n").is_ok(),
            "surrounding white space is not part of the value"
        );
        assert!(parse("a: b\nc: d").unwrap_err().contains("character"));
    }

    #[test]
    fn where_a_body_ends_is_not_for_others_to_say() {
        for text in [
            "Content-Length: 5",
            "content-length:0",
            " CONTENT-LENGTH : 5",
            "Transfer-Encoding: chunked",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("leave it out"), "{text}: {error}");
        }
        assert!(parse("Content-Language: en").is_ok());
    }
}

//! A request header, `Name: value`.

use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};

/// Parses the value of a header.
pub(crate) fn value(text: &str) -> Result<HeaderValue, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty: write a value".to_owned());
    }
    text.parse().map_err(|_| {
        "contains a character that a header cannot hold: write printable characters".to_owned()
    })
}

/// Parses a header like `-H` of curl.
pub(crate) fn parse(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a colon is missing: write -H 'Name: value'")?;
    let name: HeaderName = name.trim().parse().map_err(|_| {
        format!(
            "{:?} is not a header name: write -H 'Name: value'",
            name.trim()
        )
    })?;
    // A wrong length would make the server misread the next request.
    if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
        return Err(
            "the length of the body is added automatically: remove it, and write -d TEXT or -D FILE"
                .to_owned(),
        );
    }
    let value = value.trim().parse().map_err(
        |_| "the value contains a character that a header cannot hold: write printable characters",
    )?;
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
            assert!(error.contains("remove it"), "{text}: {error}");
        }
        assert!(parse("Content-Language: en").is_ok());
    }
}

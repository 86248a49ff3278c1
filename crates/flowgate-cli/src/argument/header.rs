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

/// Parses a header of a request: `-H`.
pub(crate) fn of_request(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    parse(text, "-H", ", and write -d TEXT or -D FILE")
}

/// Parses a header of what is sent to a collector: `--otlp-header`.
pub(crate) fn of_collector(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    parse(text, "--otlp-header", "")
}

/// Parses a header like `-H` of curl. `option` is what was typed before it, and `instead` how else to state a body.
fn parse(text: &str, option: &str, instead: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("a colon is missing: write {option} 'Name: value'"))?;
    let name: HeaderName = name.trim().parse().map_err(|_| {
        format!(
            "{:?} is not a header name: write {option} 'Name: value'",
            name.trim()
        )
    })?;
    // A wrong length would make the server misread the next request.
    if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
        return Err(format!(
            "the length of the body is added automatically: remove it{instead}"
        ));
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
        let (name, value) = of_request("X-Trace:  a:b ").unwrap();
        assert_eq!(
            (name.as_str(), value.as_bytes()),
            ("x-trace", b"a:b".as_slice())
        );
        assert!(of_request("no colon").unwrap_err().contains("colon"));
        assert!(of_request("a b: c").unwrap_err().contains("name"));
        assert!(of_request(": c").unwrap_err().contains("name"));
        assert!(
            of_request("a: \n").is_ok(),
            "surrounding white space is not part of the value"
        );
        assert!(of_request("a: b\nc: d").unwrap_err().contains("character"));
    }

    #[test]
    fn an_error_names_the_option_that_was_typed() {
        for text in ["no colon", "a b: c"] {
            let of_request = of_request(text).unwrap_err();
            assert!(
                of_request.ends_with(": write -H 'Name: value'"),
                "{of_request}"
            );
            let of_collector = of_collector(text).unwrap_err();
            assert!(
                of_collector.ends_with(": write --otlp-header 'Name: value'"),
                "{of_collector}"
            );
        }
        // A collector's body is not the caller's.
        assert!(
            !of_collector("Content-Length: 5")
                .unwrap_err()
                .contains("-d TEXT")
        );
    }

    #[test]
    fn where_a_body_ends_is_not_for_others_to_say() {
        for text in [
            "Content-Length: 5",
            "content-length:0",
            " CONTENT-LENGTH : 5",
            "Transfer-Encoding: chunked",
        ] {
            let error = of_request(text).unwrap_err();
            assert!(error.contains("remove it"), "{text}: {error}");
        }
        assert!(of_request("Content-Language: en").is_ok());
    }
}

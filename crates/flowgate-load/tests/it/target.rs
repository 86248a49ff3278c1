//! URLs, good and bad.

use flowgate_load::Target;

#[test]
fn a_url_is_read_and_written_back() {
    for (text, written) in [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("http://localhost", "http://localhost/"),
        ("http://h/a?b=c#gone", "http://h/a?b=c"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("HTTP://h/", "http://h/"),
        ("https://h:8443/a", "https://h:8443/a"),
        ("HTTPS://[2001:db8::1]?b", "https://[2001:db8::1]/?b"),
    ] {
        assert_eq!(Target::parse(text).unwrap().to_string(), written, "{text}");
    }
}

#[test]
fn the_scheme_says_whether_connections_are_encrypted() {
    assert!(Target::parse("https://h/").unwrap().is_tls());
    assert!(!Target::parse("http://h:443/").unwrap().is_tls());
}

#[test]
fn what_is_no_http_url_says_what_to_type() {
    for (text, expected) in [
        ("", "write one such as http://127.0.0.1:8080/path"),
        ("/path", "write one such as http://127.0.0.1:8080/path"),
        ("localhost", "write http://localhost"),
        ("localhost:8080", "write http://localhost:8080"),
        ("localhost:8080/a", "write http://localhost:8080/a"),
        ("http://", "write one such as"),
        ("http:///a", "write one such as"),
        ("http://a b/", "write one such as"),
        ("http://[::1/", "write one such as"),
        ("http://h:0/", "write one from 1 to 65535"),
        ("http://h:65536/", "write one from 1 to 65535"),
        ("http://h:/", "write one from 1 to 65535"),
        ("http://user:secret@h/", "Authorization"),
        ("https://user@h/", "Authorization"),
        ("https://", "write one such as"),
        ("ftp://h/", "begins with http:// or https://"),
    ] {
        let error = Target::parse(text).expect_err(text);
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
}

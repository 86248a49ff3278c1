//! `flowgate fleet` with a decision server.

use std::fs;
use std::io::Write;

use rcgen::generate_simple_self_signed;
use serde_json::Value;

use crate::decide::{Limits, Server, exchange};
use crate::pages;
use crate::support::{answer_with, finished, flowgate, run, server};

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/day, name: users, capacity: 100 }
  - { key: new, quota: 1/day, shadow_mode: true, capacity: 100 }
  - { key: search, quota: 10/s burst 20, rlqs: true }
";

/// A server, whose user `alice` has taken 3 of 3, and was refused once.
struct Asked {
    server: Server,
    url: String,
    _file: Limits,
}

impl Asked {
    fn new(name: &str) -> Asked {
        let file = Limits::new(name, LIMITS);
        let server = Server::with(&file.0, &[]);
        let ask = "FG.ASK users alice\r\n".repeat(4) + "QUIT\r\n";
        exchange(&server.resp, &ask);
        Asked {
            url: format!("http://{}", server.admin),
            server,
            _file: file,
        }
    }
}

#[test]
fn a_limit_of_a_server_is_shown_and_set_back() {
    let asked = Asked::new("operators-shown");
    let url = &*asked.url;
    let inspect = ["fleet", "inspect", url, "users", "--key", "alice"];
    let (exit, out, err) = run(&inspect);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    let expected = "\
limit       api.user, called users
quota       3/day
kept        in memory, 1 of 100 keys are not full
decisions   3 admitted, 1 refused
beyond      0
available   0 of 3
full        in 86";
    assert!(out.starts_with(expected), "{out}");

    let reset = ["fleet", "reset", url, "users", "--key", "alice"];
    let (exit, out, err) = run(&reset);
    let expected = "users, key alice is full again\n";
    assert_eq!((exit, out.as_str(), err.as_str()), (0, expected, ""));
    let (_, out, _) = run(&inspect);
    let expected = "\
kept        in memory, 0 of 100 keys are not full
decisions   3 admitted, 1 refused
beyond      3 at most: 3 by resets
available   3 of 3
full        now
";
    assert!(out.ends_with(expected), "{out}");
    let (_, out, _) = run(&reset);
    let expected = "users, key alice is full again (it was full, or no request has used it)\n";
    assert_eq!(out, expected);
}

#[test]
fn limits_of_other_kinds_are_shown() {
    let asked = Asked::new("operators-kinds");
    let url = &*asked.url;
    exchange(&asked.server.resp, "FG.ASK api.new a 2\r\nQUIT\r\n");
    let (_, out, _) = run(&["fleet", "inspect", url, "api.new"]);
    let expected = "\
limit       api.new
quota       1/day, never refuses (shadow)
kept        in memory, 0 of 100 keys are not full
decisions   0 admitted, 0 refused, 1 refused in shadow
beyond      0
";
    assert_eq!(out, expected);
    let (_, out, _) = run(&["fleet", "inspect", url, "api.search", "--key", "a"]);
    let expected = "\
limit       api.search
quota       10/s burst 20
kept        by Envoys (RLQS)
decisions   0 admitted, 0 refused
beyond      0
assigned    0 tokens and 0/s, to 0 buckets, of 0 keys
";
    assert_eq!(out, expected);
    let (exit, _, err) = run(&["fleet", "reset", url, "api.search", "--key", "a"]);
    let expected =
        format!("flowgate: {url}: Envoys hold parts of this limit, which cannot be set back\n");
    assert_eq!((exit, err), (1, expected));
}

#[test]
fn each_field_of_a_limit_of_a_server_is_on_the_page() {
    let asked = Asked::new("operators-json");
    let url = &*asked.url;
    let page = pages::page("fleet.md");
    for limit in [&["users", "--key", "alice"][..], &["api.search"]] {
        let inspect = [&["fleet", "inspect", url], limit, &["--json"]].concat();
        let (exit, out, err) = run(&inspect);
        assert_eq!(exit, 0, "{err}");
        assert_eq!(pages::undocumented(&out, &page), Vec::<String>::new());
        assert!(!out.contains("alice"), "{out}");
    }
    let watch = ["fleet", "watch", url, "users", "--key", "alice", "--for"];
    let (exit, out, err) = run(&[&watch[..], &["1200ms", "--json"]].concat());
    assert_eq!((exit, err.as_str()), (0, ""));
    for line in out.lines() {
        let seen: Value = serde_json::from_str(line).unwrap();
        assert_eq!(seen["decisions"]["admitted"], 3);
    }
    let (_, out, _) = run(&[&watch[..], &["1200ms"]].concat());
    let expected = " api.user: admitted 3, refused 1, available 0";
    assert!(
        !out.is_empty() && out.lines().all(|line| line.ends_with(expected)),
        "{out}"
    );
}

/// Runs `inspect`, which ends with one line on standard error.
fn refused(url: &str, more: &[&str]) -> (i32, String) {
    let (exit, out, err) = run(&[&["fleet", "inspect", url], more].concat());
    assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{err}");
    (exit, err)
}

#[test]
fn what_is_wrong_with_a_server_is_one_line() {
    let asked = Asked::new("operators-wrong");
    let url = &*asked.url;
    let page = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let other = server(|stream, _| {
        answer_with(stream, page);
        true
    });
    let missing = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
    let another = server(|stream, _| {
        answer_with(stream, missing);
        true
    });
    let no_http = server(|mut stream, _| stream.write_all(b"220 mail\r\n").is_ok());
    let silent = server(|_, _| true);
    let http = format!("http://{}", asked.server.http);
    let resp = format!("http://{}", asked.server.resp);
    let key = ["users", "--key", "alice"];
    for (url, more, expected) in [
        (url, &["none"][..], "no limit has this name"),
        (
            "http://127.0.0.1:1",
            &key,
            "http://127.0.0.1:1 cannot be reached: ",
        ),
        (
            &http,
            &key,
            "this path is at the door of operators: write the address of --admin",
        ),
        (&resp, &key, "is not the --admin of flowgate decide: "),
        (
            &other,
            &key,
            "is not the --admin of flowgate decide: its answer is not a limit; write",
        ),
        (
            &another,
            &key,
            "is not the --admin of flowgate decide: it answers 404; write",
        ),
        (&no_http, &key, "is not the --admin of flowgate decide: "),
        (&silent, &key, "is not the --admin of flowgate decide: "),
    ] {
        let (exit, err) = refused(url, more);
        assert_eq!(exit, 1, "{err}");
        assert!(
            err.contains(expected) && !err.contains("alice"),
            "{url}: {err}"
        );
    }
    for (url, more, expected) in [
        (
            "http://h/limits",
            &["users"][..],
            "`http://h/limits` is not the address of a server: write http://HOST:PORT",
        ),
        ("http://h:0", &["users"], "write http://HOST:PORT"),
        ("http://h:99999", &["users"], "write http://HOST:PORT"),
        (
            "http://sesame@h",
            &["users"],
            "`http://…@h` is not the address of a server",
        ),
        (
            url,
            &["users", "--quota", "3/day"],
            "a decision server knows the quota of its limits",
        ),
    ] {
        let (exit, err) = refused(url, more);
        assert_eq!(exit, 2, "{err}");
        assert!(err.contains(expected) && !err.contains("sesame"), "{err}");
    }
    let (exit, _, err) = run(&["fleet", "reset", url, "users"]);
    assert_eq!(
        (exit, err),
        (
            1,
            format!(
                "flowgate: {url}: this limit has keys: write one, as &key=KEY in a URL or --key KEY of the command\n"
            )
        )
    );
}

#[test]
fn a_server_with_tls_and_a_secret_is_asked_with_both() {
    let own = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let limits = Limits::new("operators-tls", LIMITS);
    let files = [
        ("cert", own.cert.pem()),
        ("key", own.signing_key.serialize_pem()),
        ("secret", "se/same\n".to_owned()),
        ("none", String::new()),
    ];
    let files = files.map(|(name, text)| Limits::new(&format!("operators-tls-{name}"), &text));
    let [cert, key, secret, none] = files.each_ref().map(|file| file.0.to_str().unwrap());
    let options = ["--cert", cert, "--key", key, "--secret-file", secret];
    let server = Server::with(&limits.0, &options);
    let inspect = |url: &str, authorities: &str| {
        let mut command = flowgate(&["fleet", "inspect", url, "users", "--key", "a"]);
        finished(command.env("SSL_CERT_FILE", authorities).output().unwrap())
    };
    let url = format!("https://:se%2Fsame@{}", server.admin);
    let (exit, out, err) = inspect(&url, cert);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(out.contains("\navailable   3 of 3\n"), "{out}");

    let without = format!("https://{}", server.admin);
    for (url, authorities, expected) in [
        (
            &without,
            cert,
            "asks for the token of its --secret-file: write http://:TOKEN@HOST:PORT",
        ),
        (&url, none, "cannot be reached: "),
        (
            &url.replace("https", "http"),
            cert,
            "is not the --admin of flowgate decide: ",
        ),
        (
            &url.replace("same", "saim"),
            cert,
            "asks for the token of its --secret-file",
        ),
    ] {
        let (exit, out, err) = inspect(url, authorities);
        assert_eq!(
            (exit, out.as_str(), err.lines().count()),
            (1, "", 1),
            "{err}"
        );
        assert!(err.contains(expected) && !err.contains("same"), "{err}");
    }
    assert_eq!(fs::read_to_string(secret).unwrap(), "se/same\n");
}

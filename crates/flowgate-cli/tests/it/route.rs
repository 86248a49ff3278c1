//! Ways to a server: redirects, cookies, proxies, other addresses.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::nginx::Nginx;
use crate::support::tinyproxy::Tinyproxy;
use crate::support::{number, run, server};

/// A server that hands over each head, and answers as `answer` has it for its first line.
fn site(
    answer: impl Fn(&str) -> String + Send + Sync + Clone + 'static,
) -> (String, Receiver<String>) {
    let (arrived, arrival) = channel();
    let url = server(move |stream, _| {
        let (arrived, answer) = (arrived.clone(), answer.clone());
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            while let Some(head) = head(&mut stream) {
                let answer = answer(head.lines().next().unwrap_or_default());
                let _ = arrived.send(head);
                if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
        true
    });
    (url, arrival)
}

fn head(stream: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

fn ok(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok")
}

fn to(location: &str, fields: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\n{fields}content-length: 0\r\n\r\n")
}

const ONCE: [&str; 4] = ["-n", "1", "-c", "1"];

fn load(url: &str, more: &[&str]) -> (i32, String, String) {
    run(&[&["load", url], &ONCE[..], more].concat())
}

fn lines(arrival: &Receiver<String>) -> Vec<String> {
    let first = |head: String| head.lines().next().unwrap_or_default().to_owned();
    arrival.try_iter().map(first).collect()
}

#[test]
fn redirects_are_followed_as_often_as_allowed() {
    let (url, arrival) = site(|line| match line.split(' ').nth(1).unwrap_or_default() {
        "/" => to("/one", "connection: close\r\n"),
        "/one" => to("two?a=b", ""),
        "/away" => to("http://192.0.2.1/", ""),
        _ => ok(""),
    });
    for (path, follow, status, expected) in [
        ("", "0", "3xx", &["GET / HTTP/1.1"][..]),
        ("", "1", "3xx", &["GET / HTTP/1.1", "GET /one HTTP/1.1"]),
        (
            "",
            "5",
            "2xx",
            &[
                "GET / HTTP/1.1",
                "GET /one HTTP/1.1",
                "GET /two?a=b HTTP/1.1",
            ],
        ),
        // Not to another server.
        ("away", "5", "3xx", &["GET /away HTTP/1.1"]),
    ] {
        let (exit, out, err) = load(&format!("{url}{path}"), &["--follow", follow]);
        assert_eq!((exit, err.as_str()), (0, ""), "{out}");
        assert_eq!(number(&out, "status", status), 1, "{out}");
        assert_eq!(lines(&arrival), expected, "{path} {follow}");
    }
    // A post becomes a get, without its body.
    let (_, out, _) = load(&url, &["--follow", "9", "-m", "POST", "-d", ""]);
    assert_eq!(number(&out, "status", "2xx"), 1, "{out}");
    let expected = [
        "POST / HTTP/1.1",
        "GET /one HTTP/1.1",
        "GET /two?a=b HTTP/1.1",
    ];
    assert_eq!(lines(&arrival), expected);
}

/// What gzip makes of `ok`, and something else that says it is gzip.
const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\xcf\x06\0\x47\xdd\xdc\x79\x02\0\0\0";

#[test]
fn compressed_bodies_are_counted_and_decoded_if_asked() {
    let (seen, asked) = channel();
    let url = server(move |stream, _| {
        let seen = seen.clone();
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            while let Some(head) = head(&mut stream) {
                let body = match head.starts_with("GET /broken ") {
                    true => &[GZIP, b"x"].concat()[..],
                    false => GZIP,
                };
                let coded = head.contains("\r\naccept-encoding: gzip, br, zstd\r\n");
                let _ = seen.send(coded);
                let (field, body) = match coded {
                    true => ("content-encoding: gzip\r\n", body),
                    false => ("", &b"ok"[..]),
                };
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\n{field}content-length: {length}\r\n\r\n");
                let _ = stream
                    .get_mut()
                    .write_all(&[head.as_bytes(), body].concat());
            }
        });
        true
    });
    let three = ["load", "-n", "3", "-c", "1"];
    let (exit, out, err) = run(&[&three[..], &[&url]].concat());
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(!out.contains("\nbodies "), "{out}");
    let (exit, out, err) = run(&[
        &three[..],
        &[&url, "--compressed", "--warm-up", "100ms", "-q", "50"],
    ]
    .concat());
    assert!((exit == 0 || exit == 4) && err.is_empty(), "{err}");
    let expected = "bodies     66 B gzip   0 B not compressed\n           3 decoded, 66 B to 6 B\n";
    assert!(out.contains(expected), "{out}");
    let broken = format!("{url}broken");
    let (exit, out, err) = run(&[&three[..], &[&broken, "--compressed"]].concat());
    assert_eq!((exit, err.as_str()), (0, ""));
    let expected = "           0 decoded, 0 B to 0 B   3 could not be decoded\n";
    assert!(out.contains(expected), "{out}");
    // A header of the user is kept.
    let own = ["-H", "Accept-Encoding: br", "--compressed", &url];
    let (exit, out, _) = run(&[&three[..], &own].concat());
    assert_eq!(exit, 0, "{out}");
    assert!(out.contains("bodies     6 B not compressed\n"), "{out}");
    let asked: Vec<bool> = asked.try_iter().collect();
    assert_eq!(asked[..3], [false; 3]);
    assert_eq!(asked[asked.len() - 3..], [false; 3]);
}

#[test]
fn cookies_are_kept_for_each_connection() {
    let (url, arrival) =
        site(|_| ok("set-cookie: id=7; Path=/\r\nset-cookie: b=1; Path=/other\r\n"));
    let cookies = |arrival: &Receiver<String>| -> Vec<bool> {
        arrival
            .try_iter()
            .map(|head| head.contains("\r\ncookie: id=7\r\n"))
            .collect()
    };
    let three = ["load", &url, "-n", "3", "-c", "1"];
    let (exit, _, err) = run(&[&three[..], &["--cookies"]].concat());
    assert_eq!((exit, err.as_str()), (0, ""));
    assert_eq!(cookies(&arrival), [false, true, true]);
    run(&three);
    assert_eq!(cookies(&arrival), [false; 3], "only if asked for");
}

/// A proxy that forwards requests with a full URL, and opens tunnels. It hands over the first line of each.
fn proxy(is_strict: bool) -> (String, Receiver<String>) {
    let (arrived, arrival) = channel();
    let url = server(move |stream, _| {
        let arrived = arrived.clone();
        thread::spawn(move || {
            let mut client = BufReader::new(stream);
            while let Some(head) = head(&mut client) {
                let line = head.lines().next().unwrap_or_default().to_owned();
                let place = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let _ = arrived.send(line.clone());
                if is_strict {
                    let _ = client
                        .get_mut()
                        .write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n");
                    return;
                }
                if line.starts_with("CONNECT ") {
                    let mut upstream = TcpStream::connect(&place).expect("a server");
                    let answer = b"HTTP/1.1 200 Connection established\r\nvia: 1.1 test\r\n\r\n";
                    client.get_mut().write_all(answer).expect("open");
                    let (mut from, mut back) = (
                        upstream.try_clone().unwrap(),
                        client.get_ref().try_clone().unwrap(),
                    );
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut back);
                        let _ = back.shutdown(Shutdown::Both);
                    });
                    let _ = std::io::copy(&mut client, &mut upstream);
                    let _ = upstream.shutdown(Shutdown::Both);
                    return;
                }
                let host = place
                    .trim_start_matches("http://")
                    .split('/')
                    .next()
                    .unwrap_or_default();
                let mut upstream = TcpStream::connect(host).expect("a server");
                let path = place.replacen(&format!("http://{host}"), "", 1);
                let forwarded = head.replacen(&place, &path, 1);
                let forwarded = forwarded.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
                upstream.write_all(forwarded.as_bytes()).expect("open");
                let mut answer = vec![0; ok("").len()];
                upstream.read_exact(&mut answer).expect("an answer");
                if client.get_mut().write_all(&answer).is_err() {
                    return;
                }
            }
        });
        true
    });
    (url, arrival)
}

#[test]
fn a_proxy_forwards_http_and_tunnels_https() {
    let (url, at_server) = site(|_| ok(""));
    let (proxy, at_proxy) = proxy(false);
    let (exit, out, err) = run(&["load", &url, "-n", "3", "-c", "1", "--proxy", &proxy]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 3, "{out}");
    assert_eq!(lines(&at_proxy), vec![format!("GET {url} HTTP/1.1"); 3]);
    assert_eq!(lines(&at_server), ["GET / HTTP/1.1"; 3]);

    let (port, _) = crate::tls::tls_server();
    let secure = format!("https://localhost:{port}/");
    let (exit, out, err) = run(&[
        "load", &secure, "-k", "-n", "3", "-c", "1", "--proxy", &proxy,
    ]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 3, "{out}");
    assert_eq!(
        lines(&at_proxy),
        [format!("CONNECT localhost:{port} HTTP/1.1")],
        "one connection"
    );
}

#[test]
fn a_proxy_that_refuses_is_told_from_a_server() {
    let (proxy, _) = proxy(true);
    let (exit, _, err) = load("https://localhost:1/", &["-k", "--proxy", &proxy]);
    let address = proxy.trim_start_matches("http://").trim_end_matches('/');
    let expected = format!("flowgate: cannot connect to {address}: refused by the proxy\n");
    assert_eq!((exit, err), (1, expected));
}

#[test]
fn a_name_has_the_address_that_is_given() {
    let (url, arrival) = site(|_| ok(""));
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap();
    let named = format!("http://shop.invalid:{port}/");
    let (exit, out, err) = load(
        &named,
        &["--resolve", &format!("shop.invalid:{port}:127.0.0.1")],
    );
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    let head = arrival.try_recv().unwrap();
    assert!(
        head.contains(&format!("\r\nhost: shop.invalid:{port}\r\n")),
        "{head}"
    );
    let (exit, _, err) = load(&named, &["--resolve", "shop.invalid:1:127.0.0.1"]);
    assert!(
        exit == 1 && err.contains("cannot find the host"),
        "another port: {err}"
    );
}

#[test]
fn ways_that_exclude_each_other_are_refused() {
    let url = "http://127.0.0.1:1/";
    for (arguments, expected) in [
        (
            &["--follow", "2", "--http2"][..],
            "--follow and --cookies need HTTP/1.1",
        ),
        (
            &["--follow", "2", "--at-most", "5/s"],
            "--follow would exceed the limit: remove it, or hold a rate with -q",
        ),
        (
            &["--cookies", "--http2"],
            "--follow and --cookies need HTTP/1.1",
        ),
        (&["--follow", "101"], "--follow"),
        (
            &["--proxy", "http://h:1", "--connect-to", "h:1"],
            "cannot be used with",
        ),
        (&["--proxy", "socks5://h:1"], "write http://127.0.0.1:3128"),
        (
            &["--proxy", "http://h:1", "--http2"],
            "--proxy forwards http:// only over HTTP/1.1: remove --http2",
        ),
        (
            &["--cert", "no.pem"],
            "--cert has no effect without https://: remove it",
        ),
        (
            &["--cacert", "no.pem", "--cert", "no.pem"],
            "--cacert has no effect without https://: remove it",
        ),
        (&["--resolve", "h:1"], "write example.org:443:127.0.0.1"),
        (&["--key", "k.pem"], "--cert"),
    ] {
        let (exit, out, err) = load(url, arguments);
        assert_eq!((exit, out.as_str()), (2, ""), "{err}");
        assert!(
            err.contains(expected) && err.lines().count() == 1,
            "{arguments:?}: {err}"
        );
    }
}

#[test]
fn a_search_goes_over_a_socket_and_to_another_address() {
    let path = std::env::temp_dir().join(format!("flowgate-find-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while head(&mut stream).is_some() {
                    if stream.get_mut().write_all(ok("").as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let (url, _arrival) = site(|_| ok(""));
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let search = [
        "find",
        "http://shop.invalid/",
        "--slo",
        "errors<5%",
        "--within",
        "3s",
    ];
    let short = ["--max-requests", "300", "--from", "50"];
    for way in [
        ["--unix-socket", path.to_str().unwrap()],
        ["--connect-to", address],
    ] {
        let (exit, _, err) = run(&[&search[..], &short, &way].concat());
        assert!(exit == 0 || exit == 4, "{err}");
        assert!(
            err.contains("100/s") || err.contains("50/s"),
            "a step was judged: {err}"
        );
    }
    std::fs::remove_file(&path).unwrap();
    let stdin = ["--urls", "-", "-D", "-"];
    let (exit, _, err) = run(&[&["find", "--slo", "errors<5%"], &stdin[..]].concat());
    assert_eq!(exit, 2);
    assert!(
        err.contains("only one input can be standard input"),
        "{err}"
    );
}

#[test]
#[ignore = "needs nginx: ./ci/test"]
fn redirects_of_nginx_are_followed() {
    let mut nginx = Nginx::start(
        "keepalive_requests 7;",
        "rewrite ^/old$ /new permanent; rewrite ^/new$ /ok redirect;",
    );
    let url = format!("http://127.0.0.1:{}/old", nginx.port());
    let (exit, out, err) = run(&["load", &url, "-n", "20", "-c", "2", "--follow", "3"]);
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 20, "{out}");
    let log = nginx.stop();
    for begin in ["301 GET /old ", "302 GET /new ", "200 GET /ok "] {
        assert_eq!(
            log.lines().filter(|line| line.starts_with(begin)).count(),
            20,
            "{log}"
        );
    }
}

#[test]
#[ignore = "needs nginx: ./ci/test"]
fn bodies_that_nginx_compresses_are_decoded() {
    let text = "0123456789".repeat(100);
    let nginx = Nginx::start(
        "gzip on; gzip_types text/plain; gzip_min_length 1; default_type text/plain;",
        &format!("return 200 '{text}';"),
    );
    let url = format!("http://127.0.0.1:{}/", nginx.port());
    let twenty = ["load", &url, "-n", "20", "-c", "2"];
    let (exit, out, err) = run(&[&twenty[..], &["--compressed"]].concat());
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert!(out.contains(" gzip   0 B not compressed\n"), "{out}");
    assert!(out.contains("           20 decoded, "), "{out}");
    assert!(out.contains(" to 20 kB\n"), "{out}");
    let (_, out, _) = run(&twenty);
    assert!(!out.contains("\nbodies "), "{out}");
}

#[test]
#[ignore = "needs tinyproxy and nginx: ./ci/test"]
fn tinyproxy_forwards_http_and_tunnels_https() {
    let proxy = Tinyproxy::start("");
    let to = format!("http://127.0.0.1:{}", proxy.port());
    let mut nginx = Nginx::start("", "return 200 'ok';");
    let url = format!("http://127.0.0.1:{}/a?b=c", nginx.port());
    let twenty = ["-n", "20", "-c", "2", "--proxy", &to];
    // It closes each connection after a response, and does not say so.
    let (exit, out, err) = run(&[&["load", &url, "--disable-keepalive"], &twenty[..]].concat());
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 20, "{out}");
    // nginx gets a path, as from a client.
    let log = nginx.stop();
    assert_eq!(log.matches("200 GET /a?b=c HTTP/1.").count(), 20, "{log}");

    let (port, _) = crate::tls::tls_server();
    let secure = format!("https://localhost:{port}/");
    let (exit, out, err) = run(&[&["load", &secure, "-k"], &twenty[..]].concat());
    assert_eq!((exit, err.as_str()), (0, ""), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 20, "{out}");
    let log = proxy.log();
    let tunnels = log.matches(&format!("CONNECT localhost:{port} ")).count();
    assert_eq!(tunnels, 2, "one for each connection: {log}");
}

#[test]
#[ignore = "needs tinyproxy and nginx: ./ci/test"]
fn tinyproxy_gets_its_password_or_refuses() {
    let proxy = Tinyproxy::start("BasicAuth me se-same\nConnectPort 443");
    let nginx = Nginx::start("", "return 200 'ok';");
    let url = format!("http://127.0.0.1:{}/", nginx.port());
    let [bare, wrong, right] = ["", "me:wrong@", "me:se%2Dsame@"]
        .map(|user| format!("http://{user}127.0.0.1:{}", proxy.port()));
    for (proxy, expected) in [(&bare, 0), (&wrong, 0), (&right, 20)] {
        let twenty = ["load", &url, "-n", "20", "-c", "2", "--disable-keepalive"];
        let arguments = [&twenty[..], &["--proxy", proxy]].concat();
        let (exit, out, err) = run(&arguments);
        assert_eq!(number(&out, "status", "2xx"), expected, "{out}{err}");
        assert_eq!(number(&out, "status", "4xx"), 20 - expected, "{out}{err}");
        assert_eq!((exit, err.as_str()), (if expected > 0 { 0 } else { 5 }, ""));
    }
    let secure = format!("https://127.0.0.1:{}/", nginx.port());
    let address = format!("127.0.0.1:{}", proxy.port());
    for (proxy, expected) in [
        (
            &bare,
            "password refused by the proxy; write --proxy http://USER:PASSWORD@HOST:PORT",
        ),
        // It knows no port but 443.
        (&right, "refused by the proxy"),
    ] {
        let (exit, out, err) = load(&secure, &["-k", "--proxy", proxy]);
        let expected = format!("flowgate: cannot connect to {address}: {expected}\n");
        assert_eq!((exit, out.as_str(), err), (1, "", expected));
    }
}

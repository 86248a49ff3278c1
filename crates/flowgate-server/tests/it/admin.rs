//! The door of operators: metrics, probes, the configuration.

use crate::support::{Running, answer, connect};
use flowgate_server::{Config, ServerBounds};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/day, name: users, capacity: 100 }
  - { key: site, quota: 1/day, capacity: 100 }
  - { key: new, quota: 1/day, shadow_mode: true, capacity: 100 }
";

/// Returns the value of a line of the page.
#[track_caller]
fn value(page: &str, line: &str) -> f64 {
    let find = |text: &str| {
        let rest = text.strip_prefix(line)?.strip_prefix(' ')?;
        rest.parse().ok()
    };
    page.lines()
        .find_map(find)
        .unwrap_or_else(|| panic!("no {line} in\n{page}"))
}

fn decided(page: &str, rule: &str, result: &str) -> f64 {
    let line = format!("flowgate_decisions_total{{rule=\"{rule}\",result=\"{result}\"}}");
    value(page, &line)
}

#[test]
fn decisions_are_counted_by_limit_and_result() {
    let server = Running::new(LIMITS, |server| server);
    let alice = b"FG.ASK users alice\r\n";
    server.resp(&alice.repeat(5));
    server.resp(b"FG.ASK users bob 0\r\nFG.ASK api.new a\r\nFG.ASK api.new a\r\n");
    server.resp(b"CL.THROTTLE k 0 1 60\r\nCL.THROTTLE k 0 1 60\r\nCL.THROTTLE k 0 1 60 0\r\n");
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"alice"}]},{"entries":[{"key":"site","value":"s"}]},{"entries":[{"key":"none"}]}]}"#;
    let length = body.len();
    let refused = server.http(&format!(
        "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");

    let page = server.admin("/metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(page.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert_eq!(decided(&page, "api.user", "ok"), 3.0);
    assert_eq!(decided(&page, "api.user", "over_limit"), 3.0);
    assert_eq!(decided(&page, "api.user", "over_limit_in_shadow"), 0.0);
    assert_eq!(decided(&page, "api.new", "ok"), 1.0);
    assert_eq!(decided(&page, "api.new", "over_limit_in_shadow"), 1.0);
    // Its tokens were not taken, because the user's limit refused.
    assert_eq!(decided(&page, "api.site", "not_taken"), 1.0);
    assert_eq!(decided(&page, "api.site", "ok"), 0.0);
    let throttled = |result| format!("flowgate_throttle_decisions_total{{result=\"{result}\"}}");
    assert_eq!(value(&page, &throttled("ok")), 1.0);
    assert_eq!(value(&page, &throttled("over_limit")), 1.0);
    assert_eq!(value(&page, "flowgate_unmatched_descriptors_total"), 1.0);
    assert_eq!(value(&page, "flowgate_keys{rule=\"api.user\"}"), 1.0);
    assert_eq!(value(&page, "flowgate_keys{rule=\"api.site\"}"), 0.0);
    assert_eq!(value(&page, "flowgate_limits"), 3.0);
    assert!(value(&page, "flowgate_key_memory_bytes") > 0.0);
    // 8 of FG.ASK, 3 of CL.THROTTLE, 1 of HTTP.
    assert_eq!(value(&page, "flowgate_decision_seconds_count"), 12.0);
    let all = "flowgate_decision_seconds_bucket{le=\"+Inf\"}";
    assert_eq!(value(&page, all), 12.0);
    assert_eq!(value(&page, "flowgate_connections{door=\"admin\"}"), 1.0);
    assert_eq!(
        value(&page, "flowgate_connections_total{door=\"resp\"}"),
        3.0
    );
    assert_eq!(
        value(&page, "flowgate_connections_total{door=\"http\"}"),
        1.0
    );
}

/// Each line is a comment, or a sample of the family above it, and none is there twice.
#[test]
fn the_page_is_in_the_format_of_prometheus() {
    let server = Running::new(LIMITS, |server| server);
    let page = server.admin("/metrics");
    let (_, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(body.ends_with('\n'));
    let (mut seen, mut families) = (BTreeSet::new(), BTreeSet::new());
    let (mut family, mut kind) = ("", "");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            (family, _) = rest.split_once(' ').unwrap();
            assert!(families.insert(family), "{family} is there twice");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            kind = of;
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(seen.insert(sample), "{sample} is there twice");
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(family).unwrap();
        match kind {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix)),
            "counter" => assert!(suffix.is_empty() && name.ends_with("_total")),
            "gauge" => assert!(suffix.is_empty()),
            _ => panic!("{line}"),
        }
    }
    assert!(seen.len() > 30);
}

/// A key is what a request has, and an operator's page is kept for years.
#[test]
fn keys_of_requests_are_on_no_page() {
    let server = Running::new(LIMITS, |server| server);
    server.resp(b"FG.ASK users very-private\r\nCL.THROTTLE very-private 0 1 60\r\n");
    for path in ["/metrics", "/config"] {
        let page = server.admin(path);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(!page.contains("private"), "{page}");
    }
}

#[test]
fn the_configuration_can_be_read_back() {
    let server = Running::new(LIMITS, |server| server.secret("s3cret"));
    let request = "GET /config HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer s3cret\r\n\r\n";
    let page = answer(server.admin, request);
    assert!(!page.contains("s3cret"), "{page}");
    let (_, yaml) = page.split_once("\r\n\r\n").unwrap();
    let expected = Config::parse("a.yaml", LIMITS).unwrap().to_yaml();
    assert_eq!(yaml, expected);
    assert_eq!(Config::parse("b.yaml", yaml).unwrap().to_yaml(), expected);
}

#[test]
fn pages_of_operators_are_behind_their_door_and_the_secret() {
    let server = Running::new(LIMITS, |server| server.secret("s3cret"));
    for path in ["/metrics", "/config"] {
        let refused = server.admin(path);
        assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
        let get = format!(
            "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer s3cret\r\n\r\n"
        );
        assert!(answer(server.admin, &get).starts_with("HTTP/1.1 200 "));
        assert!(server.http(&get).starts_with("HTTP/1.1 404 "));
        let post = get.replace("GET", "POST");
        assert!(answer(server.admin, &post).starts_with("HTTP/1.1 405 "));
    }
    for path in ["/healthz", "/readyz"] {
        assert!(server.admin(path).starts_with("HTTP/1.1 200 "), "{path}");
    }
    // Nothing is decided at this door.
    assert!(
        server
            .admin("/auth?limit=users&key=a")
            .starts_with("HTTP/1.1 404 ")
    );
}

#[test]
fn loads_are_counted_and_counts_survive_them() {
    let server = Running::new(LIMITS, |server| server);
    server.resp(b"FG.ASK users a\r\n");
    let text = LIMITS.replace("3/day", "9/day") + "  - { key: more, quota: 1/s }\n";
    let config = Config::parse("b.yaml", &text).unwrap();
    server.reloader.reload(&config).unwrap();
    server.reloader.read(["/no/such/file.yaml"]).unwrap_err();
    server.resp(b"FG.ASK users a\r\n");
    let page = server.admin("/metrics");
    let loads = |result| format!("flowgate_configuration_loads_total{{result=\"{result}\"}}");
    assert_eq!(value(&page, &loads("ok")), 2.0);
    assert_eq!(value(&page, &loads("error")), 1.0);
    assert!(value(&page, "flowgate_configuration_loaded_timestamp_seconds") > 1.7e9);
    assert_eq!(value(&page, "flowgate_limits"), 4.0);
    assert_eq!(decided(&page, "api.user", "ok"), 2.0);
    assert_eq!(value(&page, "flowgate_decision_seconds_count"), 2.0);
    assert!(server.admin("/config").contains("9/day"));
}

/// Waits until a line of the page has this value.
fn wait_for(server: &Running, line: &str, expected: f64) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let page = server.admin("/metrics");
        if value(&page, line) == expected {
            return;
        }
        assert!(
            Instant::now() < until,
            "{line} is not {expected} in\n{page}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_that_are_refused_are_counted() {
    let bounds = ServerBounds {
        connections_per_address: 1,
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds));
    let mut kept = connect(server.resp);
    kept.write_all(b"PING\r\n").unwrap();
    kept.read_exact(&mut [0; 7]).unwrap();
    assert_eq!(server.http(""), "");
    wait_for(
        &server,
        "flowgate_connections_refused_total{door=\"http\"}",
        1.0,
    );
    wait_for(&server, "flowgate_connections{door=\"resp\"}", 1.0);
    drop(kept);
    wait_for(&server, "flowgate_connections{door=\"resp\"}", 0.0);
    wait_for(
        &server,
        "flowgate_connections_late_total{door=\"resp\"}",
        0.0,
    );
}

#[test]
fn connections_that_are_slow_or_silent_are_counted() {
    let time = Duration::from_millis(50);
    let bounds = ServerBounds {
        idle_time: time,
        head_time: time,
        command_time: time,
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds));
    for address in [server.resp, server.http] {
        assert_eq!(connect(address).read(&mut [0]).unwrap(), 0);
    }
    let mut body = connect(server.http);
    body.write_all(b"POST /json HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{")
        .unwrap();
    let _ = body.read_to_end(&mut Vec::new());
    // It has begun a request, and has been answered before.
    let mut slow = connect(server.http);
    let get = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    slow.write_all(&[&get[..], b"GET"].concat()).unwrap();
    let _ = slow.read_to_end(&mut Vec::new());
    wait_for(
        &server,
        "flowgate_connections_late_total{door=\"resp\"}",
        1.0,
    );
    wait_for(
        &server,
        "flowgate_connections_late_total{door=\"http\"}",
        3.0,
    );
}

#[test]
fn operators_are_told_of_the_end_and_see_it() {
    let mut server = Running::new(LIMITS, |server| server);
    let mut busy = connect(server.resp);
    // A client in the middle of a command delays the end.
    busy.write_all(b"PING\r\n*1\r\n").unwrap();
    busy.read_exact(&mut [0; 7]).unwrap();
    server.end();
    let until = Instant::now() + Duration::from_secs(60);
    while !server.admin("/readyz").starts_with("HTTP/1.1 503 ") {
        assert!(Instant::now() < until, "the end is not told");
    }
    assert!(server.admin("/healthz").starts_with("HTTP/1.1 200 "));
    assert!(server.admin("/metrics").starts_with("HTTP/1.1 200 "));
    busy.write_all(b"$4\r\nPING\r\n").unwrap();
    busy.read_exact(&mut [0; 7]).unwrap();
}

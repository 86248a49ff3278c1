//! The door of operators: metrics, probes, the configuration.

use crate::support::{Running, answer, connect};
use flowgate_fleet::Fleet;
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime, ServerBounds};
use serde_json::{Value, json};
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
    for path in [
        "/metrics",
        "/config",
        "/limits",
        "/limits?limit=users&key=very-private",
    ] {
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
    for path in ["/metrics", "/config", "/limits"] {
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

/// Sends a request to the door of operators. Returns the status, and the body as JSON.
fn asked(server: &Running, method: &str, path: &str) -> (u16, Value) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let page = answer(server.admin, &request);
    let status = page.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = page.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// A page of a limit without what differs between limits.
fn page_of(limit: &str, quota: &str, kept: &str) -> Value {
    json!({
        "limit": limit,
        "name": null,
        "quota": quota,
        "is_shadow": false,
        "kept": kept,
        "is_connected": null,
        "keys": null,
        "capacity": null,
        "decisions": { "admitted": 0, "refused": 0, "refused_in_shadow": 0, "not_taken": 0, "undecided": 0 },
        "beyond": { "total": 0, "in_flight": 0, "leased": 0, "forgotten": 0, "reset": 0, "alone": 0, "others_alone": 0 },
        "assigned": null,
        "of_key": null,
    })
}

#[test]
fn limits_show_what_they_hold() {
    let text = "
domain: api
descriptors:
  - { key: user, quota: 3/day, name: users, capacity: 100 }
  - { key: site, value: a, quota: 4/day burst 2 }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: search, quota: 10/s burst 20, rlqs: true }
";
    let server = Running::new(text, |server| server);
    server.resp(b"FG.ASK users alice\r\nFG.ASK users bob\r\nFG.ASK users bob 9\r\n");
    let mut users = page_of("api.user", "3/day", "memory");
    users["name"] = "users".into();
    users["keys"] = 2.into();
    users["capacity"] = 100.into();
    users["decisions"]["admitted"] = 2.into();
    users["decisions"]["refused"] = 1.into();
    let mut site = page_of("api.site_a", "4/day burst 2", "memory");
    site["keys"] = 0.into();
    site["capacity"] = 1.into();
    let free = page_of("api.free", "unlimited", "nothing");
    let mut search = page_of("api.search", "10/s burst 20", "envoys");
    search["assigned"] = json!({ "keys": 0, "buckets": 0, "tokens": 0, "per_second": 0.0 });
    let all = json!([free, search, site, users]);
    assert_eq!(asked(&server, "GET", "/limits"), (200, all));

    // By name or id. A limit with keys has nothing left of its own.
    for name in ["users", "api.user"] {
        let path = format!("/limits?limit={name}");
        assert_eq!(asked(&server, "GET", &path), (200, users.clone()));
    }
    let (status, mut alice) = asked(&server, "GET", "/limits?limit=users&key=alice");
    let of_key = alice["of_key"].take();
    assert_eq!((status, &alice), (200, &users));
    assert_eq!(
        (&of_key["available"], &of_key["burst"]),
        (&2.into(), &3.into())
    );
    let full_in_s = of_key["full_in_s"].as_f64().unwrap();
    assert!((28_700.0..=28_800.0).contains(&full_in_s), "{full_in_s}");
    // Looking takes nothing, and a limit without keys needs none.
    assert_eq!(asked(&server, "GET", "/limits?limit=users").1["keys"], 2);
    let (_, site) = asked(&server, "GET", "/limits?limit=api.site_a");
    assert_eq!(
        site["of_key"],
        json!({ "available": 2, "burst": 2, "full_in_s": 0.0 })
    );
}

#[test]
fn limits_in_a_store_show_their_bound() {
    let text =
        "{domain: api, descriptors: [{key: user, quota: 100/s burst 20, when_cut_off: deny}]}";
    let config = Config::parse("a.yaml", text).unwrap();
    let store = Fleet::local().open().unwrap();
    let limits = DecideLimits::in_store(&config, &DecisionTime::system(), &store).unwrap();
    let server = Running::of(DecideServer::new(limits));
    server.resp(b"FG.ASK api.user a 20\r\n");
    let (_, mut page) = asked(&server, "GET", "/limits?limit=api.user&key=a");
    let of_key = page["of_key"].take();
    let mut expected = page_of("api.user", "100/s burst 20", "store");
    expected["is_connected"] = true.into();
    expected["decisions"]["admitted"] = 1.into();
    // What flows back within the timeout.
    expected["beyond"]["in_flight"] = 5.into();
    expected["beyond"]["total"] = 5.into();
    assert_eq!((page, &of_key["burst"]), (expected, &20.into()));
    let (status, wrong) = asked(&server, "DELETE", "/limits?limit=api.user&key=a");
    let what = "this limit is in a store: write flowgate fleet reset and the address of that store";
    assert_eq!((status, &wrong["detail"]), (501, &what.into()));
}

#[test]
fn c1_a_key_that_is_set_back_is_full_and_its_bound_has_one_more_burst() {
    let server = Running::new(LIMITS, |server| server);
    let admitted = |asked: &str| asked.matches("*5\r\n:0\r\n").count();
    let ask = b"FG.ASK users alice\r\n".repeat(5);
    let mut all = admitted(&server.resp(&ask));
    let full = |was_full: bool| (200, json!({ "limit": "api.user", "was_full": was_full }));
    let path = "/limits?limit=users&key=alice";
    assert_eq!(asked(&server, "DELETE", path), full(false));
    let (_, page) = asked(&server, "GET", path);
    assert_eq!(
        (&page["of_key"]["available"], &page["keys"]),
        (&3.into(), &0.into())
    );
    assert_eq!(
        (&page["beyond"]["reset"], &page["beyond"]["total"]),
        (&3.into(), &3.into())
    );
    all += admitted(&server.resp(&ask));
    assert_eq!(all, 3 + 3);
    // Others are not concerned.
    server.resp(b"FG.ASK users bob\r\n");
    assert_eq!(asked(&server, "DELETE", path), full(false));
    let (_, bob) = asked(&server, "GET", "/limits?limit=users&key=bob");
    assert_eq!(bob["of_key"]["available"], 2);
    // A key that is full is given nothing.
    assert_eq!(asked(&server, "DELETE", path), full(true));
    // A reload keeps the bound.
    let config = Config::parse("b.yaml", &LIMITS.replace("3/day", "9/day")).unwrap();
    server.reloader.reload(&config).unwrap();
    let (_, page) = asked(&server, "GET", path);
    assert_eq!(page["beyond"]["total"], 6);
}

/// The quota of a second is full again, and that of a day is not.
#[test]
fn a_key_with_two_quotas_is_full_if_both_are() {
    let text = "{domain: api, descriptors: [{key: user, quota: 1000000/s burst 9; 9/day}]}";
    let server = Running::new(text, |server| server);
    let path = "/limits?limit=api.user&key=a";
    let was_full = || asked(&server, "DELETE", path).1["was_full"].clone();
    assert_eq!(was_full(), true);
    server.resp(b"FG.ASK api.user a 1\r\n");
    assert_eq!((was_full(), was_full()), (false.into(), true.into()));
    let (_, page) = asked(&server, "GET", path);
    assert_eq!(page["beyond"]["total"], 9);
}

#[test]
fn wrong_questions_about_limits_are_answered() {
    let text = LIMITS.to_owned()
        + "  - { key: a, descriptors: [{ key: b, quota: 1/day }] }
  - { key: search, quota: 10/s, rlqs: true }
  - { key: free, rate_limit: { unlimited: true } }
";
    let server = Running::new(&text, |server| server);
    for (method, path, status, what) in [
        ("GET", "/limits?limit=none", 404, "no limit has this name"),
        (
            "DELETE",
            "/limits?limit=none&key=a",
            404,
            "no limit has this name",
        ),
        (
            "GET",
            "/limits?key=a",
            400,
            "no limit: write /limits?limit=NAME&key=KEY",
        ),
        (
            "DELETE",
            "/limits",
            400,
            "no limit: write /limits?limit=NAME&key=KEY",
        ),
        (
            "DELETE",
            "/limits?limit=users",
            400,
            "this limit has keys: write one, as &key=KEY in a URL or --key KEY of the command",
        ),
        (
            "GET",
            "/limits?limit=users&key=%4",
            400,
            "a `%` without two hexadecimal digits",
        ),
        (
            "GET",
            "/limits?name=users",
            400,
            "unknown parameter: write limit and key",
        ),
        (
            "GET",
            "/limits?limit=api.a.b&key=x",
            400,
            "this limit needs 2 values as a key; ask with descriptors",
        ),
        (
            "DELETE",
            "/limits?limit=api.search&key=x",
            501,
            "Envoys hold parts of this limit, which cannot be set back",
        ),
        (
            "DELETE",
            "/limits?limit=api.free&key=x",
            501,
            "nothing is kept of this limit",
        ),
        (
            "POST",
            "/limits?limit=users&key=a",
            405,
            "write GET, DELETE",
        ),
        ("DELETE", "/metrics", 405, "write GET"),
        (
            "GET",
            "/nowhere",
            404,
            "no such path: write /metrics, /config, /limits, /healthz or /readyz",
        ),
    ] {
        let (answered, problem) = asked(&server, method, path);
        assert_eq!(
            (answered, &problem["detail"]),
            (status, &what.into()),
            "{method} {path}"
        );
    }
    let server = Running::new(LIMITS, |server| server.secret("s3cret"));
    assert_eq!(asked(&server, "DELETE", "/limits?limit=users&key=a").0, 401);
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

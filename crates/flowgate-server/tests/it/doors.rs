//! Both doors of a running server.

use crate::support::{Running, connect};
use flowgate_server::{Config, ServerBounds};
use std::io::{Read, Write};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 3/day, name: users }
  - { key: site, value: a, rate_limit: { unit: day, requests_per_unit: 2 } }
";

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
}

#[track_caller]
fn assert_status(answer: &str, status: u16) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{answer}"
    );
}

/// All doors ask one limit.
#[test]
fn c1_the_doors_share_their_limits() {
    let server = Running::new(LIMITS, |server| server);
    assert!(
        server
            .resp(b"FG.ASK users alice\r\n")
            .starts_with("*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n")
    );
    let admitted = server.http(&get("/auth?limit=users&key=alice"));
    assert_status(&admitted, 200);
    assert!(
        admitted.contains("ratelimit-policy: \"users\";q=3;w=86400\r\n"),
        "{admitted}"
    );
    assert!(admitted.contains("ratelimit: \"users\";r=1;"), "{admitted}");
    assert_status(
        &server.http(&post("/v1/ask", r#"{"limit":"api.user","key":"alice"}"#)),
        200,
    );
    let body = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}"#;
    let refused = server.http(&post("/json", body));
    assert_status(&refused, 429);
    assert!(
        refused.contains(r#""overallCode":"OVER_LIMIT""#),
        "{refused}"
    );
    assert!(
        refused.contains(r#""currentLimit":{"name":"users","requestsPerUnit":3,"unit":"DAY"}"#),
        "{refused}"
    );
    for (deny, status) in [("", 429), ("&deny=403", 403)] {
        let refused = server.http(&get(&format!("/auth?limit=users&key=alice{deny}")));
        assert_status(&refused, status);
        assert!(refused.contains("\r\nretry-after: "), "{refused}");
        assert!(refused.contains("application/problem+json"), "{refused}");
    }
    assert_status(&server.http(&get("/auth?limit=users&key=bob")), 200);
}

/// A proxy whose address of `/auth` is fixed sends the key as a field.
#[test]
fn the_key_of_auth_can_be_a_field_of_the_request() {
    let server = Running::new(LIMITS, |server| server);
    let ask = |query: &str, field: &str| {
        let head = format!("{field}host: a\r\n");
        let request = get(&format!("/auth?limit=users&{query}"));
        server.http(&request.replace("host: a\r\n", &head))
    };
    for _ in 0..3 {
        assert_status(&ask("header=x-user", "X-User: alice\r\n"), 200);
    }
    assert_status(&ask("header=X-User", "x-user: alice\r\n"), 429);
    // The key is that of other doors.
    assert_status(&ask("key=alice", ""), 429);
    assert_status(&ask("header=x-user", "x-user: bob\r\n"), 200);
    // All requests without the field share the empty key.
    assert_status(&ask("key=&n=3", ""), 200);
    assert_status(&ask("header=x-user", ""), 429);
}

#[test]
fn json_is_that_of_envoyproxy_ratelimit() {
    let server = Running::new(LIMITS, |server| server);
    let ask = |hits: &str| {
        let entries = r#"[{"entries":[{"key":"site","value":"a"}]},{"entries":[{"key":"none"}]}]"#;
        server.http(&post(
            "/json",
            &format!(r#"{{"domain":"api","descriptors":{entries}{hits}}}"#),
        ))
    };
    let first = ask("");
    assert_status(&first, 200);
    assert!(first.contains(r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":2,"unit":"DAY"},"durationUntilReset":""#), "{first}");
    assert!(
        first.ends_with(r#""limitRemaining":1},{"code":"OK"}]}"#),
        "{first}"
    );
    assert_status(&ask(r#","hits_addend":2"#), 429);
    assert_status(&ask(r#","hitsAddend":"1""#), 200);
    assert_status(&ask(""), 429);
}

#[test]
fn a_body_in_pieces_is_read_as_a_whole() {
    let server = Running::new(LIMITS, |server| server);
    let body = r#"{"limit":"users","key":"\u0061"}"#;
    let pieces = body.chars().map(|char| format!("1\r\n{char}\r\n"));
    let answer = server.http(&format!(
        "POST /v1/ask HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
        pieces.collect::<String>()
    ));
    assert_status(&answer, 200);
    assert!(answer.contains(r#""remaining":2,"#), "{answer}");
    // The key was `a`.
    let again = server.http(&post("/v1/ask", r#"{"limit":"users","key":"a"}"#));
    assert!(again.contains(r#""remaining":1,"#), "{again}");
}

#[test]
fn a_wrong_request_is_told_what_is_wrong() {
    let server = Running::new(LIMITS, |server| server);
    let many = format!(
        r#"{{"domain":"api","descriptors":[{}{{}}]}}"#,
        "{},".repeat(64)
    );
    let long = format!(
        r#"{{"domain":"api","descriptors":[{{"entries":[{{"key":"a","value":"{}"}}]}}]}}"#,
        "x".repeat(5000)
    );
    for (request, status, what) in [
        (post("/json", "x"), 400, "expected value"),
        (post("/json", "{}"), 400, "domain must not be empty"),
        (
            post("/json", r#"{"domain":"a"}"#),
            400,
            "descriptor list must not be empty",
        ),
        (
            post("/json", r#"{"domian":"a"}"#),
            400,
            "unknown field `domian`",
        ),
        (post("/json", &many), 400, "more than 64 descriptors"),
        (post("/json", &long), 400, "longer than 4 KiB"),
        (post("/json", &" ".repeat(70_000)), 413, "64 KiB"),
        (
            post(
                "/json",
                r#"{"domain":"api","descriptors":[{"limit":{"requestsPerUnit":1,"unit":"FORTNIGHT"}}]}"#,
            ),
            400,
            "no unit `FORTNIGHT`: write one of SECOND, MINUTE, HOUR",
        ),
        (post("/v1/ask", "{}"), 400, "missing field `limit`"),
        (
            post("/v1/ask", ""),
            400,
            r#"; write {\"limit\": \"users\", \"key\": \"alice\", \"n\": 1}"#,
        ),
        (
            post("/v1/ask", r#"{"limit":"x"}"#),
            404,
            "no limit has this name",
        ),
        (get("/auth"), 400, "no limit"),
        (get("/auth?limit=x&key=y"), 404, "no limit has this name"),
        (get("/auth?limit=users&key=%"), 400, "hexadecimal"),
        (get("/auth?limit=users&n=x"), 400, "`n` is a whole number"),
        (get("/auth?limit=users&deny=500"), 400, "`deny` is 429"),
        (get("/auth?limit=users&foo=1"), 400, "unknown parameter"),
        (
            get("/auth?limit=users&key=a&header=b"),
            400,
            "more than one key",
        ),
        (
            get("/auth?limit=users&header="),
            400,
            "`header` is the name of a field, such as x-user",
        ),
        (
            get("/auth?limit=users&header=a%20b"),
            400,
            "`header` is the name of a field, such as x-user",
        ),
        (get("/json"), 405, "write POST"),
        (
            get("/limits?limit=users"),
            404,
            "write the address of --admin",
        ),
        (post("/auth", ""), 405, "write GET"),
        (get("/"), 404, "no such path"),
    ] {
        let answer = server.http(&request);
        assert_status(&answer, status);
        assert!(answer.contains(what), "{what}: {answer}");
    }
    assert_status(&server.http(&get("/healthz")), 200);
    assert_status(&server.http(&get("/readyz")), 200);
}

#[test]
fn a_secret_is_asked_for_at_both_doors() {
    let server = Running::new(LIMITS, |server| server.secret("s3cret"));
    assert!(server.resp(b"FG.ASK users a\r\n").starts_with("-NOAUTH "));
    assert!(
        server
            .resp(b"AUTH s3cre\r\nPING\r\n")
            .starts_with("-WRONGPASS ")
    );
    assert!(server.resp(b"HELLO 3\r\n").starts_with("-NOAUTH "));
    assert_eq!(server.resp(b"AUTH s3cret\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
    assert!(
        server
            .resp(b"HELLO 3 AUTH default s3cret\r\n")
            .starts_with("%7\r\n")
    );
    assert_status(&server.http(&get("/auth?limit=users&key=a")), 401);
    let with = |secret: &str| {
        get("/auth?limit=users&key=a")
            .replace("host:", &format!("authorization: bearer {secret}\r\nhost:"))
    };
    assert_status(&server.http(&with("s3cret")), 200);
    assert_status(&server.http(&with("s3cret2")), 401);
    assert_status(&server.http(&get("/healthz")), 200);
}

/// The ledger: threads ask for one key as fast as they can, and all together get what the limit allows.
#[test]
fn c1_threads_are_never_admitted_more_than_the_limit() {
    const THREADS: usize = 4;
    let server = Running::new(
        "{domain: api, descriptors: [{key: user, quota: 2000/day}]}",
        |server| server,
    );
    let barrier = Barrier::new(THREADS);
    let work = || {
        let mut stream = connect(server.resp);
        barrier.wait();
        // 1,000 requests in each of two writes.
        let batch = b"FG.ASK api.user a\r\n".repeat(1000);
        stream.write_all(&batch).unwrap();
        stream
            .write_all(&[&batch[..], b"QUIT\r\n"].concat())
            .unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert_eq!(answers.matches("*5\r\n").count(), 2000);
        answers.matches("*5\r\n:0\r\n").count()
    };
    let admitted: usize = thread::scope(|threads| {
        let all: Vec<_> = (0..THREADS).map(|_| threads.spawn(work)).collect();
        all.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(admitted, 2000);
}

/// New keys with their own quotas, from threads whose clock readings overtake one another: none is refused needlessly.
#[test]
fn c2_new_keys_of_cl_throttle_are_admitted_under_load() {
    let server = Running::new(LIMITS, |server| server);
    let work = |thread: usize| {
        let commands: String = (0..2000)
            .map(|key| format!("CL.THROTTLE {thread}-{key} 0 1 {}\r\n", 60 + key % 50))
            .collect();
        let answers = server.resp(commands.as_bytes());
        assert_eq!(
            answers.matches("*5\r\n:0\r\n").count(),
            2000,
            "of thread {thread}"
        );
    };
    thread::scope(|threads| (0..4).for_each(|thread| _ = threads.spawn(move || work(thread))));
}

#[test]
fn an_address_has_a_bounded_number_of_connections() {
    let bounds = ServerBounds {
        connections_per_address: 2,
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds));
    let mut kept: Vec<_> = (0..2).map(|_| connect(server.resp)).collect();
    let mut answer = [0; 7];
    for stream in &mut kept {
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(&mut answer).unwrap();
    }
    // One more is closed without an answer, at either door.
    assert_eq!(server.resp(b"PING\r\n"), "");
    assert_eq!(server.http(&get("/healthz")), "");
    drop(kept);
    let until = Instant::now() + Duration::from_secs(60);
    while server.resp(b"PING\r\n").is_empty() {
        assert!(Instant::now() < until, "closed connections still count");
    }
}

#[test]
fn slow_and_silent_clients_are_closed() {
    let time = Duration::from_millis(50);
    let bounds = ServerBounds {
        command_time: time,
        head_time: time,
        idle_time: time,
        ..ServerBounds::default()
    };
    let server = Running::new(LIMITS, |server| server.bounds(bounds));
    for (door, sent) in [
        (server.resp, &b""[..]),
        (server.resp, b"*1\r\n$4\r\nPI"),
        (server.http, b""),
        (server.http, b"P"),
        (server.http, b"GET / HTTP/1.1\r\nhos"),
    ] {
        let mut stream = connect(door);
        stream.write_all(sent).unwrap();
        let mut answer = Vec::new();
        // It ends, and not by the time-out of this side.
        stream.read_to_end(&mut answer).unwrap();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"),
            "{sent:?}: {answer:?}"
        );
    }
    let body = "POST /json HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 9\r\n\r\n{";
    let mut stream = connect(server.http);
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert_status(&answer, 408);
}

#[test]
fn the_end_answers_what_has_arrived() {
    let mut server = Running::new(LIMITS, |server| server);
    let mut stream = connect(server.resp);
    let mut answer = [0; 7];
    stream.write_all(b"PING\r\n").unwrap();
    stream.read_exact(&mut answer).unwrap();
    stream.write_all(b"*1\r\n$4\r\nPI").unwrap();
    // It has begun a command: this one is still answered.
    thread::sleep(Duration::from_millis(50));
    server.end();
    stream.write_all(b"NG\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "+PONG\r\n");
}

#[test]
fn c1_a_reload_keeps_what_was_taken() {
    let server = Running::new(LIMITS, |server| server);
    let ask = || server.resp(b"FG.ASK users a\r\n").starts_with("*5\r\n:0");
    assert!(ask() && ask());
    let config = Config::parse("b.yaml", &LIMITS.replace("3/day", "4/day")).unwrap();
    server.reloader.reload(&config).unwrap();
    assert!(ask() && ask() && !ask());
}

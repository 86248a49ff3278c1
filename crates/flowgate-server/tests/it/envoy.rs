//! Clients of gRPC that are not ours: Envoy, and Python with the official definitions.

use crate::support::{Running, connect, free_port, printed, program};
use flowgate::Clock;
use flowgate_fleet::LocalStore;
use flowgate_server::{Config, DecideLimits, DecideServer, DecisionTime};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: &str = "
domain: api
descriptors:
  - { key: user, quota: 100/day burst 20, name: users }
  - { key: fast, quota: 100/s burst 20 }
  - { key: path, value: /search, rate_limit: { unit: day, requests_per_unit: 3 } }
";

/// Envoy on a free port, stopped when dropped.
struct Envoy {
    process: Child,
    config: PathBuf,
    address: SocketAddr,
}

impl Envoy {
    /// Starts one with the configuration of the page of `flowgate decide`. Its backend is the server's HTTP door.
    fn start(program: &Path, server: &Running, change: impl Fn(String) -> String) -> Self {
        Self::start_with("envoy.yaml", program, server, change)
    }

    /// Starts one with a configuration of the page.
    fn start_with(
        name: &str,
        program: &Path,
        server: &Running,
        change: impl Fn(String) -> String,
    ) -> Self {
        let page = include_str!("decide.md");
        let (_, config) = page
            .split_once(&format!("```yaml\n# {name}\n"))
            .expect("a configuration");
        let (config, _) = config.split_once("```").unwrap();
        let port = free_port();
        let mut config = config.to_owned();
        for (place, port) in [
            ("port_value: 10000", port),
            ("port_value: 8081", server.grpc.port()),
            ("port_value: 3000", server.http.port()),
        ] {
            assert_eq!(config.matches(place).count(), 1, "{place}");
            config = config.replace(place, &format!("port_value: {port}"));
        }
        // A path that the backend has.
        let route = "route: { cluster: backend }";
        assert_eq!(config.matches(route).count(), 1);
        config = config.replace(
            route,
            "route: { cluster: backend, prefix_rewrite: /healthz }",
        );
        let path =
            std::env::temp_dir().join(format!("flowgate-envoy-{}-{port}.yaml", std::process::id()));
        fs::write(&path, change(config)).unwrap();
        let process = Command::new(program)
            .args([
                "--disable-hot-restart",
                "--concurrency",
                "1",
                "--log-level",
                "error",
                "-c",
            ])
            .arg(&path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut envoy = Self {
            process,
            config: path,
            address,
        };
        let until = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "Envoy does not listen");
            assert!(
                envoy.process.try_wait().unwrap().is_none(),
                "Envoy has ended"
            );
            thread::sleep(Duration::from_millis(20));
        }
        envoy
    }

    /// Sends a request. Returns its status, and the head in small letters.
    fn get(&self, field: &str) -> (u16, String) {
        let mut stream = connect(self.address);
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{field}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
        (head[9..12].parse().unwrap(), head.to_ascii_lowercase())
    }

    /// Sends requests, each of another user, until the status is this one.
    fn until(&self, status: u16) {
        let until = Instant::now() + Duration::from_secs(60);
        let mut users = 0..;
        while self.get(&format!("x-user: {:?}", users.next())).0 != status {
            assert!(Instant::now() < until, "no answer of {status}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.config);
    }
}

#[track_caller]
fn assert_has(head: &str, line: &str) {
    assert!(head.lines().any(|other| other == line), "{line}: {head}");
}

#[test]
#[ignore = "needs Envoy: ./ci/test"]
fn c1_envoy_admits_exactly_the_limit_and_tells_it() {
    let Some(program) = program("envoy") else {
        return;
    };
    let server = Running::new(LIMITS, |server| server);
    let envoy = Envoy::start(&program, &server, |config| {
        let action = "- request_headers: { header_name: x-user, descriptor_key: user }";
        assert_eq!(config.matches(action).count(), 1);
        let fast =
            "- actions: [{ request_headers: { header_name: x-fast, descriptor_key: fast } }]";
        let indent = " ".repeat(24);
        config.replace(action, &format!("{action}\n{indent}{fast}"))
    });
    envoy.until(200);
    let answers: Vec<_> = (0..200).map(|_| envoy.get("x-user: alice")).collect();
    let of = |status| {
        answers
            .iter()
            .filter(|(answered, _)| *answered == status)
            .count()
    };
    assert_eq!((of(200), of(429)), (20, 180));

    let (_, first) = &answers[0];
    assert_has(first, "x-ratelimit-limit: 100, 100;w=86400;name=\"users\"");
    assert_has(first, "x-ratelimit-remaining: 19");
    assert_has(first, "x-ratelimit-reset: 864");
    assert_has(first, "ratelimit-policy: \"users\";q=20;w=17280");
    assert_has(first, "ratelimit: \"users\";r=19;t=864");
    let (_, refused) = &answers[20];
    assert_has(refused, "x-envoy-ratelimited: true");
    assert_has(refused, "x-ratelimit-remaining: 0");
    // Less than a second has passed, or more, if the machine was busy.
    let wait = refused
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    let wait: u64 = wait.expect("a time").parse().unwrap();
    assert!((700..=864).contains(&wait), "{wait}");

    // Another user has a limit of their own.
    assert_eq!(envoy.get("x-user: bob").0, 200);

    // A rate: never more than 20, and 100 in each second.
    let begin = Instant::now();
    let admitted = (0..200).filter(|_| envoy.get("x-fast: a").0 == 200).count();
    let most = 20.0 + 100.0 * begin.elapsed().as_secs_f64();
    assert!(
        (20..=most as usize).contains(&admitted),
        "{admitted} of {most}"
    );
}

#[test]
#[ignore = "needs Envoy: ./ci/test"]
fn envoy_goes_on_without_the_server_or_does_not() {
    let Some(program) = program("envoy") else {
        return;
    };
    let server = Running::new(LIMITS, |server| server);
    // The backend is another server, which stays.
    let backend = Running::new(LIMITS, |server| server);
    let stays = |config: String| {
        let port = |server: &Running| format!("port_value: {}", server.http.port());
        config.replace(&port(&server), &port(&backend))
    };
    let admits = Envoy::start(&program, &server, stays);
    let denies = Envoy::start(&program, &server, |config| {
        let deny = "failure_mode_deny: false";
        assert_eq!(config.matches(deny).count(), 1);
        stays(config.replace(deny, "failure_mode_deny: true"))
    });
    for envoy in [&admits, &denies] {
        envoy.until(200);
    }
    let statuses: Vec<_> = (0..21).map(|_| admits.get("x-user: alice").0).collect();
    assert_eq!((statuses[19], statuses[20]), (200, 429));
    drop(server);
    denies.until(500);
    for _ in 0..5 {
        assert_eq!(admits.get("x-user: alice").0, 200);
        assert_eq!(denies.get("x-user: alice").0, 500);
    }
}

/// Envoy waits for 0.5 s, and refuses if there is no answer by then.
#[test]
#[ignore = "needs Envoy: ./ci/test"]
fn envoy_gets_a_decision_in_its_time_although_the_store_is_slow() {
    let Some(program) = program("envoy") else {
        return;
    };
    let store = LocalStore::new(Clock::system());
    let fleet = store.fleet().timeout(Duration::from_secs(60)).open();
    let text =
        "{domain: api, descriptors: [{key: user, name: users, quota: 9/day, when_cut_off: 1/3}]}";
    let config = Config::parse("test.yaml", text).unwrap();
    let limits = DecideLimits::in_store(&config, &DecisionTime::system(), &fleet.unwrap());
    let server = Running::of(DecideServer::new(limits.unwrap()));
    let envoy = Envoy::start(&program, &server, |config| {
        let config = config.replace("failure_mode_deny: false", "failure_mode_deny: true");
        let config = config.replace("timeout: 0.1s", "timeout: 0.5s");
        let route = "route: { cluster: backend, prefix_rewrite: /healthz }";
        let degraded = "%DYNAMIC_METADATA(envoy.filters.http.ratelimit:degraded)%";
        let field = format!("{{ header: {{ key: x-degraded, value: '{degraded}' }} }}");
        let line = format!("\n{:26}response_headers_to_add: [{field}]", "");
        config.replace(route, &format!("{route}{line}"))
    });
    envoy.until(200);
    store.pause();
    for _ in 0..3 {
        let (status, head) = envoy.get("x-user: alice");
        assert_eq!(status, 200, "{head}");
        assert_has(&head, r#"x-degraded: {"users":"1/3"}"#);
    }
    // The share is used up. What this server may not decide is an error, by which Envoy refuses.
    assert_eq!(envoy.get("x-user: alice").0, 500);
    store.resume();
    let (status, head) = envoy.get("x-user: bob");
    assert_eq!(status, 200);
    assert!(!head.contains("x-degraded"), "{head}");
}

const DIVIDED: &str = "
domain: edge
descriptors:
  - { key: service, value: search, quota: 10/s burst 20, rlqs: true }
";

/// A count of the page of metrics.
fn count(server: &Running, line: &str) -> u64 {
    let page = server.admin("/metrics");
    let count = page.lines().find_map(|other| other.strip_prefix(line));
    let count = count.unwrap_or_else(|| panic!("{line}: {page}"));
    count.trim().parse().unwrap()
}

/// Asks until `end`, about 50 times per second. Returns when each admitted request began and ended.
fn load(envoy: &Envoy, end: Instant) -> Vec<(Instant, Instant)> {
    let mut admitted = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        if envoy.get("x: y").0 == 200 {
            admitted.push((begin, Instant::now()));
        }
        thread::sleep(Duration::from_millis(20).saturating_sub(begin.elapsed()));
    }
    admitted
}

/// The first requests of an Envoy that has no assignment are denied, and then it has the whole limit.
#[test]
#[ignore = "needs Envoy: ./ci/test"]
fn c1_an_envoy_decides_by_its_assignment() {
    let Some(program) = program("envoy") else {
        return;
    };
    let server = Running::new(DIVIDED, |server| server);
    let envoy = Envoy::start_with("envoy-rlqs.yaml", &program, &server, |config| config);
    envoy.until(200);
    let begin = Instant::now();
    let admitted = 1 + (0..200).filter(|_| envoy.get("x: y").0 == 200).count();
    let most = 20.0 + 10.0 * begin.elapsed().as_secs_f64() + 1.0;
    assert!(
        (20..=most as usize).contains(&admitted),
        "{admitted} of {most}"
    );
    let allowed = "flowgate_rlqs_requests_total{rule=\"edge.service_search\",result=\"allowed\"}";
    let until = Instant::now() + Duration::from_secs(60);
    while count(&server, allowed) < admitted as u64 {
        assert!(Instant::now() < until, "no report");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(count(&server, allowed), admitted as u64);
    let unassigned = "flowgate_rlqs_unassigned_allowed_total{rule=\"edge.service_search\"}";
    assert_eq!(count(&server, unassigned), 0);
}

/// The first request of a bucket passes before there is an assignment, if Envoy's configuration says so. It is counted and charged.
#[test]
#[ignore = "needs Envoy: ./ci/test"]
fn what_an_envoy_allows_without_an_assignment_is_counted() {
    let Some(program) = program("envoy") else {
        return;
    };
    let server = Running::new(DIVIDED, |server| server);
    let envoy = Envoy::start_with("envoy-rlqs.yaml", &program, &server, |config| {
        config.replace("DENY_ALL", "ALLOW_ALL")
    });
    assert_eq!(envoy.get("x: y").0, 200);
    let unassigned = "flowgate_rlqs_unassigned_allowed_total{rule=\"edge.service_search\"}";
    let until = Instant::now() + Duration::from_secs(60);
    while count(&server, "flowgate_rlqs_limits") == 0 {
        assert!(Instant::now() < until, "no report");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(&server, unassigned), 1);
}

#[test]
#[ignore = "needs Envoy: ./ci/test"]
fn c1_two_envoys_stay_within_one_limit() {
    let Some(program) = program("envoy") else {
        return;
    };
    let (settle, run) = match std::env::var_os("FLOWGATE_LONG") {
        Some(_) => (Duration::from_secs(60), Duration::from_secs(60)),
        None => (Duration::from_secs(10), Duration::from_secs(20)),
    };
    let server = Running::new(DIVIDED, |server| server);
    let start = || Envoy::start_with("envoy-rlqs.yaml", &program, &server, |config| config);
    let envoys = [start(), start()];
    let settled = Instant::now() + settle;
    let end = settled + run;
    let admitted: Vec<_> = thread::scope(|threads| {
        let loads = envoys
            .iter()
            .map(|envoy| threads.spawn(move || load(envoy, end)));
        let loads: Vec<_> = loads.collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    let late =
        |times: &Vec<(Instant, Instant)>| times.iter().filter(|(at, _)| *at >= settled).count();
    println!(
        "{} and {} admitted, then {} and {}",
        admitted[0].len(),
        admitted[1].len(),
        late(&admitted[0]),
        late(&admitted[1])
    );
    let mut all: Vec<_> = admitted.concat();
    all.sort();
    for (first, (begin, _)) in all.iter().enumerate() {
        for (last, (_, end)) in all.iter().enumerate().skip(first) {
            let time = end.saturating_duration_since(*begin).as_secs_f64();
            let most = 20.0 + 10.0 * time;
            let count = last - first + 1;
            assert!(count as f64 <= most, "{count} in {time} s");
        }
    }
    if std::env::var_os("FLOWGATE_LONG").is_some() {
        let rate = admitted.iter().map(late).sum::<usize>() as f64 / run.as_secs_f64();
        assert!((9.8..=10.2).contains(&rate), "{rate}");
        assert!(
            admitted
                .iter()
                .all(|one| late(one) as f64 > 0.4 * 10.0 * run.as_secs_f64())
        );
    }
}

fn python(server: &Running, definitions: &str) -> Option<Vec<Value>> {
    let program = program("grpc/bin/python")?;
    let address = server.grpc.to_string();
    Some(printed(
        Command::new(program),
        "ask.py",
        &[&address, definitions],
    ))
}

#[test]
#[ignore = "needs Python's gRPC: ./ci/test"]
fn python_asks_with_the_official_definitions_and_by_reflection() {
    let limits = "{domain: api, descriptors: [{key: user, quota: 2/day, name: users}]}";
    let server = Running::new(limits, |server| server);
    let Some(official) = python(&server, "official") else {
        return;
    };
    let status = json!({
        "code": "OK",
        "currentLimit": { "requestsPerUnit": 2, "unit": "DAY", "name": "users" },
        "limitRemaining": 1,
        "durationUntilReset": "43200s",
    });
    assert_eq!(official[0]["statuses"], json!([status]));
    let codes = ["OK", "OK", "OVER_LIMIT"];
    for (answer, code) in official.iter().zip(codes) {
        assert_eq!(answer["overallCode"], code, "{answer}");
    }
    let empty = "rate limit descriptor list must not be empty";
    assert_eq!(official[3], json!(["INVALID_ARGUMENT", empty]));

    let reflected = python(&server, "reflection").unwrap();
    let service = json!("envoy.service.ratelimit.v3.RateLimitService");
    assert!(
        reflected[0].as_array().unwrap().contains(&service),
        "{reflected:?}"
    );
    for (answer, code) in reflected[1..].iter().zip(codes) {
        assert_eq!(answer["overall_code"], code, "{answer}");
        assert_eq!(answer["statuses"][0]["current_limit"]["name"], "users");
    }
    assert_eq!(reflected[4], json!({ "status": "SERVING" }));
}

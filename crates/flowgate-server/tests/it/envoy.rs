//! Clients of gRPC that are not ours: Envoy, and Python with the official definitions.

use crate::support::{Running, connect};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
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

/// A program that `ci/engines.sh` brings.
fn program(name: &str) -> Option<PathBuf> {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/engines");
    let program = engines.join(name);
    if !program.exists() {
        println!("{name} is not here: ci/engines.sh");
        return None;
    }
    Some(program)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Envoy on a free port, stopped when dropped.
struct Envoy {
    process: Child,
    config: PathBuf,
    address: SocketAddr,
}

impl Envoy {
    /// Starts one with the configuration of the page of `flowgate decide`. Its backend is the server's HTTP door.
    fn start(program: &Path, server: &Running, change: impl Fn(String) -> String) -> Self {
        let page = include_str!("decide.md");
        let (_, config) = page
            .split_once("```yaml\n# envoy.yaml\n")
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

fn python(server: &Running, definitions: &str) -> Option<Vec<Value>> {
    let program = program("grpc/bin/python")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ask.py");
    let output = Command::new(program)
        .arg(script)
        .args([&server.grpc.to_string(), definitions])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
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

//! Programs that are not ours: clients of Redis, and proxies that ask by HTTP.

use crate::daemon::Daemon;
use crate::support::{Running, answer, printed, program};
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const LIMITS: &str = "{domain: api, descriptors: [{key: user, quota: 5/day, name: users}]}";

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: ./ci/test"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs redis-cli: ./ci/test"]
fn redis_cli_and_redis_benchmark_ask() {
    let server = Running::new(LIMITS, |server| server);
    let port = server.resp.port().to_string();
    let cli = |words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        output("redis-cli", &[&["-p", &port][..], &words].concat())
    };
    assert_eq!(cli("PING"), "PONG\n");
    assert_eq!(cli("CL.THROTTLE user:1 20 100 60 1"), "0\n21\n20\n-1\n1\n");
    assert_eq!(
        cli("-3 FG.ASK users alice 2")
            .lines()
            .take(3)
            .collect::<Vec<_>>(),
        ["0", "5", "3"]
    );
    assert!(cli("FG.ASK nobody alice").starts_with("ERR no limit has this name"));
    let benchmark = "-n 2000 -c 10 -P 16 -q FG.ASK users benchmark";
    let arguments: Vec<_> = benchmark.split(' ').collect();
    let said = output(
        "redis-benchmark",
        &[&["-p", &port][..], &arguments].concat(),
    );
    assert!(said.contains("requests per second"), "{said}");
    assert_eq!(cli("FG.ASK users benchmark 0").lines().nth(2), Some("0"));
}

/// A program that asks before it passes a request on.
struct Proxy(Daemon);

impl Proxy {
    /// Asks for a page as a user, whose name is in the query and in a field.
    fn get(&self, user: &str) -> String {
        let request = format!(
            "GET /healthz?user={user} HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\nconnection: close\r\n\r\n"
        );
        answer((Ipv4Addr::LOCALHOST, self.0.port).into(), &request)
    }

    /// Each user gets 5 answers with the page, and is then refused.
    fn admits_five(&self) {
        for user in ["alice", "bob%20b"] {
            for _ in 0..5 {
                let answer = self.get(user);
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                assert!(answer.ends_with("ok\n"), "{answer}");
            }
            let refused = self.get(user).to_ascii_lowercase();
            assert!(refused.starts_with("http/1.1 429 "), "{refused}");
            assert!(refused.contains("\r\nretry-after: "), "{refused}");
        }
    }
}

fn nginx(auth: SocketAddr) -> Proxy {
    let program = ["/usr/sbin/nginx", "nginx"];
    let is_there = |path: &&str| !path.starts_with('/') || Path::new(path).exists();
    let program = program.into_iter().find(is_there).unwrap();
    Proxy(Daemon::start(program, |folder, port, command| {
        let at = folder.display();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log; events {{}}
             http {{
               access_log off;
               {paths}
               server {{
                 listen 127.0.0.1:{port};
                 location / {{
                   set $user $arg_user;
                   auth_request /limit;
                   auth_request_set $wait $upstream_http_retry_after;
                   error_page 403 =429 @refused;
                   proxy_pass http://{auth};
                 }}
                 location @refused {{ add_header Retry-After $wait always; return 429; }}
                 location = /limit {{
                   internal;
                   proxy_pass http://{auth}/auth?limit=users&key=$user&deny=403;
                   proxy_pass_request_body off;
                   proxy_set_header Content-Length '';
                 }}
               }}
             }}"
        );
        let path = folder.join("nginx.conf");
        fs::write(&path, config).unwrap();
        command.args(["-e", "stderr", "-c"]).arg(path);
    }))
}

/// Returns a file of the page of `flowgate decide`, with addresses of this test instead of those of the page.
fn file_of_page(begin: &str, addresses: &[(&str, String)]) -> String {
    let page = include_str!("decide.md");
    let (_, file) = page.split_once(begin).expect("a file");
    let (file, _) = file.split_once("```").unwrap();
    let replace = |file: String, (from, to): &(&str, String)| {
        assert_eq!(file.matches(from).count(), 1, "{from}");
        file.replace(from, to)
    };
    addresses.iter().fold(file.to_owned(), replace)
}

#[test]
#[ignore = "needs nginx: ./ci/test"]
fn nginx_asks_by_auth_request() {
    let server = Running::new(LIMITS, |server| server);
    nginx(server.http).admits_five();
}

#[test]
#[ignore = "needs Caddy: ./ci/test"]
fn caddy_asks_by_forward_auth() {
    let server = Running::new(LIMITS, |server| server);
    let caddy = Proxy(Daemon::start("caddy", |folder, port, command| {
        let addresses = [
            (":10000 {", format!(":{port} {{\n    bind 127.0.0.1")),
            ("127.0.0.1:8080", server.http.to_string()),
            ("127.0.0.1:3000", server.http.to_string()),
        ];
        let site = file_of_page("# Caddyfile\n", &addresses);
        let path = folder.join("Caddyfile");
        fs::write(&path, format!("{{\n    admin off\n}}\n{site}")).unwrap();
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        // It writes nothing elsewhere.
        command.arg(path).env("HOME", folder).current_dir(folder);
        command.env_remove("XDG_DATA_HOME");
        command.env_remove("XDG_CONFIG_HOME");
    }));
    caddy.admits_five();
}

#[test]
#[ignore = "needs Traefik: ./ci/test"]
fn traefik_asks_by_forward_auth() {
    let Some(program) = program("traefik") else {
        return;
    };
    let server = Running::new(LIMITS, |server| server);
    let traefik = Proxy(Daemon::start(program, |folder, port, command| {
        let addresses = [
            ("127.0.0.1:8080", server.http.to_string()),
            ("127.0.0.1:3000", server.http.to_string()),
        ];
        let path = folder.join("routes.yaml");
        fs::write(
            &path,
            file_of_page(
                "# routes.yaml: the file of --providers.file.filename\n",
                &addresses,
            ),
        )
        .unwrap();
        command.arg(format!("--entryPoints.web.address=127.0.0.1:{port}"));
        command.arg(format!("--providers.file.filename={}", path.display()));
        command.args(["--global.checkNewVersion=false", "--log.level=ERROR"]);
        command.env("HOME", folder).current_dir(folder);
    }));
    // It listens before it has read its file.
    let until = Instant::now() + Duration::from_secs(60);
    while traefik.get("first").starts_with("HTTP/1.1 404 ") {
        assert!(Instant::now() < until, "Traefik has no routes");
        thread::sleep(Duration::from_millis(20));
    }
    traefik.admits_five();
}

/// What a client library gets: the answers of both scripts are the same.
fn answers_of_a_client(server: &str) -> Vec<Value> {
    vec![
        json!({ "server": server, "ping": "PONG" }),
        json!([0, 3, 2, -1, 1]),
        json!([[0, 5, 4], [0, 5, 3], [0, 5, 2], "no limit has this name"]),
        json!("WRONGPASS"),
    ]
}

#[test]
#[ignore = "needs redis-py: ./ci/test"]
fn redis_py_asks_in_both_protocols_and_in_a_pipeline() {
    let Some(python) = program("redis-py/bin/python") else {
        return;
    };
    for protocol in ["2", "3"] {
        let server = Running::new(LIMITS, |server| server.secret("sesame"));
        let port = server.resp.port().to_string();
        let answers = printed(
            Command::new(&python),
            "ask_redis.py",
            &[&port, "sesame", protocol],
        );
        assert_eq!(answers, answers_of_a_client("flowgate"), "RESP{protocol}");
    }
}

#[test]
#[ignore = "needs ioredis: ./ci/test"]
fn ioredis_asks_in_a_pipeline() {
    let Some(modules) = program("ioredis/node_modules") else {
        return;
    };
    let server = Running::new(LIMITS, |server| server.secret("sesame"));
    let port = server.resp.port().to_string();
    let mut node = Command::new("node");
    node.env("NODE_PATH", modules);
    let answers = printed(node, "ask_redis.js", &[&port, "sesame"]);
    assert_eq!(answers, answers_of_a_client("flowgate"));
}

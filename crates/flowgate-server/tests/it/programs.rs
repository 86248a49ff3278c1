//! Programs that are not ours: redis-cli, redis-benchmark, nginx, curl.

use crate::support::{Running, connect};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
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

/// nginx on a free port, stopped when dropped.
struct Nginx {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl Nginx {
    fn new(auth: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let folder = format!(
            "flowgate-decide-nginx-{}-{}",
            std::process::id(),
            address.port()
        );
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let at = folder.display();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
            .concat();
        let config = format!(
            "daemon off; pid {at}/pid; error_log {at}/error.log; events {{}}
             http {{
               access_log off;
               {paths}
               server {{
                 listen {address};
                 location / {{
                   set $user $arg_user;
                   auth_request /limit;
                   auth_request_set $wait $upstream_http_retry_after;
                   error_page 403 =429 @refused;
                   root {at};
                   try_files /page =404;
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
        fs::write(folder.join("page"), "page\n").unwrap();
        fs::write(folder.join("nginx.conf"), config).unwrap();
        let program = ["/usr/sbin/nginx", "nginx"];
        let program = program
            .into_iter()
            .find(|path| !path.starts_with('/') || PathBuf::from(path).exists());
        let process = Command::new(program.unwrap())
            .args(["-e", "stderr", "-c"])
            .arg(folder.join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed: ./ci/test");
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "nginx does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        Self {
            process,
            folder,
            address,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its worker ends with it.
        let id = self.process.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &id]).status();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
#[ignore = "needs nginx: ./ci/test"]
fn nginx_asks_by_auth_request() {
    use std::io::{Read, Write};

    let server = Running::new(LIMITS, |server| server);
    let nginx = Nginx::new(server.http);
    let get = |user: &str| {
        let mut stream = connect(nginx.address);
        let request = format!("GET /?user={user} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for user in ["alice", "bob"] {
        for _ in 0..5 {
            let answer = get(user);
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("page\n"),
                "{answer}"
            );
        }
        let refused = get(user);
        assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
        assert!(refused.contains("\r\nRetry-After: "), "{refused}");
    }
}

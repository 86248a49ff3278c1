//! Against a real server that keeps its own count.

#![cfg(unix)]

mod support;

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::{number, run};

/// nginx on a free port, with a directory of its own; stopped and removed when dropped.
struct Nginx {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Nginx {
    fn start() -> Nginx {
        // Bound and closed again: free for now.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let name = format!("flowgate-nginx-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let configuration = format!(
            "master_process off; # One process, so that ending it leaves no other behind.
             pid nginx.pid;
             error_log error.log;
             events {{ worker_connections 256; }}
             http {{
                 log_format line '$status $request $http_user_agent';
                 access_log access.log line;
                 client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
                 uwsgi_temp_path uwsgi; scgi_temp_path scgi;
                 # Fewer than are sent, so that connections are closed and opened again.
                 keepalive_requests 100;
                 server {{ listen 127.0.0.1:{port}; location / {{ return 200 'ok'; }} }}
             }}"
        );
        fs::write(directory.join("nginx.conf"), configuration).unwrap();
        let process = Command::new("nginx")
            .arg("-p")
            .arg(&directory)
            .args(["-c", "nginx.conf", "-g", "daemon off;"])
            .env(
                "PATH",
                format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed: ./ci/test");
        let mut nginx = Nginx {
            process,
            directory,
            port,
        };
        let patience = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < patience, "nginx does not listen");
            assert!(
                nginx.process.try_wait().unwrap().is_none(),
                "nginx has ended"
            );
            thread::yield_now();
        }
        nginx
    }

    /// Ends nginx in good order, so that its log is complete, and returns that.
    fn stop(&mut self) -> String {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args(["-QUIT", &id]).status().unwrap();
        assert!(status.success());
        self.process.wait().unwrap();
        fs::read_to_string(self.directory.join("access.log")).unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Both fail, harmlessly, when it has been stopped.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
#[ignore = "needs nginx: ./ci/test"]
fn nginx_logs_as_many_requests_as_were_sent() {
    let mut nginx = Nginx::start();
    let url = format!("http://127.0.0.1:{}/path?query", nginx.port);
    let (exit, out, err) = run(&["load", "-q", "1000/s", "-z", "1s", "-c", "20", &url]);
    assert!(exit == 0 || exit == 4, "{out}{err}");
    assert!(out.contains("sent       1000 of 1000 in "), "{out}");
    assert!(out.contains("errors     none\n"), "{out}");
    assert_eq!(number(&out, "status", "2xx"), 1000, "{out}");

    let log = nginx.stop();
    let line = concat!(
        "200 GET /path?query HTTP/1.1 flowgate/",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(log.lines().filter(|text| *text == line).count(), 1000);
    assert_eq!(log.lines().count(), 1000, "nothing but what was sent");
}

/// A closed loop would have sent nothing meanwhile, and known nothing of it.
#[test]
#[ignore = "needs nginx: ./ci/test"]
fn a_server_that_stands_still_shows_in_the_response_times() {
    let nginx = Nginx::start();
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    let id = nginx.process.id().to_string();
    let signal = move |name: &str| {
        let status = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(status.success());
    };
    let standing_still = thread::spawn(move || {
        // When the first requests have been answered.
        thread::sleep(Duration::from_millis(500));
        signal("-STOP");
        thread::sleep(Duration::from_secs(1));
        signal("-CONT");
    });
    // Connections for all that come meanwhile: it is not the client that is late.
    let arguments = ["load", "-q", "150", "-z", "3s", "-c", "200", &url];
    let conditions = [
        "--fail-if",
        "p99>800ms",
        "--fail-if",
        "service.p99>800ms",
        "--fail-if",
        "p50>800ms",
    ];
    let (exit, out, err) = run(&[&arguments[..], &conditions].concat());
    standing_still.join().unwrap();
    assert!(exit == 3 || exit == 4, "{out}{err}");
    for (metric, failed) in [
        ("p99>800ms", true),
        ("service.p99>800ms", true),
        ("p50>800ms", false),
    ] {
        assert_eq!(
            err.contains(&format!("{metric}:")),
            failed,
            "{metric}: {err}"
        );
    }
    assert_eq!(number(&out, "status", "2xx"), 450, "{out}");
}

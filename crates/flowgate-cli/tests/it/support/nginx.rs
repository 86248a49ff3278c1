//! nginx, for tests against a real server.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// nginx on a free port, with a directory of its own; stopped and removed when dropped.
pub struct Nginx {
    pub process: Child,
    directory: PathBuf,
    pub port: u16,
}

impl Nginx {
    /// With these lines for all requests, and these for where they go. There is a file, /ok.
    pub fn start(http: &str, location: &str) -> Nginx {
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
                 {http}
                 server {{ listen 127.0.0.1:{port}; root .; location / {{ {location} }} }}
             }}"
        );
        fs::write(directory.join("nginx.conf"), configuration).unwrap();
        fs::write(directory.join("ok"), "ok").unwrap();
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
    pub fn stop(&mut self) -> String {
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

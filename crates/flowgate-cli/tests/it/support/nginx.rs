//! nginx, for tests against a real server.

use std::fs;
use std::process::Command;

use super::daemon::Daemon;

pub struct Nginx(Daemon);

impl Nginx {
    /// With these lines for all requests, and these for where they go. There is a file, /ok.
    pub fn start(http: &str, location: &str) -> Nginx {
        Nginx(Daemon::start("nginx", |directory, port, command| {
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
            let path = std::env::var("PATH").unwrap_or_default();
            command
                .arg("-p")
                .arg(directory)
                .args(["-c", "nginx.conf", "-g", "daemon off;"])
                .env("PATH", format!("{path}:/usr/sbin"));
        }))
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    pub fn id(&self) -> u32 {
        self.0.process.id()
    }

    /// Ends nginx in good order, so that its log is complete, and returns that.
    pub fn stop(&mut self) -> String {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-QUIT", &id]).status().unwrap();
        assert!(status.success());
        self.0.process.wait().unwrap();
        fs::read_to_string(self.0.directory.join("access.log")).unwrap()
    }
}

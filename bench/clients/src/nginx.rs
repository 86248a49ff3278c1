//! nginx, with a configuration and a directory of its own.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::directory::Directory;
use crate::running::Running;

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// nginx on a free port of 127.0.0.1. If it still runs when this is dropped, it is stopped.
pub struct Nginx {
    process: Running,
    directory: Directory,
    port: u16,
    http2_port: u16,
}

/// What it is to do.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    pub workers: u32,
    /// In the block `http`.
    pub http: String,
    /// In the block `location`.
    pub location: String,
}

impl Nginx {
    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn start(program: &Path, setting: &Setting) -> Result<Nginx, String> {
        let directory = Directory::new()?;
        let (port, http2_port) = (free_port()?, free_port()?);
        let Setting {
            workers,
            http,
            location,
        } = setting;
        // `reuseport`: otherwise one worker may accept nearly all of the connections.
        let configuration = format!(
            "daemon off;
             worker_processes {workers};
             pid nginx.pid;
             error_log error.log;
             events {{ worker_connections 512; }}
             http {{
                 access_log off;
                 client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
                 uwsgi_temp_path uwsgi; scgi_temp_path scgi;
                 keepalive_requests 1000000;
                 {http}
                 server {{
                     listen 127.0.0.1:{port} reuseport;
                     location / {{ {location} }}
                     location = /status {{ stub_status; access_log off; }}
                 }}
                 server {{
                     listen 127.0.0.1:{http2_port} reuseport http2;
                     location / {{ {location} }}
                 }}
             }}"
        );
        let file = directory.path().join("nginx.conf");
        fs::write(&file, configuration).map_err(|error| format!("{}: {error}", file.display()))?;
        let prefix = directory.path().display().to_string();
        let arguments = ["-p", &prefix, "-c", "nginx.conf", "-e", "error.log"];
        let process = Running::start(program, &arguments.map(str::to_owned))?;
        let mut nginx = Nginx {
            process,
            directory,
            port,
            http2_port,
        };
        nginx.wait_until_it_listens()?;
        Ok(nginx)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Where it takes HTTP/2 with prior knowledge, and nothing else.
    pub fn http2_url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.http2_port)
    }

    /// Returns nginx's own count of requests, including this one.
    ///
    /// # Errors
    ///
    /// Returns a message if nginx does not report it.
    pub fn requests(&self) -> Result<u64, String> {
        let page = self.get("/status");
        let page = page.map_err(|error| format!("nginx does not say its count: {error}"))?;
        // A line of three: connections accepted, connections handled, requests.
        let mut lines = page.lines().map(str::split_whitespace);
        let counts = lines.find(|words| {
            let mut words = words.clone();
            words.clone().count() == 3 && words.all(|word| word.parse::<u64>().is_ok())
        });
        let requests = counts.and_then(|mut words| words.nth(2)?.parse().ok());
        requests.ok_or_else(|| format!("nginx does not say its count: {page:?}"))
    }

    /// Ends it in good order, so that its log is complete, and gives the log.
    ///
    /// # Errors
    ///
    /// A message if it does not end, or wrote no log.
    pub fn stop(mut self) -> Result<String, String> {
        self.process.signal(Signal::QUIT);
        self.process.wait(PATIENCE)?;
        let log = fs::read_to_string(self.directory.path().join("access.log"));
        log.map_err(|error| format!("nginx's access.log: {error}"))
    }

    /// Its answer to one request, head and all.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn get(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while self.get("/status").is_err() {
            if self.process.has_ended() {
                return Err(format!("nginx has ended: {}", self.last_error()));
            }
            if Instant::now() >= until {
                return Err("nginx does not listen".to_owned());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn last_error(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default();
        let said = log + &self.process.printed();
        said.lines().last().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Killed at once, it would leave its workers behind.
        self.process.signal(Signal::TERM);
        let _ = self.process.wait(PATIENCE);
    }
}

/// Bound and closed again: free for now.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    let address = address.map_err(|error| format!("no port of 127.0.0.1 is free: {error}"))?;
    Ok(address.port())
}

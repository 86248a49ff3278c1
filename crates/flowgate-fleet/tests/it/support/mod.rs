//! A real store, for tests.

use flowgate_fleet::Fleet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// redis-server on a free port, with a directory of its own; stopped and removed when dropped.
pub struct Engine {
    process: Child,
    directory: PathBuf,
    pub port: u16,
}

impl Engine {
    /// Starts one that keeps nothing on disk.
    pub fn start() -> Self {
        // Bound and closed again: free for now.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let name = format!("flowgate-redis-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let mut engine = Self {
            process: spawn(&directory, port),
            directory,
            port,
        };
        engine.listen();
        engine
    }

    /// Waits until it answers.
    fn listen(&mut self) {
        let patience = Instant::now() + Duration::from_secs(20);
        while self.command("PING").as_deref() != Some("+PONG") {
            assert!(Instant::now() < patience, "redis-server does not answer");
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server has ended");
            thread::yield_now();
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Sends a command of words without spaces, and returns the reply: a line, or a text of one line.
    pub fn command(&self, words: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{words}\r\n").as_bytes()).ok()?;
        let mut lines = BufReader::new(stream).lines();
        let line = lines.next()?.ok()?;
        if line.starts_with('$') {
            return lines.next()?.ok();
        }
        Some(line)
    }

    /// How many calls of the script it has carried out.
    pub fn calls(&self) -> u64 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.write_all(b"INFO commandstats\r\nQUIT\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"));
        let Some(line) = line else { return 0 };
        let calls = line.split("calls=").nth(1).unwrap();
        calls.split(',').next().unwrap().parse().unwrap()
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(status.success());
    }

    /// Lets it hang.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again on the same port, after a [`kill`](Self::kill).
    pub fn restart(&mut self) {
        self.process = spawn(&self.directory, self.port);
        self.listen();
    }
}

fn spawn(directory: &PathBuf, port: u16) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed: ./ci/test")
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// One process of four. A busy machine does not make it impatient.
pub fn fleet(engine: &Engine) -> Fleet {
    let fleet = Fleet::redis(&engine.url()).expect("an address");
    let fleet = fleet.nodes(4).timeout(Duration::from_secs(10));
    fleet.open().expect("a fleet")
}

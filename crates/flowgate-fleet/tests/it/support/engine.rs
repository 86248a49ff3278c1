//! A real store, for tests.

use redis::{Client, Connection, FromRedisValue, RedisResult};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// redis-server on a free port, with a directory of its own; stopped and removed when dropped.
pub struct Engine {
    process: Child,
    directory: PathBuf,
    port: u16,
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
        while self.command::<()>("PING").is_err() {
            assert!(Instant::now() < patience, "redis-server does not answer");
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "redis-server has ended");
            thread::yield_now();
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn connect(&self) -> RedisResult<Connection> {
        Client::open(self.url())?.get_connection()
    }

    /// Sends a command of words without spaces.
    pub fn command<T: FromRedisValue>(&self, words: &str) -> RedisResult<T> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().expect("a command"));
        words.for_each(|word| _ = command.arg(word));
        command.query(&mut self.connect()?)
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

fn spawn(directory: &Path, port: u16) -> Child {
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

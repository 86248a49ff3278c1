//! A real store, for tests.

use redis::{Client, Connection, FromRedisValue, RedisResult};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where a server is.
#[derive(Clone)]
pub struct Place {
    pub host: String,
    /// The network namespace; none is that of this process.
    pub namespace: Option<String>,
}

impl Place {
    pub fn here() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            namespace: None,
        }
    }
}

/// The file with the clock of a server, in its directory, if its clock can be set.
const CLOCK: &str = "clock";

/// A server on a free port, with a directory of its own; stopped and removed when dropped.
pub struct Engine {
    process: Child,
    program: PathBuf,
    settings: Vec<String>,
    directory: PathBuf,
    place: Place,
    port: u16,
}

impl Engine {
    /// Starts one that keeps nothing on disk.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with these settings, for example `--appendonly yes`, as words.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_program(Path::new("redis-server"), settings)
    }

    pub fn start_program(program: &Path, settings: &[&str]) -> Self {
        Self::start_at(program, &Place::here(), settings)
    }

    pub fn start_at(program: &Path, place: &Place, settings: &[&str]) -> Self {
        Self::start_prepared(program, place, settings, |_| ())
    }

    /// Starts one whose clock is set by [`set_clock`](Self::set_clock). Not with jemalloc, under which it hangs.
    pub fn start_with_clock(program: &Path) -> Self {
        Self::start_prepared(program, &Place::here(), &[], |directory| {
            fs::write(directory.join(CLOCK), "+0").unwrap();
        })
    }

    fn start_prepared(
        program: &Path,
        place: &Place,
        settings: &[&str],
        prepare: impl Fn(&Path),
    ) -> Self {
        start_on_free_port(|port| {
            prepare(&directory(port));
            let port_text = port.to_string();
            let common = ["--bind", &place.host, "--port", &port_text];
            let keeps = ["--save", "", "--appendonly", "no", "--protected-mode", "no"];
            let common = [&common[..], &keeps].concat();
            Self::try_start(program, place, port, &[&common, settings].concat())
        })
    }

    /// Sets its clock this many hours from the time, and waits until it is.
    pub fn set_clock(&self, hours: i64) {
        // In one step: it may read the file at any time.
        let (file, new) = (self.directory.join(CLOCK), self.directory.join("new"));
        fs::write(&new, format!("{hours:+}h")).unwrap();
        fs::rename(new, file).unwrap();
        let is_set = || {
            let (seconds, _): (i64, u64) = self.command("TIME").unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            (seconds - now.as_secs() as i64 - hours * 3600).abs() < 60
        };
        let patience = Instant::now() + Duration::from_secs(60);
        while !(0..3).all(|_| is_set()) {
            assert!(Instant::now() < patience, "the clock is not set");
        }
    }

    /// Starts a sentinel. It writes its file of settings again when something changes.
    pub fn start_sentinel(place: &Place, text: &str) -> Self {
        start_on_free_port(|port| {
            let file = directory(port).join("settings.conf");
            let text = format!(
                "bind {}\nport {port}\nprotected-mode no\nlogfile log\n{text}",
                place.host
            );
            fs::write(&file, text).unwrap();
            let settings = [file.to_str().unwrap(), "--sentinel"];
            Self::try_start(Path::new("redis-server"), place, port, &settings)
        })
    }

    fn try_start(program: &Path, place: &Place, port: u16, settings: &[&str]) -> Option<Self> {
        let directory = directory(port);
        let settings: Vec<String> = settings.iter().map(|word| (*word).to_owned()).collect();
        let mut engine = Self {
            process: spawn(program, place, &directory, &settings),
            program: program.to_owned(),
            settings,
            directory,
            place: place.clone(),
            port,
        };
        engine.listens().then_some(engine)
    }

    /// Waits until it answers. Returns `false` if it has ended, because another server took the port.
    fn listens(&mut self) -> bool {
        let id = format!("process_id:{}\r", self.process.id());
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let info: RedisResult<String> = self.command("INFO server");
            if info.is_ok_and(|info| info.contains(&id)) {
                return true;
            }
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(Instant::now() < patience, "the server does not answer");
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns what it has written into the file `log`.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    pub fn url(&self) -> String {
        format!("redis://{}:{}", self.place.host, self.port)
    }

    pub fn connect(&self) -> RedisResult<Connection> {
        let patience = Duration::from_secs(10);
        let connection = Client::open(self.url())?.get_connection_with_timeout(patience)?;
        connection.set_read_timeout(Some(patience))?;
        Ok(connection)
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
        self.process = spawn(&self.program, &self.place, &self.directory, &self.settings);
        assert!(self.listens(), "the server does not start again");
    }
}

/// Tries some ports, because another process may take one that was free.
fn start_on_free_port(start: impl Fn(u16) -> Option<Engine>) -> Engine {
    let started = (0..10).find_map(|_| start(free_port()));
    started.expect("a server starts")
}

fn directory(port: u16) -> PathBuf {
    let name = format!("flowgate-redis-{}-{port}", std::process::id());
    // In memory, if there is such a place: a sentinel waits for the disk, and takes a disk that is busy for a broken clock.
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let directory = parent.join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Returns a port that was free just now: bound, and closed again.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(program: &Path, place: &Place, directory: &Path, settings: &[String]) -> Child {
    let mut command = match &place.namespace {
        Some(namespace) => {
            // It becomes the program, under the same id.
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(program);
            command
        }
        None => Command::new(program),
    };
    let clock = directory.join(CLOCK);
    if clock.exists() {
        command
            .env("LD_PRELOAD", libfaketime())
            .env("FAKETIME_TIMESTAMP_FILE", clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
    command
        .args(settings)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; ./ci/test installs it", program.display()))
}

fn libfaketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut places = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let library = places.find(|library| library.exists());
    library.expect("libfaketime; ./ci/test installs it")
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

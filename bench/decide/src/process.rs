//! Servers as processes of their own, each on the first core of this machine.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The core of the server, and the core of its clients and its store.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    pub server: usize,
    pub others: usize,
}

impl Cores {
    /// Returns the first core and the last.
    ///
    /// # Errors
    ///
    /// A message if there are fewer than two, or they cannot be listed.
    pub fn two() -> Result<Cores, String> {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        match (cores.first(), cores.last()) {
            (Some(first), Some(last)) if first != last => Ok(Cores {
                server: first.id,
                others: last.id,
            }),
            _ => {
                Err("this needs two cores: one for the server, and one for its clients".to_owned())
            }
        }
    }
}

/// Returns a command that runs on one core.
pub fn pinned(core: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), program]);
    command
}

/// Returns a port of 127.0.0.1 that is free now.
///
/// # Errors
///
/// A message if there is none.
pub fn free_port() -> Result<u16, String> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    for _ in 0..ATTEMPTS {
        let first = bind(0).map_err(|error| format!("no free port: {error}"))?;
        let port = first
            .local_addr()
            .map_err(|error| error.to_string())?
            .port();
        // flowgate has its doors at this port and the two after it.
        let others = [1, 2].map(|more| port.checked_add(more).map(bind));
        if others.iter().all(|other| matches!(other, Some(Ok(_)))) {
            return Ok(port);
        }
    }
    Err(format!("no three free ports in {ATTEMPTS} attempts"))
}

/// Attempts to find three free ports that follow one another.
const ATTEMPTS: u32 = 100;

/// A server, killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    pub port: u16,
}

impl Server {
    /// Starts a server, and waits until it listens on `port`. What it prints is dropped.
    ///
    /// # Errors
    ///
    /// A message if there is no such program, or it does not listen within ten seconds.
    pub fn start(mut command: Command, port: u16) -> Result<Server, String> {
        let name = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.stderr(Stdio::null()).spawn();
        let process = process.map_err(|error| format!("{name} cannot be started: {error}"))?;
        let mut server = Server { process, port };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(server.address()).is_err() {
            if let Ok(Some(status)) = server.process.try_wait() {
                return Err(format!("{name} has ended: {status}"));
            }
            if Instant::now() > until {
                return Err(format!("{name} does not listen"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the processor time that the process has used, on all of its threads.
    ///
    /// # Errors
    ///
    /// A message if the kernel does not count it.
    pub fn cpu_time(&self) -> Result<Duration, String> {
        let tasks = format!("/proc/{}/task", self.process.id());
        let failed = |error| format!("{tasks}: {error}");
        let mut sum = Duration::ZERO;
        for task in fs::read_dir(&tasks).map_err(failed)? {
            let file = task.map_err(failed)?.path().join("schedstat");
            // A thread may have ended.
            let text = fs::read_to_string(file).unwrap_or_default();
            let time_ns = text.split(' ').next().and_then(|word| word.parse().ok());
            sum += Duration::from_nanos(time_ns.unwrap_or(0));
        }
        Ok(sum)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! The time to an answer over the protocol of Redis, under commands at an even rate.
//!
//! redis-benchmark has no rate. This client is one thread that never sleeps: it sends a command when it is time, and reads otherwise.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::paced::Sight;

/// As many as of the other clients at an even rate.
const CONNECTIONS: usize = 4;
/// The time for the last answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends `command` from one core, whether the server answers or not.
///
/// # Errors
///
/// A message if the client fails, or has an error as an answer.
pub fn run(
    server: SocketAddr,
    core: usize,
    command: &str,
    per_second: u64,
    window: Duration,
) -> Result<Sight, String> {
    // This thread keeps its core.
    let run = || {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
        ask(server, command.as_bytes(), per_second, window)
    };
    thread::scope(|scope| scope.spawn(run).join()).expect("the client does not panic")
}

fn ask(
    server: SocketAddr,
    command: &[u8],
    per_second: u64,
    window: Duration,
) -> Result<Sight, String> {
    let open = |_| Connection::open(server).map_err(|error| error.to_string());
    let mut connections = (0..CONNECTIONS).map(open).collect::<Result<Vec<_>, _>>()?;
    let gap = Duration::from_secs(1) / u32::try_from(per_second).unwrap_or(u32::MAX).max(1);
    let count = (window.as_nanos() / gap.as_nanos().max(1)) as usize;
    let (mut lags, mut times) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let begun = Instant::now();
    while times.len() < count {
        let (now, due) = (Instant::now(), begun + gap * lags.len() as u32);
        if lags.len() < count && now >= due {
            lags.push(now - due);
            let connection = &mut connections[lags.len() % CONNECTIONS];
            connection.send(command, due)?;
        }
        for connection in &mut connections {
            connection.receive(&mut times)?;
        }
        if now > begun + window + PATIENCE {
            return Err(format!("{} of {count} commands were answered", times.len()));
        }
    }
    Ok(Sight {
        lag: percentile_99(lags),
        response: percentile_99(times),
    })
}

/// Returns the 99th percentile, by the nearest rank. 0 of nothing.
fn percentile_99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let rank = (times.len() * 99).div_ceil(100);
    times.get(rank.wrapping_sub(1)).copied().unwrap_or_default()
}

struct Connection {
    stream: TcpStream,
    /// When each command without an answer was to be sent.
    waiting: VecDeque<Instant>,
}

impl Connection {
    fn open(server: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let waiting = VecDeque::new();
        Ok(Self { stream, waiting })
    }

    fn send(&mut self, command: &[u8], due: Instant) -> Result<(), String> {
        self.waiting.push_back(due);
        // The system has room for some thousand commands.
        self.stream
            .write_all(command)
            .map_err(|error| error.to_string())
    }

    fn receive(&mut self, times: &mut Vec<Duration>) -> Result<(), String> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut answers = [0; 4096];
        let count = match self.stream.read(&mut answers) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.to_string()),
            Ok(0) => return Err("the server has closed a connection".to_owned()),
            Ok(count) => count,
        };
        let now = Instant::now();
        // An answer is `*5` and five integers. An integer can be -1.
        if answers[..count].starts_with(b"-") {
            let text = String::from_utf8_lossy(&answers[..count]);
            return Err(format!("the server answered {text}"));
        }
        for _ in answers[..count].iter().filter(|byte| **byte == b'*') {
            let due = self.waiting.pop_front();
            let due = due.ok_or("more answers than commands")?;
            times.push(now - due);
        }
        Ok(())
    }
}

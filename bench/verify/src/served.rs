//! Programs that listen on loopback: `flowgate serve`, and servers with limiters of others.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Program, Programs};
use crate::running::Running;

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a limiter on a free port; ended when dropped.
pub struct Served {
    _process: Running,
    url: String,
}

impl Served {
    /// `flowgate serve` with this limiter.
    ///
    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn start(programs: &Programs, limiter: &str) -> Result<Served, String> {
        let path = programs.path(Program::Flowgate);
        let path = path.ok_or("flowgate is missing")?;
        let arguments = ["serve", "--listen", "0", "--limiter", limiter].map(str::to_owned);
        Served::told(path, &arguments)
    }

    /// A program that prints where it listens.
    ///
    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn told(program: &Path, arguments: &[String]) -> Result<Served, String> {
        Served::wait(program, arguments, |printed| {
            let told = printed.split_once("listening on ")?.1;
            Some(told.split_once(',')?.0.to_owned())
        })
    }

    /// A program that listens on `port`.
    ///
    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn on(port: u16, program: &Path, arguments: &[String]) -> Result<Served, String> {
        Served::wait(program, arguments, |_| {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
            Some(format!("http://127.0.0.1:{port}/"))
        })
    }

    fn wait(
        program: &Path,
        arguments: &[String],
        url: impl Fn(&str) -> Option<String>,
    ) -> Result<Served, String> {
        let mut process = Running::start(program, arguments)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let printed = process.printed();
            if let Some(url) = url(&printed) {
                return Ok(Served {
                    _process: process,
                    url,
                });
            }
            if process.has_ended() || Instant::now() >= until {
                return Err(format!("{} does not listen: {printed}", program.display()));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }
}

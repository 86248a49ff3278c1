//! `flowgate serve`.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Program, Programs};
use crate::running::Running;

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// An origin with one of our limiters on a free port; ended when dropped.
pub struct Served {
    _process: Running,
    url: String,
}

impl Served {
    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn start(programs: &Programs, limiter: &str) -> Result<Served, String> {
        let path = programs.path(Program::Flowgate);
        let path = path.ok_or("flowgate is missing")?;
        let arguments = ["serve", "--listen", "0", "--limiter", limiter].map(str::to_owned);
        let mut process = Running::start(path, &arguments)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let printed = process.printed();
            let said = printed.strip_prefix("listening on ");
            if let Some((url, _)) = said.and_then(|said| said.split_once(',')) {
                return Ok(Served {
                    url: url.to_owned(),
                    _process: process,
                });
            }
            if process.has_ended() || Instant::now() >= until {
                return Err(format!("flowgate serve does not listen: {printed}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }
}

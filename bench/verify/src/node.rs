//! Middleware of Node.js, with the packages that `bench/setup.sh` installs.

use std::env;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::running::Running;

/// Where `bench/setup.sh` installs the packages.
const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/node");

/// The scripts that start a server each.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/servers");

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port; ended when dropped.
pub struct Node {
    _process: Running,
    url: String,
}

/// Returns where node is, if its packages are installed.
pub fn node() -> Option<PathBuf> {
    let is_installed = Path::new(PACKAGES).join("node_modules").is_dir();
    let path = env::var_os("PATH").filter(|_| is_installed)?;
    let mut places = env::split_paths(&path).map(|directory| directory.join("node"));
    places.find(|path| path.is_file())
}

impl Node {
    /// Starts a script with these arguments.
    ///
    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn start(script: &str, arguments: &[&str]) -> Result<Node, String> {
        let program = node().ok_or("node or its packages are missing")?;
        let script = format!("{SCRIPTS}/{script}");
        let before = [script.as_str(), PACKAGES];
        let arguments: Vec<String> = before
            .iter()
            .chain(arguments)
            .map(|it| (*it).to_owned())
            .collect();
        let mut process = Running::start(&program, &arguments)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let printed = process.printed();
            if let Some((url, _)) = printed
                .strip_prefix("listening on ")
                .and_then(|said| said.split_once('\n'))
            {
                return Ok(Node {
                    url: url.to_owned(),
                    _process: process,
                });
            }
            if process.has_ended() || Instant::now() >= until {
                return Err(format!("{script} does not listen: {printed}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }
}

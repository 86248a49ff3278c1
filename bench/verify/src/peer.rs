//! Servers with limiters of others, in other languages: `../peers`, as `../setup.sh` installs them.

use std::path::{Path, PathBuf};

use crate::nginx::free_port;
use crate::served::Served;

/// Where `setup.sh` installs them.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers");
/// HAProxy's and Envoy's configurations.
const CONFIGURATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// A program, and the settings of its limiter.
#[derive(Clone, Copy)]
pub enum Peer {
    /// A file of `peers/node`, and its settings in JSON.
    Node(&'static str, &'static str),
    /// A file of `peers/python`, and its settings in JSON.
    Python(&'static str, &'static str),
    /// A file of `peers/haproxy`, its period and its limit.
    Haproxy(&'static str, &'static str, u32),
    /// The most tokens, and how many come in which time.
    Envoy(u32, u32, &'static str),
}

impl Peer {
    /// Returns the program that starts it, if it is installed.
    fn program(&self) -> Option<PathBuf> {
        let installed = |path: &str| Some(Path::new(PEERS).join(path)).filter(|path| path.exists());
        match self {
            Peer::Node(..) => {
                installed("node/node_modules")?;
                Some("node".into())
            }
            Peer::Python(..) => installed("python/bin/python"),
            Peer::Haproxy(..) => {
                let path = Path::new("/usr/sbin/haproxy");
                path.exists().then(|| path.into())
            }
            Peer::Envoy(..) => installed("envoy"),
        }
    }

    pub fn is_installed(&self) -> bool {
        self.program().is_some()
    }

    /// # Errors
    ///
    /// A message if it cannot be started, or does not listen.
    pub fn start(&self) -> Result<Served, String> {
        let program = self.program().ok_or("it is not installed")?;
        let file = |folder: &str, name: &str| format!("{folder}/{name}");
        match *self {
            Peer::Node(name, settings) => {
                let file = file(PEERS, &format!("node/{name}"));
                Served::told(&program, &[file, settings.to_owned()])
            }
            Peer::Python(name, settings) => {
                let file = file(CONFIGURATIONS, &format!("python/{name}"));
                // Nothing is written beside it.
                Served::told(&program, &["-B".to_owned(), file, settings.to_owned()])
            }
            Peer::Haproxy(name, period, limit) => {
                let port = free_port()?;
                let arguments = [
                    format!("PORT={port}"),
                    format!("PERIOD={period}"),
                    format!("LIMIT={limit}"),
                    program.display().to_string(),
                    "-db".to_owned(),
                    "-f".to_owned(),
                    file(CONFIGURATIONS, &format!("haproxy/{name}")),
                ];
                Served::on(port, Path::new("/usr/bin/env"), &arguments)
            }
            Peer::Envoy(burst, fill, interval) => {
                let port = free_port()?;
                let path = file(CONFIGURATIONS, "envoy/bucket.yaml");
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| format!("{path}: {error}"))?;
                let text = text
                    .replace("PORT", &port.to_string())
                    .replace("BURST", &burst.to_string())
                    .replace("FILL", &fill.to_string())
                    .replace("INTERVAL", interval);
                let arguments = [
                    "--disable-hot-restart",
                    "--concurrency",
                    "1",
                    "--log-level",
                    "error",
                    "--config-yaml",
                    &text,
                ];
                Served::on(port, &program, &arguments.map(str::to_owned))
            }
        }
    }
}

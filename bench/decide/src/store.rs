//! A Redis of its own for each run.

use crate::process::{Server, free_port, pinned};

/// A server that keeps nothing on disk.
#[derive(Debug)]
pub struct Store(pub Server);

impl Store {
    /// Starts a server on one core.
    ///
    /// # Errors
    ///
    /// A message if there is no such program.
    pub fn start(core: usize) -> Result<Store, String> {
        let port = free_port()?;
        let start = |program| {
            let mut command = pinned(core, program);
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--appendonly", "no"]);
            command.current_dir(std::env::temp_dir());
            Server::start(command, port)
        };
        let server = start("redis-server").or_else(|_| start("valkey-server"));
        server.map(Store)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.0.address())
    }
}

//! A Redis of its own for each run, on a free port of this machine.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server that keeps nothing on disk. It ends with this program.
pub struct Store {
    server: Child,
    port: u16,
}

impl Store {
    /// Starts a server, and waits until it listens.
    ///
    /// # Errors
    ///
    /// A message if there is no such server, or it does not listen within five seconds.
    pub fn start() -> Result<Store, String> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| format!("no free port: {error}"))?
            .port();
        let start = |program| {
            Command::new(program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no"])
                .current_dir(std::env::temp_dir())
                .stdout(Stdio::null())
                .spawn()
        };
        let server = start("redis-server")
            .or_else(|_| start("valkey-server"))
            .map_err(|error| {
                format!("neither redis-server nor valkey-server can be started: {error}")
            })?;
        let store = Store { server, port };
        let until = Instant::now() + Duration::from_secs(5);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > until {
                return Err("the store does not listen".to_owned());
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(store)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

//! Servers of others, for tests against real software.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server on a free port, with a directory of its own; stopped and removed when dropped.
pub struct Daemon {
    pub process: Child,
    pub directory: PathBuf,
    pub port: u16,
}

impl Daemon {
    /// Starts a program and waits until it listens. `prepare` gets the directory and the port, and adds arguments.
    pub fn start(
        program: impl AsRef<Path>,
        prepare: impl FnOnce(&Path, u16, &mut Command),
    ) -> Daemon {
        // Bound and closed again: free for now.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let program = program.as_ref();
        let name = program.file_name().unwrap_or_default().display();
        let folder = format!("flowgate-{name}-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        fs::create_dir_all(&directory).unwrap();
        let mut command = Command::new(program);
        prepare(&directory, port, &mut command);
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} is installed by ./ci/test: {error}"));
        let mut daemon = Daemon {
            process,
            directory,
            port,
        };
        let patience = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < patience, "{name} does not listen");
            let ended = daemon.process.try_wait().unwrap();
            assert!(ended.is_none(), "{name} has ended");
            thread::sleep(Duration::from_millis(5));
        }
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail, harmlessly, when it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

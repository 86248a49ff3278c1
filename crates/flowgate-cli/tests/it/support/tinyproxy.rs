//! tinyproxy, for tests through a real proxy.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// tinyproxy on a free port, with a directory of its own; stopped and removed when dropped.
pub struct Tinyproxy {
    process: Child,
    directory: PathBuf,
    pub port: u16,
}

impl Tinyproxy {
    /// With these lines of configuration.
    pub fn start(lines: &str) -> Tinyproxy {
        // Bound and closed again: free for now.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let name = format!("flowgate-tinyproxy-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let log = directory.join("log");
        let configuration = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 20\nMaxClients 50\nLogFile \"{}\"\nLogLevel Connect\n{lines}\n",
            log.display()
        );
        let file = directory.join("tinyproxy.conf");
        fs::write(&file, configuration).unwrap();
        let process = Command::new("tinyproxy")
            .arg("-d")
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("tinyproxy is installed: ./ci/test");
        let mut proxy = Tinyproxy {
            process,
            directory,
            port,
        };
        let patience = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < patience, "tinyproxy does not listen");
            let ended = proxy.process.try_wait().unwrap();
            assert!(ended.is_none(), "tinyproxy has ended");
            thread::yield_now();
        }
        proxy
    }

    /// What it has logged of requests.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap()
    }
}

impl Drop for Tinyproxy {
    fn drop(&mut self) {
        // Both fail, harmlessly, when it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

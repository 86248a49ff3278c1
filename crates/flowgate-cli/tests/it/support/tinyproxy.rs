//! tinyproxy, for tests through a real proxy.

use std::fs;

use super::daemon::Daemon;

pub struct Tinyproxy(Daemon);

impl Tinyproxy {
    /// With these lines of configuration.
    pub fn start(lines: &str) -> Tinyproxy {
        Tinyproxy(Daemon::start("tinyproxy", |directory, port, command| {
            let log = directory.join("log");
            let configuration = format!(
                "Port {port}\nListen 127.0.0.1\nTimeout 20\nMaxClients 50\nLogFile \"{}\"\nLogLevel Connect\n{lines}\n",
                log.display()
            );
            let file = directory.join("tinyproxy.conf");
            fs::write(&file, configuration).unwrap();
            command.arg("-d").arg("-c").arg(&file);
        }))
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// What it has logged of requests.
    pub fn log(&self) -> String {
        fs::read_to_string(self.0.directory.join("log")).unwrap()
    }
}

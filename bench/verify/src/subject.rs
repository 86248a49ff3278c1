//! The servers, and the expected results.

use crate::client::{Program, Programs};
use crate::governed::Governed;
use crate::nginx::{Nginx, Setting};
use crate::peer::Peer;
use crate::served::Served;

/// A server with a limiter of a known kind.
pub struct Subject {
    pub name: &'static str,
    pub server: Server,
    pub expected: Expected,
    /// The expected defect, as in verify's JSON.
    pub fault: Option<&'static str>,
    /// Whether it is asked in a quick run, too.
    pub is_quick: bool,
    /// Whether it refills several tokens together, which `--expect` cannot say.
    pub refills_together: bool,
}

/// What a server's limiter is.
#[derive(Clone, Copy)]
pub struct Expected {
    /// As verify's JSON names it.
    pub kind: &'static str,
    /// Rate per second, and burst; `None` without such a limit.
    pub numbers: Option<(f64, f64)>,
}

pub enum Server {
    /// axum behind tower_governor.
    Governed,
    /// `flowgate serve` with this limiter.
    Flowgate(&'static str),
    /// nginx with these directives for the zones, and these for their use.
    Nginx(&'static str, &'static str),
    /// With a limiter of others.
    Peer(Peer),
}

/// One that runs, and is ended when this is dropped.
pub enum Started {
    Governed(Governed),
    Served(Served),
    Nginx(Nginx),
}

/// Expects 100 per second with this burst.
const fn per_second_100(kind: &'static str, burst: u32) -> Expected {
    Expected {
        kind,
        numbers: Some((100.0, burst as f64)),
    }
}

pub const fn subject(name: &'static str, server: Server, expected: Expected) -> Subject {
    Subject {
        name,
        server,
        expected,
        fault: None,
        is_quick: false,
        refills_together: false,
    }
}

impl Subject {
    /// It has this defect, as in verify's JSON.
    pub const fn with(self, fault: &'static str) -> Subject {
        Subject {
            fault: Some(fault),
            ..self
        }
    }

    /// It refills several tokens together.
    pub const fn refilled_together(self) -> Subject {
        Subject {
            refills_together: true,
            ..self
        }
    }

    /// Returns the limit as `--expect` reads it; `None` if it cannot say it.
    pub fn expectation(&self) -> Option<String> {
        self.expected.text().filter(|_| !self.refills_together)
    }
}

impl Expected {
    /// The limit as `--expect` reads it; `None` if it has no algorithm for this kind.
    fn text(&self) -> Option<String> {
        let (rate, burst) = self.numbers?;
        let (word, _) = self.kind.split_once(' ').unwrap_or((self.kind, ""));
        let seconds = burst / rate;
        let window = |name: &str| Some(format!("{name} {burst}/{seconds}s"));
        match word {
            TOKEN => Some(format!("token {rate}/s burst {burst}")),
            QUEUE => Some(format!("queue {rate}/s burst {burst}")),
            "fixed-window" => window("fixed"),
            "sliding-log" => window("sliding"),
            "sliding-counter" => window("approximate"),
            _ => None,
        }
    }
}

const fn flowgate(limiter: &'static str, expected: Expected) -> Subject {
    subject(limiter, Server::Flowgate(limiter), expected)
}

const fn nginx(name: &'static str, limits: &'static str, expected: Expected) -> Subject {
    let zone = "limit_req_zone $binary_remote_addr zone=z:1m rate=100r/s;";
    subject(name, Server::Nginx(zone, limits), expected)
}

pub const TOKEN: &str = "token-bucket";
pub const QUEUE: &str = "leaky-queue";

pub static SUBJECTS: [Subject; 12] = [
    Subject {
        // It tells whole seconds, rounded down: 0.
        fault: Some("early-retry-after"),
        is_quick: true,
        ..subject(
            "axum, tower_governor 0.8.0",
            Server::Governed,
            per_second_100(TOKEN, 20),
        )
    },
    Subject {
        is_quick: true,
        ..flowgate("token 100/s burst 20", per_second_100(TOKEN, 20))
    },
    flowgate("leaky 100/s", per_second_100(TOKEN, 1)),
    flowgate("sliding 100/s", per_second_100("sliding-log", 100)),
    flowgate(
        "fixed 100/s",
        per_second_100("fixed-window first-request", 100),
    ),
    flowgate("aligned 100/s", per_second_100("fixed-window clock", 100)),
    flowgate("approximate 100/s", per_second_100("sliding-counter", 100)),
    flowgate("queue 100/s burst 20", per_second_100(QUEUE, 20)),
    flowgate(
        "none",
        Expected {
            kind: "unlimited",
            numbers: None,
        },
    ),
    // One goes at once, and `burst` more.
    nginx("nginx", "limit_req zone=z;", per_second_100(TOKEN, 1)),
    nginx(
        "nginx burst=20",
        "limit_req zone=z burst=20;",
        per_second_100(QUEUE, 21),
    ),
    nginx(
        "nginx burst=20 nodelay",
        "limit_req zone=z burst=20 nodelay;",
        per_second_100(TOKEN, 21),
    ),
];

impl Subject {
    /// # Errors
    ///
    /// A message if it cannot be started.
    pub fn start(&self, programs: &Programs) -> Result<Started, String> {
        let started = match self.server {
            Server::Governed => Governed::start().map(Started::Governed),
            Server::Flowgate(limiter) => Served::start(programs, limiter).map(Started::Served),
            Server::Peer(peer) => peer.start().map(Started::Served),
            Server::Nginx(zones, limits) => {
                let program = programs.path(Program::Nginx).ok_or("nginx is missing")?;
                let setting = Setting {
                    workers: 1,
                    http: format!("{zones} limit_req_status 429;"),
                    // What `return` answers is not limited.
                    location: format!("{limits} root .; try_files /nginx.conf =404;"),
                };
                Nginx::start(program, &setting).map(Started::Nginx)
            }
        };
        started.map_err(|error| format!("{}: {error}", self.name))
    }
}

impl Started {
    pub fn url(&self) -> String {
        match self {
            Started::Governed(server) => server.url(),
            Started::Served(server) => server.url(),
            Started::Nginx(server) => server.url(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_limit_is_written_as_an_expectation() {
        let text = |kind, rate, burst| {
            let numbers = Some((rate, burst));
            Expected { kind, numbers }.text()
        };
        let expected = "token 100/s burst 20".to_owned();
        assert_eq!(text(TOKEN, 100.0, 20.0), Some(expected));
        let expected = "fixed 50/5s".to_owned();
        assert_eq!(
            text("fixed-window first-request", 10.0, 50.0),
            Some(expected)
        );
        assert_eq!(text("delays", 10.0, 50.0), None);
    }
}

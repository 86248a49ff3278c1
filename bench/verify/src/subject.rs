//! The servers, and the expected results.

use crate::client::{Program, Programs};
use crate::governed::Governed;
use crate::nginx::{Nginx, Setting};
use crate::node::Node;
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
}

/// What a server's limiter is.
#[derive(Clone, Copy)]
pub struct Expected {
    /// As verify's JSON names it; of a block with what it is counted from.
    pub kind: &'static str,
    /// Rate per second, and burst; `None` without such a limit. Of a block, its length in seconds is in place of the rate.
    pub numbers: Option<(f64, f64)>,
}

pub enum Server {
    /// axum behind tower_governor.
    Governed,
    /// `flowgate serve` with this limiter.
    Flowgate(&'static str),
    /// nginx with this after `limit_req zone=…`, at 100 per second.
    Nginx(&'static str),
    /// A script for Node.js with its arguments.
    Node(&'static str, &'static [&'static str]),
}

/// One that runs, and is ended when this is dropped.
pub enum Started {
    Governed(Governed),
    Flowgate(Served),
    Nginx(Nginx),
    Node(Node),
}

/// Expects 100 per second with this burst.
const fn per_second_100(kind: &'static str, burst: u32) -> Expected {
    Expected {
        kind,
        numbers: Some((100.0, burst as f64)),
    }
}

const fn subject(name: &'static str, server: Server, expected: Expected) -> Subject {
    Subject {
        name,
        server,
        expected,
        fault: None,
        is_quick: false,
    }
}

const fn flowgate(limiter: &'static str, expected: Expected) -> Subject {
    subject(limiter, Server::Flowgate(limiter), expected)
}

const TOKEN: &str = "token-bucket";
const QUEUE: &str = "leaky-queue";

pub static SUBJECTS: [Subject; 14] = [
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
    subject("nginx", Server::Nginx(""), per_second_100(TOKEN, 1)),
    subject(
        "nginx burst=20",
        Server::Nginx("burst=20"),
        per_second_100(QUEUE, 21),
    ),
    subject(
        "nginx burst=20 nodelay",
        Server::Nginx("burst=20 nodelay"),
        per_second_100(TOKEN, 21),
    ),
    subject(
        "Fastify, continueExceeding",
        Server::Node("fastify.js", &["10", "1000"]),
        Expected {
            kind: "blocks-after-limit last-refusal",
            numbers: Some((1.0, 10.0)),
        },
    ),
    subject(
        "flexible, blockDuration",
        Server::Node("flexible.js", &["10", "1", "2"]),
        Expected {
            kind: "blocks-after-limit first-refusal",
            numbers: Some((2.0, 10.0)),
        },
    ),
];

impl Subject {
    /// # Errors
    ///
    /// A message if it cannot be started.
    pub fn start(&self, programs: &Programs) -> Result<Started, String> {
        let started = match self.server {
            Server::Governed => Governed::start().map(Started::Governed),
            Server::Flowgate(limiter) => Served::start(programs, limiter).map(Started::Flowgate),
            Server::Nginx(more) => {
                let program = programs.path(Program::Nginx).ok_or("nginx is missing")?;
                let setting = Setting {
                    workers: 1,
                    http: "limit_req_zone $binary_remote_addr zone=z:1m rate=100r/s; \
                           limit_req_status 429;"
                        .to_owned(),
                    // What `return` answers is not limited.
                    location: format!(
                        "limit_req zone=z {more}; root .; try_files /nginx.conf =404;"
                    ),
                };
                Nginx::start(program, &setting).map(Started::Nginx)
            }
            Server::Node(script, arguments) => Node::start(script, arguments).map(Started::Node),
        };
        started.map_err(|error| format!("{}: {error}", self.name))
    }
}

impl Started {
    pub fn url(&self) -> String {
        match self {
            Started::Governed(server) => server.url(),
            Started::Flowgate(server) => server.url(),
            Started::Nginx(server) => server.url(),
            Started::Node(server) => server.url(),
        }
    }
}

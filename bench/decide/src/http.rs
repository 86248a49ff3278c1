//! HTTP/1.1 with JSON: 50 connections, one request in flight each.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use flowgate_load::HttpVersion;

use crate::clients::Requests;
use crate::lap::{self, Lap, Row, Subject};
use crate::paced::{self, Paced};
use crate::process::{Cores, Server};
use crate::resp::throttlecrab;
use crate::rls::start;
use crate::serve::{Kind, LIMIT};
use crate::shared::outcome::Verdict;

const FLOWGATE: &str = "flowgate decide, POST /v1/ask";
const ENVOY: &str = "flowgate decide, POST /json";
const HYPER: &str = "bare hyper";
const THROTTLECRAB: &str = "throttlecrab-server, POST /throttle";
pub const SUBJECTS: [&str; 4] = [HYPER, FLOWGATE, ENVOY, THROTTLECRAB];

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    pub rows: Vec<Row>,
    /// Of `POST /v1/ask`, at half of the answers per second that it can give.
    pub p99: Option<Duration>,
}

/// Measures all servers. throttlecrab is left out if it is not installed.
///
/// # Errors
///
/// A message if one fails.
pub fn measure(cores: Cores, quick: bool, peer: &Path, folder: &Path) -> Result<Measured, String> {
    let hyper = start(Kind::Hyper, cores, None)?;
    let flowgate = start(Kind::Flowgate, cores, None)?;
    let throttlecrab = throttlecrab(peer, cores, "http");
    if let Err(why) = &throttlecrab {
        println!("\n{THROTTLECRAB}: left out, because {why}");
    }
    let body = |name: &str, text: &str| {
        let file = folder.join(name);
        let written = std::fs::write(&file, text);
        written.map(|()| file).map_err(|error| error.to_string())
    };
    const ASK: &str = r#"{"limit":"users","key":"alice","n":1}"#;
    let ask = body("ask", ASK)?;
    let entries = r#"[{"key":"user","value":"alice"}]"#;
    let envoy = body(
        "json",
        &format!(r#"{{"domain":"api","descriptors":[{{"entries":{entries}}}]}}"#),
    )?;
    let quota = format!(r#""max_burst":{LIMIT},"count_per_period":{LIMIT},"period":1"#);
    let throttle = body("throttle", &format!(r#"{{"key":"alice",{quota}}}"#))?;
    // The door of HTTP is the second.
    let subject = |name, server, door, path, body| Subject {
        name,
        run: Box::new(move |window| {
            let mut address = Server::address(server);
            address.set_port(address.port() + door);
            let requests = Requests {
                url: format!("http://{address}{path}"),
                body,
                header: "content-type: application/json",
                connections: 50,
                streams: None,
            };
            Lap::of(server, || requests.run(cores.others, window))
        }),
    };
    let mut subjects = vec![
        subject(HYPER, &hyper, 0, "/", &ask),
        subject(FLOWGATE, &flowgate, 1, "/v1/ask", &ask),
        subject(ENVOY, &flowgate, 1, "/json", &envoy),
    ];
    if let Ok(server) = &throttlecrab {
        subjects.push(subject(THROTTLECRAB, server, 0, "/throttle", &throttle));
    }
    let rows = lap::measure(&subjects, quick)?;
    let mut address = flowgate.address();
    address.set_port(address.port() + 1);
    let request = Paced {
        url: format!("http://{address}/v1/ask"),
        version: HttpVersion::Http1,
        connections: const { NonZeroUsize::new(50).unwrap() },
        streams: NonZeroUsize::MIN,
        headers: vec![("content-type", "application/json")],
        body: ASK.into(),
    };
    let half = rows[1].per_second.p50 / 2.0;
    let run = || paced::run(&request, cores.others, half as u64, paced::window(quick));
    let p99 = paced::measure("http", run);
    Ok(Measured { rows, p99 })
}

pub fn verdicts(measured: &Measured) -> Vec<Verdict> {
    let Measured { rows, p99 } = measured;
    let of = |name| rows.iter().find(|row| row.subject == name);
    let goal = |other, least| {
        let over = || Some(of(FLOWGATE)?.over(of(other)?, |lap| lap.per_cpu_second));
        let goal = format!("http: at least {least} x the answers of {other}");
        Verdict::at_least(goal, over(), least, " x")
    };
    vec![
        goal(HYPER, 0.8),
        goal(THROTTLECRAB, 1.5),
        paced::verdict("http", *p99),
    ]
}

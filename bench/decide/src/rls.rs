//! Envoy's question over gRPC: 4 connections with 32 requests in flight each.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use flowgate_load::HttpVersion;

use crate::clients::Requests;
use crate::lap::{self, Lap, Row, Subject};
use crate::messages::{self, RateLimitRequest};
use crate::paced::{self, Paced};
use crate::process::{Cores, Server, free_port, pinned};
use crate::serve::Kind;
use crate::shared::outcome::Verdict;
use crate::store::Store;

const TONIC: &str = "bare tonic";
const FLOWGATE: &str = "flowgate decide";
const LIMITADOR: &str = "limitador, behind tonic";
const SHARED: &str = "flowgate decide, in Redis";
pub const SUBJECTS: [&str; 4] = [TONIC, FLOWGATE, LIMITADOR, SHARED];

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    pub rows: Vec<Row>,
    /// At half of the answers per second that it can give.
    pub p99: Option<Duration>,
}

/// Starts a server of this program on a core of its own.
///
/// # Errors
///
/// A message if it does not start.
pub fn start(kind: Kind, cores: Cores, store: Option<&str>) -> Result<Server, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let port = free_port()?;
    let mut command = pinned(cores.server, &program.display().to_string());
    command.args(["--serve", kind.name(), "--port", &port.to_string()]);
    if let Some(store) = store {
        command.args(["--store", store]);
    }
    Server::start(command, port)
}

/// Measures all servers.
///
/// # Errors
///
/// A message if one fails.
pub fn measure(cores: Cores, quick: bool, folder: &Path) -> Result<Measured, String> {
    let body = folder.join("request");
    std::fs::write(&body, RateLimitRequest::of_a_user().framed())
        .map_err(|error| error.to_string())?;
    let requests = |server: &Server| Requests {
        url: format!("http://{}{}", server.address(), messages::PATH),
        body: &body,
        header: "content-type: application/grpc",
        connections: 4,
        streams: Some(32),
    };
    let subject = |name, server| Subject {
        name,
        run: Box::new(move |window| Lap::of(server, || requests(server).run(cores.others, window))),
    };
    let [tonic, flowgate, limitador] =
        [Kind::Tonic, Kind::Flowgate, Kind::Limitador].map(|kind| start(kind, cores, None));
    let (tonic, flowgate, limitador) = (tonic?, flowgate?, limitador?);
    let store = Store::start(cores.others);
    let shared = match &store {
        Ok(store) => Some(start(Kind::Flowgate, cores, Some(&store.url()))?),
        Err(why) => {
            println!("\n{SHARED}: left out, because {why}");
            None
        }
    };
    let mut subjects = vec![
        subject(TONIC, &tonic),
        subject(FLOWGATE, &flowgate),
        subject(LIMITADOR, &limitador),
    ];
    subjects.extend(shared.iter().map(|server| subject(SHARED, server)));
    let rows = lap::measure(&subjects, quick)?;
    let request = Paced {
        url: format!("http://{}{}", flowgate.address(), messages::PATH),
        version: HttpVersion::Http2,
        connections: const { NonZeroUsize::new(4).unwrap() },
        streams: const { NonZeroUsize::new(32).unwrap() },
        headers: vec![("content-type", "application/grpc"), ("te", "trailers")],
        body: RateLimitRequest::of_a_user().framed(),
    };
    let half = rows[1].per_second.p50 / 2.0;
    let run = || paced::run(&request, cores.others, half as u64, paced::window(quick));
    let p99 = paced::measure("rls", run);
    Ok(Measured { rows, p99 })
}

pub fn verdicts(measured: &Measured) -> Vec<Verdict> {
    let Measured { rows, p99 } = measured;
    let [tonic, flowgate, limitador, ..] = &rows[..] else {
        return Vec::new();
    };
    vec![
        Verdict::at_least(
            "rls: at least 150,000 answers per second of processor time".to_owned(),
            Some(flowgate.per_cpu_second.p50),
            150_000.0,
            "/s",
        ),
        Verdict::at_least(
            format!("rls: at least 0.8 x the answers of {TONIC}"),
            Some(flowgate.over(tonic, |lap| lap.per_cpu_second)),
            0.8,
            " x",
        ),
        Verdict::at_least(
            format!("rls: at least 1.5 x the answers of {LIMITADOR}"),
            Some(flowgate.over(limitador, |lap| lap.per_cpu_second)),
            1.5,
            " x",
        ),
        paced::verdict("rls", *p99),
    ]
}

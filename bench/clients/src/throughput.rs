//! The most that each client gets out of one nginx, by HTTP/1.1 and by HTTP/2.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::client::{Failure, Program, Programs};
use crate::nginx::{Nginx, Setting};
use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;
use crate::subject::{OURS, Subject, words};

const CONNECTIONS: u32 = 50;
const HTTP2_CONNECTIONS: u32 = 4;
const STREAMS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Protocol {
    #[serde(rename = "HTTP/1.1")]
    Http1,
    #[serde(rename = "HTTP/2")]
    Http2,
}

impl Protocol {
    const ALL: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];

    fn clients(self) -> Vec<Subject<Duration>> {
        match self {
            Protocol::Http1 => http1_clients(),
            Protocol::Http2 => http2_clients(),
        }
    }

    fn url(self, nginx: &Nginx) -> String {
        match self {
            Protocol::Http1 => nginx.url(),
            Protocol::Http2 => nginx.http2_url(),
        }
    }

    fn title(self) -> String {
        match self {
            Protocol::Http1 => format!("HTTP/1.1, {CONNECTIONS} connections"),
            Protocol::Http2 => {
                format!("HTTP/2, {HTTP2_CONNECTIONS} connections of {STREAMS} streams")
            }
        }
    }
}

fn subject(
    name: &'static str,
    program: Program,
    arguments: fn(&Duration, &str) -> Vec<String>,
) -> Subject<Duration> {
    Subject {
        name,
        program,
        arguments,
    }
}

fn http2_clients() -> Vec<Subject<Duration>> {
    vec![
        subject(OURS, Program::Flowgate, |span, url| {
            words(&format!(
                "load {url} --http2 -c {HTTP2_CONNECTIONS} --streams {STREAMS} -z {span:?}"
            ))
        }),
        subject("h2load, 1 thread", Program::H2load, |span, url| {
            let seconds = span.as_secs();
            words(&format!(
                "-t1 -c{HTTP2_CONNECTIONS} -m{STREAMS} -D{seconds} {url}"
            ))
        }),
        subject("h2load, 2 threads", Program::H2load, |span, url| {
            let seconds = span.as_secs();
            words(&format!(
                "-t2 -c{HTTP2_CONNECTIONS} -m{STREAMS} -D{seconds} {url}"
            ))
        }),
        subject("oha", Program::Oha, |span, url| {
            words(&format!(
                "--no-tui --http2 -c {HTTP2_CONNECTIONS} -p {STREAMS} -z {span:?} {url}"
            ))
        }),
    ]
}

fn http1_clients() -> Vec<Subject<Duration>> {
    vec![
        subject(OURS, Program::Flowgate, |span, url| {
            words(&format!("load {url} -c {CONNECTIONS} -z {span:?}"))
        }),
        subject("wrk, 1 thread", Program::Wrk, |span, url| {
            words(&format!("-t1 -c{CONNECTIONS} -d{span:?} {url}"))
        }),
        subject("wrk, 2 threads", Program::Wrk, |span, url| {
            words(&format!("-t2 -c{CONNECTIONS} -d{span:?} {url}"))
        }),
        subject("oha", Program::Oha, |span, url| {
            words(&format!("--no-tui -c {CONNECTIONS} -z {span:?} {url}"))
        }),
        subject("hey", Program::Hey, |span, url| {
            words(&format!("-c {CONNECTIONS} -z {span:?} {url}"))
        }),
    ]
}

/// One subject.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    protocol: Protocol,
    pub subject: &'static str,
    /// Requests a second, in each round.
    pub rounds: Vec<f64>,
    pub per_second: Option<Spread>,
    /// Ours over this, round by round.
    pub ratio: Option<Spread>,
    /// Why there are no more rounds.
    pub failure: Option<Failure>,
}

/// The names of all that can be measured.
pub fn subjects() -> Vec<&'static str> {
    let clients = Protocol::ALL.into_iter().flat_map(Protocol::clients);
    clients.map(|client| client.name).collect()
}

/// Runs the installed and selected clients in turn against one nginx, first by HTTP/1.1.
///
/// Each round starts with another client.
///
/// # Errors
///
/// Returns a message if nginx fails.
pub fn measure(programs: &Programs, quick: bool, only: Option<&str>) -> Result<Vec<Row>, String> {
    let Some(nginx) = programs.path(Program::Nginx) else {
        return Ok(Vec::new());
    };
    let setting = Setting {
        workers: 2,
        location: "return 200 'ok';".to_owned(),
        ..Setting::default()
    };
    let nginx = Nginx::start(nginx, &setting)?;
    let mut rows = Vec::new();
    for protocol in Protocol::ALL {
        let mut clients = protocol.clients();
        clients.retain(|client| programs.has(client.program) && client.is_chosen(only));
        rows.extend(measure_clients(
            programs, &nginx, protocol, &clients, quick,
        )?);
    }
    Ok(rows)
}

fn measure_clients(
    programs: &Programs,
    nginx: &Nginx,
    protocol: Protocol,
    clients: &[Subject<Duration>],
    quick: bool,
) -> Result<Vec<Row>, String> {
    let (rounds, seconds) = if quick { (1, 1) } else { (5, 10) };
    let span = Duration::from_secs(seconds);
    let row = |client: &Subject<Duration>| Row {
        protocol,
        subject: client.name,
        rounds: Vec::new(),
        per_second: None,
        ratio: None,
        failure: None,
    };
    let mut rows: Vec<Row> = clients.iter().map(row).collect();
    for round in 0..rounds {
        for step in 0..clients.len() {
            let index = (round + step) % clients.len();
            let (client, row) = (&clients[index], &mut rows[index]);
            if row.failure.is_some() {
                continue;
            }
            let before = nginx.requests()?;
            let arguments = (client.arguments)(&span, &protocol.url(nginx));
            match programs.run(client.program, &arguments, span) {
                // All but the question how many there were.
                Ok(()) => {
                    let requests = nginx.requests()? - before - 1;
                    row.rounds.push(requests as f64 / span.as_secs_f64());
                }
                Err(failure) => row.failure = Some(failure),
            }
        }
    }
    Ok(with_ratios(rows))
}

fn with_ratios(mut rows: Vec<Row>) -> Vec<Row> {
    let spread = |values: Vec<f64>| (!values.is_empty()).then(|| Spread::of(values));
    let ours = rows.iter().find(|row| row.subject == OURS);
    let ours = ours.map_or(Vec::new(), |row| row.rounds.clone());
    for row in &mut rows {
        // Who failed in a round was not asked again, so that both are of the same rounds.
        let pairs = ours.iter().zip(&row.rounds);
        row.ratio = spread(pairs.map(|(our, their)| our / their).collect());
        row.per_second = spread(row.rounds.clone());
    }
    rows
}

/// A table for each protocol.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut protocol = None;
    for row in rows {
        if protocol != Some(row.protocol) {
            protocol = Some(row.protocol);
            let _ = writeln!(
                text,
                "\nthroughput: nginx with 2 workers, {}\n  {:<26} {:>9} {:>16} {:>11} {:>20} {:>7}",
                row.protocol.title(),
                "",
                "ours/it",
                "p10..p90",
                "requests/s",
                "p10..p90",
                "rounds"
            );
        }
        let _ = write!(text, "  {:<26} ", row.subject);
        if let Some(per_second) = row.per_second {
            let (ratio, range) = row.ratio.map_or(("-".to_owned(), "-".to_owned()), |ratio| {
                let range = format!("{:.3}..{:.3}", ratio.p10, ratio.p90);
                (format!("{:.3}", ratio.p50), range)
            });
            let Spread { p10, p50, p90 } = per_second;
            let rates = format!("{p10:.0}..{p90:.0}");
            let _ = write!(
                text,
                "{ratio:>9} {range:>16} {p50:>11.0} {rates:>20} {:>7} ",
                row.rounds.len()
            );
        }
        if let Some(failure) = &row.failure {
            let _ = write!(text, "{failure}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    if !rows.is_empty() {
        text.push_str("requests by nginx's own count, over the time that each was told to take\n");
    }
    text
}

/// The goals for ours.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let goals = [
        (Protocol::Http1, "oha", 1.0),
        (Protocol::Http1, "wrk, 1 thread", 1.25),
        (Protocol::Http1, "wrk, 2 threads", 0.85),
        (Protocol::Http2, "h2load, 1 thread", 1.0),
    ];
    let verdicts = goals.into_iter().map(|(protocol, peer, least)| {
        let is_it = |row: &&Row| row.protocol == protocol && row.subject == peer;
        let row = rows.iter().find(is_it);
        let ratio = row.and_then(|row| row.ratio).map(|ratio| ratio.p50);
        let goal = format!("throughput: at least {least:.2} x {peer}");
        Verdict::at_least(goal, ratio, least, " x")
    });
    verdicts.collect()
}

/// Returns a message if the run was noisy: the rounds of wrk or h2load differ.
pub fn disturbance(rows: &[Row]) -> Option<String> {
    const CALM: f64 = 1.15;
    let mut rows = rows.iter().filter(|row| {
        ["wrk", "h2load"]
            .iter()
            .any(|peer| row.subject.starts_with(peer))
    });
    rows.find_map(|row| {
        let Spread { p10, p90, .. } = row.per_second?;
        let (subject, is_calm) = (row.subject, p90 <= CALM * p10);
        (!is_calm).then(|| format!("{subject} reached {p10:.0}..{p90:.0}/s"))
    })
}

/// How ours failed; arguments that it does not know yet are no failure.
pub fn failures(rows: &[Row]) -> Vec<String> {
    let ours = rows.iter().filter(|row| row.subject == OURS);
    let failures = ours.filter_map(|row| row.failure.as_ref());
    let failures = failures.filter(|failure| !failure.is_unsupported);
    failures
        .map(|failure| format!("throughput: {}", failure.why))
        .collect()
}

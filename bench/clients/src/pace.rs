//! Every client at the same rates, judged by when its requests reach an origin of our own.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::arrivals::Pace;
use crate::client::{Failure, Program, Programs};
use crate::nobody;
use crate::origin::Origin;
use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;
use crate::subject::{OURS, Subject, is_chosen, words};

/// The best that a sender can do here: what it misses is the machine's, or the origin's.
const NOBODY: &str = "nobody: spin on the clock";

/// Number of concurrent connections, unless a client's row says otherwise.
const CONNECTIONS: u32 = 20;

/// The operation of a client.
#[derive(Clone, Copy, Debug)]
struct Ask {
    rate: u32,
    span: Duration,
}

impl Ask {
    fn requests(self) -> u64 {
        u64::from(self.rate) * self.span.as_millis() as u64 / 1_000
    }
}

/// Which rates are measured, how long, and how often.
struct Plan {
    rates: &'static [u32],
    span: Duration,
    rounds: usize,
}

impl Plan {
    fn new(quick: bool) -> Plan {
        if quick {
            Plan {
                rates: &[1_000],
                span: Duration::from_secs(2),
                rounds: 1,
            }
        } else {
            Plan {
                rates: &[100, 1_000, 10_000],
                span: Duration::from_secs(10),
                rounds: 3,
            }
        }
    }
}

fn clients() -> Vec<Subject<Ask>> {
    let subject = |name, program, arguments| Subject {
        name,
        program,
        arguments,
    };
    vec![
        subject(OURS, Program::Flowgate, |ask, url| {
            let Ask { rate, span } = ask;
            words(&format!(
                "load -q {rate} -z {span:?} -c {CONNECTIONS} {url}"
            ))
        }),
        subject("oha", Program::Oha, |ask, url| {
            let Ask { rate, span } = ask;
            words(&format!(
                "--no-tui -q {rate} -z {span:?} -c {CONNECTIONS} {url}"
            ))
        }),
        // Its -q is for each worker, of which there is one for each connection.
        subject("hey, 20 workers", Program::Hey, |ask, url| {
            let (each, span) = (f64::from(ask.rate) / f64::from(CONNECTIONS), ask.span);
            words(&format!("-q {each} -z {span:?} -c {CONNECTIONS} {url}"))
        }),
        subject("hey, 1 worker", Program::Hey, |ask, url| {
            let Ask { rate, span } = ask;
            words(&format!("-q {rate} -z {span:?} -c 1 {url}"))
        }),
    ]
}

/// One subject at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub rate: u32,
    pub span_s: f64,
    pub asked: u64,
    pub rounds: Vec<Pace>,
    /// The median error over ours, round by round.
    pub p50_ratio: Option<Spread>,
    /// The same of the 99th percentile.
    pub p99_ratio: Option<Spread>,
    /// Why there are no more rounds.
    pub failure: Option<Failure>,
}

impl Row {
    /// The median over the rounds.
    fn median(&self, value: impl Fn(&Pace) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.rounds.iter().map(value).collect();
        (!values.is_empty()).then(|| Spread::of(values).p50)
    }
}

/// The names of all that can be measured.
pub fn subjects() -> Vec<&'static str> {
    let clients = clients().into_iter().map(|client| client.name);
    [NOBODY].into_iter().chain(clients).collect()
}

/// Measures the installed and selected clients in turn. Each round starts with another one.
pub fn measure(programs: &Programs, quick: bool, only: Option<&str>) -> Vec<Row> {
    let mut clients = clients();
    clients.retain(|client| programs.has(client.program) && client.is_chosen(only));
    let client = |name: &str| clients.iter().find(|client| client.name == name);
    let names = subjects();
    let names: Vec<_> = names
        .into_iter()
        .filter(|&name| client(name).is_some() || name == NOBODY && is_chosen(name, only))
        .collect();
    let plan = Plan::new(quick);
    let mut rows = Vec::new();
    for &rate in plan.rates {
        let ask = Ask {
            rate,
            span: plan.span,
        };
        let mut of_rate: Vec<Row> = names.iter().map(|name| empty_row(name, ask)).collect();
        for round in 0..plan.rounds {
            for step in 0..of_rate.len() {
                let index = (round + step) % names.len();
                let row = &mut of_rate[index];
                if row.failure.is_none() {
                    match turn(programs, client(row.subject), ask) {
                        Ok(pace) => row.rounds.push(pace),
                        Err(failure) => row.failure = Some(failure),
                    }
                }
            }
        }
        rows.extend(with_ratios(of_rate));
    }
    rows
}

fn empty_row(subject: &'static str, ask: Ask) -> Row {
    Row {
        subject,
        rate: ask.rate,
        span_s: ask.span.as_secs_f64(),
        asked: ask.requests(),
        rounds: Vec::new(),
        p50_ratio: None,
        p99_ratio: None,
        failure: None,
    }
}

/// One run against an origin of its own; without a client the thread of ours sends.
fn turn(programs: &Programs, client: Option<&Subject<Ask>>, ask: Ask) -> Result<Pace, Failure> {
    let origin = Origin::start(ask.requests())
        .map_err(|error| format!("the origin cannot be started: {error}"))?;
    match client {
        None => {
            nobody::send(origin.port(), ask.rate, ask.span).map_err(|error| error.to_string())?
        }
        Some(client) => {
            let arguments = (client.arguments)(&ask, &origin.url());
            programs.run(client.program, &arguments, ask.span)?;
        }
    }
    let arrivals = origin.finish();
    let pace = arrivals.pace(ask.rate);
    let pace = pace.ok_or_else(|| format!("{} requests arrived", arrivals.at_ns.len()))?;
    Ok(pace)
}

fn with_ratios(mut rows: Vec<Row>) -> Vec<Row> {
    let ours = rows.iter().find(|row| row.subject == OURS);
    let ours = ours.map_or(Vec::new(), |row| row.rounds.clone());
    for row in &mut rows {
        // Who failed in a round was not asked again, so that both are of the same rounds.
        let pairs = || row.rounds.iter().zip(&ours);
        let ratio = |value: fn(&Pace) -> f64| {
            let ratios: Vec<f64> = pairs()
                .map(|(pace, our)| value(pace) / value(our))
                .collect();
            (!ratios.is_empty()).then(|| Spread::of(ratios))
        };
        let ratios = (
            ratio(|pace| pace.error_us.p50),
            ratio(|pace| pace.error_us.p99),
        );
        (row.p50_ratio, row.p99_ratio) = ratios;
    }
    rows
}

/// A table per rate.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut rate = None;
    for row in rows {
        if rate != Some(row.rate) {
            rate = Some(row.rate);
            let (rate, span, asked) = (row.rate, row.span_s, row.asked);
            let _ = writeln!(text, "\npace: {rate}/s for {span} s, {asked} requests");
            let _ = writeln!(
                text,
                "  {:<26} {:>9} {:>16} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8} {:>6}",
                "",
                "p50/ours",
                "p10..p90",
                "p99/ours",
                "err p50",
                "err p99",
                "rate ppm",
                "gap p50",
                "gap p99",
                "gap min",
                "busiest",
                "within 1",
                "arrived",
                "conns",
            );
        }
        line(&mut text, row);
    }
    text.push_str(
        "median of the rounds; err: |arrival - its place on the even grid| in us; rate: |achieved - rate| over \
         the\nintervals, in millionths; gap: between neighbours, in us; busiest: most in 100 ms; within 1: \
         windows of 100 ms\nwith as many as the rate says, give or take one\n",
    );
    text
}

fn line(text: &mut String, row: &Row) {
    let _ = write!(text, "  {:<26} ", row.subject);
    let median = |value: fn(&Pace) -> f64| row.median(value).unwrap_or_default();
    if !row.rounds.is_empty() {
        let (p50, range) = row
            .p50_ratio
            .map_or(("-".to_owned(), "-".to_owned()), |ratio| {
                let range = format!("{:.2}..{:.2}", ratio.p10, ratio.p90);
                (format!("{:.2}", ratio.p50), range)
            });
        let p99 = row
            .p99_ratio
            .map_or("-".to_owned(), |ratio| format!("{:.2}", ratio.p50));
        let _ = write!(
            text,
            "{p50:>9} {range:>16} {p99:>9} {:>9.1} {:>9.1} {:>10.1} {:>9.1} {:>9.1} {:>9.1} {:>8} {:>7.1} % {:>8} {:>6}",
            median(|pace| pace.error_us.p50),
            median(|pace| pace.error_us.p99),
            median(|pace| pace.rate_error_ppm),
            median(|pace| pace.gap_us.p50),
            median(|pace| pace.gap_us.p99),
            median(|pace| pace.smallest_gap_us),
            median(|pace| pace.busiest as f64),
            100.0 * median(|pace| pace.windows_within_one),
            median(|pace| pace.arrivals as f64),
            median(|pace| pace.connections as f64),
        );
    }
    if let Some(failure) = &row.failure {
        let _ = write!(text, "{failure}");
    }
    text.push('\n');
}

/// The goals for ours.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let find = |subject: &str, rate| {
        let mut rows = rows.iter();
        rows.find(|row| row.subject == subject && row.rate == rate)
    };
    let mut verdicts = Vec::new();
    for (rate, most_us) in [(100, 30.0), (1_000, 10.0), (10_000, 10.0)] {
        let ours = |value: fn(&Pace) -> f64| find(OURS, rate)?.median(value);
        let error = format!("pace: median error of arrival at most {most_us} us; {rate}/s");
        let off = format!("pace: rate within 100 ppm (0.01 %); {rate}/s");
        let unanswered = format!("pace: as many arrive as were asked for; {rate}/s");
        let short = find(OURS, rate).and_then(|row| {
            let asked = row.asked;
            row.median(move |pace| pace.arrivals.abs_diff(asked) as f64)
        });
        verdicts.extend([
            Verdict::at_most(off, ours(|pace| pace.rate_error_ppm), 100.0, " ppm"),
            Verdict::at_most(error, ours(|pace| pace.error_us.p50), most_us, " us"),
            Verdict::at_most(unanswered, short, 0.0, " too many or too few"),
        ]);
    }
    let rate = 1_000;
    for peer in subjects() {
        if [OURS, NOBODY].contains(&peer) {
            continue;
        }
        let goal = format!("pace: median error at least 10 times tighter than {peer}; {rate}/s");
        let ratio = find(peer, rate).and_then(|row| row.p50_ratio);
        verdicts.push(Verdict::at_least(
            goal,
            ratio.map(|ratio| ratio.p50),
            10.0,
            " x",
        ));
    }
    let within =
        find(OURS, rate).and_then(|row| row.median(|pace| 100.0 * pace.windows_within_one));
    let goal =
        format!("pace: at least 99 % of windows of 100 ms within 1 of what is due; {rate}/s");
    verdicts.push(Verdict::at_least(goal, within, 99.0, " %"));
    verdicts
}

/// Returns a message for each rate at which even the spinning thread missed its times.
///
/// Rates are measured one after the other, so the rows of the others are not affected.
pub fn disturbances(rows: &[Row]) -> Vec<String> {
    const CALM_US: f64 = 100.0;
    let spinning = rows.iter().filter(|row| row.subject == NOBODY);
    let noisy = spinning.filter_map(|row| {
        let p99 = row.median(|pace| pace.error_us.p99)?;
        let rate = row.rate;
        (p99 > CALM_US)
            .then(|| format!("the rows of {rate}/s: spinning, 99 % of errors up to {p99:.1} us"))
    });
    noisy.collect()
}

/// How ours failed.
pub fn failures(rows: &[Row]) -> Vec<String> {
    let ours = rows.iter().filter(|row| row.subject == OURS);
    let failures = ours.filter_map(|row| {
        let why = &row.failure.as_ref()?.why;
        Some(format!("pace, {}/s: {why}", row.rate))
    });
    failures.collect()
}

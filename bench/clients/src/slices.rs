//! Slices of one schedule, sent by several processes of this machine, beside one process that sends all of it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::arrivals::Pace;
use crate::client::{Program, Programs};
use crate::origin::Origin;
use crate::running::Running;
use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;
use crate::subject::words;

const RATE: u32 = 20_000;
const SLICES: u32 = 4;
/// Of all slices together.
const CONNECTIONS: u32 = 20;
/// Until all processes are ready to send.
const AHEAD: Duration = Duration::from_secs(2);

const ONE: &str = "one process";
const FOUR: &str = "4 slices";

/// Both subjects.
pub const SUBJECTS: [&str; 2] = [ONE, FOUR];

/// One subject.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub asked: u64,
    pub rounds: Vec<Pace>,
    /// The median error over that of [`ONE`], round by round.
    pub p50_ratio: Option<Spread>,
}

impl Row {
    fn median(&self, value: impl Fn(&Pace) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.rounds.iter().map(value).collect();
        (!values.is_empty()).then(|| Spread::of(values).p50)
    }
}

/// Lets one process and four slices send the same schedule, in turn.
///
/// # Errors
///
/// A message if flowgate fails.
pub fn measure(programs: &Programs, quick: bool) -> Result<Vec<Row>, String> {
    let (rounds, seconds) = if quick { (1, 2) } else { (5, 10) };
    let asked = u64::from(RATE) * seconds;
    let mut rows = SUBJECTS.map(|subject| Row {
        subject,
        asked,
        rounds: Vec::new(),
        p50_ratio: None,
    });
    for round in 0..rounds {
        for step in 0..rows.len() {
            let row = &mut rows[(round + step) % SUBJECTS.len()];
            let count = if row.subject == ONE { 1 } else { SLICES };
            let pace = turn(programs, count, asked, Duration::from_secs(seconds))?;
            row.rounds.push(pace);
        }
    }
    let ones: Vec<f64> = rows[0]
        .rounds
        .iter()
        .map(|pace| pace.error_us.p50)
        .collect();
    for row in &mut rows {
        let errors = row.rounds.iter().map(|pace| pace.error_us.p50);
        let ratios = errors.zip(&ones).map(|(error, one)| error / one);
        row.p50_ratio = Some(Spread::of(ratios.collect()));
    }
    Ok(rows.into())
}

/// Has the schedule sent to an origin by `count` processes.
fn turn(programs: &Programs, count: u32, asked: u64, span: Duration) -> Result<Pace, String> {
    let flowgate = programs.path(Program::Flowgate);
    let flowgate = flowgate.ok_or("flowgate is missing")?;
    let origin = Origin::start(asked).map_err(|error| format!("the origin: {error}"))?;
    let (url, each) = (origin.url(), CONNECTIONS / count);
    let start = humantime::format_rfc3339_millis(SystemTime::now() + AHEAD);
    let mut running = Vec::new();
    for slice in 1..=count {
        let slice = match count {
            1 => String::new(),
            count => format!("--slice {slice}/{count} --start-at {start}"),
        };
        let arguments = format!("load -q {RATE} -z {span:?} -c {each} {slice} {url}");
        running.push(Running::start(flowgate, &words(&arguments))?);
    }
    for process in &mut running {
        let status = process.wait(AHEAD + span + Duration::from_secs(20))?;
        // 4: the rate was not held by the process's own measure, which is not the question here.
        if !matches!(status.code(), Some(0 | 4)) {
            let printed = process.printed();
            return Err(format!("slices: {status}: {}", printed.trim()));
        }
    }
    let pace = origin.finish().pace(RATE);
    pace.ok_or_else(|| "slices: nothing arrived".to_owned())
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!("\nslices: {RATE}/s over {CONNECTIONS} connections\n");
    let _ = writeln!(
        text,
        "  {:<14} {:>8} {:>14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "",
        "err/one",
        "p10..p90",
        "err p50",
        "err p99",
        "rate ppm",
        "gap p50",
        "gap p99",
        "arrived"
    );
    for row in rows {
        let median = |value: fn(&Pace) -> f64| row.median(value).unwrap_or_default();
        let Some(ratio) = row.p50_ratio else { continue };
        let _ = writeln!(
            text,
            "  {:<14} {:>8.2} {:>14} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9}",
            row.subject,
            ratio.p50,
            format!("{:.2}..{:.2}", ratio.p10, ratio.p90),
            median(|pace| pace.error_us.p50),
            median(|pace| pace.error_us.p99),
            median(|pace| pace.rate_error_ppm),
            median(|pace| pace.gap_us.p50),
            median(|pace| pace.gap_us.p99),
            median(|pace| pace.arrivals as f64),
        );
    }
    text
}

pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let Some(slices) = rows.iter().find(|row| row.subject == FOUR) else {
        return Vec::new();
    };
    let asked = slices.asked;
    let ratio = slices.p50_ratio.map(|ratio| ratio.p50);
    vec![
        Verdict::at_most(
            format!("slices: rate within 100 ppm (0.01 %); {FOUR} at {RATE}/s"),
            slices.median(|pace| pace.rate_error_ppm),
            100.0,
            " ppm",
        ),
        Verdict::at_most(
            format!("slices: as many arrive as were asked for; {FOUR} at {RATE}/s"),
            slices.median(move |pace| pace.arrivals.abs_diff(asked) as f64),
            0.0,
            " too many or too few",
        ),
        Verdict::at_most(
            format!("slices: median error at most 1.1 x that of {ONE}"),
            ratio,
            1.1,
            " x",
        ),
    ]
}

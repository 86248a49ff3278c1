//! `flowgate simulate`: runs the limits of a scenario, and writes what came of them.

mod report;
pub(crate) mod suggestion;

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flowgate_sim::{
    LimitConfig, LogProgress, PreparedScenario, RunOutcome, RunProgress, Scenario, ScenarioError,
};

use crate::exit::{Exit, Refusal, complain, print};
use crate::interrupt;
use crate::reports::Sink;
use report::{Comparison, Description, Report, TextStyle};

/// Time between two lines of progress.
const BETWEEN: Duration = Duration::from_millis(200);
/// A run that is faster shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pixels of a PNG file for each unit of the SVG.
const SCALE: f32 = 2.0;

/// Open destinations of the report.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) html: Option<Sink>,
    pub(crate) svg: Option<Sink>,
    pub(crate) png: Option<Sink>,
    pub(crate) json: Option<Sink>,
    pub(crate) csv: Option<Sink>,
    /// Whether the table is not printed.
    pub(crate) is_quiet: bool,
}

/// Runs each limit of the scenario, and writes the reports.
///
/// Ctrl-C ends the runs, and what there is by then is written. While a log is read, it ends the reading, and the runs are
/// about what was read.
pub(crate) fn show(scenario: &Scenario, reports: Reports) -> Result<Exit, Refusal> {
    let session = Session::new(scenario, reports.is_quiet)?;
    let mut outcomes: Vec<RunOutcome> = Vec::new();
    for limit in &scenario.limits {
        if session.is_ended() {
            break;
        }
        outcomes.push(session.run(limit).map_err(usage)?);
    }
    let name = |key| session.prepared.key_name(key).into_owned();
    reports.write(&Comparison::new(&description(scenario), &outcomes, name))?;
    Ok(session.exit(Exit::Success))
}

/// A scenario whose runs show their progress, and end at Ctrl-C.
struct Session {
    prepared: PreparedScenario,
    /// Whether Ctrl-C ended the reading of a log.
    is_cut: bool,
    /// Whether there was a Ctrl-C since.
    interrupt: Arc<AtomicBool>,
    status: Arc<Status>,
}

impl Session {
    /// Reads the logs of the scenario.
    fn new(scenario: &Scenario, is_quiet: bool) -> Result<Session, Refusal> {
        let interrupt = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&interrupt);
        interrupt::listen(move || {
            complain(&"stopping (Ctrl-C again quits immediately)");
            ending.store(true, Ordering::Relaxed);
        })?;
        let status = Arc::new(Status::new(!is_quiet && stderr().is_terminal()));
        let mut is_cut = false;
        let reading = &mut |progress: LogProgress| {
            let (lines, requests) = (progress.lines, progress.requests);
            status.show(&format_args!("read {lines} lines, {requests} requests"));
            is_cut |= interrupt.swap(false, Ordering::Relaxed);
            match is_cut {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let prepared = scenario.prepare(reading).map_err(usage)?;
        status.clear();
        if is_cut {
            let lines: u64 = prepared.logs().iter().map(|log| log.lines).sum();
            complain(&format_args!(
                "stopped after {lines} lines of the log; the report is about these"
            ));
        }
        warn(&prepared);
        let running = Arc::clone(&status);
        let prepared =
            prepared
                .interrupt(Arc::clone(&interrupt))
                .on_progress(move |progress: RunProgress| {
                    let (now, events) = (progress.now.as_secs(), progress.events);
                    running.show(&format_args!("{now} s simulated, {events} events"));
                });
        Ok(Session {
            prepared,
            is_cut,
            interrupt,
            status,
        })
    }

    fn run(&self, limit: &LimitConfig) -> Result<RunOutcome, ScenarioError> {
        let outcome = self.prepared.run(limit);
        self.status.clear();
        outcome
    }

    /// Whether no other run is to begin.
    fn is_ended(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// The exit code, which is `done` without Ctrl-C.
    fn exit(&self, done: Exit) -> Exit {
        match self.is_cut || self.is_ended() {
            true => Exit::Interrupted,
            false => done,
        }
    }
}

fn description(scenario: &Scenario) -> Description {
    Description {
        title: title(scenario),
        scenario: scenario.to_toml(),
        seed: scenario.seed,
    }
}

/// The name of the scenario, or its arrivals.
fn title(scenario: &Scenario) -> String {
    let arrivals = scenario.traffic.iter();
    let arrivals = arrivals.map(|source| source.arrivals.to_string());
    let arrivals = || arrivals.collect::<Vec<_>>().join(", ");
    scenario.name.clone().unwrap_or_else(arrivals)
}

fn usage(error: ScenarioError) -> Refusal {
    Refusal::usage(error.to_string())
}

impl Reports {
    fn write(self, report: &impl Report) -> Result<(), Refusal> {
        let files = [&self.html, &self.svg, &self.png, &self.json, &self.csv];
        let takes_stdout = files.iter().any(|sink| matches!(sink, Some(Sink::Stdout)));
        if !self.is_quiet && !takes_stdout {
            print(&report.to_text(TextStyle::of_stdout()))?;
        }
        if let Some(sink) = self.html {
            sink.write(report.to_html())?;
        }
        if let Some(sink) = self.svg {
            sink.write(report.picture().to_string())?;
        }
        if let Some(sink) = self.png {
            let png = report.picture().to_png(SCALE);
            sink.write(png.map_err(|error| {
                Refusal::could_not_run(format!("cannot draw the PNG: {error}"))
            })?)?;
        }
        if let Some(sink) = self.json {
            sink.write(report.to_json())?;
        }
        match self.csv {
            Some(sink) => sink.write(report.to_csv()),
            None => Ok(()),
        }
    }
}

/// Reports the lines of a log that were skipped.
fn warn(prepared: &PreparedScenario) {
    for log in prepared.logs() {
        let malformed = &log.malformed;
        if malformed.count == 0 {
            continue;
        }
        let (count, lines) = (malformed.count, log.lines);
        complain(&format_args!(
            "skipped {count} of {lines} lines of the log:"
        ));
        for line in &malformed.first {
            complain(&format_args!(
                "  line {}: {}: {}",
                line.number, line.reason, line.text
            ));
        }
    }
}

/// A line on standard error that is replaced, for what takes longer than a second.
struct Status {
    is_shown: bool,
    line: Mutex<Line>,
}

struct Line {
    shown_next: Instant,
    is_dirty: bool,
}

impl Status {
    fn new(is_shown: bool) -> Self {
        let line = Line {
            shown_next: Instant::now() + PATIENCE,
            is_dirty: false,
        };
        Self {
            is_shown,
            line: Mutex::new(line),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, text: &dyn Display) {
        if !self.is_shown {
            return;
        }
        let (mut line, now) = (self.line(), Instant::now());
        if now >= line.shown_next {
            line.shown_next = now + BETWEEN;
            line.is_dirty = true;
            let _ = stderr().write_all(format!("\r\x1b[K{text}").as_bytes());
        }
    }

    fn clear(&self) {
        if std::mem::take(&mut self.line().is_dirty) {
            let _ = stderr().write_all(b"\r\x1b[K");
        }
    }
}

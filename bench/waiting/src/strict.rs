//! One thread in a loop that must be let go to the microsecond: `block()` with `Precision::Strict`,
//! beside what a thread can do without a limiter.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use flowgate::{LeakyBucket, Precision, Quota};
use serde::Serialize;

use crate::pacing::recorder::Recorder;
use crate::pacing::releases::{Ask, Pace, Releases};
use crate::spread::Tail;
use crate::{OURS, Verdict, chosen, cpu};

/// Asked for, per second.
const RATES: [u32; 2] = [10_000, 100_000];

/// What waits for the next slot; gives the instant in ns that the grant says it is for, if it says one.
type Next = Box<dyn FnMut() -> Option<u64>>;

/// The best that a thread can do: what it misses is the machine's.
const SPIN: &str = "nobody: spin on the clock";

struct Subject {
    name: &'static str,
    start: fn(Ask) -> Next,
}

fn all() -> Vec<Subject> {
    vec![
        Subject {
            name: "flowgate LeakyBucket, Strict",
            start: |ask| ours(ask, Precision::Strict),
        },
        Subject {
            name: "flowgate LeakyBucket, Normal",
            start: |ask| ours(ask, Precision::Normal),
        },
        Subject {
            name: SPIN,
            start: |ask| without_a_limiter(ask, |due| while Instant::now() < due {}),
        },
        Subject {
            name: "nobody: thread::sleep",
            start: |ask| {
                without_a_limiter(ask, |due| {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                })
            },
        },
    ]
}

fn ours(ask: Ask, precision: Precision) -> Next {
    let bucket = LeakyBucket::new(Quota::per_second(u64::from(ask.rate)));
    bucket.queue().set_precision(precision);
    Box::new(move || {
        let grant = bucket.acquire().block().expect("one can be had");
        Some(grant.at().as_nanos())
    })
}

/// As even as a thread can go by itself at a burst of 1: a slot that it comes too late for is moved to
/// when it comes.
fn without_a_limiter(ask: Ask, wait_until: fn(Instant)) -> Next {
    let mut due = Instant::now();
    Box::new(move || {
        let slot = due.max(Instant::now());
        wait_until(slot);
        due = slot + ask.period();
        None
    })
}

/// One subject at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub rate: u32,
    pub span_s: f64,
    pub pace: Pace,
    pub kept: f64,
    /// |interval − period| without preemptions and the interval after each.
    pub error_us: Tail,
    /// Intervals longer than the period by more than 50 µs.
    pub preemptions: u64,
    /// How often the kernel set this thread aside, by its own count.
    pub involuntary_switches: Option<u64>,
    /// Processor time of the whole process over the time that passed.
    pub cpu_share: f64,
    pub findings: Vec<String>,
}

/// The names of all that can be measured.
pub fn subjects() -> Vec<&'static str> {
    all().iter().map(|subject| subject.name).collect()
}

/// Measures every subject for `span` at every rate.
///
/// Each runs on a separate thread, pinned to the last core.
///
/// # Errors
///
/// Returns a message if the thread cannot be pinned: unpinned numbers are not useful.
pub fn measure(span: Duration, only: Option<&str>) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for rate in RATES {
        for subject in all() {
            if chosen(subject.name, only) {
                rows.push(row(&subject, Ask { rate, span })?);
            }
        }
    }
    Ok(rows)
}

fn row(subject: &Subject, ask: Ask) -> Result<Row, String> {
    let started = Instant::now();
    let (measured, cpu) = cpu::during(|| {
        let thread = thread::scope(|scope| scope.spawn(|| on_last_core(subject, ask)).join());
        thread.map_err(|_| format!("{}: its thread panicked", subject.name))?
    });
    let cpu_share = cpu.as_secs_f64() / started.elapsed().as_secs_f64();
    let (releases, involuntary_switches) = measured?;
    let pace = releases.pace();
    let (error_us, preemptions) = releases.errors_without_preemptions();
    Ok(Row {
        subject: subject.name,
        rate: ask.rate,
        span_s: ask.span.as_secs_f64(),
        pace,
        kept: pace.kept(),
        error_us,
        preemptions,
        involuntary_switches,
        cpu_share,
        findings: releases.findings(1),
    })
}

fn on_last_core(subject: &Subject, ask: Ask) -> Result<(Releases, Option<u64>), String> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let core = *cores
        .last()
        .ok_or("the cores of this machine cannot be listed")?;
    if !core_affinity::set_for_current(core) {
        return Err(format!("a thread cannot be pinned to core {}", core.id));
    }
    let before = involuntary_switches();
    let releases = run(ask, (subject.start)(ask));
    let switches = involuntary_switches().zip(before);
    Ok((releases, switches.map(|(after, before)| after - before)))
}

fn run(ask: Ask, mut next: Next) -> Releases {
    let mut recorder = Recorder::start(ask);
    while recorder.released(next()) {}
    recorder.finish()
}

/// Of this thread so far; none where the kernel does not say.
fn involuntary_switches() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

/// A table per rate.
pub fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut heading = None;
    for row in rows {
        if heading != Some(row.rate) {
            heading = Some(row.rate);
            let _ = writeln!(
                text,
                "\n{}/s for {} s, one thread in a loop, pinned; without preemptions",
                row.rate, row.span_s
            );
            let _ = writeln!(
                text,
                "  {:<30} {:>9} {:>8} {:>9} {:>9} {:>9} {:>11} {:>9} {:>7}",
                "",
                "granted",
                "kept %",
                "err p50",
                "err p99",
                "err max",
                "preemptions",
                "switches",
                "CPU %"
            );
        }
        let switches = row.involuntary_switches;
        let _ = writeln!(
            text,
            "  {:<30} {:>9} {:>8.2} {:>9.3} {:>9.3} {:>9.3} {:>11} {:>9} {:>7.1}{}",
            row.subject,
            row.pace.granted,
            100.0 * row.kept,
            row.error_us.p50,
            row.error_us.p99,
            row.error_us.max,
            row.preemptions,
            switches.map_or("-".to_owned(), |count| count.to_string()),
            100.0 * row.cpu_share,
            if row.findings.is_empty() {
                ""
            } else {
                "  OVER THE RATE"
            },
        );
    }
    text.push_str(
        "err: |interval - period| in us; preemptions: intervals over 50 us too long, left out with the \
         interval after each;\nswitches: involuntary context switches of the thread, by the kernel's count\n",
    );
    text
}

/// The goals for ours with `Precision::Strict`.
pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let strict = |rate| {
        let mut rows = rows.iter();
        rows.find(|row| {
            row.subject.starts_with(OURS) && row.subject.contains("Strict") && row.rate == rate
        })
    };
    let (slow, fast) = (strict(10_000), strict(100_000));
    let p99 = |row: &Row| row.error_us.p99;
    let at_most = |goal: &str, value, most| {
        let goal = format!("Strict, blocking: {goal}");
        Verdict::at_most(goal, value, most, " us")
    };
    vec![
        at_most(
            "median error at most 0.1 us; 10000/s",
            slow.map(|row| row.error_us.p50),
            0.1,
        ),
        at_most("99 % of errors at most 1 us; 10000/s", slow.map(p99), 1.0),
        at_most(
            "99 % of errors at most 0.1 us; 100000/s",
            fast.map(p99),
            0.1,
        ),
        Verdict::at_least(
            "Strict, blocking: 100000/s held, but for stalls, at least 99.9 %".to_owned(),
            fast.map(|row| 100.0 * row.kept),
            99.9,
            " %",
        ),
    ]
}

/// Returns a message if the run was noisy: even the spinning thread was late.
pub fn disturbance(rows: &[Row]) -> Option<String> {
    let mut spinning = rows.iter().filter(|row| row.subject == SPIN);
    let late = spinning.find(|row| row.error_us.p99 > 1.0 || row.kept < 0.999)?;
    let (p99, kept) = (late.error_us.p99, 100.0 * late.kept);
    Some(format!(
        "spinning at {}/s, 99 % of errors up to {p99:.3} us and {kept:.2} % kept",
        late.rate
    ))
}

/// Where ours let more go than was promised.
pub fn broken(rows: &[Row]) -> Vec<String> {
    let ours = rows.iter().filter(|row| row.subject.starts_with(OURS));
    let findings = ours.flat_map(|row| {
        let findings = row.findings.iter();
        findings.map(move |finding| format!("{} at {}/s, {finding}", row.subject, row.rate))
    });
    findings.collect()
}

//! How often the truth lies in the intervals that are printed: twenty servers, behind a network with jitter, slow responses and
//! a server that stands still.
//!
//! `FLOWGATE_LONG=1 cargo test -p flowgate-testkit --test it -- --nocapture the_truth_lies` runs each server 20 times and prints
//! the table. A few runs of the quick ones are part of every test.

use std::thread;
use std::time::Duration;

use flowgate_testkit::verify::nginx::LimitReq;
use flowgate_testkit::verify::servers::{ServerLimit, holds, look, look_at};
use flowgate_testkit::verify::{DetectedKind, Estimate, Findings, Investigation};

use crate::effort::is_long;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns the findings of a run with this seed.
type Run = fn(u64) -> Findings;

/// A server: its name, its rate and burst, and how to run it.
type Server = (&'static str, f64, f64, Run);

fn run(limit: ServerLimit, seed: u64) -> Findings {
    look(limit, &Investigation::new(), seed)
}

fn nginx(mut limit: LimitReq, seed: u64) -> Findings {
    look_at(&Investigation::new(), seed, |question| {
        limit.answer(question)
    })
}

/// Those that take little time to simulate.
const QUICK: [Server; 15] = [
    ("bucket 100/s burst 20", 100.0, 20.0, |seed| {
        run(ServerLimit::bucket(100, SECOND, 20), seed)
    }),
    ("bucket 5/s burst 40", 5.0, 40.0, |seed| {
        run(ServerLimit::bucket(5, SECOND, 40), seed)
    }),
    ("bucket 10/s burst 1", 10.0, 1.0, |seed| {
        run(ServerLimit::bucket(10, SECOND, 1), seed)
    }),
    ("bucket 50/s burst 10", 50.0, 10.0, |seed| {
        run(ServerLimit::bucket(50, SECOND, 10), seed)
    }),
    ("nginx 10/s", 10.0, 1.0, |seed| {
        nginx(LimitReq::new(10, 0), seed)
    }),
    ("nginx 10/s, burst=20 nodelay", 10.0, 21.0, |seed| {
        nginx(LimitReq::new(10, 20).nodelay(), seed)
    }),
    ("nginx 100/s, burst=20", 100.0, 21.0, |seed| {
        nginx(LimitReq::new(100, 20), seed)
    }),
    ("window 100/s", 100.0, 100.0, |seed| {
        run(ServerLimit::fixed(100, SECOND), seed)
    }),
    ("window 10/s, whole ms", 10.0, 10.0, |seed| {
        run(ServerLimit::fixed(10, SECOND).tick(MILLISECOND), seed)
    }),
    ("window 50/5s, whole ms", 10.0, 50.0, |seed| {
        run(ServerLimit::fixed(50, 5 * SECOND).tick(MILLISECOND), seed)
    }),
    ("clock window 10/s", 10.0, 10.0, |seed| {
        run(ServerLimit::aligned(10, SECOND), seed)
    }),
    ("clock window 100/s", 100.0, 100.0, |seed| {
        run(ServerLimit::aligned(100, SECOND), seed)
    }),
    ("clock window 60/6s", 10.0, 60.0, |seed| {
        run(ServerLimit::aligned(60, 6 * SECOND), seed)
    }),
    ("sliding 20/s", 20.0, 20.0, |seed| {
        run(ServerLimit::sliding(20, SECOND), seed)
    }),
    ("sliding 100/10s, whole ms", 10.0, 100.0, |seed| {
        run(
            ServerLimit::sliding(100, 10 * SECOND).tick(MILLISECOND),
            seed,
        )
    }),
];

const SLOW: [Server; 5] = [
    ("bucket 1000/s burst 50", 1_000.0, 50.0, |seed| {
        run(ServerLimit::bucket(1_000, SECOND, 50), seed)
    }),
    ("nginx 100/s, burst=20 nodelay", 100.0, 21.0, |seed| {
        nginx(LimitReq::new(100, 20).nodelay(), seed)
    }),
    ("clock window 1000/s, whole ms", 1_000.0, 1_000.0, |seed| {
        run(ServerLimit::aligned(1_000, SECOND).tick(MILLISECOND), seed)
    }),
    ("two counters 20/2s", 10.0, 20.0, |seed| {
        run(ServerLimit::two_counters(20, 2 * SECOND), seed)
    }),
    ("two counters 100/10s, whole ms", 10.0, 100.0, |seed| {
        run(
            ServerLimit::two_counters(100, 10 * SECOND).tick(MILLISECOND),
            seed,
        )
    }),
];

/// What came of the runs of one server.
struct Row {
    name: &'static str,
    runs: u64,
    rate: u64,
    burst: u64,
    unknown: u64,
    /// Half the width of the widest interval of the rate, as a share.
    widest: f64,
    wrong: Vec<String>,
}

fn row((name, rate, burst, run): Server, runs: u64) -> Row {
    let mut row = Row {
        name,
        runs,
        rate: 0,
        burst: 0,
        unknown: 0,
        widest: 0.0,
        wrong: Vec::new(),
    };
    for seed in 0..runs {
        let findings = run(seed);
        let detected = &findings.detected;
        let holds = |estimate: Option<Estimate>, truth| estimate.is_some_and(|it| holds(it, truth));
        let are_held = [holds(detected.rate, rate), holds(detected.burst, burst)];
        let is_unknown = detected.kind == DetectedKind::Unknown;
        row.rate += u64::from(are_held[0]);
        row.burst += u64::from(are_held[1]);
        row.unknown += u64::from(is_unknown);
        if let Some(found) = detected.rate {
            row.widest = row.widest.max(found.plus_minus / found.value);
        }
        let is_accused = !findings.defects.is_empty();
        if is_unknown || is_accused || are_held != [true; 2] {
            row.wrong.push(format!("{name} {seed}: {findings}"));
        }
        assert!(!is_accused, "{name} {seed}: {findings}");
    }
    row
}

/// Runs each server, on all cores, and prints the table.
fn table(servers: &[Server], runs: u64) -> Vec<Row> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let part = servers.len().div_ceil(cores);
    let rows: Vec<Row> = thread::scope(|scope| {
        let parts = servers.chunks(part);
        let parts = parts.map(|part| {
            scope.spawn(move || part.iter().map(|it| row(*it, runs)).collect::<Vec<_>>())
        });
        let parts: Vec<_> = parts.collect();
        let rows = parts.into_iter().map(|part| part.join().expect("a row"));
        rows.flatten().collect()
    });
    println!(
        "{:<32} {:>5} {:>5} {:>5} {:>8} {:>8}",
        "", "runs", "rate", "burst", "unknown", "widest"
    );
    for row in &rows {
        println!(
            "{:<32} {:>5} {:>5} {:>5} {:>8} {:>6.2} %",
            row.name,
            row.runs,
            row.rate,
            row.burst,
            row.unknown,
            100.0 * row.widest
        );
    }
    rows
}

/// Asserts that the truth lies in at least 95 % of the intervals, of rates and of bursts.
fn assert_covered(rows: &[Row]) {
    let runs: u64 = rows.iter().map(|row| row.runs).sum();
    let wrong: Vec<&String> = rows.iter().flat_map(|row| &row.wrong).collect();
    for held in [
        rows.iter().map(|row| row.rate).sum::<u64>(),
        rows.iter().map(|row| row.burst).sum::<u64>(),
    ] {
        assert!(held * 100 >= runs * 95, "{held} of {runs}: {wrong:#?}");
    }
    for row in rows {
        let least = row.rate.min(row.burst);
        assert!(least * 100 >= row.runs * 85, "{}: {wrong:#?}", row.name);
    }
}

/// All servers 20 times if `FLOWGATE_LONG` is set, and otherwise the quick ones twice.
#[test]
fn the_truth_lies_in_the_interval_of_nearly_every_run() {
    let rows = match is_long() {
        true => table(&[&QUICK[..], &SLOW[..]].concat(), 20),
        false => table(&QUICK, 2),
    };
    assert_covered(&rows);
}

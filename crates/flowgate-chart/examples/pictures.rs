//! Draws the pictures of the documentation into a checkout of the repository.
//!
//! ```text
//! cargo run -p flowgate-chart --example pictures -- .
//! ```
//!
//! | picture | source |
//! |---|---|
//! | what each limiter admits of the same traffic | the limiters, on a manual clock |
//! | `fleet-outage.svg`: an outage of a store | three processes of a fleet, on a manual clock |
//! | `load.svg`: the terminal of `flowgate load` | `load.txt`, the output of a real run |
//! | `verify.svg`: what `flowgate verify` found | `verify.json`, the record of a real run |
//! | `clients.svg`: how evenly load clients send | `clients.json`, the record of a real run |
//!
//! The same sources make the same files, bit for bit. The pictures are in `docs/pictures`. Those of limiters are also in
//! `crates/flowgate/src/guide/pictures`, and that of the fleet in `crates/flowgate-fleet/src/guide/pictures`, as text that the documentation includes: a page of rustdoc can load no
//! file of the repository.

use flowgate::{
    ApproximateWindow, DecayingBucket, DualTokenBucket, FixedWindow, LeakyBucket, Limiter,
    ManualClock, Quota, QuotaError, SegmentedWindow, SlidingWindow, Timestamp, TokenBucket, WarmUp,
};
use flowgate_chart::{Axis, Chart, Layer, Look, Picture, Point, Terminal, Unit};
use flowgate_fleet::{Fleet, FleetLimit, LocalStore};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// The traffic lasts this long, and is counted in intervals of this length.
const END_MS: u64 = 10_000;
const STEP_MS: u64 = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args()
        .nth(1)
        .ok_or("write the folder of the repository, such as .")?;
    let folder = Path::new(&root).join("docs/pictures");
    let embedded = Path::new(&root).join("crates/flowgate/src/guide/pictures");
    let mut all =
        Picture::new("What each limiter admits of the same traffic (limit: 20 per second)")
            .columns(2);
    for (name, title, limiter) in limiters()? {
        let chart = admitted(name, title, &limiter);
        let picture = Picture::new(title).chart(chart.clone());
        write(&folder.join(format!("{name}.svg")), &picture)?;
        let path = embedded.join(format!("{name}.md"));
        write(&path, &definition(&picture))?;
        all = all.chart(chart);
    }
    write(&folder.join("limiters.svg"), &all)?;

    let outage =
        Picture::new("A store stops for two seconds, and has lost its records").chart(outage()?);
    write(&folder.join("fleet-outage.svg"), &outage)?;
    let embedded = Path::new(&root).join("crates/flowgate-fleet/src/guide/pictures");
    write(&embedded.join("outage.md"), &definition(&outage))?;

    let text = std::fs::read_to_string(folder.join("load.txt"))?;
    let terminal = Terminal::new("flowgate load", text).good("RATE HELD");
    write(&folder.join("load.svg"), &terminal)?;

    let found = serde_json::from_slice(&std::fs::read(folder.join("verify.json"))?)?;
    let picture = Picture::new("flowgate verify: the most admitted in any interval");
    write(&folder.join("verify.svg"), &picture.chart(envelope(&found)))?;

    let clients = serde_json::from_slice(&std::fs::read(folder.join("clients.json"))?)?;
    write(&folder.join("clients.svg"), &evenness(&clients))
}

/// The characters of an SVG file that need no escape in an address, in Markdown and in HTML.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'/')
    .remove(b';')
    .remove(b'=')
    .remove(b',');

/// The definition of the link `picture` in Markdown: the whole file, as an address.
///
/// It begins with an empty line, so that it is not part of the paragraph before it. rustdoc ignores the first line break.
fn definition(picture: &Picture) -> String {
    let svg = picture.to_string();
    let data = utf8_percent_encode(svg.trim_end(), ESCAPED);
    format!("\n\n[picture]: data:image/svg+xml,{data}\n")
}

/// A limiter, and the clock by which it goes.
type Subject = (ManualClock, Box<dyn Limiter>);

/// Each limiter at 20 per second, with its usual settings. The dual bucket has a lower rate in the long run.
fn limiters() -> Result<Vec<(&'static str, &'static str, Subject)>, QuotaError> {
    fn with<L: Limiter + 'static>(
        build: impl FnOnce(&ManualClock) -> Result<L, QuotaError>,
    ) -> Result<Subject, QuotaError> {
        let time = ManualClock::new();
        let limiter = build(&time)?;
        Ok((time, Box::new(limiter)))
    }
    let quota = "20/s".parse()?;
    Ok(vec![
        (
            "token-bucket",
            "TokenBucket: a burst of 20, then 20/s",
            with(|time| TokenBucket::builder(quota).clock(time).build())?,
        ),
        (
            "leaky-bucket",
            "LeakyBucket: one every 50 ms",
            with(|time| LeakyBucket::builder(quota).clock(time).build())?,
        ),
        (
            "dual-token-bucket",
            "DualTokenBucket: 20/s, and 4/s once a burst of 40 is used up",
            with(|time| {
                DualTokenBucket::builder("20/s; 4/s burst 40".parse()?)
                    .clock(time)
                    .build()
            })?,
        ),
        (
            "fixed-window",
            "FixedWindow: 20 in each second, 40 around a boundary",
            with(|time| {
                FixedWindow::builder(quota)
                    .align(Timestamp::ORIGIN)
                    .clock(time)
                    .build()
            })?,
        ),
        (
            "sliding-window",
            "SlidingWindow: 20 in every second",
            with(|time| SlidingWindow::builder(quota).clock(time).build())?,
        ),
        (
            "segmented-window",
            "SegmentedWindow: 20 in every second, in little memory",
            with(|time| SegmentedWindow::builder(quota).clock(time).build())?,
        ),
        (
            "approximate-window",
            "ApproximateWindow: two counters and a straight line",
            with(|time| ApproximateWindow::builder(quota).clock(time).build())?,
        ),
        (
            "warm-up",
            "WarmUp: slower after a rest",
            with(|time| {
                WarmUp::builder(quota)
                    .warm_up(Duration::from_secs(2))
                    .clock(time)
                    .build()
            })?,
        ),
        (
            "decaying-bucket",
            "DecayingBucket: 20, and room comes back faster the fuller it is",
            with(|time| {
                DecayingBucket::builder(20, Duration::from_millis(500))
                    .clock(time)
                    .build()
            })?,
        ),
    ])
}

/// The times of the requests, in milliseconds.
///
/// Five times what is allowed for three seconds, a rest, and half of what is allowed for two seconds. Then two bursts of 30, one
/// 50 ms before a fixed window begins and one 50 ms after that.
fn arrivals() -> Vec<u64> {
    let every = |from: u64, to: u64, step: usize| (from..to).step_by(step);
    let mut times: Vec<u64> = every(500, 3_500, 10)
        .chain(every(5_000, 7_000, 100))
        .collect();
    times.extend([7_950, 8_050].into_iter().flat_map(|at| [at; 30]));
    times
}

/// What the limiter admits in each interval, over what was asked.
fn admitted(name: &str, title: &str, (time, limiter): &Subject) -> Chart {
    let intervals = (END_MS / STEP_MS) as usize;
    let (mut asked, mut admitted) = (vec![0_u32; intervals], vec![0_u32; intervals]);
    for ms in arrivals() {
        time.set(Timestamp::from_nanos(ms * 1_000_000));
        let interval = (ms / STEP_MS) as usize;
        asked[interval] += 1;
        admitted[interval] += u32::from(limiter.try_acquire().is_ok());
    }
    let steps = |counts: &[u32]| {
        let points = counts.iter().enumerate().map(|(interval, &count)| {
            let seconds = interval as f64 * STEP_MS as f64 / 1_000.0;
            Point::new(seconds, f64::from(count))
        });
        let end = Point::new(END_MS as f64 / 1_000.0, 0.0);
        vec![points.chain([end]).collect::<Vec<_>>()]
    };
    let y = Axis::from_zero(Unit::Count, [30.0]);
    Chart::new(name, title, Axis::time(END_MS as f64 / 1_000.0), y)
        .names("time", "requests in 100 ms")
        .height(220)
        .layer(Layer::area("asked", Look::GRAY, steps(&asked)).stepped())
        .layer(Layer::area("", Look::BLUE, steps(&admitted)).stepped())
        .layer(Layer::line("admitted", Look::BLUE, steps(&admitted)).stepped())
}

/// What three processes are admitted in each interval. Each sends a request every 5 ms. Their store stops after two seconds, loses its
/// records, and is back after four.
fn outage() -> Result<Chart, Box<dyn std::error::Error>> {
    const NODES: usize = 3;
    const END_MS: u64 = 6_000;
    let time = ManualClock::new();
    let store = LocalStore::new(&time);
    let fleets: Vec<Fleet> = (0..NODES)
        .map(|_| store.fleet().nodes(NODES as u32).open())
        .collect::<Result<_, _>>()?;
    let quota: Quota = "300/s burst 30".parse()?;
    let limits: Vec<FleetLimit> = fleets
        .iter()
        .map(|fleet| fleet.limit("api", quota).build())
        .collect::<Result<_, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let intervals = (END_MS / STEP_MS) as usize;
    let (mut admitted, mut alone) = (vec![0_u32; intervals], vec![0_u32; intervals]);
    for ms in (0..END_MS).step_by(5) {
        time.set(Timestamp::from_nanos(ms * 1_000_000));
        if ms == 2_000 {
            store.stop();
            store.forget();
        }
        if ms == 4_000 {
            store.start();
            fleets
                .iter()
                .for_each(|fleet| runtime.block_on(fleet.ready()));
        }
        let interval = (ms / STEP_MS) as usize;
        for limit in &limits {
            if let Ok(answer) = limit.ask().block() {
                admitted[interval] += 1;
                alone[interval] += u32::from(answer.is_degraded());
            }
        }
    }
    let steps = |counts: &[u32]| {
        let points = counts.iter().enumerate().map(|(interval, &count)| {
            let seconds = interval as f64 * STEP_MS as f64 / 1_000.0;
            Point::new(seconds, f64::from(count))
        });
        let end = Point::new(END_MS as f64 / 1_000.0, 0.0);
        vec![points.chain([end]).collect::<Vec<_>>()]
    };
    let asked = vec![(STEP_MS / 5) as u32 * NODES as u32; intervals];
    let y = Axis::from_zero(Unit::Count, [60.0]);
    let title = "Three processes with a limit of 300 per second";
    let x = Axis::time(END_MS as f64 / 1_000.0);
    Ok(Chart::new("fleet-outage", title, x, y)
        .names("time", "requests in 100 ms")
        .height(220)
        .layer(Layer::area("asked", Look::GRAY, steps(&asked)).stepped())
        .layer(Layer::area("", Look::BLUE, steps(&admitted)).stepped())
        .layer(Layer::line("admitted", Look::BLUE, steps(&admitted)).stepped())
        .layer(Layer::line("of them without the store", Look::RED, steps(&alone)).stepped()))
}

/// What of the record of `flowgate verify --json` is drawn.
#[derive(Deserialize)]
struct Found {
    envelope: Vec<Cluster>,
    detected: Detected,
}

#[derive(Deserialize)]
struct Cluster {
    interval: f64,
    admitted: f64,
}

#[derive(Deserialize)]
struct Detected {
    rate: Number,
    burst: Number,
}

#[derive(Deserialize)]
struct Number {
    value: f64,
}

/// The most requests that were admitted in intervals of each length, below what the detected limit allows.
fn envelope(found: &Found) -> Chart {
    let (rate, burst) = (found.detected.rate.value, found.detected.burst.value);
    let allowed = |seconds: f64| burst + rate * seconds;
    let points = || found.envelope.iter().filter(|point| point.interval > 0.0);
    let longest = points().map(|point| point.interval).fold(0.0, f64::max);
    let shortest = points().map(|point| point.interval).fold(longest, f64::min);
    let x = Axis::log(Unit::Nanos, shortest * 1e9, longest * 1e9);
    let y = Axis::log(Unit::Count, 1.0, allowed(longest));
    let limit = x
        .sampled(100)
        .map(|nanos| Point::new(nanos, allowed(nanos / 1e9)))
        .collect();
    let admitted = points().map(|point| {
        let text = format!("{} in {} s", point.admitted, point.interval);
        Point::new(point.interval * 1e9, point.admitted).text(text)
    });
    let name = format!("allowed: burst {burst:.0}, {rate:.0} per second");
    Chart::new(
        "envelope",
        "Admitted requests by length of the interval",
        x,
        y,
    )
    .names("length of the interval", "requests")
    .layer(Layer::area(name, Look::GRAY, [limit]))
    .layer(Layer::dots("admitted", Look::BLUE, [admitted.collect()]))
}

/// What of the record of `flowgate-bench-clients pace --json` is drawn.
#[derive(Deserialize)]
struct Clients {
    pace: Vec<Sender>,
}

/// One client at one rate.
#[derive(Deserialize)]
struct Sender {
    subject: String,
    rate: u32,
    rounds: Vec<Round>,
}

#[derive(Deserialize)]
struct Round {
    error_us: ArrivalError,
}

/// How far the arrivals are from an even grid, in microseconds.
#[derive(Clone, Copy, Deserialize)]
struct ArrivalError {
    p50: f64,
    p99: f64,
}

impl Sender {
    /// The median over the rounds.
    fn median(&self, value: impl Fn(ArrivalError) -> f64) -> f64 {
        let mut values: Vec<f64> = self
            .rounds
            .iter()
            .map(|round| value(round.error_us))
            .collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// The median and the 99th percentile in nanoseconds.
    fn error_ns(&self) -> [f64; 2] {
        [
            self.median(|error| error.p50),
            self.median(|error| error.p99),
        ]
        .map(|us| us * 1e3)
    }
}

/// How far the requests of each client arrive from an even grid: one chart for each rate.
///
/// A rate at which other load disturbed even a spinning thread is not drawn.
fn evenness(clients: &Clients) -> Picture {
    const CALM_NS: f64 = 100e3;
    let spinning = clients
        .pace
        .iter()
        .filter(|sender| sender.subject.starts_with("nobody"));
    let calm = spinning.filter(|sender| sender.error_ns()[1] <= CALM_NS);
    let rates: Vec<u32> = calm.map(|sender| sender.rate).collect();
    let charts = rates.into_iter().map(|rate| {
        let of_rate = clients.pace.iter().filter(|sender| sender.rate == rate);
        let senders: Vec<&Sender> = of_rate.filter(|sender| !sender.rounds.is_empty()).collect();
        let errors = || senders.iter().flat_map(|sender| sender.error_ns());
        let lowest = errors().fold(f64::INFINITY, f64::min);
        let x = Axis::log(Unit::Nanos, lowest, errors().fold(0.0, f64::max));
        let names = senders.iter().map(|sender| {
            let [median, _] = sender.error_ns();
            format!("{}: {}", sender.subject, Unit::Nanos.exact(median))
        });
        let spreads = |are_ours: bool| {
            let lines = senders.iter().zip((0..).map(f64::from));
            let chosen = lines.filter(|(sender, _)| (sender.subject == "flowgate") == are_ours);
            let spread = |(sender, line): (&&Sender, f64)| {
                let ends = sender.error_ns();
                ends.map(|ns| Point::new(ns, line).text(Unit::Nanos.exact(ns)))
                    .to_vec()
            };
            chosen.map(spread).collect::<Vec<_>>()
        };
        let title = format!("{rate} requests per second");
        Chart::new(format!("rate-{rate}"), title, x, Axis::names(names))
            .names("distance from an even grid: median and 99th percentile", "")
            .wide()
            .height(74 + 20 * senders.len() as u32)
            .layer(Layer::dots("flowgate", Look::BLUE, spreads(true)))
            .layer(Layer::dots("others", Look::GRAY, spreads(false)))
    });
    Picture::new("How evenly the requests of load clients arrive").charts(charts)
}

/// Writes a file, and prints its name.
fn write(path: &Path, picture: &dyn std::fmt::Display) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::write(path, picture.to_string())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

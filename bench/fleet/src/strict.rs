//! What an answer of the store costs: callers who ask one limit, through `flowgate-fleet` and without it.
//!
//! All callers are tasks of one thread, as in a server, and the store is on this machine. `flowgate-fleet` adds its own thread.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowgate_fleet::{CutOff, Fleet, FleetLimit};
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult, Script};
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;
use crate::store::Store;

/// The callers of each subject, except of the one that is alone.
const CALLERS: usize = 64;
const FLEET: &str = "flowgate-fleet, ask";
const SCRIPT: &str = "a script for each decision";
const COUNTER: &str = "INCR and EXPIRE for each decision";
/// One caller and one call: a round trip.
const ROUND_TRIP: &str = "one caller, a script";
const ALONE: &str = "one caller, flowgate-fleet";
pub const SUBJECTS: [&str; 5] = [ROUND_TRIP, ALONE, SCRIPT, COUNTER, FLEET];

/// A limit that never refuses here, in the units of the script: 1,000 parts flow back per microsecond.
const QUOTA: &str = "1000000000/s burst 1000000000";
const TERMS: [u64; 3] = [1_000, 1, 1_000_000_000];

/// The most that the 90th percentile of the round trips may be of the 10th, on a calm machine.
const CALM: f64 = 1.25;

/// One subject.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub callers: usize,
    pub answers_per_second: Spread,
    /// Over that of [`SCRIPT`] in the same round.
    pub over_script: Spread,
    /// Over that of [`COUNTER`] in the same round.
    pub over_counter: Spread,
    /// The median time of an answer.
    pub answer_us: Spread,
    /// The median time of an answer, over that of [`ROUND_TRIP`] in the same round.
    pub round_trips: Spread,
}

type Decision = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Asks once.
type Decide = Arc<dyn Fn() -> Decision + Send + Sync>;

struct Subject {
    name: &'static str,
    callers: usize,
    decide: Decide,
}

/// What one subject did in one round.
#[derive(Clone, Copy, Debug)]
struct Lap {
    per_second: f64,
    p50_us: f64,
}

/// Measures all subjects at `store`.
///
/// # Errors
///
/// A message if the store fails, or refuses.
pub fn measure(store: &Store, quick: bool) -> Result<Vec<Row>, String> {
    let (rounds, window) = match quick {
        true => (2, Duration::from_millis(100)),
        false => (21, Duration::from_millis(500)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let subjects = subjects(&runtime, store)?;
    for subject in &subjects {
        subject.run(&runtime, window / 4)?;
    }
    let mut laps = vec![Vec::new(); subjects.len()];
    for round in 0..rounds {
        for step in 0..subjects.len() {
            let index = (round + step) % subjects.len();
            laps[index].push(subjects[index].run(&runtime, window)?);
        }
    }
    let of = |name| {
        let index = subjects.iter().position(|subject| subject.name == name);
        &laps[index.expect("it is among the subjects")]
    };
    let row = |subject: &Subject| {
        let laps = of(subject.name);
        let spread = |value: &dyn Fn(&Lap) -> f64| Spread::of(laps.iter().map(value).collect());
        let over = |other, value: fn(&Lap) -> f64| {
            let pairs = laps.iter().zip(of(other));
            Spread::of(
                pairs
                    .map(|(lap, other)| value(lap) / value(other))
                    .collect(),
            )
        };
        Row {
            subject: subject.name,
            callers: subject.callers,
            answers_per_second: spread(&|lap| lap.per_second),
            over_script: over(SCRIPT, |lap| lap.per_second),
            over_counter: over(COUNTER, |lap| lap.per_second),
            answer_us: spread(&|lap| lap.p50_us),
            round_trips: over(ROUND_TRIP, |lap| lap.p50_us),
        }
    };
    Ok(subjects.iter().map(row).collect())
}

fn subjects(runtime: &Runtime, store: &Store) -> Result<Vec<Subject>, String> {
    let failed = |error: &dyn std::error::Error| format!("the store: {error}");
    let client = Client::open(store.url()).map_err(|error| failed(&error))?;
    let connection = runtime
        .block_on(client.get_multiplexed_async_connection())
        .map_err(|error| failed(&error))?;
    let fleet = Fleet::redis(&store.url())
        .and_then(flowgate_fleet::FleetBuilder::open)
        .map_err(|error| failed(&error))?;
    let ready = async { tokio::time::timeout(Duration::from_secs(5), fleet.ready()).await };
    runtime.block_on(ready).map_err(|error| failed(&error))?;
    let quota = QUOTA.parse().map_err(|error| failed(&error))?;
    let limit = fleet.limit("bench", quota).when_cut_off(CutOff::Deny);
    let limit = limit.build().map_err(|error| failed(&error))?;
    let script = Arc::new(Script::new(include_str!(
        "../../../crates/flowgate-fleet/src/script.lua"
    )));
    let scripted: Decide = {
        let connection = connection.clone();
        Arc::new(move || Box::pin(by_script(connection.clone(), Arc::clone(&script))))
    };
    let asked: Decide = Arc::new(move || Box::pin(by_fleet(limit.clone())));
    let subject = |name, callers, decide| Subject {
        name,
        callers,
        decide,
    };
    Ok(vec![
        subject(ROUND_TRIP, 1, Arc::clone(&scripted)),
        subject(SCRIPT, CALLERS, scripted),
        subject(
            COUNTER,
            CALLERS,
            Arc::new(move || Box::pin(by_counter(connection.clone()))),
        ),
        subject(ALONE, 1, Arc::clone(&asked)),
        subject(FLEET, CALLERS, asked),
    ])
}

async fn by_fleet(limit: FleetLimit) -> Result<(), String> {
    match limit.ask().await {
        Ok(admitted) if !admitted.is_degraded() => Ok(()),
        Ok(_) => Err("the fleet decided without the store".to_owned()),
        Err(denied) => Err(format!("the fleet refused: {denied}")),
    }
}

/// The script of `flowgate-fleet`, for one unit.
async fn by_script(
    mut connection: MultiplexedConnection,
    script: Arc<Script>,
) -> Result<(), String> {
    let mut call = script.key("bench script");
    for term in TERMS {
        call.arg(term);
    }
    // Nothing was seen before; once one unit, and at least once.
    let reply: RedisResult<Vec<u64>> = call
        .arg(0)
        .arg(0)
        .arg(1)
        .arg(1)
        .arg(1)
        .invoke_async(&mut connection)
        .await;
    match reply.map_err(|error| error.to_string())?[..] {
        [_, _, _, _, 1] => Ok(()),
        ref other => Err(format!("the script refused: {other:?}")),
    }
}

/// A counter for each window, as in many programs: at the end of a window, it admits twice the limit.
async fn by_counter(mut connection: MultiplexedConnection) -> Result<(), String> {
    let counted: RedisResult<(u64,)> = redis::pipe()
        .cmd("INCR")
        .arg("bench counter")
        .cmd("EXPIRE")
        .arg("bench counter")
        .arg(60)
        .ignore()
        .query_async(&mut connection)
        .await;
    counted.map(drop).map_err(|error| error.to_string())
}

impl Subject {
    /// Lets all callers ask for `window`, each again when it has its answer.
    fn run(&self, runtime: &Runtime, window: Duration) -> Result<Lap, String> {
        let begun = Instant::now();
        let mut answers_us = runtime.block_on(async {
            let mut callers = JoinSet::new();
            for _ in 0..self.callers {
                callers.spawn(call(Arc::clone(&self.decide), begun + window));
            }
            let mut answers_us = Vec::new();
            while let Some(done) = callers.join_next().await {
                let done = done.map_err(|error| error.to_string())?;
                answers_us.extend(done.map_err(|why| format!("{}: {why}", self.name))?);
            }
            Ok::<_, String>(answers_us)
        })?;
        let per_second = answers_us.len() as f64 / begun.elapsed().as_secs_f64();
        let middle = answers_us.len() / 2;
        let (_, p50_us, _) = answers_us.select_nth_unstable_by(middle, f64::total_cmp);
        Ok(Lap {
            per_second,
            p50_us: *p50_us,
        })
    }
}

/// Asks until `end`, at least once. Returns how long each answer took.
async fn call(decide: Decide, end: Instant) -> Result<Vec<f64>, String> {
    let mut answers_us = Vec::new();
    loop {
        let asked = Instant::now();
        decide().await?;
        let answered = Instant::now();
        answers_us.push((answered - asked).as_secs_f64() * 1e6);
        if answered >= end {
            return Ok(answers_us);
        }
    }
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\nstrict: answers of a store on this machine\n  {:<36} {:>7} {:>10} {:>9} {:>13} {:>9} {:>13} {:>8} {:>11}\n",
        "",
        "callers",
        "answers/s",
        "/script",
        "p10..p90",
        "/counter",
        "p10..p90",
        "p50 µs",
        "round trips",
    );
    let range = |spread: Spread| format!("{:.2}..{:.2}", spread.p10, spread.p90);
    for row in rows {
        let _ = writeln!(
            text,
            "  {:<36} {:>7} {:>10.0} {:>9.2} {:>13} {:>9.2} {:>13} {:>8.0} {:>11.2}",
            row.subject,
            row.callers,
            row.answers_per_second.p50,
            row.over_script.p50,
            range(row.over_script),
            row.over_counter.p50,
            range(row.over_counter),
            row.answer_us.p50,
            row.round_trips.p50,
        );
    }
    text
}

pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let Some(fleet) = rows.iter().find(|row| row.subject == FLEET) else {
        return Vec::new();
    };
    vec![
        Verdict::at_least(
            format!("strict: at least 5 x the answers of {SCRIPT}, {CALLERS} callers"),
            Some(fleet.over_script.p50),
            5.0,
            " x",
        ),
        Verdict::at_most(
            format!("strict: an answer in at most 2 round trips at p50, {CALLERS} callers"),
            Some(fleet.round_trips.p50),
            2.0,
            " round trips",
        ),
    ]
}

/// Returns a line if the round trips are noisy.
pub fn disturbance(rows: &[Row]) -> Option<String> {
    let alone = rows.iter().find(|row| row.subject == ROUND_TRIP)?;
    let Spread { p10, p90, .. } = alone.answer_us;
    (p90 > CALM * p10).then(|| format!("strict: round trips of {p10:.0} to {p90:.0} µs"))
}

//! What a server did for a while, and its row in a table.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::process::Server;
use crate::shared::spread::Spread;

/// What one subject did in one round.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// As its clients counted.
    pub per_second: f64,
    /// Answers per second of the processor time that the server used.
    pub per_cpu_second: f64,
}

impl Lap {
    /// Lets clients ask `server`. They return how many answers they had.
    ///
    /// # Errors
    ///
    /// A message if the clients fail, or there was no answer.
    pub fn of(
        server: &Server,
        clients: impl FnOnce() -> Result<Answers, String>,
    ) -> Result<Lap, String> {
        let (begun, cpu_before) = (Instant::now(), server.cpu_time()?);
        let Answers { count, per_second } = clients()?;
        let (elapsed, cpu) = (begun.elapsed(), server.cpu_time()? - cpu_before);
        if count == 0 || cpu.is_zero() {
            return Err("the clients had no answer".to_owned());
        }
        Ok(Lap {
            per_second: per_second.unwrap_or(count as f64 / elapsed.as_secs_f64()),
            per_cpu_second: count as f64 / cpu.as_secs_f64(),
        })
    }
}

/// What clients had.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    pub count: u64,
    /// If the clients measure it themselves.
    pub per_second: Option<f64>,
}

/// Something that is measured.
pub struct Subject<'a> {
    pub name: &'static str,
    pub run: Box<dyn Fn(Duration) -> Result<Lap, String> + 'a>,
}

/// One subject in all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub per_second: Spread,
    pub per_cpu_second: Spread,
    /// Processor time of the server for one answer.
    pub cpu_us: Spread,
    /// Answers per second of processor time, over those of the baseline in the same round.
    pub over_baseline: Spread,
    #[serde(skip)]
    laps: Vec<Lap>,
}

impl Row {
    /// Returns the median of the ratios of each round.
    pub fn over(&self, other: &Row, value: fn(&Lap) -> f64) -> f64 {
        ratios(&self.laps, &other.laps, value).p50
    }
}

fn ratios(laps: &[Lap], others: &[Lap], value: fn(&Lap) -> f64) -> Spread {
    let pairs = laps.iter().zip(others);
    Spread::of(
        pairs
            .map(|(lap, other)| value(lap) / value(other))
            .collect(),
    )
}

/// Measures all subjects. Each round begins with another one. The first subject is the baseline.
///
/// # Errors
///
/// A message if a subject fails.
pub fn measure(subjects: &[Subject<'_>], quick: bool) -> Result<Vec<Row>, String> {
    let (rounds, window) = match quick {
        true => (1, Duration::from_secs(1)),
        false => (7, Duration::from_secs(2)),
    };
    let mut laps = vec![Vec::new(); subjects.len()];
    let run = |subject: &Subject<'_>, window| {
        (subject.run)(window).map_err(|why| format!("{}: {why}", subject.name))
    };
    if !quick {
        for subject in subjects {
            run(subject, Duration::from_secs(1))?;
        }
    }
    for round in 0..rounds {
        for step in 0..subjects.len() {
            let index = (round + step) % subjects.len();
            laps[index].push(run(&subjects[index], window)?);
        }
    }
    let baseline = laps.first().cloned().unwrap_or_default();
    let row = |(subject, laps): (&Subject<'_>, Vec<Lap>)| {
        let spread = |value: fn(&Lap) -> f64| Spread::of(laps.iter().map(value).collect());
        Row {
            subject: subject.name,
            per_second: spread(|lap| lap.per_second),
            per_cpu_second: spread(|lap| lap.per_cpu_second),
            cpu_us: spread(|lap| 1e6 / lap.per_cpu_second),
            over_baseline: ratios(&laps, &baseline, |lap| lap.per_cpu_second),
            laps,
        }
    };
    Ok(subjects.iter().zip(laps).map(row).collect())
}

pub fn table(title: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "\n{title}\n  {:<40} {:>10} {:>10} {:>8} {:>9} {:>13}\n",
        "", "answers/s", "per CPU s", "CPU µs", "/baseline", "p10..p90",
    );
    for row in rows {
        let Spread { p10, p50, p90 } = row.over_baseline;
        let _ = writeln!(
            text,
            "  {:<40} {:>10.0} {:>10.0} {:>8.2} {:>9.2} {:>13}",
            row.subject,
            row.per_second.p50,
            row.per_cpu_second.p50,
            row.cpu_us.p50,
            p50,
            format!("{p10:.2}..{p90:.2}"),
        );
    }
    text
}

/// Returns a line if the baseline's own numbers are noisy.
pub fn disturbance(title: &str, rows: &[Row]) -> Option<String> {
    /// The most that the 90th percentile may be of the 10th, on a calm machine.
    const CALM: f64 = 1.25;
    let Spread { p10, p90, .. } = rows.first()?.per_cpu_second;
    (p90 > CALM * p10)
        .then(|| format!("{title}: {p10:.0} to {p90:.0} answers per CPU second of the baseline"))
}

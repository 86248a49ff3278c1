//! What a decision on leased tokens costs, beside one of a limiter that needs no store.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

use core_affinity::CoreId;
use flowgate::{Leased, TokenBucket};
use flowgate_bench::cases::{Case, GOVERNOR, Traffic};
use governor::{Quota, RateLimiter};
use serde::Serialize;

use crate::shared::harness::{self, Plan};
use crate::shared::outcome::Verdict;
use crate::shared::spread::Spread;

const LEASED: &str = "flowgate Leased";
const BUCKET: &str = "flowgate TokenBucket";
pub const SUBJECTS: [&str; 3] = [BUCKET, LEASED, GOVERNOR];

/// The most tokens that a lease can have: more than a lap takes.
const LEASE: u64 = 4_194_303;
const HOUR: Duration = Duration::from_secs(3_600);

/// The most that the 90th percentile of the bucket may be of its 10th, on a calm machine.
const CALM: f64 = 1.25;

/// One limiter, while it admits everything.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub subject: &'static str,
    pub ns_per_op: Spread,
    /// Over that of [`BUCKET`] in the same round.
    pub over_bucket: Spread,
    /// Over that of governor in the same round.
    pub over_governor: Spread,
    pub admitted_share: f64,
}

/// # Errors
///
/// A message if a limiter cannot be built.
fn cases() -> Result<Vec<Case>, String> {
    let bucket = "1000000000/s burst 1000000000".parse();
    let bucket = TokenBucket::new(bucket.map_err(|error| format!("{BUCKET}: {error}"))?);
    let leased = Leased::new(LEASE).map_err(|error| format!("{LEASED}: {error}"))?;
    let quota = Quota::with_period(Duration::from_nanos(1)).ok_or("no period of 1 ns")?;
    let burst = NonZeroU32::new(1_000_000_000).ok_or("no burst")?;
    let governor = RateLimiter::direct(quota.allow_burst(burst));
    Ok(vec![
        Case::built(
            BUCKET,
            Traffic::Admit,
            || bucket,
            |bucket| bucket.try_acquire().is_ok(),
        ),
        Case::prepared(
            LEASED,
            Traffic::Admit,
            || leased,
            // Of three leases, the one with the fewest tokens goes: two are left, of which one is full.
            |leased| {
                let until = leased.clock().now() + HOUR;
                leased.filler().grant(LEASE, until);
                leased.filler().grant(LEASE, until);
            },
            |leased| leased.try_acquire().is_ok(),
        ),
        Case::built(
            GOVERNOR,
            Traffic::Admit,
            || governor,
            |governor| governor.check().is_ok(),
        ),
    ])
}

/// # Errors
///
/// A message if a limiter cannot be built.
pub fn measure(quick: bool, cores: &[CoreId]) -> Result<Vec<Row>, String> {
    let cases = cases()?;
    let (rounds, window) = match quick {
        true => (3, Duration::from_micros(200)),
        false => (201, Duration::from_millis(2)),
    };
    let plan = Plan {
        threads: 1,
        rounds,
        window,
    };
    let samples = harness::measure(&cases, plan, cores);
    let of = |name| {
        let index = cases.iter().position(|case| case.subject == name);
        &samples[index.expect("it is among the cases")]
    };
    let row = |case: &Case| {
        let samples = of(case.subject);
        let over = |other| {
            let pairs = samples.ns_per_op.iter().zip(&of(other).ns_per_op);
            Spread::of(pairs.map(|(ns, other)| ns / other).collect())
        };
        Row {
            subject: case.subject,
            ns_per_op: Spread::of(samples.ns_per_op.clone()),
            over_bucket: over(BUCKET),
            over_governor: over(GOVERNOR),
            admitted_share: samples.admitted as f64 / samples.operations as f64,
        }
    };
    Ok(cases.iter().map(row).collect())
}

pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "\nleased: decisions that admit, 1 thread\n  {:<24} {:>8} {:>9} {:>13} {:>10} {:>13} {:>9}\n",
        "", "ns/op", "/bucket", "p10..p90", "/governor", "p10..p90", "admitted",
    );
    let range = |spread: Spread| format!("{:.3}..{:.3}", spread.p10, spread.p90);
    for row in rows {
        let _ = writeln!(
            text,
            "  {:<24} {:>8.1} {:>9.3} {:>13} {:>10.3} {:>13} {:>7.1} %",
            row.subject,
            row.ns_per_op.p50,
            row.over_bucket.p50,
            range(row.over_bucket),
            row.over_governor.p50,
            range(row.over_governor),
            100.0 * row.admitted_share,
        );
    }
    text
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let of = |name| rows.iter().find(|row| row.subject == name);
    // If a limiter refused, something else was measured.
    let admitted = |row: &&Row| row.admitted_share == 1.0;
    let leased = of(LEASED).filter(admitted);
    let ratio = leased.filter(|_| of(BUCKET).as_ref().is_some_and(admitted));
    Verdict::at_most(
        "leased: at most 1.0 x TokenBucket, admit, 1 thread".to_owned(),
        ratio.map(|row| row.over_bucket.p50),
        1.0,
        " x",
    )
}

/// Returns a line if the bucket's rounds are noisy.
pub fn disturbance(rows: &[Row]) -> Option<String> {
    let bucket = rows.iter().find(|row| row.subject == BUCKET)?;
    let Spread { p10, p90, .. } = bucket.ns_per_op;
    (p90 > CALM * p10).then(|| format!("leased: {BUCKET} from {p10:.1} to {p90:.1} ns"))
}

//! How large a limit has to be: from a rate and a latency to a number of concurrent calls, and back.
//!
//! Calls that arrive at `qps` per second and take `mean_latency` each keep *a* = `qps` × `mean_latency` calls in service on
//! average. This is the offered load ([`bare`]; Little, 1961).
//!
//! The offered load is only the mean, and calls do not arrive in step. A limit of just *a*, without a queue, turns many calls
//! away although nothing is overloaded. Erlang's formula for a system that rejects calls when it is full gives the share
//! (Erlang, 1917):
//!
//! ```text
//!              aᶜ / c!                       c     c    c−1
//!  B(c, a) = ──────────────       1 / B = 1 + ─ + ─ · ─── + …       c: the limit, a: the offered load
//!             Σ  aᵏ / k!                      a     a     a
//!            k=0…c
//! ```
//!
//! | a | turned away by a limit of a | limit for ≤ 1 % | limit for ≤ 0.1 % |
//! |---|---|---|---|
//! | 1 | 50 % | 5 | 6 |
//! | 4 | 31.1 % | 10 (a + 3.00 √a) | 12 (a + 4.00 √a) |
//! | 10 | 21.5 % | 18 (a + 2.53 √a) | 21 (a + 3.48 √a) |
//! | 20 | 15.9 % | 30 (a + 2.24 √a) | 35 (a + 3.35 √a) |
//! | 50 | 10.5 % | 64 (a + 1.98 √a) | 71 (a + 2.97 √a) |
//! | 100 | 7.6 % | 117 (a + 1.70 √a) | 128 (a + 2.80 √a) |
//! | 500 | 3.5 % | 527 (a + 1.21 √a) | 555 (a + 2.46 √a) |
//! | 1000 | 2.5 % | 1029 (a + 0.92 √a) | 1072 (a + 2.28 √a) |
//!
//! ```
//! use flowgate::sizing;
//! use std::time::Duration;
//!
//! // 150,000 calls per second on 600 instances, 40 ms each.
//! let (qps, mean) = (150_000.0 / 600.0, Duration::from_millis(40));
//! assert_eq!(sizing::bare(qps, mean)?, 10.0);
//! assert!(sizing::rejected(10, qps, mean)? > 0.21);
//! assert_eq!(sizing::limit_for(qps, mean, 0.01)?, 18);
//! # Ok::<(), sizing::SizingError>(())
//! ```
//!
//! # Before you believe the number
//!
//! - **Which latency.** Use the mean over all calls, measured *without* overload, including waits for services that the call
//!   depends on. A high quantile gives a limit for a load that does not exist. A mean that was measured while calls queued
//!   counts the queue as work, and the limit that results from it lets the queue persist.
//! - **Which arrivals.** The formula is for calls that arrive independently of each other, as from many users. The distribution
//!   of the latency around its mean does not matter; that is a theorem. The pattern of arrivals does matter. Batches, retries,
//!   and clients that wake by the same timer need a higher limit.
//! - **What it protects.** The number is what the traffic needs, not what the resource can bear. If a connection pool or a
//!   processor bears less, use that as the limit, and turn calls away.
//! - **One instance.** A load balancer that does not spread calls evenly gives some instances a higher `qps` than the average.
//!   Small instances need the largest margin: 10 limits of 18 make 180, while one limit for all calls is 117.
//!
//! # Arithmetic
//!
//! These functions do not decide about calls, so they use `f64`. The series above is summed from its first term on. All terms
//! are positive, so nothing cancels.
//!
//! Results are correct to 13 digits for limits up to 10,000, and to 9 digits for all limits. If a reject target is met or
//! missed by less than that, [`limit_for`] may be off by one. A share below 10⁻³⁰⁸ counts as 0. The number of terms that matter
//! is about ten times √a, so even the largest limits take a fraction of a second.

use core::fmt;
use core::time::Duration;

/// The largest limit that can be computed: 2³¹ − 1.
///
/// This is the largest number of permits of a concurrency limit.
pub const MAX_LIMIT: u32 = crate::concurrency::limit::MOST;

/// A term that is smaller than the sum by this factor does not change the sum. Neither do the terms after it, which are
/// smaller, and at most a few million.
const NEGLIGIBLE: f64 = 1e-26;

/// Returns the smallest limit that turns away at most `reject_target` of the calls.
///
/// `reject_target` is a fraction of 1. The limit has no queue.
///
/// ```
/// use flowgate::sizing::limit_for;
/// use std::time::Duration;
///
/// // 100 calls per second of 2 s are 200 at once on average; to lose at most one in 100, allow 221.
/// assert_eq!(limit_for(100.0, Duration::from_secs(2), 0.01)?, 221);
/// # Ok::<(), flowgate::sizing::SizingError>(())
/// ```
///
/// # Errors
///
/// Returns [`SizingError`] in these cases:
///
/// - `qps` is not a finite number above 0.
/// - `mean_latency` is 0.
/// - `reject_target` is not between 0 and 1, both excluded.
/// - The limit would have to be over [`MAX_LIMIT`].
pub fn limit_for(qps: f64, mean_latency: Duration, reject_target: f64) -> Result<u32, SizingError> {
    let offered = bare(qps, mean_latency)?;
    let target = checked_target(reject_target)?;
    // A limit of `low` is too small. A limit of `high` is large enough, as far as is known.
    let (mut low, mut high) = (0, MAX_LIMIT);
    if blocking(high, offered) > target {
        return Err(SizingError(Reason::LimitTooLarge { offered }));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match blocking(middle, offered) > target {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(high)
}

/// Returns the share of calls, 0 to 1, that a full limit turns away.
///
/// The limit has no queue, and there is no overload except by chance. This is Erlang's formula B.
///
/// ```
/// use flowgate::sizing::rejected;
/// use std::time::Duration;
///
/// let share = rejected(18, 250.0, Duration::from_millis(40))?;
/// assert_eq!(format!("{:.2} %", 100.0 * share), "0.71 %");
/// # Ok::<(), flowgate::sizing::SizingError>(())
/// ```
///
/// # Errors
///
/// Returns [`SizingError`] in these cases:
///
/// - `limit` is 0 or over [`MAX_LIMIT`].
/// - `qps` is not a finite number above 0.
/// - `mean_latency` is 0.
/// - The product of `qps` and `mean_latency` is too large for an `f64`.
pub fn rejected(limit: u32, qps: f64, mean_latency: Duration) -> Result<f64, SizingError> {
    let limit = checked_limit(limit)?;
    Ok(blocking(limit, bare(qps, mean_latency)?))
}

/// Returns the mean number of calls in service: the rate times the latency.
///
/// This is Little's law. The number is **too low as a limit**; see the [module](self).
///
/// ```
/// use flowgate::sizing::bare;
/// use std::time::Duration;
///
/// assert_eq!(bare(100.0, Duration::from_secs(2))?, 200.0);
/// # Ok::<(), flowgate::sizing::SizingError>(())
/// ```
///
/// # Errors
///
/// Returns [`SizingError`] if `qps` is not a finite number above 0, `mean_latency` is 0, or their product is too large for an
/// `f64`.
pub fn bare(qps: f64, mean_latency: Duration) -> Result<f64, SizingError> {
    if !(qps.is_finite() && qps > 0.0) {
        return Err(SizingError(Reason::Qps { qps }));
    }
    let offered = qps * checked_latency(mean_latency)?.as_secs_f64();
    match offered.is_finite() {
        true => Ok(offered),
        false => Err(SizingError(Reason::LimitTooLarge { offered })),
    }
}

/// Returns the highest arrival rate of which a limit turns away at most `reject_target`.
///
/// The rate is in calls per second. `reject_target` is a fraction of 1. The limit has no queue.
///
/// ```
/// use flowgate::sizing::{qps_for, rejected};
/// use std::time::Duration;
///
/// let mean = Duration::from_millis(40);
/// let qps = qps_for(18, mean, 0.01)?;
/// assert_eq!(format!("{qps:.1}"), "260.9");
/// assert!(rejected(18, qps, mean)? <= 0.01);
/// # Ok::<(), flowgate::sizing::SizingError>(())
/// ```
///
/// # Errors
///
/// Returns [`SizingError`] if `limit` is 0 or over [`MAX_LIMIT`], `mean_latency` is 0, or `reject_target` is not between 0 and
/// 1, both excluded.
pub fn qps_for(limit: u32, mean_latency: Duration, reject_target: f64) -> Result<f64, SizingError> {
    let limit = checked_limit(limit)?;
    let mean_secs = checked_latency(mean_latency)?.as_secs_f64();
    let target = checked_target(reject_target)?;
    // Positive floats have the same order as their bits, so bisecting the bits finds the last rate that meets the target. The
    // rate of `low` meets it. The rate of `high`, at which nearly all calls are turned away, does not.
    let (mut low, mut high) = (0_f64.to_bits(), f64::MAX.to_bits());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match blocking(limit, f64::from_bits(middle) * mean_secs) > target {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok(f64::from_bits(low))
}

/// Returns the longest queue whose last call still meets its deadline on average.
///
/// A full service with `limit` places frees one place each `mean_latency` / `limit`, and the call itself takes
/// `mean_latency`. So the length is `limit` × (`deadline` − `mean_latency`) / `mean_latency`, rounded down. A call that waits
/// longer is work without a use, because its caller has given up.
///
/// Latencies differ, so some of the last calls in the queue are late anyway. Give each call its deadline, too.
///
/// ```
/// use flowgate::sizing::queue_len;
/// use std::time::Duration;
///
/// // 18 places of 40 ms, and an answer within 200 ms: 72 may wait.
/// assert_eq!(queue_len(18, Duration::from_millis(40), Duration::from_millis(200))?, 72);
/// # Ok::<(), flowgate::sizing::SizingError>(())
/// ```
///
/// The result is computed in integers, and is at most 2⁶⁴ − 1.
///
/// # Errors
///
/// Returns [`SizingError`] if `limit` is 0 or over [`MAX_LIMIT`], `mean_latency` is 0, or `deadline` is shorter than
/// `mean_latency`. In the last case, even a call that does not wait is late on average.
pub fn queue_len(
    limit: u32,
    mean_latency: Duration,
    deadline: Duration,
) -> Result<u64, SizingError> {
    let limit = checked_limit(limit)?;
    let mean_ns = checked_latency(mean_latency)?.as_nanos();
    let Some(slack) = deadline.checked_sub(mean_latency) else {
        return Err(SizingError(Reason::Deadline {
            deadline,
            mean_latency,
        }));
    };
    // Below 2³¹ · 2⁹⁴.
    let waiting = u128::from(limit) * slack.as_nanos() / mean_ns;
    Ok(u64::try_from(waiting).unwrap_or(u64::MAX))
}

/// Computes Erlang's formula B. `limit` is not 0. `offered` is not negative, and may be 0 or infinite.
fn blocking(limit: u32, offered: f64) -> f64 {
    // The sum is that of the inverse. The terms grow while there are more places than load, and then fall ever faster.
    let (mut sum, mut term) = (1.0_f64, 1.0_f64);
    for places in (1..=limit).rev() {
        term *= f64::from(places) / offered;
        sum += term;
        if term < NEGLIGIBLE * sum || sum.is_infinite() {
            break;
        }
    }
    1.0 / sum
}

fn checked_limit(limit: u32) -> Result<u32, SizingError> {
    match limit {
        1..=MAX_LIMIT => Ok(limit),
        _ => Err(SizingError(Reason::Limit { limit })),
    }
}

fn checked_latency(mean_latency: Duration) -> Result<Duration, SizingError> {
    match mean_latency.is_zero() {
        true => Err(SizingError(Reason::LatencyZero)),
        false => Ok(mean_latency),
    }
}

fn checked_target(target: f64) -> Result<f64, SizingError> {
    // `false` for a NaN.
    match target > 0.0 && target < 1.0 {
        true => Ok(target),
        false => Err(SizingError(Reason::Target { target })),
    }
}

/// Error of a sizing function; it names the value and the range.
///
/// ```
/// use flowgate::sizing::limit_for;
/// use std::time::Duration;
///
/// let error = limit_for(100.0, Duration::from_secs(2), 1.5).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "a reject target of 1.5 is out of range: above 0 and below 1, such as 0.01 for one call in a hundred",
/// );
/// ```
#[derive(Clone, Copy, PartialEq)]
pub struct SizingError(Reason);

#[derive(Clone, Copy, PartialEq)]
enum Reason {
    Qps {
        qps: f64,
    },
    LatencyZero,
    Target {
        target: f64,
    },
    Limit {
        limit: u32,
    },
    LimitTooLarge {
        offered: f64,
    },
    Deadline {
        deadline: Duration,
        mean_latency: Duration,
    },
}

impl core::error::Error for SizingError {}

impl fmt::Debug for SizingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SizingError({self})")
    }
}

impl fmt::Display for SizingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Qps { qps } => write!(
                f,
                "a rate of {qps:?} calls per second is out of range: a finite number above 0"
            ),
            Reason::LatencyZero => {
                f.write_str("a mean latency of 0 is out of range: it must be 1ns or more")
            }
            Reason::Target { target } => write!(
                f,
                "a reject target of {target:?} is out of range: above 0 and below 1, such as 0.01 \
                 for one call in a hundred"
            ),
            Reason::Limit { limit } => {
                write!(f, "a limit of {limit} is out of range: 1 to {MAX_LIMIT}")
            }
            Reason::LimitTooLarge { offered } => write!(
                f,
                "an offered load of {offered:?} concurrent calls takes a limit out of range: it is \
                 at most {MAX_LIMIT}"
            ),
            Reason::Deadline {
                deadline,
                mean_latency,
            } => write!(
                f,
                "a deadline of {deadline:?} is out of range: it must be at least the mean latency, \
                 {mean_latency:?}"
            ),
        }
    }
}

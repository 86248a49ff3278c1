//! How large a limit has to be: from a rate and a latency to a number of calls at once, and back.
//!
//! Calls that arrive at `qps` per second and take `mean_latency` each keep on average *a* = qps · latency of them in
//! service, the offered load ([`bare`]; Little, 1961). That is the mean, and calls do not arrive in step: with
//! a limit of just *a* and no queue, many are turned away although nothing is overloaded. How many, says Erlang's
//! formula for a system that loses what it has no place for (Erlang, 1917):
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
//! - **Which latency.** The mean over all calls, waits for things further down included, measured *without* overload. A
//!   high quantile sizes for a load that is not there; a mean that was measured while calls queued counts the queue
//!   as work, and the limit that comes of it lets the queue persist.
//! - **Which arrivals.** The formula is for calls that arrive independently of each other, as from many users. How
//!   the latency is distributed around its mean does not matter, that is a theorem. How calls arrive does: batches,
//!   retries, and clients that wake by the same timer need more than it says.
//! - **What it protects.** It says what the traffic needs, not what the resource stands. Where a connection
//!   pool or a processor bears less, that is the limit, and the answer is to turn calls away.
//! - **One instance.** A balancer that does not spread calls evenly gives some instances a higher `qps` than the
//!   quotient. Small instances pay most for chance: 10 limits of 18 make up 180, one for all of it is 117.
//!
//! # Arithmetic
//!
//! Nothing here decides about a call, so this is `f64`. The series above is summed from its first term on; all of
//! them are positive, so nothing cancels. Results are good to 13 digits for limits up to 10,000, and to 9 for any;
//! where a reject target is met or missed by less than that, [`limit_for`] may be off by one. A blocking below 10⁻³⁰⁸
//! counts as 0. The terms that matter number about ten times √a, so even the largest limits take
//! a fraction of a second.

use core::fmt;
use core::time::Duration;

/// The largest limit that is worth computing: as many permits as a limit of concurrency can have, 2³¹ − 1.
pub const MAX_LIMIT: u32 = crate::concurrency::limit::MOST;

/// A term that is this much smaller than the sum cannot be seen in it, nor can those after it, which are smaller and
/// at most a few million.
const NEGLIGIBLE: f64 = 1e-26;

/// The smallest limit that turns away at most `reject_target` of the calls, as a fraction of 1, without a queue.
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
/// [`SizingError`] if `qps` is not a finite number above 0, `mean_latency` is 0, `reject_target` is not between 0 and
/// 1, both excluded, or the limit would have to be over [`MAX_LIMIT`].
pub fn limit_for(qps: f64, mean_latency: Duration, reject_target: f64) -> Result<u32, SizingError> {
    let offered = bare(qps, mean_latency)?;
    let target = checked_target(reject_target)?;
    // A limit of `low` does not do; one of `high`, as far as is known, does.
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

/// The share of calls, 0 to 1, that a limit turns away for want of room, without a queue and without any overload
/// but chance: Erlang's formula B.
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
/// [`SizingError`] if `limit` is 0 or over [`MAX_LIMIT`], `qps` is not a finite number above 0, `mean_latency` is 0, or
/// the product of the two is too large for an `f64`.
pub fn rejected(limit: u32, qps: f64, mean_latency: Duration) -> Result<f64, SizingError> {
    let limit = checked_limit(limit)?;
    Ok(blocking(limit, bare(qps, mean_latency)?))
}

/// How many calls are in service on average: the rate times the latency, Little's law. **Too low as a limit**; see
/// the [module](self).
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
/// [`SizingError`] if `qps` is not a finite number above 0, `mean_latency` is 0, or their product is too large for an
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

/// The highest rate of arrivals, in calls per second, of which a limit turns away at most `reject_target`, as a
/// fraction of 1, without a queue.
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
/// [`SizingError`] if `limit` is 0 or over [`MAX_LIMIT`], `mean_latency` is 0, or `reject_target` is not between 0
/// and 1, both excluded.
pub fn qps_for(limit: u32, mean_latency: Duration, reject_target: f64) -> Result<f64, SizingError> {
    let limit = checked_limit(limit)?;
    let mean_secs = checked_latency(mean_latency)?.as_secs_f64();
    let target = checked_target(reject_target)?;
    // Positive floats are in the order of their bits, so halving these finds the last one that will do. The rate
    // of `low` does, that of `high`, at which all but nothing is turned away, does not.
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

/// The most calls that may wait before a limit so that the last of them still meets its deadline on average: limit ·
/// (deadline − mean) / mean, rounded down.
///
/// A full service of `limit` places frees one each mean / limit, and the call itself takes the mean. What waits longer
/// is work for nobody. Latencies differ, so some of the last in the queue will be late all the same: give each its
/// deadline too.
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
/// Computed in integers. Over 2⁶⁴ − 1 it is 2⁶⁴ − 1.
///
/// # Errors
///
/// [`SizingError`] if `limit` is 0 or over [`MAX_LIMIT`], `mean_latency` is 0, or `deadline` is shorter than it: then
/// even a call that does not wait is late on average.
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

/// Erlang's B. `limit` is not 0; `offered` is not negative, and may be 0 or infinite.
fn blocking(limit: u32, offered: f64) -> f64 {
    // Of the inverse: the terms grow while there are more places than load, then fall ever faster.
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
    // Not so for a NaN.
    match target > 0.0 && target < 1.0 {
        true => Ok(target),
        false => Err(SizingError(Reason::Target { target })),
    }
}

/// A question that has no answer; it names the value and the range.
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
                "an offered load of {offered:?} calls at once takes a limit out of range: it is \
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

//! [`WarmUp`]: [a state and its steps](warming) by [`algorithm::warm_up`](crate::algorithm::warm_up).

mod builder;
mod engine;
mod parameters;
mod state;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;
mod warming;

pub use builder::WarmUpBuilder;

use crate::limiter::RateLimiter;
use crate::limiter::builder::Builder;
use crate::quota::Quota;
#[cfg(feature = "std")]
use crate::quota::QuotaError;
#[cfg(feature = "std")]
use core::time::Duration;
pub use warming::Warming;

/// A rate limiter that starts slowly after idle time.
///
/// Use it for systems that must not receive the full rate after idle time: an empty cache, a pool without connections, code
/// that is not compiled yet.
///
/// While idle, the limiter cools. The first operation then costs *cold factor* times the stable interval, and each later one
/// less. After a *warm-up* under load, operations cost the stable interval.
///
/// ```text
///   rate
/// stable ┤               ╭──────────────╮           ╭──────
///        │           ╭───╯              │       ╭───╯
///        │      ╭────╯                  │  ╭────╯
///  stable│──────╯                       │──╯         after a short rest
///  / cold┤                              │            it is half warm
///        └──────┬───────────────────────┴───────────────────▶ time
///               ╰ warm-up ╯              idle
/// ```
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use std::time::Duration;
///
/// // 2 per second, ramping up over 4 seconds from a third of that.
/// let limiter = WarmUp::builder("2/s".parse()?)
///     .warm_up(Duration::from_secs(4))
///     .clock(&ManualClock::new()) // a real program leaves the clock out
///     .build()?;
/// let starts = [0; 6].map(|_| limiter.reserve().unwrap().at().as_nanos() / 1_000_000);
/// assert_eq!(starts, [0, 1375, 2500, 3375, 4000, 4500]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![WarmUp: slower after a rest][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). Of the grants in any interval \[s, e\] of limiter time, all except the last one cost,
///   together, at most e − s. The cost of a grant is never less than the integral that Guava's `SmoothWarmingUp` defines, drawn
///   [below](#the-curve).
/// - **Later requests wait for the cost.** A grant does not wait for its own cost: it goes ahead immediately if earlier grants
///   are paid, and its cost delays the next one. So a large `n`, up to the quota's burst, goes ahead immediately after idle
///   time.
/// - **Never refuses needlessly** (C2). A refusal means that the last grant is not paid yet.
/// - **Exact rates** (C8). The stable rate is a fraction and never drifts. See [precision](#precision).
/// - **Safe under clock anomalies** (C4). A `now` that is older than an earlier one sees no less debt, and stores nothing.
/// - **Exact retry-after** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond.
///   While others wait in the [queue](RateLimiter::queue), it is shorter by the amount that is rounded up for each of them.
///
/// # The curve
///
/// Idle time stores permits. The more permits are stored, the more each one costs:
///
/// ```text
///  cost of a permit
///   cold ┤                     ╱   cold = cold factor × stable
///        │                  ╱  ┆
///        │               ╱     ┆   area under the slope: the warm-up
///  stable┤────────────╱        ┆
///        │     area  ┆         ┆   after a rest of one warm-up, the store is full again
///        │     warm-up/2       ┆
///        └───────────┴─────────┴─▶ stored permits
///        0        threshold   full
/// ```
///
/// A limiter starts full, which is cold. With a cold factor of 1, or without a warm-up, every permit costs the stable interval.
///
/// # When to use another limiter
///
/// Polling can keep the limiter cold. If the polling interval does not fit the costs, the limiter cools a little after each
/// grant, and may never reach the stable rate. Example: 10 per second with a warm-up of 500 ms, asked every 120 ms, admits
/// every third request and stays cold. [`reserve`](RateLimiter::reserve), which leaves no pause, warms it up.
///
/// Use [`TokenBucket`](crate::TokenBucket) if idle time should allow a burst.
///
/// # Amounts
///
/// `n` counts units. A unit is a token unless the quota divides tokens ([`Quota::units_per_token`]). `n` = 0 succeeds and
/// changes nothing. The quota's burst, by default its count, only limits how many units one request may take. A request for
/// more is refused with [`Denied::is_never`](crate::Denied::is_never). A larger burst does not admit requests earlier.
///
/// A request within the burst is granted if the grants before it are paid, whatever its size, and later requests wait for
/// its cost. So [`available`](RateLimiter::available) is either 0 or the burst, not the number of stored units: stored units
/// make a request cost more.
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use std::time::Duration;
///
/// let limiter = WarmUp::builder("5/s burst 8".parse()?).clock(ManualClock::new()).build()?;
/// assert_eq!(limiter.take_up_to(100), 8);
/// assert_eq!((limiter.take_up_to(100), limiter.available()), (0, 0));
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(1600)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Reservations
///
/// [`reserve`](RateLimiter::reserve) returns the time at which the grants before it are paid. That instant may lie between
/// two nanoseconds; the time returned is rounded up. An interval that begins at a returned time can therefore hold costs
/// that are greater by that fraction of a nanosecond.
///
/// [`cancel`](crate::Reservation::cancel) undoes a reservation completely if nothing was granted or refunded since, and the
/// quota has not changed. Otherwise nothing comes back.
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use std::time::Duration;
///
/// let limiter = WarmUp::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
/// assert_eq!(limiter.reserve_n(4)?.at().as_nanos(), 0);
/// let second = limiter.reserve_n(2)?;
/// assert_eq!(second.at().as_nanos(), 400_000_000);
/// assert_eq!(second.cancel(), 2);
/// assert!(limiter.reserve_within(Duration::from_millis(399)).is_err());
/// assert!(limiter.reserve_within(Duration::from_millis(400)).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Refunds
///
/// [`refund`](RateLimiter::refund) returns the last `n` units of the grant that is being paid, as far as their cost lies ahead.
/// The cold that they took out comes back as well. Nothing comes back
///
/// - while a reservation waits for its time, or, if it was cancelled, before that time has passed;
/// - for units that were taken before a change of quota;
/// - with a warm-up, if the store is empty: it is then not known how cold the limiter was before these units.
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
/// use std::time::Duration;
///
/// let limiter = WarmUp::builder("10/s".parse()?).clock(ManualClock::new()).build()?;
/// limiter.try_acquire_n(8)?;
/// assert_eq!(limiter.refund(3), 3);
/// let denied = limiter.try_acquire().unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Changing the quota
///
/// [`set_quota`](RateLimiter::set_quota) replaces the quota; the warm-up and the cold factor stay.
///
/// - As in Guava, the limiter stays as cold as it was: the same fraction of its store is full.
/// - Taken units are paid at the rate at which they were taken. The next caller waits exactly as long as before the change.
/// - The times of reservations do not move.
/// - A quota at whose rate the warm-up cannot be kept is refused.
///
/// ```
/// use flowgate::{ManualClock, WarmUp};
///
/// let limiter = WarmUp::builder("2/s".parse()?).clock(ManualClock::new()).build()?;
/// let at_ms = || limiter.reserve().map(|reserved| reserved.at().as_nanos() / 1_000_000);
/// assert_eq!((at_ms()?, at_ms()?), (0, 500));
/// limiter.set_quota("10/s".parse()?)?;
/// assert_eq!((at_ms()?, at_ms()?), (1000, 1100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Precision
///
/// The next free time is kept in ticks, so that a nanosecond and a unit are both whole numbers of ticks. The cost of units
/// above the threshold is rounded up, once for each grant, by less than a tick, which is at most 1 ns.
///
/// The store is exact for most quotas. Otherwise it is rounded up by less than 1/1024 of a unit for each grant. Warm-ups for
/// which that is not enough are refused. Both roundings make a grant cost more, never less, than the integral over the store.
///
/// A later grant leaves less time to cool. So over a history, the next free time is within 2 × cold factor ticks for each grant
/// of what exact arithmetic gives, on either side.
///
/// # Memory ordering
///
/// There is no guarantee: an admission does not make one thread's writes visible to another.
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap. It takes no lock and allocates nothing. A grant above the
/// threshold divides once. [`is_lock_free`](RateLimiter::is_lock_free) reports whether the target has that instruction.
///
/// # Source
///
/// Guava's `RateLimiter.create(permitsPerSecond, warmupPeriod)`, with these differences:
///
/// - Any cold factor is possible.
/// - Costs are not cut to microseconds.
/// - A warm-up of 0, or a tiny one, does not divide zero by zero.
/// - `n` has a bound.
/// - Units can be returned, by [cancel](crate::Reservation::cancel) and [`refund`](RateLimiter::refund).
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/warm-up.md"))]
pub type WarmUp = RateLimiter<Warming>;

impl WarmUp {
    /// Creates a cold limiter on [`Clock::system`](crate::Clock::system), with a cold factor of 3.
    ///
    /// ```
    /// # use flowgate::WarmUp;
    /// # use std::time::Duration;
    /// let limiter = WarmUp::new("100/s".parse()?, Duration::from_secs(10))?;
    /// assert!(limiter.try_acquire().is_ok());
    /// assert!(limiter.try_acquire().is_err()); // until 30 ms later
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] in the cases that [`WarmUpBuilder`] lists.
    #[cfg(feature = "std")]
    pub fn new(quota: Quota, warm_up: Duration) -> Result<Self, QuotaError> {
        Self::builder(quota).warm_up(warm_up).build()
    }

    /// Returns a builder, for another clock or cold factor.
    pub fn builder(quota: Quota) -> WarmUpBuilder {
        Builder::new(builder::Settings {
            quota,
            warm_up: core::time::Duration::ZERO,
            cold_factor: 3,
        })
    }
}

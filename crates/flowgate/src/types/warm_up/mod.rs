//! [`WarmUp`]: [a state and its steps](warming) by [`algorithm::warm_up`](crate::algorithm::warm_up).

mod builder;
mod engine;
mod parameters;
mod state;
#[cfg(all(test, not(flowgate_loom)))]
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

/// Ramps up from cold: the costs of all grants in any span but the last are at most the span, and a grant costs
/// more the longer the limiter has been idle.
///
/// For what must not be hit at full rate after a rest: an empty cache, a pool without connections, code not yet
/// compiled. While idle the limiter cools. The first operation then costs *cold factor* times the stable interval,
/// and each one after it less, until after a *warm-up* under load they cost the stable interval.
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
/// # What it promises
///
/// - **Never over** (contract C1). Of the grants in any interval \[s, e\] of limiter time, all but the last cost,
///   together, at most e − s. What a grant costs is the integral that Guava's `SmoothWarmingUp` defines, drawn
///   [below](#the-curve), never less.
/// - **The next caller pays.** A grant does not wait for its own cost: it goes at once if what came before is
///   paid, and its cost delays the next one. So a large `n` after a rest goes at once, and up to the quota's burst
///   may.
/// - **Nothing wasted** (C2). A refusal means that the last grant is not paid yet.
/// - **Exact** (C8). The stable rate is a fraction and never drifts. See [precision](#precision).
/// - **Any clock** (C4). A `now` that is older than one before it sees no less debt, and stores nothing.
/// - **Honest waits** (C3). [`Denied::retry_after`](crate::Denied::retry_after) is the least wait, to the nanosecond. While
///   others wait in the [queue](RateLimiter::queue), it is short of that by what is rounded up for each of them.
///
/// # The curve
///
/// Idle time is stored, and stored permits cost more, the more there are:
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
/// A limiter starts full, which is cold. With a cold factor of 1, or no warm-up, every permit costs the stable
/// interval.
///
/// # Choosing it
///
/// One that is polled at intervals that do not fit its costs cools a little after each grant and may not get to
/// the stable rate: 10 per second with a warm-up of 500 ms, asked every 120 ms, admits every third time and stays
/// cold. [`reserve`](RateLimiter::reserve), which leaves no pause, warms it up. Use [`TokenBucket`](crate::TokenBucket)
/// where a rest should be rewarded and not made up for.
///
/// # Amounts
///
/// `n` counts units, which are tokens unless the quota divides them ([`Quota::units_per_token`]). `n` = 0 succeeds
/// and changes nothing. The quota's burst, by default its count, bounds only how many units one request may take:
/// more are refused with [`Denied::is_never`](crate::Denied::is_never). It lets nobody through earlier.
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
/// [`refund`](RateLimiter::refund) gives back the last `n` units of the grant that is being paid, as far as their cost lies
/// ahead, together with the cold that they took out. Nothing comes back
///
/// - while a reservation waits for its time, or, if that was cancelled, before the time has passed,
/// - of units that were taken before a change of quota,
/// - with a warm-up, if the store is empty: it is then not known how cold the units found it.
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
/// The next free time is kept in ticks of which a nanosecond and a unit are both whole numbers. The cost of units
/// above the threshold is rounded up, once for each grant, by less than a tick, which is at most 1 ns. What is
/// stored is exact for most quotas, and otherwise rounded up by less than 1/1024 of a unit for each grant;
/// warm-ups for which that would not do are refused. Both make a grant cost more, never less, than the integral from
/// what is stored. As being late leaves less time to cool in, over a history the next free time is within 2 × cold
/// factor ticks for each grant of what exact arithmetic gives, on either side.
///
/// # Memory ordering
///
/// None is promised: an admission does not make one thread's writes visible to another.
///
/// # Cost
///
/// A decision is one clock reading and one 128-bit compare-and-swap, and takes no lock and no memory; a grant above
/// the threshold divides once. [`is_lock_free`](RateLimiter::is_lock_free) tells whether the target has that instruction.
///
/// # Source
///
/// Guava's `RateLimiter.create(permitsPerSecond, warmupPeriod)`. What differs: any cold factor, no microseconds
/// that costs are cut to, no division of zero by zero when the warm-up is 0 or tiny, a bound on `n`, and a way to
/// [cancel](crate::Reservation::cancel) and [`refund`](RateLimiter::refund).
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
    /// As [`WarmUpBuilder::build`].
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

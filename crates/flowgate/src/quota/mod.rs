//! [`Quota`]: how much is allowed per period, and how much in one burst.

mod display;
mod error;
mod excerpt;
mod fit;
mod number;
mod parse;
pub(crate) mod policy;
mod range;
mod ratio;
mod scan;
mod several;
mod terms;
#[cfg(test)]
mod tests;
mod unit;

use core::time::Duration;

pub use self::error::QuotaError;
pub(crate) use self::error::Reason;
pub(crate) use self::fit::{STATE_BITS, Share};
pub(crate) use self::ratio::{Ratio, TICKS_END};
pub use self::several::Quotas;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A rate and a burst: how many tokens are allowed per period.
///
/// A quota is a plain value: copy it, compare it, put it in a constant or a configuration file. It states what is allowed. A
/// limiter enforces it.
///
/// The rate is kept as the fraction that was written. It is never a floating-point number and never cut to whole nanoseconds,
/// so it does not drift: 3 per second is still exactly 3 per second after a year.
///
/// ```
/// use std::time::Duration;
/// use flowgate::Quota;
///
/// let quota = Quota::per_second(100).burst(20);
/// assert_eq!((quota.count(), quota.period()), (100, Duration::from_secs(1)));
/// assert_eq!(quota.max_burst(), 20);
/// assert_eq!(quota, "100/s burst 20".parse()?);
/// assert_eq!(quota.to_string(), "100/s burst 20");
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Burst
///
/// The burst is the most tokens that can be taken at one instant after idle time. By default it is the count.
/// `Quota::per_minute(60)` allows a burst of 60; `Quota::per_minute(60).burst(1)` allows one operation each second.
///
/// Limiters differ if no burst is set: a [`LeakyBucket`](crate::LeakyBucket) uses 1, and a window has no burst.
///
/// # Equality
///
/// Two quotas are equal if they were written the same. 60 per minute is not equal to 1 per second, though both allow the same
/// with the same burst. A burst that was set is not equal to the default burst, even if the number is the same.
///
/// [`Display`](core::fmt::Display), [`FromStr`](core::str::FromStr), serde (feature `serde`) and `==` agree: printed text is
/// parsed to an equal quota.
///
/// # Text
///
/// `<count>/<period> [burst <count>] [units <count>]`
///
/// - A *count* is digits, with `_` between them if you like, a decimal point, and a suffix `k` `M`
///   `G` `T` for powers of 1000: `100`, `1_000`, `2.5`, `10k`. A count of bytes has the suffix `B`,
///   `kB` `MB` `GB` `TB` for powers of 1000 or `KiB` `MiB` `GiB` `TiB` for powers of 1024: `64KiB`.
/// - A *period* is a unit of time, with a number before it if there is not one of it: `s`, `10s`,
///   `30d`. The units are `ns`, `us` or `µs`, `ms`, `s`, `m`, `h`, `d`, `w` and `y`, or in full
///   `sec` `second` `min` `minute` `hr` `hour` `day` `week` `yr` `year` and so on, with their
///   plurals. A year is 365 days. There is no month, because months differ in length.
/// - Also read are `per` in place of `/`; `r`, `req` or `requests` after the count; `rps`, `qps` and `rpm`; and `=` before a
///   number: `10 req/s`, `10 per second`, `10rps burst=20`. They are printed in the form above.
/// - `burst` is the most tokens in one burst. It is a whole number, and is written in bytes if the count is: `burst 20`.
/// - `units` is [`units_per_token`](Quota::units_per_token): `units 1000`.
///
/// Decimals are exact: `2.5/s` is 5 per 2 seconds. If no burst is written, it is the written count, rounded up: 3 for `2.5/s`,
/// 1 for `0.1/s`.
///
/// ```
/// # use flowgate::Quota;
/// # use std::time::Duration;
/// let quota: Quota = "2.5/s".parse()?;
/// assert_eq!((quota.count(), quota.period()), (5, Duration::from_secs(2)));
/// assert_eq!(quota.max_burst(), 3);
///
/// let quota: Quota = "10MiB/s burst 64KiB".parse()?;
/// assert_eq!((quota.count(), quota.max_burst()), (10 << 20, 64 << 10));
///
/// let error = "5/fortnight".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid quota \"5/fortnight\": at \"fortnight\" (character 3): not a unit of time; \
///      use ns, us, ms, s, min, h, d, w or y",
/// );
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Range
///
/// Every count from 1 to 10⁹ per second, minute, hour or day is accepted with every burst from 1 to 10⁹. Other quotas are
/// accepted if they can be kept exactly, and refused otherwise. The table uses the rate in lowest terms: *c* units per *p*
/// nanoseconds, where *c* starts as count × units per token.
///
/// | | range |
/// |---|---|
/// | c | 1 to 2³¹ |
/// | p | 1 to 2⁶³ − 1 (292 years) |
/// | period | 1 ns to 2⁶⁴ − 1 ns (584 years) |
/// | units per token | 1 to 2³² |
/// | burst × units per token | 1 to 2⁶⁴ − 1, and times p less than 2⁹³ |
///
/// For example, 10 GiB per second is accepted, because it shortens to 4,194,304 per 390,625 ns. 3,000,000,001 per second cannot
/// be shortened, and is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    period_ns: u64,
    /// The tokens of a [`Burst`]. `is_burst_set` is a separate field, so that every limiter is 8 bytes smaller.
    burst_tokens: u64,
    scale: u64,
    measure: Measure,
    is_burst_set: bool,
}

/// The most tokens in one burst, and whether the caller set it. Without a set burst, some limiters use another burst than the
/// count. Some limiters cannot have a burst.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Burst {
    /// The default burst.
    Implied(u64),
    /// It was set.
    Set(u64),
}

impl Burst {
    const fn tokens(self) -> u64 {
        match self {
            Self::Implied(tokens) | Self::Set(tokens) => tokens,
        }
    }
}

/// What a quota counts. It affects only how the quota is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Measure {
    Operations,
    Bytes,
}

impl Quota {
    /// Creates a quota of `count` per second, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// Panics if [`Quota::new`] would return an error: if `count` is 0, or is over 2³¹ and not [exact](Quota#range). In a
    /// constant, this is a compile error.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// const LIMIT: Quota = Quota::per_second(100);
    /// assert_eq!(LIMIT.to_string(), "100/s");
    /// assert_eq!(LIMIT.max_burst(), 100);
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn per_second(count: u64) -> Self {
        Self::per(count, SECOND)
    }

    /// Creates a quota of `count` per minute, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// Panics if [`Quota::new`] would return an error: if `count` is 0, or is over 2³¹ and not [exact](Quota#range). In a
    /// constant, this is a compile error.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_minute(5000).burst(50).to_string(), "5000/min burst 50");
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn per_minute(count: u64) -> Self {
        Self::per(count, MINUTE)
    }

    /// Creates a quota of `count` per hour, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// Panics if [`Quota::new`] would return an error: if `count` is 0, or is over 2³¹ and not [exact](Quota#range). In a
    /// constant, this is a compile error.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_hour(60).to_string(), "60/h");
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn per_hour(count: u64) -> Self {
        Self::per(count, HOUR)
    }

    /// Creates a quota of `count` per day of 24 hours, with a burst of `count`.
    ///
    /// # Panics
    ///
    /// Panics if [`Quota::new`] would return an error: if `count` is 0, or is over 2³¹ and not [exact](Quota#range). In a
    /// constant, this is a compile error.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_day(3).to_string(), "3/day");
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn per_day(count: u64) -> Self {
        Self::per(count, DAY)
    }

    #[track_caller]
    const fn per(count: u64, period_ns: u64) -> Self {
        match Self::checked(
            count,
            period_ns,
            Burst::Implied(count),
            1,
            Measure::Operations,
        ) {
            Ok(quota) => quota,
            Err(reason) => panic!("{}", reason.summary()),
        }
    }

    /// Creates a quota of `count` per `period`, with a burst of `count`.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `count` or `period` is zero, or if they are out of [range](Quota#range).
    ///
    /// ```
    /// # use flowgate::Quota;
    /// use std::time::Duration;
    ///
    /// let quota = Quota::new(5, Duration::from_secs(2))?;
    /// assert_eq!(quota.to_string(), "5/2s");
    ///
    /// let error = Quota::new(0, Duration::from_secs(2)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "invalid quota: a count of 0 admits nothing; it must be 1 or more",
    /// );
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// It can be used in a constant:
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use std::time::Duration;
    /// const LIMIT: Quota = match Quota::new(5, Duration::from_secs(2)) {
    ///     Ok(quota) => quota,
    ///     Err(_) => panic!("out of range"),
    /// };
    /// # assert_eq!(LIMIT.count(), 5);
    /// ```
    pub const fn new(count: u64, period: Duration) -> Result<Self, QuotaError> {
        Self::kept(count, period, Burst::Implied(count), 1, Measure::Operations)
    }

    /// Creates a quota of one operation in every `every`, with a burst of 1.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `every` is zero, or 2⁶³ ns (292 years) or more.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// use std::time::Duration;
    ///
    /// let quota = Quota::spacing(Duration::from_millis(250))?;
    /// assert_eq!(quota.to_string(), "1/250ms");
    /// assert_eq!(quota.max_burst(), 1);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub const fn spacing(every: Duration) -> Result<Self, QuotaError> {
        Self::new(1, every)
    }

    /// Returns the same rate with a burst of `n` tokens.
    ///
    /// # Panics
    ///
    /// Panics if [`try_burst`](Quota::try_burst) would return an error. In a constant, this is a compile error.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// const LIMIT: Quota = Quota::per_second(100).burst(20);
    /// assert_eq!(LIMIT.max_burst(), 20);
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn burst(self, n: u64) -> Self {
        match self.with_burst(Burst::Set(n)) {
            Ok(quota) => quota,
            Err(reason) => panic!("{}", reason.summary()),
        }
    }

    /// Returns the same rate with a burst of `n` tokens, or an error.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `n` is 0, or is too large to be kept exactly at this rate. [Range](Quota#range) has the
    /// bounds: up to 10⁹, `n` is never too large for a count of 1 to 10⁹ per second, minute, hour or day.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// let error = Quota::per_day(1).try_burst(0).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "invalid quota: a burst of 0 admits nothing; it must be 1 or more",
    /// );
    /// ```
    pub const fn try_burst(self, n: u64) -> Result<Self, QuotaError> {
        QuotaError::wrap(self.with_burst(Burst::Set(n)))
    }

    /// Returns the same rate, with the tokens that it yields in `time` as burst.
    ///
    /// The burst is rounded down to whole tokens, and is at least 1.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if the burst is too large to be kept exactly at this rate (see [Range](Quota#range)).
    ///
    /// ```
    /// # use flowgate::Quota;
    /// use std::time::Duration;
    ///
    /// let quota = Quota::per_second(100).burst_for(Duration::from_millis(250))?;
    /// assert_eq!(quota.max_burst(), 25);
    /// let quota = Quota::per_day(3).burst_for(Duration::from_secs(1))?;
    /// assert_eq!(quota.max_burst(), 1);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub const fn burst_for(self, time: Duration) -> Result<Self, QuotaError> {
        // In lowest terms the count is at most 2³¹, and a duration is less than 2⁹⁴ ns: no
        // overflow.
        let (count, period_ns) = ratio::lowest_terms(self.count as u128, self.period_ns);
        let tokens = count * time.as_nanos() / period_ns as u128;
        if tokens > u64::MAX as u128 {
            return Err(QuotaError::new(Reason::BurstTooLarge {
                burst: tokens,
                max: self.greatest_burst(),
            }));
        }
        self.try_burst(if tokens == 0 { 1 } else { tokens as u64 })
    }

    /// Divides a token into `units`, so that an operation can cost part of one.
    ///
    /// The count and the burst stay in tokens. A limiter that is built from the quota takes costs in units, and reports what is
    /// left in units.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `units` is 0 or over 2³², or if the rate in units or the burst in units is out of
    /// [range](Quota#range).
    ///
    /// ```
    /// # use flowgate::Quota;
    /// // One per second; a limiter then takes 1000 for a whole one, 250 for a quarter.
    /// let quota = Quota::per_second(1).units_per_token(1000)?;
    /// assert_eq!((quota.count(), quota.scale()), (1, 1000));
    /// assert_eq!(quota.to_string(), "1/s units 1000");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub const fn units_per_token(self, units: u64) -> Result<Self, QuotaError> {
        QuotaError::wrap(Self::checked(
            self.count,
            self.period_ns,
            self.burst_as_given(),
            units,
            self.measure,
        ))
    }

    /// Returns the same quota, written in bytes: a token is a byte.
    ///
    /// Only the text form changes.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// let quota = Quota::per_second(10 << 20).burst(1 << 20).bytes();
    /// assert_eq!(quota.to_string(), "10MiB/s burst 1MiB");
    /// ```
    #[must_use]
    pub const fn bytes(self) -> Self {
        Self {
            measure: Measure::Bytes,
            ..self
        }
    }

    /// Returns the number of tokens that are allowed per [`period`](Quota::period).
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_second(100).count(), 100);
    /// ```
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the time in which [`count`](Quota::count) tokens are allowed.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// # use std::time::Duration;
    /// assert_eq!(Quota::per_minute(100).period(), Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// Returns the burst: the most tokens that can be taken at one instant.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_second(100).max_burst(), 100);
    /// assert_eq!(Quota::per_second(100).burst(20).max_burst(), 20);
    /// ```
    #[must_use]
    pub const fn max_burst(&self) -> u64 {
        self.burst_tokens
    }

    /// Returns the burst, if one was set.
    ///
    /// [`burst`](Quota::burst), [`burst_for`](Quota::burst_for) and the text form set it. Limiters differ if no burst is set: a
    /// [`LeakyBucket`](crate::LeakyBucket) uses 1, and a window has no burst.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_second(100).explicit_burst(), None);
    /// assert_eq!(Quota::per_second(100).burst(100).explicit_burst(), Some(100));
    /// ```
    #[must_use]
    pub const fn explicit_burst(&self) -> Option<u64> {
        match self.burst_as_given() {
            Burst::Implied(_) => None,
            Burst::Set(tokens) => Some(tokens),
        }
    }

    /// Returns the number of units per token: 1, unless [`units_per_token`](Quota::units_per_token) set it.
    ///
    /// ```
    /// # use flowgate::Quota;
    /// assert_eq!(Quota::per_second(100).scale(), 1);
    /// ```
    #[must_use]
    pub const fn scale(&self) -> u64 {
        self.scale
    }

    /// Returns the time of the `k`-th of evenly spaced operations, counted from 0.
    ///
    /// The first operation (`k` = 0) is at zero. The result is `k` × period / count, rounded up to whole nanoseconds. Each time
    /// is computed from the start and not from the one before, so rounding errors never add up. An operation is one token.
    ///
    /// The result is `None` if it is later than [`Duration::MAX`].
    ///
    /// ```
    /// # use flowgate::Quota;
    /// use std::time::Duration;
    ///
    /// let quota = Quota::per_second(3);
    /// assert_eq!(quota.offset_of(1), Some(Duration::from_nanos(333_333_334)));
    /// assert_eq!(quota.offset_of(2), Some(Duration::from_nanos(666_666_667)));
    /// assert_eq!(quota.offset_of(3), Some(Duration::from_secs(1)));
    /// assert_eq!(quota.offset_of(3_000_000_000), Some(Duration::from_secs(1_000_000_000)));
    /// ```
    #[must_use]
    pub const fn offset_of(&self, k: u64) -> Option<Duration> {
        // Two factors of 64 bits: no overflow.
        let ns = (k as u128 * self.period_ns as u128).div_ceil(self.count as u128);
        let secs = ns / SECOND as u128;
        if secs > u64::MAX as u128 {
            return None;
        }
        Some(Duration::new(secs as u64, (ns % SECOND as u128) as u32))
    }
}

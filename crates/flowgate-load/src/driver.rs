//! A limiter that decides when requests are sent, by when they really were.
//!
//! A schedule holds a rate: what is late is caught up with, and two requests can then be closer together than its rate
//! says. A driver stays under one: it is asked for the earliest instant after the *last write*, and told of each write
//! when it happens, so that what a server sees at the writing end is what the limiter lets through.
//!
//! ```text
//!   write ──▶ take, dated at the write ──▶ earliest instant of the next ──▶ sleep ──▶ write ──▶ …
//! ```

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, QuotaError, SegmentedWindow,
    SlidingWindow, Timestamp, TokenBucket,
};

use crate::report::Promise;
use crate::report::nanos;

/// A limiter that drives a run.
///
/// # Examples
///
/// ```
/// use flowgate_load::Driver;
///
/// let driver = Driver::parse("token 100/s burst 20")?;
/// assert_eq!(driver.to_string(), "token 100/s burst 20");
/// assert_eq!(Driver::parse("100/s").unwrap_err().to_string(), "\"100/s\" names no limiter: type \"token 100/s\", \"leaky 100/s\", \"sliding 100/s\", \"segmented 100/s\" or \"fixed 100/s\"");
/// # Ok::<(), flowgate_load::DriverError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Driver {
    limiter: Arc<dyn Limiter>,
    quota: Quota,
    text: String,
    promise: Option<Promise>,
    margin: Duration,
}

/// What was wrong with the text of a [`Driver`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverError {
    /// It begins with no limiter's name.
    Name(String),
    /// What follows is no quota of that limiter.
    Quota(QuotaError),
}

impl Driver {
    /// Never closer together than one by the rate of `quota`, whose burst plays no part.
    ///
    /// `margin` is added to every such distance, for servers that count by whole milliseconds or count what has
    /// been delayed on the way; 0 for none.
    pub fn at_most(quota: Quota, margin: Duration) -> Driver {
        let clock = ManualClock::new();
        let even = quota.burst(1);
        Driver {
            limiter: Arc::new(
                LeakyBucket::builder(even)
                    .clock(&clock)
                    .build()
                    .expect("a burst of 1 is within range, as the rate was"),
            ),
            quota,
            text: format!("at most {quota}"),
            promise: Some(promise(quota, 1)),
            margin,
        }
    }

    /// A limiter by its name and quota: `token 100/s burst 20`, `leaky 100/s`, and the windows `sliding 100/min`, `segmented
    /// 100/min`, `fixed 100/min`. It begins full.
    ///
    /// # Errors
    ///
    /// If it begins with none of these names, or what follows is not a quota that this limiter can have.
    pub fn parse(text: &str) -> Result<Driver, DriverError> {
        let text = text.trim();
        let unnamed = || DriverError::Name(text.to_owned());
        let (name, rest) = text.split_once(char::is_whitespace).ok_or_else(unnamed)?;
        let clock = ManualClock::new();
        let quota: Quota = rest.trim().parse()?;
        let (limiter, burst): (Arc<dyn Limiter>, _) = match name {
            "token" => {
                let builder = TokenBucket::builder(quota).clock(&clock);
                (Arc::new(builder.build()?), Some(quota.max_burst()))
            }
            "leaky" => {
                let builder = LeakyBucket::builder(quota).clock(&clock);
                let burst = quota.explicit_burst().unwrap_or(1);
                (Arc::new(builder.build()?), Some(burst))
            }
            "sliding" => {
                let builder = SlidingWindow::builder(quota).clock(&clock);
                (Arc::new(builder.build()?), None)
            }
            "segmented" => {
                let builder = SegmentedWindow::builder(quota).clock(&clock);
                (Arc::new(builder.build()?), None)
            }
            "fixed" => {
                let builder = FixedWindow::builder(quota).clock(&clock);
                (Arc::new(builder.build()?), None)
            }
            _ => return Err(unnamed()),
        };
        Ok(Driver {
            limiter,
            quota,
            text: format!("{name} {quota}"),
            promise: burst.map(|burst| promise(quota, burst)),
            margin: Duration::ZERO,
        })
    }

    /// The same, with so much added to each distance that it asks for.
    #[must_use]
    pub fn margin(self, margin: Duration) -> Driver {
        Driver { margin, ..self }
    }

    /// The rate, in requests per second.
    pub fn per_second(&self) -> f64 {
        self.quota.count() as f64 / self.quota.period().as_secs_f64()
    }

    /// What it promises of any span, where that is so much and so much per second.
    pub(crate) fn promise(&self) -> Option<Promise> {
        self.promise
    }

    /// The earliest instant at which the next request may be sent, `from_ns` or later; none if there is none. All
    /// instants count from the start of the run.
    pub(crate) fn next_ns(&self, from_ns: u64) -> Option<u64> {
        let mut at_ns = from_ns;
        while let Err(denied) = self.peek(at_ns) {
            at_ns = at_ns.checked_add(nanos::of(denied.retry_after()?).max(1))?;
        }
        match at_ns == from_ns {
            true => Some(at_ns),
            false => at_ns.checked_add(nanos::of(self.margin)),
        }
    }

    /// A request was sent.
    pub(crate) fn sent(&self, at_ns: u64) {
        // It was allowed at an instant before this, and nobody else takes anything.
        let taken = self
            .limiter
            .try_acquire_n_at(Timestamp::from_nanos(at_ns), self.quota.scale());
        debug_assert!(taken.is_ok(), "{taken:?} at {at_ns}");
    }

    fn peek(&self, at_ns: u64) -> Result<(), flowgate::Denied> {
        self.limiter
            .peek_n_at(Timestamp::from_nanos(at_ns), self.quota.scale())
    }
}

fn promise(quota: Quota, burst: u64) -> Promise {
    Promise {
        burst,
        per_second: quota.count() as f64 / quota.period().as_secs_f64(),
    }
}

/// As it is asked for: `at most 2/s`, `token 100/s burst 20`.
impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if !self.margin.is_zero() {
            write!(
                f,
                ", {} more apart",
                crate::report::text::brief(self.margin)
            )?;
        }
        Ok(())
    }
}

impl From<QuotaError> for DriverError {
    fn from(error: QuotaError) -> DriverError {
        DriverError::Quota(error)
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriverError::Name(text) => {
                let rate = text
                    .split_once(char::is_whitespace)
                    .map_or(text.as_str(), |(_, rest)| rest.trim());
                write!(
                    f,
                    "{text:?} names no limiter: type \"token {rate}\", \"leaky {rate}\", \"sliding {rate}\", \
                     \"segmented {rate}\" or \"fixed {rate}\""
                )
            }
            DriverError::Quota(error) => error.fmt(f),
        }
    }
}

impl Error for DriverError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// When requests are sent that are each late by what `late` says.
    fn sends(driver: &Driver, count: usize, late: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut from_ns = 0;
        (0..count)
            .map(|index| {
                from_ns = driver.next_ns(from_ns).unwrap() + late(index);
                driver.sent(from_ns);
                from_ns
            })
            .collect()
    }

    #[test]
    fn late_requests_move_those_behind_them() {
        let driver = Driver::at_most(Quota::per_second(2), Duration::ZERO);
        let sent = sends(&driver, 5, |index| if index == 1 { 300_000_000 } else { 7 });
        let gaps: Vec<_> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [800_000_000, 500_000_007, 500_000_007, 500_000_007]);
    }

    #[test]
    fn a_margin_is_added_to_every_distance() {
        let driver = Driver::at_most(Quota::per_second(1000), Duration::from_millis(1));
        assert_eq!(sends(&driver, 3, |_| 0), [0, 2_000_000, 4_000_000]);
        assert_eq!(driver.to_string(), "at most 1000/s, 1 ms more apart");
    }

    #[test]
    fn a_bucket_sends_its_burst_at_once_and_then_at_its_rate() {
        let driver = Driver::parse("token 10/s burst 3").unwrap();
        assert_eq!(
            sends(&driver, 5, |_| 0),
            [0, 0, 0, 100_000_000, 200_000_000]
        );
        let late = Driver::parse("token 10/s burst 3").unwrap();
        assert_eq!(
            sends(&late, 5, |index| if index == 3 { 150_000_000 } else { 0 }),
            [0, 0, 0, 250_000_000, 250_000_000]
        );
    }

    #[test]
    fn windows_and_fractions_of_a_request() {
        for name in ["sliding", "fixed", "segmented"] {
            let driver = Driver::parse(&format!("{name} 2/s")).unwrap();
            let sent = sends(&driver, 6, |_| 0);
            assert_eq!(sent[..2], [0, 0], "{name}");
            assert!(
                sent[2] >= 1_000_000_000 && sent[4] >= 2_000_000_000,
                "{name}: {sent:?}"
            );
        }
        let slow = Driver::at_most("1/10s".parse().unwrap(), Duration::ZERO);
        assert_eq!(sends(&slow, 3, |_| 0), [0, 10_000_000_000, 20_000_000_000]);
    }

    #[test]
    fn what_is_no_driver_says_what_is_one() {
        for text in ["", "token", "tokens 5/s", "5/s"] {
            let message = Driver::parse(text).unwrap_err().to_string();
            assert!(
                message.contains("names no limiter: type \"token "),
                "{message}"
            );
        }
        for text in ["token 5", "sliding 5/s burst 3", "token 5/parsec"] {
            let error = Driver::parse(text).unwrap_err();
            assert!(matches!(error, DriverError::Quota(_)), "{text}: {error}");
        }
    }
}

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

use flowgate::{LeakyBucket, Limiter, ManualClock, Quota, QuotaError, Timestamp};

use crate::named::{limiter_named, limiters_with};
use crate::pacing;
use crate::report::nanos;
use crate::report::{Promise, Window};

/// A limiter that drives a run.
///
/// # Examples
///
/// ```
/// use flowgate_load::Driver;
///
/// let driver = Driver::parse("token 100/s burst 20")?;
/// assert_eq!(driver.to_string(), "token 100/s burst 20");
/// assert_eq!(Driver::parse("100/s").unwrap_err().to_string(), "\"100/s\" names no limiter: type 'token 100/s', 'leaky 100/s', 'sliding 100/s', 'segmented 100/s', 'fixed 100/s' or 'approximate 100/s'");
/// # Ok::<(), flowgate_load::DriverError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Driver {
    limiter: Arc<dyn Limiter>,
    quota: Quota,
    text: String,
    promise: Option<Promise>,
    window: Option<Window>,
    margin: Margin,
}

/// What is added to each distance between two requests that a limiter asks for.
///
/// A server sees a request some time between its being sent and being answered. Where one is held up on the way and the
/// next is not, the server sees them closer together than they were sent.
///
/// After a burst it is added once: what flows in meanwhile is not lost.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Driver, Margin};
///
/// let driver = Driver::at_most(Quota::per_second(2));
/// assert_eq!(driver.to_string(), "at most 2/s"); // and a margin of up to a tenth: Margin::Auto
/// let driver = driver.margin(Margin::Time(Duration::from_millis(1)));
/// assert_eq!(driver.to_string(), "at most 2/s, 1 ms more apart");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Margin {
    /// As long as the answer to the request before took, but at most a tenth of the distance: where the server is quick,
    /// nothing on the way can bring two requests closer together, and where it is slow, the rate is a tenth lower at
    /// the most.
    #[default]
    Auto,
    /// As long as the answer to the request before took, however long that was.
    Answer,
    /// Always so much; zero for none.
    Time(Duration),
}

impl Margin {
    /// What it adds to a distance, if it is not known yet whether there is an answer: none if it has to be waited for.
    pub(crate) fn longest(self, distance: Duration) -> Option<Duration> {
        match self {
            Margin::Auto => Some(distance / 10),
            Margin::Answer => None,
            Margin::Time(time) => Some(time),
        }
    }

    /// What it adds to a distance, if the answer took so long.
    pub(crate) fn after(self, distance: Duration, answer: Duration) -> Duration {
        match self {
            Margin::Auto => answer.min(distance / 10),
            Margin::Answer => answer,
            Margin::Time(time) => time,
        }
    }
}

/// What was wrong with the text of a [`Driver`].
///
/// # Examples
///
/// ```
/// use flowgate_load::{Driver, DriverError};
///
/// assert!(matches!(Driver::parse("100/s"), Err(DriverError::Name(text)) if text == "100/s"));
/// match Driver::parse("sliding 100/s burst 20") {
///     Err(DriverError::Quota(error)) => println!("{error}"), // a window has no burst
///     other => panic!("{other:?}"),
/// }
/// ```
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
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::{Driver, Extent, Pace};
    ///
    /// let driver = Driver::at_most("2/s burst 10".parse()?);
    /// assert_eq!(driver.per_second(), 2.0);
    /// let pace = Pace::Under(driver, Extent::Requests(100));
    /// assert_eq!(pace.requests(), Some(100));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn at_most(quota: Quota) -> Driver {
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
            window: None,
            margin: Margin::Auto,
        }
    }

    /// A limiter by its name and quota: `token 100/s burst 20`, `leaky 100/s`, and the windows `sliding 100/min`, `segmented
    /// 100/min`, `fixed 100/min`, `approximate 100/min`. It begins full.
    ///
    /// # Errors
    ///
    /// If it begins with none of these names, or what follows is not a quota that this limiter can have.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Driver;
    ///
    /// // As a server does that has 100 in every minute.
    /// let driver = Driver::parse("sliding 100/min")?;
    /// assert_eq!(driver.to_string(), "sliding 100/min");
    /// assert!(Driver::parse("strict 100/min").is_err());
    /// # Ok::<(), flowgate_load::DriverError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Driver, DriverError> {
        let text = text.trim();
        let unnamed = || DriverError::Name(text.to_owned());
        let (name, rest) = text.split_once(char::is_whitespace).ok_or_else(unnamed)?;
        let quota: Quota = rest.trim().parse()?;
        let limiter = limiter_named(name, quota, ManualClock::new())?.ok_or_else(unnamed)?;
        let burst = match name {
            "token" => Some(quota.max_burst()),
            "leaky" => Some(quota.explicit_burst().unwrap_or(1)),
            _ => None,
        };
        let window = Window {
            sends: quota.count(),
            span: quota.period(),
        };
        let promises_windows = matches!(name, "sliding" | "segmented");
        Ok(Driver {
            limiter,
            quota,
            text: format!("{name} {quota}"),
            promise: burst.map(|burst| promise(quota, burst)),
            window: Some(window).filter(|window| promises_windows && pacing::can_watch(window)),
            margin: Margin::Auto,
        })
    }

    /// The same, with another margin.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_load::{Driver, Margin};
    ///
    /// let driver = Driver::at_most(Quota::per_second(2)).margin(Margin::Answer);
    /// assert_eq!(driver.to_string(), "at most 2/s, counted from answers");
    /// ```
    #[must_use]
    pub fn margin(self, margin: Margin) -> Driver {
        Driver { margin, ..self }
    }

    /// What is added to each distance that the limiter asks for.
    pub(crate) fn margin_asked(&self) -> Margin {
        self.margin
    }

    /// The rate, in requests per second.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::Driver;
    ///
    /// assert_eq!(Driver::parse("token 90/min burst 20")?.per_second(), 1.5);
    /// # Ok::<(), flowgate_load::DriverError>(())
    /// ```
    pub fn per_second(&self) -> f64 {
        per_second(self.quota)
    }

    /// What it promises of any span, where that is so much and so much per second.
    pub(crate) fn promise(&self) -> Option<Promise> {
        self.promise
    }

    /// What it promises of every window, where that can be looked at.
    pub(crate) fn window(&self) -> Option<Window> {
        self.window
    }

    /// The earliest instant at which the next request may be sent, `from_ns` or later and without a margin; none if
    /// there is none. All instants count from the start of the run.
    pub(crate) fn next_ns(&self, from_ns: u64) -> Option<u64> {
        let mut at_ns = from_ns;
        while let Err(denied) = self.peek(at_ns) {
            at_ns = at_ns.checked_add(nanos::of(denied.retry_after()?).max(1))?;
        }
        Some(at_ns)
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
        per_second: per_second(quota),
    }
}

fn per_second(quota: Quota) -> f64 {
    quota.count() as f64 / quota.period().as_secs_f64()
}

/// As it is asked for: `at most 2/s`, `token 100/s burst 20`.
impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.margin {
            Margin::Time(time) if !time.is_zero() => {
                write!(f, ", {} more apart", crate::report::text::brief(time))?;
            }
            Margin::Answer => f.write_str(", counted from answers")?,
            Margin::Auto | Margin::Time(_) => {}
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
                write!(f, "{text:?} names no limiter: type {}", limiters_with(rate))
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
        let driver = Driver::at_most(Quota::per_second(2));
        let sent = sends(&driver, 5, |index| if index == 1 { 300_000_000 } else { 7 });
        let gaps: Vec<_> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps, [800_000_000, 500_000_007, 500_000_007, 500_000_007]);
    }

    #[test]
    fn a_margin_is_what_the_answer_took_up_to_a_tenth() {
        let ms = Duration::from_millis;
        assert_eq!(Margin::Auto.after(ms(500), ms(3)), ms(3));
        assert_eq!(Margin::Auto.after(ms(500), ms(300)), ms(50));
        assert_eq!(Margin::Auto.longest(ms(500)), Some(ms(50)));
        assert_eq!(Margin::Answer.after(ms(500), ms(300)), ms(300));
        assert_eq!(Margin::Answer.longest(ms(500)), None);
        assert_eq!(Margin::Time(ms(1)).after(ms(500), ms(300)), ms(1));
        let text = |margin| {
            let driver = Driver::at_most(Quota::per_second(2)).margin(margin);
            driver.to_string()
        };
        assert_eq!(text(Margin::Auto), "at most 2/s");
        assert_eq!(text(Margin::Time(ms(1))), "at most 2/s, 1 ms more apart");
        assert_eq!(text(Margin::Answer), "at most 2/s, counted from answers");
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
        let slow = Driver::at_most("1/10s".parse().unwrap());
        assert_eq!(sends(&slow, 3, |_| 0), [0, 10_000_000_000, 20_000_000_000]);
    }

    #[test]
    fn what_is_no_driver_says_what_is_one() {
        for text in ["", "token", "tokens 5/s", "5/s"] {
            let message = Driver::parse(text).unwrap_err().to_string();
            assert!(
                message.contains("names no limiter: type 'token "),
                "{message}"
            );
        }
        for text in ["token 5", "sliding 5/s burst 3", "token 5/parsec"] {
            let error = Driver::parse(text).unwrap_err();
            assert!(matches!(error, DriverError::Quota(_)), "{text}: {error}");
        }
    }
}

//! A limiter that decides when requests are sent, from the times at which earlier ones were written.
//!
//! A schedule holds a rate: it catches up with late requests, and two requests can then be closer together than the
//! rate allows. A pacing limiter never exceeds a rate: it learns when each write has happened, and computes the
//! earliest time for the next one. The writes are therefore exactly what the limiter admits.
//!
//! ```text
//!   write ──▶ acquire, timestamped at the write ──▶ earliest time of the next ──▶ sleep ──▶ write ──▶ …
//! ```

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{
    LeakyBucket, Limiter, LimiterConfig, LimiterConfigError, LimiterKind, ManualClock, Quota,
    QuotaError, Timestamp,
};

use crate::pacing;
use crate::report::nanos;
use crate::report::{Guarantee, Window};

/// A limiter that paces a run.
///
/// # Examples
///
/// ```
/// use flowgate_load::PacingLimiter;
///
/// let limiter = PacingLimiter::parse("token 100/s burst 20")?;
/// assert_eq!(limiter.to_string(), "token 100/s burst 20");
/// let error = PacingLimiter::parse("100/s").unwrap_err().to_string();
/// assert!(error.contains("the name is missing; write \"token 100/s\""));
/// # Ok::<(), flowgate_load::PacingLimiterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PacingLimiter {
    limiter: Arc<dyn Limiter>,
    quota: Quota,
    text: String,
    guarantee: Option<Guarantee>,
    window: Option<Window>,
    margin: Margin,
}

/// The extra gap after each request, added to the gap that the limiter requires.
///
/// A server receives a request at some time between its sending and its response. If one request is delayed in transit
/// and the next is not, the server receives them closer together than they were sent.
///
/// After a burst the margin is added once: tokens that refill meanwhile are not lost.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Margin, PacingLimiter};
///
/// let limiter = PacingLimiter::at_most(Quota::per_second(2));
/// assert_eq!(limiter.to_string(), "at most 2/s"); // and a margin of up to a tenth: Margin::Auto
/// let limiter = limiter.margin(Margin::Time(Duration::from_millis(1)));
/// assert_eq!(limiter.to_string(), "at most 2/s, margin 1 ms");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Margin {
    /// The response time of the previous request, but at most 10 % of the gap.
    ///
    /// With a fast server, transit delays cannot bring two requests closer together. With a slow server, the rate is at
    /// most 10 % lower.
    #[default]
    Auto,
    /// The response time of the previous request, without a bound.
    Answer,
    /// A fixed time; zero for none.
    Time(Duration),
}

impl Margin {
    /// Returns the margin, if it does not depend on a response that is still missing.
    pub(crate) fn longest(self, distance: Duration) -> Option<Duration> {
        match self {
            Margin::Auto => Some(distance / 10),
            Margin::Answer => None,
            Margin::Time(time) => Some(time),
        }
    }

    /// Returns the margin after a response time of `answer`.
    pub(crate) fn after(self, distance: Duration, answer: Duration) -> Duration {
        match self {
            Margin::Auto => answer.min(distance / 10),
            Margin::Answer => answer,
            Margin::Time(time) => time,
        }
    }
}

/// An error in the text form of a [`PacingLimiter`].
///
/// # Examples
///
/// ```
/// use flowgate_load::{PacingLimiter, PacingLimiterError};
///
/// assert!(matches!(PacingLimiter::parse("100/s"), Err(PacingLimiterError::Text(_))));
/// match PacingLimiter::parse("sliding 100/s burst 20") {
///     Err(PacingLimiterError::Quota(error)) => println!("{error}"), // a window has no burst
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacingLimiterError {
    /// The text is not the name of a limiter with a quota.
    Text(LimiterConfigError),
    /// The limiter does not support this quota.
    Quota(QuotaError),
    /// The text has no quota, but a run has one.
    NoQuota,
    /// The text has two quotas, but a run has one.
    TwoQuotas,
}

impl PacingLimiter {
    /// Creates a limiter that keeps a constant minimum gap between requests.
    ///
    /// The gap is that of the rate of `quota`; the burst is ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::{Extent, Pace, PacingLimiter};
    ///
    /// let limiter = PacingLimiter::at_most("2/s burst 10".parse()?);
    /// assert_eq!(limiter.per_second(), 2.0);
    /// let pace = Pace::Under(limiter, Extent::Requests(100));
    /// assert_eq!(pace.requests(), Some(100));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn at_most(quota: Quota) -> PacingLimiter {
        let clock = ManualClock::new();
        let even = quota.burst(1);
        PacingLimiter {
            limiter: Arc::new(
                LeakyBucket::builder(even)
                    .clock(&clock)
                    .build()
                    .expect("a burst of 1 is within range, as the rate was"),
            ),
            quota,
            text: format!("at most {quota}"),
            guarantee: Some(guarantee(quota, 1)),
            window: None,
            margin: Margin::Auto,
        }
    }

    /// Parses a limiter such as `token 100/s burst 20` or `sliding 100/min`.
    ///
    /// The names are `token`, `leaky`, `sliding`, `segmented`, `fixed`, `aligned` and `approximate`. The limiter starts full.
    ///
    /// # Errors
    ///
    /// Returns an error if the text does not start with one of these names, or if the limiter does not support the
    /// quota.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::PacingLimiter;
    ///
    /// // At most 100 in every minute.
    /// let limiter = PacingLimiter::parse("sliding 100/min")?;
    /// assert_eq!(limiter.to_string(), "sliding 100/min");
    /// assert!(PacingLimiter::parse("strict 100/min").is_err());
    /// # Ok::<(), flowgate_load::PacingLimiterError>(())
    /// ```
    pub fn parse(text: &str) -> Result<PacingLimiter, PacingLimiterError> {
        let config: LimiterConfig = text.parse().map_err(PacingLimiterError::Text)?;
        let quotas = config.quotas().ok_or(PacingLimiterError::NoQuota)?;
        let [quota] = *quotas.as_slice() else {
            return Err(PacingLimiterError::TwoQuotas);
        };
        let limiter = config.build_on(ManualClock::new())?;
        let burst = match config.kind() {
            LimiterKind::Token => Some(quota.max_burst()),
            LimiterKind::Leaky => Some(quota.explicit_burst().unwrap_or(1)),
            _ => None,
        };
        let window = Window {
            sends: quota.count(),
            span: quota.period(),
        };
        let guarantees_windows =
            matches!(config.kind(), LimiterKind::Sliding | LimiterKind::Segmented);
        Ok(PacingLimiter {
            limiter,
            quota,
            text: config.to_string(),
            guarantee: burst.map(|burst| guarantee(quota, burst)),
            window: Some(window).filter(|window| guarantees_windows && pacing::can_watch(window)),
            margin: Margin::Auto,
        })
    }

    /// Sets the margin.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_load::{Margin, PacingLimiter};
    ///
    /// let limiter = PacingLimiter::at_most(Quota::per_second(2)).margin(Margin::Answer);
    /// assert_eq!(limiter.to_string(), "at most 2/s, margin: response time");
    /// ```
    #[must_use]
    pub fn margin(self, margin: Margin) -> PacingLimiter {
        PacingLimiter { margin, ..self }
    }

    /// The margin.
    pub(crate) fn margin_asked(&self) -> Margin {
        self.margin
    }

    /// Returns the rate, in requests per second.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate_load::PacingLimiter;
    ///
    /// assert_eq!(PacingLimiter::parse("token 90/min burst 20")?.per_second(), 1.5);
    /// # Ok::<(), flowgate_load::PacingLimiterError>(())
    /// ```
    pub fn per_second(&self) -> f64 {
        per_second(self.quota)
    }

    /// The bound for every interval, for limiters that have one of the form burst + rate · time.
    pub(crate) fn guarantee(&self) -> Option<Guarantee> {
        self.guarantee
    }

    /// The bound for every window, for limiters that have one that the run can check.
    pub(crate) fn window(&self) -> Option<Window> {
        self.window
    }

    /// Returns the earliest time at which the next request may be sent, without the margin and not before `from_ns`.
    /// `None` if there is none. Times count from the start of the run.
    pub(crate) fn next_ns(&self, from_ns: u64) -> Option<u64> {
        let mut at_ns = from_ns;
        while let Err(denied) = self.peek(at_ns) {
            at_ns = at_ns.checked_add(nanos::of(denied.retry_after()?).max(1))?;
        }
        Some(at_ns)
    }

    /// Records that a request was sent.
    pub(crate) fn sent(&self, at_ns: u64) {
        // The limiter allowed it before, and has no other user.
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

fn guarantee(quota: Quota, burst: u64) -> Guarantee {
    Guarantee {
        burst,
        per_second: per_second(quota),
    }
}

fn per_second(quota: Quota) -> f64 {
    quota.count() as f64 / quota.period().as_secs_f64()
}

/// Writes it as it is typed: `at most 2/s`, `token 100/s burst 20`.
impl fmt::Display for PacingLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.margin {
            Margin::Time(time) if !time.is_zero() => {
                write!(f, ", margin {}", crate::report::text::brief(time))?;
            }
            Margin::Answer => f.write_str(", margin: response time")?,
            Margin::Auto | Margin::Time(_) => {}
        }
        Ok(())
    }
}

impl From<QuotaError> for PacingLimiterError {
    fn from(error: QuotaError) -> PacingLimiterError {
        PacingLimiterError::Quota(error)
    }
}

impl fmt::Display for PacingLimiterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacingLimiterError::Text(error) => error.fmt(f),
            PacingLimiterError::Quota(error) => error.fmt(f),
            PacingLimiterError::NoQuota => {
                f.write_str("has no quota, but a run has one: write 'token 100/s'")
            }
            PacingLimiterError::TwoQuotas => {
                f.write_str("has two quotas, but a run has one: write the slower one")
            }
        }
    }
}

impl Error for PacingLimiterError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sending times of requests that are each delayed by `late`.
    fn sends(limiter: &PacingLimiter, count: usize, late: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut from_ns = 0;
        (0..count)
            .map(|index| {
                from_ns = limiter.next_ns(from_ns).unwrap() + late(index);
                limiter.sent(from_ns);
                from_ns
            })
            .collect()
    }

    #[test]
    fn late_requests_move_those_behind_them() {
        let limiter = PacingLimiter::at_most(Quota::per_second(2));
        let sent = sends(
            &limiter,
            5,
            |index| if index == 1 { 300_000_000 } else { 7 },
        );
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
            let limiter = PacingLimiter::at_most(Quota::per_second(2)).margin(margin);
            limiter.to_string()
        };
        assert_eq!(text(Margin::Auto), "at most 2/s");
        assert_eq!(text(Margin::Time(ms(1))), "at most 2/s, margin 1 ms");
        assert_eq!(text(Margin::Answer), "at most 2/s, margin: response time");
    }

    #[test]
    fn a_bucket_sends_its_burst_and_then_at_its_rate() {
        let limiter = PacingLimiter::parse("token 10/s burst 3").unwrap();
        assert_eq!(
            sends(&limiter, 5, |_| 0),
            [0, 0, 0, 100_000_000, 200_000_000]
        );
        let late = PacingLimiter::parse("token 10/s burst 3").unwrap();
        assert_eq!(
            sends(&late, 5, |index| if index == 3 { 150_000_000 } else { 0 }),
            [0, 0, 0, 250_000_000, 250_000_000]
        );
    }

    #[test]
    fn windows_and_fractions_of_a_request() {
        for name in ["sliding", "fixed", "segmented"] {
            let limiter = PacingLimiter::parse(&format!("{name} 2/s")).unwrap();
            let sent = sends(&limiter, 6, |_| 0);
            assert_eq!(sent[..2], [0, 0], "{name}");
            assert!(
                sent[2] >= 1_000_000_000 && sent[4] >= 2_000_000_000,
                "{name}: {sent:?}"
            );
        }
        let slow = PacingLimiter::at_most("1/10s".parse().unwrap());
        assert_eq!(sends(&slow, 3, |_| 0), [0, 10_000_000_000, 20_000_000_000]);
    }

    #[test]
    fn an_unknown_limiter_is_refused_with_those_that_exist() {
        for text in ["", "token", "tokens 5/s", "5/s"] {
            let message = PacingLimiter::parse(text).unwrap_err().to_string();
            assert!(message.contains("; write "), "{message}");
        }
        for text in ["token 5", "token 5/parsec"] {
            let error = PacingLimiter::parse(text).unwrap_err();
            assert!(
                matches!(error, PacingLimiterError::Text(_)),
                "{text}: {error}"
            );
        }
        let error = PacingLimiter::parse("sliding 5/s burst 3").unwrap_err();
        assert!(matches!(error, PacingLimiterError::Quota(_)), "{error}");
        let error = PacingLimiter::parse("token 5/s; 9/min").unwrap_err();
        assert_eq!(error, PacingLimiterError::TwoQuotas);
    }
}

use super::TokenBucket;
use crate::clock::Clock;
use crate::quota::{Quota, QuotaError};
use crate::word::Parameters;

/// How tokens flow in.
/// ```
/// use flowgate::{ManualClock, Refill, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter =
///     TokenBucket::builder("60/min".parse()?).clock(&time).refill(Refill::Interval).build()?;
/// assert_eq!(limiter.take_up_to(100), 60);
/// time.advance(Duration::from_secs(59));
/// assert_eq!(limiter.available(), 0); // continuously it would be 59
/// time.advance(Duration::from_secs(1));
/// assert_eq!(limiter.available(), 60);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refill {
    /// Each at the nanosecond at which it is due.
    #[default]
    Continuous,
    /// `count` at once at the end of every whole period, counted from when the limiter was built.
    ///
    /// Limiter time then moves only at those instants: at most burst + count · (ends of a period in the span)
    /// is admitted. Nothing is lost between them, however often the limiter is asked.
    Interval,
}

/// Settings of a [`TokenBucket`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`initial_tokens`](Self::initial_tokens) | the burst: it starts full |
/// | [`refill`](Self::refill) | [`Refill::Continuous`] |
/// | [`max_debt`](Self::max_debt) | the burst |
///
/// ```
/// use flowgate::{ManualClock, Refill, TokenBucket};
///
/// let limiter = TokenBucket::builder("3/s burst 5".parse()?)
///     .clock(ManualClock::new())
///     .initial_tokens(0)
///     .refill(Refill::Interval)
///     .build()?;
/// assert_eq!(limiter.available(), 0);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `build` is called"]
pub struct TokenBucketBuilder {
    pub(crate) quota: Quota,
    /// What a quota that sets no burst stands for; none: its count.
    pub(crate) default_burst: Option<u64>,
    clock: Option<Clock>,
    initial: Option<u64>,
    refill: Refill,
    max_debt: Option<u64>,
}

impl TokenBucketBuilder {
    pub(super) fn new(quota: Quota) -> Self {
        Self {
            quota,
            default_burst: None,
            clock: None,
            initial: None,
            refill: Refill::default(),
            max_debt: None,
        }
    }

    /// The clock to decide by.
    ///
    /// Without the feature `std` there is no default: a builder without a clock gets a manual one that
    /// stands at the origin.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// What the bucket holds to begin with, in units.
    pub fn initial_tokens(mut self, units: u64) -> Self {
        self.initial = Some(units);
        self
    }

    /// How tokens flow in.
    pub fn refill(mut self, refill: Refill) -> Self {
        self.refill = refill;
        self
    }

    /// How far [`overdraw`](TokenBucket::overdraw) may go below zero, in units.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::builder("10/h".parse()?).max_debt(100).build()?;
    /// assert!(limiter.overdraw(111).unwrap_err().is_never());
    /// limiter.overdraw(110)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_debt(mut self, units: u64) -> Self {
        self.max_debt = Some(units);
        self
    }

    /// The limiter.
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if the initial tokens are more than the burst, or the debt cannot be kept exactly.
    pub fn build(self) -> Result<TokenBucket, QuotaError> {
        let quota = self.quota;
        let burst = quota.burst_units();
        let initial = self.initial.unwrap_or(burst);
        if initial > burst {
            return Err(QuotaError::out_of_range(
                "initial tokens",
                initial,
                0,
                burst,
            ));
        }
        let most_debt = Parameters::most_debt(&quota);
        if let Some(debt) = self.max_debt.filter(|&debt| debt > most_debt) {
            return Err(QuotaError::out_of_range(
                "a maximum debt",
                debt,
                0,
                most_debt,
            ));
        }
        let bucket = TokenBucket::with_default_burst(
            quota,
            self.clock.unwrap_or_default(),
            self.default_burst,
        );
        let now_ns = bucket.clock.latest().as_nanos();
        {
            let mut ledger = bucket.ledger.lock();
            ledger.refill = self.refill;
            ledger.max_debt = self.max_debt;
            bucket.word.reconfigure(|default, _| {
                let mut parameters = ledger.parameters(&quota, now_ns);
                parameters.epoch = default.epoch;
                let missing = parameters.ticks(burst - initial);
                let tat = match missing {
                    // Full, whatever the time is, as the default is.
                    0 => 0,
                    missing => parameters.now_ticks(now_ns) + missing,
                };
                parameters.layout = parameters.layout_for(now_ns, tat);
                (parameters, tat, ())
            });
        }
        Ok(bucket)
    }
}

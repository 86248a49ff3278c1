use super::bucket::{Bucket, Mode, Tokens};
use super::refill::Refill;
use super::refund_log::Ledger;
use crate::clock::{Clock, Timestamp};
use crate::limiter::builder::{Build, Builder};
use crate::quota::{Quota, QuotaError, Reason};
use crate::store::word::{BEFORE_ORIGIN, Parameters};
use crate::types::fixed_window::alignment::Alignment;

/// Settings of a [`TokenBucket`](crate::TokenBucket) other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Builder::clock) | [`Clock::system`] |
/// | [`initial_tokens`](TokenBucketBuilder::initial_tokens) | the burst: it starts full |
/// | [`refill`](TokenBucketBuilder::refill) | [`Refill::Continuous`] |
/// | [`align`](TokenBucketBuilder::align), [`align_to_wall`](TokenBucketBuilder::align_to_wall) | periods count from the time of building |
/// | [`max_debt`](TokenBucketBuilder::max_debt) | the burst |
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
///
/// # Errors
///
/// [`build`](Builder::build) returns [`QuotaError`] in these cases:
///
/// - There are more initial tokens than the burst.
/// - The debt cannot be kept exactly.
/// - There is an alignment, but tokens flow in continuously.
pub type TokenBucketBuilder = Builder<Bucket<Tokens>>;

#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) quota: Quota,
    /// The burst of a quota that sets none; `None`: its count.
    pub(crate) default_burst: Option<u64>,
    /// The largest factor by which a full queue flows out faster; 1: not faster.
    pub(crate) drain_up_to: u64,
    pub(crate) initial: Option<u64>,
    pub(crate) refill: Refill,
    alignment: Alignment,
    pub(crate) max_debt: Option<u64>,
}

impl Settings {
    pub(crate) const fn new(quota: Quota) -> Self {
        Self {
            quota,
            default_burst: None,
            drain_up_to: 1,
            initial: None,
            refill: Refill::Continuous,
            alignment: Alignment::Free,
            max_debt: None,
        }
    }
}

impl Build for Bucket<Tokens> {
    type Settings = Settings;

    fn build(settings: Settings, clock: &Clock) -> Result<Self, QuotaError> {
        settings.bucket(clock)
    }
}

impl TokenBucketBuilder {
    /// Sets how many units the bucket holds at the start (default: the burst).
    pub fn initial_tokens(self, units: u64) -> Self {
        self.set(|settings| settings.initial = Some(units))
    }

    /// Sets how tokens flow in (default: [`Refill::Continuous`]).
    pub fn refill(self, refill: Refill) -> Self {
        self.set(|settings| settings.refill = refill)
    }

    /// Counts the periods of [`Refill::Interval`] from `ends`.
    ///
    /// One period ends at `ends`, and others end one period apart, before and after it.
    ///
    /// The bucket starts full, or with its [`initial_tokens`](Self::initial_tokens). The first end of a period adds all of
    /// `count`, even if the limiter was built shortly before.
    ///
    /// ```
    /// use flowgate::{ManualClock, Refill, Timestamp, TokenBucket};
    /// use std::time::Duration;
    ///
    /// let second = 1_000_000_000;
    /// let time = ManualClock::new();
    /// time.set(Timestamp::from_nanos(50 * second));
    /// let limiter = TokenBucket::builder("60/min".parse()?)
    ///     .clock(&time)
    ///     .refill(Refill::Interval)
    ///     .align(Timestamp::ORIGIN) // at every full minute of the clock
    ///     .build()?;
    /// assert_eq!(limiter.take_up_to(100), 60);
    /// time.advance(Duration::from_secs(9));
    /// assert_eq!(limiter.available(), 0);
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(limiter.available(), 60);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// bucket4j's adaptive initial tokens admit less before that first end. For the same effect, lower the initial tokens: to
    /// the burst, minus `count`, plus the part of `count` that belongs to the time until then.
    ///
    /// [`build`](Self::build) refuses an alignment with [`Refill::Continuous`], because it would have no effect.
    pub fn align(self, ends: Timestamp) -> Self {
        self.set(|settings| settings.alignment = Alignment::To(ends))
    }

    /// Ends the periods of [`Refill::Interval`] by the wall clock, such as at midnight.
    ///
    /// `utc_offset_s` is the offset of the wall clock, in seconds east of UTC. A period ends whenever that clock shows a whole
    /// number of periods since midnight of 1970-01-01: at the full minute, at the full hour, at midnight.
    ///
    /// The builder reads the wall clock once, in [`build`](Self::build). After that, periods follow the limiter's own clock,
    /// whatever the wall clock does. Everything else is as for [`align`](Self::align).
    ///
    /// ```
    /// # use flowgate::{Refill, TokenBucket};
    /// # use std::time::Duration;
    /// // A thousand more at each midnight in Zurich in winter.
    /// let daily = TokenBucket::builder("1000/day".parse()?)
    ///     .refill(Refill::Interval)
    ///     .align_to_wall(3600)
    ///     .build()?;
    /// daily.try_acquire_n(1000)?;
    /// assert!(daily.snapshot().reset_after <= Duration::from_secs(24 * 3600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn align_to_wall(self, utc_offset_s: i32) -> Self {
        self.set(|settings| settings.alignment = Alignment::ToWall { utc_offset_s })
    }

    /// Sets how far [`overdraw`](crate::TokenBucket::overdraw) may go below zero, in units.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::builder("10/h".parse()?).max_debt(100).build()?;
    /// assert!(limiter.overdraw(111).unwrap_err().is_never());
    /// limiter.overdraw(110)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_debt(self, units: u64) -> Self {
        self.set(|settings| settings.max_debt = Some(units))
    }
}

impl Settings {
    /// Builds the bucket, on `clock`.
    pub(crate) fn bucket<M: Mode>(self, clock: &Clock) -> Result<Bucket<M>, QuotaError> {
        let quota = self.quota;
        let burst = quota.burst_units();
        let initial = self.initial.unwrap_or(burst);
        QuotaError::in_range("initial tokens", initial, 0, burst)?;
        if let Some(debt) = self.max_debt {
            QuotaError::in_range("a maximum debt", debt, 0, Parameters::most_debt(&quota))?;
        }
        if !matches!(self.alignment, Alignment::Free) && self.refill != Refill::Interval {
            return Err(QuotaError::new(Reason::ALIGNED_WITHOUT_INTERVAL));
        }
        let aligned_ns = self.alignment.begins_ns(clock);
        let now_ns = clock.latest().as_nanos();
        let mut ledger = Ledger::new(quota, self.default_burst);
        ledger.refill = self.refill;
        ledger.aligned_ns = aligned_ns;
        ledger.max_debt = self.max_debt;
        let mut parameters = ledger.parameters(&quota, now_ns);
        // The first interval counts in full, even if a part of it is over.
        parameters.credited_ns = match parameters.grid_ns {
            Some(first_end_ns) if now_ns < first_end_ns => BEFORE_ORIGIN,
            _ => 0,
        };
        let tat = match parameters.ticks(burst - initial) {
            // Full, whatever the time is, as the default is.
            0 => 0,
            missing => parameters.now_ticks(now_ns) + missing,
        };
        parameters.layout = parameters.layout_for(now_ns, tat);
        Ok(Bucket::built(parameters, tat, ledger, self.drain_up_to))
    }
}

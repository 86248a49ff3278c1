/// How tokens flow in: continuously, or together at the end of each period.
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
    /// Adds each token at the exact nanosecond at which it has flowed in.
    #[default]
    Continuous,
    /// Adds `count` tokens together at the end of every period.
    ///
    /// Periods are counted from when the limiter was built, or from an [alignment](crate::TokenBucketBuilder::align). Tokens
    /// are added only when a period ends. In any interval, at most burst + count × (ends of a period in it) is admitted.
    /// Frequent requests do not lose tokens between the ends.
    ///
    /// # Changes
    ///
    /// A change of quota that keeps the period keeps the instants at which periods end. After a change of the period, or of
    /// the [way of refilling](crate::TokenBucket::set_refill), periods are counted from the change, or from the alignment
    /// as before. With an alignment, the first period after such a change is a part of a period, and its end adds the same part
    /// of `count`: what flowed in before the change is not added twice. The part of the old period before the change adds
    /// nothing.
    ///
    /// # Source
    ///
    /// `refillIntervally` and `refillIntervallyAligned` of bucket4j.
    Interval,
}

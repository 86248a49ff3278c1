//! What becomes of the tokens when the quota changes.

use crate::algorithm::mul_div::mul_div;
use crate::algorithm::token_bucket;
use crate::word::Parameters;

/// What becomes of a bucket's tokens when its quota changes.
///
/// A debt stays the same number of tokens, except under [`Carry::Reset`].
///
/// ```
/// use flowgate::{Carry, ManualClock, TokenBucket};
///
/// let bucket = |carry| {
///     let limiter =
///         TokenBucket::builder("1/s burst 10".parse()?).clock(ManualClock::new()).build()?;
///     limiter.take_up_to(4);
///     limiter.set_quota_with("1/s burst 20".parse()?, carry);
///     Ok::<_, flowgate::QuotaError>(limiter.available())
/// };
/// assert_eq!(bucket(Carry::Kept)?, 6);
/// assert_eq!(bucket(Carry::Proportional)?, 12);
/// assert_eq!(bucket(Carry::Reset)?, 20);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carry {
    /// As many as there were, clipped to the new burst.
    #[default]
    Kept,
    /// The same part of the burst: a bucket that was half full is half full. Where the burst grows, this
    /// admits up to the growth on top of what the promise allows.
    Proportional,
    /// A full bucket. This admits one burst on top of what the promise allows, as it forgives
    /// whatever was taken before.
    Reset,
}

/// `tat` of the bucket `old` as a time of the bucket `new`, at `now_ns`.
///
/// Rounded toward refusing, by less than a tick.
pub(super) fn restated(
    old: &Parameters,
    new: &Parameters,
    tat: u128,
    now_ns: u64,
    carry: Carry,
) -> u128 {
    let horizon = old.now_ticks(now_ns) + old.burst_ticks();
    let full = new.now_ticks(now_ns);
    let level = token_bucket::level(tat, old.now_ticks(now_ns), old.burst_ticks());
    let level = match carry {
        Carry::Reset => new.burst_ticks(),
        _ if tat > horizon => {
            let debt = new.tokens_up(old, tat - horizon);
            return Parameters::saturated((full + new.burst_ticks()).saturating_add(debt));
        }
        Carry::Kept => mul_div(level, new.token_ticks(), old.token_ticks()).0,
        Carry::Proportional => mul_div(level, new.burst_ticks(), old.burst_ticks()).0,
    };
    full + new.burst_ticks() - level.min(new.burst_ticks())
}

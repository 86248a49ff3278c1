//! What becomes of the tokens when the quota changes.

use crate::algorithm::mul_div::mul_div;
use crate::algorithm::token_bucket;
use crate::store::word::Parameters;

/// How a change of quota treats the tokens in the bucket.
///
/// The bucket never holds more than the new burst. A debt stays the same number of tokens. If a change adds tokens, they repay
/// the debt first.
///
/// | carry | tokens after the change | can exceed the bound by |
/// |---|---|---|
/// | [`Kept`](Self::Kept) (default) | those before it | nothing |
/// | [`Additive`](Self::Additive) | those before it, plus the growth of the burst | the growth |
/// | [`Proportional`](Self::Proportional) | the same part of the burst | the growth |
/// | [`Reset`](Self::Reset) | those before it, plus one new burst: full, unless in debt | one new burst |
///
/// The bound is that of the limiter: for a [`TokenBucket`](crate::TokenBucket), the largest burst plus what flows in.
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
/// assert_eq!(bucket(Carry::Additive)?, 16);
/// assert_eq!(bucket(Carry::Proportional)?, 12);
/// assert_eq!(bucket(Carry::Reset)?, 20);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Source
///
/// `TokensInheritanceStrategy` of bucket4j: `AS_IS`, `ADDITIVE`, `PROPORTIONALLY` and `RESET`. Unlike this one, `RESET` there
/// also forgives debts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carry {
    /// Keeps the tokens, clipped to the new burst.
    #[default]
    Kept,
    /// Keeps the same part of the burst: a bucket that was half full is half full.
    ///
    /// A debt stays the same number of tokens. If the burst grows, the limiter may exceed its bound by up to the growth.
    Proportional,
    /// Adds one new burst: the bucket is full, unless it was in debt.
    ///
    /// The added tokens repay a debt first. A bucket with a debt of 3 tokens then holds the new burst less 3. A bucket with a
    /// debt larger than the new burst keeps the rest of the debt. So each reset admits at most one new burst more than the
    /// bound.
    ///
    /// ```
    /// # use flowgate::{Carry, ManualClock, TokenBucket};
    /// let limiter =
    ///     TokenBucket::builder("1/h burst 5".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.overdraw(8)?; // a debt of 3
    /// limiter.set_quota_with("1/h burst 5".parse()?, Carry::Reset);
    /// assert_eq!(limiter.available(), 2);
    /// limiter.set_quota_with("1/h burst 5".parse()?, Carry::Reset);
    /// assert_eq!(limiter.available(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Reset,
    /// Adds the growth of the burst, and nothing if the burst shrinks.
    ///
    /// The growth repays a debt first. So a bucket that has used up its burst can use the growth immediately.
    ///
    /// A burst that only ever grows admits nothing beyond the bound: the tokens taken before and the growth are together at
    /// most the new burst. A burst that shrinks and grows again admits up to the growth more.
    ///
    /// ```
    /// # use flowgate::{Carry, ManualClock, TokenBucket};
    /// let limiter =
    ///     TokenBucket::builder("1/h burst 10".parse()?).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(10)?;
    /// limiter.set_quota_with("1/h burst 15".parse()?, Carry::Additive);
    /// assert_eq!(limiter.available(), 5);
    /// limiter.set_quota_with("1/h burst 3".parse()?, Carry::Additive);
    /// assert_eq!(limiter.available(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Additive,
}

impl Carry {
    /// The most that a change from `old` to `new` adds to what there is, in ticks of `new`: at most its burst. What
    /// [`Proportional`](Self::Proportional) adds depends on the level and is not in it.
    pub(super) fn gift(self, old: &Parameters, new: &Parameters) -> u128 {
        let burst = new.burst_ticks();
        match self {
            Self::Kept | Self::Proportional => 0,
            Self::Additive => burst.saturating_sub(new.tokens_up(old, old.burst_ticks())),
            Self::Reset => burst,
        }
    }
}

/// `tat` of the bucket `old` as a time of the bucket `new`, at `now_ns`, with the [gift](Carry::gift) in it.
///
/// Rounded toward refusing, by less than a tick for each of the level, the debt and the growth.
pub(super) fn restated(
    old: &Parameters,
    new: &Parameters,
    tat: u128,
    now_ns: u64,
    carry: Carry,
) -> u128 {
    let before = old.now_ticks(now_ns);
    let level = token_bucket::level(tat, before, old.burst_ticks());
    let debt = tat.saturating_sub(before + old.burst_ticks());
    let full = new.now_ticks(now_ns);
    let empty = full + new.burst_ticks() - carry.gift(old, new);
    if debt > 0 {
        let tat = Parameters::saturated(empty.saturating_add(new.tokens_up(old, debt)));
        return tat.max(full);
    }
    let (by, per) = match carry {
        Carry::Proportional => (new.burst_ticks(), old.burst_ticks()),
        Carry::Kept | Carry::Additive | Carry::Reset => (new.token_ticks(), old.token_ticks()),
    };
    empty.saturating_sub(mul_div(level, by, per).0).max(full)
}

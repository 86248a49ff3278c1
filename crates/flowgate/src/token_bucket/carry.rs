//! What becomes of the tokens when the quota changes.

use crate::algorithm::token_bucket;
use crate::word::Parameters;

/// What becomes of a bucket's tokens when its quota changes.
///
/// The bucket never holds more than the new burst. A debt stays the same number of tokens; where a change adds
/// tokens, they pay the debt first.
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
/// `TokensInheritanceStrategy` of bucket4j: `AS_IS`, `ADDITIVE`, `PROPORTIONALLY` and `RESET`. That `RESET` forgives
/// debts as well; this one does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carry {
    /// Keeps as many tokens as there were, clipped to the new burst.
    #[default]
    Kept,
    /// Keeps the same part of the burst: a bucket that was half full is half full.
    ///
    /// A debt stays the same number of tokens. Where the burst grows, the limiter may exceed its bound by up to the
    /// growth.
    Proportional,
    /// Adds one new burst: the bucket is full, unless it was in debt.
    ///
    /// The burst pays a debt first. A bucket that owed 3 tokens holds the new burst less 3, and one that owed more
    /// than the new burst still owes the rest. So each reset admits at most one new burst more than the bound.
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
    /// The growth pays a debt first. So a bucket that has used up its burst can use the growth immediately.
    /// A burst that only ever grows admits nothing beyond the bound: what was taken before and the growth are together
    /// at most the new burst. A burst that shrinks and grows again admits up to the growth more.
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
            Self::Additive => burst.saturating_sub(tokens_up(old, new, old.burst_ticks())),
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
        let tat = Parameters::saturated(empty.saturating_add(tokens_up(old, new, debt)));
        return tat.max(full);
    }
    let (by, per) = match carry {
        Carry::Proportional => (new.burst_ticks(), old.burst_ticks()),
        Carry::Kept | Carry::Additive | Carry::Reset => (new.token_ticks(), old.token_ticks()),
    };
    empty.saturating_sub(mul_div(level, by, per).0).max(full)
}

/// The ticks of `new` that as many tokens cost as `ticks` of `old`, rounded up.
pub(super) fn tokens_up(old: &Parameters, new: &Parameters, ticks: u128) -> u128 {
    let (quotient, rest) = mul_div(ticks, new.token_ticks(), old.token_ticks());
    quotient.saturating_add(u128::from(rest))
}

/// a · b / d rounded down, and whether anything was cut off; `u128::MAX` if it is more than that.
///
/// The product takes up to 256 bits, which a binary long division gets through; this is not a path that
/// is in a hurry.
pub(super) fn mul_div(a: u128, b: u128, d: u128) -> (u128, bool) {
    if let Some(product) = a.checked_mul(b) {
        return (product / d, product % d != 0);
    }
    let (high, low) = full_product(a, b);
    if high >= d {
        return (u128::MAX, true);
    }
    let (mut quotient, mut rest) = (0, high);
    for bit in (0..128).rev() {
        let carry = rest >> 127 != 0;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry || rest >= d {
            rest = rest.wrapping_sub(d);
            quotient |= 1;
        }
    }
    (quotient, rest != 0)
}

/// a · b as its upper and its lower 128 bits.
fn full_product(a: u128, b: u128) -> (u128, u128) {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let (carried, lowest) = halves(a0 * b0);
    let ((up_left, left), (up_right, right)) = (halves(a1 * b0), halves(a0 * b1));
    let (carry, middle) = halves(carried + left + right);
    (
        a1 * b1 + up_left + up_right + carry,
        (middle << 64) | lowest,
    )
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::mul_div;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn c8_mul_div_inverts_multiplication(a: u128, d in 1_u128.., b in 0_u128..1 << 60) {
            // a·d/d, and one more than a multiple.
            prop_assert_eq!(mul_div(a, d, d), (a, false));
            if let Some(product) = a.checked_mul(b) {
                prop_assert_eq!(mul_div(a, b, d), (product / d, product % d != 0));
            }
        }

        #[test]
        fn c8_mul_div_agrees_with_two_steps(a in 0_u128..1 << 93, b in 0_u128..1 << 93, d in 1_u128..1 << 93) {
            // a = q·d + r, so a·b/d = q·b + r·b/d, where the parts are small enough for long division by hand.
            let (got, cut) = mul_div(a, b, d);
            let mut whole = 0_u128;
            let mut rest = 0_u128;
            let mut fits = true;
            for bit in (0..93).rev() {
                fits &= whole >> 127 == 0 && rest < d;
                whole = whole.wrapping_shl(1);
                rest <<= 1;
                if a >> bit & 1 != 0 {
                    whole = whole.wrapping_add(b / d);
                    rest += b % d;
                }
                whole = whole.wrapping_add(rest / d);
                rest %= d;
            }
            if fits && got != u128::MAX {
                prop_assert_eq!((got, cut), (whole, rest != 0));
            }
        }
    }

    #[test]
    fn mul_div_says_so_when_it_does_not_fit() {
        assert_eq!(mul_div(u128::MAX, 2, 1), (u128::MAX, true));
        assert_eq!(mul_div(u128::MAX, u128::MAX, u128::MAX), (u128::MAX, false));
        assert_eq!(mul_div(u128::MAX, 3, 4), (u128::MAX / 4 * 3 + 2, true));
    }
}

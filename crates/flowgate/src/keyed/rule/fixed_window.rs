//! The fixed window, anchored at the first operation: the state is its end and the count; see [`algorithm::fixed_window`].

use super::super::entry::{MOST_STATE, Reading, TICK_BITS};
use super::terms::MOST_SPAN;
use super::{Rule, Terms, tally};
use crate::algorithm::fixed_window;
use crate::quota::{Quota, QuotaError};

#[derive(Debug)]
pub struct FixedWindow;

/// The binary digits of a limit.
pub(super) fn digits(limit: u64) -> u32 {
    u64::BITS - limit.leading_zeros()
}

/// As many that a count up to the limit is never all ones, which means more; but for the largest limit there is.
pub(super) fn count_digits(limit: u64) -> u32 {
    digits(limit.saturating_add(1))
}

/// What a count of so many bits tells: if it is all ones, it may be any number from that on.
pub(super) fn told(count: u64, bits: u32) -> u64 {
    match count == most_of(bits) {
        true => u64::MAX,
        false => count,
    }
}

/// All ones.
pub(super) fn most_of(bits: u32) -> u64 {
    u64::MAX >> (u64::BITS - bits.min(u64::BITS))
}

/// `new` with as many bits for a count as `old` has, as far as there is `room` for them and the window's end can be told beside
/// them.
pub(super) fn widened(new: Terms, old: &Terms, room: u32) -> Terms {
    let bits = old.count_bits.min(room).max(new.count_bits);
    let fits = new.span <= MOST_SPAN - (1 << bits);
    Terms {
        count_bits: if fits { bits } else { new.count_bits },
        ..new
    }
}

/// A window of so many nanoseconds, the end of which can be told beside a count of so many digits.
pub(super) fn span(window_ns: u64, count_bits: u32) -> Result<u128, QuotaError> {
    let most = MOST_SPAN - (1 << count_bits.min(u64::BITS));
    match u128::from(window_ns) << TICK_BITS {
        span if span <= most => Ok(span),
        _ => Err(QuotaError::out_of_range(
            "the window of a keyed limiter, in nanoseconds,",
            window_ns,
            1,
            (most >> TICK_BITS) as u64,
        )),
    }
}

/// A count up to the limit has to fit in the low bits.
fn power(terms: &Terms) -> u128 {
    1 << terms.count_bits
}

/// Whether terms are what `terms_of` makes of their limit, their scale and the nanoseconds of their window, or have more bits for
/// a count.
pub(super) fn are_of_window<R: Rule>(
    terms: &Terms,
    terms_of: impl Fn(u64, u64, u64) -> Result<Terms, QuotaError>,
) -> bool {
    let window_ns = (terms.span >> TICK_BITS) as u64;
    let same = || {
        Some(R::widened(
            terms_of(terms.most, terms.scale, window_ns).ok()?,
            terms,
        ))
    };
    terms.most > 0 && window_ns > 0 && same() == Some(*terms)
}

/// The state of a window that ends at `end` or, as far as the count needs the bits, somewhat later.
fn pack(end: u128, count: u64, terms: &Terms) -> u128 {
    let end = end.div_ceil(power(terms)) << terms.count_bits;
    (end + u128::from(count.min(most_of(terms.count_bits)))).min(MOST_STATE)
}

/// Less than 2⁶⁴.
fn count(state: u128, terms: &Terms) -> u64 {
    fixed_window::count(state, power(terms)) as u64
}

fn used(state: u128, now: u128, terms: &Terms) -> u64 {
    fixed_window::used(state, now, power(terms)) as u64
}

fn end(state: u128, terms: &Terms) -> u128 {
    fixed_window::end(state, power(terms))
}

/// Whether nobody knows how much more than all has been counted.
fn is_beyond(count: u64, terms: &Terms) -> bool {
    count > terms.most && told(count, terms.count_bits) == u64::MAX
}

impl FixedWindow {
    fn terms_of(limit: u64, scale: u64, window_ns: u64) -> Result<Terms, QuotaError> {
        let count_bits = count_digits(limit).max(TICK_BITS);
        Ok(Terms {
            unit: 0,
            most: limit,
            scale,
            span: span(window_ns, count_bits)?,
            count_bits,
            reading: Reading::of_table(0),
        })
    }
}

impl Rule for FixedWindow {
    type Quota = Quota;
    const FLOWS: bool = false;

    fn terms(quota: &Quota) -> Result<Terms, QuotaError> {
        let (limit, window_ns) = quota.window()?;
        Self::terms_of(limit, quota.scale(), window_ns)
    }

    fn is_sound(terms: &Terms) -> bool {
        are_of_window::<Self>(terms, Self::terms_of)
    }

    /// So many that rounding the end up makes a window longer by 1/4096 at the most.
    fn widened(new: Terms, old: &Terms) -> Terms {
        widened(new, old, new.span.ilog2().saturating_sub(TICK_BITS))
    }

    #[inline]
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128> {
        let new = || pack(now + terms.span, 0, terms);
        let state = fixed_window::window(state, now, power(terms), new);
        fixed_window::take(state, now, n.into(), terms.most.into(), power(terms))
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        terms.most.saturating_sub(used(state, now, terms))
    }

    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128 {
        fixed_window::resets_after(state, now, power(terms))
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        let used = used(state, now, terms);
        match is_beyond(used, terms) {
            true => (state, 0),
            false => (state - u128::from(n.min(used)), n.min(used)),
        }
    }

    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        // How long a key's own window is, is not kept; and an end that was rounded up does not tell.
        let is_of_this = then + terms.span >= end(state, terms);
        match is_of_this && !terms.reading.is_own() {
            true => Self::give_back(state, now, n, terms).0,
            false => state,
        }
    }

    /// Over or not: a stale time is to find what was counted.
    fn restate(state: u128, from: &Terms, to: &Terms, _: u128) -> u128 {
        match state {
            0 => 0,
            _ if from.count_bits == to.count_bits => state,
            _ => pack(
                end(state, from),
                told(count(state, from), from.count_bits),
                to,
            ),
        }
    }

    /// If it was opened in these terms.
    fn begins(state: u128, terms: &Terms) -> u128 {
        end(state, terms).saturating_sub(terms.span)
    }

    fn has_class(class: u16, _: &Terms) -> bool {
        (TICK_BITS..=u64::BITS).contains(&class.into())
    }

    fn unknown_until(state: u128, free: u128, terms: &Terms) -> u128 {
        pack(free.max(end(state, terms)), u64::MAX, terms)
    }

    fn to_cell(state: u128, terms: &Terms) -> u64 {
        let used = told(count(state, terms), terms.count_bits);
        tally::pack(end(state, terms), used)
    }

    /// When a window of another key ends is no reason for one of this key to be shorter than it has to be.
    fn from_cell(cell: u64, at: u128, terms: &Terms, _: &Terms) -> u128 {
        match tally::count(cell) {
            0 => 0,
            count => pack(tally::end(cell).max(at + terms.span), count, terms),
        }
    }

    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128 {
        match Self::whole_after(state, now, terms) {
            0 => 0,
            left => pack(then.saturating_add(left), count(state, terms), terms),
        }
    }
}

#[cfg(all(test, not(flowgate_loom)))]
mod tests {
    use super::*;

    /// Otherwise three windows could meet in one span: the one before, the one that is short, and the one after.
    #[test]
    fn c1_c7_a_window_that_is_recalled_is_no_shorter_than_another() {
        let quota = Quota::per_second(10);
        let terms = FixedWindow::terms(&quota).unwrap();
        let second = 1_000_000_000 << TICK_BITS;
        let now = 7 * second;
        // Somebody else's, which ends in half a second, and has used 3.
        let cell = FixedWindow::to_cell(pack(now + second / 2, 3, &terms), &terms);
        let state = FixedWindow::from_cell(cell, now, &terms, &terms);
        assert!((6..=7).contains(&FixedWindow::left(state, now, &terms)));
        assert!(FixedWindow::whole_after(state, now, &terms) >= second);
    }
}

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

/// Whether terms are what `terms_of` makes of their limit, their scale and the nanoseconds of their window.
pub(super) fn are_of_window(
    terms: &Terms,
    terms_of: impl Fn(u64, u64, u64) -> Result<Terms, QuotaError>,
) -> bool {
    let window_ns = (terms.span >> TICK_BITS) as u64;
    let same = || terms_of(terms.most, terms.scale, window_ns);
    terms.most > 0 && window_ns > 0 && same().as_ref() == Ok(terms)
}

/// The state of a window that ends at `end` or, as far as the count needs the bits, somewhat later.
fn pack(end: u128, count: u128, terms: &Terms) -> u128 {
    let end = end.div_ceil(power(terms)) << terms.count_bits;
    // A count that is more than these terms can tell is as good as their most.
    (end + count.min(power(terms) - 1)).min(MOST_STATE)
}

impl FixedWindow {
    fn terms_of(limit: u64, scale: u64, window_ns: u64) -> Result<Terms, QuotaError> {
        Ok(Terms {
            unit: 0,
            most: limit,
            scale,
            span: span(window_ns, digits(limit).max(TICK_BITS))?,
            count_bits: digits(limit).max(TICK_BITS),
            reading: Reading::of_table(0),
        })
    }
}

impl Rule for FixedWindow {
    fn terms(quota: &Quota) -> Result<Terms, QuotaError> {
        let (limit, window_ns) = quota.window()?;
        Self::terms_of(limit, quota.scale(), window_ns)
    }

    fn is_sound(terms: &Terms) -> bool {
        are_of_window(terms, Self::terms_of)
    }

    #[inline]
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128> {
        let state = match fixed_window::is_open(state, now, power(terms)) {
            true => state,
            // Not an earlier one than there has been already.
            false => pack(now + terms.span, 0, terms).max(fixed_window::end(state, power(terms))),
        };
        fixed_window::take(state, now, n.into(), terms.most.into(), power(terms))
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        match fixed_window::is_open(state, now, power(terms)) {
            // Less than 2⁶⁴.
            true => terms
                .most
                .saturating_sub(fixed_window::count(state, power(terms)) as u64),
            false => terms.most,
        }
    }

    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128 {
        match fixed_window::is_open(state, now, power(terms)) {
            true => fixed_window::end(state, power(terms)) - now,
            false => 0,
        }
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        if !fixed_window::is_open(state, now, power(terms)) {
            return (state, 0);
        }
        let n = n.min(fixed_window::count(state, power(terms)) as u64);
        (state - u128::from(n), n)
    }

    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        // How long a key's own window is, is not kept; and an end that was rounded up does not tell.
        let is_of_this = then + terms.span >= fixed_window::end(state, power(terms));
        match is_of_this && !terms.reading.is_own() {
            true => Self::give_back(state, now, n, terms).0,
            false => state,
        }
    }

    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128 {
        if !fixed_window::is_open(state, at, power(from)) {
            return 0;
        }
        let end = fixed_window::end(state, power(from));
        pack(end, fixed_window::count(state, power(from)), to)
    }

    fn behind(state: u128, _: u128, _: u128, _: &Terms) -> u128 {
        state
    }

    fn class(terms: &Terms) -> u16 {
        // At most 64.
        digits(terms.most) as u16
    }

    fn has_class(class: u16, _: &Terms) -> bool {
        u32::from(class) <= u64::BITS
    }

    /// The least limit with as many digits, of which a count is the largest part.
    fn of_class(class: u16, table: &Terms) -> Terms {
        Terms {
            most: 1 << class.saturating_sub(1),
            count_bits: u32::from(class).max(TICK_BITS),
            ..*table
        }
    }

    fn unknown_until(free: u128, terms: &Terms) -> u128 {
        pack(free, terms.most.into(), terms)
    }

    fn to_cell(state: u128, terms: &Terms) -> u64 {
        let count = fixed_window::count(state, power(terms));
        tally::pack(fixed_window::end(state, power(terms)), count, terms.most)
    }

    fn free_at(cell: u64) -> u128 {
        tally::end(cell)
    }

    fn join(one: u64, other: u64) -> u64 {
        tally::join(one, other)
    }

    fn meet(one: u64, other: u64) -> u64 {
        tally::meet(one, other)
    }

    /// When a window of another key ends is no reason for one of this key to be shorter than it has to be.
    fn from_cell(cell: u64, now: u128, terms: &Terms) -> u128 {
        match tally::count(cell, terms.most) {
            0 => 0,
            count => pack(tally::end(cell).max(now + terms.span), count.into(), terms),
        }
    }

    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128 {
        match Self::whole_after(state, now, terms) {
            0 => 0,
            left => {
                let count = fixed_window::count(state, power(terms));
                pack(then.saturating_add(left), count, terms)
            }
        }
    }

    fn carry_cell(cell: u64, now: u128, then: u128) -> u64 {
        tally::carry(cell, now, then)
    }

    fn restate_cell(cell: u64, _: &Terms, _: &Terms, _: u128) -> u64 {
        cell
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
        let state = FixedWindow::from_cell(cell, now, &terms);
        assert!((6..=7).contains(&FixedWindow::left(state, now, &terms)));
        assert!(FixedWindow::whole_after(state, now, &terms) >= second);
    }
}

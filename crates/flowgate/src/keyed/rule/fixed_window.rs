//! The fixed window, anchored at the first operation or aligned: the state is its end and the count; see
//! [`algorithm::fixed_window`].
//!
//! # Ends that are exact
//!
//! A count takes the low bits of the end, so the end is rounded up, to a multiple of the *step*: as many ticks as there are counts.
//! Where windows are aligned, an end that is less than a step after the beginning of one stands for just that beginning. An end that
//! is no such beginning, as one from before a change of quota, and would be read so, is rounded up by a step more. So every end of an
//! aligned window is told exactly, and no other one is told too early.
//!
//! What is kept of a key's own terms does not tell how its windows lie. So in such terms, and in the sketch, ends are rounded up as
//! they are in windows that are not aligned.

use super::super::entry::{MOST_STATE, Reading, TICK_BITS, ticks};
use super::terms::MOST_SPAN;
use super::{Change, Rule, Terms, tally};
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

/// `terms` of windows that follow each other without a gap, of which one begins at `begins_ns`, perhaps before the clock's origin;
/// none: a window begins with the first operation.
pub(in crate::keyed) fn aligned(
    terms: Terms,
    begins_ns: Option<i128>,
) -> Result<Terms, QuotaError> {
    let Some(begins_ns) = begins_ns else {
        return Ok(terms);
    };
    if !has_steps(&terms) {
        let most = (1 << (terms.span.ilog2() - 1)) - 2;
        let what = "the limit of a keyed limiter with aligned windows of this length, in units,";
        return Err(QuotaError::out_of_range(what, terms.most, 1, most));
    }
    let window_ns = (terms.span >> TICK_BITS) as i128;
    let phase_ns = begins_ns.rem_euclid(window_ns) as u64;
    Ok(Terms {
        unit: ticks(phase_ns) + 1,
        ..terms
    })
}

/// Whether a window is so long that its end can be told from an end that is rounded up.
fn has_steps(terms: &Terms) -> bool {
    power(terms) <= terms.span / 2
}

/// How many ticks after a whole number of windows one begins, if they are aligned.
fn phase(terms: &Terms) -> Option<u128> {
    terms.unit.checked_sub(1)
}

/// How many ticks before `at` the last window has begun, if they are aligned.
fn since_begin(at: u128, terms: &Terms) -> Option<u128> {
    let phase = phase(terms)?;
    Some((at + terms.span - phase) % terms.span)
}

/// When a window ends that is opened at `now`.
fn new_end(now: u128, terms: &Terms) -> u128 {
    now + terms.span - since_begin(now, terms).unwrap_or(0)
}

/// Whether an end is rounded, and stands for the beginning of a window that it was rounded from.
fn tells_beginnings(terms: &Terms) -> bool {
    terms.count_bits > TICK_BITS && terms.unit != 0 && !terms.reading.is_own()
}

/// By how many ticks an end has been rounded up if it is that of an aligned window; none: it is not.
fn excess(end: u128, terms: &Terms) -> Option<u128> {
    if !tells_beginnings(terms) {
        return None;
    }
    since_begin(end, terms).filter(|since| *since < power(terms))
}

/// The state of a window that ends at `end` or, as far as the count needs the bits, somewhat later.
fn pack(end: u128, count: u64, terms: &Terms) -> u128 {
    let mut rounded = end.div_ceil(power(terms)) << terms.count_bits;
    if excess(rounded, terms).is_some_and(|excess| rounded - end != excess) {
        // It is no beginning of a window, and is not to be taken for one.
        rounded += power(terms);
    }
    (rounded + u128::from(count.min(most_of(terms.count_bits)))).min(MOST_STATE)
}

/// Less than 2⁶⁴.
fn count(state: u128, terms: &Terms) -> u64 {
    fixed_window::count(state, power(terms)) as u64
}

fn used(state: u128, now: u128, terms: &Terms) -> u64 {
    match now < end(state, terms) {
        true => fixed_window::used(state, now, power(terms)) as u64,
        false => 0,
    }
}

fn end(state: u128, terms: &Terms) -> u128 {
    let end = fixed_window::end(state, power(terms));
    end.saturating_sub(excess(end, terms).unwrap_or(0))
}

/// Counts `n` in the window that is open at `now`, or in one that ends at `new_end`, if that has not more than `most` then; or says
/// how many ticks it is until it ends.
#[inline]
fn take_of(
    state: u128,
    now: u128,
    n: u64,
    most: u64,
    new_end: impl FnOnce() -> u128,
    terms: &Terms,
) -> Result<u128, u128> {
    let step = power(terms);
    let state = match excess(fixed_window::end(state, step), terms) {
        // Only by what it was rounded up by, it is not over.
        Some(_) if now >= end(state, terms) => fixed_window::end(state, step),
        _ => state,
    };
    let state = fixed_window::window(state, now, step, || pack(new_end(), 0, terms));
    let taken = fixed_window::take(state, now, n.into(), most.into(), step);
    taken.map_err(|_| end(state, terms) - now)
}

/// Whether an end is the same in both terms.
fn is_read_alike(one: &Terms, other: &Terms) -> bool {
    let windows = |terms: &Terms| tells_beginnings(terms).then_some((terms.unit, terms.span));
    windows(one) == windows(other)
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
        let is_sound_phase = |phase: u128| {
            let whole_ns = phase >> TICK_BITS << TICK_BITS;
            has_steps(terms) && phase < terms.span && phase == whole_ns
        };
        let anchored = Terms { unit: 0, ..*terms };
        are_of_window::<Self>(&anchored, Self::terms_of) && phase(terms).is_none_or(is_sound_phase)
    }

    /// So many that rounding the end up makes a window longer by 1/4096 at the most.
    fn widened(new: Terms, old: &Terms) -> Terms {
        widened(new, old, new.span.ilog2().saturating_sub(TICK_BITS))
    }

    #[inline]
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128> {
        take_of(state, now, n, terms.most, || new_end(now, terms), terms)
    }

    fn take_strictly(state: u128, now: u128, n: u64, change: &Change) -> Result<u128, u128> {
        let Change { from, to, .. } = change;
        let later_end = || new_end(now, from).max(new_end(now, to));
        take_of(state, now, n, change.most(), later_end, to)
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        terms.most.saturating_sub(used(state, now, terms))
    }

    fn left_before(state: u128, now: u128, change: &Change) -> u64 {
        change.most().saturating_sub(used(state, now, &change.to))
    }

    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128 {
        match used(state, now, terms) {
            0 => 0,
            _ => end(state, terms) - now,
        }
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

    /// Over or not: a stale time is to find what was counted. What is not over stays counted until an aligned window begins.
    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128 {
        let old_end = end(state, from);
        let is_kept = old_end > at && phase(to).is_some();
        let is_alike = from.count_bits == to.count_bits && is_read_alike(from, to);
        match state {
            0 => 0,
            _ if is_alike && !is_kept => state,
            _ => {
                // The first one at its end, or after it.
                let end = match is_kept {
                    true => new_end(old_end - 1, to),
                    false => old_end,
                };
                pack(end, told(count(state, from), from.count_bits), to)
            }
        }
    }

    /// If it was opened in these terms.
    fn begins(state: u128, terms: &Terms) -> u128 {
        end(state, terms).saturating_sub(terms.span)
    }

    fn has_class(class: u16, _: &Terms) -> bool {
        (TICK_BITS..=u64::BITS).contains(&class.into())
    }

    /// How the windows of a key's own terms lie is not kept.
    fn of_class(class: u16, table: &Terms) -> Terms {
        Terms {
            unit: 0,
            count_bits: class.into(),
            ..*table
        }
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
        let (end, count) = (tally::end(cell), tally::count(cell));
        // It may have ended when the present one began, and then nothing is known of that.
        let is_at_begin = |since: u128| end < at - since.min(at) + tally::STEP;
        match count {
            0 => 0,
            _ if since_begin(at, terms).is_some_and(is_at_begin) => pack(end, u64::MAX, terms),
            _ => pack(end.max(new_end(at, terms)), count, terms),
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

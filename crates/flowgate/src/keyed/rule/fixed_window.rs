//! The fixed window, anchored at the first operation or aligned. The state is its end and the count; see
//! [`algorithm::fixed_window`].
//!
//! # Exact ends
//!
//! The count uses the low bits of the state. The end is therefore rounded up to a multiple of the *step*, which is the number of
//! possible counts in ticks. If windows are aligned, an end that is less than one step after the beginning of a window means
//! exactly that beginning. Another end, such as one from before a change of quota, could be read as a beginning by mistake. It is
//! then rounded up by one more step. Every end of an aligned window is therefore exact, and no other end is read too early.
//!
//! An entry with per-key terms does not store the alignment of the windows. In such terms, and in the sketch, ends are rounded up
//! as they are in windows that are not aligned.

use super::super::entry::{MOST_STATE, Reading, TICK_BITS, ticks};
use super::terms::MOST_SPAN;
use super::{Change, Rule, Terms, tally};
use crate::algorithm::fixed_window;
use crate::quota::{Quota, QuotaError};

#[derive(Debug)]
pub struct FixedWindow;

/// Returns the number of binary digits of a limit.
pub(super) fn digits(limit: u64) -> u32 {
    u64::BITS - limit.leading_zeros()
}

/// Returns the digits of a count up to the limit. Except for the largest limit, such a count is never all ones, which means more.
pub(super) fn count_digits(limit: u64) -> u32 {
    digits(limit.saturating_add(1))
}

/// Returns what a count of `bits` bits means. All ones mean that number or any larger one.
pub(super) fn told(count: u64, bits: u32) -> u64 {
    match count == most_of(bits) {
        true => u64::MAX,
        false => count,
    }
}

/// Returns a number of `bits` ones.
pub(super) fn most_of(bits: u32) -> u64 {
    u64::MAX >> (u64::BITS - bits.min(u64::BITS))
}

/// Returns `new` with at least the bits for a count that `old` has, if there is `room` for them and the window's end fits beside
/// them.
pub(super) fn widened(new: Terms, old: &Terms, room: u32) -> Terms {
    let bits = old.count_bits.min(room).max(new.count_bits);
    let fits = new.span <= MOST_SPAN - (1 << bits);
    Terms {
        count_bits: if fits { bits } else { new.count_bits },
        ..new
    }
}

/// Returns the ticks of a window of `window_ns`, whose end must fit beside a count of `count_bits` bits.
pub(super) fn span(window_ns: u64, count_bits: u32) -> Result<u128, QuotaError> {
    let most = MOST_SPAN - (1 << count_bits.min(u64::BITS));
    let what = "the window of a keyed limiter, in nanoseconds,";
    let window_ns = QuotaError::in_range(what, window_ns, 1, (most >> TICK_BITS) as u64)?;
    Ok(u128::from(window_ns) << TICK_BITS)
}

/// Returns the step: the low bits have to hold a count up to the limit.
fn power(terms: &Terms) -> u128 {
    1 << terms.count_bits
}

/// Returns whether terms are those that `terms_of` computes from their limit, their scale and the nanoseconds of their window. They
/// may have more bits for a count.
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

/// Returns `terms` of windows that follow each other without a gap. One of them begins at `begins_ns`, which may be before the
/// clock's origin. With `None`, a window begins with the first operation.
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

/// Returns whether a window is so long that its exact end differs from an end that is rounded up.
fn has_steps(terms: &Terms) -> bool {
    power(terms) <= terms.span / 2
}

/// Returns how many ticks after a whole number of windows a window begins, if windows are aligned.
fn phase(terms: &Terms) -> Option<u128> {
    terms.unit.checked_sub(1)
}

/// Returns how many ticks before `at` the last window has begun, if windows are aligned.
fn since_begin(at: u128, terms: &Terms) -> Option<u128> {
    let phase = phase(terms)?;
    Some((at + terms.span - phase) % terms.span)
}

/// Returns when a window ends that is opened at `now`.
fn new_end(now: u128, terms: &Terms) -> u128 {
    now + terms.span - since_begin(now, terms).unwrap_or(0)
}

/// Returns whether an end is rounded, and means the beginning of a window from which it was rounded.
fn tells_beginnings(terms: &Terms) -> bool {
    terms.count_bits > TICK_BITS && terms.unit != 0 && !terms.reading.is_own()
}

/// Returns by how many ticks an end has been rounded up. Returns `None` if it is not the end of an aligned window.
fn excess(end: u128, terms: &Terms) -> Option<u128> {
    if !tells_beginnings(terms) {
        return None;
    }
    since_begin(end, terms).filter(|since| *since < power(terms))
}

/// Returns the state of a window that ends at `end`, or slightly later if the count needs the bits.
fn pack(end: u128, count: u64, terms: &Terms) -> u128 {
    let mut rounded = end.div_ceil(power(terms)) << terms.count_bits;
    if excess(rounded, terms).is_some_and(|excess| rounded - end != excess) {
        // This end is not the beginning of a window, and must not be read as one.
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

/// Counts `n` in the window that is open at `now`, or in one that ends at `new_end`, if the window then has at most `most`.
/// Otherwise returns how many ticks it takes until the window ends.
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
        // Without the rounding, this window has ended.
        Some(_) if now >= end(state, terms) => fixed_window::end(state, step),
        _ => state,
    };
    let state = fixed_window::window(state, now, step, || pack(new_end(), 0, terms));
    let taken = fixed_window::take(state, now, n.into(), most.into(), step);
    taken.map_err(|_| end(state, terms) - now)
}

/// Returns whether an end is the same in both terms.
fn is_read_alike(one: &Terms, other: &Terms) -> bool {
    let windows = |terms: &Terms| tells_beginnings(terms).then_some((terms.unit, terms.span));
    windows(one) == windows(other)
}

/// Returns whether the count is above the limit by an unknown number.
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

    /// Allows as many bits as rounding the end up makes a window longer by at most 1/4096.
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
        // The length of a window with per-key terms is not stored, and an end that was rounded up does not show it.
        let is_of_this = then + terms.span >= end(state, terms);
        match is_of_this && !terms.reading.is_own() {
            true => Self::give_back(state, now, n, terms).0,
            false => state,
        }
    }

    /// The state is kept even if the window has ended, because a decision at a stale time needs the count. If it has not ended, it
    /// stays counted until an aligned window begins.
    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128 {
        let old_end = end(state, from);
        let is_kept = old_end > at && phase(to).is_some();
        let is_alike = from.count_bits == to.count_bits && is_read_alike(from, to);
        match state {
            0 => 0,
            _ if is_alike && !is_kept => state,
            _ => {
                // The first end at or after the old one.
                let end = match is_kept {
                    true => new_end(old_end - 1, to),
                    false => old_end,
                };
                pack(end, told(count(state, from), from.count_bits), to)
            }
        }
    }

    /// This is correct if the window was opened in these terms.
    fn begins(state: u128, terms: &Terms) -> u128 {
        end(state, terms).saturating_sub(terms.span)
    }

    fn has_class(class: u16, _: &Terms) -> bool {
        (TICK_BITS..=u64::BITS).contains(&class.into())
    }

    /// The alignment of windows with per-key terms is not stored.
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

    /// A window of another key must not make a window of this key shorter than it has to be.
    fn from_cell(cell: u64, at: u128, terms: &Terms, _: &Terms) -> u128 {
        let (end, count) = (tally::end(cell), tally::count(cell));
        // The other window may have ended when the present one began. Nothing is then known about the present one.
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

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    /// Otherwise three windows could meet in one span: the one before, the one that is short, and the one after.
    #[test]
    fn c1_c7_a_window_that_is_recalled_is_no_shorter_than_another() {
        let quota = Quota::per_second(10);
        let terms = FixedWindow::terms(&quota).unwrap();
        let second = 1_000_000_000 << TICK_BITS;
        let now = 7 * second;
        // The window of another key, which ends in half a second and has used 3.
        let cell = FixedWindow::to_cell(pack(now + second / 2, 3, &terms), &terms);
        let state = FixedWindow::from_cell(cell, now, &terms, &terms);
        assert!((6..=7).contains(&FixedWindow::left(state, now, &terms)));
        assert!(FixedWindow::whole_after(state, now, &terms) >= second);
    }
}

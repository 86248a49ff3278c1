//! The segmented window of one segment; see [`algorithm::segmented_window`](crate::algorithm::segmented_window).
//!
//! Segments are one window long, counted from the clock's origin. The state contains the end of the segment after the newest one
//! with admissions, because admissions count until then. Its low bits contain the two counts:
//!
//! ```text
//!   state  =  end of the next segment  +  units before  ·  2ᵏ  +  units
//!
//!        before        newest      counts still
//!   ├─────────────┼─────────────┼─────────────┤
//!                                             end
//! ```
//!
//! The end is rounded up, so that the low bits are free for the counts. The rounding is less than a segment, so the end still
//! determines whose end it is.

use super::super::entry::{MOST_STATE, Reading, TICK_BITS};
use super::fixed_window::{are_of_window, count_digits, most_of, span, told, widened};
use super::{Rule, Terms, tally};
use crate::algorithm::segmented_window;
use crate::quota::{Quota, QuotaError};

#[derive(Debug)]
pub struct SegmentedWindow;

type Counters = segmented_window::Counters<u128>;

/// Returns the counters of a state. Returns `None` if nothing was ever admitted.
fn read(state: u128, terms: &Terms) -> Option<Counters> {
    let half = terms.count_bits / 2;
    let counts = state & ((1 << terms.count_bits) - 1);
    let segments = (state - counts) / terms.span;
    Some(Counters {
        start: segments.checked_sub(2)? * terms.span,
        // Half of the bits are less than 64.
        previous: (counts >> half) as u64,
        current: (counts & ((1 << half) - 1)) as u64,
    })
}

/// Returns what of a state counts at `now`.
fn read_at(state: u128, now: u128, terms: &Terms) -> Counters {
    let none = ending(0, 0, 0, terms);
    read(state, terms).unwrap_or(none).at(now, terms.span)
}

/// Returns the counters of a state, if the counted number is known.
fn read_exactly(state: u128, terms: &Terms) -> Option<Counters> {
    read(state, terms).filter(|counters| {
        let told = told_by(*counters, terms);
        counters.sum() <= terms.most || told.previous.max(told.current) < u64::MAX
    })
}

fn written(counters: Counters, terms: &Terms) -> u128 {
    let bits = terms.count_bits;
    let [previous, current] =
        [counters.previous, counters.current].map(|count| u128::from(count.min(most_of(bits / 2))));
    let end = end(counters, terms).div_ceil(1 << bits) << bits;
    (end | previous << (bits / 2) | current).min(MOST_STATE)
}

/// Returns counters that count until the first end of a segment that is not before `end`.
fn ending(end: u128, previous: u64, current: u64, terms: &Terms) -> Counters {
    Counters {
        start: end.div_ceil(terms.span).saturating_sub(2) * terms.span,
        previous,
        current,
    }
}

/// Returns when these counters no longer count.
fn end(counters: Counters, terms: &Terms) -> u128 {
    counters.start + 2 * terms.span
}

/// Returns what the counts mean in other terms than these.
fn told_by(counters: Counters, terms: &Terms) -> Counters {
    let told = |count| told(count, terms.count_bits / 2);
    Counters {
        previous: told(counters.previous),
        current: told(counters.current),
        ..counters
    }
}

/// Returns the number of bits for each count. Rounding an end up must not reach the next end.
fn room(window_ns: u64) -> u32 {
    (window_ns.ilog2() + TICK_BITS) / 2
}

fn window_ns(terms: &Terms) -> u64 {
    (terms.span >> TICK_BITS) as u64
}

impl SegmentedWindow {
    fn terms_of(limit: u64, scale: u64, window_ns: u64) -> Result<Terms, QuotaError> {
        let room = room(window_ns);
        let what = "the limit of a keyed segmented window as long as this";
        QuotaError::in_range(what, limit, 1, most_of(room))?;
        let half = count_digits(limit).min(room).max(TICK_BITS / 2);
        Ok(Terms {
            unit: 0,
            most: limit,
            scale,
            span: span(window_ns, 2 * half)?,
            count_bits: 2 * half,
            reading: Reading::of_table(0),
        })
    }
}

impl Rule for SegmentedWindow {
    type Quota = Quota;
    const FLOWS: bool = false;

    fn terms(quota: &Quota) -> Result<Terms, QuotaError> {
        let (limit, window_ns) = quota.window()?;
        Self::terms_of(limit, quota.scale(), window_ns)
    }

    fn is_sound(terms: &Terms) -> bool {
        are_of_window::<Self>(terms, Self::terms_of)
    }

    /// A state does not contain the length of its segments.
    fn goes_with(own: &Terms, table: &Terms) -> Result<(), QuotaError> {
        if own.span == table.span {
            return Ok(());
        }
        let [own_ns, ns] = [own, table].map(window_ns);
        let what = "the window of a key of this limiter, in nanoseconds,";
        Err(QuotaError::out_of_range(what, own_ns, ns, ns))
    }

    fn widened(new: Terms, old: &Terms) -> Terms {
        widened(new, old, 2 * room(window_ns(&new)))
    }

    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128> {
        read_at(state, now, terms)
            .take(now, n, terms.most, terms.span)
            .map(|counters| written(counters, terms))
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        terms.most.saturating_sub(read_at(state, now, terms).sum())
    }

    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128 {
        read_at(state, now, terms).idle_at(now, terms.span) - now
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        // Not as of now: an earlier time is still to find what came before the newest.
        let Some(counters) = read_exactly(state, terms) else {
            return (state, 0);
        };
        let counts_until = |passes: u128| now < counters.start + passes * terms.span;
        let current = match counts_until(2) {
            true => n.min(counters.current),
            false => 0,
        };
        let previous = match counts_until(1) {
            true => (n - current).min(counters.previous),
            false => 0,
        };
        let less = Counters {
            previous: counters.previous - previous,
            current: counters.current - current,
            ..counters
        };
        match current + previous {
            0 => (state, 0),
            n => (written(less, terms), n),
        }
    }

    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        // It counts during that segment and the next.
        let counts = now / terms.span <= then / terms.span + 1;
        read_exactly(state, terms)
            .filter(|_| counts)
            .and_then(|counters| counters.without(n, then, terms.span))
            .map_or(state, |less| written(less, terms))
    }

    /// The state is kept even if its segments have ended, because a decision at a stale time needs the count.
    fn restate(state: u128, from: &Terms, to: &Terms, _: u128) -> u128 {
        match read(state, from) {
            Some(counters) if from.count_bits != to.count_bits => {
                written(told_by(counters, from), to)
            }
            Some(_) => state,
            None => 0,
        }
    }

    fn begins(state: u128, terms: &Terms) -> u128 {
        read(state, terms).map_or(0, |counters| counters.start)
    }

    fn has_class(class: u16, table: &Terms) -> bool {
        let bits = u32::from(class);
        bits % 2 == 0 && (TICK_BITS..=2 * room(window_ns(table))).contains(&bits)
    }

    fn unknown_until(state: u128, free: u128, terms: &Terms) -> u128 {
        let known = read(state, terms).map_or(0, |counters| end(counters, terms));
        written(ending(free.max(known), 0, u64::MAX, terms), terms)
    }

    fn to_cell(state: u128, terms: &Terms) -> u64 {
        read(state, terms).map_or(0, |counters| {
            tally::pack(end(counters, terms), told_by(counters, terms).sum())
        })
    }

    fn from_cell(cell: u64, _: u128, terms: &Terms, _: &Terms) -> u128 {
        let sum = ending(tally::end(cell), 0, tally::count(cell), terms);
        written(sum, terms)
    }

    /// The segments are mapped to those of the other clock that do not end earlier.
    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128 {
        let counters = read_at(state, now, terms);
        if counters.sum() == 0 {
            return 0;
        }
        let then = then.saturating_add(end(counters, terms) - now);
        written(
            ending(then, counters.previous, counters.current, terms),
            terms,
        )
    }
}

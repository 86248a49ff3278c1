//! The segmented window of one segment: what was admitted in this segment and the one before is at most the limit, and so
//! what was admitted in any window.
//!
//! Segments are one window long, from the clock's origin on. The state is the end of the segment after the newest with
//! admissions, since they count until then, with the two counts in the low bits:
//!
//! ```text
//!   state  =  end of the next segment  +  units before  ·  2ᵏ  +  units
//!
//!        before        newest      counts still
//!   ├─────────────┼─────────────┼─────────────┤
//!                                             end
//! ```
//!
//! The end is rounded up to what leaves the low bits free, which is less than a segment, so that it still tells which
//! segment it is the end of.

use super::super::entry::{MOST_STATE, Reading, TICK_BITS};
use super::fixed_window::{are_of_window, count_digits, digits, most_of, span, told, widened};
use super::{Rule, Terms, tally};
use crate::quota::{Quota, QuotaError};

#[derive(Debug)]
pub struct SegmentedWindow;

/// What a state stands for, or what it comes to at a later time.
#[derive(Clone, Copy)]
struct Segments {
    /// The number of the newest.
    index: u128,
    before: u64,
    newest: u64,
}

impl Segments {
    /// What of `state` counts at `now`; a `now` before the newest segment counts as in it.
    fn at(state: u128, now: u128, terms: &Terms) -> Self {
        let segment = terms.span;
        let current = now / segment;
        let newest = Self::of(state, terms);
        match newest {
            Some(newest) if newest.index >= current => newest,
            Some(newest) if newest.index + 1 == current => Self {
                index: current,
                before: newest.newest,
                newest: 0,
            },
            _ => Self {
                index: current,
                before: 0,
                newest: 0,
            },
        }
    }

    fn of(state: u128, terms: &Terms) -> Option<Self> {
        let half = terms.count_bits / 2;
        let mask = (1_u128 << half) - 1;
        let counts = state & ((1 << terms.count_bits) - 1);
        let end = (state - counts) / terms.span;
        Some(Self {
            // None: nothing has ever been admitted.
            index: end.checked_sub(2)?,
            // Half of the bits are less than 64.
            before: (counts >> half) as u64,
            newest: (counts & mask) as u64,
        })
    }

    fn pack(self, terms: &Terms) -> u128 {
        let bits = terms.count_bits;
        let [before, newest] =
            [self.before, self.newest].map(|count| u128::from(count.min(most_of(bits / 2))));
        let end = ((self.index + 2) * terms.span).div_ceil(1 << bits) << bits;
        (end | before << (bits / 2) | newest).min(MOST_STATE)
    }

    /// With what the counts tell in other terms than these.
    fn told(self, terms: &Terms) -> Self {
        let [before, newest] =
            [self.before, self.newest].map(|count| told(count, terms.count_bits / 2));
        Self {
            before,
            newest,
            ..self
        }
    }

    /// Whether nobody knows how much more than all has been counted.
    fn is_beyond(self, terms: &Terms) -> bool {
        let told = self.told(terms);
        self.sum() > terms.most && told.before.max(told.newest) == u64::MAX
    }

    fn sum(self) -> u64 {
        self.before.saturating_add(self.newest)
    }
}

/// How many bits there are for each count: rounding an end up must not reach the next.
fn room(window_ns: u64) -> u32 {
    (window_ns.ilog2() + TICK_BITS) / 2
}

fn window_ns(terms: &Terms) -> u64 {
    (terms.span >> TICK_BITS) as u64
}

impl SegmentedWindow {
    fn terms_of(limit: u64, scale: u64, window_ns: u64) -> Result<Terms, QuotaError> {
        let room = room(window_ns);
        if digits(limit) > room {
            let most = (1 << room) - 1;
            return Err(QuotaError::out_of_range(
                "the limit of a keyed segmented window as long as this",
                limit,
                1,
                most,
            ));
        }
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

    /// A state does not tell how long its segments are.
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
        let segments = Segments::at(state, now, terms);
        if segments.sum().saturating_add(n) <= terms.most {
            let newest = segments.newest + n;
            return Ok(Segments { newest, ..segments }.pack(terms));
        }
        // With the next segment, what is before the newest no longer counts; with the one after that, nothing does.
        let passes = if segments.newest.saturating_add(n) <= terms.most {
            1
        } else {
            2
        };
        Err((segments.index + passes) * terms.span - now)
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        terms
            .most
            .saturating_sub(Segments::at(state, now, terms).sum())
    }

    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128 {
        let segments = Segments::at(state, now, terms);
        let passes = match segments {
            Segments { newest: 1.., .. } => 2,
            Segments { before: 1.., .. } => 1,
            _ => return 0,
        };
        (segments.index + passes) * terms.span - now
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        // Not as of now: an earlier time is still to find what came before the newest.
        let known = Segments::of(state, terms).filter(|known| !known.is_beyond(terms));
        let Some(segments) = known else {
            return (state, 0);
        };
        let current = now / terms.span;
        let newest = match segments.index + 1 >= current {
            true => n.min(segments.newest),
            false => 0,
        };
        let before = match segments.index >= current {
            true => (n - newest).min(segments.before),
            false => 0,
        };
        let less = Segments {
            newest: segments.newest - newest,
            before: segments.before - before,
            ..segments
        };
        match newest + before {
            0 => (state, 0),
            n => (less.pack(terms), n),
        }
    }

    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        let known = Segments::of(state, terms).filter(|known| !known.is_beyond(terms));
        let Some(segments) = known else {
            return state;
        };
        let [then, now] = [then, now].map(|at| at / terms.span);
        let less = match segments.index {
            index if index == then && index + 1 >= now => Segments {
                newest: segments.newest.saturating_sub(n),
                ..segments
            },
            index if index == then + 1 && index >= now => Segments {
                before: segments.before.saturating_sub(n),
                ..segments
            },
            _ => return state,
        };
        less.pack(terms)
    }

    /// Over or not: a stale time is to find what was counted.
    fn restate(state: u128, from: &Terms, to: &Terms, _: u128) -> u128 {
        match Segments::of(state, from) {
            Some(segments) if from.count_bits != to.count_bits => segments.told(from).pack(to),
            Some(_) => state,
            None => 0,
        }
    }

    fn begins(state: u128, terms: &Terms) -> u128 {
        Segments::of(state, terms).map_or(0, |segments| segments.index * terms.span)
    }

    fn has_class(class: u16, table: &Terms) -> bool {
        let bits = u32::from(class);
        bits % 2 == 0 && (TICK_BITS..=2 * room(window_ns(table))).contains(&bits)
    }

    fn unknown_until(state: u128, free: u128, terms: &Terms) -> u128 {
        let index = free.div_ceil(terms.span).saturating_sub(2);
        let known = Segments::of(state, terms).map_or(0, |segments| segments.index);
        let all = Segments {
            index: index.max(known),
            before: 0,
            newest: u64::MAX,
        };
        all.pack(terms)
    }

    fn to_cell(state: u128, terms: &Terms) -> u64 {
        match Segments::of(state, terms) {
            Some(segments) => {
                let end = (segments.index + 2) * terms.span;
                tally::pack(end, segments.told(terms).sum())
            }
            None => 0,
        }
    }

    fn from_cell(cell: u64, _: u128, terms: &Terms, _: &Terms) -> u128 {
        let sum = Segments {
            index: (tally::end(cell).div_ceil(terms.span)).saturating_sub(2),
            before: 0,
            newest: tally::count(cell),
        };
        sum.pack(terms)
    }

    /// To segments of the other clock that do not end earlier.
    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128 {
        let segments = Segments::at(state, now, terms);
        if segments.sum() == 0 {
            return 0;
        }
        let left = (segments.index + 2) * terms.span - now;
        let index = then.saturating_add(left).div_ceil(terms.span) - 2;
        Segments { index, ..segments }.pack(terms)
    }
}

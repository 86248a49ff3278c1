//! Two token buckets that are decided together; see [`algorithm::dual_token_bucket`](crate::algorithm::dual_token_bucket).
//!
//! # Where each quota's state lives
//!
//! Each bucket has an arrival time: the instant at which it is full again. A state holds both. The bucket that takes longer to fill
//! is the *long* one, and the other is the *short* one. Each arrival time is a whole number of grains. A grain of the long bucket
//! has 2ᵏ ticks, and one of the short bucket has 2ʲ, with j ≤ k.
//!
//! ```text
//!  76                             k   k-1   k-2                      0
//! ┌─────────────────────────────────┬───────┬────────────────────────┐
//! │ the later arrival time, in long │ which │  how much earlier the  │
//! │ grains, rounded up              │       │  other one is          │
//! └─────────────────────────────────┴───────┴────────────────────────┘
//! ```
//!
//! - `which` = 0: the long bucket's time is the later one, and exact. The low bits hold the distance to the short one's, in short
//!   grains.
//! - `which` = 1: the short bucket's time is the later one. The low bits hold the distance to the long one's in long grains. The
//!   lowest k - j of them hold what rounding up has added to the short one's, in short grains.
//!
//! As a number, a state is therefore an instant at which the entry expires, up to one long grain late. No grant leaves the two
//! times farther apart than the long bucket takes to fill. The low bits have to hold that time in short grains.
//!
//! # Rounding
//!
//! A full bucket begins at the first grain from now on, which is up to a grain late. A request that takes the whole burst in one
//! instant must still be granted. A bucket is therefore one grain deeper than its burst, and each unit costs at least one grain
//! more than its price. The first unit after the burst repays that grain, so the bound of the exact bucket is kept:
//!
//! ```text
//!   n > burst units in a time t:    t ≥ (n − burst) · (price + grain) − grain  ≥  (n − burst) · price
//! ```
//!
//! Units then come back more slowly than the quota allows, by less than two grains for each price. [`Layout::best`] chooses k and j
//! so that the larger of both errors is minimal. It refuses a pair whose error is more than 1/[`LEAST_SHARE`]. A grain of up to a
//! nanosecond needs none of this, because each instant is a whole number of such grains.
//!
//! # In the sketch
//!
//! A cell has the same parts in 63 bits, with grains that are 2⁷ times as long, and a bit for the parity of the generation.

use super::super::entry::{MOST_STATE, Reading, TICKS_PER_NS};
use super::side::{Side, rounded_up, slack};
use super::terms::MOST_SPAN;
use super::{Change, Rule, Terms};
use crate::quota::{Quota, QuotaError, Quotas};

/// A unit costs more than its quota allows by at most one part in this number.
pub(super) const LEAST_SHARE: u128 = 64;

/// The grains of a cell are this power of two times as long as those of a state.
const COARSER: u32 = 7;
const CELL_BITS: u32 = 63;
const PARITY: u64 = 1 << CELL_BITS;
const STATE_BITS: u32 = u128::BITS - MOST_STATE.leading_zeros();

/// A long grain leaves a cell a bit for the distance, and is small compared with the largest instant.
const LONG_BITS: core::ops::RangeInclusive<u32> = COARSER + 2..=66;

/// Shorter grains leave no room for any distance.
const LEAST_SHORT_BITS: u32 = COARSER + 3;

#[derive(Debug)]
pub struct Dual;

/// The arrival times, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    long: u128,
    short: u128,
}

/// The lengths of the grains, as powers of two of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    long: u32,
    short: u32,
    /// Whether the long bucket belongs to the second quota.
    is_swapped: bool,
}

/// How the two times share `bits` bits.
#[derive(Clone, Copy)]
struct Packing {
    long: u32,
    short: u32,
    /// The number of bits that do not belong to the later time.
    low: u32,
    bits: u32,
}

/// A quota in ticks, as the caller has set it.
#[derive(Clone, Copy)]
struct Asked {
    /// `units` units cost `ticks` ticks.
    ticks: u128,
    units: u128,
    burst: u64,
}

impl Asked {
    fn new(quota: &Quota) -> Self {
        let ratio = quota.ratio();
        Self {
            ticks: u128::from(ratio.nanos) * u128::from(TICKS_PER_NS),
            units: ratio.units.into(),
            burst: quota.burst_units(),
        }
    }

    /// Returns the time that an empty bucket takes to fill, or [`u128::MAX`] if that is more.
    fn span(&self) -> u128 {
        let unit = self.ticks.div_ceil(self.units);
        unit.saturating_mul(self.burst.into())
    }

    /// Returns the bucket, or `None` if its depth is more than an instant can hold.
    fn side(&self, grain: u32) -> Option<Side> {
        let unit = (self.ticks.div_ceil(self.units << grain) << grain) + slack(grain);
        let depth = unit.checked_mul(self.burst.into())?;
        (depth <= MOST_SPAN).then_some(Side {
            unit,
            depth: depth + slack(grain),
            grain,
        })
    }

    /// Returns by what part of 2³² a unit of `side` costs more than it should. Returns `None` if that is too much.
    fn error(&self, side: &Side) -> Option<u128> {
        let excess = (side.unit * self.units).checked_sub(self.ticks)?;
        (excess <= self.ticks / LEAST_SHARE).then(|| (excess << 32) / self.ticks)
    }
}

impl Pair {
    fn each(self, other: Self, choose: impl Fn(u128, u128) -> u128) -> Self {
        Self {
            long: choose(self.long, other.long),
            short: choose(self.short, other.short),
        }
    }

    fn max(self, other: Self) -> Self {
        self.each(other, Ord::max)
    }

    /// Returns the later of both times.
    fn last(self) -> u128 {
        self.long.max(self.short)
    }

    /// Applies `change` to each bucket's time.
    fn map(self, terms: &Terms, change: impl Fn(&Side, u128) -> u128) -> Self {
        let [long, short] = sides(terms);
        Self {
            long: change(&long, self.long),
            short: change(&short, self.short),
        }
    }

    /// Returns the times in terms `to` instead of `from`, as of `at`. Each quota's debt is restated by itself.
    fn restated(self, from: &Terms, to: &Terms, at: u128) -> Self {
        let (old, new) = (sides(from), sides(to));
        let is_turned = Layout::of(from).is_swapped != Layout::of(to).is_swapped;
        let (old, times) = match is_turned {
            true => ([old[1], old[0]], [self.short, self.long]),
            false => (old, [self.long, self.short]),
        };
        Self {
            long: new[0].restated(&old[0], times[0], at),
            short: new[1].restated(&old[1], times[1], at),
        }
    }
}

impl Layout {
    /// Returns the layout of these terms.
    const fn of(terms: &Terms) -> Self {
        Self {
            long: terms.count_bits & 0xff,
            short: terms.count_bits >> 8 & 0xff,
            is_swapped: terms.count_bits >> 16 & 1 != 0,
        }
    }

    fn number(self) -> u32 {
        self.long | self.short << 8 | u32::from(self.is_swapped) << 16
    }

    /// Returns whether a cell can hold the times of buckets with these depths. A state can then hold them too.
    fn holds(&self, long: u128, short: u128) -> bool {
        if !LONG_BITS.contains(&self.long) || self.short > self.long {
            return false;
        }
        // The times are rounded up, and read up to a grain later.
        let room = 2 << (self.long + COARSER);
        let most = (1 << (self.long - COARSER - 1)) - 1;
        let fits = |depth: u128, grain: u32| depth >> grain <= u64::MAX.into();
        long.max(short) <= MOST_SPAN - room
            && (long.max(short) + room) >> (self.short + COARSER) < most
            && fits(long, self.long)
            && fits(short, self.short)
    }

    /// Returns the layout in which the larger error is minimal. Returns `None` if it is too large in each layout.
    fn best(long: &Asked, short: &Asked) -> Option<(Self, [Side; 2])> {
        let mut best: Option<(u128, Self, [Side; 2])> = None;
        for long_bits in LONG_BITS {
            let Some(long_side) = long.side(long_bits) else {
                continue;
            };
            let fitting = (LEAST_SHORT_BITS..=long_bits).find_map(|short_bits| {
                let layout = Self {
                    long: long_bits,
                    short: short_bits,
                    is_swapped: false,
                };
                let short_side = short.side(short_bits)?;
                layout
                    .holds(long_side.depth, short_side.depth)
                    .then_some((layout, short_side))
            });
            let Some((layout, short_side)) = fitting else {
                continue;
            };
            let errors = long.error(&long_side).zip(short.error(&short_side));
            if let Some((one, other)) = errors
                && best.is_none_or(|(least, ..)| one.max(other) < least)
            {
                best = Some((one.max(other), layout, [long_side, short_side]));
            }
        }
        best.map(|(_, layout, sides)| (layout, sides))
    }

    fn in_state(self) -> Packing {
        Packing {
            long: self.long,
            short: self.short,
            low: self.long,
            bits: STATE_BITS,
        }
    }

    fn in_cell(self) -> Packing {
        Packing {
            long: self.long + COARSER,
            short: self.short + COARSER,
            low: self.long - COARSER,
            bits: CELL_BITS,
        }
    }
}

impl Packing {
    #[inline]
    fn unpack(&self, word: u128) -> Pair {
        let later = word >> self.low << self.long;
        let distance = word & ((1 << (self.low - 1)) - 1);
        let earlier = |grains: u128, bits: u32| later.saturating_sub(grains << bits);
        if word >> (self.low - 1) & 1 == 0 {
            return Pair {
                long: later,
                short: earlier(distance, self.short),
            };
        }
        let part = self.long - self.short;
        Pair {
            long: earlier(distance >> part, self.long),
            short: earlier(distance & ((1 << part) - 1), self.short),
        }
    }

    /// Returns the times, rounded up. A time that is too far before the other one is replaced by the first that fits.
    #[inline]
    fn pack(&self, pair: Pair) -> u128 {
        let (long, short) = (
            rounded_up(pair.long.min(MOST_STATE), self.long),
            rounded_up(pair.short.min(MOST_STATE), self.short),
        );
        let most = (1 << (self.low - 1)) - 1;
        let (later, which, distance) = if long >= short {
            (long, 0, ((long - short) >> self.short).min(most))
        } else {
            let later = rounded_up(short, self.long);
            let part = self.long - self.short;
            let distance = ((later - long) >> self.long).min(most >> part);
            (later, 1, distance << part | (later - short) >> self.short)
        };
        let later = (later >> self.long).min((1 << (self.bits - self.low)) - 1);
        later << self.low | which << (self.low - 1) | distance
    }
}

/// Returns the long bucket and the short one.
#[inline]
fn sides(terms: &Terms) -> [Side; 2] {
    let layout = Layout::of(terms);
    let side = |at: u32, grain: u32| {
        let grains = |number: u128| u128::from((number >> at) as u64) << grain;
        Side {
            unit: grains(terms.unit),
            depth: grains(terms.span),
            grain,
        }
    };
    [side(0, layout.long), side(64, layout.short)]
}

fn terms_of(layout: Layout, [long, short]: [Side; 2], most: u64, scale: u64) -> Terms {
    let both = |long_ticks: u128, short_ticks: u128| {
        long_ticks >> layout.long | short_ticks >> layout.short << 64
    };
    Terms {
        unit: both(long.unit, short.unit),
        most,
        scale,
        span: both(long.depth, short.depth),
        count_bits: layout.number(),
        reading: Reading::of_table(0),
    }
}

#[inline]
fn read(state: u128, terms: &Terms) -> Pair {
    Layout::of(terms).in_state().unpack(state)
}

#[inline]
fn written(pair: Pair, terms: &Terms) -> u128 {
    Layout::of(terms).in_state().pack(pair)
}

fn read_cell(cell: u64, terms: &Terms) -> Pair {
    let times = u128::from(cell & !PARITY);
    Layout::of(terms).in_cell().unpack(times)
}

/// Returns the cell of both times; 0 if both buckets are full.
fn written_cell(pair: Pair, terms: &Terms) -> u64 {
    match pair.last() {
        0 => 0,
        // 63 bits.
        _ => parity(terms) | Layout::of(terms).in_cell().pack(pair) as u64,
    }
}

fn parity(terms: &Terms) -> u64 {
    PARITY * u64::from(terms.reading.is_odd())
}

/// Returns the times after `n` more units, and how many ticks each bucket lacks for them.
#[inline]
fn after(state: u128, now: u128, n: u64, terms: &Terms) -> (Pair, Pair) {
    let [long, short] = sides(terms);
    let before = read(state, terms);
    let after = Pair {
        long: long.after(before.long, now, n.into()),
        short: short.after(before.short, now, n.into()),
    };
    let missing = Pair {
        long: after.long.saturating_sub(now + long.depth),
        short: after.short.saturating_sub(now + short.depth),
    };
    (after, missing)
}

/// Returns the quotas, first the one that takes longer to fill, and whether that is the second one.
fn in_order(quotas: &Quotas) -> ([Quota; 2], bool) {
    // One quota is the same as that quota twice.
    let (first, second) = match quotas.as_slice() {
        [first, second, ..] => (*first, *second),
        [first] => (*first, *first),
        [] => unreachable!("there is always one"),
    };
    match Asked::new(&second).span() > Asked::new(&first).span() {
        true => ([second, first], true),
        false => ([first, second], false),
    }
}

/// Returns the largest burst, less than its current burst, with which `long` fits beside `short`; 0 if there is none.
fn greatest_burst(long: &Quota, short: &Quota) -> u64 {
    let fits = |tokens: u64| {
        let quota = long.try_burst(tokens).ok()?;
        // With this burst, it may be the short one.
        let pair = Quotas::two(quota, *short).ok()?;
        let ([long, short], _) = in_order(&pair);
        Layout::best(&Asked::new(&long), &Asked::new(&short))
    };
    let (mut known, mut too_many) = (0, long.max_burst());
    while known + 1 < too_many {
        let tokens = known + (too_many - known) / 2;
        match fits(tokens) {
            Some(_) => known = tokens,
            None => too_many = tokens,
        }
    }
    known
}

/// The largest rate, in units per second, that fits with a burst of 1 beside any other such quota.
const MOST_PER_SECOND: u64 = 10_000_000;

/// Returns why two quotas do not fit.
fn too_large([long, short]: &[Quota; 2]) -> QuotaError {
    let with_burst_of_1 = |quota: &Quota| quota.try_burst(1).unwrap_or(*quota);
    let most = match greatest_burst(long, short) {
        0 => greatest_burst(long, &with_burst_of_1(short)),
        most => most,
    };
    if most > 0 {
        let what = "the burst of one of two quotas of a keyed limiter, at these rates,";
        return QuotaError::out_of_range(what, long.max_burst(), 1, most);
    }
    let per_second = |quota: &Quota| {
        let ratio = quota.ratio();
        let rate = u128::from(ratio.units) * 1_000_000_000 / u128::from(ratio.nanos);
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    let rate = per_second(long).max(per_second(short));
    let what = "the rate of one of two quotas of a keyed limiter, in units per second,";
    QuotaError::out_of_range(what, rate, 1, MOST_PER_SECOND)
}

impl Rule for Dual {
    type Quota = Quotas;
    const FLOWS: bool = true;

    fn terms(quotas: &Quotas) -> Result<Terms, QuotaError> {
        let (in_order, is_swapped) = in_order(quotas);
        let [long, short] = in_order.map(|quota| Asked::new(&quota));
        let (layout, sides) = Layout::best(&long, &short).ok_or_else(|| too_large(&in_order))?;
        let layout = Layout {
            is_swapped,
            ..layout
        };
        let most = long.burst.min(short.burst);
        Ok(terms_of(layout, sides, most, in_order[0].scale()))
    }

    fn is_sound(terms: &Terms) -> bool {
        let layout = Layout::of(terms);
        if !LONG_BITS.contains(&layout.long) || layout.short > layout.long {
            return false;
        }
        let [long, short] = sides(terms);
        let is_fillable = |side: &Side| {
            let burst = side.unit.checked_mul(terms.most.into());
            side.unit > 0
                && burst
                    .is_some_and(|burst| burst <= side.depth - slack(side.grain).min(side.depth))
        };
        terms.most > 0
            && layout.number() == terms.count_bits
            && layout.holds(long.depth, short.depth)
            && is_fillable(&long)
            && is_fillable(&short)
    }

    #[inline]
    fn take(state: u128, now: u128, n: u64, terms: &Terms) -> Result<u128, u128> {
        let (after, missing) = after(state, now, n, terms);
        match missing.last() {
            0 => Ok(written(after, terms)),
            missing => Err(missing),
        }
    }

    fn refused_by(state: u128, now: u128, n: u64, terms: &Terms) -> Option<usize> {
        let (_, missing) = after(state, now, n, terms);
        let is_short = missing.short > missing.long;
        let quota = usize::from(is_short != Layout::of(terms).is_swapped);
        (missing.last() > 0).then_some(quota)
    }

    fn by_quota(index: usize, state: u128, now: u128, n: u64, terms: &Terms) -> (u64, u128) {
        let [long, short] = sides(terms);
        let pair = read(state, terms);
        let is_short = (index == 1) != Layout::of(terms).is_swapped;
        let (side, time) = match is_short {
            true => (short, pair.short),
            false => (long, pair.long),
        };
        let left = u64::try_from(side.left(time, now)).unwrap_or(u64::MAX);
        let after = side.after(time, now, n.into());
        (left, after.saturating_sub(now + side.depth))
    }

    fn smallest(terms: &Terms) -> Option<usize> {
        let burst = |side: Side| (side.depth - slack(side.grain)) / side.unit;
        let [long, short] = sides(terms).map(burst);
        let is_short = match long == short {
            // If both bursts are equal, it is the first quota.
            true => Layout::of(terms).is_swapped,
            false => short < long,
        };
        Some(usize::from(is_short != Layout::of(terms).is_swapped))
    }

    /// The debt before the change is not known to the unit, so nothing is granted until the change.
    fn take_before(state: u128, now: u128, n: u64, change: &Change) -> Result<u128, u128> {
        let then = Self::take(state, change.at, n, &change.to);
        Err(change.at - now + then.err().unwrap_or(0))
    }

    fn left(state: u128, now: u128, terms: &Terms) -> u64 {
        let [long, short] = sides(terms);
        let pair = read(state, terms);
        let left = long.left(pair.long, now).min(short.left(pair.short, now));
        left.min(terms.most.into()) as u64
    }

    fn left_before(_: u128, _: u128, _: &Change) -> u64 {
        0
    }

    fn whole_after(state: u128, now: u128, terms: &Terms) -> u128 {
        Self::take(state, now, terms.most, terms).err().unwrap_or(0)
    }

    fn give_back(state: u128, now: u128, n: u64, terms: &Terms) -> (u128, u64) {
        let [long, short] = sides(terms);
        let pair = read(state, terms);
        let (long, in_long) = long.give_back(pair.long, now, n);
        let (short, in_short) = short.give_back(pair.short, now, n);
        match in_long.max(in_short) {
            0 => (state, 0),
            n => (written(Pair { long, short }, terms), n),
        }
    }

    /// Each bucket may have been full except for these units.
    fn take_back(state: u128, then: u128, now: u128, n: u64, terms: &Terms) -> u128 {
        let less = read(state, terms).map(terms, |side, time| side.take_back(time, then, now, n));
        written(less, terms)
    }

    fn restate(state: u128, from: &Terms, to: &Terms, at: u128) -> u128 {
        match state {
            0 => 0,
            _ => written(read(state, from).restated(from, to, at), to),
        }
    }

    fn later(one: u128, other: u128, terms: &Terms) -> u128 {
        written(read(one, terms).max(read(other, terms)), terms)
    }

    fn behind(state: u128, now: u128, ahead: u128, terms: &Terms) -> u128 {
        if ahead == 0 {
            return state;
        }
        let after = read(state, terms).map(terms, |side, time| side.after(time, now, ahead));
        written(after, terms)
    }

    /// Keys of such a table have no per-key terms.
    fn has_class(_: u16, _: &Terms) -> bool {
        false
    }

    fn unknown_until(state: u128, free: u128, terms: &Terms) -> u128 {
        let both = Pair {
            long: free,
            short: free,
        };
        written(read(state, terms).max(both), terms)
    }

    fn to_cell(state: u128, terms: &Terms) -> u64 {
        written_cell(read(state, terms), terms)
    }

    fn free_at(cell: u64, table: &Terms) -> u128 {
        read_cell(cell, table).last()
    }

    fn is_current(cell: u64, table: &Terms) -> bool {
        cell == 0 || cell & PARITY == parity(table)
    }

    fn updated(cell: u64, change: &Change, newest: u128) -> u64 {
        let Change { from, to, at } = change;
        if Self::is_current(cell, to) {
            return cell;
        }
        let pair = read_cell(cell, from);
        let restated = |at| pair.restated(from, to, at);
        written_cell(restated(*at).max(restated(newest.max(*at))), to)
    }

    fn join(one: u64, other: u64, table: &Terms) -> u64 {
        let [one, other] = [one, other].map(|cell| read_cell(cell, table));
        written_cell(one.max(other), table)
    }

    fn meet(one: u64, other: u64, table: &Terms) -> u64 {
        let [one, other] = [one, other].map(|cell| read_cell(cell, table));
        written_cell(one.each(other, Ord::min), table)
    }

    fn from_cell(cell: u64, _: u128, terms: &Terms, table: &Terms) -> u128 {
        written(read_cell(cell, table), terms)
    }

    fn carry(state: u128, now: u128, then: u128, terms: &Terms) -> u128 {
        let pair = read(state, terms).map(terms, |side, time| side.carried(time, now, then));
        written(pair, terms)
    }

    fn carry_cell(cell: u64, now: u128, then: u128, terms: &Terms) -> u64 {
        let pair = read_cell(cell, terms).map(terms, |side, time| side.carried(time, now, then));
        let carried = written_cell(pair, terms) & !PARITY;
        match carried {
            0 => 0,
            carried => carried | cell & PARITY,
        }
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;

//! What a limit implies for any kind of window: pairs of times, one limit of admissions apart. Some pairs must not fit
//! into one window; others must.

use std::ops::RangeInclusive;

use crate::evidence::Evidence;

/// Number of pairs counted between two checks against `most`.
const CHUNK: usize = 256;

/// Two times in nanoseconds; the earlier one comes first if both are certain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) first: f64,
    pub(crate) last: f64,
}

impl Pair {
    fn length(&self) -> f64 {
        self.last - self.first
    }
}

/// What the responses imply for one limit.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    /// An admission, and the admission one limit later: not in one window.
    apart: Vec<Pair>,
    /// The admission one limit before a refusal, and the refusal: in one window.
    together: Vec<Pair>,
    /// Refusals after fewer admissions than the limit.
    alone: u64,
}

impl Pairs {
    /// Collects the pairs for `limit`, at least 1.
    pub(crate) fn of(limit: usize, evidence: &Evidence) -> Self {
        let surely = &evidence.surely;
        let apart = surely.iter().zip(surely.iter().skip(limit));
        let apart = apart.map(|(first, last)| Pair {
            first: first.from,
            last: last.to,
        });
        let possibly = &evidence.possibly;
        let (mut together, mut alone) = (Vec::with_capacity(evidence.refused.len()), 0);
        let mut before = 0_usize;
        for refused in &evidence.refused {
            while possibly
                .get(before)
                .is_some_and(|span| span.from <= refused.to)
            {
                before += 1;
            }
            match before.checked_sub(limit) {
                Some(oldest) => together.push(Pair {
                    first: possibly[oldest].to,
                    last: refused.from,
                }),
                None => alone += 1,
            }
        }
        Self {
            apart: apart.collect(),
            together,
            alone,
        }
    }

    /// Returns the maximum window length for each admission to be right.
    pub(crate) fn at_most(&self) -> impl Iterator<Item = f64> {
        self.apart.iter().map(Pair::length)
    }

    /// Returns the minimum window length for each refusal to be right.
    pub(crate) fn at_least(&self) -> impl Iterator<Item = f64> {
        let alone = std::iter::repeat_n(f64::INFINITY, self.alone as usize);
        let together = self.together.iter().map(Pair::length);
        alone.chain(together)
    }

    /// Counts the admissions beyond the limit. `are_in_one` decides which pairs one window holds.
    pub(crate) fn over(&self, are_in_one: impl Fn(&Pair) -> bool) -> u64 {
        self.apart.iter().filter(|pair| are_in_one(pair)).count() as u64
    }

    /// Passes to `each` whether a refusal can be right.
    pub(crate) fn judge_refusals(
        &self,
        are_in_one: impl Fn(&Pair) -> bool,
        mut each: impl FnMut(bool),
    ) {
        for _ in 0..self.alone {
            each(false);
        }
        for pair in &self.together {
            each(are_in_one(pair));
        }
    }

    /// Sorts the pairs, for searches over many windows.
    pub(crate) fn by_length(mut self) -> PairsByLength {
        for pairs in [&mut self.apart, &mut self.together] {
            pairs.sort_by(|a, b| a.length().total_cmp(&b.length()));
        }
        PairsByLength(self)
    }
}

/// The same pairs, in the order of their lengths.
#[derive(Clone, Debug)]
pub(crate) struct PairsByLength(Pairs);

impl PairsByLength {
    /// Counts the admissions beyond the limit. One window holds all pairs that are shorter than `open`, and none that is
    /// longer. `are_in_one` decides about the others. Stops early beyond `most`.
    pub(crate) fn over(
        &self,
        most: u64,
        open: &RangeInclusive<f64>,
        are_in_one: impl Fn(&Pair) -> bool,
    ) -> u64 {
        let (shorter, others, _) = parts(&self.0.apart, open);
        count(shorter.len() as u64, others, most, are_in_one)
    }

    /// Counts the refusals before the limit was reached, in the same way.
    pub(crate) fn wasted(
        &self,
        most: u64,
        open: &RangeInclusive<f64>,
        are_in_one: impl Fn(&Pair) -> bool,
    ) -> u64 {
        let (_, others, longer) = parts(&self.0.together, open);
        let certain = self.0.alone + longer.len() as u64;
        count(certain, others, most, |pair| !are_in_one(pair))
    }
}

/// Splits sorted pairs into those shorter than `open`, those within it, and those longer.
fn parts<'a>(
    pairs: &'a [Pair],
    open: &RangeInclusive<f64>,
) -> (&'a [Pair], &'a [Pair], &'a [Pair]) {
    let (others, longer) =
        pairs.split_at(pairs.partition_point(|pair| pair.length() <= *open.end()));
    let (shorter, others) =
        others.split_at(others.partition_point(|pair| pair.length() < *open.start()));
    (shorter, others, longer)
}

/// Adds to `count` the pairs for which `is_counted`. Stops early beyond `most`.
fn count(mut count: u64, pairs: &[Pair], most: u64, is_counted: impl Fn(&Pair) -> bool) -> u64 {
    for chunk in pairs.chunks(CHUNK) {
        if count > most {
            break;
        }
        count += chunk.iter().filter(|pair| is_counted(pair)).count() as u64;
    }
    count
}

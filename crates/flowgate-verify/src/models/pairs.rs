//! What a limit implies for any kind of window: pairs of times, one limit of admissions apart. Some pairs must not fit
//! into one window; others must.

use crate::evidence::Evidence;

/// Number of pairs counted between two checks against `most`.
const CHUNK: usize = 256;

/// Two times in nanoseconds; the earlier one comes first if both are certain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) first: f64,
    pub(crate) last: f64,
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
        self.apart.iter().map(|pair| pair.last - pair.first)
    }

    /// Returns the minimum window length for each refusal to be right.
    pub(crate) fn at_least(&self) -> impl Iterator<Item = f64> {
        let alone = std::iter::repeat_n(f64::INFINITY, self.alone as usize);
        let together = self.together.iter().map(|pair| pair.last - pair.first);
        alone.chain(together)
    }

    /// Counts the admissions beyond the limit. `are_in_one` decides which pairs one window holds. Stops early beyond
    /// `most`.
    pub(crate) fn over(&self, most: u64, are_in_one: impl Fn(&Pair) -> bool) -> u64 {
        count(&self.apart, most, are_in_one)
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

    /// Counts the refusals before the limit was reached. Stops early beyond `most`.
    pub(crate) fn wasted(&self, most: u64, are_in_one: impl Fn(&Pair) -> bool) -> u64 {
        let left = most.saturating_sub(self.alone);
        self.alone + count(&self.together, left, |pair| !are_in_one(pair))
    }
}

fn count(pairs: &[Pair], most: u64, is_counted: impl Fn(&Pair) -> bool) -> u64 {
    let mut count = 0;
    for chunk in pairs.chunks(CHUNK) {
        count += chunk.iter().filter(|pair| is_counted(pair)).count() as u64;
        if count > most {
            break;
        }
    }
    count
}

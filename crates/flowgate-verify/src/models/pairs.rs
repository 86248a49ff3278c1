//! What a limit says of answers, whatever windows it is kept in: pairs of times, a limit of admissions from one to the
//! other, that no window may hold, or one has to.

use crate::evidence::Evidence;

/// So many are counted between two looks at whether it is too many.
const CHUNK: usize = 256;

/// Two times in nanoseconds, the earlier one first if they are certain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) first: f64,
    pub(crate) last: f64,
}

/// What answers say of one limit.
#[derive(Clone, Debug)]
pub(crate) struct Pairs {
    /// An admission, and the one a limit later: not in one window.
    apart: Vec<Pair>,
    /// The admission that is a limit before a refusal, and the refusal: in one window.
    together: Vec<Pair>,
    /// Refusals after fewer admissions than that.
    alone: u64,
}

impl Pairs {
    /// `limit` is at least 1.
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

    /// What a window may be at most for each admission to be right.
    pub(crate) fn at_most(&self) -> impl Iterator<Item = f64> {
        self.apart.iter().map(|pair| pair.last - pair.first)
    }

    /// What a window has to be at least for each refusal to be right.
    pub(crate) fn at_least(&self) -> impl Iterator<Item = f64> {
        let alone = std::iter::repeat_n(f64::INFINITY, self.alone as usize);
        let together = self.together.iter().map(|pair| pair.last - pair.first);
        alone.chain(together)
    }

    /// Admissions beyond the limit, if `are_in_one` says which pairs one window holds. If these are more than `most`,
    /// something that is more.
    pub(crate) fn over(&self, most: u64, are_in_one: impl Fn(&Pair) -> bool) -> u64 {
        count(&self.apart, most, are_in_one)
    }

    /// Refusals before the limit was reached; the same.
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

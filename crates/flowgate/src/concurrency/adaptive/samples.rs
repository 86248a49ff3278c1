//! The samples of the current window, in one word.

use crate::primitive::{AtomicU128, Ordering, const_unless_loom};

/// Longer calls are not counted: a clock that jumped explains them better. An hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

const COUNT_BITS: u32 = 24;
const COUNT_MOST: u128 = (1 << COUNT_BITS) - 1;
const OVERLOADS_SHIFT: u32 = COUNT_BITS;
const SUM_SHIFT: u32 = 2 * COUNT_BITS;

/// Counts of calls that ended, and the sum of their latencies.
///
/// One word, so that a window takes all of its samples in one exchange, and none is lost or counted twice.
#[derive(Debug)]
pub(super) struct Samples {
    /// ```text
    ///   127                     48 47          24 23          0
    ///  ├── sum of latencies, ns ──┼── overloads ──┼── successes ─┤
    /// ```
    ///
    /// The sum does not overflow: 2²⁴ latencies of an hour are below 2⁶⁶ ns. A count that is full takes no more samples.
    word: AtomicU128,
}

/// The samples at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) successes: u64,
    pub(super) overloads: u64,
    pub(super) sum_ns: u128,
}

impl Samples {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self { word: AtomicU128::new(0) }
        }
    }

    /// Counts a success after `latency_ns`.
    pub(super) fn add_success(&self, latency_ns: u64) {
        if latency_ns <= LONGEST_NS {
            self.update(|word| match word & COUNT_MOST {
                COUNT_MOST => word,
                _ => word + 1 + (u128::from(latency_ns) << SUM_SHIFT),
            });
        }
    }

    /// Counts an overload.
    pub(super) fn add_overload(&self) {
        self.update(|word| match (word >> OVERLOADS_SHIFT) & COUNT_MOST {
            COUNT_MOST => word,
            _ => word + (1 << OVERLOADS_SHIFT),
        });
    }

    pub(super) fn seen(&self) -> Counted {
        Counted::of(self.word.load(Ordering::Relaxed))
    }

    /// Takes all samples out.
    pub(super) fn take(&self) -> Counted {
        Counted::of(self.update(|_| 0))
    }

    /// Returns what there was before. The word alone is shared, so it orders nothing else.
    fn update(&self, next: impl Fn(u128) -> u128) -> u128 {
        let next = |word| Some(next(word));
        let (Ok(before) | Err(before)) =
            self.word
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        before
    }
}

impl Counted {
    fn of(word: u128) -> Self {
        Self {
            successes: (word & COUNT_MOST) as u64,
            overloads: ((word >> OVERLOADS_SHIFT) & COUNT_MOST) as u64,
            sum_ns: word >> SUM_SHIFT,
        }
    }

    pub(super) fn outcomes(&self) -> u64 {
        self.successes + self.overloads
    }

    /// The mean latency, at most an hour; 0 without successes.
    pub(super) fn mean_ns(&self) -> u64 {
        self.sum_ns
            .checked_div(self.successes.into())
            .map_or(0, |mean| mean as u64)
    }
}

#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_three_parts_of_the_word_do_not_touch_each_other() {
        let samples = Samples::new();
        samples.add_success(LONGEST_NS);
        samples.add_success(0);
        samples.add_overload();
        let expected = Counted {
            successes: 2,
            overloads: 1,
            sum_ns: LONGEST_NS.into(),
        };
        assert_eq!(samples.seen(), expected);
        assert_eq!(expected.mean_ns(), LONGEST_NS / 2);
        assert_eq!(samples.take(), expected);
        assert_eq!(samples.take(), Counted::default());
    }

    #[test]
    fn a_full_count_takes_no_more() {
        let samples = Samples::new();
        let full = COUNT_MOST | COUNT_MOST << OVERLOADS_SHIFT | 7 << SUM_SHIFT;
        samples.word.store(full, Ordering::Relaxed);
        samples.add_success(5);
        samples.add_overload();
        assert_eq!(samples.word.load(Ordering::Relaxed), full);
    }

    #[test]
    fn a_latency_that_only_a_jump_of_the_clock_explains_is_not_counted() {
        let samples = Samples::new();
        samples.add_success(LONGEST_NS + 1);
        samples.add_success(u64::MAX);
        assert_eq!(samples.seen(), Counted::default());
    }
}

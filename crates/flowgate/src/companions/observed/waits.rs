use super::histogram::{BUCKETS, Histogram, SPLIT_BITS, top_ns};
use crate::primitive::Ordering;
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

/// Distribution of the granted waits: a copy of the histogram.
///
/// A length is that of [`Grant::waited`](crate::Grant::waited): from the first poll to the time of the grant. Zero counts, too.
/// Each bucket is at most 1/16 as wide as the shortest length in it. So a quantile is never below the true one, and at most
/// 1/16 above it. The count, the mean and the longest wait are exact.
///
/// ```
/// use flowgate::{Observed, TokenBucket};
/// use std::time::Duration;
///
/// let limiter = Observed::new(TokenBucket::new("1000/s burst 5".parse()?));
/// for _ in 0..10 {
///     limiter.acquire().block()?;
/// }
/// let waits = limiter.waits();
/// assert_eq!(waits.count(), 10);
/// assert_eq!(waits.quantile(4, 10), Duration::ZERO);
/// assert!(waits.longest() <= Duration::from_millis(1));
/// println!("{waits}"); // 10 waits: mean 498.2µs, half at most 983.039µs, 99 % …
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A wait that ends while the copy is made may be missing in the buckets, but included in the mean and the longest wait.
#[derive(Clone, PartialEq, Eq)]
pub struct Waits {
    pub(super) buckets: Box<[u64]>,
    pub(super) total_ns: u128,
    pub(super) longest_ns: u64,
}

impl Waits {
    /// Copies `histogram`, and adds `at_once` waits of no length.
    pub(super) fn of(histogram: &Histogram, at_once: u64) -> Self {
        // Pairs with `Histogram::record`.
        let buckets = histogram
            .buckets
            .iter()
            .map(|bucket| bucket.load(Ordering::Acquire));
        let mut buckets: Box<[u64]> = buckets.collect();
        buckets[0] = at_once;
        let low = u128::from(histogram.low.load(Ordering::Relaxed));
        let high = u128::from(histogram.high.load(Ordering::Relaxed));
        Self {
            buckets,
            total_ns: low + (high << SPLIT_BITS),
            longest_ns: histogram.longest_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, &n| sum.wrapping_add(n))
    }

    /// Returns the mean, rounded up to whole nanoseconds; zero if there were no waits.
    pub fn mean(&self) -> Duration {
        let count = self.count().max(1);
        // A mean of 64-bit numbers is one.
        let mean_ns = self.total_ns.div_ceil(count.into());
        Duration::from_nanos(u64::try_from(mean_ns).unwrap_or(u64::MAX))
    }

    /// Returns the longest wait; zero if there were none.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns)
    }

    /// Returns the quantile `part` / `of`: this share of the waits was no longer.
    ///
    /// For example, `quantile(1, 2)` is the median, and `quantile(999, 1000)` is exceeded by one wait in 1,000. The result is
    /// rounded up to the end of its bucket. If `part` is 0, it is the shortest wait. If `part` is `of` or more, it is the
    /// longest. If there were no waits, it is zero.
    pub fn quantile(&self, part: u64, of: u64) -> Duration {
        if part >= of {
            return self.longest();
        }
        let count = u128::from(self.count());
        let share = count * u128::from(part);
        let rank = share.div_ceil(of.into());
        let reached = self
            .buckets()
            .find(|&(_, so_far)| u128::from(so_far) >= rank);
        reached.map_or(Duration::ZERO, |(at_most, _)| at_most)
    }

    /// Returns the cumulative distribution, for exporters.
    ///
    /// Each item is the length at which a bucket with waits ends, and the number of waits that were no longer.
    ///
    /// ```
    /// # use flowgate::{LeakyBucket, Observed};
    /// let limiter = Observed::new(LeakyBucket::new("1000/s".parse()?));
    /// for _ in 0..3 {
    ///     limiter.acquire().block()?;
    /// }
    /// for (at_most, so_far) in limiter.waits().buckets() {
    ///     println!("{so_far} waits took {at_most:?} or less");
    /// }
    /// assert_eq!(limiter.waits().buckets().last().unwrap().1, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut so_far = 0_u64;
        let buckets = self.buckets.iter().enumerate();
        buckets.filter(|&(_, &n)| n != 0).map(move |(bucket, &n)| {
            so_far = so_far.wrapping_add(n);
            let at_most_ns = top_ns(bucket).min(self.longest_ns);
            (Duration::from_nanos(at_most_ns), so_far)
        })
    }

    /// Returns the waits since `earlier`, another copy of the same histogram.
    ///
    /// Their longest wait is rounded up to the end of its bucket, as a quantile is.
    ///
    /// ```
    /// # use flowgate::{Observed, TokenBucket};
    /// let limiter = Observed::new(TokenBucket::new("1000/s".parse()?));
    /// limiter.acquire().block()?;
    /// let minute_ago = limiter.waits();
    /// limiter.acquire().block()?;
    /// assert_eq!(limiter.waits().since(&minute_ago).count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        let buckets: Box<[u64]> = pairs.map(|(now, then)| now.wrapping_sub(*then)).collect();
        let last = (0..BUCKETS).rev().find(|&bucket| buckets[bucket] != 0);
        let longest_ns = last.map_or(0, |last| top_ns(last).min(self.longest_ns));
        Self {
            buckets,
            total_ns: self.total_ns.wrapping_sub(earlier.total_ns),
            longest_ns,
        }
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} waits: mean {:?}, half at most {:?}, 99 % at most {:?}, longest {:?}",
            self.count(),
            self.mean(),
            self.quantile(1, 2),
            self.quantile(99, 100),
            self.longest(),
        )
    }
}

/// Prints the summary without the buckets.
impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waits({self})")
    }
}

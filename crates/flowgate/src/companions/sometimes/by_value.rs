use super::builder::SometimesBuilder;
use super::tally::Tally;
use crate::clock::Timestamp;
use crate::limiter::At;
use crate::quota::QuotaError;
use alloc::boxed::Box;
use core::fmt;
use core::hash::{BuildHasher, Hash};

/// The largest number of slots of a [`SometimesBy`], which take 1.5 MiB.
const MAX_SLOTS: usize = 1 << 16;

/// Separate [`Sometimes`](crate::Sometimes) for each value, in fixed memory.
///
/// Two values can share a slot, **with a stated probability**. Use it for log lines that name a peer, a file, or an error. It
/// suppresses the lines of a frequent value, and still picks the first line of another.
///
/// ```text
///  value ──hash──▶  │ calls, due, silent │ calls, due, silent │ … │   24 bytes per slot
///                     slot 0               slot 1
/// ```
///
/// ```
/// use flowgate::Sometimes;
///
/// let complaints = Sometimes::builder().first(1).by_value(1024)?;
/// assert_eq!(complaints.check("/etc/passwd"), Some(0));
/// assert_eq!(complaints.check("/etc/passwd"), None);
/// assert_eq!(complaints.suppressed("/etc/passwd"), 1);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// The hash of a value selects its slot, and no value is ever evicted. Among k values in s slots, a given value shares its slot
/// with a probability of at most (k − 1) / s. Values that share a slot are counted together. The second of them may then be
/// suppressed from its first call on, and the number of suppressed calls is that of both.
///
/// Choose 10 to 100 slots for each value that is active between two picked calls.
///
/// No call takes a lock. No memory is allocated after the build.
pub struct SometimesBy<S> {
    settings: SometimesBuilder,
    hasher: S,
    /// At least one.
    tallies: Box<[Tally]>,
}

impl SometimesBuilder {
    /// Builds a sampler with a separate state for each value, in `slots` slots.
    ///
    /// ```
    /// # use flowgate::Sometimes;
    /// let slow_hosts = Sometimes::builder().every(100).by_value(4096)?;
    /// for host in ["a.example", "a.example", "b.example"] {
    ///     slow_hosts.run(host, |suppressed| println!("{host} is slow ({suppressed} not shown)"));
    /// }
    /// assert_eq!(slow_hosts.suppressed("a.example"), 1);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `slots` is 0 or above 65,536.
    #[cfg(feature = "std")]
    pub fn by_value(self, slots: usize) -> Result<SometimesBy<std::hash::RandomState>, QuotaError> {
        self.by_value_with_hasher(slots, std::hash::RandomState::new())
    }

    /// Builds as [`by_value`](SometimesBuilder::by_value), with another hash function.
    ///
    /// > **Warning:** if the hash function is predictable, a client that chooses the values can make them share a slot.
    ///
    /// ```
    /// # use flowgate::Sometimes;
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// // The same slots in every run, for a test.
    /// let hasher = BuildHasherDefault::<DefaultHasher>::default();
    /// let complaints = Sometimes::builder().first(1).by_value_with_hasher(1024, hasher)?;
    /// assert_eq!(complaints.check("/etc/passwd"), Some(0));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `slots` is 0 or above 65,536.
    pub fn by_value_with_hasher<S: BuildHasher>(
        self,
        slots: usize,
        hasher: S,
    ) -> Result<SometimesBy<S>, QuotaError> {
        QuotaError::in_range("a number of slots", slots as u64, 1, MAX_SLOTS as u64)?;
        Ok(SometimesBy {
            settings: self,
            hasher,
            tallies: (0..slots).map(|_| Tally::new()).collect(),
        })
    }
}

impl<S: BuildHasher> SometimesBy<S> {
    /// Counts a call for `value`, as [`Sometimes::check`](crate::Sometimes::check).
    pub fn check(&self, value: &(impl Hash + ?Sized)) -> Option<u64> {
        self.tally(value)
            .check(self.settings.policy(), || self.settings.now_ns())
    }

    /// Counts a call for `value`, as [`Sometimes::run`](crate::Sometimes::run).
    pub fn run<R>(&self, value: &(impl Hash + ?Sized), speak: impl FnOnce(u64) -> R) -> Option<R> {
        self.check(value).map(speak)
    }

    /// Returns the suppressed calls of `value` and of the values in its slot.
    ///
    /// [`Sometimes::suppressed`](crate::Sometimes::suppressed) defines the number.
    pub fn suppressed(&self, value: &(impl Hash + ?Sized)) -> u64 {
        self.tally(value).silent()
    }

    /// Returns the same methods at an explicit timestamp.
    ///
    /// ```
    /// # use flowgate::{Sometimes, Timestamp};
    /// # use std::time::Duration;
    /// let slow = Sometimes::builder().interval(Duration::from_secs(10)).by_value(1024)?;
    /// let spoke: Vec<_> = (0..25)
    ///     .filter(|s| {
    ///         let now = slow.at(Timestamp::from_nanos(s * 1_000_000_000));
    ///         now.run("a.example", |suppressed| println!("{suppressed} not shown")).is_some()
    ///     })
    ///     .collect();
    /// assert_eq!(spoke, [0, 10, 20]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }

    fn tally(&self, value: &(impl Hash + ?Sized)) -> &Tally {
        // The upper half of hash × slots: without a division, and less than the number of slots.
        let hash = u128::from(self.hasher.hash_one(value));
        let slot = (hash * self.tallies.len() as u128) >> 64;
        &self.tallies[slot as usize]
    }
}

impl<S: BuildHasher> At<'_, SometimesBy<S>> {
    /// Counts a call, as [`SometimesBy::check`].
    pub fn check(self, value: &(impl Hash + ?Sized)) -> Option<u64> {
        let sometimes = self.limiter;
        sometimes
            .tally(value)
            .check(sometimes.settings.policy(), || self.now_ns)
    }

    /// Counts a call, as [`SometimesBy::run`].
    pub fn run<R>(self, value: &(impl Hash + ?Sized), speak: impl FnOnce(u64) -> R) -> Option<R> {
        self.check(value).map(speak)
    }
}

impl<S> fmt::Debug for SometimesBy<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SometimesBy")
            .field("settings", &self.settings)
            .field("slots", &self.tallies.len())
            .finish_non_exhaustive()
    }
}

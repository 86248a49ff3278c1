use super::algorithm::KeyedAlgorithm;
use super::algorithm::sealed::Kind;
use super::counts::Counters;
use super::entry::Seed;
use super::error::{KeyedError, Reason};
use super::export::Export;
use super::keys::{Full, Keys};
use super::names::{Exact, Hashed, KeyNames};
use super::queues::KeyQueues;
use super::rule::{Rule, aligned};
use super::size::{SLOTS_PER_KEYS, SLOTS_PER_KEYS_TO_SPARE, kept, lines_for};
use super::sketch::Sketch;
use super::table::{MOST_LINES, SLOTS_PER_LINE, Table};
use super::{Keyed, current::InForce};
use crate::clock::{Clock, Timestamp};
use crate::primitive::{AtomicU64, AtomicU128};
use crate::quota::Quota;
use crate::types::fixed_window::FixedWindow;
use crate::types::fixed_window::alignment::Alignment;
use alloc::borrow::ToOwned;
use core::hash::Hash;
use core::marker::PhantomData;

/// The sketch has `.0` cells of 8 bytes for every `.1` keys.
const CELLS_PER_KEYS: (u128, usize) = (5, 16);
const LEAST_CELLS: u128 = 64;

/// What a [`Keyed`] limiter does with new keys when its table is full.
///
/// The table is full for a key if active keys take all eight entries that the key can use.
///
/// # Needless refusals
///
/// A request is refused needlessly if the key's own limit would admit it. The number of active keys determines how often:
///
/// | active keys, relative to capacity | `Evict` | `Deny` | `Share` |
/// |---|---|---|---|
/// | up to the capacity | never | rarely | rarely |
/// | up to half more | rarely | for keys without an entry | if the shared quota is used up |
/// | twice as many, and more | often | for keys without an entry | often |
///
/// Set the capacity to the largest number of active keys that you expect. With more active keys, `Evict` works well as long as the
/// debt in the sketch is repaid as fast as it comes in. Each sketch cell repays at the rate of one key, and there are 5 cells for
/// each 16 keys of the capacity. With about twice the capacity, more debt comes in than is repaid, and keys without an entry share
/// the little that is left. The repository has a simulation, with its numbers (`bench/README.md`).
///
/// `Evict` and `Deny` admit only requests that the key's own limit admits. `Share` also admits requests by the shared quota.
///
/// ```
/// use flowgate::{Keyed, Quota, WhenFull};
///
/// // Ten a minute for each of about 100 addresses, and for all others together.
/// let shared = Keyed::token_bucket(Quota::per_minute(10))
///     .when_full(WhenFull::Share(Quota::per_minute(10)))
///     .capacity(100)?;
/// let admitted = (0..10_000).filter(|address| shared.try_acquire(address).is_ok()).count();
/// assert!(admitted < 300);
/// assert!(shared.counts().shared > 9_000);
///
/// // Each has its own, and those who make way are remembered.
/// let evicting = Keyed::token_bucket(Quota::per_minute(10)).capacity(100)?;
/// (0..10_000).for_each(|address| drop(evicting.try_acquire(&address)));
/// assert!(evicting.counts().evicted > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// Evicts the key that is closest to fully refilled, and remembers its usage in a sketch.
    ///
    /// The sketch has a fixed size, and keys share its cells. It never remembers less than a key has taken. It remembers more only
    /// if the key shares both of its cells with keys that have taken more. No key therefore gains tokens by eviction, but a new key
    /// is sometimes refused needlessly ([`KeyedCounts::refused_by_estimate`](super::KeyedCounts)).
    #[default]
    Evict,
    /// Refuses the new key ([`Denied::is_table_full`](crate::Denied::is_table_full)).
    ///
    /// Each key can use only eight entries. A few new keys are therefore refused even within the capacity.
    Deny,
    /// Admits the new key by this quota, which all such keys share.
    Share(Quota),
}

/// The settings of a [`Keyed`] limiter or a [`KeyedConcurrencyLimit`](super::KeyedConcurrencyLimit).
///
/// Settings that are not set keep their defaults. `capacity` builds the limiter.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`when_full`](Self::when_full) | [`WhenFull::Evict`] |
/// | [`align`](KeyedBuilder::align), [`align_to_wall`](KeyedBuilder::align_to_wall) | a window begins with a key's first operation |
/// | [`seed`](Self::seed) | from the operating system |
/// | [`max_waiting_keys`](Self::max_waiting_keys) | 65,536 |
/// | [`max_waiters_per_key`](Self::max_waiters_per_key) | 1,000 |
///
/// ```
/// use flowgate::{Keyed, ManualClock, WhenFull};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limits = Keyed::token_bucket("1/s burst 2".parse()?)
///     .clock(&time)
///     .when_full(WhenFull::Deny)
///     .max_waiters_per_key(0) // nobody waits here
///     .seed([1, 2]) // the same in every run of a test
///     .capacity(1000)?;
/// limits.try_acquire_n("alice", 2)?;
/// assert!(limits.acquire("alice").block().unwrap_err().is_queue_full());
/// time.advance(Duration::from_secs(1));
/// limits.try_acquire("alice")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `capacity` is called"]
pub struct KeyedBuilder<A: Kind, N = Hashed> {
    pub(super) allowed: A::Allowed,
    pub(super) clock: Option<Clock>,
    when_full: WhenFull,
    pub(super) seed: Option<Seed>,
    pub(super) max_waiting_keys: usize,
    pub(super) max_waiters_per_key: usize,
    /// The alignment of windows.
    alignment: Alignment,
    kind: PhantomData<fn() -> (A, N)>,
}

impl<A: Kind> KeyedBuilder<A> {
    pub(super) fn new(allowed: A::Allowed) -> Self {
        Self {
            allowed,
            clock: None,
            when_full: WhenFull::Evict,
            seed: None,
            max_waiting_keys: 65_536,
            max_waiters_per_key: 1_000,
            alignment: Alignment::Free,
            kind: PhantomData,
        }
    }
}

impl<A: KeyedAlgorithm> KeyedBuilder<A> {
    /// Stores keys and compares them, so that no two keys ever share a limit.
    ///
    /// `Q` is the type of the keys that callers pass, such as `str` (or a `String`) or `u64`. The table stores the owned form,
    /// which it copies when a key gets an entry. [`Keyed::bytes`] counts the stored values, but not what they own elsewhere, such
    /// as the text of a `String`. A decision takes the lock of its entry. Evicted keys still share the cells of the sketch.
    ///
    /// ```
    /// use flowgate::{Keyed, Quota};
    ///
    /// let limits = Keyed::token_bucket(Quota::per_hour(100)).exact::<str>().capacity(1000)?;
    /// limits.try_acquire("alice")?;
    /// assert_eq!(limits.most_used(1)[0].key, "alice");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exact<Q>(self) -> KeyedBuilder<A, Exact<Q>>
    where
        Q: Eq + Hash + Sync + ToOwned<Owned: Send + Sync> + ?Sized + 'static,
    {
        KeyedBuilder {
            allowed: self.allowed,
            clock: self.clock,
            when_full: self.when_full,
            seed: self.seed,
            max_waiting_keys: self.max_waiting_keys,
            max_waiters_per_key: self.max_waiters_per_key,
            alignment: self.alignment,
            kind: PhantomData,
        }
    }

    /// Builds the limiter from an [export](Keyed::export), with its seed, capacity and keys.
    ///
    /// Quota, clock and all other settings are those of this builder. Each key keeps what it has taken, as if the quota had been
    /// [changed](Keyed::set_quota) and no time had passed since the export.
    ///
    /// - A bucket refuses every request with a [time](Keyed::at) before the import.
    /// - A window refuses such a request, or counts it in the window that was open at the import.
    /// - The exporter's clock may have been set back to a time before the exporter's last change of quota. The limiter then
    ///   refuses every request until as much time has passed since the import.
    ///
    /// ```
    /// use flowgate::Keyed;
    ///
    /// let before = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// before.try_acquire_n("alice", 7)?;
    /// let file = before.export();
    ///
    /// let after = Keyed::token_bucket("12/h".parse()?).import(&file)?;
    /// assert_eq!(after.available("alice"), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] for the reasons that [`capacity`](Self::capacity) lists, and also in these cases:
    ///
    /// - The bytes are not an export, or are damaged.
    /// - The export is of another type of limiter, or of segmented windows of another length.
    /// - The export contains evicted keys, and this builder does not [evict](WhenFull::Evict).
    pub fn import(mut self, bytes: &[u8]) -> Result<Keyed<A>, KeyedError> {
        let export = Export::<A>::read(bytes)?;
        self.seed = Some(export.seed);
        // In another number of lines, its entries would be where nobody looks for them.
        let keyed = self.build(export.capacity, Some(export.lines))?;
        export.carry_to(&keyed)?;
        Ok(keyed)
    }
}

impl<A: Kind, N> KeyedBuilder<A, N> {
    /// Sets the clock; see [`TokenBucketBuilder::clock`](crate::TokenBucketBuilder::clock).
    ///
    /// A concurrency limit uses its clock only for deadlines.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// Sets the secret with which keys are hashed (default: from the operating system).
    ///
    /// A caller who knows the seed can choose keys that share a limit, so keep it secret. Set it only for tests and simulations
    /// that must be repeatable, or without `std`. Without `std` it must be set, from a source of randomness.
    pub fn seed(mut self, seed: [u64; 2]) -> Self {
        self.seed = Some(Seed(seed));
        self
    }

    /// Sets the largest number of keys that callers can wait for concurrently (default: 65,536).
    ///
    /// A caller that would wait for one more key is refused with [`is_queue_full`](crate::Denied::is_queue_full). Waiting takes
    /// memory beyond [`Keyed::bytes`]: some hundred bytes for each key that callers wait for, and for each waiter.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::leaky_bucket("1/h".parse()?).max_waiting_keys(0).capacity(100)?;
    /// limits.acquire("alice").block()?; // without a wait
    /// assert!(limits.acquire("alice").block().unwrap_err().is_queue_full());
    /// assert_eq!(limits.waiting_keys(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_waiting_keys(mut self, keys: usize) -> Self {
        self.max_waiting_keys = keys;
        self
    }

    /// Sets the largest number of waiters of one key (default: 1,000).
    pub fn max_waiters_per_key(mut self, waiters: usize) -> Self {
        self.max_waiters_per_key = waiters;
        self
    }
}

impl<N> KeyedBuilder<FixedWindow, N> {
    /// Aligns the windows of all keys: one window begins at `begins`.
    ///
    /// The other windows begin a whole number of windows before or after it.
    ///
    /// A [per-key quota](Keyed::with) and a quota that [replaces](Keyed::set_quota) this one have separate windows, one of which
    /// also begins at `begins`. What a key has taken then stays counted until its window has ended and a window of the new quota
    /// begins. Between two per-key quotas, it stays counted until its window has ended.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock, Timestamp};
    ///
    /// let second = 1_000_000_000;
    /// let limits = Keyed::fixed_window("2/min".parse()?)
    ///     .clock(ManualClock::new())
    ///     .align(Timestamp::from_nanos(30 * second))
    ///     .capacity(1_000)?;
    /// limits.at(Timestamp::from_nanos(29 * second)).try_acquire_n("alice", 2)?;
    /// limits.at(Timestamp::from_nanos(30 * second)).try_acquire_n("alice", 2)?;
    /// assert!(limits.at(Timestamp::from_nanos(89 * second)).try_acquire("alice").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`capacity`](Self::capacity) returns [`KeyedError`] if the limit is above about 1,000 per nanosecond of the window.
    pub fn align(mut self, begins: Timestamp) -> Self {
        self.alignment = Alignment::To(begins);
        self
    }

    /// Aligns the windows to the wall clock: to the full minute, hour, or midnight.
    ///
    /// A window begins whenever the wall clock, `utc_offset_s` seconds east of UTC, shows a whole number of windows since midnight
    /// of 1970-01-01. The limiter reads the wall clock only once, when it is built. See
    /// [`FixedWindowBuilder::align_to_wall`](crate::FixedWindowBuilder::align_to_wall).
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// # use std::time::Duration;
    /// // A thousand a day for each tenant, anew at midnight UTC.
    /// let daily = Keyed::fixed_window("1000/day".parse()?).align_to_wall(0).capacity(1_000)?;
    /// daily.try_acquire("alice")?;
    /// daily.try_acquire("bob")?;
    /// let left = ["alice", "bob"].map(|key| daily.snapshot(key).reset_after);
    /// assert!(left[0].abs_diff(left[1]) < Duration::from_secs(60)); // the same midnight
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn align_to_wall(mut self, utc_offset_s: i32) -> Self {
        self.alignment = Alignment::ToWall { utc_offset_s };
        self
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> KeyedBuilder<A, N> {
    /// Sets what happens to a new key when the table is full.
    ///
    /// ```
    /// use flowgate::{Keyed, Quota, WhenFull};
    ///
    /// let limits = Keyed::token_bucket(Quota::per_minute(100))
    ///     .when_full(WhenFull::Share(Quota::per_second(1000)))
    ///     .capacity(10_000)?;
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Builds the limiter for `keys` active keys.
    ///
    /// It allocates all memory that the keys will ever need: 24 bytes for each key, up to 11 more for each of the first 16,384, and
    /// some kilobytes. An entry has 16 bytes. The others are for spare entries and, with [`WhenFull::Evict`], the sketch.
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] in these cases:
    ///
    /// - `keys` is 0, or above 12 × 2³⁰ (10.7 × 2³⁰ with [`WhenFull::Deny`] or [`WhenFull::Share`]).
    /// - The memory is not available. The error names its size in bytes.
    /// - This type of limiter cannot keep the quota.
    /// - The crate is built without `std`, and no seed has been set.
    ///
    /// An operating system that promises more memory than it has may end the process instead. It does so in this call, and not
    /// later.
    pub fn capacity(self, keys: usize) -> Result<Keyed<A, N>, KeyedError> {
        self.build(keys, None)
    }

    /// [`capacity`](Self::capacity) with a table of `lines` lines, or of as many as `keys` need.
    fn build(self, keys: usize, lines: Option<usize>) -> Result<Keyed<A, N>, KeyedError> {
        let ratio = match self.when_full {
            WhenFull::Evict => SLOTS_PER_KEYS,
            WhenFull::Deny | WhenFull::Share(_) => SLOTS_PER_KEYS_TO_SPARE,
        };
        let [slots, per_keys] = ratio;
        let most = (MOST_LINES * SLOTS_PER_LINE / slots * per_keys) as u64;
        let lines = lines.map_or_else(|| lines_for::<A::Rule>(keys, ratio), |lines| lines as u128);
        let kept = kept::<A::Rule>(keys);
        let cells = match self.when_full {
            WhenFull::Evict => {
                let cells = kept.div_ceil(CELLS_PER_KEYS.1) as u128 * CELLS_PER_KEYS.0;
                cells.max(LEAST_CELLS)
            }
            WhenFull::Deny | WhenFull::Share(_) => 0,
        };
        let bytes = bytes::<N>(lines, cells);
        check_keys(keys, bytes, most)?;
        // At most 2³² each.
        let (lines, cells) = (lines as usize, cells as usize);
        let clock = self.clock.unwrap_or_default();
        let begins_ns = self.alignment.begins_ns(&clock);
        let terms_of = |quota: &A::Quota| aligned(A::Rule::terms(quota)?, begins_ns);
        let full = match self.when_full {
            WhenFull::Evict => Full::Evict,
            WhenFull::Deny => Full::Deny,
            WhenFull::Share(quota) => Full::Share {
                terms: terms_of(&A::quota(quota.into()))?,
                state: AtomicU128::new(0),
            },
        };
        let quota = A::quota(self.allowed);
        let terms = terms_of(&quota)?;
        let out_of_memory = |_| KeyedError(Reason::Memory { keys, bytes });
        let seed = self.seed.map_or_else(random_seed, Ok)?;
        let keyed = Keyed {
            keys: Keys {
                table: Table::new(lines, seed).map_err(out_of_memory)?,
                sketch: Sketch::new(cells).map_err(out_of_memory)?,
                force: InForce::new(quota, &terms),
                full,
                counters: Counters::default(),
                newest_ns: AtomicU64::new(0),
                largest: AtomicU64::new(terms.most),
                rule: PhantomData,
            },
            capacity: keys,
            begins_ns,
            clock,
            queues: KeyQueues::new(self.max_waiting_keys),
            max_waiters_per_key: self.max_waiters_per_key,
        };
        Ok(keyed)
    }
}

/// Whether there can be a table for `keys` keys, which would take `bytes`.
pub(super) fn check_keys(keys: usize, bytes: u128, most: u64) -> Result<(), KeyedError> {
    match keys as u64 {
        0 => Err(KeyedError(Reason::Capacity { keys, most })),
        number if number > most => Err(KeyedError(Reason::Size { keys, bytes, most })),
        _ => Ok(()),
    }
}

/// Returns the bytes of `lines` lines with their names, and of `cells` cells of the sketch.
pub(super) fn bytes<N: KeyNames>(lines: u128, cells: u128) -> u128 {
    Table::<N>::bytes(lines) + cells * size_of::<AtomicU64>() as u128
}

#[cfg(feature = "std")]
pub(super) fn random_seed() -> Result<Seed, KeyedError> {
    Ok(Seed::random())
}

#[cfg(not(feature = "std"))]
pub(super) fn random_seed() -> Result<Seed, KeyedError> {
    Err(KeyedError(Reason::NoSeed))
}

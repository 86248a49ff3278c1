use super::KeyedConcurrencyLimit;
use super::in_flight::InFlight;
use crate::clock::Clock;
use crate::concurrency_limit::check;
use crate::keyed::builder::random_seed;
use crate::keyed::error::KeyedError;
use crate::keyed::names::Hashed;
use crate::keyed::place::Seed;
use crate::keyed::rooms::Rooms;
use crate::keyed::table::{MOST_LINES, Table};
use crate::primitive::AtomicU64;

/// Settings of a [`KeyedConcurrencyLimit`] other than the default ones.
///
/// | setting | default |
/// |---|---|
/// | [`clock`](Self::clock) | [`Clock::system`] |
/// | [`seed`](Self::seed) | from the operating system |
/// | [`max_waiting_keys`](Self::max_waiting_keys) | 65,536 |
/// | [`max_waiters_per_key`](Self::max_waiters_per_key) | 1,000 |
///
/// ```
/// use flowgate::KeyedConcurrencyLimit;
///
/// let limits = KeyedConcurrencyLimit::builder(10).seed([1, 2]).capacity(1000)?;
/// assert_eq!((limits.limit(), limits.capacity()), (10, 1000));
///
/// let error = KeyedConcurrencyLimit::builder(10).capacity(0).unwrap_err();
/// assert_eq!(error.to_string(), "a capacity in keys of 0 is out of range: 1 to 4294967296");
/// # Ok::<(), flowgate::KeyedError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing until `capacity` is called"]
pub struct KeyedConcurrencyLimitBuilder {
    limit: u32,
    clock: Option<Clock>,
    seed: Option<Seed>,
    max_waiting_keys: usize,
    max_waiters_per_key: usize,
}

impl KeyedConcurrencyLimitBuilder {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            clock: None,
            seed: None,
            max_waiting_keys: 65_536,
            max_waiters_per_key: 1_000,
        }
    }

    /// The clock that deadlines are told by. Nothing else asks it.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// What keys are hashed with. Who knows it can choose keys that take each other's slots, so that it is to be
    /// secret, and for tests and simulations that have to be repeatable alone. Without `std` it has to be set, from a
    /// source of randomness.
    pub fn seed(mut self, seed: [u64; 2]) -> Self {
        self.seed = Some(Seed(seed));
        self
    }

    /// For how many keys somebody may wait at the same time. Who would wait for one more is refused with
    /// [`is_queue_full`](crate::Denied::is_queue_full). Only then is memory taken beyond what
    /// [`KeyedConcurrencyLimit::bytes`] says: for each, and for each that waits, some hundred bytes.
    pub fn max_waiting_keys(mut self, keys: usize) -> Self {
        self.max_waiting_keys = keys;
        self
    }

    /// How many may wait for one key.
    pub fn max_waiters_per_key(mut self, waiters: usize) -> Self {
        self.max_waiters_per_key = waiters;
        self
    }

    /// The limit, with room for `keys` keys at once, and nothing in flight.
    ///
    /// # Errors
    ///
    /// [`KeyedError`] if `keys` is 0 or above 2³²; if the memory is not to be had, which the error names in bytes; if the
    /// limit is above 2³¹ − 1; or, without `std`, if no seed has been set. (An operating system that promises
    /// more memory than it has may end the process instead when it is taken, which is here and at no later time.)
    pub fn capacity(self, keys: usize) -> Result<KeyedConcurrencyLimit, KeyedError> {
        let limit = check(self.limit)?;
        if keys == 0 {
            return Err(KeyedError::capacity(keys, MOST_LINES as u64));
        }
        // A line each, of which a quarter is then in use: a key hardly ever finds none.
        let lines = keys;
        let bytes = Table::<Hashed>::bytes(lines as u128);
        if lines > MOST_LINES {
            return Err(KeyedError::size(keys, bytes, MOST_LINES as u64));
        }
        let in_flight = InFlight::new(lines).map_err(|_| KeyedError::memory(keys, bytes))?;
        Ok(KeyedConcurrencyLimit {
            in_flight,
            limit: AtomicU64::new(limit.into()),
            seed: self.seed.map_or_else(random_seed, Ok)?,
            clock: self.clock.unwrap_or_default(),
            rooms: Rooms::new(self.max_waiting_keys),
            max_waiters_per_key: self.max_waiters_per_key,
            refused_for_room: AtomicU64::new(0),
        })
    }
}

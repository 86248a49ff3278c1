use super::KeyedConcurrencyLimit;
use super::in_flight::InFlight;
use crate::concurrency::limit::{ConcurrencyLimit, check};
use crate::keyed::builder::{KeyedBuilder, check_keys, random_seed};
use crate::keyed::error::{KeyedError, Reason};
use crate::keyed::names::Hashed;
use crate::keyed::queues::KeyQueues;
use crate::keyed::table::{MOST_LINES, Table};
use crate::primitive::AtomicU64;

impl KeyedBuilder<ConcurrencyLimit> {
    /// Builds a [`KeyedConcurrencyLimit`] for `keys` keys with operations in flight.
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
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] in these cases:
    ///
    /// - `keys` is 0 or above 2³².
    /// - The memory is not available. The error names its size in bytes.
    /// - The limit is above 2³¹ − 1.
    /// - The crate is built without `std`, and no seed has been set.
    ///
    /// An operating system that promises more memory than it has may end the process instead. It does so in this call, and not
    /// later.
    pub fn capacity(self, keys: usize) -> Result<KeyedConcurrencyLimit, KeyedError> {
        let limit = check(self.allowed)?;
        // One line for each key, of which a quarter is then in use, so that a key hardly ever finds no entry.
        let lines = keys;
        let bytes = Table::<Hashed>::bytes(lines as u128);
        check_keys(keys, bytes, MOST_LINES as u64)?;
        let table = Table::new(lines, self.seed.map_or_else(random_seed, Ok)?)
            .map_err(|_| KeyedError(Reason::Memory { keys, bytes }))?;
        Ok(KeyedConcurrencyLimit {
            in_flight: InFlight {
                table,
                refused_for_room: AtomicU64::new(0),
            },
            limit: AtomicU64::new(limit.into()),
            clock: self.clock.unwrap_or_default(),
            queues: KeyQueues::new(self.max_waiting_keys),
            max_waiters_per_key: self.max_waiters_per_key,
        })
    }
}

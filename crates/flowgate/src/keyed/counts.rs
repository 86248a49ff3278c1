use crate::primitive::{AtomicU64, Ordering};

/// How often the table of a [`Keyed`](crate::Keyed) limiter was full, and what happened.
///
/// The limiter counts from when it was built.
///
/// ```
/// use flowgate::{Keyed, WhenFull};
///
/// let limits = Keyed::token_bucket("1/h".parse()?).when_full(WhenFull::Deny).capacity(100)?;
/// let refused = (0..1000).filter(|key| limits.try_acquire(key).is_err()).count() as u64;
/// let counts = limits.counts(); // for an alert: the table is too small
/// assert!(counts.refused_for_room > 0);
/// assert_eq!(counts.refused_for_room, refused);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyedCounts {
    /// The number of active entries that were evicted.
    ///
    /// An entry is evicted for another key, or before it is created. The sketch then remembers what the key has taken.
    pub evicted: u64,
    /// The number of refusals of keys without an entry, by the sketch's estimate.
    pub refused_by_estimate: u64,
    /// The number of new keys that were refused because the table is full.
    pub refused_for_room: u64,
    /// The number of decisions on new keys by the quota that they share.
    pub shared: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) evicted: Counter,
    pub(crate) refused_by_estimate: Counter,
    pub(crate) denied: Counter,
    pub(crate) shared: Counter,
}

#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn counts(&self) -> KeyedCounts {
        KeyedCounts {
            evicted: self.evicted.get(),
            refused_by_estimate: self.refused_by_estimate.get(),
            refused_for_room: self.denied.get(),
            shared: self.shared.get(),
        }
    }
}

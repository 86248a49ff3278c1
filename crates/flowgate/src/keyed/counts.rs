use crate::primitive::{AtomicU64, Ordering};

/// What a [`Keyed`](crate::Keyed) limiter has done for want of room, since it was made.
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
    /// Entries that made way for another key's, or were not made, while they mattered; what they knew went into the sketch.
    pub evicted: u64,
    /// Refusals of keys without an entry, for what the sketch says that they may have taken.
    pub refused_by_estimate: u64,
    /// Refusals of new keys for want of room.
    pub refused_for_room: u64,
    /// Decisions on new keys by what all share for which there is no room.
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

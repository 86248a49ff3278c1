//! Counts by key: a vector for keys that are indexes, and a tree for the others.

use std::collections::BTreeMap;
use std::ops::Index;

/// Keys below this are indexes, if the traffic has that many.
const MOST_INDEXES: u64 = 1 << 24;
/// The counts of fewer keys are in the processor's caches (2 MiB).
const MANY: usize = 1 << 16;
/// The most other keys that are counted one by one.
const MOST_OTHERS: usize = 1 << 22;

/// The counts of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCounts {
    /// Its attempts.
    pub attempts: u64,
    /// Its attempts that were admitted.
    pub admitted: u64,
    /// Its attempts that were refused.
    pub refused: u64,
    /// The tokens of its attempts that were admitted.
    pub cost: u64,
}

/// Counts by key, in the order of the keys. It has only keys that had an attempt.
///
/// ```
/// use flowgate_schedule::Schedule;
/// use flowgate_sim::{Arrivals, Keys, Simulation, Traffic, Unprotected};
/// use std::time::Duration;
///
/// let schedule = Schedule::lasting("100/s".parse()?, Duration::from_secs(1))?;
/// let traffic = Traffic::new("users", Arrivals::Scheduled(schedule)).keys(Keys::uniform(5));
/// let simulation = Simulation::new(1, Duration::from_secs(1)).traffic(traffic);
/// let outcome = simulation.run("none", |_| Ok::<_, std::convert::Infallible>(Unprotected))?;
/// assert_eq!(outcome.keys.len(), 5);
/// let attempts: u64 = outcome.keys.iter().map(|(_, counts)| counts.attempts).sum();
/// assert_eq!(attempts, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTable {
    indexes: Vec<KeyCounts>,
    /// The number of keys that may be indexes.
    most_indexes: u64,
    others: BTreeMap<u64, KeyCounts>,
    /// Of all keys for which there is no room.
    rest: KeyCounts,
}

impl KeyTable {
    /// Creates a table for traffic whose keys are below `keys`, or are arbitrary.
    pub(crate) fn new(keys: u64) -> Self {
        Self {
            most_indexes: keys.min(MOST_INDEXES),
            ..Self::default()
        }
    }

    /// The counts of `key`, from now on among the keys.
    #[inline(always)]
    pub(crate) fn entry(&mut self, key: u64) -> &mut KeyCounts {
        let index = usize::try_from(key).unwrap_or(usize::MAX);
        if index >= self.indexes.len() {
            return self.new_entry(key);
        }
        &mut self.indexes[index]
    }

    /// Reads the counts of `keys` ahead, so that the processor has them when they change. This matters only if there are many.
    pub(crate) fn prefetch(&self, keys: &[u64]) {
        if self.indexes.len() < MANY {
            return;
        }
        let counts = keys
            .iter()
            .filter_map(|key| self.indexes.get(*key as usize));
        std::hint::black_box(counts.fold(0, |read, counts| read ^ counts.attempts));
    }

    /// The counts of `key`, which has no index yet, or will have none.
    #[inline(never)]
    fn new_entry(&mut self, key: u64) -> &mut KeyCounts {
        if key >= self.most_indexes {
            return match self.others.len() < MOST_OTHERS || self.others.contains_key(&key) {
                true => self.others.entry(key).or_default(),
                false => &mut self.rest,
            };
        }
        let index = key as usize;
        self.indexes.resize(index + 1, KeyCounts::default());
        &mut self.indexes[index]
    }

    /// Returns the keys and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &KeyCounts)> {
        let indexes = (0..).zip(&self.indexes);
        let indexes = indexes.filter(|(_, counts)| counts.attempts > 0);
        indexes.chain(self.others.iter().map(|(key, counts)| (*key, counts)))
    }

    /// Returns the counts of all keys.
    pub fn values(&self) -> impl Iterator<Item = &KeyCounts> {
        self.iter().map(|(_, counts)| counts)
    }

    /// Returns the counts of `key`, if it had an attempt.
    pub fn get(&self, key: u64) -> Option<&KeyCounts> {
        let index = usize::try_from(key).ok();
        let counts = match index.and_then(|index| self.indexes.get(index)) {
            Some(counts) => Some(counts),
            None => self.others.get(&key),
        };
        counts.filter(|counts| counts.attempts > 0)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.values().count()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// Returns the counts of the keys beyond the first four million, together.
    ///
    /// Keys below the number of keys of the traffic, up to 16 million, are always counted one by one.
    pub fn rest(&self) -> &KeyCounts {
        &self.rest
    }

    /// Returns up to `most` keys with the most refused attempts, and their counts.
    ///
    /// Of keys with as many refusals, the lower one comes first. Keys without a refusal are not among them.
    pub fn most_refused(&self, most: usize) -> Vec<(u64, KeyCounts)> {
        let refused = self.iter().filter(|(_, counts)| counts.refused > 0);
        let mut refused: Vec<_> = refused.map(|(key, counts)| (key, *counts)).collect();
        let order = |(key, counts): &(u64, KeyCounts)| (std::cmp::Reverse(counts.refused), *key);
        if most < refused.len() && most > 0 {
            refused.select_nth_unstable_by_key(most - 1, order);
        }
        refused.truncate(most);
        refused.sort_unstable_by_key(order);
        refused
    }
}

impl Index<u64> for KeyTable {
    type Output = KeyCounts;

    /// Returns the counts of a key; zeros if it had no attempt.
    fn index(&self, key: u64) -> &KeyCounts {
        const NONE: KeyCounts = KeyCounts {
            attempts: 0,
            admitted: 0,
            refused: 0,
            cost: 0,
        };
        self.get(key).unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyTable;

    #[test]
    fn keys_come_in_order_whether_they_are_indexes_or_not() {
        let mut table = KeyTable::new(10);
        for key in [7, 1 << 40, 3, 10, 7] {
            table.entry(key).attempts += 1;
        }
        let keys: Vec<u64> = table.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [3, 7, 10, 1 << 40]);
        assert_eq!(
            (table.len(), table[7].attempts, table[4].attempts),
            (4, 2, 0)
        );
        assert!(table.get(4).is_none() && table.get(11).is_none());
    }

    #[test]
    fn keys_that_were_refused_most_come_first() {
        let mut table = KeyTable::new(100);
        for (key, refused) in [(5, 3), (6, 9), (7, 0), (8, 3), (1_000, 4)] {
            let counts = table.entry(key);
            counts.attempts = 10;
            counts.refused = refused;
        }
        let keys = |most| -> Vec<u64> {
            table
                .most_refused(most)
                .iter()
                .map(|(key, _)| *key)
                .collect()
        };
        assert_eq!(keys(3), [6, 1_000, 5]);
        assert_eq!(keys(9), [6, 1_000, 5, 8]);
        assert!(keys(0).is_empty());
    }
}

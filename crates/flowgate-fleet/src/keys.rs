use crate::record::Record;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads that ask for different keys rarely wait for each other.
const SHARDS: usize = 64;

/// The state of keys, in bounded memory.
///
/// Nothing in it is needed for correct decisions. A key that is forgotten costs a call.
#[derive(Debug)]
pub(crate) struct Keys<S> {
    shards: Box<[Mutex<HashMap<Record, S>>]>,
    per_shard: usize,
}

/// A state that a table may forget.
pub(crate) trait Forget {
    /// Returns whether the state must be kept: callers wait for it.
    fn is_in_use(&self) -> bool;

    /// Returns whether forgetting the state costs more than a call: tokens are held. It is kept unless it is stale.
    fn is_dear(&self) -> bool;
}

impl<S: Default + Forget> Keys<S> {
    /// Creates a table that remembers about as many keys as `capacity`.
    pub(crate) fn new(capacity: usize) -> Self {
        let shards = capacity.clamp(1, SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            per_shard: capacity.div_ceil(shards).max(1),
        }
    }

    /// Returns what `with` makes of the state of `record`.
    ///
    /// A shard that is full first forgets what `is_stale` names, and then everything that is neither in use nor dear. A key that is in
    /// use is always kept: there are no more of them than callers that wait.
    pub(crate) fn with<R>(
        &self,
        record: Record,
        is_stale: impl Fn(&S) -> bool,
        with: impl FnOnce(&mut S) -> R,
    ) -> R {
        let mut states = self.shard(record);
        if states.len() >= self.per_shard && !states.contains_key(&record) {
            states.retain(|_, state| state.is_in_use() || !is_stale(state));
            if states.len() >= self.per_shard {
                states.retain(|_, state| state.is_in_use() || state.is_dear());
            }
        }
        with(states.entry(record).or_default())
    }

    /// Shows `look` all states that are remembered beside that of `record`.
    pub(crate) fn beside(&self, record: Record, look: impl FnMut(&mut S)) {
        self.shard(record).values_mut().for_each(look);
    }

    /// Folds all states that are remembered.
    pub(crate) fn fold<R>(&self, first: R, mut fold: impl FnMut(R, &S) -> R) -> R {
        self.shards.iter().fold(first, |folded, shard| {
            let states = shard.lock().unwrap_or_else(PoisonError::into_inner);
            states.values().fold(folded, &mut fold)
        })
    }

    fn shard(&self, record: Record) -> MutexGuard<'_, HashMap<Record, S>> {
        let shard = &self.shards[record.spread(self.shards.len())];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct State {
        uses: u32,
        is_in_use: bool,
    }

    impl Forget for State {
        fn is_in_use(&self) -> bool {
            self.is_in_use
        }

        fn is_dear(&self) -> bool {
            self.uses >= 3
        }
    }

    fn use_of(keys: &Keys<State>, key: u64, is_in_use: bool) -> u32 {
        let record = Record::of("keys", &key.to_le_bytes());
        let is_stale = |state: &State| state.uses == 1;
        keys.with(record, is_stale, |state| {
            state.uses += 1;
            state.is_in_use = is_in_use;
            state.uses
        })
    }

    #[test]
    fn a_full_table_forgets_what_is_stale_then_what_is_not_in_use_and_nothing_else() {
        let keys = Keys::new(1);
        assert_eq!(use_of(&keys, 0, true), 1);
        assert_eq!(use_of(&keys, 1, false), 1);
        assert_eq!(use_of(&keys, 0, true), 2, "it is in use");
        assert_eq!(use_of(&keys, 1, false), 2, "none came in between");
        assert_eq!(use_of(&keys, 2, false), 1);
        assert_eq!(use_of(&keys, 1, false), 1, "it had to go");
        assert_eq!(use_of(&keys, 1, false), 2);
        assert_eq!(use_of(&keys, 1, false), 3);
        assert_eq!(use_of(&keys, 3, false), 1);
        assert_eq!(use_of(&keys, 1, false), 4, "it is dear");
    }

    #[test]
    fn memory_is_bounded_however_many_keys_come() {
        let keys = Keys::new(1000);
        for key in 0..100_000 {
            use_of(&keys, key, false);
        }
        let known: usize = keys
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len())
            .sum();
        assert!(known <= 64 * 16, "{known}");
    }
}

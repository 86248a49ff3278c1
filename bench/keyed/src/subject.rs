//! The subjects, and their operations.

use std::sync::Arc;
use std::time::Duration;

use flowgate_bench::cases::Case;

use crate::flood::{self, Flooded};
use crate::keys::{Key, Walk};
use crate::memory::{self, Filled};
use crate::speed::{self, Traffic};

/// Limit per key: `count` tokens per `period` with a burst of `burst`.
///
/// The types of every crate can represent these numbers.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub count: u32,
    pub period: Duration,
    pub burst: u32,
}

/// One limiter for many keys.
pub trait Limits<K>: Send + Sync + Sized + 'static {
    /// As its users get it. `capacity` keys are expected; what can be told so, is.
    fn build(limit: Limit, capacity: usize) -> Self;

    /// The number of keys that are passed in one call.
    const TOGETHER: usize = 1;

    /// Takes one token of `key`.
    fn admit(&self, key: &K) -> bool;

    /// Takes one token of each of `keys`. Returns the number of keys that had one.
    fn admit_each(&self, keys: &[&K]) -> u64 {
        keys.iter().map(|key| u64::from(self.admit(key))).sum()
    }

    /// The bytes that it says it occupies.
    fn told_bytes(&self) -> Option<usize> {
        None
    }
}

/// One limiter, under the name it has in the tables.
pub struct Subject<K: 'static> {
    pub name: &'static str,
    pub case: fn(&'static str, Arc<Walk<K>>, Traffic) -> Case,
    pub fill: fn(usize) -> Result<Filled, String>,
    pub flood: fn(&flood::Plan) -> Result<Flooded, String>,
}

impl<K: Key> Subject<K> {
    pub fn of<L: Limits<K>>(name: &'static str) -> Subject<K> {
        Subject {
            name,
            case: speed::case::<K, L>,
            fill: memory::fill::<K, L>,
            flood: flood::flood::<K, L>,
        }
    }
}

/// The subject that the others are divided by.
pub const GOVERNOR: &str = "governor 0.10.4 dashmap";

/// The subject that the goals are about.
pub const FLOWGATE: &str = "flowgate";

/// The same, with many keys in one call.
pub const FLOWGATE_EACH: &str = "flowgate, 256 keys in one call";

/// The same in a process that gets no huge pages, with very many keys only.
pub const FLOWGATE_SMALL_PAGES: &str = "flowgate, in small pages";

/// The loop and the key, and no limiter.
pub const NOBODY: &str = "nobody: reads the key";

/// Is `subject` asked for? Without a text every one is; otherwise those whose name contains it, and what they
/// are divided by.
pub fn is_chosen(subject: &str, only: Option<&str>) -> bool {
    subject == GOVERNOR || only.is_none_or(|text| subject.contains(text))
}

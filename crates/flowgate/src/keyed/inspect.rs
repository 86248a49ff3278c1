use super::Keyed;
use super::algorithm::KeyedAlgorithm;
use super::entry::{Place, ticks};
use super::names::KeyNames;
use super::table::Who;
use crate::limiter::Snapshot;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Reverse;
use core::fmt;

/// An identifier of a key in a [`Keyed`] limiter.
///
/// It consists of a part of the secret hash and the position in the table.
///
/// The identifier does not contain the key. To find out whether it belongs to a given key, compare it with [`Keyed::id_of`].
///
/// ```
/// use flowgate::Keyed;
///
/// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
/// limits.try_acquire("alice")?;
/// let somebody = limits.most_used(1)[0].id;
/// assert_eq!(somebody, limits.id_of("alice"));
/// assert_ne!(somebody, limits.id_of("bob"));
/// println!("{somebody} asks for a lot"); // for logs where names must not be
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    line: usize,
    fingerprint: u64,
}

/// A key that has taken something, and what remains of its limit.
///
/// [`Keyed::most_used`] returns it.
///
/// ```
/// use flowgate::Keyed;
///
/// let limits = Keyed::token_bucket("10/h".parse()?).exact::<str>().capacity(100)?;
/// limits.try_acquire_n("alice", 9)?;
/// limits.try_acquire_n("bob", 2)?;
/// for usage in limits.most_used(10) {
///     println!("{} has {} left", usage.key, usage.snapshot.remaining); // alice first
/// }
/// assert_eq!(limits.most_used(10)[0].key, "alice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyUsage<K = ()> {
    /// The identifier of the key.
    pub id: KeyId,
    /// The key, if the limiter [keeps](super::Exact) them.
    pub key: K,
    /// What remains, and when the limit is full again.
    ///
    /// It is computed by the limiter's own quota, even if the key was used [with](Keyed::with) a per-key quota.
    pub snapshot: Snapshot,
}

impl KeyId {
    /// The identifier of a key in a table of `lines` lines. It contains the lower of the key's two lines.
    fn new(place: &Place, lines: usize) -> Self {
        Self {
            line: place.line.min(place.turned(lines).line),
            fingerprint: place.fingerprint,
        }
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.line, self.fingerprint)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Keyed<A, N> {
    pub(super) fn id_at(&self, place: &Place) -> KeyId {
        KeyId::new(place, self.keys.table.lines())
    }

    /// Returns up to `most` keys, first those that are farthest from full.
    ///
    /// It reads every table entry. Other threads can decide at the same time.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// limits.try_acquire_n("alice", 9)?;
    /// limits.try_acquire_n("bob", 2)?;
    /// let top = limits.most_used(1);
    /// assert_eq!(top[0].id, limits.id_of("alice"));
    /// assert_eq!(top[0].snapshot.remaining, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn most_used(&self, most: usize) -> Vec<KeyUsage<N::Owned>> {
        let now = ticks(self.clock.now().as_nanos());
        // The farthest of the entries so far. The nearest of them is on top.
        let mut farthest = BinaryHeap::new();
        for (line, slot) in self.keys.table.all() {
            let state = slot.entry.state();
            if state <= now {
                continue;
            }
            farthest.push(Reverse((state, line, slot.index, slot.entry.fingerprint())));
            if farthest.len() > most {
                farthest.pop();
            }
        }
        let usage = |Reverse((_, line, slot, fingerprint))| {
            let place = Place { fingerprint, line };
            let key = self.keys.table.name(slot, fingerprint)?;
            let who = Who {
                place,
                key: key.borrow(),
            };
            let snapshot = self.seen_as(who).snapshot();
            let id = self.id_at(&place);
            Some(KeyUsage { id, key, snapshot })
        };
        farthest
            .into_sorted_vec()
            .into_iter()
            .filter_map(usage)
            .collect()
    }
}

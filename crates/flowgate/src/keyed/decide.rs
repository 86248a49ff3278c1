//! One decision, from the key to the swap of its entry.
//!
//! The limiter hashes the key and looks for it in the key's two lines. In the usual case, the key has an entry in the table's
//! terms, has no waiters, and no other thread changes the entry. One step of the algorithm and one compare-and-swap then remain. In
//! all other cases, the [`KeyLimiter`](super::KeyLimiter) of the key decides. It takes more care and comes to the same result.

use super::Keyed;
use super::algorithm::KeyedAlgorithm;
use super::current::{SPAN, TOKEN, WORDS, terms};
use super::each::{Each, prefetch};
use super::entry::{Entry, TICK_BITS, TICKS_PER_NS};
use super::known::denied;
use super::names::{AsKey, KeyNames};
use super::rule::Rule;
use super::table::Who;
use crate::algorithm::token_bucket;
use crate::primitive::Ordering;
use crate::primitive::backoff;
use crate::primitive::versioned::Version;
use crate::verdict::Denied;

impl<A: KeyedAlgorithm, N: KeyNames> Keyed<A, N> {
    /// Takes one token of `key`.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available ([`retry_after`](Denied::retry_after)), callers wait for the key, or the table
    /// has no entry for the key ([`is_table_full`](Denied::is_table_full)). Nothing is then taken.
    #[inline]
    pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.take(self.keys.table.who(key), None)
    }

    /// Takes `n` units of `key`, all or none.
    ///
    /// `n` = 0 succeeds and changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if fewer than `n` units are available ([`retry_after`](Denied::retry_after)), callers wait for the key,
    /// the table has no entry for the key ([`is_table_full`](Denied::is_table_full)), or `n` is more than the quota ever allows
    /// ([`is_never`](Denied::is_never)). Nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.take(self.keys.table.who(key), Some(n))
    }

    /// Takes one token of each of `keys`, and returns the answers in their order.
    ///
    /// Each answer is that of [`try_acquire`](Self::try_acquire), made when the iterator returns it. A key that stands twice pays
    /// twice. Keys that are not iterated over pay nothing.
    ///
    /// With many keys, one decision mostly waits for the memory of its key. This method reads that memory for several keys
    /// together, so it is faster from a few thousand keys on. Use it for requests that come together: the items of a batch, or
    /// the commands of a pipeline.
    ///
    /// ```
    /// use flowgate::Keyed;
    ///
    /// let limits = Keyed::token_bucket("2/h".parse()?).capacity(1_000_000)?;
    /// let senders = ["alice", "bob", "alice", "alice"];
    ///
    /// let sent = senders.iter().zip(limits.try_acquire_each(&senders)).filter(|(_, answer)| answer.is_ok());
    /// assert!(sent.map(|(sender, _)| *sender).eq(["alice", "bob", "alice"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Each answer has the errors of [`try_acquire`](Self::try_acquire).
    #[must_use = "keys that are not iterated over are not decided"]
    pub fn try_acquire_each<'a, K: AsKey<N>>(
        &'a self,
        keys: &'a [K],
    ) -> impl ExactSizeIterator<Item = Result<(), Denied>> + use<'a, A, N, K> {
        Each::new(self, keys)
    }

    /// Reads the memory of `keys` ahead, so that decisions about them soon afterwards are faster. It decides nothing.
    ///
    /// Use it where the next keys are known before their requests, as in a replay. For requests that come together,
    /// [`try_acquire_each`](Self::try_acquire_each) does it by itself. About 16 keys at a time are best. A small table is in the
    /// processor's caches already, and the method then does nothing.
    ///
    /// ```
    /// use flowgate::Keyed;
    ///
    /// let limits = Keyed::token_bucket("2/h".parse()?).capacity(1_000_000)?;
    /// let next = ["alice", "bob"];
    /// limits.prefetch(&next);
    /// assert!(next.iter().all(|sender| limits.try_acquire(sender).is_ok()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefetch<K: AsKey<N>>(&self, keys: &[K]) {
        prefetch(self, keys);
    }

    /// Takes `n` units, or a token, at the time of the clock.
    #[inline(always)]
    pub(super) fn take(&self, who: Who<'_, N>, n: Option<u64>) -> Result<(), Denied> {
        if A::Rule::ADMITS_ALL {
            return Ok(());
        }
        let now_ns = self.clock.now().as_nanos();
        let force = &self.keys.force;
        // This block is left if the case is not the usual one.
        'plain: {
            let generation = force.generation.load(Ordering::Acquire);
            let Some((slot, _held)) = self.keys.table.find(who) else {
                break 'plain;
            };
            let Some(state) = slot.entry.plain_state(generation) else {
                break 'plain;
            };
            // Read after the entry, so that it has not been exchanged since.
            if now_ns < force.settled_ns.load(Ordering::Acquire) {
                break 'plain;
            }
            let now = u128::from(now_ns) << TICK_BITS;
            let taken = if A::Rule::HAS_PRICE && n.is_none() {
                let price = force.terms.read(generation, |version| {
                    (version.double_word(TOKEN), version.double_word(SPAN))
                });
                let Some((token, span)) = price else {
                    break 'plain;
                };
                let taken = token_bucket::take(state, now, token, span);
                taken.map_err(|missing| Denied::later(missing, TICKS_PER_NS))
            } else {
                let terms = |version: &Version<WORDS>| terms(version, generation);
                let Some(terms) = force.terms.read(generation, terms) else {
                    break 'plain;
                };
                let n = n.unwrap_or(terms.scale);
                if n == 0 || n > terms.most {
                    break 'plain;
                }
                let taken = A::Rule::take(state, now, n, &terms);
                taken.map_err(|missing| denied::<A::Rule>(missing, state, now, n, &terms))
            };
            match taken {
                Err(denied) => return Err(denied),
                // Only the state changes.
                Ok(next) if slot.swap(Entry(slot.entry.0 - state + next)) => return Ok(()),
                Ok(_) => backoff::pause(0, now_ns),
            }
        }
        self.take_slowly(who, now_ns, n)
    }

    #[inline(never)]
    fn take_slowly(&self, who: Who<'_, N>, now_ns: u64, n: Option<u64>) -> Result<(), Denied> {
        let key = self.seen_as(who);
        key.take_slowly(&key.asked_at(now_ns), n)
    }
}

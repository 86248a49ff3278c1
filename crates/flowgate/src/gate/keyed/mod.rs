//! [`KeyedGate`]: a limit per key and the limits that all keys share, in one permit.

mod acquire;
mod builder;
#[cfg(all(test, flowgate_shuttle))]
mod schedules;

pub use acquire::KeyedTurn;
pub use builder::KeyedGateBuilder;

use super::Gate;
use crate::concurrency::limit::OwnedPermit;
use crate::keyed::{
    AsKey, Hashed, KeyLimiter, KeyNames, Keyed, KeyedAlgorithm, KeyedConcurrencyLimit,
};
use crate::limiter::Limiter;
use crate::queue::{Acquire, Supply};
use crate::verdict::Denied;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

/// A gate of **a limit per key** and limits that **all keys share**.
///
/// It admits an operation only if the limit of its key and all shared limits do. Otherwise it takes **nothing** from any of
/// them.
///
/// For example, a crawler may visit each host every two seconds, and have fifty requests in flight. If it asks for the two
/// one after the other, the host's token is taken long before a permit is free. Its requests then leave closer together than
/// the host allows. A keyed gate takes both at one instant.
///
/// ```text
///                      key "a" ──┐ first waiter of each key:         ┌─ "slots"
///   acquire("a") ──▶   key "b" ──┤ waits until its key allows it ──▶ ┤            ──▶ the token of the key, now: a permit
///                      key "c" ──┘                                   └─ "per second"
/// ```
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, Keyed};
///
/// let gate = Gate::builder()
///     .limit("slots", ConcurrencyLimit::new(50))
///     .keyed("host", Keyed::leaky_bucket("1/2s".parse()?).capacity(10_000)?)
///     .build()?;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let permit = gate.acquire("example.org").await?;
/// // … the request …
/// drop(permit); // the slot is free again; the turn of the host stays used
/// # Ok::<(), flowgate::Denied>(())
/// # })?;
/// let denied = gate.try_acquire("example.org").unwrap_err();
/// assert_eq!(gate.name_of(&denied), Some("host"));
/// assert!(gate.try_acquire("example.com").is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// A keyed gate has the [guarantees](crate::guide::guarantees) of the limit of each key and of the shared limits. The token
/// of a key is taken when the permit is granted. The time between two permits of a key is therefore never shorter than its
/// limit allows, however long a permit takes to become free.
///
/// # Order
///
/// Waiters of one key are served in order. Waiters of different keys do not wait for one another's keys. The first waiter of
/// each key joins the queue of the shared limits as soon as its key allows it, and that queue is served in order.
///
/// # Amounts
///
/// `n` counts operations: `n` tokens of the key, and `n` of each shared limit, as in a [`Gate`].
///
/// # Full tables
///
/// A key for which its table has [no room](crate::WhenFull::Deny) is refused immediately
/// ([`is_table_full`](Denied::is_table_full)). A wait for a key does not wait until other keys leave the table.
///
/// # Sharing
///
/// The keys and the shared limits can also be used directly ([`keys`](Self::keys), [`shared`](Self::shared)). If another
/// caller takes a key's token in this way, a wait for that key returns what it had taken of the shared limits, and waits
/// again.
///
/// # Cancel safety
///
/// If a wait is dropped, nothing is taken from its key, and the shared limits get back what a [`Gate`] gives back.
///
/// # Memory
///
/// The memory of the keys ([`Keyed::bytes`]) and of the shared limits.
pub struct KeyedGate<A: KeyedAlgorithm, N: KeyNames = Hashed>(Arc<Members<A, N>>);

/// What a keyed gate and its waits share.
struct Members<A: KeyedAlgorithm, N: KeyNames> {
    shared: Arc<Gate>,
    keys: Arc<Keyed<A, N>>,
    name: Box<str>,
    /// The order of the waits of each key: one permit per key.
    turns: Arc<KeyedConcurrencyLimit>,
}

/// The limit of one key.
type Key<A, N> = KeyLimiter<'static, A, N>;

impl<A: KeyedAlgorithm, N: KeyNames> KeyedGate<A, N> {
    /// Acquires one token of `key` and one of each shared limit, or nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the limit of the key or a shared limit refuses, or if other callers wait for the key.
    /// [`name_of`](Self::name_of) returns the name of the limit.
    pub fn try_acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<OwnedPermit<Gate>, Denied> {
        self.try_acquire_n(key, 1)
    }

    /// Acquires `n` tokens of `key` and of each shared limit, or nothing.
    ///
    /// If `n` is 0, nothing is taken.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], as [`try_acquire`](Self::try_acquire) does: if the limit of the key or a shared limit refuses, or
    /// if other callers wait for the key.
    pub fn try_acquire_n(
        &self,
        key: &(impl AsKey<N> + ?Sized),
        n: u64,
    ) -> Result<OwnedPermit<Gate>, Denied> {
        let (members, key) = (&*self.0, self.0.keys.key_owned(key));
        if n == 0 {
            return members.shared.try_acquire_n_owned(0);
        }
        let turn = members.turns.try_acquire_owned(&key.place());
        // The refusal of the key comes first: for waiters of the same key, no time is known.
        members.look(&key, n)?;
        let _turn = turn.map_err(|denied| members.by_key(denied))?;
        let permit = members.shared.try_acquire_n_owned(n)?;
        members.take(&key, permit)
    }

    /// Waits for `key` and the shared limits; see [`Acquire`] for amounts and deadlines.
    ///
    /// The future borrows nothing, so it may move into a task.
    ///
    /// If the key or the shared limits cannot meet the deadline, the wait fails immediately. While other callers wait for the
    /// same key, it fails at its deadline instead.
    ///
    /// ```
    /// use flowgate::{ConcurrencyLimit, Gate, Keyed, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let slots = ConcurrencyLimit::builder(50).clock(&clock).build()?;
    /// let hosts = Keyed::leaky_bucket("1/2s".parse()?).clock(&clock).capacity(10_000)?;
    /// let gate = Gate::builder().limit("slots", slots).keyed("host", hosts).build()?;
    ///
    /// let first = gate.acquire("example.org").block()?;
    /// let denied = gate.acquire("example.org").within(Duration::from_secs(1)).block().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1))); // then, a second would do
    /// # drop(first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Acquire<KeyedTurn<A, N>> {
        Acquire::new(self.turn_of(key))
    }

    pub(crate) fn turn_of(&self, key: &(impl AsKey<N> + ?Sized)) -> KeyedTurn<A, N> {
        KeyedTurn::new(&self.0, self.0.keys.key_owned(key))
    }

    /// Returns the shared limits.
    pub fn shared(&self) -> &Arc<Gate> {
        &self.0.shared
    }

    /// Returns the limits of the keys.
    pub fn keys(&self) -> &Arc<Keyed<A, N>> {
        &self.0.keys
    }

    /// Returns the names of the shared limits in order, then that of the keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.shared.names().chain([&*self.0.name])
    }

    /// Returns the name of the limit that refused; `None` if none of them did.
    pub fn name_of(&self, denied: &Denied) -> Option<&str> {
        self.names().nth(denied.limit()?)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Members<A, N> {
    /// Returns whether the limit of `key` would allow `n` operations now.
    fn look(&self, key: &Key<A, N>, n: u64) -> Result<(), Denied> {
        let token = key.facts().token;
        let allowed = key.peek_n_at(self.keys.clock().now(), n.saturating_mul(token));
        allowed.map_err(|denied| self.by_key(denied.of_tokens(n, token)))
    }

    /// Takes the tokens of `key` that `permit` is for. If the key refuses, the shared limits get theirs back.
    fn take(
        &self,
        key: &Key<A, N>,
        permit: OwnedPermit<Gate>,
    ) -> Result<OwnedPermit<Gate>, Denied> {
        let (n, token) = (permit.units(), key.facts().token);
        match key.try_acquire_n(n.saturating_mul(token)) {
            Ok(()) => Ok(permit),
            // Another caller uses the key directly, or its quota has just changed.
            Err(denied) => {
                permit.take_back(self.keys.clock().now());
                Err(self.by_key(denied.of_tokens(n, token)))
            }
        }
    }

    fn by_key(&self, denied: Denied) -> Denied {
        denied.by_limit(self.shared.names().count())
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyedGate<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedGate")
            .field("shared", &self.0.shared)
            .field(&self.0.name, &self.0.keys)
            .finish_non_exhaustive()
    }
}

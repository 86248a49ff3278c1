use super::{KeyedGate, Members};
use crate::gate::{GateBuilder, GateError};
use crate::keyed::{KeyNames, Keyed, KeyedAlgorithm, KeyedConcurrencyLimit};
use crate::limiter::Limit;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

/// The limits that a [`KeyedGate`] will have.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Gate, GateError, Keyed, TokenBucket};
///
/// let tenants = Keyed::token_bucket("10/s".parse()?).capacity(1000)?;
/// let gate = Gate::builder()
///     .keyed("tenant", tenants)
///     .limit("all", TokenBucket::new("100/s".parse()?))
///     .limit("slots", ConcurrencyLimit::new(20))
///     .build()?;
/// assert_eq!(gate.names().collect::<Vec<_>>(), ["all", "slots", "tenant"]);
///
/// let alone = Gate::builder().keyed("tenant", Keyed::token_bucket("10/s".parse()?).capacity(1000)?);
/// assert_eq!(alone.build().unwrap_err(), GateError::NoLimits);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder builds nothing until `build` is called"]
pub struct KeyedGateBuilder<A: KeyedAlgorithm, N: KeyNames> {
    shared: GateBuilder,
    name: Box<str>,
    keys: Arc<Keyed<A, N>>,
}

impl GateBuilder {
    /// Adds a limit for each key to the limits that all keys share.
    ///
    /// The result builds a [`KeyedGate`]. The same keys can also be used elsewhere if they are in an [`Arc`].
    pub fn keyed<A: KeyedAlgorithm, N: KeyNames>(
        self,
        name: &str,
        keys: impl Into<Arc<Keyed<A, N>>>,
    ) -> KeyedGateBuilder<A, N> {
        KeyedGateBuilder {
            shared: self,
            name: name.into(),
            keys: keys.into(),
        }
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> KeyedGateBuilder<A, N> {
    /// Adds a shared limit: any limiter, or a concurrency limit. Refusals report its name.
    pub fn limit(mut self, name: &str, limit: impl Limit) -> Self {
        self.shared = self.shared.limit(name, limit);
        self
    }

    /// Builds the gate.
    ///
    /// # Errors
    ///
    /// Returns [`GateError`] if the gate is not possible:
    ///
    /// - There is no shared limit. Use the keys alone in that case.
    /// - There are more than 255 limits.
    /// - Two limits have the same name.
    /// - The limits do not share one clock.
    /// - A limiter is in the gate twice, for example as a shared limit and as one of the keys.
    /// - There is not enough memory to order the waiters of as many keys as the table's capacity.
    pub fn build(self) -> Result<KeyedGate<A, N>, GateError> {
        let Self { shared, name, keys } = self;
        let shared = shared.build()?;
        if shared.names().any(|other| *other == *name) {
            return Err(GateError::SameName(name.into_string()));
        }
        let limits = shared.names().count() + 1;
        if limits > usize::from(u8::MAX) {
            return Err(GateError::TooMany { limits });
        }
        if !keys.clock().is(shared.clock()) {
            return Err(GateError::OtherClock(name.into_string()));
        }
        if let Some(first) = shared.name_of_key_in(&*keys) {
            return Err(GateError::SameLimiter {
                first: first.to_owned(),
                second: name.into_string(),
            });
        }
        let turns = KeyedConcurrencyLimit::builder(1).clock(keys.clock());
        let turns = turns.capacity(keys.capacity()).map_err(GateError::Turns)?;
        Ok(KeyedGate(Arc::new(Members {
            shared: Arc::new(shared),
            keys,
            name,
            turns: Arc::new(turns),
        })))
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for KeyedGateBuilder<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedGateBuilder")
            .field("shared", &self.shared)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

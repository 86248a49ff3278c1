use super::sealed::Sealed;
use super::{
    Answer, AnyWait, Cause, Custom, Names, Patience, Permit, Standing, Turn, gate, standing,
};
use crate::RequestHead;
use flowgate::engine::Engine;
use flowgate::{
    Adapt, AdaptiveLimit, Clock, ConcurrencyLimit, Denied, Gate, KeyLimiter, KeyNames,
    KeyedAlgorithm, Limiter, Observed, OneWord, RateLimiter, Striped,
};
use std::sync::Arc;
use std::time::Duration;

/// A limit that all requests share: a rate limiter, a concurrency limit, or a gate.
///
/// Every limiter converts into it ([`From`]), and so does [a limiter of your own](Custom). Pass the limiter by value, or in
/// an [`Arc`] if the program keeps a handle to it, for example to change the quota.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Striped, TokenBucket};
/// use flowgate_tower::{AnyLimit, LimitLayer};
///
/// /// What a program's configuration may say.
/// fn configured(text: &str) -> Result<AnyLimit, Box<dyn std::error::Error>> {
///     Ok(match text.strip_suffix(" at once") {
///         Some(slots) => ConcurrencyLimit::new(slots.parse()?).into(),
///         None => TokenBucket::new(text.parse()?).into(),
///     })
/// }
///
/// assert!(matches!(configured("50 at once")?, AnyLimit::Concurrency(limit) if limit.limit() == 50));
/// assert!(matches!(configured("1000/s")?, AnyLimit::Rate(_)));
/// let layer = LimitLayer::new(configured("1000/s")?);
///
/// let striped = Striped::new(TokenBucket::new("1000000/s".parse()?)); // for many processors
/// assert!(matches!(striped.into(), AnyLimit::Rate(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyLimit {
    /// A rate limiter: requests take tokens.
    Rate(Arc<dyn Limiter>),
    /// A concurrency limit: a permit is held until the end of the response.
    Concurrency(Arc<ConcurrencyLimit>),
    /// A concurrency limit that an algorithm sets. It learns from the [outcomes](crate::LimitLayer::outcome_of) of requests.
    Adaptive(Arc<AdaptiveLimit<dyn Adapt>>),
    /// Several limits: a request takes from all of them, or from none.
    Gate(Arc<Gate>),
    /// A limiter that is not part of this library.
    Custom(Arc<Custom>),
}

impl<E: Engine> From<RateLimiter<E>> for AnyLimit {
    fn from(limiter: RateLimiter<E>) -> Self {
        Self::Rate(Arc::new(limiter))
    }
}

impl<E: Engine> From<Arc<RateLimiter<E>>> for AnyLimit {
    fn from(limiter: Arc<RateLimiter<E>>) -> Self {
        Self::Rate(limiter)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames + 'static> From<KeyLimiter<'static, A, N>> for AnyLimit
where
    KeyLimiter<'static, A, N>: Limiter,
{
    fn from(limiter: KeyLimiter<'static, A, N>) -> Self {
        Self::Rate(Arc::new(limiter))
    }
}

impl AnyLimit {
    /// The time for each token; of a gate, that of its slowest limiter. `None` without a quota.
    pub(crate) fn each(&self) -> Option<Duration> {
        match self {
            Self::Rate(limiter) => standing::each(&**limiter),
            Self::Concurrency(_) | Self::Adaptive(_) => None,
            Self::Gate(members) => gate::each(members),
            Self::Custom(custom) => custom.each(&()),
        }
    }
}

macro_rules! from_limiters {
    ($($limiter:ident <$inner:ident: $bound:ident>)*) => {$(
        impl<$inner: $bound + 'static> From<$limiter<$inner>> for AnyLimit {
            fn from(limiter: $limiter<$inner>) -> Self {
                Self::Rate(Arc::new(limiter))
            }
        }

        impl<$inner: $bound + 'static> From<Arc<$limiter<$inner>>> for AnyLimit {
            fn from(limiter: Arc<$limiter<$inner>>) -> Self {
                Self::Rate(limiter)
            }
        }
    )*};
}

from_limiters!(Observed<L: Limiter> Striped<L: OneWord>);

impl From<Arc<dyn Limiter>> for AnyLimit {
    fn from(limiter: Arc<dyn Limiter>) -> Self {
        Self::Rate(limiter)
    }
}

impl From<ConcurrencyLimit> for AnyLimit {
    fn from(limit: ConcurrencyLimit) -> Self {
        Self::Concurrency(Arc::new(limit))
    }
}

impl From<Arc<ConcurrencyLimit>> for AnyLimit {
    fn from(limit: Arc<ConcurrencyLimit>) -> Self {
        Self::Concurrency(limit)
    }
}

impl<A: Adapt> From<AdaptiveLimit<A>> for AnyLimit {
    fn from(limit: AdaptiveLimit<A>) -> Self {
        Self::Adaptive(Arc::new(limit))
    }
}

impl<A: Adapt> From<Arc<AdaptiveLimit<A>>> for AnyLimit {
    fn from(limit: Arc<AdaptiveLimit<A>>) -> Self {
        Self::Adaptive(limit)
    }
}

impl From<Arc<AdaptiveLimit<dyn Adapt>>> for AnyLimit {
    fn from(limit: Arc<AdaptiveLimit<dyn Adapt>>) -> Self {
        Self::Adaptive(limit)
    }
}

impl From<Gate> for AnyLimit {
    fn from(gate: Gate) -> Self {
        Self::Gate(Arc::new(gate))
    }
}

impl From<Arc<Gate>> for AnyLimit {
    fn from(gate: Arc<Gate>) -> Self {
        Self::Gate(gate)
    }
}

impl From<Custom> for AnyLimit {
    fn from(limit: Custom) -> Self {
        Self::Custom(Arc::new(limit))
    }
}

impl Sealed for AnyLimit {
    type Key = ();
    type Wait = AnyWait;

    fn clock(&self) -> &Clock {
        match self {
            Self::Rate(limiter) => limiter.clock(),
            Self::Concurrency(limit) => limit.clock(),
            Self::Adaptive(limit) => limit.clock(),
            Self::Gate(gate) => gate.clock(),
            Self::Custom(custom) => custom.clock(),
        }
    }

    fn key(&self, _: &RequestHead<'_>) -> Result<Option<()>, Cause> {
        Ok(Some(()))
    }

    fn try_take(&self, (): &(), cost: Option<u64>) -> Result<Option<Permit>, Denied> {
        match (self, cost) {
            (Self::Rate(limiter), None) => limiter.try_acquire().map(|()| None),
            (Self::Rate(limiter), Some(n)) => limiter.try_acquire_n(n).map(|()| None),
            (Self::Concurrency(limit), _) => limit
                .try_acquire_n_owned(cost.unwrap_or(1))
                .map(|permit| Some(Permit::slots(permit))),
            (Self::Adaptive(limit), _) => limit
                .try_acquire_n_owned(cost.unwrap_or(1))
                .map(|permit| Some(Permit::adaptive(permit))),
            (Self::Gate(gate), _) => gate
                .try_acquire_n_owned(cost.unwrap_or(1))
                .map(|permit| Some(Permit::gate(permit))),
            (Self::Custom(_), _) => Err(Denied::busy()),
        }
    }

    fn takes_time(&self, (): &()) -> bool {
        matches!(self, Self::Custom(_))
    }

    fn wait(&self, (): &(), cost: Option<u64>, patience: Patience) -> AnyWait {
        match self {
            Self::Rate(limiter) => {
                AnyWait::Rate(Turn::new(limiter.acquire_owned(), cost, patience))
            }
            Self::Concurrency(limit) => {
                AnyWait::Slots(Turn::new(limit.acquire_owned(), cost, patience))
            }
            Self::Adaptive(limit) => {
                AnyWait::Adaptive(Turn::new(limit.acquire_owned(), cost, patience))
            }
            Self::Gate(gate) => AnyWait::Gate(Turn::new(gate.acquire_owned(), cost, patience)),
            Self::Custom(custom) => AnyWait::Custom(Box::new(custom.ask((), cost, patience))),
        }
    }

    fn token(&self, (): &()) -> u64 {
        match self {
            Self::Rate(limiter) => gate::token_of(&**limiter),
            Self::Concurrency(_) | Self::Adaptive(_) | Self::Gate(_) | Self::Custom(_) => 1,
        }
    }

    fn refund(&self, (): &(), n: u64) {
        match self {
            Self::Rate(limiter) => _ = limiter.refund(n),
            Self::Concurrency(_) | Self::Adaptive(_) => {}
            Self::Gate(members) => gate::refund(members, n),
            Self::Custom(custom) => custom.refund(&(), n),
        }
    }

    fn charge(&self, (): &(), n: u64) {
        match self {
            Self::Rate(limiter) => limiter.charge(n),
            Self::Concurrency(_) | Self::Adaptive(_) => {}
            Self::Gate(members) => gate::charge(members, n),
            Self::Custom(custom) => custom.charge(&(), n),
        }
    }

    fn standings(
        &self,
        (): &(),
        names: &Names,
        answer: Answer<'_>,
        mut tell: impl FnMut(&Standing<'_>),
    ) {
        match self {
            Self::Rate(limiter) => standing::of_limiter(names, &**limiter, tell),
            Self::Concurrency(limit) => tell(&Standing::of_slots(&names.limit, limit.snapshot())),
            Self::Adaptive(limit) => tell(&Standing::of_slots(&names.limit, limit.snapshot())),
            Self::Gate(members) => gate::standings(members, tell),
            Self::Custom(custom) => custom.standings(&(), names, answer, tell),
        }
    }

    fn name_of<'a>(&'a self, (): &(), denied: &Denied, names: &'a Names) -> &'a str {
        match self {
            Self::Rate(limiter) => {
                let is_one_of_two = || limiter.quota_states().is_some();
                names.of_quota(denied, is_one_of_two)
            }
            Self::Gate(gate) => gate.name_of(denied).unwrap_or(&names.limit),
            Self::Concurrency(_) | Self::Adaptive(_) | Self::Custom(_) => &names.limit,
        }
    }

    fn is_the_clients(&self, (): &(), _: &Denied) -> bool {
        false
    }
}

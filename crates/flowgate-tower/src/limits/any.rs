use super::sealed::Sealed;
use super::{AnyWait, Cause, Permit, Standing, Turn};
use crate::RequestHead;
use flowgate::{
    ApproximateWindow, ConcurrencyLimit, DecayingBucket, Denied, FixedWindow, Gate, LeakyBucket,
    Limiter, Observed, OneWord, PayAfter, SegmentedWindow, SlidingWindow, Striped, Timestamp,
    TokenBucket, Unlimited, WarmUp,
};
use std::sync::Arc;
use std::time::Duration;

/// A limit that all requests share: of rate, of concurrency, or several behind a gate.
///
/// Every limiter is one ([`From`]), by itself or in an [`Arc`] that the program keeps a handle of, as to change the
/// quota.
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
    /// Of rate: tokens are spent.
    Rate(Arc<dyn Limiter>),
    /// Of concurrency: a slot is in use until the end of the response.
    Concurrency(Arc<ConcurrencyLimit>),
    /// Several, all or none.
    Gate(Arc<Gate>),
}

impl AnyLimit {
    /// Waits for one token or permit, until `deadline` at the latest.
    pub(crate) fn wait_by(&self, deadline: Option<Timestamp>) -> AnyWait {
        match self {
            Self::Rate(limiter) => AnyWait::Rate(Turn::by(limiter.acquire_owned(), deadline)),
            Self::Concurrency(limit) => AnyWait::Slots(Turn::by(limit.acquire_owned(), deadline)),
            Self::Gate(gate) => AnyWait::Gate(Turn::by(gate.acquire_owned(), deadline)),
        }
    }
}

macro_rules! from_limiters {
    ($($limiter:ident $(<$inner:ident: $bound:ident>)?)*) => {$(
        impl$(<$inner: $bound + 'static>)? From<$limiter$(<$inner>)?> for AnyLimit {
            fn from(limiter: $limiter$(<$inner>)?) -> Self {
                Self::Rate(Arc::new(limiter))
            }
        }

        impl$(<$inner: $bound + 'static>)? From<Arc<$limiter$(<$inner>)?>> for AnyLimit {
            fn from(limiter: Arc<$limiter$(<$inner>)?>) -> Self {
                Self::Rate(limiter)
            }
        }
    )*};
}

from_limiters!(TokenBucket LeakyBucket FixedWindow SlidingWindow SegmentedWindow ApproximateWindow WarmUp PayAfter
    DecayingBucket Unlimited Observed<L: Limiter> Striped<L: OneWord>);

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

impl Sealed for AnyLimit {
    type Key = ();
    type Wait = AnyWait;

    fn key(&self, _: &RequestHead<'_>) -> Result<Option<()>, Cause> {
        Ok(Some(()))
    }

    fn try_take(&self, (): &(), cost: Option<u64>) -> Result<Option<Permit>, Denied> {
        match (self, cost) {
            (Self::Rate(limiter), None) => limiter.try_acquire().map(|()| None),
            (Self::Rate(limiter), Some(n)) => limiter.try_acquire_n(n).map(|()| None),
            (Self::Concurrency(limit), _) => limit
                .try_acquire_n_owned(cost.unwrap_or(1))
                .map(|permit| Some(Permit::Slots(permit))),
            (Self::Gate(gate), _) => gate
                .try_acquire_n_owned(cost.unwrap_or(1))
                .map(|permit| Some(Permit::Gate(permit))),
        }
    }

    fn wait(&self, (): &(), cost: Option<u64>, patience: Duration) -> AnyWait {
        match self {
            Self::Rate(limiter) => {
                AnyWait::Rate(Turn::new(limiter.acquire_owned(), cost, patience))
            }
            Self::Concurrency(limit) => {
                AnyWait::Slots(Turn::new(limit.acquire_owned(), cost, patience))
            }
            Self::Gate(gate) => AnyWait::Gate(Turn::new(gate.acquire_owned(), cost, patience)),
        }
    }

    fn token(&self, (): &()) -> u64 {
        match self {
            Self::Rate(limiter) => token_of(&**limiter),
            Self::Concurrency(_) | Self::Gate(_) => 1,
        }
    }

    fn refund(&self, (): &(), n: u64) {
        match self {
            Self::Rate(limiter) => _ = limiter.refund(n),
            Self::Concurrency(_) => {}
            Self::Gate(gate) => for_each_rate(gate, |limiter| {
                limiter.refund(n.saturating_mul(token_of(limiter)));
            }),
        }
    }

    fn charge(&self, (): &(), n: u64) {
        match self {
            Self::Rate(limiter) => limiter.charge(n),
            Self::Concurrency(_) => {}
            Self::Gate(gate) => for_each_rate(gate, |limiter| {
                limiter.charge(n.saturating_mul(token_of(limiter)));
            }),
        }
    }

    fn standings(&self, (): &(), name: &str, mut tell: impl FnMut(&Standing<'_>)) {
        match self {
            Self::Rate(limiter) => tell(&Standing::of_limiter(name, &**limiter)),
            Self::Concurrency(limit) => tell(&Standing::of_slots(name, limit.snapshot())),
            Self::Gate(gate) => {
                for name in gate.names() {
                    let of_rate =
                        gate.inspect_limiter(name, |limiter| Standing::of_limiter(name, limiter));
                    let of_slots = || {
                        let snapshot = gate.inspect(name, ConcurrencyLimit::snapshot)?;
                        Some(Standing::of_slots(name, snapshot))
                    };
                    if let Some(standing) = of_rate.or_else(of_slots) {
                        tell(&standing);
                    }
                }
            }
        }
    }

    fn name_of(&self, denied: &Denied) -> Option<&str> {
        match self {
            Self::Gate(gate) => gate.name_of(denied),
            Self::Rate(_) | Self::Concurrency(_) => None,
        }
    }

    fn is_the_clients(&self, (): &()) -> bool {
        false
    }
}

/// How many units one token is.
fn token_of(limiter: &dyn Limiter) -> u64 {
    limiter.policy().map_or(1, |policy| policy.quota.scale())
}

/// Changes the limiters of rate of `gate`.
fn for_each_rate(gate: &Gate, change: impl Fn(&dyn Limiter)) {
    for name in gate.names() {
        gate.configure_limiter(name, &change);
    }
}

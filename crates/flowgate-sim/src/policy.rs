//! What decides on requests: a limiter of flowgate, or something else.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use flowgate::{
    Acquirable, Acquire, Adapt, AdaptiveLimit, AnyKeyed, CallOutcome, Codel, ConcurrencyLimit,
    Denied, FixedWindow, Gate, Keyed, KeyedAlgorithm, KeyedError, KeyedGate, KeyedLimiterConfig,
    Limiter, LimiterConfig, LimiterKind, ManualClock, Order, OwnedAdaptivePermit, OwnedPermit,
    Permit, Quota, QuotaError, Timestamp, WaitQueue,
};

use crate::bound::AdmissionBound;

/// A request, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose it is.
    pub key: u64,
    /// How many tokens it takes.
    pub cost: u64,
    /// Which attempt it is: 1 for the first.
    pub attempt: u32,
    /// How long its client will still wait, if it gives up at all.
    pub patience: Option<Duration>,
}

/// What a policy answers.
pub enum AdmissionDecision {
    /// The request goes ahead.
    Admit(Held),
    /// The request is refused.
    Refuse {
        /// When to come back, if that is known.
        retry_after: Option<Duration>,
    },
    /// The request waits.
    Wait(Wait),
}

/// A wait for an admission. It is polled when its waker is woken.
pub type Wait = Pin<Box<dyn Future<Output = Result<Held, Denied>>>>;

/// What an admitted request holds until it is over, such as a permit. It is given back when this is dropped.
#[derive(Default)]
pub struct Held(Holding);

/// The usual ones need no memory of their own.
#[derive(Default)]
enum Holding {
    #[default]
    Nothing,
    Permit {
        _permit: OwnedPermit,
    },
    GatePermit {
        _permit: Permit<Arc<Gate>>,
    },
    AdaptivePermit(OwnedAdaptivePermit<Box<dyn Adapt>>),
    Other {
        _held: Box<dyn Any>,
    },
}

impl Held {
    /// Nothing.
    pub fn nothing() -> Self {
        Self(Holding::Nothing)
    }

    /// Something that is dropped when the request is over.
    pub fn new(held: impl Any) -> Self {
        let _held: Box<dyn Any> = Box::new(held);
        Self(Holding::Other { _held })
    }

    fn permit(_permit: OwnedPermit) -> Self {
        Self(Holding::Permit { _permit })
    }

    fn adaptive_permit(permit: OwnedAdaptivePermit<Box<dyn Adapt>>) -> Self {
        Self(Holding::AdaptivePermit(permit))
    }

    fn gate_permit(_permit: Permit<Arc<Gate>>) -> Self {
        Self(Holding::GatePermit { _permit })
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Holding::Nothing => "Held(nothing)",
            _ => "Held",
        })
    }
}

impl fmt::Debug for AdmissionDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admit(held) => f.debug_tuple("Admit").field(held).finish(),
            Self::Refuse { retry_after } => f
                .debug_struct("Refuse")
                .field("retry_after", retry_after)
                .finish(),
            Self::Wait(_) => f.write_str("Wait"),
        }
    }
}

/// What decides on requests. Its limiters go by the clock that the [`Simulation`](crate::Simulation) moves.
pub trait AdmissionPolicy {
    /// Decides on a request.
    fn decide(&mut self, request: &Request) -> AdmissionDecision;

    /// Learns the keys of some of the next requests. It decides nothing, but may read memory ahead (default: nothing).
    fn expect(&self, keys: &[u64]) {
        let _ = keys;
    }

    /// Takes back what an admitted request held. It is over after `took`, served or not.
    fn finished(&mut self, request: &Request, held: Held, took: Duration, is_served: bool) {
        let _ = (request, held, took, is_served);
    }

    /// Returns the most tokens that are admitted in any window of this length, if there is such a bound (default: none).
    fn bound(&self, window: Duration) -> Option<AdmissionBound> {
        let _ = window;
        None
    }
}

/// No limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unprotected;

impl AdmissionPolicy for Unprotected {
    fn decide(&mut self, _: &Request) -> AdmissionDecision {
        AdmissionDecision::Admit(Held::nothing())
    }
}

/// A limiter of flowgate: for all requests, or for each key.
///
/// ```
/// use flowgate::{LimiterConfig, ManualClock};
/// use flowgate_sim::{AdmissionPolicy, LimiterPolicy};
/// use std::time::Duration;
///
/// let config: LimiterConfig = "fixed 100/s".parse()?;
/// let policy = LimiterPolicy::from_config(&config, &ManualClock::new())?;
/// let bound = policy.bound(Duration::from_secs(1)).expect("a window has a bound");
/// assert_eq!(bound.tokens, 199);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LimiterPolicy {
    limiter: AnyLimiter,
    longest_wait: Option<Duration>,
    /// What the limiter, or that of each key, was made from.
    config: Option<LimiterConfig>,
}

#[derive(Clone, Debug)]
enum AnyLimiter {
    Rate(Arc<dyn Limiter>),
    Keyed(AnyKeyed),
    Concurrency(Arc<ConcurrencyLimit>),
    Gate(Arc<Gate>),
    KeyedGate(Arc<dyn AnyKeyedGate>),
    Adaptive(Arc<AdaptiveLimit<Box<dyn Adapt>>>),
}

/// A [`KeyedGate`] of any kind of limit for each key.
trait AnyKeyedGate: fmt::Debug + Send + Sync {
    fn try_acquire(&self, key: u64) -> Result<Held, Denied>;

    fn acquire(&self, key: u64, patience: Duration) -> Wait;
}

impl<A: KeyedAlgorithm> AnyKeyedGate for KeyedGate<A> {
    fn try_acquire(&self, key: u64) -> Result<Held, Denied> {
        self.try_acquire(&key).map(Held::gate_permit)
    }

    fn acquire(&self, key: u64, patience: Duration) -> Wait {
        let wait = self.acquire(&key).within(patience);
        Waiting::boxed(wait, Held::gate_permit)
    }
}

impl LimiterPolicy {
    /// Creates the limiter that `config` describes. [`bound`](AdmissionPolicy::bound) reports what it guarantees.
    ///
    /// The windows of an `aligned` limiter begin with the run, so that each run is the same.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if a limiter of this kind does not accept the quotas.
    pub fn from_config(config: &LimiterConfig, time: &ManualClock) -> Result<Self, QuotaError> {
        Ok(Self {
            config: Some(*config),
            ..Self::rate(rate_limiter(config, time)?)
        })
    }

    /// Creates a limiter for each key, with room for `keys` active keys, as [`from_config`](Self::from_config) does.
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if limiters of this kind do not accept the quotas, or if there is no room for that many keys.
    pub fn from_keyed_config(
        config: &KeyedLimiterConfig,
        time: &ManualClock,
        keys: usize,
    ) -> Result<Self, KeyedError> {
        Ok(Self {
            config: Some(config.each()),
            ..Self::keyed(keyed_limiter(config, time, keys)?)
        })
    }

    /// Refuses what a rate limiter refuses.
    pub fn rate(limiter: Arc<dyn Limiter>) -> Self {
        Self::of(AnyLimiter::Rate(limiter))
    }

    /// Refuses what the limiter of a key refuses.
    pub fn keyed(limiter: AnyKeyed) -> Self {
        Self::of(AnyLimiter::Keyed(limiter))
    }

    /// Refuses what there is no permit for.
    pub fn concurrency(limit: Arc<ConcurrencyLimit>) -> Self {
        Self::of(AnyLimiter::Concurrency(limit))
    }

    /// Refuses what a limit that an algorithm sets has no permit for.
    ///
    /// A request that is not served counts as an overload.
    pub fn adaptive(limit: Arc<AdaptiveLimit<Box<dyn Adapt>>>) -> Self {
        Self::of(AnyLimiter::Adaptive(limit))
    }

    /// Refuses what one of several limits refuses.
    pub fn gate(gate: Arc<Gate>) -> Self {
        Self::of(AnyLimiter::Gate(gate))
    }

    /// Refuses what the limit of a key refuses, or a limit that all keys share.
    pub fn keyed_gate<A: KeyedAlgorithm>(gate: KeyedGate<A>) -> Self {
        Self::of(AnyLimiter::KeyedGate(Arc::new(gate)))
    }

    /// Sets how many requests may wait (default: a million). A limit for each key keeps its own bound.
    pub fn max_waiters(self, requests: usize) -> Self {
        self.with_queue(|queue| queue.set_max_waiters(requests))
    }

    /// Sets the order in which requests wait (default: FIFO). Those of a limit for each key wait in FIFO order.
    pub fn order(self, order: Order) -> Self {
        self.with_queue(|queue| queue.set_order(order))
    }

    /// Sets the rule by which a queue that persists sheds requests (default: none). A limit for each key sheds none.
    pub fn codel(self, codel: Codel) -> Self {
        self.with_queue(|queue| queue.set_codel(codel))
    }

    fn with_queue(self, set: impl FnOnce(WaitQueue<'_>) -> WaitQueue<'_>) -> Self {
        match &self.limiter {
            AnyLimiter::Rate(limiter) => _ = set(limiter.queue()),
            AnyLimiter::Concurrency(limit) => _ = set(limit.queue()),
            AnyLimiter::Gate(gate) => _ = set(gate.queue()),
            AnyLimiter::Adaptive(limit) => _ = set(limit.queue()),
            AnyLimiter::Keyed(_) | AnyLimiter::KeyedGate(_) => {}
        }
        self
    }

    /// Lets requests wait for this long (default: they do not wait).
    pub fn wait(mut self, longest: Duration) -> Self {
        self.longest_wait = Some(longest);
        self
    }

    fn of(limiter: AnyLimiter) -> Self {
        Self {
            limiter,
            longest_wait: None,
            config: None,
        }
    }

    fn try_acquire(&self, request: &Request) -> Result<Held, Denied> {
        let cost = request.cost;
        match &self.limiter {
            AnyLimiter::Rate(limiter) => limiter.try_acquire_n(cost).map(|()| Held::nothing()),
            // Without a handle on the key's limiter, if that is possible.
            AnyLimiter::Keyed(keyed) if cost == 1 => {
                keyed.try_acquire(&request.key).map(|()| Held::nothing())
            }
            AnyLimiter::Keyed(keyed) => {
                let limiter = keyed.key(&request.key);
                limiter.try_acquire_n(cost).map(|()| Held::nothing())
            }
            AnyLimiter::Concurrency(limit) => limit.try_acquire_n_owned(cost).map(Held::permit),
            AnyLimiter::Gate(gate) => gate.try_acquire_owned().map(Held::gate_permit),
            AnyLimiter::KeyedGate(gate) => gate.try_acquire(request.key),
            AnyLimiter::Adaptive(limit) => limit.try_acquire_owned().map(Held::adaptive_permit),
        }
    }

    /// Whether there are waiters that a new request does not overtake, as far as is known.
    fn has_waiters(&self) -> bool {
        match &self.limiter {
            AnyLimiter::Rate(limiter) => !limiter.queue().is_empty(),
            _ => false,
        }
    }

    fn acquire(&self, request: &Request, patience: Duration) -> Wait {
        let cost = request.cost;
        match &self.limiter {
            AnyLimiter::Rate(limiter) => {
                let wait = Acquire::new(Arc::clone(limiter)).n(cost).within(patience);
                Waiting::boxed(wait, |_| Held::nothing())
            }
            AnyLimiter::Keyed(keyed) => {
                let limiter = keyed.key(&request.key);
                let wait = Acquire::new(limiter).n(cost).within(patience);
                Waiting::boxed(wait, |_| Held::nothing())
            }
            AnyLimiter::Concurrency(limit) => {
                let wait = limit.acquire_owned().n(cost).within(patience);
                Waiting::boxed(wait, Held::permit)
            }
            AnyLimiter::Gate(gate) => {
                Waiting::boxed(gate.acquire_owned().within(patience), Held::gate_permit)
            }
            AnyLimiter::KeyedGate(gate) => gate.acquire(request.key, patience),
            AnyLimiter::Adaptive(limit) => Waiting::boxed(
                limit.acquire_owned().within(patience),
                Held::adaptive_permit,
            ),
        }
    }
}

/// A wait for a limiter, and what becomes of its grant.
struct Waiting<W: Acquirable> {
    wait: Acquire<W>,
    held: fn(W::Granted) -> Held,
}

impl<W: Acquirable + 'static> Waiting<W> {
    fn boxed(wait: Acquire<W>, held: fn(W::Granted) -> Held) -> Wait {
        Box::pin(Self { wait, held })
    }
}

impl<W: Acquirable> Future for Waiting<W> {
    type Output = Result<Held, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let held = self.held;
        Pin::new(&mut self.wait).poll(context).map_ok(held)
    }
}

/// The limiter that `config` describes. Aligned windows begin with the run.
pub(crate) fn rate_limiter(
    config: &LimiterConfig,
    time: &ManualClock,
) -> Result<Arc<dyn Limiter>, QuotaError> {
    match aligned_quota(config) {
        Some(quota) => {
            let windows = FixedWindow::builder(quota).clock(time);
            Ok(Arc::new(windows.align(Timestamp::ORIGIN).build()?))
        }
        None => config.build_on(time),
    }
}

/// The limiter for each key that `config` describes. Aligned windows begin with the run.
pub(crate) fn keyed_limiter(
    config: &KeyedLimiterConfig,
    time: &ManualClock,
    keys: usize,
) -> Result<AnyKeyed, KeyedError> {
    match aligned_quota(&config.each()) {
        Some(quota) => {
            let windows = Keyed::fixed_window(quota).clock(time);
            let windows = windows.align(Timestamp::ORIGIN).capacity(keys)?;
            Ok(AnyKeyed::FixedWindow(Arc::new(windows)))
        }
        None => config.build_on(time, keys),
    }
}

/// The quota of an aligned window. By the clock on the wall, its windows would begin at another time in each run.
fn aligned_quota(config: &LimiterConfig) -> Option<Quota> {
    match (config.kind(), config.quotas()?.as_slice()) {
        (LimiterKind::Aligned, [quota]) => Some(*quota),
        _ => None,
    }
}

impl AdmissionPolicy for LimiterPolicy {
    fn decide(&mut self, request: &Request) -> AdmissionDecision {
        let Some(longest) = self.longest_wait else {
            return match self.try_acquire(request) {
                Ok(held) => AdmissionDecision::Admit(held),
                Err(denied) => AdmissionDecision::Refuse {
                    retry_after: denied.retry_after(),
                },
            };
        };
        // Behind other waiters, it would be refused.
        if !self.has_waiters()
            && let Ok(held) = self.try_acquire(request)
        {
            return AdmissionDecision::Admit(held);
        }
        let patience = request.patience.unwrap_or(longest).min(longest);
        AdmissionDecision::Wait(self.acquire(request, patience))
    }

    fn expect(&self, keys: &[u64]) {
        if let AnyLimiter::Keyed(limits) = &self.limiter {
            limits.prefetch(keys);
        }
    }

    fn finished(&mut self, _: &Request, held: Held, _: Duration, is_served: bool) {
        if let Holding::AdaptivePermit(permit) = held.0 {
            permit.finish(match is_served {
                true => CallOutcome::Success,
                false => CallOutcome::Overload,
            });
        }
    }

    fn bound(&self, window: Duration) -> Option<AdmissionBound> {
        let tokens = AdmissionBound::of_config(self.config.as_ref()?, window)?;
        let is_per_key = matches!(self.limiter, AnyLimiter::Keyed(_));
        Some(AdmissionBound { tokens, is_per_key })
    }
}

//! What decides on requests: a limiter of flowgate, or something else.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use flowgate::{Acquire, AnyKeyed, ConcurrencyLimit, Denied, Gate, Limiter};

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
pub enum Decision {
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
pub struct Held(Option<Box<dyn Any>>);

impl Held {
    /// Nothing.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Something that is dropped when the request is over.
    pub fn new(held: impl Any) -> Self {
        Self(Some(Box::new(held)))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "Held"
        } else {
            "Held(nothing)"
        })
    }
}

impl fmt::Debug for Decision {
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
    fn decide(&mut self, request: &Request) -> Decision;

    /// A request that was admitted is over: after `took`, and whether it was served.
    fn finished(&mut self, request: &Request, took: Duration, is_served: bool) {
        let _ = (request, took, is_served);
    }
}

/// No limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unprotected;

impl AdmissionPolicy for Unprotected {
    fn decide(&mut self, _: &Request) -> Decision {
        Decision::Admit(Held::nothing())
    }
}

/// A limiter of flowgate: for all requests, or for each key.
#[derive(Clone, Debug)]
pub struct LimiterPolicy {
    limiter: AnyLimiter,
    longest_wait: Option<Duration>,
}

#[derive(Clone, Debug)]
enum AnyLimiter {
    Rate(Arc<dyn Limiter>),
    Keyed(AnyKeyed),
    Concurrency(Arc<ConcurrencyLimit>),
    Gate(Arc<Gate>),
}

impl LimiterPolicy {
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

    /// Refuses what one of several limits refuses.
    pub fn gate(gate: Arc<Gate>) -> Self {
        Self::of(AnyLimiter::Gate(gate))
    }

    /// Lets requests wait for so long (default: they do not wait).
    pub fn wait(mut self, longest: Duration) -> Self {
        self.longest_wait = Some(longest);
        self
    }

    fn of(limiter: AnyLimiter) -> Self {
        Self {
            limiter,
            longest_wait: None,
        }
    }
}

impl AdmissionPolicy for LimiterPolicy {
    fn decide(&mut self, request: &Request) -> Decision {
        let Some(longest) = self.longest_wait else {
            let answer = match &self.limiter {
                AnyLimiter::Rate(limiter) => limiter
                    .try_acquire_n(request.cost)
                    .map(|()| Held::nothing()),
                AnyLimiter::Keyed(keyed) => {
                    let limiter = keyed.key(&request.key);
                    limiter
                        .try_acquire_n(request.cost)
                        .map(|()| Held::nothing())
                }
                AnyLimiter::Concurrency(limit) => limit.try_acquire_owned().map(Held::new),
                AnyLimiter::Gate(gate) => gate.try_acquire_owned().map(Held::new),
            };
            return match answer {
                Ok(held) => Decision::Admit(held),
                Err(denied) => Decision::Refuse {
                    retry_after: denied.retry_after(),
                },
            };
        };
        let patience = request
            .patience
            .map_or(longest, |patience| patience.min(longest));
        let cost = request.cost;
        Decision::Wait(match &self.limiter {
            AnyLimiter::Rate(limiter) => {
                let wait = Acquire::new(Arc::clone(limiter)).n(cost).within(patience);
                Box::pin(async move { wait.await.map(|_| Held::nothing()) })
            }
            AnyLimiter::Keyed(keyed) => {
                let wait = Acquire::new(keyed.key(&request.key))
                    .n(cost)
                    .within(patience);
                Box::pin(async move { wait.await.map(|_| Held::nothing()) })
            }
            AnyLimiter::Concurrency(limit) => {
                let wait = limit.acquire_owned().within(patience);
                Box::pin(async move { wait.await.map(Held::new) })
            }
            AnyLimiter::Gate(gate) => {
                let wait = gate.acquire_owned().within(patience);
                Box::pin(async move { wait.await.map(Held::new) })
            }
        })
    }
}

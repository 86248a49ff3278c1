//! Waits that own what they wait for: plain types, so that none needs an allocation of its own.

use super::Permit;
use super::custom::CustomWait;
use flowgate::{
    Acquirable, Acquire, Adapt, AdaptiveLimit, AdaptivePermits, Denied, Gate, Grant, Limiter,
    OwnedAdaptivePermit, OwnedKeyPermit, OwnedPermit, Permits, Timestamp,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A wait that returns the permits of a request, if it has any.
pub trait Wait: Future<Output = Result<Option<Permit>, Denied>> + Unpin + Send + 'static {
    /// Whether it was a wait in a queue, and not only for a decision.
    fn has_waited(&self) -> bool {
        true
    }
}

/// The maximum length of a wait.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    Endless,
    Within(Duration),
    By(Timestamp),
}

impl From<Option<Timestamp>> for Patience {
    fn from(deadline: Option<Timestamp>) -> Self {
        deadline.map_or(Self::Endless, Self::By)
    }
}

/// What a wait may become.
pub trait Granted {
    fn permit(self) -> Option<Permit>;
}

impl Granted for Grant {
    fn permit(self) -> Option<Permit> {
        None
    }
}

impl Granted for OwnedPermit {
    fn permit(self) -> Option<Permit> {
        Some(Permit::slots(self))
    }
}

impl Granted for OwnedAdaptivePermit<dyn Adapt> {
    fn permit(self) -> Option<Permit> {
        Some(Permit::adaptive(self))
    }
}

impl Granted for OwnedPermit<Gate> {
    fn permit(self) -> Option<Permit> {
        Some(Permit::gate(self))
    }
}

impl Granted for OwnedKeyPermit {
    fn permit(self) -> Option<Permit> {
        Some(Permit::key(self))
    }
}

/// A wait at one limiter, or for one key.
#[derive(Debug)]
pub struct Turn<W: Acquirable>(Acquire<W>);

impl<W: Acquirable> Turn<W> {
    /// For `cost` units, or one token or permit.
    pub fn new(turn: Acquire<W>, cost: Option<u64>, patience: Patience) -> Self {
        let turn = match patience {
            Patience::Endless => turn,
            Patience::Within(wait) => turn.within(wait),
            Patience::By(deadline) => turn.by(deadline),
        };
        Self(match cost {
            Some(n) => turn.n(n),
            None => turn,
        })
    }
}

impl<W: Acquirable<Granted: Granted>> Future for Turn<W> {
    type Output = Result<Option<Permit>, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let granted = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(granted.map(Granted::permit))
    }
}

impl<W> Wait for Turn<W> where W: Acquirable<Granted: Granted> + Send + 'static {}

/// A wait at a limit that all requests share.
#[derive(Debug)]
pub enum AnyWait {
    Rate(Turn<Arc<dyn Limiter>>),
    Slots(Turn<Permits<Arc<flowgate::ConcurrencyLimit>>>),
    Adaptive(Turn<AdaptivePermits<Arc<AdaptiveLimit<dyn Adapt>>>>),
    Gate(Turn<Permits<Arc<Gate>>>),
    Custom(Box<CustomWait<()>>),
}

impl Future for AnyWait {
    type Output = Result<Option<Permit>, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Rate(turn) => Pin::new(turn).poll(context),
            Self::Slots(turn) => Pin::new(turn).poll(context),
            Self::Adaptive(turn) => Pin::new(turn).poll(context),
            Self::Gate(turn) => Pin::new(turn).poll(context),
            Self::Custom(wait) => Pin::new(wait).poll(context),
        }
    }
}

impl Wait for AnyWait {
    fn has_waited(&self) -> bool {
        match self {
            Self::Rate(_) | Self::Slots(_) | Self::Adaptive(_) | Self::Gate(_) => true,
            Self::Custom(wait) => wait.has_waited(),
        }
    }
}

/// A wait for a key, or that of a request without one.
#[derive(Debug)]
pub enum KeyWait<W> {
    Known(W),
    Nobody(AnyWait),
}

impl<W: Wait> Future for KeyWait<W> {
    type Output = Result<Option<Permit>, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Known(turn) => Pin::new(turn).poll(context),
            Self::Nobody(turn) => Pin::new(turn).poll(context),
        }
    }
}

impl<W: Wait> Wait for KeyWait<W> {
    fn has_waited(&self) -> bool {
        match self {
            Self::Known(wait) => wait.has_waited(),
            Self::Nobody(wait) => wait.has_waited(),
        }
    }
}

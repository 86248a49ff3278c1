//! What a layer may be a layer of: [`Limits`].

mod adaptive;
mod any;
mod any_keyed;
mod concurrency;
mod custom;
mod gate;
mod keyed;
mod keyed_gate;
mod names;
mod per_key;
pub(crate) mod standing;
pub(crate) mod table;
mod wait;

pub use any::AnyLimit;
pub use custom::{Admission, Custom, CustomLimit, Deciding};
pub(crate) use names::Names;
pub use per_key::{Missing, PerKey};
pub(crate) use standing::{Standing, Unit};
pub use table::{IntoTable, Table};
pub(crate) use wait::{AnyWait, Patience, Wait};

use crate::by::NoKey;
use crate::call_outcome::OutcomeOf;
use crate::{RequestHead, ResponseHead};
use adaptive::Call;
use flowgate::{Adapt, Denied, Gate, KeyedError, OwnedAdaptivePermit, OwnedKeyPermit, OwnedPermit};
use http_body::Frame;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use wait::{KeyWait, Turn};

/// The limit of a [`LimitLayer`](crate::LimitLayer): [`AnyLimit`], or a limit [for each key](PerKey). Sealed.
///
/// ```
/// use flowgate::{ConcurrencyLimit, Keyed};
/// use flowgate_tower::{LimitLayer, Limits, by};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// /// What all layers of a program have in common, whatever they limit by.
/// fn usual<L: Limits>(layer: LimitLayer<L>) -> LimitLayer<L> {
///     layer.exempt_paths(["/health"])
/// }
///
/// let limits = Keyed::token_bucket("100/min".parse()?).capacity(1000)?;
/// let each = usual(LimitLayer::keyed(limits, by::header("x-api-key")));
/// let all = usual(LimitLayer::new(ConcurrencyLimit::new(0)));
/// let service = each.layer(all.layer(service_fn(answer)));
/// let response = service.oneshot(Request::get("/health").body(String::new())?).await?;
/// assert!(response.status().is_success());
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limit of a `LimitLayer`",
    note = "layers are made by `LimitLayer::new(limit)` and `LimitLayer::keyed(limits, by)`",
    note = "a limiter of your own implements `CustomLimit`, and is passed as `Custom::new(limiter)`"
)]
pub trait Limits: sealed::Sealed {}

impl<L: sealed::Sealed> Limits for L {}

pub(crate) mod sealed {
    use super::{Answer, Cause, Denied, Names, Patience, Permit, RequestHead, Standing, Wait};
    use flowgate::Clock;

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a limit of a `LimitLayer`",
        note = "layers are made by `LimitLayer::new(limit)` and `LimitLayer::keyed(limits, by)`",
        note = "a limiter of your own implements `CustomLimit`, and is passed as `Custom::new(limiter)`"
    )]
    pub trait Sealed: Clone + Send + Sync + 'static {
        /// The key of a request, kept for as long as the request lasts.
        type Key: Send + 'static;

        /// A wait in the queue.
        type Wait: Wait;

        /// The clock of the limit.
        fn clock(&self) -> &Clock;

        /// The key of the request; `None` if the request has no limit.
        fn key(&self, request: &RequestHead<'_>) -> Result<Option<Self::Key>, Cause>;

        /// Takes `cost` units, or one token, without a wait. Returns the permits that are held until the end, if there are
        /// any.
        fn try_take(&self, key: &Self::Key, cost: Option<u64>) -> Result<Option<Permit>, Denied>;

        /// Whether a decision takes time. [`try_take`](Self::try_take) then refuses everything, and only a wait gets a
        /// decision.
        fn takes_time(&self, key: &Self::Key) -> bool;

        /// Takes them after a wait in the queue.
        fn wait(&self, key: &Self::Key, cost: Option<u64>, patience: Patience) -> Self::Wait;

        /// The number of units of one token.
        fn token(&self, key: &Self::Key) -> u64;

        /// Returns `n` units that were not needed.
        fn refund(&self, key: &Self::Key, n: u64);

        /// Takes `n` more units for work that is already done.
        fn charge(&self, key: &Self::Key, n: u64);

        /// The state of each of its limits now, or as it was reported in `answer`.
        fn standings(
            &self,
            key: &Self::Key,
            names: &Names,
            answer: Answer<'_>,
            tell: impl FnMut(&Standing<'_>),
        );

        /// The name of the limit that refused.
        fn name_of<'a>(&'a self, key: &Self::Key, denied: &Denied, names: &'a Names) -> &'a str;

        /// Whether the limit that refused belongs to this client, and is not shared with others.
        fn is_the_clients(&self, key: &Self::Key, denied: &Denied) -> bool;
    }
}

/// The result of a limit for a request.
pub type Answer<'a> = Result<Option<&'a Permit>, &'a Denied>;

/// What a request holds until it ends.
///
/// It is dropped out of line. Most requests hold nothing, and their code would otherwise carry the code of all kinds about, wherever a
/// permit can be dropped.
pub struct Permit(ManuallyDrop<Option<Held>>);

enum Held {
    Slots(OwnedPermit),
    /// Apart, so that the other kinds do not carry the room for it about.
    Adaptive(Box<Call>),
    Gate(OwnedPermit<Gate>),
    Key(OwnedKeyPermit),
    Custom(Admission),
}

impl Permit {
    fn new(held: Held) -> Self {
        Self(ManuallyDrop::new(Some(held)))
    }

    pub fn slots(permit: OwnedPermit) -> Self {
        Self::new(Held::Slots(permit))
    }

    pub fn adaptive(permit: OwnedAdaptivePermit<dyn Adapt>) -> Self {
        Self::new(Held::Adaptive(Box::new(Call::new(permit))))
    }

    pub fn gate(permit: OwnedPermit<Gate>) -> Self {
        Self::new(Held::Gate(permit))
    }

    pub fn key(permit: OwnedKeyPermit) -> Self {
        Self::new(Held::Key(permit))
    }

    pub fn custom(admission: Admission) -> Self {
        Self::new(Held::Custom(admission))
    }

    /// Returns the answer of a limiter that is not part of this library.
    pub fn admission(&self) -> Option<&Admission> {
        match &*self.0 {
            Some(Held::Custom(admission)) => Some(admission),
            _ => None,
        }
    }

    /// Whether it was given because the limit could not decide.
    pub fn is_of_outage(&self) -> bool {
        self.admission().is_some_and(Admission::is_of_outage)
    }

    /// Notes the head of the response; `None` is an error.
    pub fn note_head(&mut self, outcome_of: &Arc<OutcomeOf>, answer: Option<ResponseHead<'_>>) {
        if let Some(Held::Adaptive(call)) = &mut *self.0 {
            call.note_head(outcome_of, answer);
        }
    }

    /// Notes a frame of the response's body. Returns whether it is known to be the last one.
    pub fn note_frame(&mut self, frame: &Frame<impl bytes::Buf>) -> bool {
        match &mut *self.0 {
            Some(Held::Adaptive(call)) => call.note_frame(frame),
            _ => false,
        }
    }

    /// Returns it when the response has ended as it should. One that is dropped is that of a request that was abandoned.
    pub fn end(mut self) {
        if let Some(Held::Adaptive(call)) = self.0.take() {
            call.end();
        }
    }
}

impl Drop for Permit {
    #[inline(never)]
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = match &*self.0 {
            Some(Held::Slots(permit)) => permit.units(),
            Some(Held::Adaptive(call)) => return call.fmt(f),
            Some(Held::Gate(permit)) => permit.units(),
            Some(Held::Key(permit)) => permit.units(),
            Some(Held::Custom(admission)) => return admission.fmt(f),
            None => 0,
        };
        write!(f, "Permit({units})")
    }
}

/// The reason why a request was not admitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    Denied(Denied),
    NoKey(NoKey),
    /// A per-key quota that this kind of limiter cannot keep.
    Quota(KeyedError),
}

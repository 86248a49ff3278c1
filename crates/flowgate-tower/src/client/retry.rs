use super::advice::is_refusal;
use super::limits::ClientLimit;
use super::{ClientError, ClientLayer};
use crate::ResponseHead;
use crate::grpc::{GRPC_PUSHBACK, GRPC_STATUS, GrpcCode};
use flowgate::RetryBudget;
use http::{Request, Response, StatusCode};
use std::future::{Ready, ready};
use std::sync::Arc;
use tower::retry::budget::Budget;
use tower::retry::{Policy, RetryLayer};
use tower_layer::Stack;

/// The number of attempts for one request, by default.
const ATTEMPTS: u32 = 3;

/// A policy for tower's [`RetryLayer`] that repeats requests which the server refused before doing anything.
///
/// It is for the outside of a [`ClientLayer`], which delays the repeated requests as the server asked for.
/// [`ClientLayer::retry_budget`] makes both layers.
///
/// | response | repeated |
/// |---|---|
/// | 429 | yes |
/// | gRPC's status 8 in trailers alone | yes |
/// | gRPC's status 8 or 14 with `grpc-retry-pushback-ms` | yes; no, if it is negative |
/// | 503, gRPC's status 14, errors of the client | only [idempotent methods](Self::idempotent_methods) |
/// | request that was not sent | no |
/// | any other | no; it adds to the budget |
///
/// Each retry takes one from the [`RetryBudget`]. If there is none, the caller receives the refusal.
///
/// ```
/// use flowgate::{LeakyBucket, RetryBudget};
/// use flowgate_tower::client::{ClientLayer, RetryRefused};
/// use std::sync::Arc;
/// use tower::ServiceBuilder;
/// use tower::retry::RetryLayer;
///
/// // One budget for all clients of a backend.
/// let budget = Arc::new(RetryBudget::default());
/// let layers = ServiceBuilder::new()
///     .layer(RetryLayer::new(RetryRefused::new(budget).attempts(2).idempotent_methods(true)))
///     .layer(ClientLayer::new(LeakyBucket::new("100/s".parse()?)));
/// # let _ = layers;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryRefused {
    budget: Arc<RetryBudget>,
    /// Of the request, if it is the clone for one.
    retries_left: u32,
    repeats_idempotent: bool,
}

impl RetryRefused {
    /// Creates a policy of up to three attempts for each request.
    pub fn new(budget: impl Into<Arc<RetryBudget>>) -> Self {
        Self {
            budget: budget.into(),
            retries_left: ATTEMPTS - 1,
            repeats_idempotent: false,
        }
    }

    /// Sets the number of attempts for a request, the first included (default: 3).
    ///
    /// 0 counts as 1.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self {
            retries_left: attempts.saturating_sub(1),
            ..self
        }
    }

    /// Sets whether idempotent requests that may have been done are repeated (default: no).
    ///
    /// Idempotent methods are GET, HEAD, OPTIONS, TRACE, PUT and DELETE (RFC 9110). Turn it on if that is true of your server.
    #[must_use]
    pub fn idempotent_methods(self, are_repeated: bool) -> Self {
        Self {
            repeats_idempotent: are_repeated,
            ..self
        }
    }
}

impl<B, R, E> Policy<Request<B>, Response<R>, ClientError<E>> for RetryRefused
where
    B: Clone,
{
    type Future = Ready<()>;

    fn retry(
        &mut self,
        request: &mut Request<B>,
        result: &mut Result<Response<R>, ClientError<E>>,
    ) -> Option<Ready<()>> {
        let done = match result {
            Ok(response) => {
                let response = ResponseHead::of(response);
                if !is_refusal(response) {
                    self.budget.deposit();
                    return None;
                }
                done(response)
            }
            Err(ClientError::Client(_)) => Done::Perhaps,
            // Its wait would have been too long, so it would be the next time.
            Err(_) => Done::NotToBeRepeated,
        };
        let may_repeat = match done {
            Done::No => true,
            Done::Perhaps => self.repeats_idempotent && request.method().is_idempotent(),
            Done::NotToBeRepeated => false,
        };
        if !may_repeat || self.retries_left == 0 || self.budget.try_withdraw().is_err() {
            return None;
        }
        self.retries_left -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

/// Whether a refused request may have been done.
enum Done {
    No,
    Perhaps,
    /// The server asks not to repeat it.
    NotToBeRepeated,
}

fn done(refusal: ResponseHead<'_>) -> Done {
    if refusal.status == StatusCode::TOO_MANY_REQUESTS {
        return Done::No;
    }
    let Some(status) = refusal.headers.get(GRPC_STATUS) else {
        return Done::Perhaps;
    };
    match refusal.headers.get(GRPC_PUSHBACK) {
        Some(pushback) => {
            let millis = pushback
                .to_str()
                .ok()
                .and_then(|text| text.parse::<u64>().ok());
            millis.map_or(Done::NotToBeRepeated, |_| Done::No)
        }
        None if is_code(status, GrpcCode::ResourceExhausted) => Done::No,
        None => Done::Perhaps,
    }
}

fn is_code(status: &http::HeaderValue, code: GrpcCode) -> bool {
    let number = status.to_str().ok().and_then(|text| text.parse().ok());
    number == Some(code.number())
}

impl<L: ClientLimit> ClientLayer<L> {
    /// Adds a layer that repeats refused requests, as far as `budget` allows.
    ///
    /// Call it last. [`RetryRefused`] lists what is repeated: nothing that the server may have done. A repeated request waits for
    /// its limit and for the pause that the server asked for, and it is counted by the throttle. The body of the requests has to
    /// be `Clone`.
    ///
    /// ```
    /// use flowgate::{Keyed, RetryBudget, Throttle};
    /// use flowgate_tower::client::ClientLayer;
    /// use tower::ServiceBuilder;
    ///
    /// let hosts = Keyed::leaky_bucket("100/s".parse()?).capacity(1000)?;
    /// let layer = ClientLayer::new(hosts).throttle(Throttle::default()).retry_budget(RetryBudget::default());
    /// # let _ = ServiceBuilder::new().layer(layer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn retry_budget(
        self,
        budget: impl Into<Arc<RetryBudget>>,
    ) -> Stack<Self, RetryLayer<RetryRefused>> {
        Stack::new(self, RetryLayer::new(RetryRefused::new(budget)))
    }
}

/// A [`RetryBudget`] for policies that take tower's trait [`Budget`].
///
/// ```
/// use flowgate::RetryBudget;
/// use flowgate_tower::client::TowerBudget;
/// use tower::retry::budget::Budget;
///
/// let budget = TowerBudget::from(RetryBudget::default());
/// budget.deposit();
/// assert!(budget.withdraw());
/// ```
#[derive(Clone, Debug)]
pub struct TowerBudget(Arc<RetryBudget>);

impl<T: Into<Arc<RetryBudget>>> From<T> for TowerBudget {
    fn from(budget: T) -> Self {
        Self(budget.into())
    }
}

impl Budget for TowerBudget {
    fn deposit(&self) {
        self.0.deposit();
    }

    fn withdraw(&self) -> bool {
        self.0.try_withdraw().is_ok()
    }
}

use crate::RequestHead;
use crate::body::LimitBody;
use crate::future::{ResponseFuture, Stage, Then};
use crate::limits::Limits;
use crate::rules::{Rules, Ruling};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A service behind a limit; made by [`LimitLayer`](crate::LimitLayer).
///
/// The service decides in [`call`](Service::call), when there is a request, and not in `poll_ready`, so an idle connection
/// holds nothing. Clones share the limit.
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use flowgate_tower::{LimitLayer, Limited};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limited: Limited<_, _> = LimitLayer::new(ConcurrencyLimit::new(0)).layer(service_fn(answer));
/// assert_eq!(limited.clone().oneshot(Request::new(String::new())).await?.status(), 503);
///
/// let unlimited = limited.into_inner();
/// assert_eq!(unlimited.oneshot(Request::new(String::new())).await?.status(), 200);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Limited<S, L> {
    inner: S,
    rules: Arc<Rules<L>>,
}

impl<S, L> Limited<S, L> {
    pub(crate) fn new(inner: S, rules: Arc<Rules<L>>) -> Self {
        Self { inner, rules }
    }

    /// The service behind the limit.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use flowgate::TokenBucket;
    /// use flowgate_tower::LimitLayer;
    /// use tower::Layer;
    ///
    /// let app: Router = Router::new().route("/", get(|| async { "hello" }));
    /// let limited = LimitLayer::new(TokenBucket::new("100/s".parse()?)).layer(app);
    /// assert!(limited.get_ref().has_routes());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service, no longer limited.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Clone, L> Clone for Limited<S, L> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            rules: Arc::clone(&self.rules),
        }
    }
}

impl<S, L, B, R> Service<Request<B>> for Limited<S, L>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    L: Limits,
    R: Body<Data: From<Bytes>>,
{
    type Response = Response<LimitBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, L, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let rules = &self.rules;
        let then = match rules.decide(&RequestHead::of(&request)) {
            Ruling::Pass { would_reject } => Then::of_passed(rules, would_reject),
            Ruling::Admit { key, cost, permit } => Then::of_admitted(rules, key, cost, permit),
            Ruling::Wait {
                key,
                cost,
                patience,
            } => {
                // The one that is ready waits; its clone is asked again whether it is.
                let next = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, next);
                return ResponseFuture::waiting(rules, key, cost, patience, (ready, request));
            }
            Ruling::Reject(response) => return ResponseFuture::rejected(response),
        };
        let Some(then) = then else {
            // Such futures may hold whole responses. The compiler writes this one to where it stays if nothing has to be
            // dropped should the call panic.
            return ResponseFuture {
                stage: Stage::Serving {
                    future: self.inner.call(request),
                    then: None,
                },
            };
        };
        ResponseFuture {
            stage: Stage::Serving {
                future: self.inner.call(request),
                then: Some(then),
            },
        }
    }
}

/// So that a limited service can be added to tonic's `Server` or `Routes` in place of the service.
#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService, L> tonic::server::NamedService for Limited<S, L> {
    const NAME: &'static str = S::NAME;
}

impl<S: fmt::Debug, L: fmt::Debug> fmt::Debug for Limited<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("inner", &self.inner)
            .field("rules", &self.rules)
            .finish()
    }
}

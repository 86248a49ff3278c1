use super::limits::ClientLimit;
use super::{ClientError, ClientFuture, Rules};
use crate::body::LimitBody;
use http::header::HOST;
use http::{Request, Response};
use http_body::Body;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

/// A client that waits before it sends; made by [`ClientLayer`](super::ClientLayer).
///
/// ```
/// use flowgate::{Keyed, ManualClock};
/// use flowgate_tower::client::{ClientLayer, PoliteClient};
/// use http::{Request, Response};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hosts = Keyed::leaky_bucket("2/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
/// // Clones share the limits, so each task may have its own.
/// let client: PoliteClient<_, _> = ClientLayer::new(hosts).layer(service_fn(answer));
/// let request = Request::get("http://example.org/").body(String::new())?;
/// assert!(client.clone().oneshot(request).await?.status().is_success());
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Cancel safety
///
/// Dropping the future of a request that waits leaves the queue, and returns what had been granted.
pub struct PoliteClient<S, L: ClientLimit> {
    inner: S,
    rules: Arc<Rules<L>>,
}

impl<S, L: ClientLimit> PoliteClient<S, L> {
    pub(super) fn new(inner: S, rules: Arc<Rules<L>>) -> Self {
        Self { inner, rules }
    }
}

impl<S: Clone, L: ClientLimit> Clone for PoliteClient<S, L> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            rules: Arc::clone(&self.rules),
        }
    }
}

impl<S, L, B, R> Service<Request<B>> for PoliteClient<S, L>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    L: ClientLimit,
    R: Body,
{
    type Response = Response<LimitBody<R>>;
    type Error = ClientError<S::Error>;
    type Future = ClientFuture<S, L, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(ClientError::Client)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready waits; its clone is asked again whether it is.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        let host = host(&request).or_else(|| self.rules.default_host.as_deref().map(str::to_owned));
        ClientFuture::new(Arc::clone(&self.rules), host, ready, request)
    }
}

/// Host and port, in lower case.
fn host<B>(request: &Request<B>) -> Option<String> {
    let authority = match request.uri().authority() {
        // Without a user and a password.
        Some(authority) => match authority.port_u16() {
            Some(port) => format!("{}:{port}", authority.host()),
            None => authority.host().to_owned(),
        },
        None => request.headers().get(HOST)?.to_str().ok()?.to_owned(),
    };
    (!authority.is_empty()).then(|| authority.to_ascii_lowercase())
}

impl<S: fmt::Debug, L: ClientLimit> fmt::Debug for PoliteClient<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliteClient")
            .field("inner", &self.inner)
            .field("limit", &self.rules.limit)
            .finish_non_exhaustive()
    }
}

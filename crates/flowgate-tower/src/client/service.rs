use super::advice::advice;
use super::{ClientError, Rules};
use flowgate::{AsKey, Denied, KeyNames, Keyed, KeyedAlgorithm, Timestamp};
use http::header::HOST;
use http::{Request, Response};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tower_service::Service;

/// A client that is polite to each host; made by [`ClientLayer`](super::ClientLayer).
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
/// let client: PoliteClient<_, _, _> = ClientLayer::new(hosts).layer(service_fn(answer));
/// let request = Request::get("http://example.org/").body(String::new())?;
/// assert!(client.clone().oneshot(request).await?.status().is_success());
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Cancel safety
///
/// Dropping the future of a request that waits leaves the queue, and gives back what had been granted.
pub struct PoliteClient<S, A: KeyedAlgorithm, N: KeyNames> {
    inner: S,
    rules: Arc<Rules<A, N>>,
}

impl<S, A: KeyedAlgorithm, N: KeyNames> PoliteClient<S, A, N> {
    pub(super) fn new(inner: S, rules: Arc<Rules<A, N>>) -> Self {
        Self { inner, rules }
    }
}

impl<S: Clone, A: KeyedAlgorithm, N: KeyNames> Clone for PoliteClient<S, A, N> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            rules: Arc::clone(&self.rules),
        }
    }
}

impl<S, A, N, B, R> Service<Request<B>> for PoliteClient<S, A, N>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    A: KeyedAlgorithm + 'static,
    N: KeyNames + 'static,
    String: AsKey<N>,
    B: Send + 'static,
    Keyed<A, N>: Send + Sync,
{
    type Response = Response<R>;
    type Error = ClientError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, ClientError<S::Error>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(ClientError::Client)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready waits; its clone is asked again whether it is.
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        let rules = Arc::clone(&self.rules);
        Box::pin(async move {
            let host = host(&request).ok_or(ClientError::NoHost)?;
            turn(&rules, &host).await.map_err(|refused| match refused {
                Refused::Paused(rest) => ClientError::Paused(rest),
                Refused::Denied(denied) => ClientError::Denied(denied),
            })?;
            let response = ready.call(request).await.map_err(ClientError::Client)?;
            rules
                .pauses
                .heed(&host, advice(&response, SystemTime::now()));
            Ok(response)
        })
    }
}

enum Refused {
    Paused(Duration),
    Denied(Denied),
}

/// Waits until a request may be sent to `host`.
async fn turn<A, N>(rules: &Rules<A, N>, host: &String) -> Result<(), Refused>
where
    A: KeyedAlgorithm,
    N: KeyNames,
    String: AsKey<N>,
{
    let hosts = &*rules.hosts;
    let now = hosts.clock().now();
    let deadline = rules.patience.map(|patience| after(now, patience));
    loop {
        while let Some(until) = rules.pauses.until(host) {
            if deadline.is_some_and(|deadline| until > deadline) {
                let now = hosts.clock().now();
                return Err(Refused::Paused(until.saturating_duration_since(now)));
            }
            let slept = rules.pauses.sleep(until).await;
            slept.map_err(Refused::Denied)?;
        }
        let turn = hosts.acquire(host);
        let turn = match deadline {
            Some(deadline) => turn.by(deadline),
            None => turn,
        };
        let granted = turn.await.map_err(Refused::Denied)?;
        // The host may have asked for a pause meanwhile. Whoever waited for it with a token in hand would go
        // together with all others who did.
        if rules.pauses.until(host).is_none() {
            return Ok(());
        }
        hosts.refund(host, granted.units());
    }
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_add(nanos))
}

/// Host and port, in small letters.
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

impl<S: fmt::Debug, A: KeyedAlgorithm, N: KeyNames> fmt::Debug for PoliteClient<S, A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliteClient")
            .field("inner", &self.inner)
            .field("hosts", &self.rules.hosts)
            .finish_non_exhaustive()
    }
}

use flowgate::Denied;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a request was not sent, or what became of it.
///
/// ```
/// use flowgate::{Keyed, ManualClock};
/// use flowgate_tower::client::{ClientError, ClientLayer};
/// use http::{Request, Response};
/// use std::time::Duration;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hosts = Keyed::leaky_bucket("1/min".parse()?).clock(ManualClock::new()).capacity(1000)?;
/// let client = ClientLayer::new(hosts).within(Duration::from_secs(30)).layer(service_fn(answer));
/// let ask = || Request::get("http://example.org/").body(String::new());
///
/// assert!(client.clone().oneshot(ask()?).await.is_ok());
/// match client.clone().oneshot(ask()?).await {
///     Err(ClientError::Denied(denied)) => assert_eq!(denied.retry_after(), Some(Duration::from_secs(30))),
///     other => panic!("{other:?}"),
/// }
/// let error = client.oneshot(Request::get("/").body(String::new())?).await.unwrap_err();
/// assert_eq!(error.to_string(), "not sent: the request names no host");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// It names no host.
    NoHost,
    /// Its host has asked for a pause that lasts for as long as this still, beyond the patience.
    Paused(Duration),
    /// Its turn would not have come within the patience, or too many wait.
    Denied(Denied),
    /// It was sent, and this is the client's error.
    Client(E),
}

impl<E: fmt::Display> fmt::Display for ClientError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("not sent: the request names no host"),
            Self::Paused(rest) => write!(f, "not sent: its host has asked for a pause of {rest:?}"),
            Self::Denied(denied) => write!(f, "not sent: {denied}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for ClientError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(denied) => Some(denied),
            Self::Client(error) => error.source(),
            Self::NoHost | Self::Paused(_) => None,
        }
    }
}

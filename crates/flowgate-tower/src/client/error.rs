use flowgate::Denied;
use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

/// A request that was not sent, or the error of the client that sent it.
///
/// ```
/// use flowgate::{Keyed, ManualClock};
/// use flowgate_tower::client::ClientLayer;
/// use http::{Request, Response};
/// use std::time::{Duration, SystemTime};
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hosts = Keyed::leaky_bucket("1/min".parse()?).clock(ManualClock::new()).capacity(1000)?;
/// let client = ClientLayer::new(hosts).within(Duration::from_secs(30)).layer(service_fn(answer));
/// let ask = || Request::get("http://example.org/").body(String::new());
///
/// client.clone().oneshot(ask()?).await?;
/// let error = client.clone().oneshot(ask()?).await.unwrap_err();
/// assert!(!error.was_sent());
/// assert!(error.was_known_beforehand()); // it failed without a wait
/// assert_eq!(error.retry_after(), Some(Duration::from_secs(30))); // within another 30 s, it would be sent
/// assert!(error.not_before().is_some_and(|time| time > SystemTime::now()));
///
/// let error = client.oneshot(Request::get("/").body(String::new())?).await.unwrap_err();
/// assert_eq!(error.to_string(), "not sent: the request names no host; set ClientLayer::default_host");
/// assert_eq!(error.retry_after(), None);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError<E> {
    /// The request names no host, and the layer has no [default](super::ClientLayer::default_host).
    NoHost,
    /// The request was not sent: its host has requested a pause beyond the maximum wait.
    Paused(NotSent),
    /// The request was not sent: the limit would not have granted it within the maximum wait, or refused it, or the
    /// [throttle](super::ClientLayer::throttle) did ([`Denied::is_throttled`]).
    Denied(Denied, NotSent),
    /// The request was sent, and this is the client's error.
    Client(E),
}

/// The time at which a request that was not sent can be repeated.
///
/// ```
/// use flowgate::{Keyed, ManualClock};
/// use flowgate_tower::client::{ClientError, ClientLayer};
/// use http::{Request, Response};
/// use std::time::Duration;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
///
/// async fn overloaded(_: Request<String>) -> Result<Response<String>, Infallible> {
///     let response = Response::builder().status(503).header("retry-after", "60");
///     Ok(response.body(String::new()).expect("a response"))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hosts = Keyed::leaky_bucket("10/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
/// let client = ClientLayer::new(hosts).within(Duration::from_secs(1)).layer(service_fn(overloaded));
/// let ask = || Request::get("http://example.org/").body(String::new());
/// client.clone().oneshot(ask()?).await?;
/// match client.oneshot(ask()?).await {
///     Err(ClientError::Paused(not_sent)) => {
///         assert_eq!(not_sent.retry_after(), Some(Duration::from_secs(60)));
///         assert_eq!(not_sent.waited(), None);
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotSent {
    retry_after: Option<Duration>,
    waited: Option<Duration>,
    failed_at: SystemTime,
}

impl NotSent {
    pub(super) fn now(retry_after: Option<Duration>, waited: Option<Duration>) -> Self {
        Self {
            retry_after,
            waited,
            failed_at: SystemTime::now(),
        }
    }

    /// Returns the least time, from the failure on, after which to repeat the request. `None` if it is not known.
    ///
    /// Repeated then, the request may still wait for up to the [maximum](super::ClientLayer::within).
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns [`retry_after`](Self::retry_after) as a time of the system's clock, to store or to display.
    ///
    /// `None` if it is not known, or beyond what a [`SystemTime`] can hold.
    pub fn not_before(&self) -> Option<SystemTime> {
        self.failed_at.checked_add(self.retry_after?)
    }

    /// Returns how long the request had waited before it failed.
    ///
    /// `None` if it failed without a wait, because its wait was certain to be too long.
    pub fn waited(&self) -> Option<Duration> {
        self.waited
    }
}

impl<E> ClientError<E> {
    /// Returns whether the request was passed to the client. It may then have reached its host.
    pub fn was_sent(&self) -> bool {
        matches!(self, Self::Client(_))
    }

    /// Returns the least time to wait before the request is repeated, counted from the failure.
    ///
    /// `None` if the time is not known, or if the request was sent.
    pub fn retry_after(&self) -> Option<Duration> {
        self.not_sent()?.retry_after()
    }

    /// Returns [`retry_after`](Self::retry_after) as a time of the system's clock, to store or to display.
    pub fn not_before(&self) -> Option<SystemTime> {
        self.not_sent()?.not_before()
    }

    /// Returns whether the request failed without a wait, because its wait would be too long.
    pub fn was_known_beforehand(&self) -> bool {
        self.not_sent().is_some_and(|not| not.waited().is_none())
    }

    fn not_sent(&self) -> Option<&NotSent> {
        match self {
            Self::Paused(not_sent) | Self::Denied(_, not_sent) => Some(not_sent),
            Self::NoHost | Self::Client(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for ClientError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => {
                f.write_str("not sent: the request names no host; set ClientLayer::default_host")
            }
            Self::Paused(not_sent) => {
                let rest = not_sent.retry_after().unwrap_or_default();
                write!(f, "not sent: its host has asked for a pause of {rest:?}")
            }
            Self::Denied(denied, _) => write!(f, "not sent: {denied}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for ClientError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(denied, _) => Some(denied),
            Self::Client(error) => error.source(),
            Self::NoHost | Self::Paused(_) => None,
        }
    }
}

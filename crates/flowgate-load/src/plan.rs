//! The plan of a run.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{Method, Request, Uri};

use crate::connection::{ConnectOptions, HttpProxy, HttpVersion, Message};
use crate::pacing_limiter::PacingLimiter;
use crate::report::{Asked, Guarantee, MAX_ERROR_SHARE, PacingMode};
use crate::request_mix::RequestMix;
use crate::slice::Slice;
use crate::target::Target;
use flowgate_schedule::{Extent, Schedule};

/// Maximum number of connections of one run.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use flowgate_load::{Extent, MAX_CONNECTIONS, Origin, Pace, Plan, Stop, Target};
///
/// let origin = Origin::start()?;
/// let mut plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// plan.connections = NonZeroUsize::new(MAX_CONNECTIONS).expect("it is not 0");
/// let report = flowgate_load::run(plan, &Stop::new())?;
/// assert_eq!(report.connections.connections, 3); // three requests do not need more
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const MAX_CONNECTIONS: usize = 20_000;

/// Everything that [`run`](crate::run) needs.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Late, Plan, Schedule, Target};
///
/// let schedule = Schedule::lasting(Quota::per_second(1000), Duration::from_secs(30))?;
/// let plan = Plan {
///     late: Late::Within(Duration::from_millis(100)),
///     timeout: Duration::from_secs(2),
///     ..Plan::new(Target::parse("http://localhost:8080/")?, schedule)
/// };
/// assert_eq!(plan.pace.requests(), Some(30_000));
/// assert_eq!(plan.connections.get(), 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// Targets of the requests, used in turn. All must have the same host and port.
    pub targets: Vec<Target>,
    /// Requests in place of `targets` and `template` (default: none).
    pub mix: Option<RequestMix>,
    /// Whether `targets` is this process's own [`Origin`](crate::Origin). Only the report mentions it.
    pub own_origin: bool,
    /// When requests are sent.
    pub pace: Pace,
    /// What to do with requests that cannot be sent on time.
    pub late: Late,
    /// Method, headers and body of each request.
    pub template: Template,
    /// Maximum number of open connections to each server (default: 50; at most [`MAX_CONNECTIONS`] in all).
    ///
    /// All are opened before the scheduled time of the first request, but never more than there are requests.
    pub connections: NonZeroUsize,
    /// Maximum number of requests in flight on an HTTP/2 connection (default: 1). Ignored with HTTP/1.1.
    pub streams: NonZeroUsize,
    /// Whether connections are reused (default: true).
    pub keep_alive: bool,
    /// Options for opening connections. Its [`timeout`](ConnectOptions::timeout) also bounds the host lookup.
    pub connect: ConnectOptions,
    /// Maximum number of redirects that a request follows (default: 0).
    ///
    /// It follows them only on the same server, and only with HTTP/1.1.
    pub follow: u32,
    /// Whether each connection keeps the cookies of the server (default: no).
    ///
    /// Each connection is one user. Only with HTTP/1.1.
    pub cookies: bool,
    /// Whether compressed bodies are decoded, to count what they contain (default: no).
    ///
    /// A separate thread decodes them when their responses have been timed. A request has to ask for compression with a header.
    pub decode: bool,
    /// Maximum time of a request, until its response is complete (default: 10 s).
    pub timeout: Duration,
    /// Maximum share of errors of a successful run, from 0 to 1 (default: 0.01).
    ///
    /// If more requests fail, the verdict is [`TooManyErrors`](crate::Verdict::TooManyErrors).
    pub max_error_share: f64,
    /// Time of sending before the run that is not counted (default: none).
    ///
    /// A warm-up sends as the run does from its start, again from the start if the run is shorter. Under a limiter, warm-up
    /// and run together keep the limit.
    pub warm_up: Duration,
    /// Additional percentiles for the report, as shares from 0 to 1 (default: none).
    pub percentiles: Vec<f64>,
    /// The part of the schedule that this run sends (default: all, now).
    pub slice: Option<Slice>,
    /// Number of sending threads. The default depends on the rate, with at most one per CPU.
    pub threads: Option<NonZeroUsize>,
}

/// When requests are sent.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Extent, Pace, PacingLimiter, Schedule};
///
/// let second = Duration::from_secs(1);
/// let hold = Pace::from(Schedule::lasting(Quota::per_second(100), 60 * second)?);
/// assert_eq!(hold.requests(), Some(6000));
///
/// let under = Pace::Under(PacingLimiter::at_most(Quota::per_second(2)), Extent::Requests(10));
/// assert_eq!(under.span(), Some(5 * second));
///
/// let unpaced = Pace::Unpaced(Extent::Lasting(10 * second));
/// assert_eq!((unpaced.requests(), unpaced.span()), (None, Some(10 * second)));
/// assert_eq!(unpaced.to_string(), "as fast as possible");
/// # Ok::<(), flowgate_load::ScheduleError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Pace {
    /// By a schedule; late requests are sent as soon as possible, so the rate is held.
    Hold(Schedule),
    /// By a limiter; the rate is never exceeded. Uses one thread.
    Under(PacingLimiter, Extent),
    /// As fast as possible: each connection sends its next request when it has received a response.
    Unpaced(Extent),
}

/// What to do with requests that are late because every connection is busy.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use flowgate::Quota;
/// use flowgate_load::{Late, Plan, Schedule, Target};
///
/// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
/// let mut plan = Plan::new(Target::parse("http://localhost:8080/")?, schedule);
/// assert_eq!(plan.late, Late::Queue);
/// // Like users who leave after one second: later requests count as skipped.
/// plan.late = Late::Within(Duration::from_secs(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// Sends them as soon as possible.
    #[default]
    Queue,
    /// Sends them up to this much later, then skips and counts them.
    Within(Duration),
}

impl Plan {
    /// Returns the number of requests in flight on one connection. Assumes HTTP/2 if the version is negotiated.
    pub(crate) fn streams(&self) -> usize {
        match self.connect.version {
            HttpVersion::Http1 => 1,
            HttpVersion::Http2 | HttpVersion::Negotiated => self.streams.get(),
        }
    }

    /// Creates a plan with the defaults: `GET`, 50 connections, a timeout of 10 s.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowgate::Quota;
    /// use flowgate_load::{Plan, Schedule, Target};
    ///
    /// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
    /// let plan = Plan::new(Target::parse("http://localhost:8080/")?, schedule);
    /// assert_eq!(plan.template.method, "GET");
    /// assert!(plan.keep_alive);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(target: Target, pace: impl Into<Pace>) -> Plan {
        Plan {
            targets: vec![target],
            mix: None,
            own_origin: false,
            pace: pace.into(),
            late: Late::Queue,
            template: Template::default(),
            connections: const { NonZeroUsize::new(50).unwrap() },
            streams: NonZeroUsize::MIN,
            keep_alive: true,
            connect: ConnectOptions::default(),
            follow: 0,
            cookies: false,
            decode: false,
            timeout: Duration::from_secs(10),
            max_error_share: MAX_ERROR_SHARE,
            warm_up: Duration::ZERO,
            percentiles: Vec::new(),
            slice: None,
            threads: None,
        }
    }
}

impl From<Schedule> for Pace {
    fn from(schedule: Schedule) -> Pace {
        Pace::Hold(schedule)
    }
}

impl Pace {
    /// Returns the number of requests, if it is known.
    pub fn requests(&self) -> Option<u64> {
        match self {
            Pace::Hold(schedule) => Some(schedule.len()),
            Pace::Under(_, Extent::Requests(requests))
            | Pace::Unpaced(Extent::Requests(requests)) => Some((*requests).max(1)),
            Pace::Under(_, Extent::Lasting(_)) | Pace::Unpaced(Extent::Lasting(_)) => None,
        }
    }

    /// Returns the duration of sending, if it is known.
    pub fn span(&self) -> Option<Duration> {
        match self {
            Pace::Hold(schedule) => Some(schedule.span()),
            Pace::Under(_, Extent::Lasting(span)) | Pace::Unpaced(Extent::Lasting(span)) => {
                Some(*span)
            }
            Pace::Under(limiter, Extent::Requests(requests)) => {
                let seconds = *requests as f64 / limiter.per_second();
                Duration::try_from_secs_f64(seconds).ok()
            }
            Pace::Unpaced(Extent::Requests(_)) => None,
        }
    }

    /// Returns the description for the report.
    pub(crate) fn asked(&self) -> Asked {
        let text = self.to_string();
        match self {
            Pace::Hold(schedule) => {
                let constant = schedule.constant();
                Asked {
                    mode: PacingMode::Hold,
                    text,
                    per_second: schedule.per_second(),
                    is_constant: constant.is_some(),
                    interval: schedule.interval(),
                    highest_per_second: schedule.highest_per_second(),
                    burst: schedule.burst(),
                    guarantee: constant
                        .and(schedule.per_second())
                        .map(|per_second| Guarantee {
                            burst: 1,
                            per_second,
                        }),
                    window: None,
                    max_error_share: MAX_ERROR_SHARE,
                    slice: None,
                }
            }
            Pace::Under(limiter, _) => {
                let per_second = limiter.per_second();
                Asked {
                    mode: PacingMode::Under,
                    text,
                    per_second: Some(per_second),
                    is_constant: true,
                    interval: Duration::try_from_secs_f64(1.0 / per_second)
                        .unwrap_or(Duration::MAX),
                    highest_per_second: Some(per_second),
                    burst: limiter.guarantee().map_or(1, |guarantee| guarantee.burst),
                    guarantee: limiter.guarantee(),
                    window: limiter.window(),
                    max_error_share: MAX_ERROR_SHARE,
                    slice: None,
                }
            }
            Pace::Unpaced(_) => Asked {
                mode: PacingMode::Unpaced,
                text,
                per_second: None,
                is_constant: false,
                interval: Duration::ZERO,
                highest_per_second: None,
                burst: 1,
                guarantee: None,
                window: None,
                max_error_share: MAX_ERROR_SHARE,
                slice: None,
            },
        }
    }
}

/// `1000/s`, `at most 2/s`, `as fast as possible`.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Hold(schedule) => schedule.fmt(f),
            Pace::Under(limiter, _) => limiter.fmt(f),
            Pace::Unpaced(_) => f.write_str("as fast as possible"),
        }
    }
}

/// The request that is sent repeatedly.
///
/// # Examples
///
/// ```
/// use flowgate::Quota;
/// use flowgate_load::{Plan, Schedule, Target, Template};
/// use hyper::Method;
/// use hyper::header::{CONTENT_TYPE, HeaderValue};
///
/// let schedule = Schedule::of(Quota::per_second(100), 1000)?;
/// let mut plan = Plan::new(Target::parse("http://localhost:8080/orders")?, schedule);
/// assert_eq!(plan.template.method, Method::GET);
/// plan.template = Template {
///     method: Method::POST,
///     headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
///     body: r#"{"item":17}"#.into(),
/// };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Template {
    /// Method (default: `GET`).
    pub method: Method,
    /// Additional headers. A header replaces the default of the same name (`host`, `user-agent`, `accept`).
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Body. Its length is sent in a header if it is not empty.
    pub body: Bytes,
}

impl Default for Template {
    fn default() -> Template {
        Template {
            method: Method::GET,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
}

impl Template {
    /// Returns the request in the form that every connection needs.
    ///
    /// To a `proxy`, the request has the full URL.
    pub(crate) fn message(
        &self,
        target: &Target,
        keep_alive: bool,
        proxy: Option<&HttpProxy>,
    ) -> Message {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers(target);
        *request.uri_mut() = match proxy {
            Some(_) => target.uri(),
            None => Uri::from(target.path().clone()),
        };
        if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization.clone()) {
            (request.headers_mut()).insert(PROXY_AUTHORIZATION, authorization);
        }
        if !keep_alive {
            let close = HeaderValue::from_static("close");
            request.headers_mut().insert(CONNECTION, close);
        }
        Message::new(request)
    }

    fn headers(&self, target: &Target) -> HeaderMap {
        let mut headers = HeaderMap::new();
        // An authority only contains characters that a header may hold.
        if let Ok(host) = HeaderValue::from_str(target.authority()) {
            headers.insert(HOST, host);
        }
        let agent = HeaderValue::from_static(concat!("flowgate/", env!("CARGO_PKG_VERSION")));
        headers.insert(USER_AGENT, agent);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        for (name, _) in &self.headers {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        headers
    }
}

use crate::RequestHead;
use crate::by::NoKey;
use crate::limits::Cause;
use flowgate::Denied;
use std::fmt;
use std::time::Duration;

/// A layer's decision on a request, for [`LimitLayer::on_decision`](crate::LimitLayer::on_decision).
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_tower::{Decision, LimitLayer, LayerVerdict};
/// use http::{Request, Response};
/// use std::sync::mpsc;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (log, lines) = mpsc::channel();
/// let layer = LimitLayer::new(TokenBucket::new("1/h".parse()?)).on_decision(move |decision: &Decision<'_>| {
///     let path = decision.request.uri.path();
///     let _ = log.send(format!("{path}: {} by {}", decision.verdict, decision.limit_name));
/// });
/// let service = layer.layer(service_fn(answer));
/// for path in ["/a", "/b"] {
///     service.clone().oneshot(Request::get(path).body(String::new())?).await?;
/// }
/// assert_eq!(lines.recv()?, "/a: admitted by default");
/// assert_eq!(lines.recv()?, "/b: refused (over_limit) by default");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Decision<'a> {
    /// The request.
    pub request: RequestHead<'a>,
    /// The decision on the request.
    pub verdict: LayerVerdict,
    /// The name of the limit that refused the request, or else of the layer's limit.
    pub limit_name: &'a str,
    /// The request's [class](crate::LimitLayer::classes), if it has one.
    pub class: Option<&'a str>,
    /// The limiter's refusal, if there was one.
    pub denied: Option<&'a Denied>,
    /// The time that the request has waited, if it waited.
    pub waited: Option<Duration>,
}

/// The decision on a request; see [`Decision`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerVerdict {
    /// The limit admitted the request.
    Admitted,
    /// The request is rejected.
    Refused(RefusalReason),
    /// A [dry run](crate::LimitLayer::dry_run) lets the request through; otherwise it would be rejected.
    WouldRefuse(RefusalReason),
    /// A dry run lets the request through; otherwise it would have to wait.
    WouldWait,
    /// The request is exempt from the limit.
    Exempt,
    /// The client disconnected while the request waited.
    Abandoned,
}

/// The text of a log line: `admitted`, `refused (over_limit)`.
impl fmt::Display for LayerVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted => f.write_str("admitted"),
            Self::Refused(reason) => write!(f, "refused ({})", reason.name()),
            Self::WouldRefuse(reason) => write!(f, "would be refused ({})", reason.name()),
            Self::WouldWait => f.write_str("would wait"),
            Self::Exempt => f.write_str("exempt"),
            Self::Abandoned => f.write_str("abandoned"),
        }
    }
}

/// The reason why a request is refused.
///
/// ```
/// use flowgate_tower::RefusalReason;
///
/// assert_eq!(RefusalReason::OverLimit.name(), "over_limit");
/// assert_eq!(RefusalReason::ALL.len(), 11);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The request is over a rate limit, or would still be over it at its deadline.
    OverLimit,
    /// All permits are in use ([`Denied::is_busy`]).
    Busy,
    /// The request costs more than the limit can ever admit ([`Denied::is_never`]).
    Never,
    /// The queue has its maximum number of waiters ([`Denied::is_queue_full`]).
    QueueFull,
    /// The request waited too long in a queue that persists ([`Denied::is_shed`]).
    Shed,
    /// There is no room for another key ([`Denied::is_table_full`]).
    TableFull,
    /// The limiter is closed ([`Denied::is_closed`]).
    Closed,
    /// The limiter could not decide ([`Denied::is_outage`]).
    Outage,
    /// More important requests go first ([`Denied::is_low_priority`]).
    Priority,
    /// The request has no key, or a key that cannot be read.
    NoKey,
    /// The server could not find the key, or could not keep the key's quota.
    Misconfigured,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::OverLimit,
        Self::Busy,
        Self::Never,
        Self::QueueFull,
        Self::Shed,
        Self::TableFull,
        Self::Closed,
        Self::Outage,
        Self::Priority,
        Self::NoKey,
        Self::Misconfigured,
    ];

    /// Returns its name in metrics: `over_limit`, `busy`, `never`, `queue_full`, `shed`, `table_full`, `closed`, `outage`, `priority`,
    /// `no_key` or `misconfigured`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::Busy => "busy",
            Self::Never => "never",
            Self::QueueFull => "queue_full",
            Self::Shed => "shed",
            Self::TableFull => "table_full",
            Self::Closed => "closed",
            Self::Outage => "outage",
            Self::Priority => "priority",
            Self::NoKey => "no_key",
            Self::Misconfigured => "misconfigured",
        }
    }

    pub(crate) fn of(cause: &Cause) -> Self {
        match cause {
            Cause::NoKey(NoKey::Missing | NoKey::Malformed) => Self::NoKey,
            Cause::NoKey(_) | Cause::Quota(_) => Self::Misconfigured,
            Cause::Denied(denied) if denied.is_busy() => Self::Busy,
            Cause::Denied(denied) if denied.is_never() => Self::Never,
            Cause::Denied(denied) if denied.is_queue_full() => Self::QueueFull,
            Cause::Denied(denied) if denied.is_shed() => Self::Shed,
            Cause::Denied(denied) if denied.is_table_full() => Self::TableFull,
            Cause::Denied(denied) if denied.is_closed() => Self::Closed,
            Cause::Denied(denied) if denied.is_low_priority() => Self::Priority,
            Cause::Denied(denied) if denied.is_outage() => Self::Outage,
            Cause::Denied(_) => Self::OverLimit,
        }
    }
}

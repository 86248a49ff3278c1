use crate::call_outcome::{OutcomeOf, of_server};
use crate::counts::{Counters, CountsHandle, count};
use crate::decision::{Decision, LayerVerdict, RefusalReason};
use crate::grpc::{self, GrpcCode};
use crate::headers::{Fields, Headers};
use crate::limits::sealed::Sealed;
use crate::limits::{Answer, Cause, Names, Permit};
use crate::live::{Exemptions, Live};
use crate::policy::Policies;
use crate::priority::Priorities;
use crate::reason::Reason;
use crate::rejection::Rejection;
use crate::{RequestHead, ResponseHead};
use bytes::Bytes;
use flowgate::Denied;
use http::Response;
use http::header::{HeaderMap, HeaderName};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The limit and the settings that a layer and all its services share.
pub(crate) struct Rules<L> {
    pub(crate) limit: L,
    pub(crate) names: Names,
    /// The settings that can change while requests are served.
    pub(crate) live: Arc<Live>,
    /// The field in which a dry run writes why it would have rejected.
    pub(crate) dry_run_header: Option<HeaderName>,
    pub(crate) exempt: Exemptions,
    pub(crate) priorities: Option<Arc<Priorities>>,
    pub(crate) cost: Option<Arc<Cost>>,
    pub(crate) settle: Option<Arc<Settle>>,
    /// How an adaptive limit counts a response.
    pub(crate) outcome_of: Arc<OutcomeOf>,
    pub(crate) headers: Headers,
    policies: Policies,
    pub(crate) on_rejected: Option<Arc<OnRejected>>,
    pub(crate) grpc_status: Option<Arc<GrpcStatus>>,
    pub(crate) releases_at_head: bool,
    pub(crate) counts: CountsHandle,
    pub(crate) on_decision: Option<Arc<OnDecision>>,
}

type OnDecision = dyn Fn(&Decision<'_>) + Send + Sync;
type Cost = dyn Fn(&RequestHead<'_>) -> u64 + Send + Sync;
type Settle = dyn Fn(u64, Outcome<'_>) -> u64 + Send + Sync;
pub(crate) type OnRejected = dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync;
pub(crate) type GrpcStatus = dyn Fn(&Rejection<'_>) -> GrpcCode + Send + Sync;

/// Rules that are changed after they have been shared are others, with settings of their own; only the counts stay
/// common.
impl<L: Clone> Clone for Rules<L> {
    fn clone(&self) -> Self {
        Self {
            limit: self.limit.clone(),
            names: self.names.clone(),
            live: Arc::new(Live::clone(&self.live)),
            dry_run_header: self.dry_run_header.clone(),
            exempt: self.exempt.clone(),
            priorities: self.priorities.clone(),
            cost: self.cost.clone(),
            settle: self.settle.clone(),
            outcome_of: Arc::clone(&self.outcome_of),
            headers: self.headers,
            policies: self.policies.clone(),
            on_rejected: self.on_rejected.clone(),
            grpc_status: self.grpc_status.clone(),
            releases_at_head: self.releases_at_head,
            counts: self.counts.clone(),
            on_decision: self.on_decision.clone(),
        }
    }
}

/// The end of a request that was admitted, for [`LimitLayer::settle`](crate::LimitLayer::settle).
///
/// ```
/// use flowgate::TokenBucket;
/// use flowgate_tower::{LimitLayer, Outcome};
/// use http::{Request, Response};
/// use std::sync::Arc;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = Arc::new(TokenBucket::new("10/h".parse()?));
/// let layer = LimitLayer::new(Arc::clone(&limit)).cost(|_| 5).settle(|taken, outcome| match outcome {
///     Outcome::Answered(head) if head.status.is_success() => 1,
///     Outcome::Failed => 0, // our fault
///     _ => taken,
/// });
/// layer.layer(service_fn(answer)).oneshot(Request::new(String::new())).await?;
/// assert_eq!(limit.available(), 9);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// The service returned a response with this head. A handler may put the real cost of the request into its extensions.
    Answered(ResponseHead<'a>),
    /// The service returned an error.
    Failed,
    /// The client disconnected before there was a response.
    Cancelled,
}

/// A mark in the extensions of a response that a [dry run](crate::LimitLayer::dry_run) did not reject.
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use flowgate_tower::{LimitLayer, WouldReject};
/// use http::{Request, Response};
/// use std::time::Duration;
/// # use std::convert::Infallible;
/// # use tower::{Layer, ServiceExt, service_fn};
/// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = TokenBucket::builder("1/h".parse()?).clock(ManualClock::new()).build()?;
/// let service = LimitLayer::new(limit).dry_run().layer(service_fn(answer));
/// let first = service.clone().oneshot(Request::new(String::new())).await?;
/// assert_eq!(first.extensions().get::<WouldReject>(), None);
///
/// let second = service.oneshot(Request::new(String::new())).await?;
/// let would = second.extensions().get::<WouldReject>().expect("there is no token left");
/// assert_eq!((would.status.as_u16(), would.retry_after), (429, Some(Duration::from_secs(3600))));
/// assert_eq!(would.text, "over the limit `default`; retry after 3600 s");
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WouldReject {
    /// The status that the rejection would have had.
    pub status: http::StatusCode,
    /// The least time to wait, if it is known.
    pub retry_after: Option<Duration>,
    /// The text that the rejection would have had.
    pub text: String,
}

impl<L: Sealed> Rules<L> {
    pub(crate) fn new(limit: L) -> Self {
        Self {
            limit,
            names: Names::new("default"),
            live: Arc::default(),
            dry_run_header: None,
            exempt: Exemptions::default(),
            priorities: None,
            cost: None,
            settle: None,
            outcome_of: Arc::new(of_server),
            headers: Headers::default(),
            policies: Policies::default(),
            on_rejected: None,
            grpc_status: None,
            releases_at_head: false,
            counts: CountsHandle::default(),
            on_decision: None,
        }
    }

    /// That counts where `limit` does.
    pub(crate) fn counting(limit: L, counts: CountsHandle) -> Self {
        Self {
            counts,
            ..Self::new(limit)
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    /// Counts the decision on a request, and calls `on_decision`.
    #[inline]
    pub(crate) fn note(
        &self,
        request: &RequestHead<'_>,
        verdict: LayerVerdict,
        details: Details<'_>,
    ) {
        note(self.counters(), verdict, &details);
        if self.is_watched() {
            self.tell(request, verdict, &details);
        }
    }

    /// Whether decisions have any effect besides being counted.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.on_decision.is_some() || self.counts.classes.is_some()
    }

    #[cold]
    fn tell(&self, request: &RequestHead<'_>, verdict: LayerVerdict, details: &Details<'_>) {
        let class = self.counts.classes.as_ref().and_then(|classes| {
            let (class, counters) = classes.of(request);
            note(counters, verdict, details);
            class
        });
        if let Some(on_decision) = &self.on_decision {
            on_decision(&Decision {
                request: *request,
                verdict,
                limit_name: details.name.unwrap_or(&self.names.limit),
                class,
                denied: details.denied,
                waited: details.waited,
            });
        }
    }

    /// Decides on a request.
    pub(crate) fn decide(&self, request: &RequestHead<'_>) -> Ruling<L::Key> {
        let flags = self.live.flags();
        let is_exempt = flags.may_exempt() && self.live.exempts(flags, request);
        if is_exempt || self.exempt.apply_to(request) {
            self.note(request, LayerVerdict::Exempt, Details::default());
            return Ruling::Pass { would_reject: None };
        }
        let key = match self.limit.key(request) {
            Ok(Some(key)) => key,
            Ok(None) => {
                self.note(request, LayerVerdict::Exempt, Details::default());
                return Ruling::Pass { would_reject: None };
            }
            Err(cause) => return self.refused(&cause, None, request, None),
        };
        if let Some(priorities) = &self.priorities
            && let Err(denied) = priorities.try_admit(request)
        {
            return self.refused(&Cause::Denied(denied), Some(&key), request, None);
        }
        let cost = self.cost.as_ref().map(|cost| cost(request));
        let denied = match self.limit.try_take(&key, cost) {
            Ok(permit) => {
                self.note(request, LayerVerdict::Admitted, Details::default());
                return Ruling::Admit { key, cost, permit };
            }
            Err(denied) => denied,
        };
        if self.limit.takes_time(&key) {
            // It waits for the answer in any case, and for a turn only where it may.
            let patience = self.patience(request).filter(|_| !flags.is_dry_run());
            return Ruling::Wait {
                key,
                cost,
                patience: patience.unwrap_or_default(),
            };
        }
        if let Some(priorities) = &self.priorities {
            priorities.note_excess();
        }
        if let Some(patience) = self.patience(request) {
            // It is the least time that it takes, so that nobody waits in vain.
            let is_hopeless = denied.is_never()
                || denied.is_closed()
                || denied.is_table_full()
                || denied.retry_after().is_some_and(|wait| wait > patience);
            if !is_hopeless && !flags.is_dry_run() {
                return Ruling::Wait {
                    key,
                    cost,
                    patience,
                };
            }
            if !is_hopeless {
                self.note(request, LayerVerdict::WouldWait, Details::default());
                return Ruling::Pass { would_reject: None };
            }
        }
        self.refused(&Cause::Denied(denied), Some(&key), request, None)
    }

    /// The maximum wait of `request`: that of the layer, and for a gRPC call at most that of its client.
    fn patience(&self, request: &RequestHead<'_>) -> Option<Duration> {
        let patience = self.live.wait()?;
        let of_client = grpc::content_type(request.headers).and(grpc::timeout(request.headers));
        Some(of_client.map_or(patience, |of_client| of_client.min(patience)))
    }

    /// What becomes of a request that is not let through: a rejection, unless this is a dry run. `key` is whose it is, if that
    /// is known.
    // Out of line, the ruling would be copied once more.
    #[inline(always)]
    pub(crate) fn refused(
        &self,
        cause: &Cause,
        key: Option<&L::Key>,
        request: &RequestHead<'_>,
        waited: Option<Duration>,
    ) -> Ruling<L::Key> {
        let rejection = self.rejection(cause, key, request);
        let denied = rejection.denied();
        let details = Details {
            name: Some(rejection.limit_name()),
            denied,
            waited,
            is_outage: denied.is_some_and(Denied::is_outage),
        };
        let reason = RefusalReason::of(cause);
        if self.live.flags().is_dry_run() {
            self.note(request, LayerVerdict::WouldRefuse(reason), details);
            let would_reject = Some(Box::new(WouldReject {
                status: rejection.status(),
                retry_after: rejection.retry_after(),
                text: rejection.to_string(),
            }));
            return Ruling::Pass { would_reject };
        }
        self.note(request, LayerVerdict::Refused(reason), details);
        let mut response = self.reject(&rejection);
        if let (Some(key), Some(denied)) = (key, denied) {
            self.put_fields(key, Err(denied), response.headers_mut());
        }
        Ruling::Reject(Box::new(response))
    }

    fn rejection<'a>(
        &'a self,
        cause: &'a Cause,
        key: Option<&L::Key>,
        request: &RequestHead<'a>,
    ) -> Rejection<'a> {
        let (name, is_the_clients) = match (cause, key) {
            (Cause::Denied(denied), Some(key)) => (
                self.limit.name_of(key, denied, &self.names),
                self.limit.is_the_clients(key, denied),
            ),
            // Whose own limit it would have been makes no difference then.
            _ => (&*self.names.limit, true),
        };
        let mut rejection = Rejection {
            reason: Reason {
                cause,
                name,
                is_the_clients,
            },
            request: *request,
            grpc_code: None,
        };
        if let Some(grpc_status) = &self.grpc_status
            && rejection.is_grpc()
        {
            rejection.grpc_code = Some(grpc_status(&rejection));
        }
        rejection
    }

    fn reject(&self, rejection: &Rejection<'_>) -> Response<Bytes> {
        if rejection.no_key().is_some() {
            count(&self.counters().without_key);
        }
        let mut response = match &self.on_rejected {
            Some(on_rejected) => rejection.completed(on_rejected(rejection)),
            None => rejection.response(),
        };
        rejection.put_retry_after(response.headers_mut());
        response
    }

    /// Reports the state of `key`'s limit now.
    pub(crate) fn put_fields(&self, key: &L::Key, answer: Answer<'_>, headers: &mut HeaderMap) {
        if !self.has_fields() {
            return;
        }
        let mut fields = Fields::new(self.headers, &self.policies);
        self.limit
            .standings(key, &self.names, answer, |standing| fields.add(standing));
        fields.put(headers);
    }

    fn has_fields(&self) -> bool {
        !self.headers.is_none() && !self.live.flags().is_dry_run()
    }

    /// Whether there is work to do after the response to a request that holds nothing.
    pub(crate) fn follows_up(&self) -> bool {
        self.settle.is_some() || self.has_fields()
    }
}

/// The details of a decision, besides the verdict.
#[derive(Clone, Copy, Default)]
pub(crate) struct Details<'a> {
    /// The limit's name; none: the layer's.
    pub(crate) name: Option<&'a str>,
    pub(crate) denied: Option<&'a Denied>,
    pub(crate) waited: Option<Duration>,
    pub(crate) is_outage: bool,
}

#[inline]
fn note(counters: &Counters, verdict: LayerVerdict, details: &Details<'_>) {
    counters.note(verdict);
    if verdict == LayerVerdict::Admitted && details.waited.is_some() {
        count(&counters.waited);
    }
    if details.is_outage {
        count(&counters.outages);
    }
}

pub(crate) enum Ruling<K> {
    /// The request is admitted, and nothing was taken.
    Pass {
        would_reject: Option<Box<WouldReject>>,
    },
    Admit {
        key: K,
        cost: Option<u64>,
        permit: Option<Permit>,
    },
    Wait {
        key: K,
        cost: Option<u64>,
        patience: Duration,
    },
    /// Apart, so that those who are let through do not carry the room for it about.
    Reject(Box<Response<Bytes>>),
}

impl<L: fmt::Debug> fmt::Debug for Rules<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("limit", &self.limit)
            .field("name", &self.names.limit)
            .field("wait", &self.live.wait())
            .field("is_dry_run", &self.live.flags().is_dry_run())
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

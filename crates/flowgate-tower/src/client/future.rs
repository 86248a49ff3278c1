use super::advice::{Heard, advice};
use super::error::NotSent;
use super::limits::ClientLimit;
use super::limits::sealed::Sealed;
use super::pauses::{Entry, Waited};
use super::{ClientError, Rules};
use crate::ResponseHead;
use crate::body::LimitBody;
use crate::limits::Permit;
use flowgate::{Denied, Sleep, Timestamp};
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use tower_service::Service;

pin_project! {
    /// The response of a [`PoliteClient`](super::PoliteClient): the wait for the limit, and then the call.
    ///
    /// It does nothing until it is first polled. It allocates the name of the host.
    ///
    /// ```
    /// use flowgate::{Keyed, LeakyBucket, ManualClock};
    /// use flowgate_tower::client::{ClientFuture, ClientLayer, PerHost};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, Service, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Keyed::leaky_bucket("2/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// let mut client = ClientLayer::new(hosts).layer(service_fn(answer));
    /// let request = Request::get("http://example.org/").body(String::new())?;
    /// let response: ClientFuture<_, PerHost<Keyed<LeakyBucket>>, _> = client.call(request);
    /// assert!(response.await?.status().is_success());
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped while it waits leaves the queue. What had been granted to it is returned.
    #[must_use = "futures do nothing unless polled"]
    pub struct ClientFuture<S, L, B>
    where
        S: Service<Request<B>>,
        L: ClientLimit,
    {
        rules: Arc<Rules<L>>,
        host: Option<String>,
        #[pin]
        stage: Stage<S, L, B>,
    }
}

pin_project! {
    #[project = StageProjection]
    #[project_replace = StageReplaced]
    enum Stage<S, L, B>
    where
        S: Service<Request<B>>,
        L: ClientLimit,
    {
        Waiting { wait: Wait<L>, service: S, request: Request<B> },
        Sent { #[pin] future: S::Future, permit: Option<Permit>, sent: Timestamp },
        // After a panic, too.
        Over,
    }
}

/// A wait until a request may be sent to its host.
struct Wait<L: ClientLimit> {
    /// None before the first poll.
    began: Option<Timestamp>,
    /// Whether it was pending once.
    is_pending: bool,
    waited: Waited,
    step: Step<L>,
}

enum Step<L: ClientLimit> {
    Begins,
    /// Until the host's pause is over, or the time of this request after it has come.
    Pauses(Sleep),
    /// Until its limit grants it.
    Waits(<L as Sealed>::Turn),
}

impl<S, L, B> ClientFuture<S, L, B>
where
    S: Service<Request<B>>,
    L: ClientLimit,
{
    pub(super) fn new(
        rules: Arc<Rules<L>>,
        host: Option<String>,
        service: S,
        request: Request<B>,
    ) -> Self {
        let wait = Wait {
            began: None,
            is_pending: false,
            waited: Waited::No,
            step: Step::Begins,
        };
        Self {
            rules,
            host,
            stage: Stage::Waiting {
                wait,
                service,
                request,
            },
        }
    }
}

impl<S, L, B, R> Future for ClientFuture<S, L, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    L: ClientLimit,
    R: Body,
{
    type Output = Result<Response<LimitBody<R>>, ClientError<S::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let rules = &**this.rules;
        let Some(host) = this.host else {
            return Poll::Ready(Err(ClientError::NoHost));
        };
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Waiting { wait, .. } => {
                    let granted = ready!(wait.poll(rules, host, context));
                    let StageReplaced::Waiting {
                        mut service,
                        request,
                        ..
                    } = this.stage.as_mut().project_replace(Stage::Over)
                    else {
                        polled_again()
                    };
                    let permit = granted?;
                    let sent = rules.limit.clock().now();
                    let future = service.call(request);
                    this.stage.as_mut().project_replace(Stage::Sent {
                        future,
                        permit,
                        sent,
                    });
                }
                StageProjection::Sent {
                    future,
                    permit,
                    sent,
                } => {
                    let answer = ready!(future.poll(context));
                    if let Some(throttling) = &rules.throttling {
                        throttling.record(answer.as_ref().ok().map(ResponseHead::of));
                    }
                    let mut permit = permit.take();
                    if let Some(permit) = &mut permit {
                        let head = answer.as_ref().ok().map(ResponseHead::of);
                        permit.note_head(&rules.outcome_of, head);
                    }
                    let response = match answer {
                        Ok(response) => response,
                        Err(error) => {
                            if let Some(permit) = permit {
                                permit.end();
                            }
                            return Poll::Ready(Err(ClientError::Client(error)));
                        }
                    };
                    let advice = advice(&response, SystemTime::now(), rules.heeds_rate_limit);
                    let heard = Heard::of(response.headers(), rules.heeds_rate_limit);
                    let each = || rules.limit.each(host);
                    rules.pauses.heed(host, advice, heard, *sent, each);
                    return Poll::Ready(Ok(response.map(|body| LimitBody::new(body, permit))));
                }
                StageProjection::Over => polled_again(),
            }
        }
    }
}

#[cold]
fn polled_again() -> ! {
    panic!("polled after it was ready")
}

impl<L: ClientLimit> Wait<L> {
    /// Waits until a request may be sent to `host`.
    fn poll<E>(
        &mut self,
        rules: &Rules<L>,
        host: &String,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Permit>, ClientError<E>>> {
        let answer = self.poll_steps(rules, host, context);
        self.is_pending |= answer.is_pending();
        answer
    }

    fn poll_steps<E>(
        &mut self,
        rules: &Rules<L>,
        host: &String,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Permit>, ClientError<E>>> {
        let limit = &rules.limit;
        if let (None, Some(throttling)) = (self.began, &rules.throttling) {
            // Before the wait for the limit: a request that is not sent takes nothing.
            throttling
                .begin()
                .map_err(|denied| self.denied(limit, denied))?;
        }
        let began = *self.began.get_or_insert_with(|| limit.clock().now());
        let deadline = rules.patience.map(|patience| began + patience);
        loop {
            self.step = match &mut self.step {
                Step::Begins => {
                    let entry = rules.pauses.enter(host, self.waited);
                    let (until, waited) = match entry {
                        Entry::Open => {
                            self.step = Step::Waits(limit.turn(host, deadline));
                            continue;
                        }
                        Entry::Paused(until) => (until, Waited::Paused),
                        Entry::At(until) => (until, Waited::InTurn),
                    };
                    if deadline.is_some_and(|deadline| until > deadline) {
                        let now = limit.clock().now();
                        // Repeated then, it waits for up to the maximum again.
                        let rest = until.saturating_duration_since(now);
                        let not_sent = NotSent::now(Some(rest), self.waited_until(now));
                        return Poll::Ready(Err(ClientError::Paused(not_sent)));
                    }
                    self.waited = waited;
                    Step::Pauses(limit.clock().sleep_until(until))
                }
                Step::Pauses(sleep) => {
                    ready!(Pin::new(sleep).poll(context));
                    Step::Begins
                }
                Step::Waits(turn) => {
                    let granted = ready!(Pin::new(turn).poll(context));
                    let granted = granted.map_err(|denied| self.denied(limit, denied))?;
                    // The host may have asked for a pause meanwhile. Requests that wait for its end with a token would
                    // be sent together.
                    if rules.pauses.until(host).is_none() {
                        return Poll::Ready(Ok(granted));
                    }
                    limit.give_back(host, granted);
                    Step::Begins
                }
            };
        }
    }

    fn denied<E>(&self, limit: &L, denied: Denied) -> ClientError<E> {
        let waited = self.waited_until(limit.clock().now());
        ClientError::Denied(denied, NotSent::now(denied.retry_after(), waited))
    }

    /// How long it has waited by `now`, if it had to.
    fn waited_until(&self, now: Timestamp) -> Option<Duration> {
        let began = self.began.filter(|_| self.is_pending)?;
        Some(now.saturating_duration_since(began))
    }
}

impl<S, L, B> fmt::Debug for ClientFuture<S, L, B>
where
    S: Service<Request<B>>,
    L: ClientLimit,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFuture")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

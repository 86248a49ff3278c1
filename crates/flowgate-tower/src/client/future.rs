use super::advice::advice;
use super::pauses::Sleep;
use super::{ClientError, Rules};
use flowgate::{Acquire, AsKey, KeyLimiter, KeyNames, KeyedAlgorithm, Timestamp};
use http::{Request, Response};
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use tower_service::Service;

pin_project! {
    /// A response of a [`PoliteClient`](super::PoliteClient): the wait for the host's limit, and then the call.
    ///
    /// It does nothing until it is first polled, and allocates nothing but the name of the host.
    ///
    /// ```
    /// use flowgate::{Hashed, Keyed, LeakyBucket, ManualClock};
    /// use flowgate_tower::client::{ClientFuture, ClientLayer};
    /// use http::{Request, Response};
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, Service, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Keyed::leaky_bucket("2/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// let mut client = ClientLayer::new(hosts).layer(service_fn(answer));
    /// let request = Request::get("http://example.org/").body(String::new())?;
    /// let response: ClientFuture<_, LeakyBucket, Hashed, _> = client.call(request);
    /// assert!(response.await?.status().is_success());
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits, it leaves the queue, and what had been granted is given back.
    #[must_use = "futures do nothing unless polled"]
    pub struct ClientFuture<S, A, N, B>
    where
        S: Service<Request<B>>,
        A: KeyedAlgorithm,
        A: 'static,
        N: KeyNames,
        N: 'static,
    {
        rules: Arc<Rules<A, N>>,
        host: Option<String>,
        #[pin]
        stage: Stage<S, A, N, B>,
    }
}

pin_project! {
    #[project = StageProjection]
    #[project_replace = StageReplaced]
    enum Stage<S, A, N, B>
    where
        S: Service<Request<B>>,
        A: KeyedAlgorithm,
        A: 'static,
        N: KeyNames,
        N: 'static,
    {
        Waiting { turn: Turn<A, N>, service: S, request: Request<B> },
        Sent { #[pin] future: S::Future },
        // After a panic, too.
        Over,
    }
}

/// A wait until a request may be sent to its host.
struct Turn<A: KeyedAlgorithm + 'static, N: KeyNames + 'static> {
    /// None before the first poll.
    deadline: Option<Deadline>,
    step: Step<A, N>,
}

/// None: however long it takes.
type Deadline = Option<Timestamp>;

enum Step<A: KeyedAlgorithm + 'static, N: KeyNames + 'static> {
    Begins,
    /// Until the host's pause is over.
    Pauses(Sleep),
    /// Until its limit lets it go.
    Waits(Acquire<KeyLimiter<'static, A, N>>),
}

impl<S, A, N, B> ClientFuture<S, A, N, B>
where
    S: Service<Request<B>>,
    A: KeyedAlgorithm,
    N: KeyNames,
{
    pub(super) fn new(
        rules: Arc<Rules<A, N>>,
        host: Option<String>,
        service: S,
        request: Request<B>,
    ) -> Self {
        let turn = Turn {
            deadline: None,
            step: Step::Begins,
        };
        Self {
            rules,
            host,
            stage: Stage::Waiting {
                turn,
                service,
                request,
            },
        }
    }
}

impl<S, A, N, B, R> Future for ClientFuture<S, A, N, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: KeyedAlgorithm,
    N: KeyNames,
    String: AsKey<N>,
{
    type Output = Result<Response<R>, ClientError<S::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let rules = &**this.rules;
        let Some(host) = this.host else {
            return Poll::Ready(Err(ClientError::NoHost));
        };
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Waiting { turn, .. } => {
                    let answer = ready!(turn.poll(rules, host, context));
                    let StageReplaced::Waiting {
                        mut service,
                        request,
                        ..
                    } = this.stage.as_mut().project_replace(Stage::Over)
                    else {
                        polled_again()
                    };
                    answer?;
                    let future = service.call(request);
                    this.stage.as_mut().project_replace(Stage::Sent { future });
                }
                StageProjection::Sent { future } => {
                    let response = ready!(future.poll(context)).map_err(ClientError::Client)?;
                    let advice = advice(&response, SystemTime::now());
                    rules.pauses.heed(host, advice);
                    return Poll::Ready(Ok(response));
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

impl<A: KeyedAlgorithm + 'static, N: KeyNames + 'static> Turn<A, N>
where
    String: AsKey<N>,
{
    /// Waits until a request may be sent to `host`.
    fn poll<E>(
        &mut self,
        rules: &Rules<A, N>,
        host: &String,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ClientError<E>>> {
        let hosts = &rules.hosts;
        let deadline = *self.deadline.get_or_insert_with(|| {
            let patience = rules.patience?;
            Some(after(hosts.clock().now(), patience))
        });
        loop {
            self.step = match &mut self.step {
                Step::Begins => match rules.pauses.until(host) {
                    Some(until) if deadline.is_some_and(|deadline| until > deadline) => {
                        let rest = until.saturating_duration_since(hosts.clock().now());
                        return Poll::Ready(Err(ClientError::Paused(rest)));
                    }
                    Some(until) => Step::Pauses(rules.pauses.sleep(until)),
                    None => {
                        let turn = Acquire::new(hosts.key_owned(host));
                        Step::Waits(match deadline {
                            Some(deadline) => turn.by(deadline),
                            None => turn,
                        })
                    }
                },
                Step::Pauses(sleep) => {
                    ready!(Pin::new(sleep).poll(context)).map_err(ClientError::Denied)?;
                    Step::Begins
                }
                Step::Waits(turn) => {
                    let granted = ready!(Pin::new(turn).poll(context));
                    let granted = granted.map_err(ClientError::Denied)?;
                    // The host may have asked for a pause meanwhile. Whoever waited for it with a token in hand would
                    // go together with all others who did.
                    if rules.pauses.until(host).is_none() {
                        return Poll::Ready(Ok(()));
                    }
                    hosts.refund(host, granted.units());
                    Step::Begins
                }
            };
        }
    }
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_add(nanos))
}

impl<S, A, N, B> fmt::Debug for ClientFuture<S, A, N, B>
where
    S: Service<Request<B>>,
    A: KeyedAlgorithm,
    N: KeyNames,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFuture")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

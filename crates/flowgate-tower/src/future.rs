use crate::body::LimitBody;
use crate::decision::LayerVerdict;
use crate::limits::sealed::Sealed;
use crate::limits::{Cause, Limits, Patience, Permit, Wait as _};
use crate::rules::{Details, Outcome, Rules, Ruling, WouldReject};
use crate::{RequestHead, ResponseHead};
use bytes::Bytes;
use flowgate::{Denied, Timestamp};
use http::header::HeaderValue;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tower_service::Service;

pin_project! {
    /// The future response of a [`Limited`](crate::Limited) service.
    ///
    /// It first waits in the limit's queue if it has to.
    ///
    /// ```
    /// use flowgate::ConcurrencyLimit;
    /// use flowgate_tower::{LimitLayer, ResponseFuture};
    /// use http::{Request, Response};
    /// use std::time::Duration;
    /// # use std::convert::Infallible;
    /// # use tower::{Layer, Service, service_fn};
    /// # async fn answer(_: Request<String>) -> Result<Response<String>, Infallible> { Ok(Response::new(String::new())) }
    /// let layer = LimitLayer::new(ConcurrencyLimit::new(0)).wait(Duration::from_secs(60));
    /// let counts = layer.counts();
    /// let mut service = layer.layer(service_fn(answer));
    /// let response: ResponseFuture<_, _, _> = service.call(Request::new(String::new()));
    /// drop(response); // the client has gone away
    /// assert_eq!(counts.get().abandoned, 1);
    /// ```
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits, it leaves the queue and returns what it was granted. If it is dropped while
    /// the service works, its permits are returned, but not its tokens, because the work has started. A client that cancels
    /// its requests therefore gets no more tokens than other clients. [`LimitLayer::settle`](crate::LimitLayer::settle) can
    /// refund them.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, L, B>
    where
        S: Service<Request<B>>,
        L: Limits,
    {
        #[pin]
        pub(crate) stage: Stage<S, L, B>,
    }
}

pin_project! {
    #[project = StageProjection]
    #[project_replace = StageReplaced]
    pub(crate) enum Stage<S, L, B>
    where
        S: Service<Request<B>>,
        L: Limits,
    {
        // Apart, so that those who need not wait do not carry the room for it about.
        Waiting { waiting: Option<Box<Waiting<S, L, B>>> },
        Serving { #[pin] future: S::Future, then: Option<Then<L>> },
        Rejected { response: Option<Box<Response<Bytes>>> },
    }
}

/// A request that waits, and the service that it waits for.
pub(crate) struct Waiting<S, L: Limits, B> {
    turn: Turn<L, B>,
    cost: Option<u64>,
    service: S,
}

/// A wait that is counted if it is given up.
struct Turn<L: Limits, B> {
    rules: Arc<Rules<L>>,
    wait: <L as Sealed>::Wait,
    began: Timestamp,
    /// The limit and the amount of the wait; none when it is over.
    waits: Option<(L::Key, Request<B>)>,
}

impl<L: Limits, B> Turn<L, B> {
    /// The time that it has waited, if it was for more than a decision.
    fn waited(&self) -> Option<Duration> {
        let time = || self.rules.limit.clock().now();
        let waited = || time().saturating_duration_since(self.began);
        self.wait.has_waited().then(waited)
    }
}

impl<L: Limits, B> Drop for Turn<L, B> {
    fn drop(&mut self) {
        if let Some((_, request)) = &self.waits {
            let details = Details {
                waited: self.waited(),
                ..Details::default()
            };
            let request = RequestHead::of(request);
            self.rules.note(&request, LayerVerdict::Abandoned, details);
        }
    }
}

/// The next step when the response's head is available, if there is one.
pub(crate) enum Then<L: Limits> {
    FollowUp(Admitted<L>),
    Tell(Arc<Rules<L>>, Box<WouldReject>),
}

/// The tokens and permits of an admitted request, until its response's head is available.
pub(crate) struct Admitted<L: Limits> {
    rules: Arc<Rules<L>>,
    key: L::Key,
    cost: Option<u64>,
    permit: Option<Permit>,
    is_settled: bool,
}

impl<L: Limits> Admitted<L> {
    /// Returns, or takes, the difference to the real cost.
    fn settle(&mut self, outcome: Outcome<'_>) {
        if std::mem::replace(&mut self.is_settled, true) {
            return;
        }
        let Some(settle) = &self.rules.settle else {
            return;
        };
        let limit = &self.rules.limit;
        let taken = self.cost.unwrap_or_else(|| limit.token(&self.key));
        let cost = settle(taken, outcome);
        if cost < taken {
            limit.refund(&self.key, taken - cost);
        } else if cost > taken {
            limit.charge(&self.key, cost - taken);
        }
    }
}

impl<L: Limits> Drop for Admitted<L> {
    fn drop(&mut self) {
        self.settle(Outcome::Cancelled);
    }
}

impl<S, L, B> ResponseFuture<S, L, B>
where
    S: Service<Request<B>>,
    L: Limits,
{
    pub(crate) fn waiting(
        rules: &Arc<Rules<L>>,
        key: L::Key,
        cost: Option<u64>,
        patience: Duration,
        (service, request): (S, Request<B>),
    ) -> Self {
        let turn = Turn {
            rules: Arc::clone(rules),
            wait: rules.limit.wait(&key, cost, Patience::Within(patience)),
            began: rules.limit.clock().now(),
            waits: Some((key, request)),
        };
        let waiting = Waiting {
            turn,
            cost,
            service,
        };
        Self {
            stage: Stage::Waiting {
                waiting: Some(Box::new(waiting)),
            },
        }
    }

    pub(crate) fn rejected(response: Box<Response<Bytes>>) -> Self {
        Self {
            stage: Stage::Rejected {
                response: Some(response),
            },
        }
    }
}

impl<L: Limits> Then<L> {
    #[inline]
    pub(crate) fn of_passed(
        rules: &Arc<Rules<L>>,
        would_reject: Option<Box<WouldReject>>,
    ) -> Option<Self> {
        would_reject.map(|would_reject| Self::Tell(Arc::clone(rules), would_reject))
    }

    #[inline]
    pub(crate) fn of_admitted(
        rules: &Arc<Rules<L>>,
        key: L::Key,
        cost: Option<u64>,
        permit: Option<Permit>,
    ) -> Option<Self> {
        if permit.is_none() && !rules.follows_up() {
            return None;
        }
        Some(Self::FollowUp(Admitted {
            rules: Arc::clone(rules),
            key,
            cost,
            permit,
            is_settled: false,
        }))
    }

    /// Settles with the service's answer, and puts in what there is to say of the limit. Not inlined, so that a
    /// response of which there is nothing to say is not moved about as often.
    #[inline(never)]
    fn follow_up<R: Body, E>(
        &mut self,
        answer: Result<Response<R>, E>,
    ) -> Result<Response<LimitBody<R>>, E> {
        let mut permit = None;
        let mut response = match answer {
            Ok(response) => response,
            Err(error) => {
                if let Self::FollowUp(admitted) = self {
                    admitted.settle(Outcome::Failed);
                    if let Some(mut permit) = admitted.permit.take() {
                        permit.note_head(&admitted.rules.outcome_of, None);
                        permit.end();
                    }
                }
                return Err(error);
            }
        };
        match self {
            Self::FollowUp(admitted) => {
                admitted.settle(Outcome::Answered(ResponseHead::of(&response)));
                let rules = &admitted.rules;
                // As it is while the request still holds what it holds.
                let answer = Ok(admitted.permit.as_ref());
                rules.put_fields(&admitted.key, answer, response.headers_mut());
                permit = admitted.permit.take();
                if let Some(permit) = &mut permit {
                    permit.note_head(&rules.outcome_of, Some(ResponseHead::of(&response)));
                }
                if rules.releases_at_head
                    && let Some(permit) = permit.take()
                {
                    permit.end();
                }
            }
            Self::Tell(rules, would_reject) => {
                if let Some(name) = &rules.dry_run_header
                    && let Ok(value) = HeaderValue::try_from(&would_reject.text)
                {
                    response.headers_mut().insert(name, value);
                }
                let would_reject = WouldReject::clone(would_reject);
                response.extensions_mut().insert(would_reject);
            }
        }
        Ok(response.map(|body| LimitBody::new(body, permit)))
    }
}

impl<S, L, B, R> Future for ResponseFuture<S, L, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    L: Limits,
    R: Body,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageProjection::Waiting { waiting } => {
                    let Some(now) = waiting else { polled_again() };
                    let answer = ready!(Pin::new(&mut now.turn.wait).poll(context));
                    let Some(mut over) = waiting.take() else {
                        polled_again()
                    };
                    let Some((key, request)) = over.turn.waits.take() else {
                        polled_again()
                    };
                    over.go_on(answer, key, request)
                }
                StageProjection::Serving { future, then } => {
                    let answer = ready!(future.poll(context));
                    return Poll::Ready(match then {
                        None => match answer {
                            Ok(response) => Ok(response.map(|body| LimitBody::new(body, None))),
                            Err(error) => Err(error),
                        },
                        Some(then) => then.follow_up(answer),
                    });
                }
                StageProjection::Rejected { response } => {
                    let Some(response) = response.take() else {
                        polled_again();
                    };
                    return Poll::Ready(Ok(response.map(LimitBody::rejection)));
                }
            };
            stage.as_mut().project_replace(next);
        }
    }
}

#[cold]
fn polled_again() -> ! {
    panic!("polled after it was ready")
}

impl<S, L, B> Waiting<S, L, B>
where
    S: Service<Request<B>>,
    L: Limits,
{
    fn go_on(
        mut self,
        answer: Result<Option<Permit>, Denied>,
        key: L::Key,
        request: Request<B>,
    ) -> Stage<S, L, B> {
        let (rules, waited) = (&self.turn.rules, self.turn.waited());
        let head = RequestHead::of(&request);
        match answer {
            Ok(permit) => {
                let details = Details {
                    waited,
                    is_outage: permit.as_ref().is_some_and(Permit::is_of_outage),
                    ..Details::default()
                };
                rules.note(&head, LayerVerdict::Admitted, details);
                let future = self.service.call(request);
                let then = Then::of_admitted(rules, key, self.cost, permit);
                Stage::Serving { future, then }
            }
            Err(denied) => match rules.refused(&Cause::Denied(denied), Some(&key), &head, waited) {
                Ruling::Reject(response) => Stage::Rejected {
                    response: Some(response),
                },
                Ruling::Pass { would_reject } => Stage::Serving {
                    then: Then::of_passed(rules, would_reject),
                    future: self.service.call(request),
                },
                Ruling::Admit { .. } | Ruling::Wait { .. } => {
                    unreachable!("it has been refused")
                }
            },
        }
    }
}

impl<S, L, B> fmt::Debug for ResponseFuture<S, L, B>
where
    S: Service<Request<B>>,
    L: Limits,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Waiting { .. } => "Waiting",
            Stage::Serving { .. } => "Serving",
            Stage::Rejected { .. } => "Rejected",
        };
        write!(f, "ResponseFuture({stage})")
    }
}

use crate::body::LimitBody;
use crate::counts::count;
use crate::limits::sealed::Sealed;
use crate::limits::{Limits, Permit, Wait};
use crate::rules::{DryRun, Outcome, Rules, WouldReject};
use crate::{RequestHead, ResponseHead};
use bytes::Bytes;
use flowgate::Denied;
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
    /// A response of a [`Limited`](crate::Limited) service, to be: after a wait for its turn, if there has to be one.
    ///
    /// # Cancel safety
    ///
    /// Dropping it while it waits leaves the line, and what had been granted is given back. Dropped while the service
    /// works, its slots come back, and its tokens stay spent, since the work has begun: whoever sends requests and
    /// takes them back again gets no more of them than others. [`LimitLayer::settle`](crate::LimitLayer::settle) can
    /// decide otherwise.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, L, B>
    where
        S: Service<Request<B>>,
        L: Limits,
    {
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
        L: Limits,
    {
        // Apart, so that those who need not wait do not carry the room for it about.
        Waiting { waiting: Option<Box<Waiting<S, L, B>>> },
        Serving { #[pin] future: S::Future, then: Then<L> },
        Rejected { response: Option<Response<Bytes>> },
    }
}

/// A request that waits, and the service that it waits for.
struct Waiting<S, L: Limits, B> {
    turn: Turn<L>,
    cost: Option<u64>,
    service: S,
    request: Request<B>,
}

/// A wait that is counted if it is given up.
struct Turn<L: Limits> {
    rules: Arc<Rules<L>>,
    wait: Wait<<L as Sealed>::Key>,
    is_over: bool,
}

impl<L: Limits> Drop for Turn<L> {
    fn drop(&mut self) {
        if !self.is_over {
            count(&self.rules.counters().abandoned);
        }
    }
}

/// What is to be done when the response's head is there.
enum Then<L: Limits> {
    Nothing,
    FollowUp(Admitted<L>),
    Tell(Arc<Rules<L>>, Box<WouldReject>),
}

/// What a request has been let through with, until its response's head is there.
struct Admitted<L: Limits> {
    rules: Arc<Rules<L>>,
    key: L::Key,
    cost: Option<u64>,
    permit: Option<Permit>,
    is_settled: bool,
}

impl<L: Limits> Admitted<L> {
    /// Gives back, or takes, the difference to what it really cost.
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
    pub(crate) fn passed(
        rules: &Arc<Rules<L>>,
        future: S::Future,
        would_reject: Option<Box<WouldReject>>,
    ) -> Self {
        let then = match would_reject {
            Some(would_reject) => Then::Tell(Arc::clone(rules), would_reject),
            None => Then::Nothing,
        };
        Self {
            stage: Stage::Serving { future, then },
        }
    }

    pub(crate) fn admitted(
        rules: &Arc<Rules<L>>,
        future: S::Future,
        key: L::Key,
        cost: Option<u64>,
        permit: Option<Permit>,
    ) -> Self {
        let then = Then::of_admitted(rules, key, cost, permit);
        Self {
            stage: Stage::Serving { future, then },
        }
    }

    pub(crate) fn waiting(
        rules: &Arc<Rules<L>>,
        key: L::Key,
        cost: Option<u64>,
        patience: Duration,
        (service, request): (S, Request<B>),
    ) -> Self {
        let turn = Turn {
            rules: Arc::clone(rules),
            wait: rules.limit.wait(key, cost, patience),
            is_over: false,
        };
        let waiting = Waiting {
            turn,
            cost,
            service,
            request,
        };
        Self {
            stage: Stage::Waiting {
                waiting: Some(Box::new(waiting)),
            },
        }
    }

    pub(crate) fn rejected(response: Response<Bytes>) -> Self {
        Self {
            stage: Stage::Rejected {
                response: Some(response),
            },
        }
    }
}

impl<L: Limits> Then<L> {
    fn of_admitted(
        rules: &Arc<Rules<L>>,
        key: L::Key,
        cost: Option<u64>,
        permit: Option<Permit>,
    ) -> Self {
        if permit.is_none() && !rules.follows_up() {
            return Self::Nothing;
        }
        Self::FollowUp(Admitted {
            rules: Arc::clone(rules),
            key,
            cost,
            permit,
            is_settled: false,
        })
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
                    let (answer, key) = ready!(now.turn.wait.as_mut().poll(context));
                    now.turn.is_over = true;
                    let Some(over) = waiting.take() else {
                        polled_again()
                    };
                    over.go_on(answer, key)
                }
                StageProjection::Serving { future, then } => {
                    let answer = ready!(future.poll(context));
                    let then = std::mem::replace(then, Then::Nothing);
                    return Poll::Ready(answered(answer, then));
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
    fn go_on(mut self, answer: Result<Option<Permit>, Denied>, key: L::Key) -> Stage<S, L, B> {
        let rules = &self.turn.rules;
        match answer {
            Ok(permit) => {
                count(&rules.counters().admitted);
                count(&rules.counters().waited);
                let future = self.service.call(self.request);
                let then = Then::of_admitted(rules, key, self.cost, permit);
                Stage::Serving { future, then }
            }
            Err(denied) => {
                let response =
                    rules.reject_after_wait(denied, &key, &RequestHead::of(&self.request));
                Stage::Rejected {
                    response: Some(response),
                }
            }
        }
    }
}

/// The service's answer, with what there is to say of the limit.
fn answered<L: Limits, R: Body, E>(
    answer: Result<Response<R>, E>,
    then: Then<L>,
) -> Result<Response<LimitBody<R>>, E> {
    let mut response = match answer {
        Ok(response) => response,
        Err(error) => {
            if let Then::FollowUp(mut admitted) = then {
                admitted.settle(Outcome::Failed);
            }
            return Err(error);
        }
    };
    let mut permit = None;
    match then {
        Then::Nothing => {}
        Then::FollowUp(mut admitted) => {
            admitted.settle(Outcome::Answered(ResponseHead::of(&response)));
            let rules = &admitted.rules;
            rules.put_fields(&admitted.key, response.headers_mut());
            if !rules.releases_at_head {
                permit = admitted.permit.take();
            }
        }
        Then::Tell(rules, would_reject) => {
            if let Some(DryRun { header: Some(name) }) = &rules.dry_run
                && let Ok(value) = HeaderValue::try_from(&would_reject.text)
            {
                response.headers_mut().insert(name, value);
            }
            response.extensions_mut().insert(*would_reject);
        }
    }
    Ok(response.map(|body| LimitBody::new(body, permit)))
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

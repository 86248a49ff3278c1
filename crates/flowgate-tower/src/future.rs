use crate::body::LimitBody;
use crate::counts::count;
use crate::limits::sealed::Sealed;
use crate::limits::{Limits, Permit, Wait};
use crate::rules::{DryRun, Outcome, Rules, WouldReject};
use crate::{RequestHead, ResponseHead};
use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
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
        Waiting {
            rules: Arc<Rules<L>>,
            wait: Waiter<L>,
            cost: Option<u64>,
            then: Option<(S, Request<B>)>,
        },
        Serving {
            #[pin]
            future: S::Future,
            admitted: Option<Admitted<L>>,
            dry_run: Option<(Arc<Rules<L>>, Box<WouldReject>)>,
        },
        Rejected {
            response: Option<Response<Bytes>>,
        },
    }
}

/// A wait that is counted if it is given up.
struct Waiter<L: Limits> {
    rules: Arc<Rules<L>>,
    turn: Wait<<L as Sealed>::Key>,
    is_over: bool,
}

impl<L: Limits> Drop for Waiter<L> {
    fn drop(&mut self) {
        if !self.is_over {
            count(&self.rules.counters().abandoned);
        }
    }
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
        rules: Arc<Rules<L>>,
        future: S::Future,
        would_reject: Option<Box<WouldReject>>,
    ) -> Self {
        Self {
            stage: Stage::Serving {
                future,
                admitted: None,
                dry_run: would_reject.map(|would| (rules, would)),
            },
        }
    }

    pub(crate) fn admitted(
        rules: Arc<Rules<L>>,
        future: S::Future,
        key: L::Key,
        cost: Option<u64>,
        permit: Permit,
    ) -> Self {
        Self {
            stage: Stage::serving(future, rules, key, cost, permit),
        }
    }

    pub(crate) fn waiting(
        rules: Arc<Rules<L>>,
        turn: Wait<L::Key>,
        cost: Option<u64>,
        then: (S, Request<B>),
    ) -> Self {
        let wait = Waiter {
            rules: Arc::clone(&rules),
            turn,
            is_over: false,
        };
        Self {
            stage: Stage::Waiting {
                rules,
                wait,
                cost,
                then: Some(then),
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

impl<S, L, B> Stage<S, L, B>
where
    S: Service<Request<B>>,
    L: Limits,
{
    fn serving(
        future: S::Future,
        rules: Arc<Rules<L>>,
        key: L::Key,
        cost: Option<u64>,
        permit: Permit,
    ) -> Self {
        let admitted = Admitted {
            rules,
            key,
            cost,
            permit: Some(permit),
            is_settled: false,
        };
        Self::Serving {
            future,
            admitted: Some(admitted),
            dry_run: None,
        }
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
                StageProjection::Waiting {
                    rules,
                    wait,
                    cost,
                    then,
                } => {
                    let (answer, key) = ready!(wait.turn.as_mut().poll(context));
                    wait.is_over = true;
                    let Some((mut service, request)) = then.take() else {
                        polled_again();
                    };
                    match answer {
                        Ok(permit) => {
                            count(&rules.counters().admitted);
                            count(&rules.counters().waited);
                            let future = service.call(request);
                            Stage::serving(future, Arc::clone(rules), key, *cost, permit)
                        }
                        Err(denied) => Stage::Rejected {
                            response: Some(rules.reject_after_wait(
                                denied,
                                &key,
                                &RequestHead::of(&request),
                            )),
                        },
                    }
                }
                StageProjection::Serving {
                    future,
                    admitted,
                    dry_run,
                } => {
                    let answer = ready!(future.poll(context));
                    return Poll::Ready(answered(answer, admitted.take(), dry_run.take()));
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

/// The service's answer, with what there is to say of the limit.
fn answered<L: Limits, R: Body, E>(
    answer: Result<Response<R>, E>,
    admitted: Option<Admitted<L>>,
    dry_run: Option<(Arc<Rules<L>>, Box<WouldReject>)>,
) -> Result<Response<LimitBody<R>>, E> {
    let mut response = match answer {
        Ok(response) => response,
        Err(error) => {
            if let Some(mut admitted) = admitted {
                admitted.settle(Outcome::Failed);
            }
            return Err(error);
        }
    };
    let mut permit = None;
    if let Some(mut admitted) = admitted {
        admitted.settle(Outcome::Answered(ResponseHead::of(&response)));
        let rules = &admitted.rules;
        rules.put_fields(&admitted.key, response.headers_mut());
        if !rules.releases_at_head {
            permit = admitted.permit.take();
        }
    }
    if let Some((rules, would_reject)) = dry_run {
        if let Some(DryRun { header: Some(name) }) = &rules.dry_run
            && let Ok(value) = HeaderValue::try_from(&would_reject.text)
        {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(*would_reject);
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

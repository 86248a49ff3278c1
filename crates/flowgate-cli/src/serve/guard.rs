//! One limit in front of the page, with injected faults.

use std::cell::Cell;
use std::time::{Duration, Instant};

use flowgate::{Clock, Limiter, QuotaError, Source};
use flowgate_tower::{AnyLimit, Headers, LimitBody, LimitLayer, Limited};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use std::sync::Arc;
use tower_layer::Layer;
use tower_service::Service;

use super::page::Dropped;
use super::{Faults, Limit, Page};

/// Time between check and update of a race: about one database query.
const RACE: Duration = Duration::from_micros(300);
/// How long a ban lasts.
const BAN: Duration = Duration::from_secs(60);

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Response of a site.
pub(crate) type Answer = Response<Either<LimitBody<Full<Bytes>>, Full<Bytes>>>;

/// Marks a refusal in its extensions.
#[derive(Clone, Copy)]
struct Refused;

/// How requests are refused.
#[derive(Clone, Debug)]
pub(crate) struct Answering {
    /// The status of a refusal.
    pub(crate) refusal: StatusCode,
    /// Headers that describe the limit.
    pub(crate) fields: Headers,
}

/// A separate limit in front of the page.
pub(crate) struct Guard {
    service: Limited<Page, AnyLimit>,
    limiter: Option<Arc<dyn Limiter>>,
    refusal: StatusCode,
    faults: Faults,
    refusals: Cell<u64>,
    banned_until: Cell<Option<Instant>>,
}

impl Guard {
    pub(crate) fn new(
        limit: &Limit,
        answering: &Answering,
        faults: Faults,
        page: Page,
    ) -> Result<Guard, QuotaError> {
        let clock = match faults.late_reset {
            Some(share) => Clock::custom(Slow {
                clock: Clock::system(),
                share,
            }),
            None => Clock::system(),
        };
        let built = limit.build(clock)?;
        let refusal = answering.refusal;
        let fields = match limit {
            Limit::None => Headers::none(),
            _ => answering.fields,
        };
        let layer = LimitLayer::new(built.limit)
            .headers(fields)
            .on_rejected(move |rejection| {
                let mut response = rejection.response();
                *response.status_mut() = refusal;
                response.extensions_mut().insert(Refused);
                response
            });
        let layer = match built.max_wait {
            Some(max_wait) => layer.wait(max_wait),
            None => layer,
        };
        Ok(Guard {
            service: layer.layer(page),
            limiter: built.limiter,
            refusal,
            faults,
            refusals: Cell::new(0),
            banned_until: Cell::new(None),
        })
    }

    /// Returns the response, and whether the request was admitted.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<(Answer, bool), Dropped> {
        if let Some(until) = self.banned_until.get()
            && let Some(left) = until.checked_duration_since(Instant::now())
        {
            return Ok((self.banned(left), false));
        }
        let had_room = match &self.limiter {
            Some(limiter) if self.faults.race => {
                let had_room = limiter.peek().is_ok();
                if had_room {
                    let act = Instant::now() + RACE;
                    // A timer would take at least 1 ms. Yielding serves other requests meanwhile.
                    while Instant::now() < act {
                        tokio::task::yield_now().await;
                    }
                }
                had_room
            }
            _ => false,
        };
        let mut response = self.service.clone().call(request).await?;
        let is_refused = response.extensions().get::<Refused>().is_some();
        if is_refused && had_room {
            // The race admitted it before.
            let page = self.service.get_ref().bytes();
            let mut response = response.map(|_| Either::Right(Full::new(page)));
            *response.status_mut() = StatusCode::OK;
            for name in [RETRY_AFTER, CONTENT_TYPE] {
                response.headers_mut().remove(name);
            }
            return Ok((response, true));
        }
        if is_refused {
            self.refuse(response.headers_mut());
        }
        Ok((response.map(Either::Left), !is_refused))
    }

    /// Applies the faults of a refusal.
    fn refuse(&self, headers: &mut HeaderMap) {
        let after = match &self.limiter {
            Some(limiter) => limiter.peek().err().and_then(|denied| denied.retry_after()),
            None => None,
        };
        if let Some(by) = self.faults.early_retry_after {
            put_wait(
                headers,
                after.unwrap_or_default().saturating_sub(by).as_secs(),
            );
        }
        self.refusals.set(self.refusals.get() + 1);
        if self.faults.ban == Some(self.refusals.get()) {
            self.refusals.set(0);
            self.banned_until.set(Some(Instant::now() + BAN));
        }
    }

    fn banned(&self, left: Duration) -> Answer {
        let mut response = bare(self.refusal);
        let seconds = left.as_secs() + 1;
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
        response
    }
}

/// Returns a response without a body.
pub(crate) fn bare(status: StatusCode) -> Answer {
    let mut response = Response::new(Either::Right(Full::default()));
    *response.status_mut() = status;
    response
}

/// Replaces the time in every header that has one.
fn put_wait(headers: &mut HeaderMap, seconds: u64) {
    for name in [RETRY_AFTER, X_RESET] {
        if let Some(value) = headers.get_mut(name) {
            *value = seconds.into();
        }
    }
    let told = headers.get(RATELIMIT).and_then(|value| value.to_str().ok());
    let before = told.and_then(|told| {
        let at = told.find(";t=").or_else(|| told.find(";t_us="))?;
        told.get(..at)
    });
    if let Some(before) = before
        && let Ok(value) = HeaderValue::try_from(format!("{before};t={seconds}"))
    {
        headers.insert(RATELIMIT, value);
    }
}

/// A slow clock: windows last longer than they should by this fraction, and their headers do not show it.
struct Slow {
    clock: Clock,
    share: f64,
}

impl Source for Slow {
    fn now_ns(&self) -> u64 {
        let real_ns = self.clock.now().as_nanos();
        (real_ns as f64 / (1.0 + self.share)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_tells_the_same_wait() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, 7.into());
        for standing in [
            "\"default\";r=0;t=7;t_us=6543210",
            "\"default\";r=0;t_us=10000",
        ] {
            headers.insert(RATELIMIT, HeaderValue::from_static(standing));
            put_wait(&mut headers, 5);
            assert_eq!(headers[RETRY_AFTER], "5");
            assert_eq!(headers[RATELIMIT], "\"default\";r=0;t=5");
            assert!(!headers.contains_key(X_RESET), "nothing is added");
        }
    }
}

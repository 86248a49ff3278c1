//! The page behind the limit.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use tower_service::Service;

use super::Faults;

/// A page with a delay.
#[derive(Clone)]
pub(crate) struct Page {
    body: Bytes,
    delay: Duration,
    errors: Rc<Share>,
    drops: Rc<Share>,
}

/// The connection is to be closed without a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped;

/// Picks a fraction of the requests at constant intervals: at 1 %, every hundredth.
struct Share {
    share: f64,
    sum: Cell<f64>,
}

impl Page {
    /// Creates a page of `bytes` bytes, with a delay and injected faults.
    pub(crate) fn new(bytes: usize, delay: Duration, faults: &Faults) -> Page {
        Page {
            body: vec![b'.'; bytes].into(),
            delay,
            errors: Rc::new(Share::new(faults.error)),
            drops: Rc::new(Share::new(faults.drop)),
        }
    }

    /// Returns its contents.
    pub(crate) fn bytes(&self) -> Bytes {
        self.body.clone()
    }
}

impl Share {
    fn new(share: Option<f64>) -> Share {
        Share {
            share: share.unwrap_or(0.0),
            sum: Cell::new(0.0),
        }
    }

    fn picks(&self) -> bool {
        // In floating point, 100 × 0.01 is a little less than 1.
        let sum = self.sum.get() + self.share;
        let picks = sum > 1.0 - 1e-9;
        self.sum.set(if picks { sum - 1.0 } else { sum });
        picks
    }
}

impl Service<Request<Incoming>> for Page {
    type Response = Response<Full<Bytes>>;
    type Error = Dropped;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Dropped>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Dropped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let page = self.clone();
        Box::pin(async move {
            // Read the request to its end, so that the connection can be reused.
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                frame.map_err(|_| Dropped)?;
            }
            if !page.delay.is_zero() {
                tokio::time::sleep(page.delay).await;
            }
            if page.drops.picks() {
                return Err(Dropped);
            }
            let mut response = Response::new(Full::new(page.body.clone()));
            if page.errors.picks() {
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            }
            Ok(response)
        })
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed without a response")
    }
}

impl std::error::Error for Dropped {}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn a_share_is_spread_evenly() {
        for (share, of, expected) in [(0.01, 1000, 10), (1.0, 7, 7), (0.25, 8, 2), (0.0, 9, 0)] {
            let picked = Share::new(Some(share));
            let times = (0..of).filter(|_| picked.picks()).count();
            assert_eq!(times, expected, "{share}");
        }
        let hundredth = Share::new(Some(0.01));
        assert_eq!((0..200).position(|_| hundredth.picks()), Some(99));
    }
}

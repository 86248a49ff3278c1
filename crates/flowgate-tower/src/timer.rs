//! Waiting for a time, on any clock.

use flowgate::{Acquire, Clock, ConcurrencyLimit, Denied, Permits, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Wakes tasks at times of a clock.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    /// Has no permits, so waiting for one is waiting for a deadline.
    never: Arc<ConcurrencyLimit>,
}

impl Timer {
    pub(crate) fn new(clock: &Clock) -> Self {
        // None is within the range.
        let never = ConcurrencyLimit::builder(0).clock(clock).build();
        Self {
            never: Arc::new(never.unwrap_or_else(|_| ConcurrencyLimit::new(0))),
        }
    }

    /// Waits until then.
    pub(crate) fn until(&self, until: Timestamp) -> Sleep {
        Sleep(self.never.acquire_owned().by(until))
    }
}

/// A wait for a time. An error if too many wait.
#[derive(Debug)]
pub(crate) struct Sleep(Acquire<Permits<Arc<ConcurrencyLimit>>>);

impl Future for Sleep {
    type Output = Result<(), Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(context)) {
            Err(denied) if denied.is_queue_full() => Err(denied),
            // Refused when the deadline has come, and not before.
            _ => Ok(()),
        })
    }
}

/// The time `wait` after `now`; the end of time if that is later.
pub(crate) fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    Timestamp::from_nanos(now.as_nanos().saturating_add(wait_ns))
}

//! Waiting for a time, on any clock and under any runtime.

use flowgate::{Acquire, Clock, ConcurrencyLimit, Permits};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

/// Wakes callers at times of a clock.
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

    /// Waits for this time, counted from the first poll.
    fn after(&self, wait: Duration) -> Sleep {
        self.never.acquire_owned().within(wait)
    }
}

/// A wait for a time. It ends with a refusal when the deadline has come, and not before.
type Sleep = Acquire<Permits<Arc<ConcurrencyLimit>>>;

/// How long a caller waits for the store.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) longest: Duration,
    /// Since the first poll.
    sleep: Option<Box<Sleep>>,
    is_over: bool,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            longest,
            sleep: None,
            is_over: false,
        }
    }

    /// Returns whether the time has passed. Otherwise, the task is woken when it has.
    pub(crate) fn is_over(&mut self, timer: &Timer, context: &mut Context<'_>) -> bool {
        if !self.is_over {
            let sleep = || Box::new(timer.after(self.longest));
            let sleep = self.sleep.get_or_insert_with(sleep);
            self.is_over = Pin::new(sleep).poll(context).is_ready();
        }
        self.is_over
    }
}

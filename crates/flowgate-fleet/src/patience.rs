//! How long a caller waits for the store.

use flowgate::{Clock, Sleep};
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

/// A time that begins when it is looked at first.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) longest: Duration,
    /// Since the first look.
    sleep: Option<Sleep>,
}

impl Patience {
    pub(crate) const fn new(longest: Duration) -> Self {
        Self {
            longest,
            sleep: None,
        }
    }

    /// Returns whether the time has passed. Otherwise, the task is woken when it has.
    pub(crate) fn is_over(&mut self, clock: &Clock, context: &mut Context<'_>) -> bool {
        let begin = || clock.sleep(self.longest);
        let sleep = self.sleep.get_or_insert_with(begin);
        Pin::new(sleep).poll(context).is_ready()
    }
}

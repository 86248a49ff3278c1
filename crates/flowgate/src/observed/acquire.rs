use super::counters::Counters;
use crate::clock::Timestamp;
use crate::room::{Acquire, CancelHandle, Grant, Spacing};
use crate::verdict::Denied;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// A wait for a turn that is counted: [`Acquire`] in all else.
///
/// Made by [`Observed::acquire`](crate::Observed::acquire).
///
/// ```
/// use flowgate::{Observed, TokenBucket};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Observed::new(TokenBucket::new("1000/s burst 10".parse()?));
/// limiter.acquire().n(10).await?;
/// limiter.acquire().n(5).within(Duration::from_millis(2)).await.unwrap_err();
///
/// let counts = limiter.counts();
/// assert_eq!((counts.admitted, counts.refused.deadline), (1, 1));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// When it is polled again after it was ready.
#[must_use = "it waits for nothing until it is awaited or blocked on"]
pub struct ObservedAcquire<'a> {
    /// Leaves the line before it is counted as gone.
    wait: Acquire<'a>,
    tally: Tally<'a>,
}

/// Counts the end of a wait that has begun, whatever it is.
struct Tally<'a> {
    counters: &'a Counters,
    has_begun: bool,
}

impl<'a> ObservedAcquire<'a> {
    pub(super) fn new(wait: Acquire<'a>, counters: &'a Counters) -> Self {
        let has_begun = false;
        Self {
            wait,
            tally: Tally {
                counters,
                has_begun,
            },
        }
    }

    /// [`Acquire::n`].
    pub fn n(self, units: u64) -> Self {
        self.with(|wait| wait.n(units))
    }

    /// [`Acquire::within`].
    pub fn within(self, patience: Duration) -> Self {
        self.with(|wait| wait.within(patience))
    }

    /// [`Acquire::by`].
    pub fn by(self, deadline: Timestamp) -> Self {
        self.with(|wait| wait.by(deadline))
    }

    /// [`Acquire::since`].
    pub fn since(self, then: Timestamp) -> Self {
        self.with(|wait| wait.since(then))
    }

    /// [`Acquire::spacing`].
    pub fn spacing(self, spacing: Spacing) -> Self {
        self.with(|wait| wait.spacing(spacing))
    }

    /// [`Acquire::cancelled_by`].
    pub fn cancelled_by(self, handle: &CancelHandle) -> Self {
        self.with(|wait| wait.cancelled_by(handle))
    }

    /// [`Acquire::block`].
    ///
    /// # Errors
    ///
    /// [`Denied`], as when it is awaited.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn block(self) -> Result<Grant, Denied> {
        let Self { wait, mut tally } = self;
        tally.has_begun = true;
        let answer = wait.block();
        tally.end(&answer);
        answer
    }

    fn with(self, set: impl FnOnce(Acquire<'a>) -> Acquire<'a>) -> Self {
        Self {
            wait: set(self.wait),
            tally: self.tally,
        }
    }
}

impl Future for ObservedAcquire<'_> {
    type Output = Result<Grant, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { wait, tally } = &mut *self;
        tally.has_begun = true;
        let answer = core::task::ready!(Pin::new(wait).poll(context));
        tally.end(&answer);
        Poll::Ready(answer)
    }
}

impl Tally<'_> {
    fn end(&mut self, answer: &Result<Grant, Denied>) {
        self.has_begun = false;
        match answer {
            Ok(grant) => self.counters.waited(grant.units(), grant.waited()),
            Err(denied) => self.counters.refused_in_line(denied),
        }
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        if self.has_begun {
            self.counters.abandoned();
        }
    }
}

impl fmt::Debug for ObservedAcquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObservedAcquire").field(&self.wait).finish()
    }
}

use super::{Supply, Turn};
use crate::clock::Timestamp;
use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll};

/// The instants of a limiter's grants, one after the other.
///
/// They are a metronome that shares the limit with all other callers. Each instant is returned when it has come.
///
/// Each tick is requested as of the one before. A caller that is late with one tick gets the missed ticks immediately, with
/// the instants for which they were scheduled, and none is lost. Open-loop work is paced in this way: the delay between a
/// tick and the work is part of what is measured.
///
/// Threads use it as an iterator. Tasks use [`tick`](Self::tick), or a `Stream` with the feature `futures`. It ends when the
/// limiter refuses, which is when it has been [closed](crate::WaitQueue::close) or its queue is full.
///
/// ```
/// use flowgate::LeakyBucket;
///
/// let limiter = LeakyBucket::new("1000/s".parse()?);
/// let ticks: Vec<_> = limiter.ticks().take(4).map(|at| at.as_nanos()).collect();
/// assert_eq!(ticks[3] - ticks[0], 3_000_000);
/// # Ok::<_, flowgate::QuotaError>(())
/// ```
#[must_use = "an iterator does nothing until it is asked for its next item"]
pub struct Ticks<'a> {
    supply: &'a dyn Supply,
    turn: Turn,
    /// The tick before.
    last: Option<Timestamp>,
    is_over: bool,
}

impl<'a> Ticks<'a> {
    pub(crate) fn new(supply: &'a dyn Supply) -> Self {
        Self {
            supply,
            turn: Turn::new(),
            last: None,
            is_over: false,
        }
    }

    /// Returns the next instant, once it has come; `None` when the limiter refuses.
    ///
    /// Dropping the future loses no tick.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let mut ticks = limiter.ticks();
    /// let first = ticks.tick().await.expect("it is not closed");
    /// let second = ticks.tick().await.expect("it is not closed");
    /// assert_eq!(second.as_nanos() - first.as_nanos(), 1_000_000);
    /// limiter.queue().close();
    /// assert_eq!(ticks.tick().await, None);
    /// # Ok::<_, flowgate::QuotaError>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub async fn tick(&mut self) -> Option<Timestamp> {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Polls for the next instant, as [`tick`](Self::tick) does.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Option<Timestamp>> {
        self.poll_with(context.waker())
    }

    fn poll_with(&mut self, waker: &core::task::Waker) -> Poll<Option<Timestamp>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let Poll::Ready(answer) = self.turn.poll(self.supply, waker) else {
            return Poll::Pending;
        };
        self.turn = Turn::new();
        match answer {
            Ok(granted) => {
                self.turn.since_ns = Some(granted.at_ns);
                self.last = Some(Timestamp::from_nanos(granted.at_ns));
                Poll::Ready(self.last)
            }
            Err(_) => {
                self.is_over = true;
                Poll::Ready(None)
            }
        }
    }
}

/// Blocks the thread until the next tick is due.
#[cfg(all(feature = "std", not(flowgate_loom)))]
impl Iterator for Ticks<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        super::park::block_on(|waker| self.poll_with(waker))
    }
}

#[cfg(feature = "futures")]
impl futures_core::Stream for Ticks<'_> {
    type Item = Timestamp;

    fn poll_next(
        mut self: core::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Timestamp>> {
        self.poll_tick(context)
    }
}

impl Drop for Ticks<'_> {
    fn drop(&mut self) {
        self.turn.abandon(self.supply);
    }
}

impl fmt::Debug for Ticks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("last", &self.last)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

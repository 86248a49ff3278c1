use super::cancel::CancelHandle;
use super::settings::Spacing;
use super::turn::Granted;
use super::{Supply, Turn};
use crate::clock::Timestamp;
use crate::verdict::Denied;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// A wait for a turn: a future, and until it is first polled a builder of itself.
///
/// Made by `acquire()` of every limiter. It does nothing until it is awaited, in any runtime, or
/// [blocked](Self::block) on; tasks and threads stand in the same line.
///
/// ```
/// use flowgate::TokenBucket;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = TokenBucket::new("1000/s burst 10".parse()?);
/// limiter.acquire().await?;
/// let granted = limiter.acquire().n(10).within(Duration::from_millis(20)).await?;
/// assert!(granted.waited() <= Duration::from_millis(1));
///
/// // 10 tokens take 10 ms: hopeless, and told so at once.
/// let denied = limiter.acquire().n(10).within(Duration::from_millis(2)).await.unwrap_err();
/// assert!(denied.retry_after().unwrap() <= Duration::from_millis(8));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Turns
///
/// Those in line are served in the order of their first poll ([`Order`](crate::Order) knows others), large requests as
/// well as small ones, and `try_acquire` does not overtake them. A turn costs the others nothing if its owner
/// gives up: those behind move up.
///
/// # Deadlines
///
/// A wait that would last beyond its deadline, if all those ahead take their turns, is refused at once, as far as that is
/// known: exactly at token and leaky buckets, and elsewhere if it would do so even if those ahead asked for single units. A deadline that has
/// passed is one of now: what can be had without a wait is had.
///
/// # Cancel safety
///
/// Dropping it leaves the line. What had been granted by then, and not seen, is given back, except for what has flowed in
/// again by itself meanwhile.
///
/// # Panics
///
/// When it is polled again after it was ready.
#[must_use = "it waits for nothing until it is awaited or blocked on"]
pub struct Acquire<'a> {
    supply: &'a dyn Supply,
    turn: Turn,
}

/// A turn that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    units: u64,
    since_ns: u64,
    at_ns: u64,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(supply: &'a dyn Supply) -> Self {
        Self {
            supply,
            turn: Turn::new(),
        }
    }

    /// Asks for `units`, all at once, instead of one token. 0 is granted at once. Units are those of the quota when it is
    /// granted; a token stays one, however a later quota divides it.
    pub fn n(mut self, units: u64) -> Self {
        self.turn.units = Some(units);
        self
    }

    /// Waits for `patience` at the longest, counted from the first poll.
    pub fn within(mut self, patience: Duration) -> Self {
        self.turn.within(patience);
        self
    }

    /// Waits until `deadline` of the limiter's clock at the longest.
    pub fn by(mut self, deadline: Timestamp) -> Self {
        self.turn.by(deadline);
        self
    }

    /// Counts as having been asked for at `then`, if that is past: a grant that was possible since is dated then.
    ///
    /// For work by a schedule that must not shift when its owner is late: pass
    /// [`Grant::at`] of the turn before.
    pub fn since(mut self, then: Timestamp) -> Self {
        self.turn.since_ns = Some(then.as_nanos());
        self
    }

    /// Counts the distance to the next grant from when it was due, or from when its owner knew.
    pub fn spacing(mut self, spacing: Spacing) -> Self {
        self.turn.spacing = spacing;
        self
    }

    /// Gives up when `handle` is cancelled.
    pub fn cancelled_by(mut self, handle: &CancelHandle) -> Self {
        self.turn.cancelled_by(handle);
        self
    }

    /// Blocks this thread until its turn comes.
    ///
    /// Not for tasks: it stops the whole thread that a runtime works with. Nothing detects that;
    /// there, `.await` it.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// limiter.acquire().block()?;
    /// let granted = limiter.acquire().block()?; // a millisecond later
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`], as when it is awaited.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn block(mut self) -> Result<Grant, Denied> {
        super::park::block_on(|waker| self.turn.poll(self.supply, waker)).map(Grant::from)
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Grant, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let supply = self.supply;
        self.turn.poll(supply, context.waker()).map_ok(Grant::from)
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        self.turn.abandon(self.supply);
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("units", &self.turn.units)
            .finish_non_exhaustive()
    }
}

impl Grant {
    /// The instant at which the turn came, on the limiter's clock. Somewhat before the caller knows it.
    ///
    /// For a grant without a wait it is when the caller looked at the clock; should others have looked later and been
    /// let through first, a window counts it with those.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at_ns)
    }

    /// How many units were granted.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// How long the turn was in coming, from the first poll to [`at`](Self::at).
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.at_ns.saturating_sub(self.since_ns))
    }
}

impl From<Granted> for Grant {
    fn from(granted: Granted) -> Self {
        let Granted {
            units,
            since_ns,
            at_ns,
        } = granted;
        Self {
            units,
            since_ns,
            at_ns,
        }
    }
}

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
/// // 10 of those tokens take an hour: hopeless, and told so at once.
/// let hourly = TokenBucket::new("10/h".parse()?);
/// hourly.acquire().n(10).await?;
/// let denied = hourly.acquire().n(10).within(Duration::from_secs(60)).await.unwrap_err();
/// assert!(denied.retry_after().unwrap() > Duration::from_secs(3000));
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
/// # Forgotten waits
///
/// A wait that was polled, and is then neither polled nor dropped ([`core::mem::forget`]), keeps its place in the queue
/// and about 64 bytes of memory. When its turn comes, it is granted what it asked for, and those units are lost. Waiters
/// behind it are served as if it had used them; they may be woken up to 1 ms late. With
/// [`Spacing::AtLeast`](crate::Spacing::AtLeast) it is granted nothing, and those behind it wait for up to one second
/// before they overtake it.
///
/// # Processes that fork
///
/// A process that was made by `fork()` has copies of its parent's limiters, and a timer of its own: waits end in both.
/// Waits that the parent's other threads had begun are forgotten waits in the child's copy of the queue. As with every
/// lock of the standard library, fork only while no other thread is calling a limiter that the child goes on using.
/// After 64 generations of processes that fork and wait, waits are polled without a pause.
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
///
/// ```
/// use flowgate::LeakyBucket;
/// use std::time::Duration;
///
/// let limiter = LeakyBucket::new("1000/s".parse()?);
/// let first = limiter.acquire().block()?;
/// let second = limiter.acquire().block()?;
/// assert_eq!(second.at().saturating_duration_since(first.at()), Duration::from_millis(1));
/// assert!(second.waited() <= Duration::from_millis(1));
/// assert_eq!(second.units(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
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
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("1000/s burst 10".parse()?);
    /// assert_eq!(limiter.acquire().n(10).block()?.units(), 10);
    /// assert!(limiter.acquire().n(11).block().unwrap_err().is_never());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn n(mut self, units: u64) -> Self {
        self.turn.units = Some(units);
        self
    }

    /// Waits for `patience` at the longest, counted from the first poll.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1/h".parse()?);
    /// limiter.try_acquire()?;
    /// // Told at once, and not a second later.
    /// let denied = limiter.acquire().within(Duration::from_secs(1)).block().unwrap_err();
    /// assert!(denied.retry_after().unwrap() > Duration::from_secs(3000));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(mut self, patience: Duration) -> Self {
        self.turn.within(patience);
        self
    }

    /// Waits until `deadline` of the limiter's clock at the longest.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let deadline = limiter.clock().now() + Duration::from_secs(10); // for a whole request
    /// limiter.acquire().by(deadline).block()?;
    /// limiter.acquire().by(deadline).block()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn by(mut self, deadline: Timestamp) -> Self {
        self.turn.by(deadline);
        self
    }

    /// Counts as having been asked for at `then`, if that is past: a grant that was possible since is dated then.
    ///
    /// For work by a schedule that must not shift when its owner is late: pass
    /// [`Grant::at`] of the turn before.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let first = limiter.acquire().block()?;
    /// std::thread::sleep(Duration::from_millis(3)); // work that takes too long
    /// let second = limiter.acquire().since(first.at()).block()?;
    /// assert_eq!(second.at(), first.at() + Duration::from_millis(1)); // due long since
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn since(mut self, then: Timestamp) -> Self {
        self.turn.since_ns = Some(then.as_nanos());
        self
    }

    /// Counts the distance to the next grant from when it was due, or from when its owner knew.
    ///
    /// ```
    /// use flowgate::{LeakyBucket, Spacing};
    /// use std::time::Duration;
    ///
    /// // However late this thread is woken: never two within a millisecond.
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let first = limiter.acquire().spacing(Spacing::AtLeast).block()?;
    /// let second = limiter.acquire().spacing(Spacing::AtLeast).block()?;
    /// assert!(second.at() >= first.at() + Duration::from_millis(1));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn spacing(mut self, spacing: Spacing) -> Self {
        self.turn.spacing = spacing;
        self
    }

    /// Gives up when `handle` is cancelled.
    ///
    /// ```
    /// use flowgate::{CancelHandle, LeakyBucket};
    ///
    /// let limiter = LeakyBucket::new("1/h".parse()?);
    /// limiter.try_acquire()?;
    /// let shutdown = CancelHandle::new();
    /// std::thread::scope(|threads| {
    ///     let waits = threads.spawn(|| limiter.acquire().cancelled_by(&shutdown).block());
    ///     shutdown.cancel();
    ///     assert!(waits.join().unwrap().unwrap_err().is_cancelled());
    /// });
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
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

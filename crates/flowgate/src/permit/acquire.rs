use super::{Lender, Permit};
use crate::clock::Timestamp;
use crate::room::{CancelHandle, Turn};
use crate::verdict::Denied;
use core::fmt;
use core::future::Future;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// A wait for a [`Permit`]: a future, and until it is first polled a builder of itself.
///
/// Made by `acquire()` and `acquire_owned()` of [`ConcurrencyLimit`](crate::ConcurrencyLimit) and
/// [`Gate`](crate::Gate). It does nothing until it is awaited, in any runtime, or [blocked](Self::block) on; tasks and
/// threads stand in the same line.
///
/// ```
/// use flowgate::ConcurrencyLimit;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = ConcurrencyLimit::new(5);
/// let permit = limit.acquire().n(5).await?;
///
/// let denied = limit.acquire().within(Duration::from_millis(1)).await.unwrap_err();
/// assert!(denied.is_busy());
/// # drop(permit);
/// # Ok::<_, flowgate::Denied>(()) })?;
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
/// While slots are what is missing, a wait is refused as busy at its deadline, and not before: nobody knows how long others
/// use theirs. One that hangs on a rate and would last longer is refused at once. A
/// deadline that has passed is one of now: what can be had without a wait is had.
///
/// # Cancel safety
///
/// Dropping it leaves the line. What had been granted by then, and not seen, goes to those behind.
///
/// # Forgotten waits
///
/// A wait that was polled, and is then neither polled nor dropped ([`core::mem::forget`]), keeps its place in the queue
/// and about 64 bytes of memory. When its turn comes, it is granted what it asked for: those slots stay in use, as
/// those of a permit that is leaked. Waiters behind it are served as usual.
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
pub struct AcquirePermit<P>
where
    P: Deref,
    P::Target: Lender,
{
    limit: P,
    turn: Turn,
}

impl<P> AcquirePermit<P>
where
    P: Deref + Clone,
    P::Target: Lender,
{
    pub(crate) fn new(limit: P) -> Self {
        Self {
            limit,
            turn: Turn::new(),
        }
    }

    /// Asks for `n` operations, all at once, instead of one. 0 is granted at once.
    pub fn n(mut self, n: u64) -> Self {
        self.turn.units = Some(n);
        self
    }

    /// Waits for `patience` at the longest, counted from the first poll.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// # use std::time::Duration;
    /// let limit = ConcurrencyLimit::new(1);
    /// let permit = limit.acquire().block()?;
    /// let denied = limit.acquire().within(Duration::from_millis(5)).block().unwrap_err();
    /// assert!(denied.is_busy());
    /// # drop(permit);
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn within(mut self, patience: Duration) -> Self {
        self.turn.within(patience);
        self
    }

    /// Waits until `deadline` of the limit's clock at the longest.
    ///
    /// ```
    /// # use flowgate::ConcurrencyLimit;
    /// # use std::time::Duration;
    /// let limit = ConcurrencyLimit::new(10);
    /// let deadline = limit.clock().now() + Duration::from_secs(10); // for a whole request
    /// let first = limit.acquire().by(deadline).block()?;
    /// let second = limit.acquire().by(deadline).block()?;
    /// # drop((first, second));
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn by(mut self, deadline: Timestamp) -> Self {
        self.turn.by(deadline);
        self
    }

    /// Gives up when `handle` is cancelled.
    ///
    /// ```
    /// use flowgate::{CancelHandle, ConcurrencyLimit};
    ///
    /// let paused = ConcurrencyLimit::new(0);
    /// let shutdown = CancelHandle::new();
    /// std::thread::scope(|threads| {
    ///     let waits = threads.spawn(|| paused.acquire().cancelled_by(&shutdown).block().map(drop));
    ///     shutdown.cancel();
    ///     assert!(waits.join().unwrap().unwrap_err().is_cancelled());
    /// });
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
    /// # use flowgate::ConcurrencyLimit;
    /// let limit = ConcurrencyLimit::new(1);
    /// std::thread::scope(|threads| {
    ///     for _ in 0..3 {
    ///         threads.spawn(|| {
    ///             let _permit = limit.acquire().block()?;
    ///             // … one of the three at a time …
    ///             Ok::<_, flowgate::Denied>(())
    ///         });
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`], as when it is awaited.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn block(mut self) -> Result<Permit<P>, Denied> {
        crate::room::block_on(|waker| self.poll_with(waker))
    }

    fn poll_with(&mut self, waker: &Waker) -> Poll<Result<Permit<P>, Denied>> {
        let Self { limit, turn } = self;
        turn.poll(&**limit, waker)
            .map_ok(|granted| Permit::new(limit.clone(), granted.units))
    }
}

impl<P> Future for AcquirePermit<P>
where
    P: Deref + Clone + Unpin,
    P::Target: Lender,
{
    type Output = Result<Permit<P>, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(context.waker())
    }
}

impl<P> Drop for AcquirePermit<P>
where
    P: Deref,
    P::Target: Lender,
{
    fn drop(&mut self) {
        self.turn.abandon(&*self.limit);
    }
}

impl<P> fmt::Debug for AcquirePermit<P>
where
    P: Deref,
    P::Target: Lender,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquirePermit")
            .field("n", &self.turn.units.unwrap_or(1))
            .finish_non_exhaustive()
    }
}

use super::cancel::CancelHandle;
use super::deadline::Deadline;
use super::turn::Turn;
use crate::clock::Clock;
use crate::verdict::Denied;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// A wait for tokens or permits: a future, and until first polled a builder.
///
/// `acquire()` and `acquire_owned()` of every limiter, limit, gate and keyed limiter return one. It does nothing until it is
/// awaited, in any runtime, or [blocked](Self::block) on. Tasks and threads wait in the same queue.
///
/// | made by | `W` | becomes |
/// |---|---|---|
/// | `acquire()` of a rate limiter | `&L` | [`Grant`](crate::Grant) |
/// | `acquire_owned()` of a rate limiter | `Arc<L>`, also `Arc<dyn Limiter>` | [`Grant`](crate::Grant) |
/// | `acquire()`, `acquire_owned()` of a [`ConcurrencyLimit`](crate::ConcurrencyLimit) or a [`Gate`](crate::Gate) | [`Permits`](crate::Permits) | [`Permit`](crate::Permit) |
/// | [`Keyed::acquire`](crate::Keyed::acquire) | [`KeyLimiter`](crate::KeyLimiter) | [`Grant`](crate::Grant) |
/// | `acquire()`, `acquire_owned()` of a [`KeyedConcurrencyLimit`](crate::KeyedConcurrencyLimit) | [`KeyPermits`](crate::KeyPermits) | [`KeyPermit`](crate::KeyPermit) |
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
/// // 10 of those tokens take an hour, which is refused without a wait.
/// let hourly = TokenBucket::new("10/h".parse()?);
/// hourly.acquire().n(10).await?;
/// let denied = hourly.acquire().n(10).within(Duration::from_secs(60)).await.unwrap_err();
/// assert!(denied.retry_after().unwrap() > Duration::from_secs(3000));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Order
///
/// Waiters are served in the order of their first poll ([FIFO fairness, C6](crate::guide::guarantees#fifo-fairness-c6)), large
/// requests as well as small ones, and `try_acquire` does not overtake them. [`Order`](crate::Order) has other orders. A
/// waiter that gives up does not delay the others: those behind it move up. The waiters for one key of a keyed limiter have a
/// separate queue.
///
/// # Deadlines
///
/// A wait for tokens that is certain to miss its deadline fails immediately. Token and leaky buckets compute this exactly,
/// assuming that every waiter ahead stays. Other limiters use a lower bound (one unit for each waiter ahead), so they may
/// detect it only later. A wait for permits fails at its deadline, and not before, because a limit does not know when
/// permits will be released.
///
/// A deadline in the past means "do not wait": the request succeeds if it can be granted immediately.
///
/// # Cancel safety
///
/// A future that is dropped leaves the queue. Tokens that had been granted to it by then are returned, except for those
/// that have flowed in again meanwhile; permits go to the next waiter.
///
/// # Forgotten waits
///
/// A wait that was polled, and is then neither polled nor dropped ([`core::mem::forget`]), keeps its place in the queue and
/// about 64 bytes of memory. When it is granted what it asked for, those units are lost; permits stay in use, as if they had
/// been leaked. The waiters behind it are served as if it had used them; they may be woken up to 1 ms late. With
/// [`Spacing::AtLeast`](crate::Spacing::AtLeast), it is granted nothing, and the waiters behind it overtake it after up to
/// one second.
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
/// Panics if it is polled again after it was ready.
#[must_use = "it waits for nothing until it is awaited or blocked on"]
pub struct Acquire<W: Acquirable> {
    wanted: W,
    pub(crate) turn: Turn,
    is_over: bool,
}

/// What [`Acquire`] waits for. Only this crate implements it.
///
/// It is a rate limiter, by reference or [`Arc`](alloc::sync::Arc), or one of the other types in the table of [`Acquire`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something to wait for",
    note = "`Acquire::new` takes a rate limiter by reference or in an `Arc`; everything else has an `acquire()` that makes the wait"
)]
pub trait Acquirable {
    /// What a wait becomes when it is granted.
    type Granted;

    #[doc(hidden)]
    fn poll(&mut self, turn: &mut Turn, waker: &Waker) -> Poll<Result<Self::Granted, Denied>>;

    /// Leaves the queue before the answer is known.
    #[doc(hidden)]
    fn abandon(&mut self, turn: &mut Turn);

    /// Returns the clock that deadlines use.
    #[doc(hidden)]
    fn clock_of_deadlines(&self) -> &Clock;
}

impl<W: Acquirable> Acquire<W> {
    /// Waits for one token or permit of `wanted`.
    ///
    /// ```
    /// use flowgate::{Acquire, Limiter, TokenBucket};
    /// use std::sync::Arc;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter: Arc<dyn Limiter> = Arc::new(TokenBucket::new("5/s".parse()?));
    /// let granted = tokio::spawn(Acquire::new(limiter)).await??; // it keeps the limiter alive
    /// assert_eq!(granted.units(), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(wanted: W) -> Self {
        Self {
            wanted,
            turn: Turn::new(),
            is_over: false,
        }
    }

    /// Asks for `units` in one grant, instead of one token or permit.
    ///
    /// A request for 0 is granted immediately. Units are those of the quota that is current when it is granted. A token stays
    /// one, however a later quota divides it.
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

    /// Waits for at most `timeout`, counted from the first poll.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::Duration;
    /// let limiter = LeakyBucket::new("1/h".parse()?);
    /// limiter.try_acquire()?;
    /// // Refused immediately, and not a second later.
    /// let denied = limiter.acquire().within(Duration::from_secs(1)).block().unwrap_err();
    /// assert!(denied.retry_after().unwrap() > Duration::from_secs(3000));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(mut self, timeout: Duration) -> Self {
        self.turn.within(timeout);
        self
    }

    /// Waits until `deadline` at the latest.
    ///
    /// A deadline is a [`Timestamp`](crate::Timestamp) of the limiter's clock, a [`std::time::Instant`], or, with the
    /// feature `tokio`, a `tokio::time::Instant`. [`Deadline`] describes what they mean on which clock.
    ///
    /// ```
    /// # use flowgate::LeakyBucket;
    /// # use std::time::{Duration, Instant};
    /// let limiter = LeakyBucket::new("1000/s".parse()?);
    /// let deadline = Instant::now() + Duration::from_secs(10); // for a whole request
    /// limiter.acquire().by(deadline).block()?;
    /// limiter.acquire().by(deadline).block()?;
    ///
    /// let deadline = limiter.clock().now() + Duration::from_secs(10); // the same on every clock
    /// limiter.acquire().by(deadline).block()?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `deadline` is an `Instant` that the limiter's clock does not know
    /// ([`Clock::timestamp_of`](crate::Clock::timestamp_of)), as on a [`ManualClock`](crate::ManualClock).
    #[track_caller]
    pub fn by(mut self, deadline: impl Into<Deadline>) -> Self {
        let Some(deadline) = deadline.into().on(self.wanted.clock_of_deadlines()) else {
            panic!(
                "the limiter's clock knows no `Instant`: use `within`, or a `Timestamp` of that clock"
            );
        };
        self.turn.by(deadline);
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

    /// Blocks this thread until the request is granted or refused.
    ///
    /// Do not call it in a task: it blocks a whole thread of the runtime, and nothing detects that. Use `.await` there.
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
    /// Returns [`Denied`] for the same reasons as the awaited future. Among others:
    ///
    /// - [`is_never`](Denied::is_never): the request can never be granted.
    /// - [`retry_after`](Denied::retry_after) or [`is_busy`](Denied::is_busy): it misses its deadline.
    /// - [`is_queue_full`](Denied::is_queue_full): the queue is full.
    /// - [`is_shed`](Denied::is_shed): the queue sheds waiters under overload.
    /// - [`is_closed`](Denied::is_closed): the limiter is closed.
    /// - [`is_cancelled`](Denied::is_cancelled): a handle ended the wait.
    #[cfg(all(feature = "std", not(flowgate_loom)))]
    pub fn block(mut self) -> Result<W::Granted, Denied> {
        super::park::block_on(|waker| self.poll_with(waker))
    }

    fn poll_with(&mut self, waker: &Waker) -> Poll<Result<W::Granted, Denied>> {
        assert!(!self.is_over, "polled after it was ready");
        let answer = self.wanted.poll(&mut self.turn, waker);
        self.is_over = answer.is_ready();
        answer
    }
}

/// Nothing in it is ever pinned.
impl<W: Acquirable> Unpin for Acquire<W> {}

impl<W: Acquirable> Future for Acquire<W> {
    type Output = Result<W::Granted, Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(context.waker())
    }
}

impl<W: Acquirable> Drop for Acquire<W> {
    fn drop(&mut self) {
        self.wanted.abandon(&mut self.turn);
    }
}

impl<W: Acquirable> fmt::Debug for Acquire<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("n", &self.turn.units)
            .finish_non_exhaustive()
    }
}

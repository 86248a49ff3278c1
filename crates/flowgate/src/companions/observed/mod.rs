//! [`Observed`]: a limiter whose decisions are counted.
//!
//! # What is counted where
//!
//! `Observed` counts what a caller receives, and not the grants that the limiter makes:
//!
//! - A waiter is granted by the caller that comes to the queue next. This can be a caller that returns tokens through the
//!   limiter itself, past any wrapper.
//! - The waiter may be gone before it receives the grant.
//! - A wait also ends in ways without a grant: the queue is full, the deadline has passed, or the waiter is dropped.
//!
//! So each wait reports how it ended ([`Event`](crate::queue::Event)) to the supply that created it. This works for every
//! future, iterator and permit, also through `dyn`. Everything else goes to the limiter, which owns the queue.
//!
//! | counter | read by | written by | guard |
//! |---|---|---|---|
//! | `Stripe` | `counts`, `waits` | every method: one addition to its thread's stripe | none; each counter for itself |
//! | `Histogram` | `waits` | waits that took time, once granted | the bucket is counted last, and read first |

mod counters;
mod counts;
mod histogram;
mod keys;
mod permits;
mod shared;
mod supply;
mod waits;

pub use counts::{ObservedCounts, Refusals};
pub use shared::{ObservedKey, SharedCounters};
pub use waits::Waits;

use crate::clock::{Clock, Timestamp};
use crate::limiter::Reservation;
use crate::limiter::{Limiter, Snapshot, own_verbs};
use crate::primitive::const_unless_loom;
use crate::queue::{Acquire, Supply, WaitQueue};
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use counters::Counters;
use shared::HasCounters;
use supply::Observable;

/// Limiter that **counts its decisions**: admissions, refusals by reason, and waits.
///
/// ```text
///                       ╭── try_acquire ───╮
///   callers ── Observed ┼── acquire ───────┼── limiter
///                 │     ╰── reserve_n ─────╯
///                 ╰─ counts(): admitted 3 (4 units), refused 2 …
///                    waits():  2 waits, half at most 10ms …
/// ```
///
/// ```
/// use flowgate::{ManualClock, Observed, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let limiter = TokenBucket::builder("100/s burst 3".parse()?).clock(&time).build()?;
/// let limiter = Observed::new(limiter);
///
/// limiter.try_acquire()?;
/// limiter.try_acquire_n(2)?;
/// assert!(limiter.try_acquire().is_err());
/// assert!(limiter.try_acquire_n(4).is_err());
///
/// let counts = limiter.counts();
/// assert_eq!((counts.admitted, counts.units, counts.refused.over_limit), (2, 3, 1));
/// assert_eq!(
///     counts.to_string(),
///     "admitted 2 (3 units), refused 2, abandoned 0, waiting 0
/// refused: 1 over the limit, 1 never possible",
/// );
///
/// time.advance(Duration::from_millis(10));
/// limiter.acquire().block()?;
/// assert_eq!(limiter.waits().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Keys and gates
///
/// `Observed` counts all operations of these types together, whatever their keys:
///
/// - a [`Gate`](crate::Gate) or a [`KeyedGate`](crate::KeyedGate)
/// - a [`Keyed`](crate::Keyed) limiter
/// - a [`KeyedConcurrencyLimit`](crate::KeyedConcurrencyLimit)
///
/// So the memory does not grow with the number of keys. To count one key separately, observe its
/// [`KeyLimiter`](crate::KeyLimiter). Each of these types can also be observed in an [`Arc`]. It then has the methods whose
/// permits and waits keep it alive.
///
/// ```
/// use flowgate::{Keyed, Observed};
/// use std::sync::Arc;
///
/// let limits = Keyed::token_bucket("10/h burst 2".parse()?).capacity(1000)?;
/// let limits = Arc::new(Observed::new(Arc::new(limits)));
/// let admitted = (0..5).filter(|_| limits.try_acquire("alice").is_ok()).count();
/// limits.try_acquire("bob")?;
/// assert_eq!(admitted, 2);
///
/// let carol = limits.key_owned("carol"); // a `Limiter`, which counts here
/// carol.try_acquire()?;
/// let counts = limits.counts();
/// assert_eq!((counts.admitted, counts.refused.over_limit), (4, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What counts as what
///
/// Each call of a method below is one operation, and is counted once, when the caller receives the result. It counts as one of:
///
/// - admitted
/// - refused, for one [reason](Refusals)
/// - abandoned: the wait was dropped before it was ready. A grant that was made by then is returned and does not count as
///   admitted.
///
/// A wait that was never polled is not counted. A call with `n` = 0 is an operation of no units.
///
/// | method | counted |
/// |---|---|
/// | `try_acquire`, `try_acquire_n` | immediately |
/// | `acquire` | when it is ready or dropped |
/// | [`Limiter::try_acquire_n_at`] | immediately |
/// | [`Limiter::try_reserve_n`] | immediately; a reservation that is canceled stays admitted |
/// | every method called on [`get_ref`](Self::get_ref) | no; units refunded there stay admitted |
/// | [`Limiter::refund`], [`Limiter::charge`] | no; refunded units stay admitted |
/// | calls of a [`Gate`](crate::Gate) that contains it | no; observe the gate |
///
/// # Performance
///
/// Limiters that are not wrapped cost nothing. An operation of a wrapped limiter costs one relaxed addition. An amount above 1
/// costs a second addition, and a wait costs some more.
///
/// Few threads share a counter. Threads are numbered in the order in which they first need a number, and threads whose numbers
/// are equal modulo 16 share one stripe of 128 bytes. Without `std`, all threads share one stripe.
///
/// The counters take 2 KiB. They take 8 KiB more after the first wait that takes time, or the first call of
/// [`waits`](Self::waits).
///
/// `C` is the type of the counters. [One key](ObservedKey) of an observed table uses the counters of the table.
pub struct Observed<L, C = Counters> {
    limiter: L,
    counters: C,
}

impl<L> Observed<L> {
    const_unless_loom! {
        /// Counts what `limiter` decides from now on. A `static` needs no lazy cell.
        ///
        /// ```
        /// use flowgate::{Observed, Quota, TokenBucket};
        ///
        /// static REPORTS: Observed<TokenBucket> =
        ///     Observed::new(TokenBucket::new(Quota::per_minute(60).burst(5)));
        /// assert!(REPORTS.try_acquire().is_ok());
        /// assert_eq!(REPORTS.counts().admitted, 1);
        /// ```
        pub const fn new(limiter: L) -> Self {
            Self {
                limiter,
                counters: Counters::new(),
            }
        }
    }
}

impl<L, C: HasCounters> Observed<L, C> {
    /// Returns the limiter inside, for its other methods and settings. Calls there are not counted.
    ///
    /// ```
    /// # use flowgate::{Observed, TokenBucket};
    /// let limiter = Observed::new(TokenBucket::new("100/h".parse()?));
    /// limiter.get_ref().set_burst(5)?;
    /// assert_eq!((limiter.available(), limiter.counts().asked()), (5, 0));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn get_ref(&self) -> &L {
        &self.limiter
    }

    /// Returns the limiter, no longer observed.
    ///
    /// ```
    /// # use flowgate::{Observed, TokenBucket};
    /// let observed = Observed::new(TokenBucket::new("100/h".parse()?));
    /// observed.try_acquire_n(40)?;
    /// assert!(observed.queue().is_empty());
    /// assert_eq!(observed.snapshot().remaining, 60);
    /// let limiter: TokenBucket = observed.into_inner();
    /// assert_eq!(limiter.available(), 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_inner(self) -> L {
        self.limiter
    }

    /// Returns the number and the lengths of the waits that were granted.
    pub fn waits(&self) -> Waits {
        self.counters.counters().waits()
    }

    #[inline]
    fn count<T>(&self, n: u64, answer: Result<T, Denied>) -> Result<T, Denied> {
        let counters = self.counters.counters();
        match &answer {
            Ok(_) => counters.admitted(n),
            Err(denied) => counters.refused(denied),
        }
        answer
    }
}

impl<L: Observable + Send + Sync, C: HasCounters> Observed<L, C> {
    /// Returns the decisions counted so far, and the number of waiters now.
    ///
    /// The counters are read one after the other. An operation that ends during the call may be included in some counters and
    /// not in others. Every operation that ended before the call is included.
    pub fn counts(&self) -> ObservedCounts {
        let waiting = self.queue().len() as u64;
        self.counters.counters().counts(waiting)
    }

    /// Returns the limiter's queue, with all waiters, whether counted or not.
    pub fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self)
    }
}

impl<L: Limiter, C: HasCounters> Observed<L, C> {
    /// Acquires one token.
    ///
    /// # Errors
    ///
    /// Returns the [`Denied`] of the limiter, and counts it.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        let answer = self.limiter.try_acquire();
        let counters = self.counters.counters();
        match &answer {
            // In the units of just now, should they be changing.
            Ok(()) => counters.admitted(self.facts().token),
            Err(denied) => counters.refused(denied),
        }
        answer
    }

    /// Acquires `n` units, all or none.
    ///
    /// # Errors
    ///
    /// Returns the [`Denied`] of the limiter, and counts it.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.count(n, self.limiter.try_acquire_n(n))
    }

    /// Takes the available units, up to `n`, and returns how many it took.
    ///
    /// The call counts as one request for the returned number of units. It is not counted if that number is 0.
    pub fn take_up_to(&self, n: u64) -> u64 {
        let taken = self.limiter.take_up_to(n);
        if taken > 0 {
            self.counters.counters().admitted(taken);
        }
        taken
    }

    /// Waits for one token in FIFO order. The returned future is also a builder.
    ///
    /// # Errors
    ///
    /// When awaited, it returns the [`Denied`] of the limiter.
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(self)
    }

    /// Waits as [`acquire`](Self::acquire), with a future that keeps the limiter alive.
    ///
    /// The future can be moved into a spawned task.
    ///
    /// # Errors
    ///
    /// When awaited, it returns the [`Denied`] of the limiter.
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(Arc::clone(self))
    }

    /// Returns how many units could be acquired now without a debt.
    pub fn available(&self) -> u64 {
        self.limiter.available()
    }

    /// Returns a consistent snapshot of the limiter.
    ///
    /// The snapshot contains the limit, the remaining units, and when the limiter is full again.
    pub fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }

    /// Returns the clock that the limiter decides by.
    pub fn clock(&self) -> &Clock {
        self.limiter.clock()
    }
}

impl<L: Limiter, C: HasCounters> Limiter for Observed<L, C> {
    own_verbs!();

    fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }

    fn try_acquire_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.count(n, self.limiter.try_acquire_n_at(now, n))
    }

    fn try_reserve_n(&self, n: u64) -> Option<Result<Reservation<'_>, Denied>> {
        let answer = self.limiter.try_reserve_n(n)?;
        Some(self.count(n, answer))
    }
}

impl<L: fmt::Debug, C> fmt::Debug for Observed<L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("limiter", &self.limiter)
            .finish_non_exhaustive()
    }
}

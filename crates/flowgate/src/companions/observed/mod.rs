//! [`Observed`]: a limiter whose answers are counted.
//!
//! # What is counted where
//!
//! Answers are counted as a caller gets them, and not grants as the limiter makes them. A turn in the queue is granted
//! by the caller that comes to the queue next, which may be somebody giving back through the limiter itself, past any wrapper;
//! and a grant may be one that nobody will see. A wait also ends in ways that no grant tells of: the queue is full, the
//! deadline has passed, the owner is gone. So the turn says how it ended ([`Event`](crate::queue::Event)) to
//! the supply that it was made with, whichever future, iterator or permit it belongs to, through `dyn` or not; everything
//! else goes on to the limiter, whose queue it is.
//!
//! | counter | read by | written by | guard |
//! |---|---|---|---|
//! | `Stripe` | `counts`, `waits` | every verb: one addition to its thread's stripe | none; each counter for itself |
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

/// **Counts what a limiter answers**: how much was admitted, what was refused and why, who waits and how long they
/// had to.
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
/// Of a [`Gate`](crate::Gate), a [`KeyedGate`](crate::KeyedGate), a [`Keyed`](crate::Keyed) limiter and a
/// [`KeyedConcurrencyLimit`](crate::KeyedConcurrencyLimit), all operations are counted together, whatever their keys: the
/// memory does not grow with the number of keys. To count one key separately, observe its
/// [`KeyLimiter`](crate::KeyLimiter). Each of them can be observed in an [`Arc`], too; then it has the methods whose permits
/// and waits keep it alive.
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
/// Each call of a verb below is one operation, and is counted once, when the caller gets the answer: admitted,
/// refused for one [reason](Refusals), or, if it was a wait that was dropped before it was ready, abandoned. A turn
/// that had been granted by then goes back, and is not admitted. A wait that was never polled is nothing. `n` = 0 is
/// an operation of no units.
///
/// | verb | counted |
/// |---|---|
/// | `try_acquire`, `try_acquire_n` | at once |
/// | `acquire` | when it is ready or dropped |
/// | [`Limiter::try_acquire_n_at`], [`Limiter::try_reserve_n`] | at once; a reservation that is cancelled stays admitted |
/// | whatever is called on [`get_ref`](Self::get_ref) | not; what is refunded there stays admitted |
/// | [`Limiter::refund`], [`Limiter::charge`] | as there |
/// | whatever a [`Gate`](crate::Gate) that it is in does | not; observe the gate |
///
/// # Cost
///
/// Nothing for limiters that are not wrapped. For one that is, one relaxed addition per operation, on counters that
/// few threads share: threads are numbered as they come, and those whose numbers are the same modulo 16 share
/// 128 bytes of their own (without `std` all share them). An amount above 1 is a second addition, and a wait some more.
/// It takes 2 KiB, and 8 KiB more once somebody has really waited, or has looked at [`waits`](Self::waits).
///
/// `C` is where it counts: here, or, for [one key](ObservedKey) of an observed table, there.
pub struct Observed<L, C = Counters> {
    limiter: L,
    counters: C,
}

impl<L> Observed<L> {
    const_unless_loom! {
        /// Counts what `limiter` answers from now on. In a `static` it needs no lazy cell.
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
    /// The limiter itself, for its other verbs and settings. What is called there is not counted.
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

    /// The limiter, no longer observed.
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

    /// The waits of [`acquire`](Self::acquire) that were granted, and how long they were.
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
    /// What the verbs have answered so far, and how many wait now.
    ///
    /// The counters are read one after the other. Of an operation that ends meanwhile, some may show and some not; of
    /// those that ended before, none is missing.
    pub fn counts(&self) -> ObservedCounts {
        let waiting = self.queue().len() as u64;
        self.counters.counters().counts(waiting)
    }

    /// Those who wait at the limiter, whether counted here or not.
    pub fn queue(&self) -> WaitQueue<'_> {
        WaitQueue::new(self)
    }
}

impl<L: Limiter, C: HasCounters> Observed<L, C> {
    /// Takes one token, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`], as the limiter's own.
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

    /// Takes `n` units, all or none.
    ///
    /// # Errors
    ///
    /// [`Denied`], as the limiter's own.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.count(n, self.limiter.try_acquire_n(n))
    }

    /// Takes the available units, up to `n`, and returns how many it took. Counts as one request of so many units, and not at
    /// all if there are none.
    pub fn take_up_to(&self, n: u64) -> u64 {
        let taken = self.limiter.take_up_to(n);
        if taken > 0 {
            self.counters.counters().admitted(taken);
        }
        taken
    }

    /// Waits for one token, in turn: a future that is also a builder.
    ///
    /// # Errors
    ///
    /// When awaited: [`Denied`], as the limiter's own.
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(self)
    }

    /// [`acquire`](Self::acquire) with a future that keeps the limiter alive, and so may go into a task of its own.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(Arc::clone(self))
    }

    /// How many units could be taken now without a debt.
    pub fn available(&self) -> u64 {
        self.limiter.available()
    }

    /// The limit, what remains of it, and when it is whole again, seen at one instant.
    pub fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }

    /// The clock that the limiter decides by.
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

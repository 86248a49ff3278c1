//! [`DecayingBucket`]: the public face over
//! [`algorithm::decaying_bucket`](crate::algorithm::decaying_bucket).

mod at;
mod builder;
#[cfg(all(test, flowgate_loom))]
mod model;
mod parameters;
mod past;
mod supply;

pub use builder::DecayingBucketBuilder;

use crate::algorithm::decaying_bucket::{Bucket, State};
use crate::algorithm::half_life::HalfLife;
use crate::cell::Cell;
use crate::clock::{Clock, Timestamp};
use crate::limiter::At;
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::primitive::{AtomicU64, Lock, const_unless_loom};
use crate::quota::QuotaError;
use crate::room::{Room, waits_in_line};
use crate::verdict::Denied;
use core::fmt;
use core::time::Duration;
use parameters::Parameters;
use past::Pasts;

/// A leaky bucket that leaks faster the fuller it is: its level never exceeds the **capacity**, and halves with every
/// **half-life**.
///
/// Water leaves a real bucket faster the higher it stands. An operation pours in one unit or several, each of
/// which decays from then on, and is refused if the bucket would overflow. Who rests for a short time after a
/// burst gets much back, who keeps pressing gets a steady capacity · ln 2 per half-life (69 % of the capacity;
/// less where that is small, see [below](#small-capacities)), and what was used fades slowly from memory instead of
/// all at once at the end of a window.
///
/// ```text
///  level
///  capacity ┤╮
///           │╰╮            after 1 half-life: half of it is free again
///           │ ╰─╮          after 2: three quarters
///      ½    ┤───┴─╮        after 3: seven eighths
///           │     ╰──╮
///           │        ╰────╮
///         0 ┤             ╰──────────────
///           └─────┴─────┴─────┴─────┴────▶ half-lives
/// ```
///
/// ```
/// use flowgate::{DecayingBucket, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: DecayingBucket::new(…)?
/// let limiter = DecayingBucket::builder(100, Duration::from_secs(60)).clock(&time).build()?;
/// limiter.try_acquire_n(100)?;
/// time.advance(Duration::from_secs(60));
/// assert_eq!(limiter.available(), 50);
/// time.advance(Duration::from_secs(60));
/// assert_eq!(limiter.available(), 75);
/// let denied = limiter.try_acquire_n(88).unwrap_err(); // until 12 are left of the 100
/// assert_eq!(denied.retry_after(), Some(Duration::from_nanos(63_533_621_344)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What it promises
///
/// - **Never over** (contract C1). Of every unit admitted, 2^(−t / half-life) is left after t; at each admission
///   all of that together is at most the capacity. A change of settings applies from then on to the level there is.
/// - **Not wasteful by much** (C2). The level is kept in integers, the same on every machine, and rounded up:
///   never too high by more than 2⁻³⁰ of what has been poured in, refunds included, and has not decayed; by
///   2^(b − 46) of it where the capacity has b > 16 bits: 1.5 · 10⁻⁸ for a million.
/// - **Empty again.** Of a true decay something is always left. Here a level of less than a tick, which is 2⁻³² of a
///   unit, or 2^(b − 48), is none, which is the only rounding that is not towards refusing. Until then the last
///   unit is not available: of a full bucket of 100, 99 are available after 7 half-lives and 100 after 39. The b
///   bits are those of the larger of the capacity and the level that the last [`set`](Self::set) found: after
///   one from a high level to a small capacity, ticks stay as coarse as the level was until the next `set`.
/// - **Any clock** (C4). A `now` before the last admission counts as the time of that one, also after a change of settings.
/// - **Honest waits** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond. While others wait in
///   [line](Self::line), how long those take hangs on how much each of them asks for, and it is no longer than the
///   least that this can be.
///
/// # Small capacities
///
/// Whole units wait until there is room for all of them, which with the whole capacity is until the bucket is
/// empty: with a capacity of 1, one is let in per 32 half-lives, not 0.69 per half-life. One at a time from a capacity
/// of c, who keeps pressing gets one per log₂(c / (c − 1)) half-lives: 1 per half-life for 2, 6.6 for 10, 69 for 100.
///
/// # Settings
///
/// It has no [`Quota`](crate::Quota): its steady rate is irrational. The capacity is 1 to 4,294,967,295
/// units, the half-life 1 ns to 292 years.
///
/// # Cost
///
/// A decision is one clock reading, up to seven multiplications, and one compare-and-swap on one 128-bit word,
/// and takes no lock and no memory. A refusal also solves for the time to wait. On targets without a 128-bit
/// compare-and-swap, where it [is not lock-free](Self::is_lock_free), it is as exact, under a lock.
pub struct DecayingBucket {
    cell: Cell<Parameters, 4>,
    /// The time of the last change of settings; what was poured in before it is not taken out. Raised before the
    /// change is made.
    changed_ns: AtomicU64,
    /// Noted before the change is made.
    pasts: Lock<Pasts>,
    clock: Clock,
    room: Room,
}

impl DecayingBucket {
    /// An empty bucket on [`Clock::system`].
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if `capacity` is not 1 to 4,294,967,295, or `half_life` not 1 ns to 292 years.
    ///
    /// ```
    /// # use flowgate::DecayingBucket;
    /// # use std::time::Duration;
    /// let error = DecayingBucket::new(0, Duration::from_secs(1)).unwrap_err();
    /// assert_eq!(error.to_string(), "a capacity of 0 is out of range: 1 to 4294967295");
    /// ```
    #[cfg(feature = "std")]
    pub fn new(capacity: u64, half_life: Duration) -> Result<Self, QuotaError> {
        Self::builder(capacity, half_life).build()
    }

    /// A bucket with another clock than the default one.
    pub fn builder(capacity: u64, half_life: Duration) -> DecayingBucketBuilder {
        DecayingBucketBuilder::new(capacity, half_life)
    }

    const_unless_loom! {
        const fn with(capacity: u64, half_life: HalfLife, clock: Clock) -> Self {
            let parameters = Parameters(Bucket::new(capacity, half_life, 0));
            let empty = State { time_ns: 0, level: 0 };
            Self {
                cell: Cell::new(parameters.words(), parameters::pack(empty)),
                changed_ns: AtomicU64::new(0),
                pasts: Lock::new(Pasts::NONE),
                clock,
                room: Room::new(),
            }
        }
    }

    /// Pours in one unit, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for it; nothing is then poured in.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Pours in `n` units, all or none. `n` = 0 succeeds and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for them; nothing is then poured in. [`is_never`](Denied::is_never) if `n`
    /// is above the capacity.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Pours in what there is room for, up to `n` units, and says how much that was.
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = DecayingBucket::builder(100, Duration::from_secs(60)).clock(&time).build()?;
    /// assert_eq!([limiter.take_up_to(70), limiter.take_up_to(70)], [70, 30]);
    /// time.advance(Duration::from_secs(60));
    /// assert_eq!(limiter.take_up_to(70), 50);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.at_now().take_up_to(n)
    }

    /// Gives back `n` units that were poured in at `taken` and not used, and says how many came back.
    ///
    /// They count as never admitted, so what comes out is what is left of them by now; that is why the time matters.
    /// A later one than was true would give back more than there is of them. Of what was poured in before the last
    /// [`set`](Self::set) nothing comes back, as how much of it is left by now is not known.
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let minute = Duration::from_secs(60);
    /// let limiter = DecayingBucket::builder(100, minute).clock(&time).build()?;
    /// limiter.try_acquire_n(60)?;
    /// let taken = time.now();
    /// limiter.try_acquire_n(40)?;
    /// time.advance(minute);
    /// assert_eq!(limiter.refund(40, taken), 40);
    /// assert_eq!(limiter.available(), 70); // as if only 60 had been poured in
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64, taken: Timestamp) -> u64 {
        self.at_now().refund(n, taken)
    }

    /// How many units there is room for now; none while others wait in line.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// The capacity, what remains of it, and when the bucket is empty again, seen at one instant.
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, ManualClock};
    /// # use std::time::Duration;
    /// let minute = Duration::from_secs(60);
    /// let limiter = DecayingBucket::builder(100, minute).clock(ManualClock::new()).build()?;
    /// limiter.try_acquire_n(40)?;
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (100, 60));
    /// assert!(seen.reset_after > 37 * minute); // the last of it takes long
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    /// The capacity in force.
    pub fn capacity(&self) -> u64 {
        self.cell.view().0.0.capacity()
    }

    /// The half-life in force.
    pub fn half_life(&self) -> Duration {
        Duration::from_nanos(self.cell.view().0.0.half_life.ns)
    }

    /// Puts another capacity and half-life in force. The level stays, and decays by the new half-life from now
    /// on; if it is above the new capacity, everybody is refused until it has fallen. What was poured in before
    /// can be [refunded](Self::refund) no more.
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, ManualClock};
    /// # use std::time::Duration;
    /// let limiter = DecayingBucket::builder(100, Duration::from_secs(60))
    ///     .clock(ManualClock::new())
    ///     .build()?;
    /// limiter.try_acquire_n(80)?;
    /// limiter.set(41, Duration::from_secs(1))?;
    /// let denied = limiter.try_acquire().unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] where [`new`](Self::new) has one; nothing is then changed.
    pub fn set(&self, capacity: u64, half_life: Duration) -> Result<(), QuotaError> {
        self.change(capacity, half_life, || self.clock.now().as_nanos())
    }

    /// The same verbs at a time of your own. Use one kind of time with one limiter, the clock's or yours.
    ///
    /// ```
    /// # use flowgate::{DecayingBucket, Timestamp};
    /// # use std::time::Duration;
    /// let limiter = DecayingBucket::new(8, Duration::from_secs(1))?;
    /// let second = |s: u64| limiter.at(Timestamp::from_nanos(s * 1_000_000_000));
    /// second(0).try_acquire_n(8)?;
    /// assert_eq!([1, 2, 3].map(|s| second(s).available()), [4, 6, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(&self, now: Timestamp) -> At<'_, Self> {
        At::new(self, now.as_nanos())
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether decisions take no lock on this machine.
    ///
    /// `false` where the processor has no 128-bit compare-and-swap: they are then made as exactly, under a lock.
    ///
    /// ```
    /// # use flowgate::DecayingBucket;
    /// # use std::time::Duration;
    /// let limiter = DecayingBucket::new(1000, Duration::from_secs(60))?;
    /// if !limiter.is_lock_free() {
    ///     eprintln!("decisions take a lock on this machine");
    /// }
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    #[inline]
    fn at_now(&self) -> At<'_, Self> {
        self.at(self.clock.now())
    }
}

waits_in_line!(DecayingBucket, |limiter| limiter);
limiter_by_its_verbs!(DecayingBucket as DecayingBucket; charge: DecayingBucket::take_up_to);

impl fmt::Debug for DecayingBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecayingBucket")
            .field("capacity", &self.capacity())
            .field("half_life", &self.half_life())
            .field("snapshot", &self.snapshot())
            .finish_non_exhaustive()
    }
}

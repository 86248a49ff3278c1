//! [`TokenBucket`]: the public face over [`algorithm::token_bucket`](crate::algorithm::token_bucket).

mod at;
mod builder;
mod carry;
mod change_quota;
mod give_back;
mod ledger;
#[cfg(all(test, flowgate_loom))]
mod model;
mod pay_after;
mod supply;
#[cfg(all(test, not(flowgate_loom)))]
mod tests;

pub use builder::{Refill, TokenBucketBuilder};
pub use carry::Carry;
pub use pay_after::PayAfter;

use crate::clock::{Clock, Timestamp};
use crate::limiter::Reservation;
use crate::limiter::{At, ByClock};
use crate::limiter::{Snapshot, limiter_by_its_verbs};
use crate::policy::Policy;
use crate::primitive::{AtomicU64, AtomicU128, Lock, Ordering, const_unless_loom};
use crate::quota::{Quota, QuotaError};
use crate::room::{Room, Ticks, waits_in_line};
use crate::verdict::Denied;
use crate::word::{self, Parameters, Word};
use core::fmt;
use core::time::Duration;
use ledger::Ledger;

/// Allows bursts, and a steady rate behind them: at most **burst + rate · t** in every span of time t.
///
/// A bucket holds up to *burst* tokens. It starts full, tokens flow in at the quota's rate, an operation
/// takes one or several, and is refused when there are not enough. Time flows continuously: there is no
/// tick and no window, and a token is there at the very nanosecond at which it is due.
///
/// ```text
///  tokens
///   burst ┤▇▇▇▇▇╮                      ╭▇▇▇▇▇▇   full: what flows in is lost
///         │     │ 12 at once         ╭─╯
///         │     │                 ╭──╯  refills at the rate
///         │     ╰╮  ╭╮╭╮╭╮╭╮╭╮╭╮╭─╯
///       0 ┤      ╰──╯╰╯╰╯╰╯╰╯╰╯╰╯              empty: one at a time, at the rate
///         └─────────────────────────────────▶ time
/// ```
///
/// ```
/// use flowgate::{ManualClock, TokenBucket};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: TokenBucket::new(quota)
/// let limiter = TokenBucket::builder("100/s burst 20".parse()?).clock(&time).build()?;
///
/// assert_eq!((0..25).filter(|_| limiter.try_acquire().is_ok()).count(), 20);
/// time.advance(Duration::from_millis(30));
/// assert_eq!(limiter.available(), 3);
/// assert_eq!(
///     limiter.try_acquire_n(5).unwrap_err().retry_after(),
///     Some(Duration::from_millis(20)),
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What it promises
///
/// - **Never over** (contract C1). In every interval of limiter time, what was admitted is at most burst +
///   rate · t, computed in integers, without tolerance, on every schedule of threads. `overdraw` adds
///   the largest amount overdrawn, up to `max_debt`; across a change of quota the burst is the largest in force and
///   rate · t the integral of the rates. An explicit [`Carry`] may add tokens: each [`Carry::Reset`] adds at most one new
///   burst, each [`Carry::Additive`] or [`Carry::Proportional`] at most the growth of the burst.
/// - **Nothing wasted** (C2). A refusal means that admitting would have broken that.
/// - **Exact** (C8). The rate is a fraction, never cut to whole nanoseconds, and cannot drift.
/// - **Any clock** (C4). A `now` that is older than one before it sees fewer tokens and adds none.
/// - **Honest waits** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond.
///
/// # Choosing it
///
/// For a limit of "at most N in *any* window of length T", mind that a bucket of burst N admits up to 2 N in
/// some window T: the burst, and what flows in. Halve both, or set `burst(1)` for even spacing.
///
/// # Amounts
///
/// `n` counts units, which are tokens unless the quota divides them
/// ([`Quota::units_per_token`]). `n` = 0 succeeds and changes nothing. `n` above the burst is
/// refused with [`Denied::is_never`].
///
/// # Memory ordering
///
/// None is promised: an admission does not make one thread's writes visible to another.
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on one 64-bit word, and takes no lock and
/// no memory. A few quotas, those whose exact state does not fit into 64 bits (999,999,937 per day, say), use
/// a 128-bit word, as does any limiter once its clock has run for 208 days divided by the rate's numerator in
/// lowest terms per nanosecond (1 for 1000/s). [`is_lock_free`](Self::is_lock_free) tells whether the target has
/// a 128-bit compare-and-swap.
///
/// A limiter is not `Clone`: two would be two limits. Share it by reference, `Arc`, or `static`:
///
/// ```
/// use flowgate::{Quota, TokenBucket};
///
/// static REPORTS: TokenBucket = TokenBucket::new(Quota::per_minute(60).burst(5));
/// assert!(REPORTS.try_acquire().is_ok());
/// ```
pub struct TokenBucket {
    pub(crate) word: Word<word::TokenBucket>,
    /// Whether reservations may leave a debt after their time, as those of [`PayAfter`] do.
    pays_after: bool,
    pub(crate) clock: Clock,
    /// The latest time that a caller has supplied to decide by; see [`settled_ns`](Self::settled_ns).
    newest_ns: AtomicU64,
    /// See [`largest_told`](Self::largest_told).
    largest_told: [AtomicU64; 2],
    /// The latest time that a reservation has been told to wait for; 0: none. Raised before it is made, lowered
    /// when the last one is cancelled.
    last_told_ns: AtomicU64,
    /// Ticks ever given back out of order; written by the holder of `ledger`, after the word.
    given_back: AtomicU128,
    ledger: Lock<Ledger>,
    pub(crate) room: Room,
    /// By how much faster it may flow out to a line that is full; 1: not at all.
    pub(crate) drain_up_to: u64,
}

impl TokenBucket {
    const_unless_loom! {
        /// A full bucket on [`Clock::system`].
        ///
        /// Every [`Quota`] can be honoured, so this cannot fail. In a `static` it needs no lazy cell.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::with_default_burst(quota, Clock::system(), None)
        }
    }

    const_unless_loom! {
        /// A full bucket with the default settings on `clock`, for which a quota that sets no burst
        /// stands for `default_burst` tokens, or for its count.
        pub(crate) const fn with_default_burst(
            quota: Quota,
            clock: Clock,
            default_burst: Option<u64>,
        ) -> Self {
            let quota = quota.with_default_burst(default_burst);
            let parameters = Parameters::new(&quota, ledger::default_debt(&quota));
            Self {
                word: Word::new(parameters),
                pays_after: false,
                clock,
                newest_ns: AtomicU64::new(0),
                largest_told: [AtomicU64::new(0), AtomicU64::new(0)],
                last_told_ns: AtomicU64::new(0),
                given_back: AtomicU128::new(0),
                ledger: Lock::new(Ledger::new(quota, default_burst)),
                room: Room::new(),
                drain_up_to: 1,
            }
        }
    }

    /// A bucket with other than the default clock, tokens to begin with, way of refilling, or debt.
    pub fn builder(quota: Quota) -> TokenBucketBuilder {
        TokenBucketBuilder::new(quota)
    }

    /// Takes one token, or says why not.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("1/h".parse()?);
    /// assert!(limiter.try_acquire().is_ok());
    /// assert!(limiter.try_acquire().is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the bucket does not hold one; nothing is then taken.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        self.at_now().try_acquire()
    }

    /// Takes `n` units, all or none.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// assert!(limiter.try_acquire_n(7).is_ok());
    /// assert!(limiter.try_acquire_n(7).is_err());
    /// assert!(limiter.try_acquire_n(11).unwrap_err().is_never());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the bucket holds fewer; nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        self.at_now().try_acquire_n(n)
    }

    /// Takes one token now, to be used when [`Reservation::at`] says.
    ///
    /// # Errors
    ///
    /// As [`reserve_n`](Self::reserve_n).
    pub fn reserve(&self) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve()
    }

    /// Takes `n` units now, to be used when [`Reservation::at`] says: at once if the bucket holds them, otherwise when
    /// they will have flowed in. Later callers come after it.
    ///
    /// Its tokens are complete at an exact instant, which may lie between two nanoseconds; the next
    /// reservation is counted from that, so that a line of them never drifts, while the time told is rounded up.
    /// Spans that begin at a time told can so hold what flows in within that fraction of a nanosecond more.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Timestamp, TokenBucket};
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 1".parse()?).clock(&ManualClock::new()).build()?;
    /// let starts = [0, 1, 2].map(|_| limiter.reserve().unwrap().at());
    /// assert_eq!(starts, [0, 100_000_000, 200_000_000].map(Timestamp::from_nanos));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied::is_never`] if `n` is above the burst, or if its turn would come after
    /// [`Timestamp::MAX`]; nothing is then taken.
    pub fn reserve_n(&self, n: u64) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n(n)
    }

    /// [`reserve`](Self::reserve), unless that would mean waiting for longer than `max_wait`.
    ///
    /// # Errors
    ///
    /// As [`reserve_n_within`](Self::reserve_n_within).
    pub fn reserve_within(&self, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_within(max_wait)
    }

    /// [`reserve_n`](Self::reserve_n), unless that would mean waiting for longer than `max_wait`.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 1".parse()?).clock(&ManualClock::new()).build()?;
    /// let patience = Duration::from_millis(150);
    /// assert!(limiter.reserve_within(patience).is_ok()); // at 0
    /// assert!(limiter.reserve_within(patience).is_ok()); // at 100 ms
    /// let denied = limiter.reserve_within(patience).unwrap_err(); // would be at 200 ms
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(50)));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] if the wait would be longer; nothing is then taken. Its
    /// [`retry_after`](Denied::retry_after) is when the same call would succeed.
    pub fn reserve_n_within(&self, n: u64, max_wait: Duration) -> Result<Reservation<'_>, Denied> {
        self.at_now().reserve_n_within(n, max_wait)
    }

    /// Takes what there is, up to `n` units, and says how much that was.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// assert_eq!(limiter.take_up_to(7), 7);
    /// assert_eq!(limiter.take_up_to(7), 3);
    /// assert_eq!(limiter.take_up_to(7), 0);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        self.at_now().take_up_to(n)
    }

    /// Takes at least `min` units, and up to `max` if there are as many.
    pub(crate) fn draw_now(&self, min: u64, max: u64) -> Result<u64, Denied> {
        self.at_now().draw(min, max)
    }

    /// Takes `n` units now even if the bucket holds fewer: go at once, and the *next* caller pays.
    ///
    /// Granted only out of debt, and only down to `max_debt` below zero (by default, the burst).
    /// Until what flows in has paid the debt, everybody is refused.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 5".parse()?).clock(&ManualClock::new()).build()?;
    /// limiter.overdraw(8)?; // 3 more than there are
    /// assert_eq!(limiter.available(), 0);
    /// assert_eq!(
    ///     limiter.try_acquire().unwrap_err().retry_after(),
    ///     Some(Duration::from_millis(400)),
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`] while the bucket is in debt, or if the debt would be too deep;
    /// [`is_never`](Denied::is_never) if `n` is above burst + `max_debt`. Nothing is then taken.
    pub fn overdraw(&self, n: u64) -> Result<(), Denied> {
        self.at_now().overdraw(n)
    }

    /// Makes [`overdraw`](Self::overdraw) what every verb does: an operation goes at once even if the bucket
    /// holds too little for it, and the next one waits for it.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("1/s burst 1".parse()?).pay_after();
    /// assert!(limiter.try_acquire_n(2).is_ok());
    /// assert!(limiter.try_acquire().is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn pay_after(mut self) -> PayAfter {
        self.pays_after = true;
        PayAfter(self)
    }

    /// The instants of its turns, one after the other: an iterator for threads, a stream for tasks.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("1000/s burst 2".parse()?);
    /// let at: Vec<_> = limiter.ticks().take(4).collect();
    /// assert!(at[3].as_nanos() - at[1].as_nanos() >= 1_000_000); // two at once, then one each millisecond
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn ticks(&self) -> Ticks<'_> {
        Ticks::new(self)
    }

    /// Gives back `n` units that were taken and not used, and says how many came back.
    ///
    /// They count as never admitted, and so does nobody else's: of all that was admitted, the newest `n`
    /// units. What the bucket has no room for is lost, and so is, while reservations are waiting
    /// for their time, what would let them and newcomers through together. A
    /// [`Reservation`] knows when it was made: [`cancel`](Reservation::cancel) that one instead.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h".parse()?);
    /// limiter.try_acquire_n(4)?;
    /// assert_eq!(limiter.refund(1), 1);
    /// assert_eq!(limiter.available(), 7);
    /// assert_eq!(limiter.refund(100), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, n: u64) -> u64 {
        self.refund_at(n, || self.clock.latest().as_nanos())
    }

    /// How many units could be taken now; 0 while in debt.
    pub fn available(&self) -> u64 {
        self.at_now().available()
    }

    /// The limit, what remains of it, and when it is whole again, seen at one instant.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let limiter =
    ///     TokenBucket::builder("10/s burst 5".parse()?).clock(&ManualClock::new()).build()?;
    /// limiter.try_acquire_n(3)?;
    /// let seen = limiter.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (5, 2));
    /// assert_eq!(seen.reset_after, Duration::from_millis(300));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.at_now().snapshot()
    }

    /// The quota in force.
    pub fn quota(&self) -> Quota {
        self.ledger.lock().quota
    }

    pub(crate) fn policy(&self) -> Policy {
        let ledger = self.ledger.lock();
        Policy::new(ledger.quota, ledger.refill == Refill::Continuous)
    }

    /// All of it as a debt; if that is more than the bucket may owe, as much as there is.
    pub(crate) fn charge(&self, n: u64) {
        if self.overdraw(n).is_err() {
            self.take_up_to(n);
        }
    }

    /// Puts another quota in force, keeping the tokens: [`set_quota_with`](Self::set_quota_with)
    /// and [`Carry::Kept`].
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = TokenBucket::builder("1/s burst 5000".parse()?)
    ///     .clock(&time)
    ///     .initial_tokens(0)
    ///     .build()?;
    /// time.advance(Duration::from_secs(10));
    /// limiter.set_quota("1000/s burst 5000".parse()?);
    /// assert_eq!(limiter.available(), 10); // what was earned at 1/s; no windfall
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// None: a token bucket accepts every quota.
    pub fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        self.set_quota_with(quota, Carry::Kept);
        Ok(())
    }

    /// Replaces the quota. Tokens that flowed in until now are credited at the old rate first.
    ///
    /// - Concurrent decisions use either the old quota or the new one, never a mix.
    /// - `carry` decides what becomes of the tokens. A debt stays the same number of tokens (up to 2⁶⁴ ns of repayment
    ///   time). Tokens that `carry` adds pay the debt first.
    /// - Each [`Carry::Reset`] adds at most one new burst to what the limiter may admit. It does not forgive a debt.
    /// - Reservations keep their times, and new requests come after the last of them. A higher rate helps new requests
    ///   only from then on. At the last of those times, the bucket holds what `carry` adds, and no more.
    /// - A reservation made under a higher rate or a larger burst still counts under it.
    /// - `max_debt` keeps its value if it was set. Otherwise it follows the burst.
    /// - Periods of [`Refill::Interval`] go on if their length stays the same; see there for other lengths.
    ///
    /// A `now` from before the change sees the tokens that are there at the change, less those that flowed in between at the
    /// old rate. A `now` from before the previous change is refused until that change.
    ///
    /// ```
    /// # use flowgate::{Carry, ManualClock, TokenBucket};
    /// let half_full = || {
    ///     TokenBucket::builder("10/s".parse()?).clock(ManualClock::new()).initial_tokens(5).build()
    /// };
    /// let after = |carry| {
    ///     let limiter = half_full()?;
    ///     limiter.set_quota_with("100/s".parse()?, carry);
    ///     Ok::<_, flowgate::QuotaError>(limiter.available())
    /// };
    /// assert_eq!(after(Carry::Kept), Ok(5));
    /// assert_eq!(after(Carry::Additive), Ok(95)); // the burst grows from 10 to 100
    /// assert_eq!(after(Carry::Proportional), Ok(50));
    /// assert_eq!(after(Carry::Reset), Ok(100));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_quota_with(&self, quota: Quota, carry: Carry) {
        let unchanged = |_| Ok::<_, QuotaError>(quota);
        // An infallible change.
        let _: Result<(), QuotaError> =
            self.change_quota(unchanged, carry, || self.clock.latest().as_nanos());
    }

    /// Replaces the way of refilling. Tokens that flowed in until now are credited first.
    ///
    /// The change neither adds nor removes tokens. Quota, debt and reservations stay as they are. Setting the current way
    /// again changes nothing.
    ///
    /// - From [`Refill::Continuous`] to [`Refill::Interval`]: the first period begins now. If the limiter was built with an
    ///   [alignment](TokenBucketBuilder::align), periods end where the alignment says. The end of the first one then adds
    ///   the part of `count` that belongs to the time since the change.
    /// - From [`Refill::Interval`] to [`Refill::Continuous`]: tokens flow in from now on. The period that has begun adds
    ///   nothing.
    ///
    /// In any interval, the bucket admits at most the burst, plus what flowed in under each way of refilling.
    ///
    /// ```
    /// # use flowgate::{ManualClock, Refill, TokenBucket};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter =
    ///     TokenBucket::builder("60/min".parse()?).clock(&time).initial_tokens(0).build()?;
    /// time.advance(Duration::from_secs(20));
    /// limiter.set_refill(Refill::Interval);
    /// assert_eq!(limiter.available(), 20); // what flowed in until now
    /// time.advance(Duration::from_secs(59));
    /// assert_eq!(limiter.available(), 20);
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(limiter.take_up_to(100), 60); // a period after the change: full
    /// limiter.set_refill(Refill::Continuous);
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(limiter.available(), 1);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn set_refill(&self, refill: Refill) {
        self.change_refill(refill, || self.clock.latest().as_nanos());
    }

    /// Puts `count` per `period` in force, keeping burst and tokens.
    ///
    /// ```
    /// # use flowgate::{ManualClock, TokenBucket};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limiter = TokenBucket::builder("10/s burst 50".parse()?).clock(&time).initial_tokens(0).build()?;
    /// limiter.set_rate(5, Duration::from_secs(1))?; // the server behind is slow today
    /// time.advance(Duration::from_secs(2));
    /// assert_eq!(limiter.available(), 10);
    /// assert_eq!(limiter.quota().to_string(), "5/s burst 50");
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if they cannot be honoured with this burst; nothing is then changed.
    pub fn set_rate(&self, count: u64, period: Duration) -> Result<(), QuotaError> {
        self.change_quota(
            |quota| quota.with_rate(count, period),
            Carry::Kept,
            || self.clock.latest().as_nanos(),
        )
    }

    /// Puts another burst in force, keeping rate and tokens; tokens above it are lost.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let limiter = TokenBucket::new("10/h burst 50".parse()?);
    /// limiter.set_burst(20)?;
    /// assert_eq!((limiter.available(), limiter.snapshot().limit), (20, 20));
    /// assert!(limiter.set_burst(0).is_err());
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`QuotaError`] if `burst` is 0, or too large for this rate; nothing is then changed.
    pub fn set_burst(&self, burst: u64) -> Result<(), QuotaError> {
        self.change_quota(
            |quota| quota.try_burst(burst),
            Carry::Kept,
            || self.clock.latest().as_nanos(),
        )
    }

    /// The same verbs at a time of your own.
    ///
    /// For simulations, for several decisions at one instant, and for callers that have read the clock
    /// already. Use one kind of time with one limiter, the clock's or yours.
    ///
    /// ```
    /// # use flowgate::{Timestamp, TokenBucket};
    /// let limiter = TokenBucket::new("2/s burst 1".parse()?);
    /// let admitted: Vec<_> = (0..2_000)
    ///     .filter(|&ms| limiter.at(Timestamp::from_nanos(ms * 1_000_000)).try_acquire().is_ok())
    ///     .collect();
    /// assert_eq!(admitted, [0, 500, 1000, 1500]);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn at(&self, now: Timestamp) -> At<'_, TokenBucket> {
        At::new(self, now.as_nanos())
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether every quota is served without a lock on this machine.
    ///
    /// `false` where the processor has no 128-bit compare-and-swap: the quotas that need one are then
    /// served as exactly, under a lock.
    ///
    /// ```
    /// use flowgate::{Quota, TokenBucket};
    ///
    /// static LIMIT: TokenBucket = TokenBucket::new(Quota::per_second(100));
    /// if !LIMIT.is_lock_free() {
    ///     eprintln!("decisions take a lock on this machine");
    /// }
    /// ```
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }

    /// The largest amount that a reservation has been told to wait for, in units of `epoch`, the current one or that
    /// before. Raised before the reservation is made; lowered only where an epoch begins.
    #[inline]
    fn largest_told(&self, epoch: u64) -> &AtomicU64 {
        &self.largest_told[(epoch % 2) as usize]
    }

    /// The latest time that a caller has supplied and that anything in the state `tat` was decided by, or the last change of
    /// quota, or `now_ns`, whichever is later. Changes of quota and what is given back are settled no earlier, so that nothing
    /// that flowed in until then does so twice.
    ///
    /// Every grant leaves a state that is later than its own time. So by a time beyond the state nothing has been granted, and
    /// it does not count. (In intervals, a state does not tell that.)
    #[inline(always)]
    fn settled_ns(&self, now_ns: u64, parameters: &Parameters, tat: u128) -> u64 {
        let now_ns = now_ns.max(parameters.since_ns);
        let newest_ns = self.newest_ns.load(Ordering::Acquire);
        if newest_ns <= now_ns || parameters.interval_ns != 0 {
            return now_ns.max(newest_ns);
        }
        let decided_ns = tat.div_ceil(u128::from(parameters.ticks_per_ns));
        // At most the newest.
        now_ns.max(decided_ns.min(newest_ns.into()) as u64)
    }

    /// What reservations have raised `told` to, all of those that are in a state that was read before.
    ///
    /// Not a load: the word moves without publishing what was written before. A reservation that raises this
    /// afterwards learns that the word has moved on, and fails.
    fn seen(told: &AtomicU64) -> u64 {
        told.fetch_max(0, Ordering::AcqRel)
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    #[inline]
    fn at_now(&self) -> At<'_, TokenBucket, ByClock> {
        At::new(self, self.now_ns())
    }
}

waits_in_line!(TokenBucket, |bucket| bucket);
limiter_by_its_verbs!(TokenBucket as TokenBucket, reserve_n;
    policy: TokenBucket::policy, refund: TokenBucket::refund, charge: TokenBucket::charge);

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBucket")
            .field("quota", &self.quota())
            .field("available", &self.available())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

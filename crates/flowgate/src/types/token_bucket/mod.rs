//! [`TokenBucket`]: the limiter over [`algorithm::token_bucket`](crate::algorithm::token_bucket).

mod bucket;
pub(crate) mod builder;
mod carry;
mod change_quota;
mod engine;
mod give_back;
#[cfg(all(test, flowgate_loom))]
mod model;
mod pay_after;
mod refill;
mod refund_log;
mod state;
#[cfg(all(test, not(flowgate_loom)))]
mod tests;

pub use bucket::{Bucket, Debts, Drops, Mode, PaysBefore, Tokens};
pub use builder::TokenBucketBuilder;
pub use carry::Carry;
pub use pay_after::PayAfter;
pub use refill::Refill;

#[cfg(feature = "std")]
use crate::clock::Clock;
use crate::limiter::builder::Builder;
use crate::limiter::engine::Request;
use crate::limiter::{At, RateLimiter, TimeSource};
use crate::primitive::const_unless_loom;
use crate::queue::Ticks;
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use core::time::Duration;

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
/// lowest terms per nanosecond (1 for 1000/s). [`is_lock_free`](RateLimiter::is_lock_free) tells whether the target has
/// a 128-bit compare-and-swap.
///
/// On 64-bit Linux a limiter takes 256 bytes. It allocates more when it first needs more: for callers that wait, a change of
/// quota, a refund, a reservation that has to wait, or after its clock has run for as long as said above.
///
/// A limiter is not `Clone`: two would be two limits. Share it by reference, `Arc`, or `static`:
///
/// ```
/// use flowgate::{Quota, TokenBucket};
///
/// static REPORTS: TokenBucket = TokenBucket::new(Quota::per_minute(60).burst(5));
/// assert!(REPORTS.try_acquire().is_ok());
/// ```
pub type TokenBucket = RateLimiter<Bucket<Tokens>>;

impl TokenBucket {
    const_unless_loom! {
        /// Creates a full bucket on [`Clock::system`].
        ///
        /// Every [`Quota`] is accepted. In a `static` it needs no lazy cell.
        #[cfg(feature = "std")]
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self::over(Bucket::new(quota), Clock::system())
        }
    }

    /// Returns a builder, for another clock, other tokens to begin with, another way of refilling, or another debt.
    pub fn builder(quota: Quota) -> TokenBucketBuilder {
        Builder::new(builder::Settings::new(quota))
    }

    /// Makes [`overdraw`](RateLimiter::overdraw) what every verb does: an operation goes at once even if the bucket
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
    pub fn pay_after(self) -> PayAfter {
        PayAfter::over(self.engine.used_as(), self.clock)
    }
}

impl<M: PaysBefore> RateLimiter<Bucket<M>> {
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
}

impl<M: Mode> RateLimiter<Bucket<M>> {
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
        // No quota is refused.
        let _: Result<(), QuotaError> = self.change_quota(|_| Ok(quota), carry);
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
        let _change = self.queue.reconfigure(self);
        let now_ns = || self.clock.latest().as_nanos();
        self.engine.change_refill(refill, now_ns);
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
        self.change_quota(|quota| quota.with_rate(count, period), Carry::Kept)
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
        self.change_quota(|quota| quota.try_burst(burst), Carry::Kept)
    }

    fn change_quota(
        &self,
        change: impl FnOnce(Quota) -> Result<Quota, QuotaError>,
        carry: Carry,
    ) -> Result<(), QuotaError> {
        let _change = self.queue.reconfigure(self);
        let now_ns = || self.clock.latest().as_nanos();
        self.engine.change_quota(change, carry, now_ns)
    }
}

impl<M: PaysBefore, T: TimeSource> At<'_, RateLimiter<Bucket<M>>, T> {
    /// [`RateLimiter::overdraw`] at this time.
    ///
    /// # Errors
    ///
    /// As [`RateLimiter::overdraw`].
    pub fn overdraw(self, n: u64) -> Result<(), Denied> {
        if n == 0 {
            return Ok(());
        }
        self.note(Request::Overdraft(n));
        let door = || self.pass(Some(n));
        self.limiter.engine.overdraw(self.now_ns, n, door)
    }
}

impl<M: Mode> At<'_, RateLimiter<Bucket<M>>> {
    /// [`RateLimiter::set_quota_with`] at this time.
    pub fn set_quota_with(self, quota: Quota, carry: Carry) {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        let engine = &self.limiter.engine;
        // No quota is refused.
        let _: Result<(), QuotaError> = engine.change_quota(|_| Ok(quota), carry, || self.now_ns);
    }

    /// [`RateLimiter::set_refill`] at this time.
    pub fn set_refill(self, refill: Refill) {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        let engine = &self.limiter.engine;
        engine.change_refill(refill, || self.now_ns);
    }
}

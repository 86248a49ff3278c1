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
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
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

/// A steady rate with bursts: tokens refill continuously, and operations take them.
///
/// A bucket holds up to *burst* tokens and starts full. Tokens flow in at the quota's rate. An operation takes one or more
/// tokens, and is refused if the bucket holds too few. Refill is continuous: there is no tick and no window, and each token is
/// available at exactly the nanosecond at which it has flowed in.
///
/// ```text
///  tokens
///   burst ┤▇▇▇▇▇╮                      ╭▇▇▇▇▇▇   full: what flows in is lost
///         │     │ a burst of 12      ╭─╯
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
/// The picture shows all requests in gray and the admitted ones in blue, with a quota of 20 per second:
///
/// ![TokenBucket: a burst of 20, then 20/s][picture]
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). In any interval of length *t*, the limiter admits at most `burst + rate × t` units. This is
///   computed in integers, without a tolerance, and holds for every schedule of threads.
///   - `overdraw` adds the largest amount overdrawn, at most `max_debt`.
///   - Across a change of quota, the bound uses the largest burst in the interval, and adds up the tokens of each rate.
///   - An explicit [`Carry`] may add tokens: each [`Carry::Reset`] at most one new burst, each [`Carry::Additive`] or
///     [`Carry::Proportional`] at most the growth of the burst.
/// - **Never refuses needlessly** (C2). A refusal means that admitting the request would have exceeded that bound.
/// - **Exact rates** (C8). The rate is a fraction, is never cut to whole nanoseconds, and does not drift.
/// - **Safe under clock anomalies** (C4). A `now` that is older than an earlier one sees fewer tokens and adds none.
/// - **Exact retry-after** (C3). [`Denied::retry_after`] is the least wait, to the nanosecond.
///
/// # When to use another limiter
///
/// A bucket of burst N admits up to 2 N in some window of length T, if its rate is N per T: the burst, and the tokens that flow
/// in. For a limit of "at most N in *any* window of length T", halve both, or use `burst(1)` for even spacing.
///
/// # Amounts
///
/// `n` counts units. A unit is a token unless the quota divides tokens ([`Quota::units_per_token`]).
///
/// - `n` = 0 succeeds and changes nothing.
/// - `n` above the burst is refused with [`Denied::is_never`].
///
/// # Memory ordering
///
/// There is no guarantee: an admission does not make one thread's writes visible to another.
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on one 64-bit word. It takes no lock and allocates nothing. In two
/// cases, the word has 128 bits:
///
/// - The exact state of the quota does not fit into 64 bits. This is the case for few quotas, such as 999,999,937 per day.
/// - The clock has run for more than 208 days / *c*, where *c* is the numerator of the rate per nanosecond, in lowest terms (1
///   for 1,000/s).
///
/// [`is_lock_free`](RateLimiter::is_lock_free) reports whether the target has a 128-bit compare-and-swap.
///
/// On 64-bit Linux a limiter takes 256 bytes. It allocates more memory the first time that one of these happens:
///
/// - a caller waits;
/// - the quota changes;
/// - units are refunded;
/// - a reservation has to wait;
/// - the clock has run for the time stated above.
///
/// A limiter is not `Clone`, because a clone would be a second limit. Share it by reference, `Arc`, or `static`:
///
/// ```
/// use flowgate::{Quota, TokenBucket};
///
/// static REPORTS: TokenBucket = TokenBucket::new(Quota::per_minute(60).burst(5));
/// assert!(REPORTS.try_acquire().is_ok());
/// ```
#[cfg_attr(doc, doc = include_str!("../../guide/pictures/token-bucket.md"))]
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

    /// Returns a builder, for another clock, fill, refill or debt.
    pub fn builder(quota: Quota) -> TokenBucketBuilder {
        Builder::new(builder::Settings::new(quota))
    }

    /// Converts this limiter to one in which every operation may leave a debt.
    ///
    /// An operation then goes ahead immediately even if the bucket holds too few tokens for it, and the next operation waits
    /// until the debt is repaid. Every method then does what [`overdraw`](RateLimiter::overdraw) does here.
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
    /// Takes `n` units now, even if the bucket holds fewer, and leaves a debt.
    ///
    /// The operation goes ahead immediately, and later operations wait until the debt is repaid. The units are granted only if
    /// the bucket is not in debt yet, and if the debt would be at most `max_debt` (default: the burst). Until tokens that flow
    /// in have repaid the debt, every request is refused.
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
    /// Returns [`Denied`], and takes nothing, if the bucket is in debt or the debt would exceed `max_debt`. If `n` is above
    /// burst + `max_debt`, [`is_never`](Denied::is_never) is true.
    pub fn overdraw(&self, n: u64) -> Result<(), Denied> {
        self.at_now().overdraw(n)
    }

    /// Returns the times of this limiter's grants, one after the other.
    ///
    /// The result is an iterator for threads and a stream for tasks.
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
    /// - Periods of [`Refill::Interval`] continue if their length stays the same. [`Refill::Interval`] describes what happens
    ///   with another length.
    ///
    /// A `now` from before the change sees the tokens that are available at the change, less those that flowed in between at
    /// the old rate. A `now` from before the previous change is refused until that change.
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

    /// Replaces the rate by `count` per `period`, and keeps burst and tokens.
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
    /// Returns [`QuotaError`], and changes nothing, if the rate cannot be kept exactly with this burst.
    pub fn set_rate(&self, count: u64, period: Duration) -> Result<(), QuotaError> {
        self.change_quota(|quota| quota.with_rate(count, period), Carry::Kept)
    }

    /// Replaces the burst, and keeps rate and tokens; tokens above it are lost.
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
    /// Returns [`QuotaError`], and changes nothing, if `burst` is 0 or too large for this rate.
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
    /// Does the same as [`RateLimiter::overdraw`], at this time.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] in the same cases as [`RateLimiter::overdraw`].
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
    /// Does the same as [`RateLimiter::set_quota_with`], at this time.
    pub fn set_quota_with(self, quota: Quota, carry: Carry) {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        let engine = &self.limiter.engine;
        // No quota is refused.
        let _: Result<(), QuotaError> = engine.change_quota(|_| Ok(quota), carry, || self.now_ns);
    }

    /// Does the same as [`RateLimiter::set_refill`], at this time.
    pub fn set_refill(self, refill: Refill) {
        let _change = self.limiter.queue.reconfigure(self.limiter);
        let engine = &self.limiter.engine;
        engine.change_refill(refill, || self.now_ns);
    }
}

//! [`Striped`]: the public type over [`word::shared`](crate::store::word).

mod batch;
mod draw;
mod one_word;
mod plumbing;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;

pub use batch::Batch;
pub use draw::Draw;
pub use one_word::OneWord;

use crate::clock::Timestamp;
use crate::limiter::{Limiter, Snapshot, own_verbs, sealed};
use crate::primitive::thread_number::thread_number;
use crate::queue::Acquire;
use crate::store::word::Stripe;
use crate::verdict::Denied;
use alloc::sync::Arc;
use core::fmt;
use plumbing::{Key, Lots};

/// Limiter with local reserves of tokens, **at the cost of a local counter**.
///
/// Groups of threads share a *stripe* each: a local reserve of tokens that were taken from the limiter in advance.
///
/// > **Limit:** after an idle period, a striped limiter may refuse up to 1/8 of a burst that the limiter alone would admit.
///
/// The state of a plain limiter is one atomic word. Threads that change it at the same time wait for its cache line: two
/// threads are slower together than one alone, and every further thread makes it worse. Each stripe is on a separate cache
/// line.
///
/// ```text
///   threads    ┊ ╎  ┊      ╎ ┊      ┊  ╎
///             ┌──────┐   ┌──────┐   ┌──────┐
///   stripes   │  37  │   │  64  │   │   0  │   no clock, no line that others write
///             └──────┘   └──────┘   └──▲───┘
///   limiter   burst − taken − in the stripes    filled by the handful, emptied when others need it
/// ```
///
/// ```
/// use flowgate::TokenBucket;
///
/// let hot = TokenBucket::new("5000000/s burst 100000".parse()?).striped();
/// if hot.try_acquire().is_ok() {
///     // …
/// }
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Guarantees
///
/// The guarantees are those of the limiter inside ([guide](crate::guide::guarantees)), with these differences:
///
/// - **Never over-admits** (C1). Tokens in a stripe have been taken from the limiter, so they count as admitted. The limiter
///   and the stripes together never hold more than a burst. A caller that leaves tokens in the stripes and later spends them in
///   one burst gets no extra tokens: the limiter has refilled only as far as the tokens in the stripes leave room.
/// - **Never refuses needlessly** (C2), with one exception. A refusal means that no token is left, neither in the limiter nor
///   in any stripe. But taking from a stripe does not read the clock. The limiter therefore counts those tokens as taken when
///   it next finds the stripe empty. If the bucket was full in between, it loses the refill for the tokens that were taken from
///   stripes by then: at most 1/8 of the burst, and nothing if the stripes were idle. The lost tokens flow in again at the
///   normal rate. No limiter without a clock reading can avoid this: it cannot know whether tokens were taken before or after
///   the bucket became full, and must assume the case that admits less.
/// - **Exact retry-after** (C3) and **FIFO fairness** (C6) are those of the limiter. While a caller waits in the queue, the
///   stripes are empty and stay empty.
/// - **Safe under clock anomalies** (C4). The time of the limiter never runs backward. Taking from a stripe does not read the
///   clock. So after the clock is set back, tokens from a stripe count at the latest time that the clock has shown. The limiter
///   decides at the earlier time only if the stripe is empty, or if a request needs more than it holds.
///
/// # When to use it
///
/// Use it if several threads ask one limiter millions of times per second. At 10,000 requests per second the limiter alone is
/// as fast, and has the exact time of each token.
///
/// Do not use it if the threads ask for much more than the limiter admits. Each token is then fetched from the limiter when it
/// flows in, at several times the limiter's price.
///
/// ```text
///   ns per admission          1 thread    2 threads, each
///   ───────────────────────────────────────────────────────────────────────
///   governor                  ████ 27     ████████████████████ 120
///   TokenBucket               ████ 26     ███████████████████▋ 118
///   TokenBucket, striped      █▉   11     █▉  12
///   Batch of 64               ▎    1.3    ▋   3.8      for who may hold 64 back
/// ```
///
/// (`bench/README.md` describes how to repeat the measurement.)
///
/// The other methods of [`Limiter`] are those of the limiter inside: `snapshot`, `refund`, `set_quota`, decisions at an
/// explicit timestamp, and `acquire` if it has to wait. Methods that [`Limiter`] does not have, such as `reserve`, `overdraw`
/// and `at`, are on [`get_ref`](Self::get_ref).
///
/// # How much is shared
///
/// - If the threads of a stripe ask for tokens twice within 1 ms, the stripe gets 1/16 of its maximum.
/// - It gets twice as much each time that it is used up within 1/4 ms.
/// - All stripes together hold at most 1/8 of the burst, and each stripe at most 65,536 units.
///
/// Sharing has two conditions, and [`is_shared`](Self::is_shared) returns whether both hold:
///
/// - The burst is at least 128 tokens for each stripe.
/// - The rate fits into the part of 128 bits that the stripes leave. This is a rate of up to 16,777,215 per nanosecond in
///   lowest terms. For windows, it is a limit below 2²³.
///
/// Otherwise this type behaves as the limiter alone, until the quota is replaced.
///
/// # Memory
///
/// Each of the [`stripes`](Self::stripes) takes 128 bytes. By default, there are two stripes for each processor.
///
/// Source: the striped counters in `java.util.concurrent.atomic.LongAdder` (Doug Lea, 2011). Those counters only add; here each
/// stripe is a local reserve.
pub struct Striped<L> {
    stripes: Arc<[Stripe]>,
    limiter: L,
}

impl<L: OneWord> Striped<L> {
    /// Creates a striped limiter with two stripes for each available processor, at most 64.
    pub fn new(limiter: L) -> Self {
        Self::with_stripes(limiter, 2 * processors())
    }

    /// Creates a striped limiter with `stripes` stripes, rounded up to a power of two.
    ///
    /// There are at least 1 and at most 64 stripes.
    ///
    /// ```
    /// use flowgate::{Striped, TokenBucket};
    ///
    /// let hot = Striped::with_stripes(TokenBucket::new("1000000/s".parse()?), 12);
    /// assert_eq!(hot.stripes(), 16);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn with_stripes(mut limiter: L, stripes: usize) -> Self {
        let stripes = limiter.share(Key::new(), stripes);
        Self { stripes, limiter }
    }

    /// Acquires one token.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if no token is available. [`Denied::retry_after`] is the wait until one is.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        let number = thread_number();
        if self.own(number).take_token() {
            return Ok(());
        }
        self.ask_for_token(number)
    }

    /// Acquires `n` units, all or none. `n` = 0 succeeds and changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], and takes nothing, if fewer than `n` units are available. [`Denied::is_never`] returns `true` if `n`
    /// units can never be available.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        let number = thread_number();
        if self.own(number).take(n) {
            return Ok(());
        }
        self.ask(number, n)
    }

    /// Acquires the available units, up to `n`, and returns how many.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let hot = TokenBucket::new("1000/h".parse()?).striped();
    /// let taken = hot.take_up_to(600) + hot.take_up_to(600);
    /// assert_eq!(taken, 1000);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn take_up_to(&self, n: u64) -> u64 {
        match self.own(thread_number()).take(n) {
            true => n,
            false => self.limiter.draw(Key::new(), 0, n).unwrap_or(0),
        }
    }

    /// Returns the number of stripes.
    pub fn stripes(&self) -> usize {
        self.stripes.len()
    }

    /// Returns whether the stripes are used. If not, they stay empty.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// assert!(TokenBucket::new("1000000/s".parse()?).striped().is_shared());
    /// assert!(!TokenBucket::new("3/s".parse()?).striped().is_shared()); // as if it were not striped
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn is_shared(&self) -> bool {
        self.limiter.centre(Key::new()).is_shared()
    }

    /// Returns the limiter inside, for its other methods and settings.
    ///
    /// Tokens that it grants come from the limiter and not from a stripe, unless the limiter has too few.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let hot = TokenBucket::new("1000000/s".parse()?).striped();
    /// hot.get_ref().set_burst(500_000)?;
    /// let later = hot.get_ref().reserve_n(10)?;
    /// # drop(later);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_ref(&self) -> &L {
        &self.limiter
    }

    /// Returns the limiter inside, with the tokens that the stripes held.
    ///
    /// ```
    /// # use flowgate::TokenBucket;
    /// let hot = TokenBucket::new("1000000/day".parse()?).striped();
    /// hot.try_acquire_n(10)?;
    /// let calm = hot.into_inner();
    /// assert_eq!(calm.available(), 999_990);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_inner(mut self) -> L {
        self.limiter.unshare(Key::new());
        self.limiter
    }

    #[inline(always)]
    fn own(&self, number: usize) -> &Stripe {
        // A power of two.
        &self.stripes[number & (self.stripes.len() - 1)]
    }

    /// Takes a token from the stripe or from the limiter, or repeats the refusal that the stripe has stored.
    #[inline(never)]
    fn ask_for_token(&self, number: usize) -> Result<(), Denied> {
        let own = self.own(number);
        if let Some(wait_ns) = own.is_dry_for(|at_ns| self.limiter.clock().ns_until(at_ns)) {
            return Err(Denied::later(u128::from(wait_ns.get()), 1));
        }
        let units = || self.limiter.supply().0.facts().token;
        match own.take_some(units) {
            true => Ok(()),
            false => match self.limiter.centre(Key::new()).draw(number, None) {
                Some(answer) => answer,
                None => self.limiter.try_acquire(),
            },
        }
    }

    /// Decides by the limiter.
    #[cold]
    #[inline(never)]
    fn ask(&self, number: usize, n: u64) -> Result<(), Denied> {
        match self.limiter.centre(Key::new()).draw(number, Some(n)) {
            Some(answer) => answer,
            None => self.limiter.try_acquire_n(n),
        }
    }
}

impl<L: OneWord> Draw for Striped<L> {}

impl<L: OneWord> Lots for Striped<L> {
    fn draw(&self, key: Key, min: u64, max: u64) -> Result<u64, Denied> {
        let most = max.max(min);
        match self.own(thread_number()).take(most) {
            true => Ok(most),
            false => self.limiter.draw(key, min, max),
        }
    }
}

impl<L: OneWord> sealed::Sealed for Striped<L> {
    fn supply(&self) -> sealed::Plumbing<'_> {
        self.limiter.supply()
    }

    fn limiter(&self) -> Option<&dyn Limiter> {
        Some(self)
    }

    fn inner(&self) -> Option<&dyn Limiter> {
        Some(&self.limiter)
    }
}

impl<L: OneWord> Limiter for Striped<L> {
    own_verbs!();

    fn try_acquire_n_at(&self, now: Timestamp, n: u64) -> Result<(), Denied> {
        self.limiter.try_acquire_n_at(now, n)
    }

    fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }
}

impl<L: fmt::Debug> fmt::Debug for Striped<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Striped")
            .field("limiter", &self.limiter)
            .field("stripes", &self.stripes.len())
            .finish()
    }
}

#[cfg(feature = "std")]
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Nothing distinguishes the threads.
#[cfg(not(feature = "std"))]
fn processors() -> usize {
    1
}

//! [`Striped`]: the public face over [`word::shared`](crate::store::word).

mod batch;
mod draw;
mod one_word;
mod plumbing;
#[cfg(all(test, not(flowgate_loom)))]
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

/// **Keeps the promise of the limiter in it, at the cost of a local counter**, on any number of threads: some of the
/// threads share a *stripe* each, of tokens that have been taken from the limiter beforehand. After a rest, up to an
/// eighth of a burst may be refused that the limiter alone would have granted (below).
///
/// One limiter is one word, and threads that change it at the same time wait for its cache line to come: two are slower
/// together than one alone, and every further one makes it worse. A stripe is a line of its own.
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
/// # What it promises
///
/// - **Never over** (contract C1): what the limiter promises, as what is in a stripe has been taken from the limiter,
///   and limiter and stripes together never hold more than a burst. Whoever hoards and then spends all at once finds
///   that the limiter has been filled only as far as that leaves room.
/// - **Nothing wasted** (C2), **but for dates**: a refusal means that no token is left, in the limiter or in any
///   stripe. But nobody reads a clock to take from a stripe, so what has been taken from one counts as taken when the
///   stripe is next seen to be empty. Where the bucket has been full meanwhile, that is worth as many tokens as were
///   taken from stripes by then: up to an eighth of the burst, and none if the stripes were not in use. They flow in
///   again at the rate. No limiter that does without the clock can do better: whether they were taken before the
///   bucket was full or after, it cannot know, and has to take the worse.
/// - **Honest waits** (C3), **turns** (C6): as the limiter's. While a caller waits in the queue, the stripes are empty and stay
///   so.
/// - **Any clock** (C4): as the limiter's, by limiter time, which never runs backward. Taking from a stripe does not read the
///   clock. So after the clock is set back, tokens from a stripe count at the latest time that the clock has shown. Only when
///   the stripe is empty, or a request needs more than it holds, the limiter decides at the earlier time.
///
/// # When
///
/// Where one limiter is asked millions of times a second, by several threads. At ten thousand times a second the
/// limiter alone is as good, and knows when each token was taken. Not where much more is asked for than there is: each
/// token is then fetched from the limiter when it comes, at several times the limiter's price (of 5,000,000/s, all used
/// up, 10 million questions a second were answered, and 40 million by the limiter alone).
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
/// (`bench/README.md` says how to measure that again.)
///
/// What [`Limiter`] has besides is the limiter's own (`snapshot`, `refund`, `set_quota`, `acquire` where it has to wait, a given
/// time); everything else is found at [`get_ref`](Self::get_ref), such as `reserve`, `overdraw` and `at`.
///
/// # How much is shared
///
/// A stripe is given a sixteenth of its most to begin with, if its threads ask for tokens twice within a millisecond,
/// and twice as much each time that is used up within a quarter of one. All stripes together have at most an eighth
/// of the burst, and each at most 65,536 units. [`is_shared`](Self::is_shared) tells whether there is enough for
/// that: a burst of at least 128 tokens for each stripe, and a rate that can be kept in what is left of 128 bits
/// beside the stripes (up to 16,777,215 per nanosecond in lowest terms; of windows, a limit below 2²³). If not, this
/// is the limiter alone, until another quota is put in force.
///
/// # Memory
///
/// 128 bytes for each stripe: [`stripes`](Self::stripes) of them, by default two for each processor.
///
/// Source: the counters that are kept in stripes in `java.util.concurrent.atomic.LongAdder` (Doug Lea, 2011). Those
/// only add; here each stripe is a loan.
pub struct Striped<L> {
    stripes: Arc<[Stripe]>,
    limiter: L,
}

impl<L: OneWord> Striped<L> {
    /// In two stripes for each processor that this process may use, 64 at the most.
    pub fn new(limiter: L) -> Self {
        Self::with_stripes(limiter, 2 * processors())
    }

    /// In so many stripes, rounded up to a power of two, of which there are 64 at the most and one at the least.
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

    /// Takes one token, or says why not.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is none; nothing is then taken.
    #[inline]
    pub fn try_acquire(&self) -> Result<(), Denied> {
        let number = thread_number();
        if self.own(number).take_token() {
            return Ok(());
        }
        self.ask_for_token(number)
    }

    /// Takes `n` units, all or none. `n` = 0 succeeds and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there are fewer, [`Denied::is_never`] if there never are that many; nothing is then taken.
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<(), Denied> {
        let number = thread_number();
        if self.own(number).take(n) {
            return Ok(());
        }
        self.ask(number, n)
    }

    /// Takes what there is, up to `n` units, and says how much that was.
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

    /// How many stripes there are.
    pub fn stripes(&self) -> usize {
        self.stripes.len()
    }

    /// Whether there is enough to share. If not, stripes stay empty.
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

    /// The limiter itself, for its other methods and settings. What it grants does not come from a stripe, unless it has too
    /// little.
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

    /// The limiter, with what the stripes had.
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

    /// With what the stripe knows, or at the limiter.
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

    /// At the limiter.
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

/// Nothing tells the threads apart.
#[cfg(not(feature = "std"))]
fn processors() -> usize {
    1
}

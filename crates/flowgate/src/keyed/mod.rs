//! [`Keyed`]: a limit for each key, in memory that does not grow.

mod algorithm;
mod builder;
mod concurrency;
mod counts;
mod current;
mod decide;
mod each;
mod entry;
mod error;
mod export;
#[cfg(all(feature = "huge-pages", target_os = "linux"))]
mod huge_pages;
mod inspect;
mod key;
mod keys;
mod known;
#[cfg(all(test, flowgate_loom))]
mod model;
mod names;
mod queues;
mod rule;
#[cfg(all(test, flowgate_shuttle))]
pub(crate) mod schedules;
mod size;
mod sketch;
mod table;
mod view;

pub use algorithm::KeyedAlgorithm;
pub use builder::{KeyedBuilder, WhenFull};
pub use concurrency::{
    AtKey, KeyPermit, KeyPermits, KeyedConcurrencyLimit, OwnedKeyPermit, WithLimit,
};
pub use counts::KeyedCounts;
pub use error::KeyedError;
pub use inspect::{KeyId, KeyUsage};
pub use key::KeyLimiter;
pub use names::{AsKey, Exact, Hashed, KeyNames};
pub use queues::KeyWait;
pub use view::KeyedView;

use crate::clock::{Clock, Timestamp};
use crate::limiter::Snapshot;
use crate::queue::Acquire;
use crate::quota::policy::Policy;
use crate::quota::{Quota, QuotaError, Quotas};
use crate::types::dual_token_bucket::DualTokenBucket;
use crate::types::fixed_window::FixedWindow;
use crate::types::leaky_bucket::LeakyBucket;
use crate::types::segmented_window::SegmentedWindow;
use crate::types::token_bucket::TokenBucket;
use crate::types::unlimited::Unlimited;
use crate::verdict::Denied;
use alloc::borrow::{Cow, ToOwned};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use entry::Reading;
use key::Owner;
use keys::{Asked, Keys, Told};
use queues::KeyQueues;
use rule::{Rule, Terms, aligned};
use table::Who;

/// **One limit per key**: per user, address, host or tenant, in memory of fixed size.
///
/// Any type that is [`Hash`] can be a key. The table does not store the key. It hashes the key with a secret and keeps 16 bytes
/// about what the key has taken, only while the key is active. A key whose limit is full is the same as a key that was never seen,
/// so the table uses its entry again. The table needs no background thread, no sweep and no pauses.
///
/// ```text
///                 hash with a secret                    64 bytes: one cache line
///   key ─────────────────────────────▶ line a ──▶ ┌──────┬──────┬──────┬──────┐
///                │                                │ slot │ slot │ slot │ slot │   a slot: fingerprint, and
///                ╰───────────────────▶ line b ──▶ ├──────┼──────┼──────┼──────┤   when all can be taken again
///                                                 └──────┴──────┴──────┴──────┘
/// ```
///
/// ```
/// use flowgate::Keyed;
///
/// let limits = Keyed::token_bucket("100/min burst 20".parse()?).capacity(1_000_000)?;
/// assert!(limits.bytes() < 24_100_000);
///
/// limits.try_acquire("alice")?;
/// limits.try_acquire(&(7, "GET"))?; // any key; two of them are alike if they are equal and of the same type
/// assert_eq!(limits.available("alice"), 19);
/// assert_eq!(limits.available("bob"), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - **Key isolation** ([C7](crate::guide::guarantees#key-isolation-c7)): each key's limit has the guarantees of its
///   [`TokenBucket`], [`LeakyBucket`], [`DualTokenBucket`], [`FixedWindow`] or [`SegmentedWindow`]. What one key does changes
///   nothing for another key, except after a hash collision.
/// - **Collisions**: two keys share a limit if their hashes agree in a cache line and in 38 bits. The probability that a new key
///   collides with any active key is below 3 × 10⁻¹¹. The probability that any of a million keys does is below 3 × 10⁻⁵. A caller
///   who does not know the [seed](KeyedBuilder::seed) cannot cause a collision. To exclude collisions, [store and compare the
///   keys](KeyedBuilder::exact). That takes more memory.
/// - **Memory**: the table is allocated when the limiter is built ([`bytes`](Self::bytes)). After that, only waiters and their
///   queues take memory.
/// - **Never over-admits** ([C1](crate::guide::guarantees#never-over-admits-c1)), **never refuses needlessly**
///   ([C2](crate::guide::guarantees#never-refuses-needlessly-c2)) and **exact retry-after**
///   ([C3](crate::guide::guarantees#exact-retry-after-c3)): as for the limiter's type.
/// - **Exact rates** ([C8](crate::guide::guarantees#exact-rates-c8)) do not hold here, because the state of a key has 16 bytes. The
///   time that a token costs is rounded up to 1/4096 ns. A rate below 1,000,000/s is therefore too low by at most 1/4,000,000. [Two
///   quotas](#two-quotas) share the same 16 bytes and are rounded further.
/// - **Safe under clock anomalies** ([C4](crate::guide::guarantees#safe-under-clock-anomalies-c4)): a stale time never adds tokens.
///   See [Stale times](#stale-times) for when the limiter refuses more than necessary.
///
/// # When the table is full
///
/// The [capacity](KeyedBuilder::capacity) is a design point, not a guarantee, because each key can use only eight entries. With
/// `capacity` active keys, a few of them find no entry, and more if keys come and go all the time. With [`WhenFull::Deny`] and
/// [`WhenFull::Share`] there are more spare entries, so fewer keys are affected.
///
/// [`WhenFull`] decides what happens to these keys. By default, a sketch remembers what they have taken, and no key gains tokens.
/// Needless refusals begin only beyond `capacity`. [`WhenFull`] lists how frequent they are.
///
/// # Quotas
///
/// All keys have the limiter's quota, unless the caller names a per-key quota [`with`](Self::with). A key can change to another
/// quota, and [`set_quota`](Self::set_quota) changes the quota of all keys. In both cases, the key keeps the number of tokens that
/// it has taken. They refill at the new rate.
///
/// # Stale times
///
/// A decision can have an earlier time than a decision before it. Threads read a clock in another order than they decide, a clock
/// is set back, or a caller passes an [explicit timestamp](Self::at). A bucket then does not yet have the tokens that flow in
/// between the two times. The limiter counts them at the rate that was current then:
///
/// - Before the last change of the limiter's quota, it uses the rate before that change.
/// - Before the last change but one, the rate is not known. The limiter refuses every request until that change.
/// - A key changes to a per-key quota, or back to the limiter's quota, at the latest time that the limiter has decided at. The
///   limiter refuses every request for the key until then. It also refuses requests before that time for about one other key in
///   256.
/// - A key whose entry has been used again is not known to be full before the latest time at which any such key became full. With a
///   per-key quota, the limiter refuses every request for such a key until then. With the limiter's quota, it refuses every request
///   before the latest time at which such a key with a per-key quota became full.
///
/// In a window, a request with an earlier time counts in the newest window of its key.
///
/// # Evicted keys
///
/// The sketch rounds what it remembers, always toward refusing:
///
/// - The time at which a bucket is full is rounded up to a multiple of 8.2 µs.
/// - The end of a window is rounded up to a multiple of 16.4 µs.
/// - The number of units in a window is exact up to 511. A larger number is rounded up by at most 1/256.
/// - After a new aligned window has begun, a key that was evicted in the window before is refused for up to 16.4 µs.
///
/// The sketch remembers a bucket's debt together with the cost of a unit. The debt is therefore the same number of units with the
/// limiter's quota and with a per-key quota. If keys with and without per-key quotas share both sketch cells of a key, that key may
/// be refused more.
///
/// # Limiter types
///
/// | type | made by | burst |
/// |---|---|---|
/// | `Keyed<TokenBucket>` | [`Keyed::token_bucket`] | as in the quota, or its count |
/// | `Keyed<LeakyBucket>` | [`Keyed::leaky_bucket`] | as in the quota, or 1 |
/// | `Keyed<DualTokenBucket>` | [`Keyed::dual_token_bucket`] | as in each quota, or its count |
/// | `Keyed<FixedWindow>` | [`Keyed::fixed_window`] | none: a window begins with a key's first operation, or is [aligned](KeyedBuilder::align) |
/// | `Keyed<SegmentedWindow>` | [`Keyed::segmented_window`] | none: one segment, so it refuses for up to one window too long |
/// | `Keyed<Unlimited>` | [`Keyed::unlimited`] | none: everything is admitted |
///
/// The end of a fixed window is rounded up to a multiple of (limit + 1) / 4096 ns, or of the next power of two above that number.
/// After a change from a larger limit, it is rounded up by at most 1/4096 of the window. The ends of segmented and aligned windows
/// are exact, except for an aligned window with a per-key quota.
///
/// # Two quotas
///
/// [`Keyed::dual_token_bucket`] keeps two token buckets for each key, in the same 16 bytes. A request takes from both or from
/// neither, in one compare-and-swap. [`Denied::limit`] of a refusal is the quota that takes longer: 0 for the first, 1 for the
/// second. Evicted keys, exports, refunds and waiting are as for the other types.
///
/// The two buckets share 77 bits, so times are rounded, toward refusing. The burst of each quota is exact: a key that has taken
/// nothing can take the smaller burst in one instant. Its tokens then come back more slowly than the quota says:
///
/// | quotas | slower by at most |
/// |---|---|
/// | `10/s; 300/min` | 0.01 % |
/// | `10/s burst 5; 1000/day` | 0.02 % |
/// | `100/min burst 20; 5000/day` | 0.02 % |
/// | `100/s; 10000/h` | 0.13 % |
/// | `100/s; 100000/day` | 0.5 % |
/// | every pair that is accepted | 1/64 (1.6 %) |
///
/// > **Limit:** the larger the burst of the slower quota, and the shorter the time between tokens of the faster one, the coarser the
/// > times. [`capacity`](KeyedBuilder::capacity) refuses a pair that would be more than 1/64 slower, such as `1000/s; 1000000/day`.
/// > The error names the burst and the largest that fits, here `burst 50532`. Two tables in a [`Gate`](crate::Gate) have no
/// > such limit.
///
/// The differences from the other types are:
///
/// - [`set_quotas`](Self::set_quotas) replaces the quotas. There are no per-key quotas.
/// - A request with a time before the last change of quotas is refused until the change.
/// - The sketch rounds up the debt of an evicted key. At rates up to 1,000,000/s, this adds less than one unit of each quota.
/// - A wait that is dropped after its grant returns its tokens, except for the time of one rounding step.
///
/// # Cost
///
/// A decision takes one hash, one clock reading, one compare-and-swap on 128 bits and usually one cache line. It takes no lock and
/// allocates nothing. A new key, or one that has not been active for some time, takes a lock while the limiter reads two cache
/// lines.
pub struct Keyed<A: KeyedAlgorithm, N: KeyNames = Hashed> {
    keys: Keys<A::Rule, N>,
    capacity: usize,
    /// An instant at which a window begins, if windows are aligned.
    begins_ns: Option<i128>,
    clock: Clock,
    queues: KeyQueues<Terms, N::Owned>,
    max_waiters_per_key: usize,
}

impl Keyed<TokenBucket> {
    /// Returns a builder of a token bucket for each key; see [`TokenBucket`].
    pub fn token_bucket(quota: Quota) -> KeyedBuilder<TokenBucket> {
        KeyedBuilder::new(quota)
    }
}

impl Keyed<LeakyBucket> {
    /// Returns a builder of a leaky bucket for each key; see [`LeakyBucket`].
    ///
    /// ```
    /// # use flowgate::{Keyed, ManualClock};
    /// # use std::time::Duration;
    /// // No host is asked twice within half a second.
    /// let hosts = Keyed::leaky_bucket("2/s".parse()?).clock(ManualClock::new()).capacity(1000)?;
    /// hosts.try_acquire("a.example")?;
    /// hosts.try_acquire("b.example")?;
    /// let denied = hosts.try_acquire("a.example").unwrap_err();
    /// assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn leaky_bucket(quota: Quota) -> KeyedBuilder<LeakyBucket> {
        KeyedBuilder::new(quota)
    }
}

impl Keyed<DualTokenBucket> {
    /// Returns a builder of two token buckets for each key; see [`DualTokenBucket`].
    ///
    /// An operation takes tokens from both buckets or from neither.
    ///
    /// ```
    /// use flowgate::{Keyed, ManualClock};
    /// use std::time::Duration;
    ///
    /// let time = ManualClock::new(); // a real program leaves the clock out
    /// let quotas = "10/s burst 5; 7/min".parse()?;
    /// let users = Keyed::dual_token_bucket(quotas).clock(&time).capacity(100_000)?;
    ///
    /// let admitted = |user: &str| (0..10).filter(|_| users.try_acquire(user).is_ok()).count();
    /// assert_eq!(admitted("alice"), 5); // the first quota's burst
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(admitted("alice"), 2); // the rest of the second
    /// assert_eq!(admitted("bob"), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dual_token_bucket(quotas: Quotas) -> KeyedBuilder<DualTokenBucket> {
        KeyedBuilder::new(quotas)
    }
}

impl Keyed<FixedWindow> {
    /// Returns a builder of a fixed window for each key; see [`FixedWindow`].
    ///
    /// The window of a key begins with the key's first operation.
    ///
    /// ```
    /// # use flowgate::{Keyed, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let trials = Keyed::fixed_window("3/h".parse()?).clock(&time).capacity(1000)?;
    /// trials.try_acquire_n("alice", 2)?;
    /// time.advance(Duration::from_secs(600));
    /// let seen = trials.snapshot("alice");
    /// assert_eq!((seen.remaining, seen.reset_after.as_secs()), (1, 3000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fixed_window(quota: Quota) -> KeyedBuilder<FixedWindow> {
        KeyedBuilder::new(quota)
    }
}

impl Keyed<SegmentedWindow> {
    /// Returns a builder of a segmented window for each key; see [`SegmentedWindow`].
    ///
    /// Each window has one segment.
    ///
    /// ```
    /// # use flowgate::{Keyed, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limits = Keyed::segmented_window("3/h".parse()?).clock(&time).capacity(1000)?;
    /// limits.try_acquire_n("alice", 3)?; // never more than 3 in any hour, whenever it begins
    /// time.advance(Duration::from_secs(3599));
    /// assert!(limits.try_acquire("alice").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn segmented_window(quota: Quota) -> KeyedBuilder<SegmentedWindow> {
        KeyedBuilder::new(quota)
    }
}

impl Keyed<Unlimited> {
    /// Returns a builder without a limit for any key; see [`Unlimited`].
    ///
    /// It is for code that takes a `Keyed<A>` and should not need to check whether there is a limit. The limiter keeps nothing
    /// about a key and takes no memory for its capacity. It admits everything. Its quota and the per-key quotas of
    /// [`with`](Keyed::with) can be read and replaced, but have no effect.
    ///
    /// ```
    /// use flowgate::{Keyed, KeyedAlgorithm, Quota};
    ///
    /// struct Tenants<A: KeyedAlgorithm>(Keyed<A>);
    ///
    /// impl<A: KeyedAlgorithm> Tenants<A> {
    ///     fn serve(&self, tenant: &str) -> bool {
    ///         self.0.try_acquire(tenant).is_ok()
    ///     }
    /// }
    ///
    /// let limited = Tenants(Keyed::token_bucket(Quota::per_hour(3)).capacity(1000)?);
    /// let off = Tenants(Keyed::unlimited().capacity(1000)?);
    /// assert_eq!((0..10).filter(|_| limited.serve("alice")).count(), 3);
    /// assert_eq!((0..10).filter(|_| off.serve("alice")).count(), 10);
    /// assert_eq!(off.0.available("alice"), u64::MAX);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    ///
    /// Where the configuration decides, [`AnyKeyed`](crate::AnyKeyed) is one type for this and all others.
    pub fn unlimited() -> KeyedBuilder<Unlimited> {
        KeyedBuilder::new(MOST)
    }
}

/// The quota that a limiter without a limit reports.
const MOST: Quota = match Quota::new(1_000_000_000, Duration::from_nanos(1)) {
    Ok(quota) => quota,
    Err(_) => Quota::per_second(1_000_000_000),
};

impl<N: KeyNames> Keyed<DualTokenBucket, N> {
    /// Returns the quotas of each key.
    pub fn quotas(&self) -> Quotas {
        self.allowed()
    }

    /// Replaces the quotas of all keys.
    ///
    /// The key keeps the number of units that it has taken of each quota. They refill at the new rate.
    ///
    /// The first quota replaces the first and the second one the second. A single quota counts as that quota twice. Each decision
    /// uses either the old or the new quotas. The change counts from now on, as that of [`set_quota`](Keyed::set_quota) does. A
    /// request with a time before the change is refused until the change.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let users = Keyed::dual_token_bucket("10/s; 100/day".parse()?).capacity(1_000)?;
    /// users.try_acquire_n("alice", 6)?;
    /// users.set_quotas("20/h; 50/day".parse()?)?;
    /// assert_eq!(users.available("bob"), 20);
    /// assert_eq!(users.quotas().to_string(), "20/h; 50/day");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if a key has no room for such a pair (see [Two quotas](Keyed#two-quotas)). Nothing is then
    /// changed.
    pub fn set_quotas(&self, quotas: Quotas) -> Result<(), KeyedError> {
        self.change_to(quotas)
    }
}

impl<A: KeyedAlgorithm<Quota = Quota>, N: KeyNames> Keyed<A, N> {
    /// Returns the same methods with a per-key quota.
    ///
    /// Use the same quota for all requests of a key, until the key's quota changes. All callers that [wait](KeyedView::acquire) for
    /// the key use the quota of the last one that joined the queue. When the quota of a key changes, the number of tokens that the
    /// key has taken is kept, rounded up by at most 1/16. Between two per-key quotas whose tokens cost the same time to within
    /// 1/16, that time is kept instead.
    ///
    /// A key changes to a per-key quota, and back, at the latest time that the limiter has decided at. Until that time, the limiter
    /// refuses every request for the key; see [Stale times](Self#stale-times).
    ///
    /// ```
    /// use flowgate::{Keyed, Quota};
    ///
    /// let limits = Keyed::token_bucket(Quota::per_minute(100)).capacity(1000)?;
    /// let gold = limits.with(Quota::per_minute(5000))?;
    /// assert_eq!(limits.available("alice"), 100);
    /// assert_eq!(gold.available("bob"), 5000);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if this type of limiter cannot keep the quota. A segmented window also refuses a quota whose window
    /// differs from the limiter's window.
    pub fn with(&self, quota: Quota) -> Result<KeyedView<'_, A, N>, KeyedError> {
        Ok(KeyedView {
            keyed: self,
            now_ns: None,
            own: Some(self.own_terms(quota)?),
        })
    }

    /// Returns the quota of keys without a per-key quota.
    pub fn quota(&self) -> Quota {
        self.allowed()
    }

    /// Returns the policy of keys without a per-key quota.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("100/min".parse()?).capacity(1000)?;
    /// assert_eq!(limits.policy().quota, limits.quota());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(&self) -> Policy {
        Policy::new(self.quota(), A::IS_STEADY)
    }

    /// Replaces the quota of all keys without a per-key quota.
    ///
    /// A key keeps the number of tokens that it has taken. They refill at the new rate.
    ///
    /// Concurrent decisions use either the old or the new quota, never a mix. The caller updates every table entry, which takes
    /// some nanoseconds for each. The change counts from now on, by the limiter's clock. If a caller has taken something at a later
    /// [explicit timestamp](Self::at), it counts from then on.
    ///
    /// ```
    /// # use flowgate::{Keyed, Quota};
    /// let limits = Keyed::token_bucket(Quota::per_hour(10)).capacity(100)?;
    /// limits.try_acquire_n("alice", 7)?;
    /// limits.set_quota(Quota::per_day(15))?;
    /// assert_eq!(limits.available("alice"), 8);
    /// assert_eq!(limits.quota(), Quota::per_day(15));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`KeyedError`] if this type of limiter cannot keep the quota. A segmented window also refuses a quota with another
    /// window. Nothing is then changed.
    pub fn set_quota(&self, quota: Quota) -> Result<(), KeyedError> {
        self.change_to(quota)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Keyed<A, N> {
    /// Returns the result that [`try_acquire`](Self::try_acquire) would return now, and takes nothing.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// // Only attempts that fail count, but who has none left may not try.
    /// let failures = Keyed::token_bucket("3/h".parse()?).capacity(1000)?;
    /// let log_in = |user: &str, is_right: bool| {
    ///     failures.peek(user)?;
    ///     if !is_right {
    ///         failures.try_acquire(user)?;
    ///     }
    ///     Ok::<_, flowgate::Denied>(is_right)
    /// };
    /// let tries = [false, false, false, true].map(|is_right| log_in("alice", is_right).is_ok());
    /// assert_eq!(tries, [true, true, true, false]);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if no token is available ([`retry_after`](Denied::retry_after)) or callers wait for the key. It does not
    /// check whether the table has an entry for a new key.
    pub fn peek(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.seen(key).peek()
    }

    /// Returns the result that [`try_acquire_n`](Self::try_acquire_n) would return now, and takes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if fewer than `n` units are available ([`retry_after`](Denied::retry_after)), callers wait for the key,
    /// or `n` is more than the quota ever allows ([`is_never`](Denied::is_never)). It does not check whether the table has an entry
    /// for a new key.
    pub fn peek_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.seen(key).peek_n(n)
    }

    /// Takes up to `n` available units of `key`, and returns their number.
    ///
    /// Returns 0 if the table has [no entry](WhenFull::Deny) for the key. If new keys [share](WhenFull::Share) a quota, it takes at
    /// most what is left of that quota.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// assert_eq!([limits.take_up_to("alice", 7), limits.take_up_to("alice", 7)], [7, 3]);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn take_up_to(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
        self.seen(key).take_up_to(n)
    }

    /// Returns up to `n` units to `key`, and reports how many.
    ///
    /// The newest units that the key has taken count as never admitted. Units that the sketch remembers cannot be returned.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// limits.try_acquire_n("alice", 7)?;
    /// assert_eq!(limits.refund("alice", 2), 2);
    /// assert_eq!(limits.available("alice"), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> u64 {
        self.seen(key).refund(n)
    }

    /// Forgets what `key` has taken, so that its limit is full again.
    ///
    /// To reset an evicted key, the table needs a vacant entry. Without one, nothing changes.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let failures = Keyed::token_bucket("3/h".parse()?).capacity(1000)?;
    /// failures.try_acquire_n("alice", 3)?;
    /// failures.reset("alice"); // she has proved who she is
    /// assert_eq!(failures.available("alice"), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self, key: &(impl AsKey<N> + ?Sized)) {
        self.seen(key).reset();
    }

    /// Returns the number of units that `key` could take now.
    ///
    /// They are available only if the table has an entry for the key.
    pub fn available(&self, key: &(impl AsKey<N> + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// Returns a consistent snapshot of `key`.
    ///
    /// It contains the limit, the remaining units and the time until the limit is full.
    ///
    /// The remaining units are available only if the table has an entry for the key.
    pub fn snapshot(&self, key: &(impl AsKey<N> + ?Sized)) -> Snapshot {
        self.seen(key).snapshot()
    }

    /// Waits for one token of `key` in the key's queue; see [`Acquire`].
    ///
    /// All waiters of a key have one queue, in which they are granted in order. Waiters of other keys do not affect it.
    ///
    /// ```
    /// use flowgate::Keyed;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let hosts = Keyed::leaky_bucket("1000/s".parse()?).capacity(1000)?;
    /// for page in ["a.example/1", "b.example/1", "a.example/2"] {
    ///     let host = page.split('/').next().unwrap_or(page);
    ///     hosts.acquire(host).within(Duration::from_secs(30)).await?;
    ///     // … fetch the page …
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(&self, key: &(impl AsKey<N> + ?Sized)) -> Acquire<KeyLimiter<'_, A, N>> {
        Acquire::new(self.key(key))
    }

    /// Returns the limiter of `key`, for code that takes any [`Limiter`](crate::Limiter).
    ///
    /// ```
    /// use flowgate::{Keyed, Limiter};
    ///
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// let alice = limits.key("alice");
    /// let limiter: &dyn Limiter = &alice;
    /// limiter.try_acquire_n(7)?;
    /// assert_eq!((limiter.available(), limits.available("alice")), (3, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(&self, key: &(impl AsKey<N> + ?Sized)) -> KeyLimiter<'_, A, N> {
        let Who { place, key } = self.keys.table.who(key);
        KeyLimiter::new(Owner::Borrowed(self), place, Cow::Owned(key.to_owned()))
    }

    /// Returns the limiter of `key`, which keeps this table alive.
    ///
    /// Use it for a [`Gate`](crate::Gate), a separate task, or a struct.
    ///
    /// ```
    /// use flowgate::{KeyLimiter, Keyed, Observed, TokenBucket};
    /// use std::sync::Arc;
    ///
    /// struct Tenant {
    ///     limiter: Observed<KeyLimiter<'static, TokenBucket>>,
    /// }
    ///
    /// let limits = Arc::new(Keyed::token_bucket("10/h".parse()?).capacity(100)?);
    /// let alice = Tenant { limiter: Observed::new(limits.key_owned("alice")) };
    /// alice.limiter.try_acquire()?;
    /// assert_eq!(alice.limiter.counts().admitted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key_owned(
        self: &Arc<Self>,
        key: &(impl AsKey<N> + ?Sized),
    ) -> KeyLimiter<'static, A, N> {
        let Who { place, key } = self.keys.table.who(key);
        KeyLimiter::new(
            Owner::Shared(Arc::clone(self)),
            place,
            Cow::Owned(key.to_owned()),
        )
    }

    /// Returns the same methods at an explicit timestamp; see [`TokenBucket::at`].
    ///
    /// A request with a later time than others may reuse the entries of keys that are full by that time. A time at which nothing is
    /// taken changes nothing, and does not delay a [change of quota](Self::set_quota).
    ///
    /// ```
    /// # use flowgate::{Keyed, Timestamp};
    /// let limits = Keyed::token_bucket("2/s burst 1".parse()?).capacity(1000)?;
    /// let admitted: Vec<_> = (0..2_000)
    ///     .filter(|&ms| limits.at(Timestamp::from_nanos(ms * 1_000_000)).try_acquire("alice").is_ok())
    ///     .collect();
    /// assert_eq!(admitted, [0, 500, 1000, 1500]);
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn at(&self, now: Timestamp) -> KeyedView<'_, A, N> {
        KeyedView {
            keyed: self,
            now_ns: Some(now.as_nanos()),
            own: None,
        }
    }

    /// Returns the number of active keys, and reads every table entry.
    ///
    /// ```
    /// # use flowgate::{Keyed, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let limits = Keyed::token_bucket("1/min".parse()?).clock(&time).capacity(1000)?;
    /// limits.try_acquire("alice")?;
    /// limits.try_acquire("bob")?;
    /// assert_eq!(limits.len(), 2);
    /// time.advance(Duration::from_secs(60));
    /// assert!(limits.is_empty()); // both are whole again, and forgotten
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.keys.len(self.clock.now().as_nanos())
    }

    /// Returns whether no key is active, and reads every table entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys that the limiter was built for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the bytes of memory that were allocated when the limiter was built.
    pub fn bytes(&self) -> usize {
        let (lines, cells) = (self.keys.table.lines(), self.keys.sketch.cells().len());
        // This much memory has been allocated, so the number fits.
        builder::bytes::<N>(lines as u128, cells as u128) as usize + size_of::<Self>()
    }

    /// Returns the number of keys that callers wait for.
    pub fn waiting_keys(&self) -> usize {
        self.queues.len()
    }

    /// Returns the number of waiters of all keys.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.waiters()
    }

    /// Returns the number of units in a token.
    pub(crate) fn token_units(&self) -> u64 {
        self.terms(None).scale
    }

    /// Returns how often the table was full, and what happened to the keys.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(100)?;
    /// (0..1000).for_each(|key| drop(limits.try_acquire(&key)));
    /// println!("{} keys made way", limits.counts().evicted); // more than a few: make it larger
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn counts(&self) -> KeyedCounts {
        self.keys.counters.counts()
    }

    /// Returns the identifier by which this limiter, and no other, knows `key`.
    pub fn id_of(&self, key: &(impl AsKey<N> + ?Sized)) -> KeyId {
        self.id_at(&self.keys.table.who(key).place)
    }

    /// Returns the clock by which this limiter decides.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns whether a decision for a known key takes no lock on this target.
    ///
    /// A key is known if it has an entry in the table.
    ///
    /// If the limiter [stores keys](KeyedBuilder::exact), a decision takes the lock of the key's entry.
    pub fn is_lock_free(&self) -> bool {
        !N::KEEPS && crate::primitive::AtomicU128::is_lock_free()
    }

    /// Returns whether the operating system accepted the advice to hold the table in huge pages.
    ///
    /// Decisions for random keys of a large table then take less time: about 30 % less with ten million keys. The table takes the
    /// same memory.
    ///
    /// The advice is given on Linux with the feature `huge-pages` (default), for tables of 4 MiB or more (about 200,000 keys). It is
    /// not an order: `AnonHugePages` in `/proc/self/smaps` says how many bytes are in huge pages. Linux takes no advice if
    /// `/sys/kernel/mm/transparent_hugepage/enabled` is `never`.
    ///
    /// ```
    /// # use flowgate::Keyed;
    /// let limits = Keyed::token_bucket("10/h".parse()?).capacity(1_000_000)?;
    /// if !limits.is_huge_page_advised() {
    ///     eprintln!("the table is in small pages");
    /// }
    /// # Ok::<(), flowgate::KeyedError>(())
    /// ```
    pub fn is_huge_page_advised(&self) -> bool {
        self.keys.table.huge_pages
    }

    /// Returns the quota of keys without a per-key quota.
    fn allowed(&self) -> A::Quota {
        *self.keys.force.quota()
    }

    /// Changes the quota of all keys; see [`set_quota`](Self::set_quota).
    fn change_to(&self, quota: A::Quota) -> Result<(), KeyedError> {
        let quota = A::quota(quota);
        let terms = self.terms_of(&quota)?;
        let open = self.queues.all();
        let lines: Vec<_> = open.iter().map(|queue| self.waited_for(queue)).collect();
        let changes = lines
            .iter()
            .map(|line| line.guest.queue().reconfigure(line));
        let changes: Vec<_> = changes.collect();
        self.keys.set_quota(quota, &terms, self.asked_latest());
        drop(changes);
        // Waiters of queues that were opened in the meantime may have used the quota before.
        let is_known = |queue: &Arc<_>| open.iter().any(|known| Arc::ptr_eq(known, queue));
        for queue in self.queues.all().iter().filter(|queue| !is_known(queue)) {
            drop(queue.queue.reconfigure(&self.waited_for(queue)));
        }
        Ok(())
    }

    /// Returns the time and terms for a change of all keys: not earlier than any decision so far.
    fn asked_latest(&self) -> Asked<'_> {
        Asked {
            now_ns: self.clock.latest().as_nanos(),
            told: Told::ByClock,
            clock: Some(&self.clock),
            own: None,
        }
    }

    /// Returns `own`, or the current terms of the table.
    fn terms(&self, own: Option<&Terms>) -> Terms {
        own.copied().unwrap_or_else(|| self.keys.force.terms())
    }

    fn own_terms(&self, quota: A::Quota) -> Result<Terms, KeyedError> {
        let terms = self.terms_of(&A::quota(quota))?;
        let terms = A::Rule::widened(terms, &self.keys.force.terms());
        self.keys.allow(&terms);
        let reading = Reading::own(A::Rule::class(&terms));
        Ok(Terms { reading, ..terms })
    }

    fn terms_of(&self, quota: &A::Quota) -> Result<Terms, QuotaError> {
        let terms = aligned(A::Rule::terms(quota)?, self.begins_ns)?;
        A::Rule::goes_with(&terms, &self.keys.force.terms())?;
        Ok(terms)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> fmt::Debug for Keyed<A, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyed<{}>", A::NAME)?;
        f.debug_struct("")
            .field("quota", &self.allowed())
            .field("capacity", &self.capacity)
            .field("bytes", &self.bytes())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

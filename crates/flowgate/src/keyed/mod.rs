//! [`Keyed`]: a limit for each key, in memory that does not grow.

mod algorithm;
mod builder;
mod concurrency;
mod counts;
mod current;
mod decide;
mod entry;
mod error;
mod export;
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
use crate::queue::{Acquire, WaitQueue};
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

/// **Each key has a limit of its own**: per user, address, host or tenant, in memory of a fixed size, whatever the keys.
///
/// A key is anything that is [`Hash`]. It is neither kept nor copied: it is hashed with a secret, and 16 bytes are kept of what it
/// has taken, for as long as that matters. A key that could take everything is treated like one that was never seen, so
/// its slot is used again; nothing has to be swept, and there is no thread and no pause.
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
/// # What it promises
///
/// - **Each key as by itself** (contract C7): its limit keeps the promise of the [`TokenBucket`], [`LeakyBucket`],
///   [`DualTokenBucket`], [`FixedWindow`] or [`SegmentedWindow`] that it is one of; what a key does changes nothing for another. But for
///   collisions: two keys share a limit if their hashes agree in one of the same lines and in 38 bits. The
///   chance that a new key meets one of those that matter is below 3 · 10⁻¹¹; that this befalls any of a million keys,
///   below 3 · 10⁻⁵. Nobody can bring it about who does not know the [seed](KeyedBuilder::seed). Where even that is too
///   much, keys can be [kept and compared](KeyedBuilder::exact), for more memory.
/// - **Memory** is taken when it is made ([`bytes`](Self::bytes)), and after that only for keys that somebody waits
///   for. What happens when there are more keys than [`capacity`](KeyedBuilder::capacity) is [said](WhenFull): by
///   default nobody gets anything by it. That there is room for as many keys as that is not beyond doubt, as a
///   key has only eight slots: once there are as many, fourteen keys in a thousand have none, and where as many come
///   and go all the time, one new key in fourteen finds none vacant (fewer where new keys are denied or share, as there are
///   more slots to spare). The sketch takes those, and none is refused in vain; that begins at one and a half times as
///   many. [`WhenFull`] says how often it happens.
/// - **Never over, never wasted, honest waits** (C1 to C3): as its kind does. Of what a token costs, time is kept to
///   1/4096 ns, and rounded up: a rate below a million a second is kept to a quarter of a millionth, always
///   toward refusing. (This is the exception to C8 that the 16 bytes are bought with.) [Two quotas](#two-quotas) share these bits
///   and are rounded further.
/// - **Any clock** (C4): a stale time never adds credit. See [Stale times](#stale-times) for when that refuses more than it has
///   to.
///
/// # Quotas
///
/// All keys have the limiter's quota, unless it is asked [`with`](Self::with) another. When a key comes with another quota, or
/// [`set_quota`](Self::set_quota) changes it for all, what a key has taken stays taken, in tokens, and it is paid
/// back at the new rate.
///
/// # Stale times
///
/// A decision may be dated before others that the limiter has made: threads read a clock in another order than they decide, a
/// clock is set back, or a caller brings a [time](Self::at) of its own. For buckets, tokens that flow in between are then not there
/// yet. The limiter counts them at the rate that was in force:
///
/// - Before the last change of the limiter's quota, at the rate before that change.
/// - Before the change before that one, the rate is not known. Every request is refused until then.
/// - A key comes into another quota of its own, or back into the limiter's, at the latest time that the limiter has decided at. Every
///   request for it is refused until then. So is every request before that time for about one other key in 256.
/// - A key whose slot has been used again is not known to be full before the latest instant at which any such key became full. If it
///   asks by a quota of its own, every request is refused until then. So is every request by the limiter's quota before the latest
///   such instant of a key with its own.
///
/// In a window, a request with an earlier time counts in the newest window of its key.
///
/// # Evicted keys
///
/// The sketch rounds what it remembers, toward refusing. The instant at which a bucket is full is rounded up to a multiple of 8.2 µs,
/// and the end of a window to one of 16.4 µs. The number of units in a window is exact up to 511. A larger one is rounded up by 1/256
/// at the most. For up to 16.4 µs after a new aligned window has begun, a key is refused that was evicted in the window before.
///
/// A bucket's debt is remembered together with what a unit costs, so it is the same number of units by the limiter's quota and by the
/// key's own. Where keys with and without quotas of their own share both cells of a key, that key may be refused by more.
///
/// # Kinds
///
/// | | made by | burst |
/// |---|---|---|
/// | `Keyed<TokenBucket>` | [`Keyed::token_bucket`] | as in the quota, or its count |
/// | `Keyed<LeakyBucket>` | [`Keyed::leaky_bucket`] | as in the quota, or 1 |
/// | `Keyed<DualTokenBucket>` | [`Keyed::dual_token_bucket`] | as in each quota, or its count |
/// | `Keyed<FixedWindow>` | [`Keyed::fixed_window`] | none; a window begins with a key's first operation, or is [aligned](KeyedBuilder::align) |
/// | `Keyed<SegmentedWindow>` | [`Keyed::segmented_window`] | none; one segment, so that up to a window too long is refused |
/// | `Keyed<Unlimited>` | [`Keyed::unlimited`] | everything is admitted |
///
/// The end of a fixed window is rounded up to a multiple of (limit + 1) / 4096 ns, or of the next power of two above that; after a
/// larger limit, by up to 1/4096 of the window. The end of a segmented window is exact, and so is that of an aligned one, except by a
/// quota of a key's own.
///
/// # Two quotas
///
/// [`Keyed::dual_token_bucket`] keeps two token buckets for each key, in the same 16 bytes. A request takes from both or from
/// neither, in one compare-and-swap. [`Denied::limit`] of a refusal is the quota that takes longer: 0 for the first, 1 for the
/// second. Evicted keys, exports, refunds and waiting are as for the other kinds.
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
/// What is different from the other kinds:
///
/// - The quotas are replaced by [`set_quotas`](Self::set_quotas). There are no quotas of a key's own.
/// - A request with a time before the last change of quotas is refused until the change.
/// - The sketch rounds what an evicted key owes up, by less than one unit of each quota at rates up to a million a second.
/// - A wait that is dropped after its grant gives back all but the time of one rounding step.
///
/// # Cost
///
/// One hash, mostly one line of memory, one clock reading and one compare-and-swap on 128 bits; no lock and no
/// allocation. A key that is new, or has not mattered for a while, takes a lock for as long as it takes to look
/// at two lines.
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
    /// A token bucket for each key; see [`TokenBucket`].
    pub fn token_bucket(quota: Quota) -> KeyedBuilder<TokenBucket> {
        KeyedBuilder::new(quota)
    }
}

impl Keyed<LeakyBucket> {
    /// A leaky bucket for each key; see [`LeakyBucket`].
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
    /// Two token buckets for each key, of which an operation takes from both or from neither; see [`DualTokenBucket`].
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
    /// A fixed window for each key, which begins with its first operation; see [`FixedWindow`].
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
    /// A segmented window of one segment for each key; see [`SegmentedWindow`].
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
    /// No limit for any key: for code that takes a `Keyed<A>` and should not have to ask whether there is one; see
    /// [`Unlimited`].
    ///
    /// It keeps nothing of a key, and takes no memory for its capacity. Its quota, and that of a key
    /// ([`with`](Keyed::with)), can be read and replaced like every other, and changes nothing: everything is admitted.
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

/// What a limiter says that has no limit.
const MOST: Quota = match Quota::new(1_000_000_000, Duration::from_nanos(1)) {
    Ok(quota) => quota,
    Err(_) => Quota::per_second(1_000_000_000),
};

impl<N: KeyNames> Keyed<DualTokenBucket, N> {
    /// Returns the quotas of each key.
    pub fn quotas(&self) -> Quotas {
        self.allowed()
    }

    /// Replaces the quotas, for all keys. What a key has taken of each quota stays taken, in units, and is paid back at the new
    /// rate.
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
    /// The same verbs by another quota: a key's own.
    ///
    /// Ask about a key always with the quota that is its own at the time. Those who [wait](KeyedView::acquire) for it do so
    /// by the one with which the last of them came. When it changes, what the key has taken stays
    /// taken: in tokens, rounded up by a sixteenth at the most; or, between two quotas of its own of which a token costs the same but
    /// for a sixteenth, in time.
    ///
    /// A key comes into a quota of its own, and back, at the latest time that the limiter has decided at. Until that time, every
    /// request for it is refused; see [Stale times](Self#stale-times).
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
    /// [`KeyedError`] if this kind of limiter cannot keep the quota, or, for a segmented window, if the window is another than
    /// the limiter's.
    pub fn with(&self, quota: Quota) -> Result<KeyedView<'_, A, N>, KeyedError> {
        Ok(KeyedView {
            keyed: self,
            now_ns: None,
            own: Some(self.own_terms(quota)?),
        })
    }

    /// The quota of keys that have none of their own.
    pub fn quota(&self) -> Quota {
        self.allowed()
    }

    /// What is allowed to keys that have no quota of their own.
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

    /// Puts another quota in force for all keys that have none of their own. What a key has taken stays taken; what it
    /// owes by that, it pays at the new rate.
    ///
    /// Decisions go on meanwhile, each wholly by the old quota or wholly by the new one; the caller walks through all slots,
    /// which takes some nanoseconds for each. It counts from now on, by the limiter's clock, or from the latest time that
    /// a caller has [brought](Self::at) and taken something at, if that is later.
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
    /// As [`with`](Self::with); nothing is then changed.
    pub fn set_quota(&self, quota: Quota) -> Result<(), KeyedError> {
        self.change_to(quota)
    }
}

impl<A: KeyedAlgorithm, N: KeyNames> Keyed<A, N> {
    /// What [`try_acquire`](Self::try_acquire) would answer now. Takes nothing.
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
    /// As there, but for want of room.
    pub fn peek(&self, key: &(impl AsKey<N> + ?Sized)) -> Result<(), Denied> {
        self.seen(key).peek()
    }

    /// What [`try_acquire_n`](Self::try_acquire_n) would answer now. Takes nothing.
    ///
    /// # Errors
    ///
    /// As there, but for want of room.
    pub fn peek_n(&self, key: &(impl AsKey<N> + ?Sized), n: u64) -> Result<(), Denied> {
        self.seen(key).peek_n(n)
    }

    /// Takes what there is of `key`, up to `n` units, and says how much that was: nothing if there is
    /// [no room](WhenFull::Deny) for it; where new keys [share](WhenFull::Share), no more than is left of what they share.
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

    /// Gives `n` units back to `key`, and says how many it was: the newest that it has taken count as never admitted. What
    /// has gone into the sketch cannot come back.
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

    /// Forgets what `key` has taken: it can take everything at once. Of a key that has made way for another, as long as
    /// there is a vacant slot to remember that in.
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

    /// How many units `key` could take now, if there is room for it.
    pub fn available(&self, key: &(impl AsKey<N> + ?Sized)) -> u64 {
        self.snapshot(key).remaining
    }

    /// `key`'s limit, what remains of it if there is room for it, and when it is whole again, seen at one instant.
    pub fn snapshot(&self, key: &(impl AsKey<N> + ?Sized)) -> Snapshot {
        self.seen(key).snapshot()
    }

    /// Waits for one token of `key`, in turn; see [`Acquire`].
    ///
    /// Those who wait for the same key stand in a queue, as they would at one limiter; other keys have nothing to do with it.
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

    /// Returns the limiter of `key`, which keeps this table alive: for a [`Gate`](crate::Gate), a task of its own, or a struct.
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

    /// The same verbs at a time of your own; see [`TokenBucket::at`].
    ///
    /// A request with a time later than others use may reuse the slots of keys that are full by then. A time at which nothing
    /// is taken changes nothing: it does not delay a [change of quota](Self::set_quota) either.
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

    /// How many keys have taken something that still matters. Looks at every slot.
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

    /// Whether no key has taken anything that still matters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For how many keys it was made.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory that was taken when it was made.
    pub fn bytes(&self) -> usize {
        let (lines, cells) = (self.keys.table.lines(), self.keys.sketch.cells().len());
        // It has been taken, so it can be told.
        builder::bytes::<N>(lines as u128, cells as u128) as usize + size_of::<Self>()
    }

    /// For how many keys somebody waits.
    pub fn waiting_keys(&self) -> usize {
        self.queues.len()
    }

    /// How many wait, for whichever key.
    pub(crate) fn waiting(&self) -> usize {
        let queues = self.queues.all();
        let waiting = queues.iter().map(|queue| {
            let key = self.waited_for(queue);
            WaitQueue::new(&key).len()
        });
        waiting.sum()
    }

    /// How many units a token is.
    pub(crate) fn token_units(&self) -> u64 {
        self.terms(None).scale
    }

    /// What has been done for want of room.
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

    /// By what this limiter, and no other, knows `key`.
    pub fn id_of(&self, key: &(impl AsKey<N> + ?Sized)) -> KeyId {
        self.id_at(&self.keys.table.who(key).place)
    }

    /// The clock that this limiter decides by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether a decision on a key that is known takes no lock on this target. Where keys are [kept](KeyedBuilder::exact) it
    /// takes that of its slot.
    pub fn is_lock_free(&self) -> bool {
        !N::KEEPS && crate::primitive::AtomicU128::is_lock_free()
    }

    /// The quota of keys that have none of their own.
    fn allowed(&self) -> A::Quota {
        *self.keys.force.quota()
    }

    /// [`set_quota`](Self::set_quota).
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
        // Those of lines that have been opened meanwhile may have asked by the quota before.
        let is_known = |queue: &Arc<_>| open.iter().any(|known| Arc::ptr_eq(known, queue));
        for queue in self.queues.all().iter().filter(|queue| !is_known(queue)) {
            drop(queue.queue.reconfigure(&self.waited_for(queue)));
        }
        Ok(())
    }

    /// For a change of all keys: not at an earlier time than somebody has decided by.
    fn asked_latest(&self) -> Asked<'_> {
        Asked {
            now_ns: self.clock.latest().as_nanos(),
            told: Told::ByClock,
            clock: Some(&self.clock),
            own: None,
        }
    }

    /// `own`, or those in force.
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

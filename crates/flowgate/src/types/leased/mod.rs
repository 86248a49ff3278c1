//! [`Leased`]: [two leases](leases), of which the one that is being spent is [one word](word), and a [filler](filler).

mod engine;
mod filler;
mod leases;
#[cfg(all(test, flowgate_loom))]
mod model;
mod word;

use crate::limiter::RateLimiter;
use crate::limiter::builder::Builder;
#[cfg(feature = "std")]
use crate::quota::QuotaError;
pub use filler::{Filler, LeaseHeld, LeaseUse};
pub use leases::Leases;

/// A limiter whose tokens come from elsewhere, in leases.
///
/// A lease is a number of tokens that were debited in advance, and a time at which they end. Use the limiter for one part of a limit that several processes share. An *authority*, such as a database, keeps the limit. It grants
/// each process a few tokens in advance. The process then decides by itself, without asking for each operation.
///
/// ```text
///  units
///     k ┤╮        ╭───╮ the next lease
///       │╰╮       ┊   ╰╮
///  low  ┤┄╰╮┄┄┄┄┄┄┊┄┄┄┄╰╮┄┄┄┄┄┄┄  the filler is woken, and asks for more
///       │  ╰──╮   ┊     │
///     0 ┤     ╰───╯     ╰───────  the lease ends: what was left is lost
///       └─────────────────────────▶ time
/// ```
///
/// The limiter does no I/O. A task of the program uses its [`filler`](Self::filler), which the authority's answers go through.
/// Everything else is as with other rate limiters: [`acquire`](Self::acquire) waits, and a [`Gate`](crate::Gate) or
/// [`Observed`](crate::Observed) can contain it.
///
/// ```
/// use flowgate::{Leased, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new(); // a real program leaves the clock out: Leased::new(100)?
/// let limiter = Leased::builder(100).clock(&time).build()?;
/// let sent = time.now();
/// // … the authority has debited 20 tokens:
/// limiter.filler().grant(20, sent + Duration::from_millis(50));
///
/// limiter.try_acquire_n(15)?;
/// assert_eq!(limiter.available(), 5);
/// time.advance(Duration::from_millis(50));
/// assert_eq!(limiter.available(), 0); // the lease has ended
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// [The guide](crate::guide::guarantees) defines C1 to C9.
///
/// - **Never over-admits** (C1). Of each lease, the limiter admits at most its units, and none at or after its end. Refunded
///   units count as never admitted. The authority bounds the sum of all leases.
/// - **Refuses what is not there** (C2). A refusal means that the two leases hold too few units. The authority may have more.
/// - **Retry-after of the authority** (C3). After [`deny_until`](Filler::deny_until),
///   [`Denied::retry_after`](crate::Denied::retry_after) is the time until then. The retry then asks the authority, so it may be
///   late by one answer. While the authority is asked, `retry_after` is 1 ms.
/// - **Safe under clock anomalies** (C4). A decision uses the time that it has read, or a later one. A lease that one decision
///   found ended stays ended, even if the clock runs backward.
/// - **Sound refunds** (C5). [`refund`](RateLimiter::refund) returns at most what was taken from the current lease, before its
///   end. Nothing goes back to the authority.
///
/// # Refusals
///
/// | state | refusal | `retry_after` |
/// |---|---|---|
/// | the authority has refused until a time | over the limit | until then |
/// | the authority is asked, or will be | over the limit | 1 ms |
/// | the filler is [cut off](Filler::cut_off) | [`Denied::is_outage`](crate::Denied::is_outage) | none |
///
/// A wait with a timeout shorter than that is refused immediately.
///
/// # Limit
///
/// The limit is the largest request that the limiter admits, 1 to 4,194,303 units. It is usually the burst of the shared limit.
/// A larger request is refused with [`Denied::is_never`](crate::Denied::is_never). A request can take the rest of one lease and
/// a part of the next.
///
/// # Cost
///
/// A decision is one clock reading and one compare-and-swap on 64 bits. It takes no lock and allocates nothing. A decision that
/// finds too few units in the first lease, while there is a second, takes a lock. A refusal counts its units, for the filler.
///
/// A snapshot does not know when the authority will have all its tokens. So
/// [`reset_after`](crate::Snapshot::reset_after) is [`Duration::MAX`](core::time::Duration::MAX) unless the limiter holds `limit`
/// units.
///
/// # Example: a filler
///
/// This authority is a token bucket in the same process. A real one is asked over the network.
///
/// ```
/// use flowgate::{Leased, TokenBucket};
/// use std::time::Duration;
///
/// let authority = TokenBucket::new("1000/s burst 50".parse()?);
/// let limiter = Leased::new(50)?;
/// let ask = || {
///     let now = limiter.clock().now();
///     match authority.at(now).take_up_to(20) {
///         0 => limiter.filler().deny_until(now + Duration::from_millis(1)),
///         units => drop(limiter.filler().grant(units, now + Duration::from_millis(100))),
///     }
/// };
/// let try_twice = || {
///     limiter.try_acquire().or_else(|_| {
///         ask();
///         limiter.try_acquire()
///     })
/// };
/// assert!((0..100).filter(|_| try_twice().is_ok()).count() >= 50);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type Leased = RateLimiter<Leases>;

/// Settings of a [`Leased`] limiter: only the clock.
///
/// ```
/// use flowgate::{Leased, ManualClock};
///
/// let limiter = Leased::builder(1_000).clock(ManualClock::new()).build()?;
/// assert_eq!(limiter.snapshot().limit, 1_000);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
pub type LeasedBuilder = Builder<Leases>;

impl Leased {
    /// Creates a limiter without tokens on [`Clock::system`](crate::Clock::system).
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `limit` is not 1 to 4,194,303.
    ///
    /// ```
    /// # use flowgate::Leased;
    /// let error = Leased::new(5_000_000).unwrap_err();
    /// assert_eq!(error.to_string(), "a limit of 5000000 is out of range: 1 to 4194303");
    /// ```
    #[cfg(feature = "std")]
    pub fn new(limit: u64) -> Result<Self, QuotaError> {
        Self::builder(limit).build()
    }

    /// Returns a builder, for another clock.
    pub const fn builder(limit: u64) -> LeasedBuilder {
        Builder::new(limit)
    }

    /// Returns the side through which tokens are supplied.
    pub const fn filler(&self) -> Filler<'_> {
        Filler::new(self)
    }
}

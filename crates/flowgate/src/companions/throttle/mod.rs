//! [`Throttle`]: from what a backend accepts to how much is sent to it.
//!
//! # What is counted
//!
//! The window counts the requests whose outcome became known in it: accepted by the backend, refused by the backend, or refused
//! here. Two decisions follow from that:
//!
//! - **Requests that are refused here count.** If they did not, the share would be computed from the requests that were sent
//!   alone. The backend would then receive the geometric mean of the demand and of what it should receive: more, the worse the
//!   overload.
//! - **A request in flight does not count yet.** If it counted when it began, a throttle would refuse requests to a healthy
//!   backend whenever the demand grows faster than responses come back. The price: a hang is detected when the first requests
//!   time out.
//!
//! # Why the last tenth of the window counts twice
//!
//! A short window reacts quickly, and a long one needs few requests. A window alone recovers slowly: the accepted requests
//! have to outweigh the outage that is still in it. So the larger of the two shares applies, that of the window and that of its last
//! tenth. In a steady overload they are the same, and the backend receives no more. After an outage, the last tenth soon
//! contains nothing of it.
//!
//! # How the share is applied
//!
//! The share is judged once per bucket of time, from the counts alone. It is applied by error diffusion and not by dice: the
//! shares of all requests are added up, and a request is sent when the sum passes a whole number. So the number of requests
//! that are sent is exact to one, the requests are evenly spread, and a test sees the same decisions each time.
//!
//! # Cost
//!
//! A decision takes a reading of the clock and a load, and below the whole share an addition. An outcome takes a reading of the
//! clock and a compare-and-swap. Once per bucket, the first thread sums up the window. There is no lock and no allocation.
//!
//! # Other implementations
//!
//! The rule is that of *Site Reliability Engineering* (Beyer, Jones, Petoff and Murphy, 2016, chapter 21), with a window of
//! two minutes, dice, and no probes. Envoy's admission control and failsafe-go count only what is sent.

mod builder;
#[cfg(all(test, flowgate_loom))]
mod model;
mod permit;
mod record;
mod share;

pub use builder::ThrottleBuilder;
pub use permit::ThrottlePermit;

use crate::clock::Clock;
use crate::verdict::Denied;
use core::fmt;
use core::time::Duration;
use record::Record;
use share::{Rules, WHOLE};

/// Client-side throttle: refuses locally what an **overloaded backend** would refuse.
///
/// Use one for each backend. While the backend accepts requests, the throttle sends all of them. When the backend refuses more
/// than a part of them, the throttle sends only a multiple of what the backend accepts, and refuses the rest without sending it.
///
/// ```text
///  demand    ▁▁▁▁▁██████████████████████▁▁▁▁▁     ten times the backend's capacity C
///  sent      ▁▁▁▁▁█▅▃▃▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▂▁▁▁▁▁     falls to K·C within a window
///  accepted  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁     C
/// ```
///
/// ```
/// use flowgate::{ManualClock, Throttle};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let throttle = Throttle::builder().clock(&time).build()?;
///
/// // A backend is down: 100 requests per second, all refused.
/// let mut sent = 0;
/// for _ in 0..2_000 {
///     time.advance(Duration::from_millis(10));
///     if let Ok(permit) = throttle.try_begin() {
///         sent += 1;
///         permit.overloaded();
///     }
/// }
/// // All of the first 400 ms, and after that every 20th.
/// assert_eq!(sent, 137);
///
/// // It is back. 7 s later, everything is sent again.
/// for _ in 0..700 {
///     time.advance(Duration::from_millis(10));
///     if let Ok(permit) = throttle.try_begin() {
///         permit.accepted();
///     }
/// }
/// assert_eq!(throttle.share_permille(), 1000);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Guarantees
///
/// The window is *W* long and has buckets of length *b*. In it, the outcomes of *R* requests became known, and the backend
/// accepted *A* of these. *R* includes the requests that the throttle refused. The last tenth of the window is *w* long, rounded up
/// to buckets. *K* is the [multiplier](ThrottleBuilder::multiplier_permille), and *q* the
/// [share of probes](ThrottleBuilder::probe_permille).
///
/// - **No needless refusals.** Everything is sent while *R* ≤ *K* · *A*, or while *R* is less than
///   [`min_requests`](ThrottleBuilder::min_requests). A backend that refuses at most the share 1 − 1/*K* of the requests is
///   therefore not throttled.
/// - **The share.** Otherwise the share max(*q*, *K* · *A* / *R*) is sent, by the counts of the window or of its last tenth,
///   whichever is more. A tenth with fewer than `min_requests` does not count. Of the requests of one bucket, on whatever threads,
///   exactly this share is sent, rounded down or up.
/// - **What the backend receives.** Let the demand be *D* per second, and let the backend accept at most *C* · *w* requests in any
///   interval of length *w*. After one window, it receives at most max(*K* · *C*, *q* · *D*) per second, and one request more per
///   bucket. At ten times the capacity, that is max(*K*, 10 · *q*) · *C*: twice the capacity with the default settings.
/// - **When the demand jumps.** A demand that jumps from at most *C* to *D* = *m* · *C*, with *m* ≥ *K*, finds a window of
///   accepted requests. In the first window, the backend then receives at most
///   *C* · *W* · (*K* − 1 + *K* · ln(*m*/*K*)) / (1 − 1/*m*) + 2 · *D* · *b* requests, or `min_requests` if that is more.
/// - **In an outage**, once the window is over, the backend receives *q* · *D* per second.
/// - **Recovery.** Let a backend accept everything after an outage. Within each *w*, the share then grows by the factor *K* or
///   more. So all requests are sent again after at most *w* · (1 + ⌈ln(1/*q*) / ln *K*⌉) + 2*b*. With the default settings, that is
///   less than a window. With fewer than `min_requests` per *w*, it is *W* that counts in place of *w*. Responses that take
///   longer than a bucket delay each step by as much.
/// - **Bounded state.** On one thread, the decisions depend only on the outcomes and on the time. The memory is fixed. At most
///   2³² − 1 outcomes per bucket are counted. While the clock shows an earlier time than before, no time passes.
///
/// > **Limit:** a request in flight counts neither as accepted nor as refused. If a backend hangs, the throttle sees that when
/// > the first requests time out. A [`ConcurrencyLimit`](crate::ConcurrencyLimit) bounds the requests until then.
///
/// # What counts as overload
///
/// Record as [overloaded](ThrottlePermit::overloaded) what means "too many requests": HTTP 429 and 503, gRPC's
/// `RESOURCE_EXHAUSTED` and `UNAVAILABLE`, timeouts, and connections that fail. Everything else is
/// [accepted](ThrottlePermit::accepted), errors such as 404 and 500 included.
///
/// # Choosing the settings
///
/// - *Multiplier*: 2 costs the backend as many refusals as responses, and finds free capacity quickly. Closer to 1, the backend is
///   spared, and the recovery takes longer. Below 1 / (1 − the usual share of refusals), healthy backends are throttled.
/// - *Window*: long enough for several times `min_requests`.
/// - *Probes*: with *n* clients, the backend receives the share *q* of their sum, however many there are.
///
/// # Performance
///
/// A decision takes a reading of the clock and a load, and an addition while requests are refused. No memory is allocated after
/// the build. No operation takes a lock if the throttle [is lock-free](Self::is_lock_free).
pub struct Throttle {
    record: Record,
    rules: Rules,
    clock: Clock,
}

/// Outcomes in the window of a [`Throttle`]; see [`Throttle::counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ThrottleCounts {
    /// Number of requests whose outcome is known, including the requests that the throttle refused.
    pub requests: u64,
    /// Number of these that the backend accepted.
    pub accepted: u64,
}

impl Throttle {
    /// Returns a builder with the default settings.
    pub const fn builder() -> ThrottleBuilder {
        ThrottleBuilder::new()
    }

    /// Begins a request, whose outcome is recorded through the returned [`ThrottlePermit`].
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the request should not be sent ([`is_throttled`](Denied::is_throttled)).
    /// [`retry_after`](Denied::retry_after) is the time until the share can rise: the rest of the bucket.
    #[inline]
    pub fn try_begin(&self) -> Result<ThrottlePermit<'_>, Denied> {
        let now_ns = self.clock.now().as_nanos();
        let standing = self.record.look(&self.rules, now_ns);
        if self.record.is_next_sent(standing.share) {
            return Ok(ThrottlePermit::new(self));
        }
        self.record.count(standing.judged, false);
        let next = (standing.judged + 1).saturating_mul(self.rules.bucket_ns);
        Err(Denied::throttled(next.saturating_sub(now_ns)))
    }

    /// Records the outcome of a request whose permit was dropped.
    ///
    /// Use it where the permit cannot be kept until the outcome is known, such as in a future that must be `'static`. For each
    /// request, record one outcome at most.
    ///
    /// ```
    /// use flowgate::Throttle;
    /// use std::sync::Arc;
    ///
    /// let throttle = Arc::new(Throttle::default());
    /// drop(throttle.try_begin()?);
    /// let on_response = {
    ///     let throttle = Arc::clone(&throttle);
    ///     move |status: u16| throttle.record(!matches!(status, 429 | 503))
    /// };
    /// on_response(200);
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    #[inline]
    pub fn record(&self, is_accepted: bool) {
        let now_ns = self.clock.now().as_nanos();
        let bucket = self.record.look(&self.rules, now_ns).judged;
        self.record.count(bucket, is_accepted);
    }

    /// Returns the share of the requests that is sent now, in per mille, rounded down.
    pub fn share_permille(&self) -> u32 {
        let now_ns = self.clock.now().as_nanos();
        let share = self.record.look(&self.rules, now_ns).share;
        permille(share)
    }

    /// Returns the counts by which the share was last judged.
    pub fn counts(&self) -> ThrottleCounts {
        let now_ns = self.clock.now().as_nanos();
        let judged = self.record.look(&self.rules, now_ns).judged;
        let [requests, accepted] = self.record.counts(self.rules.window, judged);
        ThrottleCounts { requests, accepted }
    }

    /// Returns the length of a bucket, rounded up to whole nanoseconds.
    ///
    /// This is the window divided by the number of buckets.
    pub fn bucket(&self) -> Duration {
        Duration::from_nanos(self.rules.bucket_ns)
    }

    /// Returns the memory that the throttle takes, in bytes, including its ring.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.record.outcomes.bytes()
    }

    /// Returns the clock that measures the window.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns whether decisions and outcomes take no lock on this machine.
    ///
    /// The result is `false` if the processor has no 128-bit compare-and-swap. Outcomes are then counted as exactly, under a
    /// lock.
    pub fn is_lock_free(&self) -> bool {
        crate::primitive::AtomicU128::is_lock_free()
    }
}

fn permille(share: u64) -> u32 {
    (share * 1000 / WHOLE) as u32
}

/// A throttle with the default settings. See [`ThrottleBuilder`].
impl Default for Throttle {
    fn default() -> Self {
        match Self::builder().build() {
            Ok(throttle) => throttle,
            Err(_) => unreachable!("the default settings are within their ranges"),
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The share as last judged. Reading the clock here would judge by it.
        f.debug_struct("Throttle")
            .field("share_permille", &permille(self.record.standing().share))
            .field("bucket", &self.bucket())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

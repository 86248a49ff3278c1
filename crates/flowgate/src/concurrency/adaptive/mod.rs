//! Limits that an algorithm sets: [`AdaptiveLimit`], made of a [`ConcurrencyLimit`], the samples and the windower.
//!
//! ```text
//!  permit ──▶ samples: one word ──▶ windower ──▶ algorithm ──▶ the limit of the permits
//! ```
//!
//! `docs/internals/adaptive.md` tells how a sample flows, and why so.

mod algorithm;
mod bounds;
mod builder;
mod fine_limit;
mod inspect;
#[cfg(all(test, flowgate_loom))]
mod model;
mod permit;
mod rest;
mod sampler;
mod samples;
#[cfg(all(test, not(any(flowgate_loom, flowgate_shuttle))))]
mod tests;
mod window;
mod windower;

pub use algorithm::aimd::Aimd;
pub use algorithm::bdp::Bdp;
pub use algorithm::gradient::{Gradient, GradientBuilder};
pub use algorithm::vegas::Vegas;
pub use algorithm::{Adapt, AdaptReport};
pub use builder::AdaptiveLimitBuilder;
pub use fine_limit::FineLimit;
pub use inspect::AdaptiveView;
pub use permit::{AdaptivePermit, AdaptivePermits, CallOutcome, OwnedAdaptivePermit};
pub use window::AdaptWindow;

use crate::clock::Clock;
use crate::concurrency::limit::ConcurrencyLimit;
use crate::limiter::Snapshot;
use crate::primitive::{AtomicU64, Lock, LockGuard, Ordering};
use crate::queue::{Acquire, WaitQueue};
use crate::quota::QuotaError;
use crate::verdict::Denied;
use alloc::sync::Arc;
use bounds::Bounds;
use core::fmt;
use permit::{Call, Learns};
use rest::Rest;
use sampler::Sampler;
use samples::Samples;
use windower::{Pace, Windower};

/// The end of a window that is being closed.
const CLOSING: u64 = u64::MAX;

/// A concurrency limit whose number an algorithm sets, from the latencies and outcomes of calls.
///
/// A fixed limit is wrong with the next deployment: too low wastes the machines, too high overloads them. An adaptive limit measures the
/// calls, and looks for the number at which the service works fully and has a short queue.
///
/// | algorithm | learns from | use it for |
/// |---|---|---|
/// | [`Gradient`](crate::Gradient) | latencies, overloads | servers, and the only client of a service |
/// | [`Aimd`](crate::Aimd) | overloads | clients that share a service |
/// | [`Bdp`](crate::Bdp) | latencies, rates, overloads | servers with a steady load |
/// | [`Vegas`](crate::Vegas) | latencies, overloads | comparisons |
///
/// On a server, use `Gradient::default()`. It needs no outcome except [`Success`](CallOutcome::Success), and its limit does not
/// drift upward under an overload that lasts. On a client that shares the service with others, use `Aimd::default()`, and finish
/// refusals and timeouts with [`Overload`](CallOutcome::Overload). `Aimd` is also for servers with about four workers, whose
/// latencies are too noisy for `Gradient`.
///
/// ```
/// use flowgate::{AdaptiveLimit, Gradient, CallOutcome};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # async fn call() -> Result<u32, ()> { Ok(7) }
/// let limit = AdaptiveLimit::new(Gradient::default());
/// let permit = limit.acquire().within(Duration::from_millis(50)).await?;
/// let response = call().await;
/// permit.finish(match response {
///     Ok(_) => CallOutcome::Success,
///     Err(_) => CallOutcome::Overload,
/// });
/// # Ok::<_, flowgate::Denied>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - The permits in use are at most the limit, as with [`ConcurrencyLimit`]. After a cut, no call is admitted until enough permits have
///   been returned. Waiters are served in order.
/// - The limit stays within its [bounds](AdaptiveLimitBuilder::bounds).
/// - It does not grow while less than half of it is used.
/// - It holds still without samples: no traffic, only ignored calls, latencies of zero, or latencies above one hour.
/// - One congestion cuts it once. Overloads of calls that began before a cut do not cause another.
///
/// # Windows
///
/// The algorithm is asked at the end of each window. A window lasts 50 ms, or twice the mean latency if that is longer, and goes on until
/// it has 100 outcomes. Short windows are merged, and never discarded.
///
/// # An algorithm that is chosen at run time
///
/// A shared limit converts into one of any algorithm. It is the same limit, with the same state:
///
/// ```
/// use flowgate::{Adapt, AdaptiveLimit, Aimd, Gradient};
/// use std::sync::Arc;
///
/// fn limit(is_shared: bool) -> Arc<AdaptiveLimit<dyn Adapt>> {
///     match is_shared {
///         true => Arc::new(AdaptiveLimit::new(Aimd::default())),
///         false => Arc::new(AdaptiveLimit::new(Gradient::default())),
///     }
/// }
///
/// let permit = limit(true).try_acquire_owned()?;
/// # drop(permit);
/// # Ok::<(), flowgate::Denied>(())
/// ```
///
/// # Limits below one
///
/// Under a limit of 1/k, one call is in flight for a k-th of the time. After each call, the limit rests for k − 1 times the latency of
/// the call, and for 5 s at the most. The smallest limit is one permit by default; [bounds](AdaptiveLimitBuilder::bounds) allow less.
///
/// # Cancel safety
///
/// As with [`ConcurrencyLimit`]: a wait that is dropped leaves the queue, and its permit goes to the next waiter.
///
/// # Performance
///
/// A permit costs that of a [`ConcurrencyLimit`], two clock readings, and one compare-and-swap. Fast services are sampled: at high rates,
/// one call in 2 to 256 is measured, and the others cost one random number. The call that closes a window takes a lock.
pub struct AdaptiveLimit<A: ?Sized> {
    permits: Arc<ConcurrencyLimit>,
    sampler: Sampler,
    samples: Samples,
    /// The largest number of permits in use that a measured call met in this window.
    max_in_flight: AtomicU64,
    /// When the window may end, or [`CLOSING`].
    ends_ns: AtomicU64,
    /// A window with fewer outcomes goes on.
    min_outcomes: AtomicU64,
    /// How often the limit has been cut.
    epoch: AtomicU64,
    /// How many calls have ended with an overload.
    overloads: AtomicU64,
    /// How long permits rest after a call, in 65,536ths of it. 0: not at all.
    rest_parts: AtomicU64,
    rest: Rest,
    pace: Pace,
    /// Taken by the call that closes a window, by `set_bounds` and by `inspect`, and not while waiters are woken. Its limit is the one
    /// that `permits` and `rest_parts` get. The last field, so that the algorithm may be a `dyn Adapt`.
    windower: Lock<Windower<A>>,
}

impl<A: Adapt> AdaptiveLimit<A> {
    /// Creates a limit of 1 to 1,000 permits that `algorithm` sets. It uses [`Clock::system`].
    #[cfg(feature = "std")]
    #[must_use]
    pub fn new(algorithm: A) -> Self {
        match Self::builder(algorithm).build() {
            Ok(limit) => limit,
            Err(_) => unreachable!("the default settings are within their ranges"),
        }
    }

    /// Creates a builder, for settings other than the default ones.
    pub fn builder(algorithm: A) -> AdaptiveLimitBuilder<A> {
        AdaptiveLimitBuilder::new(algorithm)
    }

    fn with(algorithm: A, bounds: Bounds, pace: Pace, clock: Clock) -> Self {
        let now_ns = clock.now().as_nanos();
        let windower = Windower::new(algorithm, bounds, pace, now_ns);
        let limit = windower.limit;
        Self {
            permits: Arc::new(ConcurrencyLimit::with_clock(limit.permits(), clock)),
            sampler: Sampler::new(),
            samples: Samples::new(),
            max_in_flight: AtomicU64::new(0),
            ends_ns: AtomicU64::new(now_ns.saturating_add(pace.shortest_ns)),
            min_outcomes: AtomicU64::new(windower.min_outcomes()),
            epoch: AtomicU64::new(0),
            overloads: AtomicU64::new(0),
            rest_parts: AtomicU64::new(limit.rest_parts()),
            rest: Rest::new(),
            pace,
            windower: Lock::new(windower),
        }
    }
}

impl<A: Adapt + ?Sized> AdaptiveLimit<A> {
    /// Acquires one permit, or returns why not.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`]. The reason is one of these:
    ///
    /// - [`is_busy`](Denied::is_busy): no permit is free, or other callers wait for it.
    /// - [`is_closed`](Denied::is_closed): [`WaitQueue::close`] has been called.
    #[inline]
    pub fn try_acquire(&self) -> Result<AdaptivePermit<&Self>, Denied> {
        self.try_acquire_n(1)
    }

    /// Acquires `n` permits for one call, all or none.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], as [`try_acquire`](Self::try_acquire) does, and also if `n` is above the limit
    /// ([`is_never`](Denied::is_never)).
    #[inline]
    pub fn try_acquire_n(&self, n: u64) -> Result<AdaptivePermit<&Self>, Denied> {
        self.permits.take(n)?;
        Ok(AdaptivePermit::new(self, self.begin(n)))
    }

    /// Acquires one permit that keeps the limit alive, or returns why not.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], as [`try_acquire`](Self::try_acquire) does: if no permit is free or other callers wait
    /// ([`is_busy`](Denied::is_busy)), or if the limit is closed ([`is_closed`](Denied::is_closed)).
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<OwnedAdaptivePermit<A>, Denied> {
        self.try_acquire_n_owned(1)
    }

    /// Acquires `n` permits for one call that keep the limit alive, all or none.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`], as [`try_acquire_n`](Self::try_acquire_n) does: [`is_busy`](Denied::is_busy),
    /// [`is_closed`](Denied::is_closed) or [`is_never`](Denied::is_never).
    #[inline]
    pub fn try_acquire_n_owned(self: &Arc<Self>, n: u64) -> Result<OwnedAdaptivePermit<A>, Denied> {
        self.permits.take(n)?;
        Ok(AdaptivePermit::new(Arc::clone(self), self.begin(n)))
    }

    /// Waits in the queue for one permit. The wait is not a part of the latency.
    ///
    /// # Errors
    ///
    /// When awaited, it returns [`Denied`]. The reason is one of these:
    ///
    /// - [`is_busy`](Denied::is_busy): no permit was free by the deadline.
    /// - [`is_never`](Denied::is_never): more permits are asked for than the limit.
    /// - [`is_queue_full`](Denied::is_queue_full): the [queue](Self::queue) is full.
    /// - [`is_shed`](Denied::is_shed): the queue sheds waiters under overload ([`WaitQueue::set_codel`]).
    /// - [`is_closed`](Denied::is_closed): the queue is closed.
    /// - [`is_cancelled`](Denied::is_cancelled): a [`CancelHandle`](crate::CancelHandle) ended the wait.
    pub fn acquire(&self) -> Acquire<AdaptivePermits<&Self>> {
        Acquire::new(AdaptivePermits(self))
    }

    /// Waits in the queue for a permit that keeps the limit alive.
    ///
    /// # Errors
    ///
    /// When awaited, it returns [`Denied`], as [`acquire`](Self::acquire) does.
    pub fn acquire_owned(self: &Arc<Self>) -> Acquire<AdaptivePermits<Arc<Self>>> {
        Acquire::new(AdaptivePermits(Arc::clone(self)))
    }

    /// Returns the current limit.
    pub fn limit(&self) -> FineLimit {
        self.windower.lock().limit
    }

    /// Returns the number of permits in use.
    pub fn in_flight(&self) -> u64 {
        self.permits.in_flight()
    }

    /// Returns the number of permits that could be acquired now.
    pub fn available(&self) -> u64 {
        self.permits.available()
    }

    /// Returns the limit and what remains of it, as a consistent snapshot in whole permits.
    ///
    /// It takes no lock. `reset_after` is as in [`ConcurrencyLimit::snapshot`].
    ///
    /// ```
    /// use flowgate::{AdaptiveLimit, Gradient};
    ///
    /// let limit = AdaptiveLimit::new(Gradient::default());
    /// let permit = limit.try_acquire()?;
    /// let seen = limit.snapshot();
    /// assert_eq!((seen.limit, seen.remaining), (20, 19));
    /// # drop(permit);
    /// # Ok::<(), flowgate::Denied>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.permits.snapshot()
    }

    /// Returns the smallest and the largest limit.
    pub fn bounds(&self) -> (FineLimit, FineLimit) {
        let bounds = self.windower.lock().bounds;
        (bounds.min, bounds.max)
    }

    /// Replaces the smallest and the largest limit immediately.
    ///
    /// ```
    /// use flowgate::{AdaptiveLimit, FineLimit, Gradient};
    ///
    /// let limit = AdaptiveLimit::new(Gradient::default());
    /// limit.set_bounds(FineLimit::whole(30), FineLimit::whole(60))?;
    /// assert_eq!(limit.limit(), FineLimit::whole(30));
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `min` is above `max`. Nothing changes then.
    pub fn set_bounds(&self, min: FineLimit, max: FineLimit) -> Result<(), QuotaError> {
        let bounds = Bounds::new(min, max)?;
        let mut windower = self.windower.lock();
        windower.bounds = bounds;
        let before = windower.limit;
        windower.limit = bounds.clamp(before);
        self.apply(windower, before);
        Ok(())
    }

    /// Returns what there is to see of the limit.
    pub fn inspect(&self) -> AdaptiveView {
        let windower = self.windower.lock();
        AdaptiveView {
            limit: windower.limit,
            min: windower.bounds.min,
            max: windower.bounds.max,
            in_flight: self.permits.in_flight(),
            waiting: self.permits.queue().len(),
            overloads: self.overloads.load(Ordering::Relaxed),
            windows: windower.windows,
            last_window: windower.last,
            report: windower.algorithm.report(),
        }
    }

    /// Returns the queue: its length, its order and bounds, and [`close`](WaitQueue::close).
    pub fn queue(&self) -> WaitQueue<'_> {
        self.permits.queue()
    }

    /// Returns the clock that latencies and deadlines use.
    pub fn clock(&self) -> &Clock {
        self.permits.clock()
    }

    fn permits(&self) -> &ConcurrencyLimit {
        &self.permits
    }

    #[cfg(all(test, flowgate_loom))]
    fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Notes that a call with `n` permits begins.
    #[inline(always)]
    fn begin(&self, n: u64) -> Call {
        let began_ns = self.sampler.is_measured().then(|| {
            let in_use = self.permits.in_flight();
            if in_use > self.max_in_flight.load(Ordering::Relaxed) {
                self.max_in_flight.fetch_max(in_use, Ordering::Relaxed);
            }
            self.clock().now().as_nanos()
        });
        Call {
            n,
            began_ns,
            epoch: self.epoch.load(Ordering::Relaxed),
        }
    }

    /// Gives the permits of a call back, now or after a rest.
    fn give_back(&self, call: Call, now_ns: Option<u64>) {
        let rest_parts = self.rest_parts.load(Ordering::Relaxed);
        if rest_parts == 0 {
            self.permits.give_back(call.n);
            return;
        }
        let now_ns = now_ns.unwrap_or_else(|| self.clock().now().as_nanos());
        let took_ns = now_ns.saturating_sub(call.began_ns.unwrap_or(now_ns));
        let rest_ns =
            u128::from(took_ns) * u128::from(rest_parts) / u128::from(FineLimit::ONE.parts());
        let rest_ns = u64::try_from(rest_ns).unwrap_or(u64::MAX);
        self.rest
            .begin(&self.permits, self.clock(), call.n, rest_ns);
    }

    /// Closes the window if it is over. Of several callers, one does.
    fn close_if_over(&self, now_ns: u64) {
        let ends_ns = self.ends_ns.load(Ordering::Relaxed);
        if now_ns < ends_ns || ends_ns == CLOSING {
            return;
        }
        let needed = self.min_outcomes.load(Ordering::Relaxed);
        let has_enough = self.samples.seen().outcomes() >= needed;
        if !has_enough && self.pace.has_merging {
            return;
        }
        // The lock orders everything else.
        let is_mine =
            self.ends_ns
                .compare_exchange(ends_ns, CLOSING, Ordering::Relaxed, Ordering::Relaxed);
        if is_mine.is_ok() {
            self.close(now_ns, has_enough);
        }
    }

    #[cold]
    #[inline(never)]
    fn close(&self, now_ns: u64, has_enough: bool) {
        let mut windower = self.windower.lock();
        let mut reopens = Reopens {
            ends_ns: &self.ends_ns,
            next_ns: now_ns.saturating_add(self.pace.shortest_ns),
        };
        let counted = self.samples.take();
        let max_in_flight = self.max_in_flight.swap(0, Ordering::Relaxed);
        if !has_enough {
            windower.began_ns = now_ns;
            return;
        }
        let before = windower.limit;
        reopens.next_ns = windower.close(now_ns, counted, max_in_flight, self.sampler.stride());
        self.min_outcomes
            .store(windower.min_outcomes(), Ordering::Relaxed);
        self.sampler.adapt(counted.successes);
        drop(reopens);
        self.apply(windower, before);
    }

    /// Sets the limit of the permits to that of the windower, which was `before`.
    fn apply(&self, windower: LockGuard<'_, Windower<A>>, before: FineLimit) {
        let mut limit = windower.limit;
        if limit == before {
            return;
        }
        if limit < before && self.pace.has_epochs {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        drop(windower);
        // Without the lock, as this wakes waiters. Of several callers, the last one finds the last limit.
        loop {
            self.rest_parts.store(limit.rest_parts(), Ordering::Relaxed);
            // A fine limit is within the range of limits.
            let _ = self.permits.set_limit(limit.permits());
            let current = self.limit();
            if current == limit {
                return;
            }
            limit = current;
        }
    }
}

/// Opens the next window, also if the algorithm panics.
struct Reopens<'a> {
    ends_ns: &'a AtomicU64,
    next_ns: u64,
}

impl Drop for Reopens<'_> {
    fn drop(&mut self) {
        self.ends_ns
            .store(self.next_ns.min(CLOSING - 1), Ordering::Relaxed);
    }
}

impl<A: Adapt + ?Sized> Learns for AdaptiveLimit<A> {
    #[inline]
    fn end(&self, call: Call, outcome: CallOutcome) {
        if call.n == 0 {
            return;
        }
        let now_ns = match (outcome, call.began_ns) {
            (CallOutcome::Success, Some(began_ns)) => {
                let now_ns = self.clock().now().as_nanos();
                if let Some(latency_ns) = now_ns.checked_sub(began_ns) {
                    self.samples.add_success(latency_ns);
                }
                Some(now_ns)
            }
            (CallOutcome::Overload, _) => {
                self.overloads.fetch_add(1, Ordering::Relaxed);
                if call.epoch == self.epoch.load(Ordering::Relaxed) {
                    self.samples.add_overload();
                }
                Some(self.clock().now().as_nanos())
            }
            (CallOutcome::Success | CallOutcome::Ignore, _) => None,
        };
        self.give_back(call, now_ns);
        if let Some(now_ns) = now_ns {
            self.close_if_over(now_ns);
        }
    }
}

impl<A: ?Sized> fmt::Debug for AdaptiveLimit<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveLimit")
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

//! The share of all traces that meets a target rate, learned from the number of traces that come.
//!
//! Time is cut into windows of at least a half-life. A window ends with the first arrival after that.
//!
//! | field | read by | written by | ordering |
//! |---|---|---|---|
//! | `share` | every arrival | the thread that ends a window; lowered by an arrival beyond `too_many` | relaxed: only its own value matters |
//! | `seen` | the thread that ends a window | every arrival adds one | relaxed, likewise |
//! | `too_many` | every arrival | the thread that ends a window, and an arrival that reaches it | relaxed, likewise |
//! | `ends_ns` | every arrival | the thread that ends a window | relaxed, likewise |
//! | `estimate` | the thread that ends a window or changes the target | the thread that ends a window | itself; no sampling thread waits for it |
//! | `target_per_ns` | the thread that ends a window, and an arrival beyond `too_many` | the thread that changes the target | relaxed: only its own value matters |
//!
//! Arrivals that come while a window is ended may be counted in either window. Their number is at most the
//! number of threads.

use flowgate::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// All traces.
pub(super) const WHOLE: u64 = 1 << 63;

/// This number of arrivals in a window, or fewer, is never a sign of a higher load.
const A_FEW: f64 = 16.0;

/// See the module.
pub(super) struct Adaptive {
    /// As the bits of an `f64`.
    target_per_ns: AtomicU64,
    half_life_ns: u64,
    /// Of [`WHOLE`].
    share: AtomicU64,
    /// Arrivals in this window.
    seen: AtomicU64,
    /// Twice the expected number of arrivals in this window.
    too_many: AtomicU64,
    /// 0: no window has begun.
    ends_ns: AtomicU64,
    estimate: Mutex<Estimate>,
}

/// Arrivals, and the time that they took. Both count half after a half-life.
struct Estimate {
    began_ns: u64,
    arrivals: f64,
    time_ns: f64,
}

impl Adaptive {
    pub(super) fn new(target_per_second: f64, half_life: Duration) -> Self {
        Self {
            target_per_ns: AtomicU64::new(per_ns(target_per_second)),
            // An hour at the most.
            half_life_ns: half_life.as_nanos() as u64,
            share: AtomicU64::new(WHOLE),
            seen: AtomicU64::new(0),
            too_many: AtomicU64::new(A_FEW as u64),
            ends_ns: AtomicU64::new(0),
            estimate: Mutex::new(Estimate {
                began_ns: 0,
                arrivals: 0.0,
                time_ns: 0.0,
            }),
        }
    }

    /// The share, of [`WHOLE`].
    pub(super) fn share(&self) -> u64 {
        self.share.load(Ordering::Relaxed)
    }

    /// Counts an arrival, and returns the share of traces to sample.
    pub(super) fn arrival(&self, now: Timestamp) -> u64 {
        let now_ns = now.as_nanos();
        if now_ns >= self.ends_ns.load(Ordering::Relaxed) {
            self.end_window(now_ns);
        }
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if seen >= self.too_many.load(Ordering::Relaxed) {
            self.lower(seen);
        }
        self.share()
    }

    /// Learns from the window that has ended, and begins another.
    fn end_window(&self, now_ns: u64) {
        // A thread that holds the lock is doing just this. A panic in between is impossible, and would leave complete
        // numbers.
        let Ok(mut estimate) = self.estimate.try_lock() else {
            return;
        };
        let ends_ns = self.ends_ns.load(Ordering::Relaxed);
        if now_ns < ends_ns {
            return;
        }
        let seen = self.seen.swap(0, Ordering::Relaxed) as f64;
        if ends_ns != 0 {
            let took_ns = now_ns.saturating_sub(estimate.began_ns) as f64;
            let kept = (-took_ns / self.half_life_ns as f64).exp2();
            estimate.arrivals = estimate.arrivals * kept + seen;
            estimate.time_ns = estimate.time_ns * kept + took_ns;
            let wanted = self.target_per_ns() * estimate.time_ns;
            self.share
                .store(share_of(wanted, estimate.arrivals), Ordering::Relaxed);
        }
        let too_many = self.too_many_after(&estimate);
        self.too_many.store(too_many as u64, Ordering::Relaxed);
        estimate.began_ns = now_ns;
        let ends_ns = now_ns.saturating_add(self.half_life_ns);
        self.ends_ns.store(ends_ns, Ordering::Relaxed);
    }

    /// Lowers the share because `seen` arrivals have come in this window already: the load is at least that, even if no
    /// more come.
    fn lower(&self, seen: u64) {
        let too_many = seen.saturating_mul(2);
        self.too_many.fetch_max(too_many, Ordering::Relaxed);
        self.share
            .fetch_min(self.share_of_window(seen as f64), Ordering::Relaxed);
    }

    /// Changes the target rate, and keeps the estimate.
    pub(super) fn set_target(&self, per_second: f64) {
        let estimate = self.estimate.lock();
        let estimate = estimate.unwrap_or_else(PoisonError::into_inner);
        self.target_per_ns
            .store(per_ns(per_second), Ordering::Relaxed);
        let wanted = self.target_per_ns() * estimate.time_ns;
        let mut share = share_of(wanted, estimate.arrivals);
        let seen = self.seen.load(Ordering::Relaxed) as f64;
        if seen >= self.too_many_after(&estimate) {
            share = share.min(self.share_of_window(seen));
        }
        self.share.store(share, Ordering::Relaxed);
    }

    fn target_per_ns(&self) -> f64 {
        f64::from_bits(self.target_per_ns.load(Ordering::Relaxed))
    }

    /// Twice the expected number of arrivals in a window.
    fn too_many_after(&self, estimate: &Estimate) -> f64 {
        let expected = match estimate.time_ns {
            0.0 => 0.0,
            time_ns => estimate.arrivals / time_ns * self.half_life_ns as f64,
        };
        2.0 * expected + A_FEW
    }

    /// The share for a window with `seen` arrivals.
    fn share_of_window(&self, seen: f64) -> u64 {
        let wanted = self.target_per_ns() * self.half_life_ns as f64;
        share_of(wanted, seen)
    }
}

/// As the bits of an `f64`.
fn per_ns(per_second: f64) -> u64 {
    (per_second / 1e9).to_bits()
}

/// `wanted` / `come`, of [`WHOLE`], rounded down; all of it if more are wanted than come.
fn share_of(wanted: f64, come: f64) -> u64 {
    if wanted >= come {
        WHOLE
    } else {
        // Less than 1, so less than `WHOLE`.
        (wanted / come * WHOLE as f64) as u64
    }
}

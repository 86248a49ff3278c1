//! [`PriorityShedder`]: which requests go first when there are too many.
//!
//! ```text
//!  try_admit(level) ──▶ a histogram of levels ──▶ judge: once per window ──▶ threshold: one word ──▶ admit or shed
//!  note_excess() ─────▶ the share in excess ────┘
//! ```
//!
//! The feedback is that of DAGOR: a threshold in the levels moves by a histogram of recent requests (Zhou et al., *Overload Control for
//! Scaling WeChat Microservices*, SoCC 2018). failsafe-go moves it to a quantile. Here, the quantile has a fraction, which is applied
//! to the level that it cuts by error diffusion. So a few levels suffice, and the same requests always get the same decisions.
//!
//! A decision takes a reading of the clock, a load and two additions. The call that ends a window takes a lock, which only
//! [`PriorityShedder::share_permille`] takes, too.

mod builder;
mod judge;
#[cfg(all(test, flowgate_loom))]
mod model;

pub use builder::PriorityShedderBuilder;

use crate::clock::Clock;
use crate::primitive::{AtomicU64, Lock, Ordering};
#[cfg(feature = "std")]
use crate::quota::QuotaError;
use crate::verdict::Denied;
use alloc::boxed::Box;
use core::fmt;
use judge::{Judge, Threshold, WHOLE};

/// The end of a window that is being closed.
const CLOSING: u64 = u64::MAX;
/// After how many windows with too few requests everything is admitted again.
const QUIET_WINDOWS: u64 = 10;

/// Load shedder by priority: under overload, the **least important** requests are refused first.
///
/// It stands in front of a limit, such as an [`AdaptiveLimit`](crate::AdaptiveLimit) with a queue. Report each request that the limit did
/// not admit immediately. While too many of the admitted requests wait or are refused, the shedder refuses the lowest levels, and a part
/// of the level in between.
///
/// ```text
///  level 2 (20 %)   ████████████████████     admitted
///  level 1 (30 %)   ██████████████████░░     the threshold cuts here
///  level 0 (50 %)   ░░░░░░░░░░░░░░░░░░░░     shed
/// ```
///
/// ```
/// use flowgate::{ManualClock, PriorityShedder};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let shedder = PriorityShedder::builder(2).clock(&time).build()?;
///
/// // 100 requests of each level per second, and a limit that has room for a hundred.
/// let mut admitted = [0, 0];
/// for _ in 0..2_000 {
///     time.advance(Duration::from_millis(10));
///     for level in [0, 1] {
///         if shedder.try_admit(level).is_ok() {
///             admitted[level as usize] += 1;
///             if shedder.share_permille() > 550 {
///                 shedder.note_excess(); // it has to wait
///             }
///         }
///     }
/// }
/// assert_eq!(admitted[1], 2_000); // every important one
/// assert!(admitted[0] < 500);
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
///
/// # Levels
///
/// Levels are numbers from 0, the least important. Higher numbers than the highest level count as the highest. Two to five levels are
/// usual: for example 0 for crawlers and batches, 1 for prefetching, 2 for users, 3 for payments.
///
/// # Guarantees
///
/// - **The order.** A request is never shed by a threshold that admits a request of a lower level.
/// - **The highest level is never shed.** The limit behind the shedder can still refuse it. To reserve permits for it, give the other
///   levels a smaller [`ConcurrencyLimit`](crate::ConcurrencyLimit) of their own in front of the limit.
/// - **The share.** Of the level that the threshold cuts, exactly the share of the threshold is shed, rounded down or up.
/// - **Bounded steps.** The admitted share of all requests changes once per window: down by at most a quarter, and up by at most a
///   quarter of the [target](PriorityShedderBuilder::target_permille). It holds while the excess is between three quarters of the target
///   and the target.
/// - **Recovery.** Without excess, the share grows by that factor in each window. If few requests come, everything is admitted
///   after ten windows.
/// - **Bounded state.** On one thread, the decisions depend only on the levels, on the reports and on the time. The memory is fixed.
///
/// A client must not choose its level. Take it from the route, from the customer's plan, or from a field that your own proxy sets.
///
/// # Performance
///
/// A decision takes a reading of the clock and two or three additions, without a lock. The call that ends a window takes one.
pub struct PriorityShedder {
    /// A [`Threshold`].
    threshold: AtomicU64,
    /// The sum of the shed shares, for error diffusion.
    spread: AtomicU64,
    /// In the current window, by level.
    arrived: Box<[AtomicU64]>,
    admitted: AtomicU64,
    excess: AtomicU64,
    /// When the window may end, or [`CLOSING`].
    ends_ns: AtomicU64,
    window_ns: u64,
    min_requests: u64,
    closing: Lock<Closing>,
    clock: Clock,
}

/// What only the call that closes a window changes.
struct Closing {
    judge: Judge,
    began_ns: u64,
}

/// The settings, each within its range.
struct Settings {
    levels: u64,
    window_ns: u64,
    min_requests: u64,
    target: u64,
}

impl PriorityShedder {
    /// Creates a shedder for the levels 0 to `levels` − 1. It uses [`Clock::system`].
    ///
    /// # Errors
    ///
    /// Returns [`QuotaError`] if `levels` is not within 2 to 1024.
    #[cfg(feature = "std")]
    pub fn new(levels: u32) -> Result<Self, QuotaError> {
        Self::builder(levels).build()
    }

    /// Returns a builder with the default settings.
    pub const fn builder(levels: u32) -> PriorityShedderBuilder {
        PriorityShedderBuilder::new(levels)
    }

    fn with(settings: Settings, clock: Clock) -> Self {
        let began_ns = clock.now().as_nanos();
        let judge = Judge {
            target: settings.target,
            share: WHOLE,
            recent: (0..settings.levels).map(|_| 0).collect(),
        };
        Self {
            threshold: AtomicU64::new(Threshold::ALL.pack()),
            spread: AtomicU64::new(0),
            arrived: (0..settings.levels).map(|_| AtomicU64::new(0)).collect(),
            admitted: AtomicU64::new(0),
            excess: AtomicU64::new(0),
            ends_ns: AtomicU64::new(began_ns.saturating_add(settings.window_ns).min(CLOSING - 1)),
            window_ns: settings.window_ns,
            min_requests: settings.min_requests,
            closing: Lock::new(Closing { judge, began_ns }),
            clock,
        }
    }

    /// Admits a request of `level`, or sheds it.
    ///
    /// # Errors
    ///
    /// Returns [`Denied`] if the request is shed ([`is_low_priority`](Denied::is_low_priority)). [`retry_after`](Denied::retry_after) is the time until
    /// the threshold can change: the rest of the window.
    pub fn try_admit(&self, level: u32) -> Result<(), Denied> {
        let now_ns = self.clock.now().as_nanos();
        let ends_ns = self.ends_ns.load(Ordering::Relaxed);
        if now_ns >= ends_ns {
            self.close(ends_ns, now_ns);
        }
        let level = level.min(self.levels() - 1);
        self.arrived[level as usize].fetch_add(1, Ordering::Relaxed);
        let threshold = Threshold::unpack(self.threshold.load(Ordering::Relaxed));
        if level < threshold.level || level == threshold.level && self.is_next_shed(threshold.shed)
        {
            let ends_ns = self.ends_ns.load(Ordering::Relaxed);
            let most = self.window_ns;
            return Err(Denied::low_priority(
                ends_ns.saturating_sub(now_ns).min(most),
            ));
        }
        self.admitted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Notes that the limit did not admit a request immediately: it waits, or is refused.
    ///
    /// Call it at most once for each request that [`try_admit`](Self::try_admit) admitted.
    pub fn note_excess(&self) {
        self.excess.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> u32 {
        // At most 1024.
        self.arrived.len() as u32
    }

    /// Returns the lowest level of which any request is admitted.
    pub fn lowest_admitted(&self) -> u32 {
        Threshold::unpack(self.threshold.load(Ordering::Relaxed)).level
    }

    /// Returns the share of the requests that is admitted now, in per mille, rounded down.
    pub fn share_permille(&self) -> u32 {
        let share = self.closing.lock().judge.share;
        // At most 1000.
        (share * 1000 / WHOLE) as u32
    }

    /// Whether the next request of a level is shed of which this share is.
    fn is_next_shed(&self, shed: u32) -> bool {
        if shed == 0 {
            return false;
        }
        // Relaxed: each request has its own place in the sum, and nothing else depends on it.
        let before = self.spread.fetch_add(shed.into(), Ordering::Relaxed);
        before >> 32 != before.wrapping_add(shed.into()) >> 32
    }

    /// Closes the window that ends at `ends_ns`. Of several callers, one does.
    #[cold]
    #[inline(never)]
    fn close(&self, ends_ns: u64, now_ns: u64) {
        // The lock orders everything else.
        let is_mine = ends_ns != CLOSING
            && self
                .ends_ns
                .compare_exchange(ends_ns, CLOSING, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_mine {
            return;
        }
        let mut closing = self.closing.lock();
        let arrived = || {
            self.arrived
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
        };
        let has_enough = arrived().sum::<u64>() >= self.min_requests;
        let lasted_ns = now_ns.saturating_sub(closing.began_ns);
        if has_enough {
            for (recent, count) in closing.judge.recent.iter_mut().zip(&self.arrived) {
                *recent = *recent / 2 + count.swap(0, Ordering::Relaxed);
            }
            let admitted = self.admitted.swap(0, Ordering::Relaxed);
            let excess = self.excess.swap(0, Ordering::Relaxed);
            let threshold = closing.judge.judge(admitted, excess);
            self.threshold.store(threshold.pack(), Ordering::Relaxed);
            closing.began_ns = now_ns;
        } else if lasted_ns / self.window_ns >= QUIET_WINDOWS {
            closing.judge.share = WHOLE;
            self.threshold
                .store(Threshold::ALL.pack(), Ordering::Relaxed);
            closing.began_ns = now_ns;
        }
        let next_ns = now_ns.saturating_add(self.window_ns);
        self.ends_ns
            .store(next_ns.min(CLOSING - 1), Ordering::Relaxed);
    }
}

impl fmt::Debug for PriorityShedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threshold = Threshold::unpack(self.threshold.load(Ordering::Relaxed));
        f.debug_struct("PriorityShedder")
            .field("levels", &self.levels())
            .field("threshold", &threshold)
            .finish_non_exhaustive()
    }
}

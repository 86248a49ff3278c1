use super::Timestamp;
use crate::clock::user_code::survive;
use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;
use core::task::Waker;

/// Source of time for [`Clock::custom`](crate::Clock::custom), such as a simulator.
///
/// Other examples are a hardware timer and a recorded trace.
///
/// - A source should not run backward. If it does, limiters refuse more than necessary, and never admit more.
/// - A source must not call a limiter that uses it: when a limiter changes its quota or returns units, it reads its clock under
///   a lock.
/// - A source should not panic. With the feature `std`, the panic ends at the clock. The panic hook reports it, and the clock
///   returns the latest time that it has returned before. So no permit and no token is lost, and every queue goes on. If
///   [`wake_at`](Self::wake_at) panics, it counts as `false`. Without `std`, the panic reaches the caller, and the caller's
///   operation may be half done.
///
/// ```
/// use flowgate::{Clock, Source};
///
/// struct Uptime;
/// impl Source for Uptime {
///     fn now_ns(&self) -> u64 {
///         42_000 // read your timer here
///     }
/// }
/// assert_eq!(Clock::custom(Uptime).now().as_nanos(), 42_000);
/// ```
pub trait Source: Send + Sync {
    /// Returns nanoseconds since an origin of your choice.
    fn now_ns(&self) -> u64;

    /// Wakes `waker` when this source shows `at` or later, and returns `true`.
    ///
    /// The default implementation returns `false`.
    ///
    /// - After `false`, the waiter sleeps in real time for the rest of the wait, reads the source again, and so on. This is
    ///   right for a source that keeps step with real time. The waiter is late if the source runs faster, and reads it
    ///   repeatedly if the source is slower or stands still. Without the feature `std` the waiter cannot sleep, and reads every
    ///   source repeatedly.
    /// - After `true`, the waiter relies on the source. If the source shows `at` already, it wakes the waiter immediately.
    ///
    /// It does no harm to wake a waiter too early, twice, or after it has given up: it reads the clock, and asks again if
    /// necessary.
    ///
    /// The source stores a clone of `waker`. [`Waker::will_wake`] detects clones of equal wakers. Hold no lock while you wake
    /// it, because it may call this source.
    ///
    /// ```
    /// use flowgate::{Clock, Source, Timestamp};
    /// use std::sync::{Arc, Mutex};
    /// use std::task::Waker;
    ///
    /// /// A simulation: its time, and who waits for which.
    /// #[derive(Clone, Default)]
    /// struct Simulated(Arc<Mutex<(u64, Vec<(u64, Waker)>)>>);
    ///
    /// impl Simulated {
    ///     fn run_until(&self, now_ns: u64) {
    ///         let due = {
    ///             let (time_ns, waiting) = &mut *self.0.lock().unwrap();
    ///             *time_ns = now_ns;
    ///             waiting.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).collect::<Vec<_>>()
    ///         };
    ///         due.into_iter().for_each(|(_, waker)| waker.wake());
    ///     }
    /// }
    ///
    /// impl Source for Simulated {
    ///     fn now_ns(&self) -> u64 {
    ///         self.0.lock().unwrap().0
    ///     }
    ///
    ///     fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
    ///         let is_due = {
    ///             let (time_ns, waiting) = &mut *self.0.lock().unwrap();
    ///             if at.as_nanos() > *time_ns {
    ///                 waiting.push((at.as_nanos(), waker.clone()));
    ///             }
    ///             at.as_nanos() <= *time_ns
    ///         };
    ///         if is_due {
    ///             waker.wake_by_ref();
    ///         }
    ///         true
    ///     }
    /// }
    ///
    /// let simulated = Simulated::default();
    /// let clock = Clock::custom(simulated.clone());
    /// simulated.run_until(1_000);
    /// assert_eq!(clock.now(), Timestamp::from_nanos(1_000));
    /// ```
    fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        let _ = (at, waker);
        false
    }

    /// Returns the time that this source shows at `instant`; `None` by default.
    ///
    /// For an instant before its origin, the source returns the origin. This serves deadlines that are given as an
    /// [`Instant`](std::time::Instant) ([`Deadline`](crate::Deadline)).
    ///
    /// ```
    /// use flowgate::{Clock, Source, Timestamp};
    /// use std::time::{Duration, Instant};
    ///
    /// /// Real time, since the beginning of a recording.
    /// struct Recording(Instant);
    ///
    /// impl Source for Recording {
    ///     fn now_ns(&self) -> u64 {
    ///         self.0.elapsed().as_nanos() as u64
    ///     }
    ///
    ///     fn timestamp_of(&self, instant: Instant) -> Option<Timestamp> {
    ///         Some(Timestamp::ORIGIN + instant.saturating_duration_since(self.0))
    ///     }
    /// }
    ///
    /// let began = Instant::now();
    /// let clock = Clock::custom(Recording(began));
    /// let second = Timestamp::from_nanos(1_000_000_000);
    /// assert_eq!(clock.timestamp_of(began + Duration::from_secs(1)), Some(second));
    /// ```
    #[cfg(feature = "std")]
    fn timestamp_of(&self, instant: std::time::Instant) -> Option<Timestamp> {
        let _ = instant;
        None
    }
}

pub(super) struct Custom {
    source: Box<dyn Source>,
    /// The latest time that `source` has returned.
    latest_ns: AtomicU64,
}

impl Custom {
    pub(super) fn new(source: impl Source + 'static) -> Self {
        Self {
            source: Box::new(source),
            latest_ns: AtomicU64::new(0),
        }
    }

    /// If the source panics, returns the latest time that was returned before: an old time admits nothing extra.
    pub(super) fn now(&self) -> Timestamp {
        let now_ns = match survive(|| self.source.now_ns()) {
            Some(now_ns) => now_ns,
            None => self.latest_ns.load(Ordering::Acquire),
        };
        self.latest_ns.fetch_max(now_ns, Ordering::AcqRel);
        Timestamp::from_nanos(now_ns)
    }

    /// Returns whether the source will wake `waker` at `at`.
    pub(super) fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        survive(|| self.source.wake_at(at, waker)).unwrap_or(false)
    }

    /// Returns the time that the source shows at `instant`; `None` if that panics.
    #[cfg(feature = "std")]
    pub(super) fn timestamp_of(&self, instant: std::time::Instant) -> Option<Timestamp> {
        survive(|| self.source.timestamp_of(instant)).flatten()
    }

    pub(super) fn latest(&self) -> Timestamp {
        self.now();
        Timestamp::from_nanos(self.latest_ns.load(Ordering::Acquire))
    }
}

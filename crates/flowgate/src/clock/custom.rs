use super::Timestamp;
use crate::clock::user_code::survive;
use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;
use core::task::Waker;

/// Where a [`Clock::custom`](crate::Clock::custom) gets the time from: a simulator, a hardware timer, a
/// recorded trace.
///
/// It should not run backward; if it does, limiters refuse more than they need to, and never grant
/// anything extra. It must not call a limiter that runs on it: a limiter reads its clock while it
/// holds a lock when it changes its quota or takes something back.
///
/// It should not panic. With the feature `std`, the panic ends at the clock: the panic hook reports it, and the clock
/// returns the latest time that it has returned before. So no permit and no token is lost, and no queue stands still.
/// A [`wake_at`](Self::wake_at) that panics counts as one that returns `false`. Without `std`, the panic reaches the
/// caller, and what the caller was doing may be half done.
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
    /// Nanoseconds since an origin of your choice.
    fn now_ns(&self) -> u64;

    /// Has `waker` woken when this source tells `at` or later, and answers `true`; or answers `false`, which is
    /// what it does unless you write it.
    ///
    /// After `false`, whoever waits sleeps for as long in real time as the source still has to go, looks at it again,
    /// and so on: right for a source that keeps step with real time, late for one that runs ahead of it, look after look
    /// for one that lags or stands still. Without the feature `std` there is nothing to sleep on, and it is look after
    /// look for every source.
    ///
    /// After `true`, whoever waits relies on it. A source that tells `at` already wakes at once. To wake too early,
    /// twice, or somebody who has given up does no harm: the woken look at the clock, and ask again if they have to.
    /// For a clone of `waker` the source finds room itself; clones of equal wakers can be told by
    /// [`Waker::will_wake`]. Wake it with no lock held: it may call this source.
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

    /// What this source tells at `instant`, or at its origin for an earlier one; `None`, unless you write it: it does not know.
    /// For deadlines that are told as an [`Instant`](std::time::Instant) ([`Deadline`](crate::Deadline)).
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
    /// The latest that `source` has told.
    latest_ns: AtomicU64,
}

impl Custom {
    pub(super) fn new(source: impl Source + 'static) -> Self {
        Self {
            source: Box::new(source),
            latest_ns: AtomicU64::new(0),
        }
    }

    /// The latest that was told before, if the source panics: an old time grants nothing extra.
    pub(super) fn now(&self) -> Timestamp {
        let now_ns = match survive(|| self.source.now_ns()) {
            Some(now_ns) => now_ns,
            None => self.latest_ns.load(Ordering::Acquire),
        };
        self.latest_ns.fetch_max(now_ns, Ordering::AcqRel);
        Timestamp::from_nanos(now_ns)
    }

    /// Whether the source is going to wake `waker` at `at`.
    pub(super) fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        survive(|| self.source.wake_at(at, waker)).unwrap_or(false)
    }

    /// As the source knows it; none if that panics.
    #[cfg(feature = "std")]
    pub(super) fn timestamp_of(&self, instant: std::time::Instant) -> Option<Timestamp> {
        survive(|| self.source.timestamp_of(instant)).flatten()
    }

    pub(super) fn latest(&self) -> Timestamp {
        self.now();
        Timestamp::from_nanos(self.latest_ns.load(Ordering::Acquire))
    }
}

use super::Timestamp;
use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// Where a [`Clock::custom`](crate::Clock::custom) gets the time from: a simulator, a hardware timer, a
/// recorded trace.
///
/// It should not run backward; if it does, limiters refuse more than they need to, and never grant
/// anything extra. It must not call a limiter that runs on it: a limiter reads its clock while it
/// holds a lock when it changes its quota or takes something back.
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

    pub(super) fn now(&self) -> Timestamp {
        let now_ns = self.source.now_ns();
        self.latest_ns.fetch_max(now_ns, Ordering::AcqRel);
        Timestamp::from_nanos(now_ns)
    }

    pub(super) fn latest(&self) -> Timestamp {
        self.now();
        Timestamp::from_nanos(self.latest_ns.load(Ordering::Acquire))
    }
}

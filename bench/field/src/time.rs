//! One settable time for every crate that takes its time from a clock of the caller's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use clock_lib::{Monotonic, Wall};
use governor::nanos::Nanos;

/// Nanoseconds since the limiter was built. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct Time(Arc<AtomicU64>);

impl Time {
    /// Makes it `ns`, forward or backward.
    pub fn set(&self, ns: u64) {
        self.0.store(ns, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl governor::clock::Clock for Time {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.get().into()
    }
}

impl ratelimit::Clock for Time {
    fn elapsed(&self) -> Duration {
        self.get()
    }
}

impl clock_lib::Clock for Time {
    fn now(&self) -> Monotonic {
        // Readings are opaque, so the times of all limiters count from one of them.
        static ORIGIN: LazyLock<Monotonic> = LazyLock::new(Monotonic::now);
        ORIGIN.saturating_add(self.get())
    }

    fn wall(&self) -> Wall {
        Wall::UNIX_EPOCH
    }
}

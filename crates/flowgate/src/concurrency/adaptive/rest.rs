//! Limits below one permit: a permit comes back some time after its call.

use crate::clock::Clock;
use crate::clock::alarm::Alarm;
use crate::concurrency::limit::ConcurrencyLimit;
use crate::primitive::{AtomicU64, Lock, Ordering};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;
use core::time::Duration;

/// The longest rest, 5 s: no limit and no latency holds calls back for longer.
const LONGEST_NS: u64 = 5_000_000_000;

/// The permits that rest after the latest call.
#[derive(Debug)]
pub(super) struct Rest(Lock<Option<(Alarm, Arc<Resting>)>>);

/// Permits that are still in use, although their call is over.
#[derive(Debug)]
struct Resting {
    permits: Arc<ConcurrencyLimit>,
    /// 0 once they have been given back.
    n: AtomicU64,
}

impl Resting {
    fn give_back(&self) {
        // AcqRel: what the call did happens before the next one.
        self.permits.give_back(self.n.swap(0, Ordering::AcqRel));
    }
}

impl Wake for Resting {
    fn wake(self: Arc<Self>) {
        self.give_back();
    }
}

impl Rest {
    pub(super) fn new() -> Self {
        Self(Lock::new(None))
    }

    /// Gives `n` permits back after `rest_ns`. If others still rest, they come back now.
    pub(super) fn begin(
        &self,
        permits: &Arc<ConcurrencyLimit>,
        clock: &Clock,
        n: u64,
        rest_ns: u64,
    ) {
        let resting = Arc::new(Resting {
            permits: Arc::clone(permits),
            n: AtomicU64::new(n),
        });
        let until = clock.now() + Duration::from_nanos(rest_ns.min(LONGEST_NS));
        let alarm = clock.alarm(until, Waker::from(Arc::clone(&resting)));
        // Neither the alarm nor the permits are dropped under the lock.
        let before = self.0.lock().replace((alarm, resting));
        if let Some((_alarm, resting)) = before {
            resting.give_back();
        }
    }
}

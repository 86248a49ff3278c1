use super::{Clock, Source, Timestamp};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

impl Clock {
    /// Returns a clock over tokio's time, which a test can pause.
    ///
    /// The time is that of [`tokio::time::Instant`]. Under a paused clock, waits take no real time. They end in their order,
    /// together with `tokio::time::sleep` and `timeout`. With any other clock, a test under a paused clock times out, because
    /// tokio sees no wait of its own.
    ///
    /// ```
    /// use flowgate::{Clock, TokenBucket};
    /// use std::time::Duration;
    /// use tokio::time::{Instant, timeout};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// // #[tokio::test(start_paused = true)]
    /// let limiter = TokenBucket::builder("1/min burst 1".parse()?).clock(Clock::tokio()).build()?;
    /// limiter.try_acquire()?;
    /// let began = Instant::now();
    /// assert!(timeout(Duration::from_secs(59), limiter.acquire()).await.is_err());
    /// timeout(Duration::from_secs(2), limiter.acquire()).await??;
    /// assert_eq!(began.elapsed(), Duration::from_secs(60));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Each call creates a separate clock. Clone it if limiters have to share one, as in a [`Gate`](crate::Gate). Create it in
    /// the runtime in which it is used.
    ///
    /// # Precision
    ///
    /// Waits wake up by tokio's timers, which have a resolution of 1 ms. So they wake up to 1 ms later than with flowgate's
    /// timer. The grants and their times do not change. A wait outside a runtime, or in a runtime without timers, sleeps in
    /// real time.
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn tokio() -> Self {
        Self::custom(TokioTime {
            origin: Instant::now(),
            waiting: Arc::default(),
        })
    }
}

struct TokioTime {
    origin: Instant,
    waiting: Arc<Waiting>,
}

/// The wakers by the time in nanoseconds: one sleep for each time.
type Waiting = Mutex<BTreeMap<u64, Vec<Waker>>>;

impl Source for TokioTime {
    fn now_ns(&self) -> u64 {
        let nanos = self.origin.elapsed().as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    fn timestamp_of(&self, instant: std::time::Instant) -> Option<Timestamp> {
        let instant = Instant::from_std(instant);
        Some(Timestamp::ORIGIN + instant.saturating_duration_since(self.origin))
    }

    fn wake_at(&self, at: Timestamp, waker: &Waker) -> bool {
        let at_ns = at.as_nanos();
        let Some(deadline) = self.origin.checked_add(Duration::from_nanos(at_ns)) else {
            return false;
        };
        let Ok(runtime) = Handle::try_current() else {
            return false;
        };
        // If the runtime has no timers, it panics here, and not in a task.
        let sleep = sleep_until(deadline);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !waiting.contains_key(&at_ns);
        let wakers = waiting.entry(at_ns).or_default();
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(waiting);
        if is_new {
            let wake_up = WakeUp {
                waiting: Arc::clone(&self.waiting),
                at_ns,
            };
            runtime.spawn(async move {
                let _wake_up = wake_up;
                sleep.await;
            });
        }
        true
    }
}

/// Wakes the waiters for this time when it is dropped, also if the runtime ends before. They then wait in another way.
struct WakeUp {
    waiting: Arc<Waiting>,
    at_ns: u64,
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let wakers = waiting.remove(&self.at_ns);
        drop(waiting);
        for waker in wakers.into_iter().flatten() {
            waker.wake();
        }
    }
}

use super::Degrade;
use crate::clock::Timestamp;
use core::fmt;

/// Call in progress that a [`Degrade`] watches; dropping it ends the call.
///
/// | end of the call | counts as |
/// |---|---|
/// | [`finish`](Self::finish), or dropped, within the threshold | fast |
/// | … later | slow |
/// | still running after the threshold | slow, from then on |
/// | [`fail`](Self::fail) | slow, however quick |
/// | [`ignore`](Self::ignore) | not at all |
/// | forgotten ([`core::mem::forget`], a leak) | slow, for one window, then not at all |
///
/// > **Warning:** a call that is given up early is dropped early, and counts as fast. This happens if a timeout is shorter than
/// > the threshold, or if a future is cancelled. Call [`fail`](Self::fail) or [`ignore`](Self::ignore) in that case.
///
/// ```
/// use flowgate::{Degrade, ManualClock};
/// use std::time::Duration;
///
/// let time = ManualClock::new();
/// let degrade = Degrade::builder(Duration::from_millis(100)).clock(&time).build()?;
/// let quick = degrade.start();
/// let refused = degrade.start();
/// let _still_running = degrade.start();
/// refused.fail();
/// time.advance(Duration::from_millis(20));
/// quick.finish();
///
/// time.advance(Duration::from_secs(1));
/// let seen = degrade.slow_calls();
/// assert_eq!((seen.calls, seen.slow), (3, 2));
/// # Ok::<(), flowgate::QuotaError>(())
/// ```
#[must_use = "a call that is dropped immediately has taken no time"]
pub struct DegradeCall<'a> {
    degrade: &'a Degrade,
    start_ns: u64,
    /// Where it is counted, if it is, and for as long as it has not ended.
    bucket: Option<u64>,
}

impl<'a> DegradeCall<'a> {
    pub(super) fn new(degrade: &'a Degrade, start_ns: u64, bucket: Option<u64>) -> Self {
        Self {
            degrade,
            start_ns,
            bucket,
        }
    }

    /// Returns when the call began.
    pub fn began(&self) -> Timestamp {
        Timestamp::from_nanos(self.start_ns)
    }

    /// Ends the call as successful. Dropping it does the same.
    pub fn finish(self) {}

    /// Ends the call at the timestamp `now`, for a [`Degrade`] used through [`Degrade::at`].
    ///
    /// ```
    /// # use flowgate::{Degrade, Timestamp};
    /// # use std::time::Duration;
    /// let degrade = Degrade::new(Duration::from_millis(100))?;
    /// let call = degrade.at(Timestamp::from_nanos(60_000_000_000)).start();
    /// let began = call.began();
    /// call.finish_at(began + Duration::from_millis(20));
    /// assert_eq!(degrade.at(began + Duration::from_secs(1)).slow_calls().slow, 0);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn finish_at(mut self, now: Timestamp) {
        self.end(|| now);
    }

    /// Ends the call as failed: it counts as slow, however quick it was.
    ///
    /// So quick failures do not hide slow calls.
    pub fn fail(mut self) {
        // A call that is not marked as fast is slow.
        self.bucket = None;
    }

    /// Stops counting the call, as if it had never begun.
    ///
    /// Use it for calls that take long by design, and for calls that do not depend on the watched service. If the call
    /// contributed to the current level, that level stays until the next judgment.
    ///
    /// ```
    /// # use flowgate::{Degrade, ManualClock};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let degrade = Degrade::builder(Duration::from_millis(100)).clock(&time).build()?;
    /// let report = degrade.start();
    /// time.advance(Duration::from_secs(1)); // it is meant to take that long
    /// report.ignore();
    /// assert_eq!(degrade.slow_calls().calls, 0);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn ignore(mut self) {
        if let Some(bucket) = self.bucket.take() {
            self.degrade.record.forget(bucket);
        }
    }

    fn end(&mut self, now: impl FnOnce() -> Timestamp) {
        if let Some(bucket) = self.bucket.take() {
            // If the clock ran backward in between, the call took no time.
            let took_ns = now().as_nanos().saturating_sub(self.start_ns);
            if took_ns <= self.degrade.rules.slow_ns {
                self.degrade.record.end_fast(bucket);
            }
        }
    }
}

impl Drop for DegradeCall<'_> {
    fn drop(&mut self) {
        let clock = self.degrade.clock();
        self.end(|| clock.now());
    }
}

impl fmt::Debug for DegradeCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DegradeCall")
            .field("began", &self.began())
            .finish_non_exhaustive()
    }
}

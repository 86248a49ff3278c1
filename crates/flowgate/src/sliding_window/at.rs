use super::SlidingWindow;
use crate::at::At;
use crate::limiter::Snapshot;
use crate::verdict::{Denied, duration_from_nanos};

impl At<'_, SlidingWindow> {
    /// [`SlidingWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.limiter.log.take_token(self.now_ns)
    }

    /// [`SlidingWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.limiter.log.take_units(self.now_ns, n)
    }

    /// [`SlidingWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        self.limiter.log.take_up_to(self.now_ns, n)
    }

    /// [`SlidingWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.limiter.log.refund(|| self.now_ns, n)
    }

    /// [`SlidingWindow::available`].
    pub fn available(self) -> u64 {
        self.snapshot().remaining
    }

    /// [`SlidingWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let (limit, remaining, empty_ns) = self.limiter.log.look(self.now_ns);
        Snapshot {
            limit,
            remaining,
            reset_after: duration_from_nanos(empty_ns),
        }
    }
}

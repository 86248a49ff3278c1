use super::SegmentedWindow;
use crate::at::At;
use crate::limiter::Snapshot;
use crate::quota::{Quota, QuotaError};
use crate::verdict::{Denied, duration_from_nanos};

impl At<'_, SegmentedWindow> {
    /// [`SegmentedWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.limiter.segments.take_token(self.now_ns)
    }

    /// [`SegmentedWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.limiter.segments.take_units(self.now_ns, n)
    }

    /// [`SegmentedWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        self.limiter.segments.take_up_to(self.now_ns, n)
    }

    /// [`SegmentedWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.limiter.segments.refund(self.now_ns, n)
    }

    /// [`SegmentedWindow::available`].
    pub fn available(self) -> u64 {
        self.snapshot().remaining
    }

    /// [`SegmentedWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let (limit, remaining, empty_ns) = self.limiter.segments.look(self.now_ns);
        Snapshot {
            limit,
            remaining,
            reset_after: duration_from_nanos(empty_ns),
        }
    }

    /// [`SegmentedWindow::set_quota`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        self.limiter
            .segments
            .set_quota(quota, || (self.now_ns, self.now_ns))
    }
}

use super::SegmentedWindow;
use crate::at::At;
use crate::limiter::Snapshot;
use crate::quota::{Quota, QuotaError};
use crate::verdict::{Denied, duration_from_nanos};
use core::time::Duration;

impl At<'_, SegmentedWindow> {
    /// [`SegmentedWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.pass(None)?;
        self.limiter.segments.take_token(self.now_ns)
    }

    /// [`SegmentedWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.pass(Some(n))?;
        self.limiter.segments.take_units(self.now_ns, n)
    }

    /// Unless others wait, whom that would overtake.
    #[inline(always)]
    fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// [`SegmentedWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        if self.pass(Some(n.min(1))).is_err() {
            return 0;
        }
        self.limiter.segments.take_up_to(self.now_ns, n)
    }

    /// [`SegmentedWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.limiter.refund_at(n, self.now_ns)
    }

    /// [`SegmentedWindow::available`].
    pub fn available(self) -> u64 {
        if self.pass(None).is_err() {
            return 0;
        }
        let (_, remaining, _) = self.limiter.segments.look(self.now_ns);
        remaining
    }

    /// [`SegmentedWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let limit = self.limiter.segments.limit();
        if let Err(denied) = self.pass(Some(limit)) {
            return Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            };
        }
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
            .change_quota(quota, || (self.now_ns, self.now_ns))
    }
}

impl SegmentedWindow {
    pub(super) fn refund_at(&self, n: u64, now_ns: u64) -> u64 {
        let _change = self.room.change(self);

        self.segments.refund(now_ns, n)
    }

    /// `times_ns` tells the time, and the latest that it has been.
    pub(super) fn change_quota(
        &self,
        quota: Quota,
        times_ns: impl Fn() -> (u64, u64),
    ) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        self.segments.set_quota(quota, times_ns)?;
        Ok(())
    }
}

use super::SlidingWindow;
use crate::at::At;
use crate::limiter::Snapshot;
use crate::verdict::{Denied, duration_from_nanos};
use core::time::Duration;

impl At<'_, SlidingWindow> {
    /// [`SlidingWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.pass(None)?;
        self.limiter.log.take_token(self.now_ns)
    }

    /// [`SlidingWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.pass(Some(n))?;
        self.limiter.log.take_units(self.now_ns, n)
    }

    /// Unless others wait, whom that would overtake.
    #[inline(always)]
    fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// [`SlidingWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        if self.pass(Some(n.min(1))).is_err() {
            return 0;
        }
        self.limiter.log.take_up_to(self.now_ns, n)
    }

    /// [`SlidingWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.limiter.refund_at(n, || self.now_ns)
    }

    /// [`SlidingWindow::available`].
    pub fn available(self) -> u64 {
        if self.pass(None).is_err() {
            return 0;
        }
        let (_, remaining, _) = self.limiter.log.look(self.now_ns);
        remaining
    }

    /// [`SlidingWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let limit = self.limiter.log.limit();
        if let Err(denied) = self.pass(Some(limit)) {
            return Snapshot {
                limit,
                remaining: 0,
                reset_after: denied.retry_after().unwrap_or(Duration::MAX),
            };
        }
        let (limit, remaining, empty_ns) = self.limiter.log.look(self.now_ns);
        Snapshot {
            limit,
            remaining,
            reset_after: duration_from_nanos(empty_ns),
        }
    }
}

impl SlidingWindow {
    pub(super) fn refund_at(&self, n: u64, now_ns: impl Fn() -> u64) -> u64 {
        let _change = self.room.change(self);

        self.log.refund(now_ns, n)
    }
}

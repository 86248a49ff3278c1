use super::{FixedWindow, MAX_LIMIT, Settings, count_bits};
use crate::algorithm::fixed_window;
use crate::at::At;
use crate::limiter::Snapshot;
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use crate::word::{Parameters, Step, View};
use core::time::Duration;

impl At<'_, FixedWindow> {
    /// [`FixedWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        self.limiter.word.take_token(self.now_ns)
    }

    /// [`FixedWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        self.limiter.word.take_units(self.now_ns, n)
    }

    /// [`FixedWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        self.limiter
            .word
            .update(self.now_ns, |view| match n.min(view.left()) {
                0 => Step::Stay(0),
                n => Step::Move(view.window() + u128::from(n), n),
            })
    }

    /// [`FixedWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        self.limiter
            .word
            .update(self.now_ns, |view| match n.min(view.used()) {
                0 => Step::Stay(0),
                n => Step::Move(view.state - u128::from(n), n),
            })
    }

    /// [`FixedWindow::available`].
    pub fn available(self) -> u64 {
        self.limiter.word.view(self.now_ns).left()
    }

    /// [`FixedWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        let view = self.limiter.word.view(self.now_ns);
        Snapshot {
            limit: view.parameters.burst_units,
            remaining: view.left(),
            reset_after: match view.used() {
                0 => Duration::ZERO,
                _ => {
                    let ns = u128::from(view.parameters.ticks_per_ns);
                    let left = fixed_window::end(view.state, ns) - view.now;
                    view.denied(left).retry_after().unwrap_or_default()
                }
            },
        }
    }

    /// [`FixedWindow::set_quota`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        let mut settings = self.limiter.settings.lock();
        let new = Settings { quota, ..*settings };
        self.limiter.restate(&new, || self.now_ns)?;
        *settings = new;
        Ok(())
    }
}

impl FixedWindow {
    /// Puts `new` in force. What is counted in an open window stays counted until that is over, which is
    /// when it has lasted as long as the shorter of the old and the new windows, and a new window is
    /// due.
    pub(super) fn restate(
        &self,
        new: &Settings,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let (limit, window_ns) = limit_of(&new.quota)?;
        self.word.reconfigure(|old, state| {
            let now_ns = now_ns();
            let ns = u128::from(old.ticks_per_ns);
            let open = fixed_window::is_open(state, old.now_ticks(now_ns), ns);
            let used = if open {
                fixed_window::count(state, ns)
            } else {
                0
            };
            let parameters = new.parameters(limit, window_ns, count_bits(limit.max(used as u64)));
            let end_ns = if open {
                let began_ns =
                    (fixed_window::end(state, ns) / ns).saturating_sub(u128::from(old.window_ns));
                parameters.kept_until_ns(began_ns, u128::from(old.window_ns), now_ns)
            } else {
                0
            };
            let state = match end_ns > u128::from(now_ns) {
                true => end_ns * u128::from(parameters.ticks_per_ns) + used,
                false => 0,
            };
            let layout = parameters.layout_for(now_ns, state);
            (
                Parameters {
                    layout,
                    ..parameters
                },
                state,
                (),
            )
        });
        Ok(())
    }
}

/// Limit and length of the windows that `quota` stands for.
pub(super) fn limit_of(quota: &Quota) -> Result<(u64, u64), QuotaError> {
    match quota.window()? {
        (limit, _) if limit > MAX_LIMIT => Err(QuotaError::out_of_range(
            "the limit of a fixed window",
            limit,
            1,
            MAX_LIMIT,
        )),
        window => Ok(window),
    }
}

impl Parameters {
    /// When the window that contains `now_ns` and begins with it, or on the grid, ends.
    fn window_end_ns(&self, now_ns: u64) -> u128 {
        let (now, window) = (u128::from(now_ns), u128::from(self.window_ns));
        match self.grid_ns.map(u128::from) {
            None => now + window,
            Some(grid) if now < grid => grid,
            Some(grid) => (now - grid) / window * window + grid + window,
        }
    }

    /// How long what was counted since `began_ns`, in a window of `old_ns`, counts in these windows.
    fn kept_until_ns(&self, began_ns: u128, old_ns: u128, now_ns: u64) -> u128 {
        if self.grid_ns.is_none() {
            return began_ns + u128::from(self.window_ns);
        }
        let least_ns =
            (began_ns + old_ns.min(u128::from(self.window_ns))).max(u128::from(now_ns) + 1);
        // The first end at or after it.
        let before_ns = u64::try_from(least_ns - 1).unwrap_or(u64::MAX);
        self.window_end_ns(before_ns)
    }
}

impl View {
    /// The state of the window that this instant counts in: the open one, or one that nothing is counted in, which
    /// is not an earlier one than there has been already.
    pub(crate) fn window(&self) -> u128 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        if fixed_window::is_open(self.state, self.now, ns) {
            self.state
        } else {
            let end = self.parameters.window_end_ns(self.now_ns()) * ns;
            end.max(fixed_window::end(self.state, ns))
        }
    }

    fn used(&self) -> u64 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        if fixed_window::is_open(self.state, self.now, ns) {
            // Less than 2⁴⁸.
            fixed_window::count(self.state, ns) as u64
        } else {
            0
        }
    }

    fn left(&self) -> u64 {
        self.parameters.burst_units.saturating_sub(self.used())
    }
}

use super::{FixedWindow, Kept, MAX_LIMIT, Settings, count_bits};
use crate::algorithm::fixed_window;
use crate::limiter::At;
use crate::limiter::Snapshot;
use crate::quota::{Quota, QuotaError};
use crate::verdict::Denied;
use crate::word::{self, Parameters, Rule, Step, View};
use core::time::Duration;

impl At<'_, FixedWindow> {
    /// [`FixedWindow::try_acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire(self) -> Result<(), Denied> {
        let Self {
            limiter, now_ns, ..
        } = self;
        let door = move || limiter.room.pass(limiter, now_ns, None);
        self.limiter.word.take_token(self.now_ns, door)
    }

    /// [`FixedWindow::try_acquire_n`].
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_acquire_n(self, n: u64) -> Result<(), Denied> {
        let Self {
            limiter, now_ns, ..
        } = self;
        let door = move || limiter.room.pass(limiter, now_ns, Some(n));
        self.limiter.word.take_units(self.now_ns, n, door)
    }

    /// Unless others wait, whom that would overtake.
    fn pass(self, units: Option<u64>) -> Result<(), Denied> {
        self.limiter.room.pass(self.limiter, self.now_ns, units)
    }

    /// [`FixedWindow::take_up_to`].
    pub fn take_up_to(self, n: u64) -> u64 {
        self.draw(0, n).unwrap_or(0)
    }

    /// [`FixedWindow::draw_now`].
    pub(super) fn draw(self, min: u64, max: u64) -> Result<u64, Denied> {
        self.pass(Some(max.max(min).min(1)))?;
        self.limiter.word.update(self.now_ns, |view| {
            let limit = view.parameters.burst_units;
            if min > limit {
                return Step::Stay(Err(Denied::never(min, limit)));
            }
            match max.max(min).min(view.left()) {
                n if n < min => {
                    let taken = word::FixedWindow::take(view, view.parameters.ticks(min));
                    let missing = taken.err().unwrap_or_default();
                    Step::Stay(Err(view.denied(missing)))
                }
                0 => Step::Stay(Ok(0)),
                n => Step::Move(view.window() + u128::from(n), Ok(n)),
            }
        })
    }

    /// [`FixedWindow::refund`].
    pub fn refund(self, n: u64) -> u64 {
        let _change = self.limiter.room.change(self.limiter);
        let mut settings = self.limiter.settings.lock();
        self.limiter
            .uncount(&mut settings, self.now_ns, |_| (n, false))
    }

    /// [`FixedWindow::available`].
    pub fn available(self) -> u64 {
        if self.pass(None).is_err() {
            return 0;
        }
        self.limiter.word.look(self.now_ns, |view| view.left())
    }

    /// [`FixedWindow::snapshot`].
    pub fn snapshot(self) -> Snapshot {
        if self.limiter.room.is_held() {
            let limit = self.limiter.word.view(self.now_ns).parameters.burst_units;
            if let Err(denied) = self.pass(Some(limit)) {
                return Snapshot {
                    limit,
                    remaining: 0,
                    reset_after: denied.retry_after().unwrap_or(Duration::MAX),
                };
            }
        }
        self.limiter.word.look(self.now_ns, |view| {
            let limit = view.parameters.burst_units;
            Snapshot {
                limit,
                remaining: view.left(),
                reset_after: match view.resets_after() {
                    0 => Duration::ZERO,
                    ticks => view.denied(ticks).retry_after().unwrap_or_default(),
                },
            }
        })
    }

    /// [`FixedWindow::set_quota`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_quota(self, quota: Quota) -> Result<(), QuotaError> {
        let change = |settings| Settings { quota, ..settings };
        self.limiter.change(change, || self.now_ns)
    }
}

impl FixedWindow {
    /// Puts in force what `change` makes of the settings. What is counted stays counted until the window that it was
    /// counted in has lasted as long as it had to, and a new one is due.
    pub(super) fn change(
        &self,
        change: impl FnOnce(Settings) -> Settings,
        now_ns: impl Fn() -> u64,
    ) -> Result<(), QuotaError> {
        let _change = self.room.reconfigure(self);
        let mut settings = self.settings.lock();
        let new = change(*settings);
        let (limit, window_ns) = limit_of(&new.quota)?;
        let (kept, rescaled_ns, stands_in_ns) = self.word.reconfigure(|old, state| {
            let ns = u128::from(old.ticks_per_ns);
            let end_ns = fixed_window::end(state, ns) / ns;
            let used = fixed_window::count(state, ns) * u128::from(new.quota.scale());
            let used = used
                .div_ceil(u128::from(old.units_per_token))
                .min(u128::from(MAX_LIMIT));
            let window = Kept {
                end_ns,
                began_ns: match settings.kept {
                    Some(kept) if kept.end_ns == end_ns => kept.began_ns,
                    _ => end_ns as i128 - i128::from(old.window_ns),
                },
            };
            let now_ns = now_ns().max(old.since_ns);
            let parameters = |most: u64| new.parameters(limit, window_ns, count_bits(most));
            let until_ns = parameters(limit).kept_until_ns(window, old.window_ns, now_ns);
            let kept = until_ns.filter(|&until_ns| used > 0 && until_ns > u128::from(now_ns));
            let (end_ns, used) = match kept {
                Some(until_ns) => (until_ns, used),
                // Not an earlier one than there has been already.
                None => (parameters(limit).window_end_ns(now_ns), 0),
            };
            // Less than 2⁴⁸.
            let parameters = Parameters {
                epoch: old.epoch + 1,
                since_ns: now_ns,
                ..parameters(limit.max(used as u64))
            };
            let state = end_ns * u128::from(parameters.ticks_per_ns) + used;
            let layout = parameters.layout_for(now_ns, state);
            let kept = kept.map(|end_ns| Kept { end_ns, ..window });
            let is_rescaled = new.quota.scale() != old.units_per_token;
            let rescaled_ns = match is_rescaled {
                true => Some(now_ns),
                false => settings.rescaled_ns,
            };
            // In other units it counts as any other.
            let stood_in = settings.stands_in_ns == Some(window.end_ns) && !is_rescaled;
            let stands_in_ns = kept.filter(|_| stood_in).map(|kept| kept.end_ns);
            (
                Parameters {
                    layout,
                    ..parameters
                },
                state,
                (kept, rescaled_ns, stands_in_ns),
            )
        });
        *settings = Settings {
            kept,
            rescaled_ns,
            stands_in_ns,
            ..new
        };
        drop(settings);
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

    /// Until when what was counted in `window`, of `old_ns`, counts in these windows; `None`: no longer.
    ///
    /// A window that is open counts in the one that contains now, and none is opened twice because a grid has
    /// moved: that is why what was counted stays so until the window has lasted for its time, up to a
    /// tolerance for two readings of a wall clock, which never agree.
    fn kept_until_ns(&self, window: Kept, old_ns: u64, now_ns: u64) -> Option<u128> {
        const TOLERANCE_NS: u64 = 1_000_000_000;
        let is_open = u128::from(now_ns) < window.end_ns;
        let until_ns = match self.grid_ns {
            None if is_open => window.began_ns + i128::from(self.window_ns),
            None => return None,
            Some(grid_ns) => {
                let lasts_ns = old_ns.min(self.window_ns);
                let tolerance_ns = TOLERANCE_NS.min(lasts_ns / 1000);
                let mut least_ns = window.began_ns + i128::from(lasts_ns - tolerance_ns);
                if is_open {
                    least_ns = least_ns.max(i128::from(now_ns) + 1);
                }
                let (grid_ns, window_ns) = (i128::from(grid_ns), i128::from(self.window_ns));
                let windows = (least_ns - grid_ns + window_ns - 1).div_euclid(window_ns);
                grid_ns + windows * window_ns
            }
        };
        u128::try_from(until_ns).ok()
    }
}

impl View<'_> {
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

    pub(super) fn used(&self) -> u64 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        if fixed_window::is_open(self.state, self.now, ns) {
            // Less than 2⁴⁸.
            fixed_window::count(self.state, ns) as u64
        } else {
            0
        }
    }

    /// The most units that the current quota admits.
    pub(super) fn room(&self) -> u64 {
        self.parameters.burst_units.saturating_sub(self.used())
    }

    /// The most units that are admitted.
    pub(crate) fn left(&self) -> u64 {
        self.room().min(self.left_before_change())
    }

    /// How long it takes until the whole limit is admitted, in ticks.
    fn resets_after(&self) -> u128 {
        let ns = u128::from(self.parameters.ticks_per_ns);
        let left = match self.used() {
            0 => 0,
            _ => fixed_window::end(self.state, ns) - self.now,
        };
        left.max(self.wait_before_change(self.parameters.burst_ticks()))
    }
}

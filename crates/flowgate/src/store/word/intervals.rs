//! Limiter time that moves only at the end of an interval.

/// An [`Intervals::credited_ns`] that is not an instant of the clock.
pub(crate) const BEFORE_ORIGIN: u64 = u64::MAX;

/// When limiter time moves, and how far.
///
/// ```text
///   limiter time
///            │                          ╭────────
///            │            ╭─────────────╯
///   credited ┤     ╭──────╯                          the first interval is a part of one
///            │     ╎
///            └─────┴──────┬─────────────┬────────▶ clock
///               credited  end           end
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    pub(super) interval_ns: u64,
    /// Less than the interval; `None` only if limiter time moves continuously.
    pub(super) first_end_ns: Option<u64>,
    /// The instant until which everything that flowed in was credited when the first interval began. Limiter time stands still
    /// there until that interval ends. [`BEFORE_ORIGIN`]: the end of the interval before, which was before the clock's origin.
    pub(super) credited_ns: u64,
}

impl Intervals {
    /// Returns the limiter time when the clock shows `now_ns`.
    // Out of the way of decisions by time that flows.
    #[cold]
    #[inline(never)]
    pub(super) const fn limiter_ns(self, now_ns: u64) -> u128 {
        let Some(since_ns) = now_ns.checked_sub(self.first_end_ns()) else {
            return match self.credited_ns {
                credited_ns if credited_ns <= now_ns => credited_ns as u128,
                _ => 0,
            };
        };
        let ended_ns = now_ns - since_ns % self.interval_ns;
        match self.credited_ns {
            BEFORE_ORIGIN => ended_ns as u128 + self.lead_ns() as u128,
            credited_ns if ended_ns < credited_ns && credited_ns <= now_ns => credited_ns as u128,
            _ => ended_ns as u128,
        }
    }

    /// Returns what the clock first shows when limiter time is `ns` or later; `ns` is not 0.
    #[cold]
    #[inline(never)]
    pub(super) const fn next_move_ns(self, ns: u128) -> u128 {
        let (first, interval) = (self.first_end_ns() as u128, self.interval_ns as u128);
        let since = ns.saturating_sub(first + self.lead_ns() as u128);
        let ends = since.div_ceil(interval) * interval + first;
        match self.credited_ns {
            BEFORE_ORIGIN => ends,
            credited_ns if ns <= credited_ns as u128 && (credited_ns as u128) < ends => {
                credited_ns as u128
            }
            _ => ends,
        }
    }

    /// Returns how far limiter time is ahead of the clock at the end of an interval.
    ///
    /// Limiter time begins at 0. An interval that began before the clock's origin counts as a whole interval. So limiter time
    /// is ahead by the part of that interval before the origin.
    pub(super) const fn lead_ns(self) -> u64 {
        match self.credited_ns {
            BEFORE_ORIGIN => self.interval_ns - self.first_end_ns(),
            _ => 0,
        }
    }

    const fn first_end_ns(self) -> u64 {
        match self.first_end_ns {
            Some(first_end_ns) => first_end_ns,
            None => 0,
        }
    }
}

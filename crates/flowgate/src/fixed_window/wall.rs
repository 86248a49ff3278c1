//! Where the wall clock stands on the limiter's clock.

use super::FixedWindow;
use crate::clock::Clock;
use std::time::SystemTime;

impl FixedWindow {
    /// Lets windows begin where the wall clock shows a whole number of windows now; see
    /// [`FixedWindowBuilder::align_to_wall`](super::FixedWindowBuilder::align_to_wall).
    ///
    /// For a program that runs through a change of summer time, or on a machine whose wall clock is set now and
    /// then. However the wall clock has stepped, no window is opened twice: what is counted in the window
    /// that is open stays counted until the first full hour (say) after it has lasted an hour.
    ///
    /// ```
    /// # use flowgate::FixedWindow;
    /// let daily = FixedWindow::builder("1000/day".parse()?).align_to_wall(3600).build()?;
    /// // … at the end of March, and whenever the wall clock has been set:
    /// daily.align_to_wall(7200);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn align_to_wall(&self, utc_offset_s: i32) {
        self.align_to(begins_ns(&self.clock, utc_offset_s));
    }
}

/// The instant, on `clock`, at which the wall clock would have shown midnight of 1970-01-01.
///
/// The tightest of a few attempts, should the thread be interrupted between the two readings.
pub(super) fn begins_ns(clock: &Clock, utc_offset_s: i32) -> i128 {
    const TIGHT_NS: u64 = 10_000;
    let now_ns = || clock.now().as_nanos();
    let mut best: Option<(u64, i128)> = None;
    let mut before_ns = now_ns();
    for _ in 0..8 {
        let utc_ns = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => since.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        let after_ns = now_ns();
        let width_ns = after_ns.saturating_sub(before_ns);
        if best.is_none_or(|(narrowest_ns, _)| width_ns < narrowest_ns) {
            best = Some((width_ns, i128::from(before_ns) - utc_ns));
        }
        if width_ns < TIGHT_NS {
            break;
        }
        before_ns = after_ns;
    }
    let midnight_ns = best.map_or(0, |(_, midnight_ns)| midnight_ns);
    midnight_ns - i128::from(utc_offset_s) * 1_000_000_000
}

//! Following the wall clock.

use super::FixedWindow;
use crate::types::fixed_window::alignment::wall_midnight_ns;

impl FixedWindow {
    /// Aligns windows to what the wall clock shows now.
    ///
    /// [`FixedWindowBuilder::align_to_wall`](super::FixedWindowBuilder::align_to_wall) describes the alignment. Use this method
    /// in a program that runs through a change of summer time, or on a machine whose wall clock is sometimes set.
    ///
    /// However the wall clock has stepped, no window is opened twice. With windows of an hour, for example, units of the open
    /// window stay counted until the first full hour after that window has lasted an hour.
    ///
    /// ```
    /// # use flowgate::FixedWindow;
    /// let daily = FixedWindow::builder("1000/day".parse()?).align_to_wall(3600).build()?;
    /// // … at the end of March, and whenever the wall clock has been set:
    /// daily.align_to_wall(7200);
    /// # Ok::<(), flowgate::QuotaError>(())
    /// ```
    pub fn align_to_wall(&self, utc_offset_s: i32) {
        self.align_to(wall_midnight_ns(&self.clock, utc_offset_s));
    }
}

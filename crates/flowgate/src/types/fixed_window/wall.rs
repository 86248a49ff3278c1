//! Following the wall clock.

use super::FixedWindow;
use crate::types::fixed_window::alignment::wall_midnight_ns;

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
        self.align_to(wall_midnight_ns(&self.clock, utc_offset_s));
    }
}

//! What was admitted, over a restart: as a [sliding window](crate::types::sliding_window::admitted) keeps it, of each segment as if it
//! had been admitted at its end.

use super::segments::Segments;
use crate::limiter::state::{Exports, LimiterStateError, Numbers};
use alloc::vec::Vec;

impl Exports for Segments {
    fn export(&self, now_ns: u64) -> Vec<i128> {
        self.terms().exported(self.admitted(now_ns), now_ns)
    }

    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        self.terms().import(self, self.most(), taken, now_ns)
    }
}

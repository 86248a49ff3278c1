//! What was admitted, over a restart: when, and how many units.

use super::log::Log;
use crate::limiter::state::{Exports, LimiterStateError, Numbers};
use alloc::vec::Vec;

impl Exports for Log {
    fn export(&self, now_ns: u64) -> Vec<i128> {
        self.terms().exported(self.admitted(now_ns), now_ns)
    }

    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        self.terms().import(self, self.max_limit(), taken, now_ns)
    }
}

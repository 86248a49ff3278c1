//! The state over a restart: the level, and its age.

use super::level::Decaying;
use super::parameters::{Parameters, pack, unpack};
use crate::algorithm::decaying_bucket::{Bucket, State};
use crate::algorithm::half_life::{HalfLife, LEVEL_END};
use crate::limiter::state::{Exports, LimiterStateError, Numbers, ranges};
use alloc::vec;
use alloc::vec::Vec;

/// Levels in units are below this.
const UNITS_END: u64 = 1 << 33;

impl Exports for Decaying {
    fn export(&self, now_ns: u64) -> Vec<i128> {
        let (Parameters(bucket), bits) = self.cell.view();
        let State { time_ns, level } = unpack(bits);
        vec![
            bucket.half_life.ns.into(),
            bucket.unit_shift.into(),
            level.into(),
            i128::from(time_ns) - i128::from(now_ns),
        ]
    }

    /// Pours in what is left, which has decayed by the exporter's half-life until now.
    fn import(&self, taken: Numbers<'_>, now_ns: u64) -> Result<(), LimiterStateError> {
        let [half_life_ns, unit_shift, level, ahead] = taken.fields([
            1..=i64::MAX.into(),
            0..=32,
            0..=(LEVEL_END - 1).into(),
            ranges::TIME,
        ])?;
        let theirs = Bucket {
            unit_shift: unit_shift as u32,
            half_life: HalfLife::new(half_life_ns as u64),
            capacity_ticks: 0,
        };
        // Not later than now, by which what is here would decay, too.
        let since_ns = taken.instant_ns(ahead, now_ns).min(now_ns.into());
        self.cell.reconfigure(|Parameters(old), bits| {
            let own = unpack(bits);
            // The level that was exported, at its own time if this clock and this bucket have nothing before that.
            let is_first = own.level == 0 && old.half_life == theirs.half_life;
            let now_ns = if is_first { 0 } else { now_ns };
            let since = u64::try_from(since_ns).unwrap_or(0);
            let time_ns = own.time_ns.max(now_ns).max(since);
            let age_ns = u64::try_from(i128::from(time_ns) - since_ns).unwrap_or(0);
            let left = State {
                time_ns,
                level: theirs.half_life.left(level as u64, age_ns),
            };
            let own = own.at(time_ns, old);
            let units = |level: u64, bucket: &Bucket| level.div_ceil(1 << bucket.unit_shift);
            let units = units(left.level, &theirs) + units(own.level, old);
            let new = Bucket::new(old.capacity(), old.half_life, units.min(UNITS_END - 1));
            let level = own.in_ticks_of(&new, old).level;
            let level = level.saturating_add(left.in_ticks_of(&new, &theirs).level);
            let level = level.min(LEVEL_END - 1);
            (Parameters(new), pack(State { time_ns, level }), ())
        });
        Ok(())
    }
}

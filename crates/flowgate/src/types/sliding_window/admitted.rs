//! The admissions of a window and their times, as numbers for another process.
//!
//! They are those of a sliding window, or of a segmented one, as segments.

use crate::limiter::state::{LimiterStateError, Needed, Numbers, ranges};
use crate::store::ring::sums::Sums;
use alloc::vec;
use alloc::vec::Vec;

/// Units, and the latest time at which they can have been admitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) time_ns: u64,
    pub(crate) units: u64,
}

/// How admissions are counted here, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) window_ns: u64,
    pub(crate) segment_ns: u64,
    /// How long an admission counts, from the beginning of its segment.
    pub(crate) lasts_ns: u64,
    pub(crate) units_per_token: u64,
}

impl Terms {
    /// The window, the units of a token, and then pairs of time and units.
    pub(crate) fn exported(self, admitted: Vec<Admitted>, now_ns: u64) -> Vec<i128> {
        let mut numbers = vec![self.window_ns.into(), self.units_per_token.into()];
        numbers.extend(
            admitted
                .into_iter()
                .flat_map(|Admitted { time_ns, units }| {
                    [i128::from(time_ns) - i128::from(now_ns), units.into()]
                }),
        );
        numbers
    }

    /// Returns the exported pairs that still count, in these units. The exporter's window must be at least as long. A time
    /// before this clock's origin becomes the origin.
    fn read(self, taken: Numbers<'_>, now_ns: u64) -> Result<Vec<Admitted>, LimiterStateError> {
        let ([window_ns, units_per_token], admitted) = taken.fields_and_pairs(
            [ranges::DIVISOR, ranges::DIVISOR],
            [ranges::TIME, ranges::AMOUNT],
        )?;
        let window_ns = window_ns as u64;
        if window_ns < self.window_ns {
            // Nothing is known of the time before its window.
            let needed = Needed::AtLeast(self.window_ns);
            let name = "a window in nanoseconds";
            return Err(LimiterStateError::setting(name, window_ns, needed));
        }
        let segment_ns = i128::from(self.segment_ns);
        let admitted = admitted.into_iter().filter_map(|[ahead, units]| {
            // Not later than now, because that would move the time of all admissions here.
            let time_ns = taken.instant_ns(ahead, now_ns).min(now_ns.into());
            let segment_began_ns = time_ns.div_euclid(segment_ns) * segment_ns;
            let leaves_ns = segment_began_ns + i128::from(self.lasts_ns);
            let units = units as u128 * u128::from(self.units_per_token);
            let units = units.div_ceil(units_per_token as u128);
            (leaves_ns > i128::from(now_ns)).then_some(Admitted {
                time_ns: u64::try_from(time_ns).unwrap_or(0),
                units: u64::try_from(units).unwrap_or(u64::MAX),
            })
        });
        Ok(admitted.collect())
    }

    /// Appends what was exported to `sums`, which remember at least `most` units.
    pub(crate) fn import(
        self,
        sums: &impl Sums,
        most: u64,
        taken: Numbers<'_>,
        now_ns: u64,
    ) -> Result<(), LimiterStateError> {
        let mut admitted = self.read(taken, now_ns)?;
        // The newest come first. No limit asks for more than that.
        let mut room = most;
        for admitted in &mut admitted {
            admitted.units = admitted.units.min(room);
            room -= admitted.units;
        }
        admitted.retain(|admitted| admitted.units > 0);
        for Admitted { time_ns, units } in admitted.into_iter().rev() {
            while !sums.append(&sums.settled_view(time_ns), units) {}
        }
        Ok(())
    }
}

//! The instant from which windows and intervals are counted.

use crate::clock::{Clock, Timestamp};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Alignment {
    /// Not aligned: the limiter determines where a window begins.
    Free,
    To(Timestamp),
    #[cfg(feature = "std")]
    ToWall {
        utc_offset_s: i32,
    },
}

impl Alignment {
    /// An instant on `clock` at which a window begins; it may be before the clock's origin.
    pub(crate) fn begins_ns(self, clock: &Clock) -> Option<i128> {
        let _ = clock;
        match self {
            Self::Free => None,
            Self::To(begins) => Some(i128::from(begins.as_nanos())),
            #[cfg(feature = "std")]
            Self::ToWall { utc_offset_s } => Some(wall_midnight_ns(clock, utc_offset_s)),
        }
    }
}

/// The instant, on `clock`, at which the wall clock would have shown midnight of 1970-01-01, `utc_offset_s` seconds
/// east of UTC.
///
/// The tightest of a few attempts, should the thread be interrupted between the two readings.
#[cfg(feature = "std")]
pub(crate) fn wall_midnight_ns(clock: &Clock, utc_offset_s: i32) -> i128 {
    use std::time::SystemTime;

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
